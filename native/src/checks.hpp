// What is verified before a step touches memory. Python's ops/checks.py says the same, sentence
// by sentence, for the reference; here it costs a microsecond.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program.hpp"

namespace headrace {

using Shape = std::vector<std::size_t>;

// A step's arrays as the caller has them. tables: [sequences][blocks], its rows so many elements
// apart, since they are parts of longer ones.
struct BatchView {
    std::span<const std::int32_t> tokens, positions, starts, logit_rows;
    const std::int32_t* tables;
    Shape table_shape;
    std::int64_t table_stride;

    // The blocks that hold what a sequence has computed after the step.
    std::span<const std::int32_t> table(std::size_t sequence) const {
        const int last = positions[std::size_t(starts[sequence + 1]) - 1];
        return {tables + std::int64_t(sequence) * table_stride, std::size_t(last / kBlock + 1)};
    }
};

// One number a row, changes in any order, and masks [words] of some rows.
struct SamplingView {
    std::span<const float> temperature, top_p, min_p;
    std::span<const std::int32_t> top_k, top_logprobs;
    std::span<const double> draw;
    std::span<const std::int32_t> change_row, change_token;
    std::span<const float> change_divide, change_add;
    std::span<const std::int32_t> mask_row;
    const std::uint32_t* masks;  // or null
    Shape mask_shape;
};

// Throw std::invalid_argument with a sentence.
void check_batch(const BatchView&, const Sizes&);
void check_sampling(const SamplingView&, int rows, int vocabulary);

}  // namespace headrace
