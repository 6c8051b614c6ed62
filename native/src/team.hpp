// A fixed team of compute threads that goes through a step together.
//
// Tasks are claimed one by one from a shared counter, because the cores are shared with other
// processes and equal shares would wait for whoever was interrupted. Waiting spins for some
// microseconds, then sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace headrace {

class Team {
public:
    explicit Team(int threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int threads() const { return int(members_.size()); }

    // Has every member call work(member) and returns at once. One work at a time.
    void start(std::function<void(int member)> work);
    // Returns when the work is done; rethrows what a member threw.
    void wait();

    // body(task) for each of `tasks` tasks, spread over the team, as work of its own.
    template <class Body>
    void run(int tasks, Body body) {
        start([this, tasks, &body](int) { share(tasks, body); });
        wait();
    }

    // Within work, called by every member: claims tasks until none is left. Others may still be
    // busy with theirs when it returns.
    template <class Body>
    void share(int tasks, Body&& body) {
        for (int task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks;) body(task);
    }
    // Within work, called by every member: returns when all have come. The last to come calls
    // last() before anyone goes on. Work that meets must not throw.
    template <class Last>
    void meet(Last&& last) {
        const std::uint32_t round = round_.load(std::memory_order_relaxed);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads()) {
            last();
            arrived_.store(0, std::memory_order_relaxed);
            next_.store(0, std::memory_order_relaxed);
            round_.store(round + 1, std::memory_order_release);
            round_.notify_all();
        } else {
            await_change(round_, round);
        }
    }

private:
    static void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old);
    void serve(int member);

    std::vector<std::thread> members_;
    std::function<void(int)> work_;
    bool stopping_ = false;
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    // Each on a cache line of its own: they are written by different members.
    alignas(64) std::atomic<std::uint32_t> generation_{0};
    alignas(64) std::atomic<std::uint32_t> running_{0};
    alignas(64) std::atomic<int> next_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<std::uint32_t> round_{0};
};

}  // namespace headrace
