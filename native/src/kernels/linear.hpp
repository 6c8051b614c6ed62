// Matrix products: register tiles of R rows by one panel of 16 outputs.
#pragma once

#include "../kernels.hpp"
#include "../simd/simd.hpp"

namespace headrace::HEADRACE_ISA {

// Bytes the weights are fetched ahead of their use, from memory into the second cache and from
// there into the first: one step alone is slower by a seventh, as a core can wait for few lines
// of its first cache at once.
constexpr int kFar = 8192, kNear = 1280;
alignas(4) constexpr std::int8_t kOnes[4] = {1, 1, 1, 1};

// body(Constant<0>()), body(Constant<1>()), ... written out: what shifts by it needs a constant.
template <int Count, int I = 0, class Body>
HEADRACE_INLINE void each(Body body) {
    if constexpr (I < Count) {
        body(Constant<I>());
        each<Count, I + 1>(body);
    }
}

HEADRACE_INLINE void finish(const Output& out, std::int64_t row, int column, F32 sum, int valid) {
    float* target = out.data + row * out.stride + column;
    if (out.bias) sum = sum + load(out.bias + column, valid);
    if (out.accumulate) sum = sum + load(target, valid);
    store(target, sum, valid);
}

// ---- panels as tiles read them ----

// Vector J of a stride.
template <int Bits, int J>
HEADRACE_INLINE Codes codes_of(const std::uint8_t* stride) {
    if constexpr (Bits == 8) {
        return load_codes(stride + J * 64);
    } else {
        const Codes both = load_codes(stride + J % 4 * 64);
        const Codes low = J < 4 ? low_nibbles(both) : high_nibbles(both);
        if constexpr (Bits == 5) return join<4 - J, 0x10>(low, load_codes(stride + 256));
        else if constexpr (Bits == 6) return join<4 - J % 4 * 2, 0x30>(low, load_codes(stride + 256 + J / 4 * 64));
        else return low;
    }
}

// What multiples are multiples of.
struct Units {
    F32 scale = zero(), minimum = zero();
};

template <Numbers N>
HEADRACE_INLINE F32 numbers_of(const std::uint8_t* at, F32 unit) {
    if constexpr (N == Numbers::kHalf) return load(reinterpret_cast<const std::uint16_t*>(at));
    else if constexpr (N == Numbers::kFloat) return load(reinterpret_cast<const float*>(at));
    else return unit * to_float(load_bytes(reinterpret_cast<const std::int8_t*>(at)));
}

// Of 16 groups: weight_sum = scale * (sum of codes - columns * zero) + columns * minimum.
struct GroupNumbers {
    F32 scale, minimum, weight_sum;
};

HEADRACE_INLINE F32 weight_sum(F32 scale, I32 count) { return scale * to_float(count); }
HEADRACE_INLINE F32 weight_sum(F32 scale, I32 count, F32 minimum, int columns) {
    return fma(minimum, splat(float(columns)), weight_sum(scale, count));
}

// A panel as it lies in memory. The sum of a group's codes is counted as its codes pass by:
// reading it would cost a tenth of the memory traffic, counting it is hidden behind the rest.
template <Layout L>
struct Packed {
    static constexpr int kParts = L.parts(), kStride = L.stride(), kHead = L.head();
    static constexpr bool kMinima = L.minima, kInMemory = true, kNarrow = L.bits <= kNarrowBits;

    HEADRACE_INLINE Units units(const std::uint8_t* block) {
        Units out;
        if constexpr (L.numbers == Numbers::kMultiple) {
            out.scale = load(reinterpret_cast<const std::uint16_t*>(block));
            if constexpr (kMinima) out.minimum = load(reinterpret_cast<const std::uint16_t*>(block) + kPanel);
        }
        return out;
    }
    template <int J>
    HEADRACE_INLINE Codes codes(const std::uint8_t* stride) {
        return codes_of<L.bits, J>(stride);
    }
    HEADRACE_INLINE GroupNumbers numbers(const std::uint8_t* stride, int part, const Units& units, I32 count) {
        const F32 scale = numbers_of<L.numbers>(stride + L.scale_at(part), units.scale);
        if constexpr (kMinima) {
            const F32 minimum = numbers_of<L.numbers>(stride + L.minimum_at(part), units.minimum);
            return {scale, minimum, weight_sum(scale, count, minimum, L.group)};
        } else {
            return {scale, zero(), weight_sum(scale, count)};
        }
    }
};

// A panel in a workspace, as `unpack` leaves it: 8-bit codes, then for each part scales, sums of
// weights, and minima if there are any, in floats.
template <int Group, bool Minima, bool Narrow>
struct Unpacked {
    static constexpr int kParts = kGroup / Group, kNumbers = (Minima ? 3 : 2) * 64;
    static constexpr int kStride = 512 + kParts * kNumbers, kHead = 0;
    static constexpr bool kMinima = Minima, kInMemory = false, kNarrow = Narrow;

