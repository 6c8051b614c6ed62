// Arm NEON with the dot-product instructions (armv8.2-a+dotprod): four registers a vector.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace headrace::neon {

// How many rows a register tile may hold: 32 registers, four a vector.
constexpr int kLinearRows = 2;
constexpr int kDenseRows = 3;
constexpr int kScoreVectors = 6;
constexpr int kValueRows = 1;
constexpr int kValueVectors = 2;

struct F32 { float32x4_t a, b, c, d; };
struct I32 { int32x4_t a, b, c, d; };
struct Mask { uint32x4_t a, b, c, d; };
struct Codes { uint8x16_t a, b, c, d; };
struct SignedCodes { int8x16_t a, b, c, d; };
struct Words { int16x8_t a, b, c, d; };

// op of each quarter of the arguments.
template <class To, class Op, class... From>
HEADRACE_INLINE To each(Op op, From... x) {
    return {op(x.a...), op(x.b...), op(x.c...), op(x.d...)};
}

HEADRACE_INLINE F32 splat(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return {v, v, v, v};
}
HEADRACE_INLINE F32 load(const float* p) {
    return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
HEADRACE_INLINE void store(float* p, F32 x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
// There is no masked load or store: part of a vector goes through memory.
HEADRACE_INLINE F32 load(const float* p, int n) {
    if (n >= 16) return load(p);
    float lanes[16] = {};
    for (int i = 0; i < n; ++i) lanes[i] = p[i];
    return load(lanes);
}
HEADRACE_INLINE void store(float* p, F32 x, int n) {
    if (n >= 16) return store(p, x);
    float lanes[16];
    store(lanes, x);
    for (int i = 0; i < n; ++i) p[i] = lanes[i];
}

HEADRACE_INLINE F32 load(const std::uint16_t* half) {
    const float16x8_t lo = vreinterpretq_f16_u16(vld1q_u16(half));
    const float16x8_t hi = vreinterpretq_f16_u16(vld1q_u16(half + 8));
    return {vcvt_f32_f16(vget_low_f16(lo)), vcvt_high_f32_f16(lo), vcvt_f32_f16(vget_low_f16(hi)),
            vcvt_high_f32_f16(hi)};
}
HEADRACE_INLINE F32 load_bfloat(const std::uint16_t* p) {
    const uint16x8_t lo = vld1q_u16(p), hi = vld1q_u16(p + 8);
    return each<F32>([](uint32x4_t v) { return vreinterpretq_f32_u32(vshlq_n_u32(v, 16)); },
                     Mask{vmovl_u16(vget_low_u16(lo)), vmovl_high_u16(lo), vmovl_u16(vget_low_u16(hi)), vmovl_high_u16(hi)});
}

HEADRACE_INLINE F32 operator+(F32 x, F32 y) { return each<F32>([](auto a, auto b) { return vaddq_f32(a, b); }, x, y); }
HEADRACE_INLINE F32 operator-(F32 x, F32 y) { return each<F32>([](auto a, auto b) { return vsubq_f32(a, b); }, x, y); }
HEADRACE_INLINE F32 operator*(F32 x, F32 y) { return each<F32>([](auto a, auto b) { return vmulq_f32(a, b); }, x, y); }
HEADRACE_INLINE F32 operator/(F32 x, F32 y) { return each<F32>([](auto a, auto b) { return vdivq_f32(a, b); }, x, y); }
HEADRACE_INLINE F32 fma(F32 x, F32 y, F32 z) {
    return each<F32>([](auto a, auto b, auto c) { return vfmaq_f32(c, a, b); }, x, y, z);
}
// FMAX and FMIN would return NaN where either is: compare and select gives the second, as x86 does.
HEADRACE_INLINE float32x4_t greater(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
HEADRACE_INLINE F32 max(F32 x, F32 y) { return each<F32>([](auto a, auto b) { return greater(a, b); }, x, y); }
HEADRACE_INLINE F32 min(F32 x, F32 y) {
    return each<F32>([](auto a, auto b) { return vbslq_f32(vcltq_f32(a, b), a, b); }, x, y);
}

HEADRACE_INLINE I32 splat(std::int32_t x) {
    const int32x4_t v = vdupq_n_s32(x);
    return {v, v, v, v};
}
HEADRACE_INLINE I32 lane_numbers() {
    constexpr std::int32_t kNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return {vld1q_s32(kNumbers), vld1q_s32(kNumbers + 4), vld1q_s32(kNumbers + 8), vld1q_s32(kNumbers + 12)};
}
HEADRACE_INLINE F32 within(F32 x, int lo, int hi, F32 other) {
    const int32x4_t first = vdupq_n_s32(lo), last = vdupq_n_s32(hi);
    return each<F32>(
        [&](auto lane, auto in, auto out) {
            return vbslq_f32(vandq_u32(vcgeq_s32(lane, first), vcltq_s32(lane, last)), in, out);
        },
        lane_numbers(), x, other);
}
HEADRACE_INLINE F32 above(F32 x, float limit, F32 y) {
    const float32x4_t floor = vdupq_n_f32(limit);
    return each<F32>(
        [&](auto a, auto b) { return vreinterpretq_f32_u32(vandq_u32(vcgtq_f32(a, floor), vreinterpretq_u32_f32(b))); }, x, y);
}
HEADRACE_INLINE unsigned bits_of(Mask m) {
    constexpr std::uint32_t kBits[4] = {1, 2, 4, 8};
    const uint32x4_t bits = vld1q_u32(kBits);
    const auto four = [&](uint32x4_t v) { return vaddvq_u32(vandq_u32(v, bits)); };
    return four(m.a) | four(m.b) << 4 | four(m.c) << 8 | four(m.d) << 12;
}
HEADRACE_INLINE unsigned equal(F32 x, F32 y) {
    return bits_of(each<Mask>([](auto a, auto b) { return vceqq_f32(a, b); }, x, y));
}
HEADRACE_INLINE unsigned at_least(F32 x, F32 y) {
    return bits_of(each<Mask>([](auto a, auto b) { return vcgeq_f32(a, b); }, x, y));
}
HEADRACE_INLINE F32 swap_pairs(F32 x) { return each<F32>([](auto a) { return vrev64q_f32(a); }, x); }

HEADRACE_INLINE F32 to_float(I32 x) { return each<F32>([](auto a) { return vcvtq_f32_s32(a); }, x); }
// FCVTNS saturates and makes 0 of NaN: what does not fit must be the least int, as on x86.
HEADRACE_INLINE I32 nearest(F32 x) {
    const float32x4_t end = vdupq_n_f32(0x1p31f);
    const int32x4_t least = vdupq_n_s32(INT32_MIN);
    return each<I32>([&](auto a) { return vbslq_s32(vcltq_f32(a, end), vcvtnq_s32_f32(a), least); }, x);
}
HEADRACE_INLINE I32 magnitude(F32 x) {
    const int32x4_t mask = vdupq_n_s32(0x7fffffff);
    return each<I32>([&](auto a) { return vandq_s32(vreinterpretq_s32_f32(a), mask); }, x);
}
HEADRACE_INLINE I32 operator+(I32 a, I32 b) {
    return each<I32>([](auto x, auto y) { return vaddq_s32(x, y); }, a, b);
}
HEADRACE_INLINE I32 max(I32 x, I32 y) { return each<I32>([](auto a, auto b) { return vmaxq_s32(a, b); }, x, y); }
HEADRACE_INLINE F32 power_of_two(I32 n) {
    const int32x4_t bias = vdupq_n_s32(127);
    return each<F32>([&](auto a) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(a, bias), 23)); }, n);
}
HEADRACE_INLINE void store(std::int32_t* p, I32 x) {
    vst1q_s32(p, x.a);
    vst1q_s32(p + 4, x.b);
    vst1q_s32(p + 8, x.c);
    vst1q_s32(p + 12, x.d);
}
HEADRACE_INLINE void store_bytes(std::int8_t* p, I32 x) {
    const int16x8_t lo = vmovn_high_s32(vmovn_s32(x.a), x.b), hi = vmovn_high_s32(vmovn_s32(x.c), x.d);
    vst1q_s8(p, vmovn_high_s16(vmovn_s16(lo), hi));
}
HEADRACE_INLINE void store_bytes(std::uint8_t* p, I32 x) { store_bytes(reinterpret_cast<std::int8_t*>(p), x); }

