#include "pass.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace headrace {

// Floats of attention's parts that a step of several tokens may take: fleet/memory.py counts on it.
constexpr std::size_t kMostParts = 1 << 24;

Pass::Pass(std::unique_ptr<Plan> plan, int threads) : plan_(std::move(plan)), threads_(threads) {}

void Pass::begin(const BatchView& batch) {
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
    const bool few = int(step_.tokens.size()) * plan_->sizes().kv_heads < 4 * threads_;
    step_.part_stride = (plan_->sizes().head_dim + 2 + 15) / 16 * 16;
    const std::size_t token_parts = std::size_t(plan_->sizes().heads) * std::size_t(splits * step_.part_stride);
    const bool bounded = step_.tokens.size() == 1 || step_.tokens.size() * token_parts <= kMostParts;
    step_.splits = few && bounded && splits > 1 ? splits : 0;
    step_.parts.resize(step_.splits > 0 ? step_.tokens.size() * token_parts : 0);
    cursor_ = 0;
}

// As few equal tiles as there must be, and as give each thread as many.
void Pass::cut(int sequence, int first, int end) {
    const int heads = plan_->sizes().kv_heads, most = plan_->tile_tokens();
    const int even = threads_ / std::gcd(threads_, heads);
    int tiles = (end - first + most - 1) / most;
    tiles = std::min((tiles + even - 1) / even * even, end - first);
    for (; tiles > 0; --tiles) {
        const int count = (end - first) / tiles;
        step_.tiles.push_back({sequence, first, count});
        first += count;
    }
}

int Pass::next() {
    const auto& regions = plan_->regions();
    const std::size_t end = step_.logit_rows.empty() ? plan_->caching() : regions.size();
    while (cursor_ < end) {
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

}  // namespace headrace
