// Matrix products: register tiles of R rows by one panel of 16 outputs.
#pragma once

#include "../kernels.hpp"
#include "../simd/simd.hpp"

namespace headrace::HEADRACE_ISA {

// Bytes the weights are fetched ahead of their use: far enough that a tile of many rows, too
// busy to run ahead by itself, finds them in cache.
constexpr int kAhead = 3072;
alignas(4) constexpr std::int8_t kOnes[4] = {1, 1, 1, 1};

HEADRACE_INLINE void finish(const Output& out, std::int64_t row, int column, F32 sum, int valid) {
    float* target = out.data + row * out.stride + column;
    if (out.bias) sum = sum + load(out.bias + column, valid);
    if (out.accumulate) sum = sum + load(target, valid);
    store(target, sum, valid);
}

// R rows times one panel. For each group of columns and each row, in this order:
//   sum += scale * a.scale * (codes . a.codes)          exact integers, then one fma
//   sum += minimum * a.scaled_sum                       or, without minima, the dot product
//                                                       starts at -zero * (sum of a.codes)
//   sum += weight_sum * a.centre                        weight_sum = scale * (sum of codes)
//                                                                    + columns * minimum
// The sum of a group's codes is counted as its codes pass by: reading it would cost a tenth of
// the memory traffic, counting it is hidden behind the rest.
template <int Bits, int Group, class Number, bool Minima, int R>
static void tile(const Matrix& m, int p, const Quantised& a, std::int64_t row, const Output& out) {
    constexpr int kParts = kGroup / Group;  // weight groups in 32 columns
    constexpr int kCodes = Bits == 4 ? 256 : 512;
    constexpr int kNumbers = kParts * kPanel * int(sizeof(Number));
    constexpr int kStride = kCodes + kNumbers * (Minima ? 2 : 1);
    const std::uint8_t* codes = m.panel(p);
    const QuantisedGroup* x = a.row(row).group();
    const std::int64_t groups = a.k / kGroup;

    F32 sum[R];
    for (int r = 0; r < R; ++r) sum[r] = zero();
    for (std::int64_t g = 0; g < groups; ++g, codes += kStride, x += kTileRows) {
        for (int line = 0; line < kStride; line += 64) prefetch(codes + kAhead + line);
        const Number* scales = reinterpret_cast<const Number*>(codes + kCodes);
        const Number* minima = reinterpret_cast<const Number*>(codes + kCodes + kNumbers);
        for (int part = 0; part < kParts; ++part) {
            I32 dots[R];
            I32 count = splat(Minima ? 0 : -m.zero * Group);
            for (int r = 0; r < R; ++r) {
                if constexpr (Minima) dots[r] = splat(0);
                else dots[r] = splat(-m.zero * (kParts == 1 ? x[r].sums[0] + x[r].sums[1] : x[r].sums[part]));
            }
            if constexpr (Bits == 4) {
                static_assert(Group == 32);
#pragma GCC unroll 4
                for (int j = 0; j < 4; ++j) {
                    const Codes both = load_codes(codes + j * 64);
                    const Codes low = low_nibbles(both), high = high_nibbles(both);
                    count = dot<4>(dot<4>(count, low, kOnes), high, kOnes);
#pragma GCC unroll 16
                    for (int r = 0; r < R; ++r) dots[r] = dot<4>(dots[r], low, x[r].codes + 4 * j);
#pragma GCC unroll 16
                    for (int r = 0; r < R; ++r) dots[r] = dot<4>(dots[r], high, x[r].codes + 4 * j + 16);
                }
            } else {
                constexpr int kCount = 8 / kParts;
#pragma GCC unroll 8
                for (int j = 0; j < kCount; ++j) {
                    const int vector = part * kCount + j;
                    const Codes eight = load_codes(codes + vector * 64);
                    count = dot<8>(count, eight, kOnes);
#pragma GCC unroll 16
                    for (int r = 0; r < R; ++r) dots[r] = dot<8>(dots[r], eight, x[r].codes + 4 * vector);
                }
            }
            const F32 scale = load(scales + part * kPanel);
            F32 minimum = zero(), weight_sum = scale * to_float(count);
            if constexpr (Minima) {
                minimum = load(minima + part * kPanel);
                weight_sum = fma(minimum, splat(float(Group)), weight_sum);
            }
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                sum[r] = fma(to_float(dots[r]), scale * splat(x[r].scale), sum[r]);
                if constexpr (Minima) {
                    const float offset = kParts == 1 ? x[r].scaled_sum : x[r].scale * float(x[r].sums[part]);
                    sum[r] = fma(minimum, splat(offset), sum[r]);
                }
                sum[r] = fma(weight_sum, splat(x[r].centre), sum[r]);
            }
        }
    }
    const int valid = m.n - p * kPanel;
    for (int r = 0; r < R; ++r) finish(out, row + r, p * kPanel, sum[r], valid);
}

using Tile = void (*)(const Matrix&, int, const Quantised&, std::int64_t, const Output&);

// tiles[R - 1] is the tile of R rows.
struct Tiles {
    Tile of_rows[kLinearRows];
};

template <int Bits, int Group, class Number, bool Minima, int R = 1>
constexpr void fill(Tiles& tiles) {
    tiles.of_rows[R - 1] = tile<Bits, Group, Number, Minima, R>;
    if constexpr (R < kLinearRows) fill<Bits, Group, Number, Minima, R + 1>(tiles);
}

template <int Bits, int Group, class Number, bool Minima>
constexpr Tiles tiles() {
    Tiles all{};
    fill<Bits, Group, Number, Minima>(all);
    return all;
}

template <int Bits, int Group>
static const Tiles& tiles_for(const Matrix& m) {
    static constexpr Tiles half_zero = tiles<Bits, Group, std::uint16_t, false>();
    static constexpr Tiles half_minima = tiles<Bits, Group, std::uint16_t, true>();
    static constexpr Tiles float_zero = tiles<Bits, Group, float, false>();
    static constexpr Tiles float_minima = tiles<Bits, Group, float, true>();
    if (m.half_scales) return m.minima ? half_minima : half_zero;
    return m.minima ? float_minima : float_zero;
}

static const Tiles& tiles_for(const Matrix& m) {
    switch (m.format) {
        case Format::kW4: return tiles_for<4, 32>(m);
        case Format::kW8Half: return tiles_for<8, 16>(m);
        default: return tiles_for<8, 32>(m);
    }
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

static void linear(const Matrix& m, int first_panel, int last_panel, const Quantised& a, int rows, const Output& out) {
    const Tiles& all = tiles_for(m);
    static_assert(kTileRows % kLinearRows == 0);
    for (int p = first_panel; p < last_panel; ++p)
        for (int row = 0; row < rows;) {
            const int left = kLinearRows - a.row(row).place() % kLinearRows;
            const int count = rows - row < left ? rows - row : left;
            all.of_rows[count - 1](m, p, a, row, out);
            row += count;
        }
}

HEADRACE_INLINE F32 dense_column(const float* w) { return load(w); }

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