HEADRACE_INLINE float reduce_add(F32 x) {
    const float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
HEADRACE_INLINE float reduce_max(F32 x) {
    const float32x4_t four = greater(greater(x.a, x.c), greater(x.b, x.d));
    const float32x4_t two = greater(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(greater(two, vextq_f32(two, two, 1)), 0);
}
// The sums of two vectors of signed bytes.
HEADRACE_INLINE void reduce_add_codes(I32 a, I32 b, std::int32_t* sums) {
    sums[0] = vaddvq_s32(vaddq_s32(vaddq_s32(a.a, a.c), vaddq_s32(a.b, a.d)));
    sums[1] = vaddvq_s32(vaddq_s32(vaddq_s32(b.a, b.c), vaddq_s32(b.b, b.d)));
}
HEADRACE_INLINE std::int32_t reduce_max(I32 x) {
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.a, x.c), vmaxq_s32(x.b, x.d)));
}

HEADRACE_INLINE Codes load_codes(const std::uint8_t* p) {
    return {vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)};
}
HEADRACE_INLINE Codes low_nibbles(Codes c) {
    return each<Codes>([](auto a) { return vandq_u8(a, vdupq_n_u8(0x0f)); }, c);
}
HEADRACE_INLINE Codes high_nibbles(Codes c) {
    return each<Codes>([](auto a) { return vshrq_n_u8(a, 4); }, c);
}

