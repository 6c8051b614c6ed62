// Elementary functions of 16 lanes, in a fixed sequence of correctly rounded operations.
#pragma once

#include "../simd/simd.hpp"

namespace headrace::HEADRACE_ISA {

// e^x within 2 ulp: x = n ln 2 + r, Taylor's polynomial in r. exp(0) is exactly 1; results
// saturate at 2^-126 and 2^127 or so.
HEADRACE_INLINE F32 exp(F32 x) {
    x = min(max(x, splat(-87.0f)), splat(88.0f));
    const I32 n = nearest(x * splat(1.44269504f));
    const F32 whole = to_float(n);
    F32 r = fma(whole, splat(-0.693145752f), x);  // ln 2 in two parts: the first has few bits
    r = fma(whole, splat(-1.42860677e-6f), r);
    F32 p = splat(1.0f / 5040);
    p = fma(p, r, splat(1.0f / 720));
    p = fma(p, r, splat(1.0f / 120));
    p = fma(p, r, splat(1.0f / 24));
    p = fma(p, r, splat(1.0f / 6));
    p = fma(p, r, splat(0.5f));
    p = fma(p, r, splat(1.0f));
    p = fma(p, r, splat(1.0f));
    return p * power_of_two(n);
}

// e^x for x <= 0 within 3e-6 of itself, a tenth of what 8-bit weights can tell apart; NaN stays
// NaN. The polynomial is a least-maximum fit on half of ln 2 to either side.
HEADRACE_INLINE F32 exp_nonpositive(F32 x) {
    x = max(splat(-87.0f), x);
    const I32 n = nearest(x * splat(1.44269504f));
    const F32 r = fma(to_float(n), splat(-0.693147181f), x);
    F32 p = splat(0.0415134673f);
    p = fma(p, r, splat(0.167877104f));
    p = fma(p, r, splat(0.500030265f));
    p = fma(p, r, splat(0.999966709f));
    p = fma(p, r, splat(1.0f));
    return p * power_of_two(n);
}

HEADRACE_INLINE F32 tanh(F32 x) {
    const F32 one = splat(1.0f);
    return one - splat(2.0f) / (exp(x + x) + one);
}

HEADRACE_INLINE F32 silu(F32 x) { return x / (splat(1.0f) + exp(zero() - x)); }

HEADRACE_INLINE F32 gelu(F32 x) {
    const F32 cubic = fma(x * x * x, splat(0.044715f), x);
    const F32 half = splat(0.5f) * x;
    return fma(half, tanh(splat(0.797884561f) * cubic), half);
}

HEADRACE_INLINE F32 capped(F32 x, F32 cap, F32 inverse) { return cap * tanh(x * inverse); }

}  // namespace headrace::HEADRACE_ISA
