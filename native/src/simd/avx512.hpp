// AVX-512 (F, BW, DQ, VL, VNNI) with F16C: one register a vector.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace headrace::avx512 {

// How many rows a register tile may hold: 32 registers.
constexpr int kLinearRows = 12;
constexpr int kDenseRows = 12;
constexpr int kScoreVectors = 16;
constexpr int kValueRows = 3;
constexpr int kValueVectors = 4;

struct F32 { __m512 v; };
struct I32 { __m512i v; };
struct Codes { __m512i v; };
struct SignedCodes { __m512i v; };
struct Words { __m512i v; };

HEADRACE_INLINE __mmask16 first_lanes(int n) {
    return n >= 16 ? __mmask16(0xffff) : __mmask16((1u << n) - 1u);
}

HEADRACE_INLINE F32 splat(float x) { return {_mm512_set1_ps(x)}; }
HEADRACE_INLINE F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
HEADRACE_INLINE F32 load(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
HEADRACE_INLINE void store(float* p, F32 x) { _mm512_storeu_ps(p, x.v); }
HEADRACE_INLINE void store(float* p, F32 x, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), x.v); }

HEADRACE_INLINE F32 load(const std::uint16_t* half) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(half)))};
}
HEADRACE_INLINE F32 load_bfloat(const std::uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

HEADRACE_INLINE F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
HEADRACE_INLINE F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
HEADRACE_INLINE F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
HEADRACE_INLINE F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
HEADRACE_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// a > b ? a : b, lane by lane (b where either is NaN).
HEADRACE_INLINE F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
HEADRACE_INLINE F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }

// x in lanes lo .. hi - 1, other elsewhere.
HEADRACE_INLINE F32 within(F32 x, int lo, int hi, F32 other) {
    const unsigned below = hi >= 16 ? 0xffffu : hi <= 0 ? 0u : (1u << hi) - 1u;
    const unsigned before = lo >= 16 ? 0xffffu : lo <= 0 ? 0u : (1u << lo) - 1u;
    return {_mm512_mask_mov_ps(other.v, __mmask16(below & ~before), x.v)};
}
// y where x > limit, 0 elsewhere.
HEADRACE_INLINE F32 above(F32 x, float limit, F32 y) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, _mm512_set1_ps(limit), _CMP_GT_OQ), y.v)};
}
// One bit a lane.
HEADRACE_INLINE unsigned equal(F32 a, F32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }
HEADRACE_INLINE unsigned at_least(F32 a, F32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ); }
// (1, 0, 3, 2, ...)
HEADRACE_INLINE F32 swap_pairs(F32 x) { return {_mm512_permute_ps(x.v, 0xb1)}; }

HEADRACE_INLINE I32 splat(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
HEADRACE_INLINE F32 to_float(I32 x) { return {_mm512_cvtepi32_ps(x.v)}; }
HEADRACE_INLINE I32 nearest(F32 x) { return {_mm512_cvtps_epi32(x.v)}; }
// The bits of |x|: ordered as the magnitudes are, with NaN above infinity.
HEADRACE_INLINE I32 magnitude(F32 x) {
    return {_mm512_and_si512(_mm512_castps_si512(x.v), _mm512_set1_epi32(0x7fffffff))};
}
HEADRACE_INLINE I32 operator+(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
HEADRACE_INLINE I32 max(I32 a, I32 b) { return {_mm512_max_epi32(a.v, b.v)}; }
// 2^n for n in -126 .. 127
HEADRACE_INLINE F32 power_of_two(I32 n) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n.v, _mm512_set1_epi32(127)), 23))};
}
HEADRACE_INLINE void store(std::int32_t* p, I32 x) { _mm512_storeu_si512(p, x.v); }
HEADRACE_INLINE void store_bytes(std::int8_t* p, I32 x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}
HEADRACE_INLINE void store_bytes(std::uint8_t* p, I32 x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}

// Sums fold halves: lane i with i + 8, then + 4, + 2, + 1.
HEADRACE_INLINE float reduce_add(F32 x) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
HEADRACE_INLINE float reduce_max(F32 x) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
// The sums of two vectors of signed bytes, both in one go: the second in the upper half of each lane.
HEADRACE_INLINE void reduce_add_codes(I32 a, I32 b, std::int32_t* sums) {
    const std::int32_t both = _mm512_reduce_add_epi32(_mm512_add_epi32(a.v, _mm512_slli_epi32(b.v, 16)));
    sums[0] = std::int16_t(both);
    sums[1] = (both - sums[0]) >> 16;
}
HEADRACE_INLINE std::int32_t reduce_max(I32 x) { return _mm512_reduce_max_epi32(x.v); }

HEADRACE_INLINE Codes load_codes(const std::uint8_t* p) {
    return {_mm512_loadu_si512(p)};
}
HEADRACE_INLINE void store_codes(std::uint8_t* p, Codes c) { _mm512_storeu_si512(p, c.v); }
HEADRACE_INLINE Codes low_nibbles(Codes c) {
    return {_mm512_and_si512(c.v, _mm512_set1_epi8(0x0f))};
}
HEADRACE_INLINE Codes high_nibbles(Codes c) {
    return {_mm512_and_si512(_mm512_srli_epi16(c.v, 4), _mm512_set1_epi8(0x0f))};
}
// low | (plane << Shift) & Mask, byte by byte. A negative shift goes right; what crosses from
// byte to byte must fall outside the mask.
template <int Shift, int Mask>
HEADRACE_INLINE Codes join(Codes low, Codes plane) {
    __m512i bits = plane.v;
    if constexpr (Shift > 0) bits = _mm512_slli_epi16(bits, Shift);
    if constexpr (Shift < 0) bits = _mm512_srli_epi16(bits, -Shift);
    constexpr int a_or_b_and_c = 0xf8;
    return {_mm512_ternarylogic_epi32(low.v, bits, _mm512_set1_epi8(Mask), a_or_b_and_c)};
}
// sum + codes . a: each lane's four codes with the same four signed bytes. Narrow: the codes
// have at most kNarrowBits bits.
constexpr int kNarrowBits = 8;
template <bool Narrow>
HEADRACE_INLINE I32 dot(I32 sum, Codes codes, const std::int8_t* a) {
    std::int32_t four;
    __builtin_memcpy(&four, a, 4);
    return {_mm512_dpbusd_epi32(sum.v, codes.v, _mm512_set1_epi32(four))};
}
HEADRACE_INLINE I32 load_bytes(const std::int8_t* p) {
    return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}

HEADRACE_INLINE SignedCodes load_codes(const std::int8_t* p) { return {_mm512_loadu_si512(p)}; }
// sum + codes . a: each lane's four signed codes with the same four unsigned bytes.
HEADRACE_INLINE I32 dot(I32 sum, SignedCodes codes, const std::uint8_t* a) {
    std::int32_t four;
    __builtin_memcpy(&four, a, 4);
    return {_mm512_dpbusd_epi32(sum.v, _mm512_set1_epi32(four), codes.v)};
}
HEADRACE_INLINE Words load_words(const std::int16_t* p) { return {_mm512_loadu_si512(p)}; }
HEADRACE_INLINE Words load_words(const std::int8_t* p) {
    return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
// sum + words . a: each lane's two words with the same two.
HEADRACE_INLINE I32 dot(I32 sum, Words words, const std::int16_t* a) {
    std::int32_t two;
    __builtin_memcpy(&two, a, 4);
    return {_mm512_dpwssd_epi32(sum.v, words.v, _mm512_set1_epi32(two))};
}

HEADRACE_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
// Not into the first cache.
HEADRACE_INLINE void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

}  // namespace headrace::avx512
