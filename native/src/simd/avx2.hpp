// AVX2 with FMA and F16C: two registers a vector.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace headrace::avx2 {

// How many rows a register tile may hold: 16 registers, two a vector.
constexpr int kLinearRows = 2;
constexpr int kDenseRows = 3;
constexpr int kScoreVectors = 6;
constexpr int kValueRows = 1;
constexpr int kValueVectors = 2;

struct F32 { __m256 lo, hi; };
struct I32 { __m256i lo, hi; };
struct Codes { __m256i lo, hi; };
struct SignedCodes { __m256i lo, hi; };
struct Words { __m256i lo, hi; };

HEADRACE_INLINE F32 splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
HEADRACE_INLINE F32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
HEADRACE_INLINE void store(float* p, F32 x) {
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
}
HEADRACE_INLINE __m256i first_lanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
HEADRACE_INLINE F32 load(const float* p, int n) {
    return {_mm256_maskload_ps(p, first_lanes(n)), _mm256_maskload_ps(p + 8, first_lanes(n - 8))};
}
HEADRACE_INLINE void store(float* p, F32 x, int n) {
    _mm256_maskstore_ps(p, first_lanes(n), x.lo);
    _mm256_maskstore_ps(p + 8, first_lanes(n - 8), x.hi);
}

HEADRACE_INLINE F32 load(const std::uint16_t* half) {
    const __m128i* p = reinterpret_cast<const __m128i*>(half);
    return {_mm256_cvtph_ps(_mm_loadu_si128(p)), _mm256_cvtph_ps(_mm_loadu_si128(p + 1))};
}
HEADRACE_INLINE F32 load_bfloat(const std::uint16_t* p) {
    const __m128i* q = reinterpret_cast<const __m128i*>(p);
    const __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128(q));
    const __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}

HEADRACE_INLINE F32 operator+(F32 a, F32 b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
HEADRACE_INLINE F32 operator-(F32 a, F32 b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
HEADRACE_INLINE F32 operator*(F32 a, F32 b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
HEADRACE_INLINE F32 operator/(F32 a, F32 b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
HEADRACE_INLINE F32 fma(F32 a, F32 b, F32 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
HEADRACE_INLINE F32 max(F32 a, F32 b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
HEADRACE_INLINE F32 min(F32 a, F32 b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

HEADRACE_INLINE F32 within(F32 x, int lo, int hi, F32 other) {
    const __m256i low = _mm256_andnot_si256(first_lanes(lo), first_lanes(hi));
    const __m256i high = _mm256_andnot_si256(first_lanes(lo - 8), first_lanes(hi - 8));
    return {_mm256_blendv_ps(other.lo, x.lo, _mm256_castsi256_ps(low)),
            _mm256_blendv_ps(other.hi, x.hi, _mm256_castsi256_ps(high))};
}
HEADRACE_INLINE F32 above(F32 x, float limit, F32 y) {
    const __m256 floor = _mm256_set1_ps(limit);
    return {_mm256_and_ps(_mm256_cmp_ps(x.lo, floor, _CMP_GT_OQ), y.lo),
            _mm256_and_ps(_mm256_cmp_ps(x.hi, floor, _CMP_GT_OQ), y.hi)};
}
HEADRACE_INLINE unsigned equal(F32 a, F32 b) {
    return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ))) |
           unsigned(_mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ))) << 8;
}
HEADRACE_INLINE unsigned at_least(F32 a, F32 b) {
    return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ))) |
           unsigned(_mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ))) << 8;
}
HEADRACE_INLINE F32 swap_pairs(F32 x) {
    return {_mm256_permute_ps(x.lo, 0xb1), _mm256_permute_ps(x.hi, 0xb1)};
}

