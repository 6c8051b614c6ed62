#include "team.hpp"

#include <chrono>

namespace headrace {

namespace {

constexpr auto kSpin = std::chrono::microseconds(40);

// A claim is one addition to the word [tasks: 32 | claimed: 32], so that a late member learns at
// once whether anything was left. What a round points to may only be looked at with a task in
// hand: then the round cannot end. Claims that come too late are few: each member waits for the
// next round after one.
constexpr int kTaskBits = 32;

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
    const auto changed = [&] {
        for (int i = 0; i < 32; ++i) {
            if (value.load(std::memory_order_acquire) != old) return true;
            relax();
        }
        return false;
    };
    if (changed()) return;
    const auto limit = std::chrono::steady_clock::now() + kSpin;
    while (std::chrono::steady_clock::now() < limit)
        if (changed()) return;
    value.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::Team(int threads) {
    others_.reserve(std::size_t(threads - 1));
    for (int m = 1; m < threads; ++m) others_.emplace_back([this, m] { serve(m, stopping_); });
}

Team::~Team() {
    wait();
    stopping_.store(true, std::memory_order_relaxed);
    publish(0);
    for (std::thread& other : others_) other.join();
}

void Team::start(Work& work) {
    work_ = &work;
    idle_.store(false, std::memory_order_relaxed);
    advance();
}

void Team::wait() {
    serve(0, idle_);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

// Called when no task is left or under way: by start, then by whoever did the last task.
void Team::advance() {
    const int tasks = work_->next();
    if (tasks > 0) return publish(tasks);
    idle_.store(true, std::memory_order_release);
    // From here on the next work may have begun: only what counts may still be touched.
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
}

// A publisher may be interrupted between its two stores while others finish the round and publish
// more: round_ therefore only counts, and never goes back.
void Team::publish(int tasks) {
    done_.store(0, std::memory_order_relaxed);
    claims_.store(std::uint64_t(tasks) << kTaskBits, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
}

void Team::serve(int member, const std::atomic<bool>& over) {
    for (;;) {
        // Read before the claim: a round published after a claim in vain has then changed it. And
        // before the look at `over`: who reads the last round would wait for another forever.
        const std::uint32_t round = round_.load(std::memory_order_acquire);
        if (over.load(std::memory_order_acquire)) return;
        const std::uint64_t claim = claims_.fetch_add(1, std::memory_order_acq_rel);
        const int index = int(std::uint32_t(claim)), tasks = int(claim >> kTaskBits);
        if (index >= tasks) {
            await_change(round_, round);
            continue;
        }
        try {
            work_->task(member, index);
        } catch (...) {
            const std::lock_guard lock(failure_mutex_);
            if (!failure_) failure_ = std::current_exception();
        }
        if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == tasks) advance();
    }
}

}  // namespace headrace
