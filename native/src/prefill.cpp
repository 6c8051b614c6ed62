#include "prefill.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace headrace {

namespace {

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Consecutive tokens of one sequence as a batch.
struct OneSequence {
    OneSequence(std::span<const std::int32_t> all, int first, const std::vector<std::int32_t>& blocks)
        : tokens(all), positions(all.size()), starts{0, std::int32_t(all.size())}, table(blocks) {
        std::iota(positions.begin(), positions.end(), first);
    }
    BatchView view() const { return {tokens, positions, starts, {}, table.data(), {1, table.size()}, 0}; }

    std::span<const std::int32_t> tokens;
    std::vector<std::int32_t> positions, starts;
    const std::vector<std::int32_t>& table;
};

}  // namespace

Prefill::Prefill(std::unique_ptr<Plan> plan, int threads)
    : pass_(std::move(plan), threads), task_time_(pass_.plan().regions().size()) {}

void Prefill::begin(std::vector<std::int32_t> tokens, int position, std::vector<std::int32_t> blocks) {
    Sizes sizes = plan().sizes();
    if (position < 0 || position > sizes.context - std::int64_t(tokens.size()))
        throw std::invalid_argument("position outside the context of " + std::to_string(sizes.context));
    sizes.tokens = std::numeric_limits<int>::max();  // it comes in chunks
    check_batch(OneSequence(tokens, position, blocks).view(), sizes);
    tokens_ = std::move(tokens);
    blocks_ = std::move(blocks);
    position_ = position;
    begun_ = 0;
    chunk_ = slices_ = tasks_ = taken_ = 0;
    spent_ = {};
}

bool Prefill::expired() const {
    // After as many slices as it has tokens all regions are due.
    const std::size_t due = std::size_t(slices_) * plan().caching() / std::size_t(chunk_);
    if (pass_.region() < due) return false;
    return Clock::now() + task_time_[pass_.region()].load(std::memory_order_relaxed) / 2 >= deadline_;
}

int Prefill::next_chunk_size() const { return int(std::min(tokens_.size() - begun_, std::size_t(plan().sizes().tokens))); }

void Prefill::open(double seconds) {
    slice_ = {};
    ++slices_;
    opened_ = resumed_ = Clock::now();
    // An hour is as good as forever, and can be counted.
    deadline_ = opened_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 3600.0)));
}

int Prefill::next() {
    for (;;) {
        if (taken_ < tasks_) return expired() ? close() : tasks_ - taken_;
        taken_ = 0;
        tasks_ = chunk_ > 0 ? pass_.next() : 0;
        if (tasks_ > 0) continue;
        if (chunk_ > 0) end_chunk();
        if (begun_ == tokens_.size()) return close();
        begin_chunk();
    }
}

void Prefill::task(float* scratch) {
    // Permits are given out for all tasks that are left, and tasks only to whoever comes in time,
    // so those that were taken are the first ones.
    if (expired()) return;
    const Clock::time_point start = Clock::now();
    pass_.run(taken_.fetch_add(1, std::memory_order_relaxed), scratch);
    task_time_[pass_.region()].store(Clock::now() - start, std::memory_order_relaxed);
}

void Prefill::begin_chunk() {
    chunk_ = next_chunk_size();
    const auto tokens = std::span<const std::int32_t>(tokens_).subspan(begun_, std::size_t(chunk_));
    pass_.begin(OneSequence(tokens, position_ + int(begun_), blocks_).view());
    begun_ += std::size_t(chunk_);
}

void Prefill::end_chunk() {
    const Clock::time_point now = Clock::now();
    slice_.tokens += chunk_;
    slice_.chunk_seconds += seconds(spent_ + (now - resumed_));
    spent_ = {};
    resumed_ = now;
    chunk_ = slices_ = 0;
}

int Prefill::close() {
    const Clock::time_point now = Clock::now();
    spent_ += now - resumed_;
    slice_.seconds = seconds(now - opened_);
    return 0;
}

}  // namespace headrace