HEADRACE_INLINE I32 splat(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
HEADRACE_INLINE F32 to_float(I32 x) { return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)}; }
HEADRACE_INLINE I32 nearest(F32 x) { return {_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)}; }
HEADRACE_INLINE I32 magnitude(F32 x) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    return {_mm256_and_si256(_mm256_castps_si256(x.lo), mask),
            _mm256_and_si256(_mm256_castps_si256(x.hi), mask)};
}
HEADRACE_INLINE I32 operator+(I32 a, I32 b) {
    return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
HEADRACE_INLINE I32 max(I32 a, I32 b) {
    return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
HEADRACE_INLINE F32 power_of_two(I32 n) {
    const __m256i bias = _mm256_set1_epi32(127);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.lo, bias), 23)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.hi, bias), 23))};
}
HEADRACE_INLINE void store(std::int32_t* p, I32 x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.lo);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.hi);
}
HEADRACE_INLINE void store_bytes(std::uint8_t* p, I32 x) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.lo, x.hi), 0xd8);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
HEADRACE_INLINE void store_bytes(std::int8_t* p, I32 x) {
    // Lanes are already within int8; packing works on 128-bit halves, so put them in order.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.lo, x.hi), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

HEADRACE_INLINE float reduce_add(F32 x) {
    const __m256 eight = _mm256_add_ps(x.lo, x.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
HEADRACE_INLINE float reduce_max(F32 x) {
    const __m256 eight = _mm256_max_ps(x.lo, x.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
// The sums of two vectors of signed bytes, both in one go: the second in the upper half of each lane.
HEADRACE_INLINE void reduce_add_codes(I32 a, I32 b, std::int32_t* sums) {
    const __m256i eight = _mm256_add_epi32(_mm256_add_epi32(a.lo, a.hi),
                                           _mm256_slli_epi32(_mm256_add_epi32(b.lo, b.hi), 16));
    const __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    const std::int32_t both = _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
    sums[0] = std::int16_t(both);
    sums[1] = (both - sums[0]) >> 16;
}
HEADRACE_INLINE std::int32_t reduce_max(I32 x) {
    const __m256i eight = _mm256_max_epi32(x.lo, x.hi);
    const __m128i four =
        _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

HEADRACE_INLINE Codes load_codes(const std::uint8_t* p) {
    const __m256i* q = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
HEADRACE_INLINE void store_codes(std::uint8_t* p, Codes c) {
    __m256i* q = reinterpret_cast<__m256i*>(p);
    _mm256_storeu_si256(q, c.lo);
    _mm256_storeu_si256(q + 1, c.hi);
}
HEADRACE_INLINE Codes low_nibbles(Codes c) {
    const __m256i mask = _mm256_set1_epi8(0x0f);
    return {_mm256_and_si256(c.lo, mask), _mm256_and_si256(c.hi, mask)};
}
HEADRACE_INLINE Codes high_nibbles(Codes c) {
    const __m256i mask = _mm256_set1_epi8(0x0f);
    return {_mm256_and_si256(_mm256_srli_epi16(c.lo, 4), mask),
            _mm256_and_si256(_mm256_srli_epi16(c.hi, 4), mask)};
}

template <int Shift, int Mask>
HEADRACE_INLINE __m256i join(__m256i low, __m256i bits) {
    if constexpr (Shift > 0) bits = _mm256_slli_epi16(bits, Shift);
    if constexpr (Shift < 0) bits = _mm256_srli_epi16(bits, -Shift);
    return _mm256_or_si256(low, _mm256_and_si256(bits, _mm256_set1_epi8(Mask)));
}
template <int Shift, int Mask>
HEADRACE_INLINE Codes join(Codes low, Codes plane) {
    return {join<Shift, Mask>(low.lo, plane.lo), join<Shift, Mask>(low.hi, plane.hi)};
}

constexpr int kNarrowBits = 7;
HEADRACE_INLINE __m256i add_dot_narrow(__m256i sum, __m256i codes, __m256i a) {
    const __m256i pairs = _mm256_maddubs_epi16(codes, a);  // 127 * 127 * 2 cannot saturate
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
HEADRACE_INLINE __m256i add_dot_wide(__m256i sum, __m256i codes, __m256i even, __m256i odd) {
    // maddubs could saturate on 8-bit codes: widen to 16 bits, even and odd bytes apart.
    const __m256i even_codes = _mm256_and_si256(codes, _mm256_set1_epi16(0x00ff));
    const __m256i odd_codes = _mm256_srli_epi16(codes, 8);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even_codes, even));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(odd_codes, odd));
}
template <bool Narrow>
HEADRACE_INLINE I32 dot(I32 sum, Codes codes, const std::int8_t* a) {
    std::int32_t four;
    __builtin_memcpy(&four, a, 4);
    const __m256i bytes = _mm256_set1_epi32(four);
    if constexpr (Narrow) {
        return {add_dot_narrow(sum.lo, codes.lo, bytes), add_dot_narrow(sum.hi, codes.hi, bytes)};
    } else {
        const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
        const __m256i odd = _mm256_srai_epi16(bytes, 8);
        return {add_dot_wide(sum.lo, codes.lo, even, odd), add_dot_wide(sum.hi, codes.hi, even, odd)};
    }
}

HEADRACE_INLINE SignedCodes load_codes(const std::int8_t* p) {
    const __m256i* q = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
// sum + codes . a: each lane's four signed codes with the same four unsigned bytes.
HEADRACE_INLINE I32 dot(I32 sum, SignedCodes codes, const std::uint8_t* a) {
    std::int32_t four;
    __builtin_memcpy(&four, a, 4);
    const __m256i bytes = _mm256_set1_epi32(four);
    const __m256i even = _mm256_and_si256(bytes, _mm256_set1_epi16(0x00ff)), odd = _mm256_srli_epi16(bytes, 8);
    const auto add = [&](__m256i total, __m256i eight) {
        const __m256i even_codes = _mm256_srai_epi16(_mm256_slli_epi16(eight, 8), 8);
        total = _mm256_add_epi32(total, _mm256_madd_epi16(even_codes, even));
        return _mm256_add_epi32(total, _mm256_madd_epi16(_mm256_srai_epi16(eight, 8), odd));
    };
    return {add(sum.lo, codes.lo), add(sum.hi, codes.hi)};
}
HEADRACE_INLINE Words load_words(const std::int16_t* p) {
    const __m256i* q = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
HEADRACE_INLINE Words load_words(const std::int8_t* p) {
    const __m128i* q = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128(q)), _mm256_cvtepi8_epi16(_mm_loadu_si128(q + 1))};
}
// sum + words . a: each lane's two words with the same two.
HEADRACE_INLINE I32 dot(I32 sum, Words words, const std::int16_t* a) {
    std::int32_t two;
    __builtin_memcpy(&two, a, 4);
    const __m256i pair = _mm256_set1_epi32(two);
    return {_mm256_add_epi32(sum.lo, _mm256_madd_epi16(words.lo, pair)),
            _mm256_add_epi32(sum.hi, _mm256_madd_epi16(words.hi, pair))};
}
HEADRACE_INLINE I32 load_bytes(const std::int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}

HEADRACE_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
// Not into the first cache.
HEADRACE_INLINE void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

}  // namespace headrace::avx2
