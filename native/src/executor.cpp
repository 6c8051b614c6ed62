#include "executor.hpp"

#include <stdexcept>
#include <utility>

namespace headrace {

Executor::Executor(std::shared_ptr<Team> team, const Kernels& kernels, std::unique_ptr<Plan> plan,
                   std::unique_ptr<Prefill> prefill)
    : team_(std::move(team)), kernels_(kernels), batch_(std::move(plan), team_->threads()), prefill_(std::move(prefill)) {
    for (int m = 0; m < team_->threads(); ++m) scratch_.emplace_back(batch_.plan().scratch_floats());
    sampling_.resize(std::size_t(team_->threads()));
}

Executor::~Executor() { wait(); }

void Executor::launch(const BatchView& batch, double slice_seconds) {
    wait();
    const bool slicing = prefill_ && slice_seconds > 0;
    const bool empty = batch.tokens.empty() && batch.starts.size() == 1 && batch.logit_rows.empty();
    if (!slicing || !empty) check_batch(batch, batch_.plan().sizes());
    slicing_ = slicing;
    batch_.begin(batch);
    const std::size_t wanted = std::size_t(logit_rows()) * std::size_t(logit_width());
    if (wanted > logits_capacity_) {
        logits_.reset();
        logits_ = std::make_unique_for_overwrite<float[]>(wanted);
        logits_capacity_ = wanted;
    }
    batch_.plan().logits_buffer().data = logits_.get();
    slice_ = {};
    if (slicing_) prefill_->open(slice_seconds);
    launched_ = true;
    team_->start(*this);
}

int Executor::next() {
    if (slicing_) {
        if (const int tasks = prefill_->next()) return tasks;
        slice_ = prefill_->slice();
        slicing_ = false;
    }
    return batch_.next();
}

void Executor::task(int member, int index) {
    float* scratch = scratch_[std::size_t(member)].data();
    if (slicing_) prefill_->task(scratch);
    else batch_.run(index, scratch);
}

void Executor::wait() {
    if (!std::exchange(launched_, false)) return;
    team_->wait();
}

void Executor::begin(std::vector<std::int32_t> tokens, int position, std::vector<std::int32_t> blocks) {
    wait();
    if (!prefill_) throw std::invalid_argument("nothing is computed beside the steps here");
    prefill_->begin(std::move(tokens), position, std::move(blocks));
}

std::span<float> Executor::logits() {
    return {logits_.get(), std::size_t(logit_rows()) * std::size_t(logit_width())};
}

std::vector<RowSample> Executor::sample(const SamplingView& view) {
    wait();
    const int vocabulary = batch_.plan().sizes().vocabulary;
    check_sampling(view, logit_rows(), vocabulary);
    const std::size_t rows = std::size_t(logit_rows());
    std::vector<std::vector<Adjustment>> changes(rows);
    for (std::size_t i = 0; i < view.change_row.size(); ++i)
        changes[std::size_t(view.change_row[i])].push_back(
            {view.change_token[i], view.change_divide[i], view.change_add[i]});
    std::vector<const std::uint32_t*> masks(rows, nullptr);
    for (std::size_t i = 0; i < view.mask_row.size(); ++i)
        masks[std::size_t(view.mask_row[i])] = view.masks + i * view.mask_shape[1];
    std::vector<RowSample> samples(rows);
    const auto one = [&](int member, int index) {
        const std::size_t r = std::size_t(index);
        const RowSampling how = {
            .temperature = view.temperature[r],
            .top_p = view.top_p[r],
            .min_p = view.min_p[r],
            .top_k = view.top_k[r],
            .top_logprobs = view.top_logprobs[r],
            .draw = view.draw[r],
            .adjustments = changes[r],
            .mask = masks[r],
        };
        float* row = logits_.get() + r * std::size_t(logit_width());
        samples[r] = sample_row(kernels_, row, vocabulary, how, sampling_[std::size_t(member)]);
    };
    if (rows == 1) one(0, 0);  // not worth waking the team
    else team_->run(int(rows), one);
    return samples;
}

}  // namespace headrace
