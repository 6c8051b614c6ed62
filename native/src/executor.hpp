// Runs a plan on steps: the native side of ops.backend.Executable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checks.hpp"
#include "pass.hpp"
#include "prefill.hpp"
#include "sampler.hpp"
#include "team.hpp"

namespace headrace {

class Executor final : private Work {
public:
    // prefill: what computes a prompt beside the steps, if anything shall; on the same cache.
    Executor(std::shared_ptr<Team>, const Kernels&, std::unique_ptr<Plan>, std::unique_ptr<Prefill> prefill = nullptr);
    ~Executor() override;

    // Checks and copies the batch, starts its forward pass and returns. Before the batch the
    // prompt beside it is gone on with for so many seconds; with them, the batch may be empty.
    void launch(const BatchView&, double slice_seconds = 0);
    void wait();
    // After wait(): [rows][width], valid until the next launch.
    std::span<float> logits();
    int logit_rows() const { return batch_.step().rows(Rows::kSelected); }
    int logit_width() const { return batch_.plan().logits_buffer().width; }
    // Waits; a sample for each row, of the ids below the vocabulary's end.
    std::vector<RowSample> sample(const SamplingView&);

    // Takes up a prompt beside the steps: as of Prefill.
    void begin(std::vector<std::int32_t> tokens, int position, std::vector<std::int32_t> blocks);
    // After wait(): what the step did for it.
    Slice slice() const { return slice_; }

private:
    int next() override;
    void task(int member, int index) override;

    std::shared_ptr<Team> team_;
    const Kernels& kernels_;
    Pass batch_;
    std::unique_ptr<Prefill> prefill_;
    bool slicing_ = false;  // the prompt's slice is under way, not yet the batch
    Slice slice_;           // of the last step
    bool launched_ = false;
    std::size_t logits_capacity_ = 0;
    std::unique_ptr<float[]> logits_;
    std::vector<std::vector<float>> scratch_;  // one a member
    std::vector<SamplingScratch> sampling_;    // one a member
};

}  // namespace headrace
