#include "executor.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace headrace {

// Floats of attention's parts that a step of several tokens may take: fleet/memory.py counts on it.
constexpr std::size_t kMostParts = 1 << 24;

Executor::Executor(std::shared_ptr<Team> team, const Kernels& kernels, std::unique_ptr<Plan> plan)
    : team_(std::move(team)), kernels_(kernels), plan_(std::move(plan)) {
    for (int m = 0; m < team_->threads(); ++m) scratch_.emplace_back(plan_->scratch_floats());
    sampling_.resize(std::size_t(team_->threads()));
}

Executor::~Executor() { wait(); }

void Executor::prepare(const BatchView& batch) {
    const auto copy = [](std::vector<std::int32_t>& to, std::span<const std::int32_t> from) {
        to.assign(from.begin(), from.end());
    };
    copy(step_.tokens, batch.tokens);
    copy(step_.positions, batch.positions);
    copy(step_.logit_rows, batch.logit_rows);
    const int sequences = int(batch.starts.size()) - 1;
    step_.tables.clear();
    step_.table_starts.clear();
    step_.sequence_of.resize(step_.tokens.size());
    step_.tiles.clear();
    int deepest = 0;
    for (int s = 0; s < sequences; ++s) {
        const int start = batch.starts[std::size_t(s)], end = batch.starts[std::size_t(s) + 1];
        const auto blocks = batch.table(std::size_t(s));
        step_.table_starts.push_back(step_.tables.size());
        step_.tables.insert(step_.tables.end(), blocks.begin(), blocks.end());
        std::fill(step_.sequence_of.begin() + start, step_.sequence_of.begin() + end, s);
        cut(s, start, end);
        deepest = std::max(deepest, step_.positions[std::size_t(end) - 1]);
    }
    // How the work is cut changes who computes what, never a result.
    const int splits = deepest / kSplit + 1;
    const bool few = int(step_.tokens.size()) * plan_->sizes().kv_heads < 4 * team_->threads();
    step_.part_stride = (plan_->sizes().head_dim + 2 + 15) / 16 * 16;
    const std::size_t token_parts = std::size_t(plan_->sizes().heads) * std::size_t(splits * step_.part_stride);
    const bool bounded = step_.tokens.size() == 1 || step_.tokens.size() * token_parts <= kMostParts;
    step_.splits = few && bounded && splits > 1 ? splits : 0;
    step_.parts.resize(step_.splits > 0 ? step_.tokens.size() * token_parts : 0);
    const std::size_t wanted = std::size_t(logit_rows()) * std::size_t(logit_width());
    if (wanted > logits_capacity_) {
        logits_.reset();
        logits_ = std::make_unique_for_overwrite<float[]>(wanted);
        logits_capacity_ = wanted;
    }
    plan_->logits_buffer().data = logits_.get();
}

// As few equal tiles as there must be, and as give each thread as many.
void Executor::cut(int sequence, int first, int end) {
    const int heads = plan_->sizes().kv_heads, threads = team_->threads(), most = plan_->tile_tokens();
    const int even = threads / std::gcd(threads, heads);
    int tiles = (end - first + most - 1) / most;
    tiles = std::min((tiles + even - 1) / even * even, end - first);
    for (; tiles > 0; --tiles) {
        const int count = (end - first) / tiles;
        step_.tiles.push_back({sequence, first, count});
        first += count;
    }
}

void Executor::launch(const BatchView& batch) {
    wait();
    check_batch(batch, plan_->sizes());
    prepare(batch);
    cursor_ = 0;
    launched_ = true;
    team_->start(*this);
}

int Executor::next() {
    const auto& regions = plan_->regions();
    while (cursor_ < regions.size()) {
        const Region& region = *regions[cursor_++];
        const int tasks = region.tasks(step_);
        if (!region.small(step_)) {
            if (tasks > 0) return tasks;
            continue;
        }
        // Not worth a round of its own: done here, while the others wait.
        for (int index = 0; index < tasks; ++index) region.run(step_, index, nullptr);
    }
    return 0;
}

void Executor::task(int member, int index) {
    plan_->regions()[cursor_ - 1]->run(step_, index, scratch_[std::size_t(member)].data());
}

void Executor::wait() {
    if (!std::exchange(launched_, false)) return;
    team_->wait();
}

std::span<float> Executor::logits() {
    return {logits_.get(), std::size_t(logit_rows()) * std::size_t(logit_width())};
}

std::vector<RowSample> Executor::sample(const SamplingView& view) {
    wait();
    const int vocabulary = plan_->sizes().vocabulary;
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