    HEADRACE_INLINE Units units(const std::uint8_t*) { return {}; }
    template <int J>
    HEADRACE_INLINE Codes codes(const std::uint8_t* stride) {
        return load_codes(stride + J * 64);
    }
    HEADRACE_INLINE GroupNumbers numbers(const std::uint8_t* stride, int part, const Units&, I32) {
        const float* numbers = reinterpret_cast<const float*>(stride + 512 + part * kNumbers);
        return {load(numbers), Minima ? load(numbers + 2 * kPanel) : zero(), load(numbers + kPanel)};
    }
};

HEADRACE_INLINE int unpacked_stride(const Layout& l) { return 512 + l.parts() * (l.minima ? 3 : 2) * 64; }

// Also adds up the codes of the stride's first and last 16 columns.
template <int Bits>
HEADRACE_INLINE void unpack_codes(const std::uint8_t* stride, std::uint8_t* to, I32& first, I32& last) {
    I32 counts[2] = {first, last};
    each<8>([&](auto j) __attribute__((always_inline)) {
        const Codes codes = codes_of<Bits, j.value>(stride);
        store_codes(to + j.value * 64, codes);
        counts[j.value / 4] = dot<false>(counts[j.value / 4], codes, kOnes);
    });
    first = counts[0];
    last = counts[1];
}

HEADRACE_INLINE F32 numbers_of(Numbers kind, const std::uint8_t* at, const std::uint8_t* unit) {
    switch (kind) {
        case Numbers::kHalf: return numbers_of<Numbers::kHalf>(at, zero());
        case Numbers::kFloat: return numbers_of<Numbers::kFloat>(at, zero());
        default: return numbers_of<Numbers::kMultiple>(at, load(reinterpret_cast<const std::uint16_t*>(unit)));
    }
}

static void unpack(const Matrix& m, int p, std::uint8_t* to) {
    const Layout& l = m.layout;
    for (int c = 0; c < m.k; c += kGroup, to += unpacked_stride(l)) {
        const std::uint8_t* block = m.panel(p) + l.block_at(c);
        const std::uint8_t* stride = m.panel(p) + l.stride_at(c);
        I32 first = splat(-m.zero * 16), last = first;
        switch (l.bits) {
            case 4: unpack_codes<4>(stride, to, first, last); break;
            case 5: unpack_codes<5>(stride, to, first, last); break;
            case 6: unpack_codes<6>(stride, to, first, last); break;
            default: unpack_codes<8>(stride, to, first, last); break;
        }
        float* numbers = reinterpret_cast<float*>(to + 512);
        for (int part = 0; part < l.parts(); ++part, numbers += (l.minima ? 3 : 2) * kPanel) {
            const I32 count = l.parts() == 1 ? first + last : part == 0 ? first : last;
            const F32 scale = numbers_of(l.numbers, stride + l.scale_at(part), block);
            store(numbers, scale);
            if (l.minima) {
                const F32 minimum = numbers_of(l.numbers, stride + l.minimum_at(part), block + unit_bytes(l.numbers));
                store(numbers + kPanel, weight_sum(scale, count, minimum, l.group));
                store(numbers + 2 * kPanel, minimum);
            } else {
                store(numbers + kPanel, weight_sum(scale, count));
            }
        }
    }
}

// ---- tiles ----

// Where dot products start: -zero * (sum of a.codes), for each group, row and part. By themselves,
// because a vector filled from memory costs less than one filled from a register.
template <int Parts, int R>
HEADRACE_INLINE void fill_starts(const QuantisedGroup* x, std::int64_t groups, int zero, std::int32_t* starts) {
    for (std::int64_t g = 0; g < groups; ++g, x += kTileRows)
        for (int r = 0; r < R; ++r)
            for (int part = 0; part < Parts; ++part)
                *starts++ = -zero * (Parts == 1 ? x[r].sums[0] + x[r].sums[1] : x[r].sums[part]);
}

// R rows times one panel. For each group of columns and each row, in this order:
//   sum += scale * a.scale * (codes . a.codes)          exact integers, then one fma
//   sum += minimum * a.scaled_sum                       or, without minima, the dot product
//                                                       starts at -zero * (sum of a.codes)
//   sum += weight_sum * a.centre
template <class Panel, int R>
static void tile(const Matrix& m, const std::uint8_t* at, int p, const Quantised& a, std::int64_t row, std::int32_t* starts,
                 const Output& out) {
    constexpr int kParts = Panel::kParts;
    const QuantisedGroup* x = a.row(row).group();
    const std::int64_t groups = a.k / kGroup;
    if constexpr (!Panel::kMinima) fill_starts<kParts, R>(x, groups, m.zero, starts);

    F32 sum[R];
    for (int r = 0; r < R; ++r) sum[r] = zero();
    Units units;
    for (std::int64_t g = 0; g < groups; ++g, at += Panel::kStride, x += kTileRows) {
        if constexpr (Panel::kHead > 0)
            if (g % (kBlockColumns / kGroup) == 0) {
                units = Panel::units(at);
                at += Panel::kHead;
            }
        for (int line = 0; line < Panel::kStride; line += 64) {
            prefetch(at + kNear + line);
            if constexpr (Panel::kInMemory) prefetch_far(at + kFar + line);
        }
        each<kParts>([&](auto part) __attribute__((always_inline)) {
            I32 dots[R];
            for (int r = 0; r < R; ++r) {
                if constexpr (Panel::kMinima) dots[r] = splat(0);
                else dots[r] = splat(starts[(g * R + r) * kParts + part.value]);
            }
            I32 count = splat(Panel::kMinima ? 0 : -m.zero * (kGroup / kParts));
            each<8 / kParts>([&](auto i) __attribute__((always_inline)) {
                // Vectors that share nibbles follow each other.
                constexpr int j = kParts == 2 ? part.value * 4 + i.value : i.value / 2 + i.value % 2 * 4;
                const Codes codes = Panel::template codes<j>(at);
                if constexpr (Panel::kInMemory) count = dot<Panel::kNarrow>(count, codes, kOnes);
#pragma GCC unroll 16
                for (int r = 0; r < R; ++r) dots[r] = dot<Panel::kNarrow>(dots[r], codes, x[r].codes + 4 * j);
            });
            const GroupNumbers w = Panel::numbers(at, part.value, units, count);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                sum[r] = fma(to_float(dots[r]), w.scale * splat(x[r].scale), sum[r]);
                if constexpr (Panel::kMinima) {
                    const float offset = kParts == 1 ? x[r].scaled_sum : x[r].scale * float(x[r].sums[part.value]);
                    sum[r] = fma(w.minimum, splat(offset), sum[r]);
                }
                sum[r] = fma(w.weight_sum, splat(x[r].centre), sum[r]);
            }
        });
    }
    const int valid = m.n - p * kPanel;
    for (int r = 0; r < R; ++r) finish(out, row + r, p * kPanel, sum[r], valid);
}

