// Draws a token from a row of logits; ops/sampling.py says in plain words what it does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels.hpp"

namespace headrace {

struct Adjustment {
    std::int32_t token;
    float divide, add;
};

struct RowSampling {
    float temperature, top_p, min_p;
    std::int32_t top_k, top_logprobs;
    double draw;
    std::span<const Adjustment> adjustments;
    const std::uint32_t* mask;  // or null
};

enum class Verdict : std::uint8_t { kDrawn, kNotFinite, kNothingAllowed };

struct RowSample {
    Verdict verdict = Verdict::kDrawn;
    std::int32_t token = -1;
    float logprob = 0;
    std::vector<std::int32_t> top_ids;
    std::vector<float> top_logprobs;
};

// Memory a sampling thread reuses from row to row.
struct SamplingScratch {
    struct Bucket {
        int count = 0;
        double mass = 0;
    };
    std::vector<float> logits, weights;
    std::vector<std::int32_t> ids, members;
    std::vector<Bucket> buckets;
};

// logits [vocabulary] are as before when it returns.
RowSample sample_row(const Kernels&, float* logits, int vocabulary, const RowSampling&, SamplingScratch&);

}  // namespace headrace