HEADRACE_INLINE void store_codes(std::uint8_t* p, Codes c) {
    vst1q_u8(p, c.a);
    vst1q_u8(p + 16, c.b);
    vst1q_u8(p + 32, c.c);
    vst1q_u8(p + 48, c.d);
}
// low with the plane's bits, shifted left (or right, if Shift is negative), where Mask has them.
template <int Shift, int Mask>
HEADRACE_INLINE Codes join(Codes low, Codes plane) {
    return each<Codes>(
        [](auto code, auto bits) {
            if constexpr (Shift > 0) bits = vshlq_n_u8(bits, Shift);
            if constexpr (Shift < 0) bits = vshrq_n_u8(bits, -Shift);
            return vorrq_u8(code, vandq_u8(bits, vdupq_n_u8(Mask)));
        },
        low, plane);
}

constexpr int kNarrowBits = 7;
template <bool Narrow>
HEADRACE_INLINE I32 dot(I32 sum, Codes codes, const std::int8_t* a) {
    std::int32_t four;
    __builtin_memcpy(&four, a, 4);
    const int8x16_t bytes = vreinterpretq_s8_s32(vdupq_n_s32(four));
    if constexpr (Narrow) {
        return each<I32>([&](auto s, auto c) { return vdotq_s32(s, vreinterpretq_s8_u8(c), bytes); }, sum, codes);
    } else {
        // SDOT takes signed codes: code = (code - 128) + 128, and 128 times the bytes' sum is one
        // more product for all lanes.
        const int32x4_t shift = vshlq_n_s32(vdotq_s32(vdupq_n_s32(0), bytes, vdupq_n_s8(1)), 7);
        return each<I32>(
            [&](auto s, auto c) {
                return vdotq_s32(vaddq_s32(s, shift), vreinterpretq_s8_u8(veorq_u8(c, vdupq_n_u8(0x80))), bytes);
            },
            sum, codes);
    }
}

HEADRACE_INLINE SignedCodes load_codes(const std::int8_t* p) {
    return {vld1q_s8(p), vld1q_s8(p + 16), vld1q_s8(p + 32), vld1q_s8(p + 48)};
}
HEADRACE_INLINE I32 dot(I32 sum, SignedCodes codes, const std::uint8_t* a) {
    std::int32_t four;
    __builtin_memcpy(&four, a, 4);
    const uint8x16_t bytes = vreinterpretq_u8_s32(vdupq_n_s32(four));
    // UDOT takes unsigned codes: code = (code + 128) - 128. Sums may wrap on the way.
    const uint32x4_t shift = vshlq_n_u32(vdotq_u32(vdupq_n_u32(0), bytes, vdupq_n_u8(1)), 7);
    return each<I32>(
        [&](auto s, auto c) {
            const uint8x16_t raised = veorq_u8(vreinterpretq_u8_s8(c), vdupq_n_u8(0x80));
            return vreinterpretq_s32_u32(vdotq_u32(vsubq_u32(vreinterpretq_u32_s32(s), shift), raised, bytes));
        },
        sum, codes);
}
HEADRACE_INLINE Words load_words(const std::int16_t* p) {
    return {vld1q_s16(p), vld1q_s16(p + 8), vld1q_s16(p + 16), vld1q_s16(p + 24)};
}
HEADRACE_INLINE Words load_words(const std::int8_t* p) {
    const int8x16_t low = vld1q_s8(p), high = vld1q_s8(p + 16);
    return {vmovl_s8(vget_low_s8(low)), vmovl_high_s8(low), vmovl_s8(vget_low_s8(high)), vmovl_high_s8(high)};
}
HEADRACE_INLINE I32 dot(I32 sum, Words words, const std::int16_t* a) {
    std::int32_t two;
    __builtin_memcpy(&two, a, 4);
    const int16x8_t pair = vreinterpretq_s16_s32(vdupq_n_s32(two));
    return each<I32>(
        [&](auto s, auto w) {
            const int32x4_t low = vmull_s16(vget_low_s16(w), vget_low_s16(pair));
            return vaddq_s32(s, vpaddq_s32(low, vmull_high_s16(w, pair)));
        },
        sum, words);
}

HEADRACE_INLINE I32 load_bytes(const std::int8_t* p) {
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
}

HEADRACE_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }
HEADRACE_INLINE void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }

}  // namespace headrace::neon
