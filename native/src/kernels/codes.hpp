// Rows of a head as integers around 0.
#pragma once

#include "../kernels.hpp"
#include "../simd/simd.hpp"

namespace headrace::HEADRACE_ISA {

// The greatest code for which `terms` products of two codes never overflow an int32.
HEADRACE_INLINE float word_limit(int terms) { return __builtin_floorf(__builtin_sqrtf(2147483392.0f / float(terms))); }

// put(i, codes of x[i] .. x[i + 15]) for all of x, codes from -limit to limit; returns their scale.
// Tiny ranges count as zero (their inverse would overflow); what is not finite must stay visible,
// so it goes into the scale.
template <class Put>
HEADRACE_INLINE float symmetric_codes(const float* x, int n, float limit, Put put) {
    I32 greatest = splat(0);
    for (int i = 0; i < n; i += kLanes) greatest = max(magnitude(load(x + i)), greatest);
    const float peak = __builtin_bit_cast(float, reduce_max(greatest));
    const bool ordinary = peak >= 1e-30f && peak <= 3.4028235e38f;
    const F32 inverse = splat(ordinary ? limit / peak : 0.0f);
    for (int i = 0; i < n; i += kLanes) put(i, ordinary ? nearest(load(x + i) * inverse) : splat(0));
    return peak < 1e-30f ? 0.0f : peak / limit;
}

}  // namespace headrace::HEADRACE_ISA