using Tile = void (*)(const Matrix&, const std::uint8_t* panel, int p, const Quantised&, std::int64_t row,
                      std::int32_t* starts, const Output&);

// of_rows[R - 1] is the tile of R rows.
struct Tiles {
    Tile of_rows[kLinearRows];
};

template <class Panel, int R = 1>
constexpr void fill(Tiles& tiles) {
    tiles.of_rows[R - 1] = tile<Panel, R>;
    if constexpr (R < kLinearRows) fill<Panel, R + 1>(tiles);
}

template <class Panel>
constexpr Tiles filled() {
    Tiles all{};
    fill<Panel>(all);
    return all;
}
template <class Panel>
static constexpr Tiles tiles = filled<Panel>();

template <Layout... L>
HEADRACE_INLINE const Tiles* tiles_among(const Layout& layout) {
    const Tiles* found = nullptr;
    ((found = layout == L ? &tiles<Packed<L>> : found), ...);
    return found;
}

// Tiles for a panel as it lies in memory, or null: only the layouts that files bring have some.
static const Tiles* packed_tiles(const Layout& layout) {
    constexpr Numbers half = Numbers::kHalf, multiple = Numbers::kMultiple;
    return tiles_among<Layout{4, 32, half, false}, Layout{4, 32, half, true}, Layout{4, 32, multiple, true},
                       Layout{5, 32, half, false}, Layout{5, 32, half, true}, Layout{5, 32, multiple, true},
                       Layout{6, 16, multiple, false}, Layout{8, 32, half, false}>(layout);
}

template <bool Narrow>
static const Tiles* unpacked_tiles(const Layout& layout) {
    if (layout.group == 16) return layout.minima ? &tiles<Unpacked<16, true, Narrow>> : &tiles<Unpacked<16, false, Narrow>>;
    return layout.minima ? &tiles<Unpacked<32, true, Narrow>> : &tiles<Unpacked<32, false, Narrow>>;
}
static const Tiles* unpacked_tiles(const Layout& layout) {
    if constexpr (kNarrowBits < 8)
        if (layout.bits > kNarrowBits) return unpacked_tiles<false>(layout);
    return unpacked_tiles<true>(layout);
}

