// Nothing but the instruction set's own arithmetic, on data that never leaves the first cache:
// the ceiling that the kernels are measured against.
#pragma once

#include "../kernels.hpp"
#include "../simd/simd.hpp"

namespace headrace::HEADRACE_ISA {

// Twelve sums under way hide the latency of an instruction, if two begin each cycle.
constexpr int kChains = kScoreVectors < 12 ? kScoreVectors : 12;

// 8-bit products as the matrix kernel makes them. Returns how many multiply-adds were done; the
// sums go to out[16], so that they are needed.
static std::int64_t product_chains(int repeats, const std::uint8_t* codes, const std::int8_t* x, float* out) {
    I32 sums[kChains];
    for (int c = 0; c < kChains; ++c) sums[c] = splat(0);
    const Codes code = low_nibbles(load_codes(codes));
#pragma GCC unroll 8
    for (int i = 0; i < repeats; ++i) {
        __asm__ volatile("" : "+r"(x));  // it might point elsewhere: no product is the last round's
#pragma GCC unroll 12
        for (int c = 0; c < kChains; ++c) sums[c] = dot<true>(sums[c], code, x + 4 * c);
    }
    for (int c = 0; c < kChains; ++c) store(out, load(out) + to_float(sums[c]));
    return std::int64_t(repeats) * kChains * kLanes * 4;
}

// Floats, multiplied and added at once.
static std::int64_t float_chains(int repeats, const float* x, float* out) {
    F32 sums[kChains];
    for (int c = 0; c < kChains; ++c) sums[c] = zero();
    const F32 factor = load(x), term = load(x + kLanes);
    for (int i = 0; i < repeats; ++i) {
#pragma GCC unroll 12
        for (int c = 0; c < kChains; ++c) sums[c] = fma(sums[c], factor, term);
    }
    for (int c = 0; c < kChains; ++c) store(out, load(out) + sums[c]);
    return std::int64_t(repeats) * kChains * kLanes;
}

}  // namespace headrace::HEADRACE_ISA
