// A prompt that is computed beside the steps of others, a slice of time in each.
//
// A chunk of it goes through the model's layers once, however many slices that takes: between two
// it rests where it was, with activations of its own, so that a step may be as short as it must
// and a chunk as long as is efficient. (Layered prefill: Lee et al., arXiv:2510.08055, who cut at
// layers; here a slice ends at a clock's word, after any task.)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pass.hpp"

namespace headrace {

// What a slice did. tokens: of the chunks that it finished; chunk_seconds: what those chunks
// took, over all their slices; seconds: what the slice took.
struct Slice {
    int tokens = 0;
    double chunk_seconds = 0, seconds = 0;
};

class Prefill {
public:
    // The most tokens of a chunk are the plan's.
    Prefill(std::unique_ptr<Plan>, int threads);

    const Plan& plan() const { return pass_.plan(); }

    // Takes up a prompt, in place of what was under way: tokens of one sequence, at consecutive
    // positions. Throws std::invalid_argument.
    void begin(std::vector<std::int32_t> tokens, int position, std::vector<std::int32_t> blocks);

    // A slice of so many seconds begins. However short, a chunk takes no more of them than it has
    // tokens.
    void open(double seconds);
    // Tasks of the round that is next, or 0 if the slice is over: as of Work.
    int next();
    // One of the round's tasks, the next one, unless time is up.
    void task(float* scratch);
    const Slice& slice() const { return slice_; }

private:
    using Clock = std::chrono::steady_clock;

    // Whether the slice ends nearer to its deadline without another task.
    bool expired() const;
    int next_chunk_size() const;
    void begin_chunk();
    void end_chunk();
    int close();

    Pass pass_;
    std::vector<std::int32_t> tokens_, blocks_;  // of the prompt
    int position_ = 0;                           // of its first token
    std::size_t begun_ = 0;                      // tokens in chunks, the one under way among them
    int chunk_ = 0;                              // tokens in that one, 0 between two
    int slices_ = 0;                             // that it has taken
    Clock::duration spent_{};                    // on it, in slices before this one

    // The region under way: its tasks, and how many of them were taken.
    int tasks_ = 0;
    std::atomic<int> taken_{0};
    std::vector<std::atomic<Clock::duration>> task_time_;  // of each region's latest task

    Slice slice_;
    Clock::time_point opened_, deadline_;
    Clock::time_point resumed_;  // when this slice took up the chunk
};

}  // namespace headrace