// Calls body(first row, rows) for as few, and as equal, tiles as hold `rows` rows.
template <class Body>
HEADRACE_INLINE void cut(int rows, int most, Body body) {
    const int count = (rows + most - 1) / most;
    for (int i = 0, first = 0; i < count; ++i) {
        const int size = (rows - first) / (count - i);
        body(first, size);
        first += size;
    }
}

// An unpacked panel, and the starts of a tile.
static std::int64_t linear_workspace(const Matrix& m) {
    if (!m.grouped()) return 0;  // and no layout to ask
    return m.k / kGroup * (unpacked_stride(m.layout) / 4 + kLinearRows * m.layout.parts());
}

// From this many rows on it pays to unpack a panel once for all of them.
constexpr int kUnpackedRows = 8 * kLinearRows;

static void linear(const Matrix& m, int first_panel, int last_panel, const Quantised& a, int rows, float* workspace,
                   const Output& out) {
    const Tiles* packed = rows < kUnpackedRows ? packed_tiles(m.layout) : nullptr;
    const Tiles& all = packed ? *packed : *unpacked_tiles(m.layout);
    static_assert(kTileRows % kLinearRows == 0);
    std::uint8_t* room = reinterpret_cast<std::uint8_t*>(workspace);
    std::int32_t* starts = reinterpret_cast<std::int32_t*>(room + m.k / kGroup * unpacked_stride(m.layout));
    for (int p = first_panel; p < last_panel; ++p) {
        if (!packed) unpack(m, p, room);
        const std::uint8_t* panel = packed ? m.panel(p) : room;
        for (int row = 0; row < rows;) {
            const int left = kLinearRows - a.row(row).place() % kLinearRows;
            const int count = rows - row < left ? rows - row : left;
            all.of_rows[count - 1](m, panel, p, a, row, starts, out);
            row += count;
        }
    }
}

// ---- dense matrices ----

struct Float {
    static constexpr int kBytes = 4;
    HEADRACE_INLINE F32 at(const std::uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct Half {
    static constexpr int kBytes = 2;
    HEADRACE_INLINE F32 at(const std::uint8_t* p) { return load(reinterpret_cast<const std::uint16_t*>(p)); }
};
struct Bfloat {
    static constexpr int kBytes = 2;
    HEADRACE_INLINE F32 at(const std::uint8_t* p) { return load_bfloat(reinterpret_cast<const std::uint16_t*>(p)); }
};

// Even and odd columns are summed apart: two chains of fma keep one row's latency short.
template <class Value, int R>
static void dense_tile(const Matrix& m, int p, const float* x, std::int64_t stride, std::int64_t row, const Output& out) {
    const std::uint8_t* w = m.panel(p);
    constexpr int kColumn = Value::kBytes * kPanel;
    x += row * stride;
    F32 even[R], odd[R];
    for (int r = 0; r < R; ++r) even[r] = odd[r] = zero();
    int c = 0;
    for (; c + 2 <= m.k; c += 2, w += 2 * kColumn) {
        const F32 a = Value::at(w), b = Value::at(w + kColumn);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
            even[r] = fma(a, splat(x[r * stride + c]), even[r]);
            odd[r] = fma(b, splat(x[r * stride + c + 1]), odd[r]);
        }
    }
    if (c < m.k)
        for (int r = 0; r < R; ++r) even[r] = fma(Value::at(w), splat(x[r * stride + c]), even[r]);
    const int valid = m.n - p * kPanel;
    for (int r = 0; r < R; ++r) finish(out, row + r, p * kPanel, even[r] + odd[r], valid);
}

template <class Value, int R = kDenseRows>
static void dense_rows(const Matrix& m, int p, const float* x, std::int64_t stride, int row, int rows, const Output& out) {
    if (rows == R) dense_tile<Value, R>(m, p, x, stride, row, out);
    else if constexpr (R > 1) dense_rows<Value, R - 1>(m, p, x, stride, row, rows, out);
}

static void dense(const Matrix& m, int first_panel, int last_panel, const float* x, std::int64_t stride, int rows,
                  const Output& out) {
    for (int p = first_panel; p < last_panel; ++p)
        cut(rows, kDenseRows, [&](int row, int count) {
            switch (m.format) {
                case Format::kF16: return dense_rows<Half>(m, p, x, stride, row, count, out);
                case Format::kBF16: return dense_rows<Bfloat>(m, p, x, stride, row, count, out);
                default: return dense_rows<Float>(m, p, x, stride, row, count, out);
            }
        });
}

}  // namespace headrace::HEADRACE_ISA
