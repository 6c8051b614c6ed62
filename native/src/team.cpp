#include "team.hpp"

#include <chrono>
#include <utility>

namespace headrace {

namespace {

constexpr auto kSpin = std::chrono::microseconds(40);

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

Team::Team(int threads) {
    members_.reserve(std::size_t(threads));
    // Members read threads() only within work, which starts after all exist.
    for (int m = 0; m < threads; ++m) members_.emplace_back([this, m] { serve(m); });
}

Team::~Team() {
    stopping_ = true;
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    for (std::thread& member : members_) member.join();
}

void Team::start(std::function<void(int)> work) {
    work_ = std::move(work);
    next_.store(0, std::memory_order_relaxed);
    running_.store(std::uint32_t(threads()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
}

void Team::wait() {
    for (std::uint32_t left; (left = running_.load(std::memory_order_acquire)) != 0;)
        await_change(running_, left);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Team::await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
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

void Team::serve(int member) {
    for (std::uint32_t seen = 0;; ++seen) {
        await_change(generation_, seen);
        if (stopping_) return;
        try {
            work_(member);
        } catch (...) {
            const std::lock_guard lock(failure_mutex_);
            if (!failure_) failure_ = std::current_exception();
        }
        if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
    }
}

}  // namespace headrace
