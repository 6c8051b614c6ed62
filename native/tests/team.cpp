// The team under load: every task once, rounds in order, failures carried over.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"
#include "arrays.hpp"
#include "team.hpp"

namespace headrace::test {
namespace {

// Keeps a thread busy for a while that the optimiser cannot shorten.
void toil(int amount) {
    for (volatile int i = 0; i < amount;) i = i + 1;
}

// Rounds that each build on what the one before wrote, in plain memory: a race or a task run
// twice shows in the sums.
class Relay final : public Work {
public:
    Relay(int threads, std::vector<int> rounds) : rounds_(std::move(rounds)), busy_(std::size_t(threads)) {}

    int next() override {
        if (expected_ != done_.load()) ++faults;
        if (round_ == rounds_.size()) return 0;
        const int tasks = rounds_[round_++];
        expected_ += tasks;
        before_ = std::move(now_);
        now_.assign(std::size_t(tasks), 0);
        return tasks;
    }
    void task(int member, int index) override {
        if (busy_[std::size_t(member)].exchange(true)) ++faults;
        if (now_[std::size_t(index)] != 0) ++faults;
        toil(index % 7 == 0 ? 300 : 5);
        for (const int x : before_)
            if (x == 0) ++faults;
        now_[std::size_t(index)] = 1;
        ++done_;
        busy_[std::size_t(member)] = false;
    }

    int done() const { return done_; }
    std::atomic<int> faults{0};

private:
    std::vector<int> rounds_;
    std::vector<std::atomic<bool>> busy_;
    std::vector<int> before_, now_;
    std::size_t round_ = 0;
    int expected_ = 0;
    std::atomic<int> done_{0};
};

}  // namespace

TEST(team_does_every_task_once) {
    Random random(1);
    for (const int threads : {1, 2, 5}) {
        Team team(threads);
        CHECK(team.threads() == threads);
        for (int start = 0; start < 3000; ++start) {
            const int tasks = random.integer(start % 50 == 0 ? 500 : 12);
            std::vector<int> times(std::size_t(tasks), 0);
            team.run(tasks, [&](int member, int task) {
                if (member < 0 || member >= threads) std::terminate();
                ++times[std::size_t(task)];
                if (task == 3) toil(500);
            });
            for (const int count : times) CHECK(count == 1);
            if (start % 400 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));  // members fall asleep
        }
    }
}

TEST(team_rounds_follow_each_other) {
    Random random(2);
    for (const int threads : {1, 2, 3, 5}) {
        Team team(threads);
        for (int start = 0; start < 150; ++start) {
            std::vector<int> rounds(std::size_t(random.integer(20)));
            int total = 0;
            for (int& tasks : rounds) total += tasks = 1 + random.integer(start % 10 == 0 ? 60 : 5);
            Relay relay(threads, rounds);
            team.start(relay);
            team.wait();
            CHECK(relay.faults == 0 && relay.done() == total);
        }
    }
}

TEST(team_begins_without_the_caller) {
    Team team(3);
    for (int start = 0; start < 300; ++start) {
        Relay relay(3, {4, 1, 7});
        team.start(relay);
        while (relay.done() < 12) std::this_thread::yield();
        team.wait();
        CHECK(relay.faults == 0 && relay.done() == 12);
    }
}

TEST(team_of_one_waits_for_the_caller) {
    Team team(1);
    Relay relay(1, {4, 1, 7});
    team.start(relay);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(relay.done() == 0);
    team.wait();
    CHECK(relay.faults == 0 && relay.done() == 12);
}

TEST(team_largest_round) {
    Team team(3);
    constexpr int kTasks = (1 << 19) - 1;
    std::vector<std::uint8_t> times(kTasks, 0);
    team.run(kTasks, [&](int, int task) { ++times[std::size_t(task)]; });
    for (const int count : times) CHECK(count == 1);
}

TEST(team_carries_failures_over) {
    for (const int threads : {1, 2, 5}) {
        Team team(threads);
        for (int start = 0; start < 200; ++start) {
            std::atomic<int> done{0};
            bool caught = false;
            try {
                team.run(20, [&](int, int task) {
                    ++done;
                    if (task % 5 == start % 5) throw std::runtime_error("task " + std::to_string(task % 5));
                });
            } catch (const std::runtime_error& error) {
                caught = error.what() == "task " + std::to_string(start % 5);
            }
            CHECK(caught && done == 20);
            team.run(4, [&](int, int) { ++done; });  // the failure is gone, the team is not
            CHECK(done == 24);
        }
    }
}

TEST(team_comes_and_goes) {
    for (int i = 0; i < 100; ++i) {
        const Team idle(1 + i % 5);
        std::atomic<int> done{0};
        Team busy(1 + i % 4);
        busy.run(i % 7, [&](int, int) { ++done; });
        CHECK(done == i % 7);
    }
}

TEST(team_two_at_once) {
    const auto use = [](int threads, std::atomic<int>& done) {
        Team team(threads);
        for (int start = 0; start < 500; ++start) team.run(9, [&](int, int) { ++done; });
    };
    std::atomic<int> first{0}, second{0};
    std::thread other([&] { use(3, second); });
    use(2, first);
    other.join();
    CHECK(first == 4500 && second == 4500);
}

}  // namespace headrace::test
