// Runs a plan on steps: the native side of ops.backend.Executable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checks.hpp"
#include "program.hpp"
#include "sampler.hpp"
#include "team.hpp"

namespace headrace {

class Executor final : private Work {
public:
    Executor(std::shared_ptr<Team>, const Kernels&, std::unique_ptr<Plan>);
    ~Executor() override;

    // Checks and copies the batch, starts its forward pass and returns.
    void launch(const BatchView&);
    void wait();
    // After wait(): [rows][width], valid until the next launch.
    std::span<float> logits();
    int logit_rows() const { return step_.rows(Rows::kSelected); }
    int logit_width() const { return plan_->logits_buffer().width; }
    // Waits; a sample for each row, of the ids below the vocabulary's end.
    std::vector<RowSample> sample(const SamplingView&);

private:
    void prepare(const BatchView&);
    void cut(int sequence, int first, int end);
    int next() override;
    void task(int member, int index) override;

    std::shared_ptr<Team> team_;
    const Kernels& kernels_;
    std::unique_ptr<Plan> plan_;
    Step step_;
    std::size_t cursor_ = 0;  // the region after the one under way
    bool launched_ = false;
    std::size_t logits_capacity_ = 0;
    std::unique_ptr<float[]> logits_;
    std::vector<std::vector<float>> scratch_;  // one a member
    std::vector<SamplingScratch> sampling_;    // one a member
};

}  // namespace headrace
