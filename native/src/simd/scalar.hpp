// Plain C++: runs anywhere, and says what the other instruction sets must compute.
#pragma once

#include <cstdint>

#include "../half.hpp"

namespace headrace::scalar {

constexpr int kLinearRows = 1;
constexpr int kDenseRows = 1;
constexpr int kScoreVectors = 2;
constexpr int kValueRows = 1;
constexpr int kValueVectors = 1;

struct F32 { float v[16]; };
struct I32 { std::int32_t v[16]; };
struct Codes { std::uint8_t v[64]; };
struct SignedCodes { std::int8_t v[64]; };
struct Words { std::int16_t v[32]; };

template <class To, class Lane>
HEADRACE_INLINE To lanes(Lane lane) {
    To out;
    for (int i = 0; i < 16; ++i) out.v[i] = lane(i);
    return out;
}

HEADRACE_INLINE F32 splat(float x) { return lanes<F32>([&](int) { return x; }); }
HEADRACE_INLINE F32 load(const float* p) { return lanes<F32>([&](int i) { return p[i]; }); }
HEADRACE_INLINE F32 load(const float* p, int n) {
    return lanes<F32>([&](int i) { return i < n ? p[i] : 0.0f; });
}
HEADRACE_INLINE void store(float* p, F32 x, int n) {
    for (int i = 0; i < 16 && i < n; ++i) p[i] = x.v[i];
}
HEADRACE_INLINE void store(float* p, F32 x) { store(p, x, 16); }

HEADRACE_INLINE F32 load(const std::uint16_t* half) {
    return lanes<F32>([&](int i) { return half_to_float(half[i]); });
}
HEADRACE_INLINE F32 load_bfloat(const std::uint16_t* p) {
    return lanes<F32>([&](int i) { return __builtin_bit_cast(float, std::uint32_t(p[i]) << 16); });
}

HEADRACE_INLINE F32 operator+(F32 a, F32 b) {
    return lanes<F32>([&](int i) { return a.v[i] + b.v[i]; });
}
HEADRACE_INLINE F32 operator-(F32 a, F32 b) {
    return lanes<F32>([&](int i) { return a.v[i] - b.v[i]; });
}
HEADRACE_INLINE F32 operator*(F32 a, F32 b) {
    return lanes<F32>([&](int i) { return a.v[i] * b.v[i]; });
}
HEADRACE_INLINE F32 operator/(F32 a, F32 b) {
    return lanes<F32>([&](int i) { return a.v[i] / b.v[i]; });
}
HEADRACE_INLINE F32 fma(F32 a, F32 b, F32 c) {
    return lanes<F32>([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
HEADRACE_INLINE F32 max(F32 a, F32 b) {
    return lanes<F32>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
HEADRACE_INLINE F32 min(F32 a, F32 b) {
    return lanes<F32>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}

HEADRACE_INLINE F32 within(F32 x, int lo, int hi, F32 other) {
    return lanes<F32>([&](int i) { return i >= lo && i < hi ? x.v[i] : other.v[i]; });
}
HEADRACE_INLINE F32 above(F32 x, float limit, F32 y) {
    return lanes<F32>([&](int i) { return x.v[i] > limit ? y.v[i] : 0.0f; });
}
HEADRACE_INLINE unsigned equal(F32 a, F32 b) {
    unsigned bits = 0;
    for (int i = 0; i < 16; ++i) bits |= unsigned(a.v[i] == b.v[i]) << i;
    return bits;
}
HEADRACE_INLINE unsigned at_least(F32 a, F32 b) {
    unsigned bits = 0;
    for (int i = 0; i < 16; ++i) bits |= unsigned(a.v[i] >= b.v[i]) << i;
    return bits;
}
HEADRACE_INLINE F32 swap_pairs(F32 x) {
    return lanes<F32>([&](int i) { return x.v[i ^ 1]; });
}

HEADRACE_INLINE I32 splat(std::int32_t x) { return lanes<I32>([&](int) { return x; }); }
HEADRACE_INLINE F32 to_float(I32 x) { return lanes<F32>([&](int i) { return float(x.v[i]); }); }
// As the hardware does: ties to even, and the least int for what does not fit.
HEADRACE_INLINE I32 nearest(F32 x) {
    return lanes<I32>([&](int i) {
        const float rounded = __builtin_rintf(x.v[i]);
        return rounded >= -0x1p31f && rounded < 0x1p31f ? std::int32_t(rounded) : INT32_MIN;
    });
}
HEADRACE_INLINE I32 magnitude(F32 x) {
    return lanes<I32>([&](int i) { return __builtin_bit_cast(std::int32_t, x.v[i]) & 0x7fffffff; });
}
HEADRACE_INLINE I32 operator+(I32 a, I32 b) {
    return lanes<I32>([&](int i) { return a.v[i] + b.v[i]; });
}
HEADRACE_INLINE I32 max(I32 a, I32 b) {
    return lanes<I32>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
HEADRACE_INLINE F32 power_of_two(I32 n) {
    return lanes<F32>([&](int i) { return __builtin_bit_cast(float, std::uint32_t(n.v[i] + 127) << 23); });
}
HEADRACE_INLINE void store(std::int32_t* p, I32 x) {
    for (int i = 0; i < 16; ++i) p[i] = x.v[i];
}
HEADRACE_INLINE void store_bytes(std::uint8_t* p, I32 x) {
    for (int i = 0; i < 16; ++i) p[i] = std::uint8_t(x.v[i]);
}
HEADRACE_INLINE void store_bytes(std::int8_t* p, I32 x) {
    for (int i = 0; i < 16; ++i) p[i] = std::int8_t(x.v[i]);
}

HEADRACE_INLINE float reduce_add(F32 x) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) x.v[i] = x.v[i] + x.v[i + half];
    return x.v[0];
}
HEADRACE_INLINE float reduce_max(F32 x) {
    for (int i = 1; i < 16; ++i) x.v[0] = x.v[0] > x.v[i] ? x.v[0] : x.v[i];
    return x.v[0];
}
HEADRACE_INLINE void reduce_add_codes(I32 a, I32 b, std::int32_t* sums) {
    sums[0] = sums[1] = 0;
    for (int i = 0; i < 16; ++i) sums[0] += a.v[i];
    for (int i = 0; i < 16; ++i) sums[1] += b.v[i];
}
HEADRACE_INLINE std::int32_t reduce_max(I32 x) {
    for (int i = 1; i < 16; ++i) x.v[0] = x.v[0] > x.v[i] ? x.v[0] : x.v[i];
    return x.v[0];
}

HEADRACE_INLINE Codes load_codes(const std::uint8_t* p) {
    Codes codes;
    __builtin_memcpy(codes.v, p, 64);
    return codes;
}
HEADRACE_INLINE void store_codes(std::uint8_t* p, Codes c) { __builtin_memcpy(p, c.v, 64); }
HEADRACE_INLINE Codes low_nibbles(Codes c) {
    for (auto& code : c.v) code &= 0x0f;
    return c;
}
HEADRACE_INLINE Codes high_nibbles(Codes c) {
    for (auto& code : c.v) code = std::uint8_t(code >> 4);
    return c;
}
template <int Shift, int Mask>
HEADRACE_INLINE Codes join(Codes low, Codes plane) {
    for (int i = 0; i < 64; ++i) {
        const int bits = Shift > 0 ? plane.v[i] << (Shift > 0 ? Shift : 0) : plane.v[i] >> (Shift > 0 ? 0 : -Shift);
        low.v[i] = std::uint8_t(low.v[i] | (bits & Mask));
    }
    return low;
}
constexpr int kNarrowBits = 8;
template <bool Narrow>
HEADRACE_INLINE I32 dot(I32 sum, Codes codes, const std::int8_t* a) {
    for (int i = 0; i < 16; ++i)
        for (int c = 0; c < 4; ++c) sum.v[i] += std::int32_t(codes.v[4 * i + c]) * a[c];
    return sum;
}

HEADRACE_INLINE SignedCodes load_codes(const std::int8_t* p) {
    SignedCodes codes;
    __builtin_memcpy(codes.v, p, 64);
    return codes;
}
HEADRACE_INLINE I32 dot(I32 sum, SignedCodes codes, const std::uint8_t* a) {
    for (int i = 0; i < 16; ++i)
        for (int c = 0; c < 4; ++c) sum.v[i] += codes.v[4 * i + c] * std::int32_t(a[c]);
    return sum;
}
HEADRACE_INLINE Words load_words(const std::int16_t* p) {
    Words words;
    __builtin_memcpy(words.v, p, 64);
    return words;
}
HEADRACE_INLINE Words load_words(const std::int8_t* p) {
    Words words;
    for (int i = 0; i < 32; ++i) words.v[i] = p[i];
    return words;
}
HEADRACE_INLINE I32 dot(I32 sum, Words words, const std::int16_t* a) {
    for (int i = 0; i < 16; ++i)
        for (int c = 0; c < 2; ++c) sum.v[i] += words.v[2 * i + c] * std::int32_t(a[c]);
    return sum;
}
HEADRACE_INLINE I32 load_bytes(const std::int8_t* p) {
    return lanes<I32>([&](int i) { return std::int32_t(p[i]); });
}

HEADRACE_INLINE void prefetch(const void*) {}
HEADRACE_INLINE void prefetch_far(const void*) {}

}  // namespace headrace::scalar
