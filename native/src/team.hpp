// A fixed team that goes through rounds of tasks: compute threads, and whoever waits for them.
//
// The cores are shared with other processes, so nobody waits for a thread, only for tasks:
// members claim tasks one by one, and whoever finishes the last of a round begins the next. A
// member that was interrupted between tasks delays no one, and one that comes late finds the
// rest. That is what the caller does: what it has to do meanwhile takes one core of the team's,
// instead of being one thread too many. Waiting spins for some microseconds, then sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace headrace {

// What a team works on: rounds of tasks that may run in any order, and at once.
class Work {
public:
    virtual ~Work() = default;
    // Prepares the next round and returns its number of tasks, or 0 if the work is done. No
    // task runs meanwhile.
    virtual int next() = 0;
    // Called with 0 <= member < the team's threads; no two at once with the same member.
    virtual void task(int member, int index) = 0;
};

class Team {
public:
    explicit Team(int threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // The caller's among them.
    int threads() const { return 1 + int(others_.size()); }

    // Begins the work and returns. One work at a time; it must live until wait() returns.
    void start(Work& work);
    // Works as member 0 until the work is done; rethrows the first thing a task threw. A team of
    // one does nothing before.
    void wait();

    // body(member, task) for each of `tasks` tasks.
    template <class Body>
    void run(int tasks, Body body) {
        struct Round final : Work {
            Round(int count, Body& b) : tasks(count), body(b) {}
            int next() override { return std::exchange(tasks, 0); }
            void task(int member, int index) override { body(member, index); }
            int tasks;
            Body& body;
        } round(tasks, body);
        start(round);
        wait();
    }

private:
    void serve(int member, const std::atomic<bool>& over);
    void advance();
    void publish(int tasks);

    std::vector<std::thread> others_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> idle_{true};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    Work* work_ = nullptr;
    // Tasks of the round and how many are claimed, in one word: see team.cpp. Each
    // atomic has a cache line of its own.
    alignas(64) std::atomic<std::uint64_t> claims_{0};
    alignas(64) std::atomic<int> done_{0};
    alignas(64) std::atomic<std::uint32_t> round_{0};
};

}  // namespace headrace
