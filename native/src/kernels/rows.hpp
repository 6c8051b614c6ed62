// Kernels that work on one row at a time.
#pragma once

#include "../kernels.hpp"
#include "codes.hpp"
#include "math.hpp"

namespace headrace::HEADRACE_ISA {

static void norm(float* out, const float* x, const float* weight, int width, int groups, float eps) {
    const int part = width / groups;
    for (int g = 0; g < groups; ++g, x += part, out += part) {
        F32 squares = zero();
        for (int i = 0; i < part; i += kLanes) {
            const F32 v = load(x + i, part - i);
            squares = fma(v, v, squares);
        }
        const float mean = reduce_add(squares) / float(part);
        const F32 inverse = splat(1.0f / __builtin_sqrtf(mean + eps));
        for (int i = 0; i < part; i += kLanes)
            store(out + i, load(x + i, part - i) * inverse * load(weight + i, part - i), part - i);
    }
}

static void gate(float* out, const float* gate, const float* up, int width, Activation activation) {
    for (int i = 0; i < width; i += kLanes) {
        const F32 g = load(gate + i, width - i);
        const F32 active = activation == Activation::kSilu ? silu(g) : gelu(g);
        store(out + i, active * load(up + i, width - i), width - i);
    }
}

static void add(float* x, const float* y, int width) {
    for (int i = 0; i < width; i += kLanes)
        store(x + i, load(x + i, width - i) + load(y + i, width - i), width - i);
}

static void add_scaled(float* x, const float* y, float scale, int width) {
    for (int i = 0; i < width; i += kLanes)
        store(x + i, fma(load(y + i, width - i), splat(scale), load(x + i, width - i)), width - i);
}

static void softcap(float* x, int width, float cap) {
    const F32 limit = splat(cap), inverse = splat(1.0f / cap);
    for (int i = 0; i < width; i += kLanes)
        store(x + i, capped(load(x + i, width - i), limit, inverse), width - i);
}

// A group's codes are its distances from the middle of its range, so that all 8 bits serve it
// wherever it lies: against codes around 0 this cuts the logits' divergence by two thirds.
template <bool Finite>
static void quantise_row(const float* x, const Quantised& out) {
    QuantisedGroup* group = out.group();
    for (int c = 0; c < out.k; c += kGroup, x += kGroup, group += kTileRows) {
        const F32 a = load(x), b = load(x + 16);
        const float most = reduce_max(max(a, b)), least = -reduce_max(zero() - min(a, b));
        const float centre = 0.5f * most + 0.5f * least;
        const F32 low = a - splat(centre), high = b - splat(centre);
        float peak = most - centre > centre - least ? most - centre : centre - least;
        if constexpr (!Finite) peak = __builtin_bit_cast(float, reduce_max(max(magnitude(low), magnitude(high))));
        // Tiny ranges count as zero (their inverse would overflow); what is not finite must stay
        // visible, so it goes into the scale.
        const bool ordinary = peak >= 1e-30f && peak <= 3.4028235e38f;
        const float scale = peak < 1e-30f ? 0.0f : peak / 127.0f;
        const F32 inverse = splat(ordinary ? 127.0f / peak : 0.0f);
        const I32 low_codes = ordinary ? nearest(low * inverse) : splat(0);
        const I32 high_codes = ordinary ? nearest(high * inverse) : splat(0);
        store_bytes(group->codes, low_codes);
        store_bytes(group->codes + 16, high_codes);
        reduce_add_codes(low_codes, high_codes, group->sums);
        group->scale = scale;
        group->centre = centre;
        group->scaled_sum = scale * float(group->sums[0] + group->sums[1]);
    }
}

static void quantise(const float* x, const Quantised& out) {
    F32 nothing = zero();  // or NaN, where x is not finite
    for (int c = 0; c < out.k; c += kLanes) nothing = fma(load(x + c), zero(), nothing);
    if (reduce_add(nothing) == 0) quantise_row<true>(x, out);
    else quantise_row<false>(x, out);
}

static void rotate(float* x, int heads, int head_dim, int dims, bool interleaved, const float* cos, const float* sin) {
    const int half = dims / 2;
    for (int h = 0; h < heads; ++h, x += head_dim) {
        if (interleaved) {
            for (int i = 0; i < dims; i += kLanes) {
                const F32 v = load(x + i, dims - i);
                store(x + i, fma(v, load(cos + i, dims - i), swap_pairs(v) * load(sin + i, dims - i)), dims - i);
            }
            continue;
        }
        for (int i = 0; i < half; i += kLanes) {
            const int n = half - i;
            const F32 a = load(x + i, n), b = load(x + half + i, n);
            store(x + i, fma(a, load(cos + i, n), b * load(sin + i, n)), n);
            store(x + half + i, fma(b, load(cos + half + i, n), a * load(sin + half + i, n)), n);
        }
    }
}

template <class Code>
static void store_key(const KvHead& head, int slot, const float* k, float limit) {
    alignas(64) std::int32_t codes[kLanes];
    head.key_scales()[slot] = symmetric_codes(k, head.head_dim, limit, [&](int d, I32 x) {
        store(codes, x);
        for (int i = 0; i < kLanes; ++i) head.keys<Code>()[(d + i) / 2 * 2 * kBlock + slot * 2 + i % 2] = Code(codes[i]);
    });
}

static void store_kv(const KvHead& head, int slot, const float* k, const float* v) {
    if (head.key_bytes == 1) store_key<std::int8_t>(head, slot, k, 127);
    else store_key<std::int16_t>(head, slot, k, word_limit(head.head_dim));
    alignas(64) std::int32_t codes[kLanes];
    head.value_scales()[slot] = symmetric_codes(v, head.head_dim, 127, [&](int d, I32 x) {
        store(codes, x);
        std::int8_t* values = head.values() + (slot / 4 * head.head_dim + d) * 4 + slot % 4;
        for (int i = 0; i < kLanes; ++i) values[4 * i] = std::int8_t(codes[i]);
    });
}

static float maximum(const float* x, int n) {
    F32 greatest = splat(-__builtin_inff());
    for (int i = 0; i < n; i += kLanes)
        greatest = max(within(load(x + i, n - i), 0, n - i, greatest), greatest);
    return reduce_max(greatest);
}

static float mask(float* out, const float* x, const std::uint32_t* mask, int n) {
    constexpr float kNothing = -__builtin_inff();
    float greatest = kNothing;
    for (int first = 0; first < n; first += 32, ++mask) {
        const int count = n - first < 32 ? n - first : 32;
        if (*mask == 0) {
            for (int i = 0; i < count; ++i) out[first + i] = kNothing;
            continue;
        }
        for (int i = 0; i < count; ++i) out[first + i] = *mask >> i & 1u ? x[first + i] : kNothing;
        const float here = maximum(out + first, count);
        if (here > greatest) greatest = here;
    }
    return greatest;
}

static float finite_maximum(const float* x, int n) {
    I32 peak = splat(0);
    F32 greatest = splat(-__builtin_inff());
    for (int i = 0; i < n; i += kLanes) {
        const F32 v = load(x + i, n - i);
        peak = max(peak, magnitude(v));
        greatest = max(within(v, 0, n - i, greatest), greatest);
    }
    return reduce_max(peak) < 0x7f800000 ? reduce_max(greatest) : __builtin_nanf("");
}

static int find(const float* x, int n, float value) {
    for (int i = 0; i < n; i += kLanes) {
        const unsigned hits = equal(load(x + i, n - i), splat(value));
        if (hits && i + __builtin_ctz(hits) < n) return i + __builtin_ctz(hits);
    }
    return n;
}

static int collect(std::int32_t* indices, const float* x, int n, float least) {
    int count = 0;
    for (int i = 0; i < n; i += kLanes) {
        const F32 v = load(x + i, n - i);  // lanes past the end are 0: never collected
        unsigned hits = at_least(v, splat(least)) & ~equal(v, zero());
        for (; hits; hits &= hits - 1) indices[count++] = i + __builtin_ctz(hits);
    }
    return count;
}

static double exponentials(float* out, const float* x, int n, float shift, float factor) {
    constexpr int kBatch = 64 * kLanes;
    double total = 0;
    for (int start = 0; start < n; start += kBatch) {
        F32 sum = zero();
        for (int i = start; i < n && i < start + kBatch; i += kLanes) {
            const F32 scaled = (load(x + i, n - i) - splat(shift)) * splat(factor);
            // exp saturates above zero; what is that unlikely, or banned, has no mass.
            const F32 e = within(above(scaled, -87.0f, exp(scaled)), 0, n - i, zero());
            store(out + i, e, n - i);
            sum = sum + e;
        }
        total += double(reduce_add(sum));
    }
    return total;
}

}  // namespace headrace::HEADRACE_ISA
