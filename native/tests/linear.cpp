// Packed matrices and their products, against a plain loop in double precision.
#include <algorithm>

#include "check.hpp"
#include "weights.hpp"

namespace headrace::test {
namespace {

constexpr int kMostRows = 13;
constexpr float kUntouched = -12345;

using Product = void (*)(const Kernels&, const Matrix&, int first, int last, const float* x, QuantisedRows*, int row,
                         int rows, const Output&);

void grouped_product(const Kernels& kernels, const Matrix& m, int first, int last, const float*, QuantisedRows* x,
                     int row, int rows, const Output& out) {
    kernels.linear(m, first, last, x->view().row(row), rows, out);
}
void dense_product(const Kernels& kernels, const Matrix& m, int first, int last, const float* x, QuantisedRows*,
                   int row, int rows, const Output& out) {
    kernels.dense(m, first, last, x + std::ptrdiff_t(row) * m.k, m.k, rows, out);
}

// What a product should be, and how large the terms are that it sums.
struct Expected {
    std::vector<double> sum, size;
};

template <class W, class X>
Expected expected(int rows, int n, int k, W weight, X x) {
    Expected out = {std::vector<double>(std::size_t(rows * n)), std::vector<double>(std::size_t(rows * n))};
    for (int r = 0; r < rows; ++r)
        for (int o = 0; o < n; ++o)
            for (int c = 0; c < k; ++c) {
                const double term = weight(std::size_t(o * k + c)) * x(std::size_t(r * k + c));
                out.sum[std::size_t(r * n + o)] += term;
                out.size[std::size_t(r * n + o)] += std::abs(term);
            }
    return out;
}

// All rows and panels at once, row by row, and panel by panel: right, and the same bits.
void check_products(Product product, const Matrix& m, const std::vector<float>& x, int rows, const Expected& right,
                    double slack, std::vector<float>& bits, const Kernels& kernels) {
    Random random(3);
    const std::vector<float> bias = random.numbers(std::size_t(m.n)), before = random.numbers(std::size_t(rows * m.n));
    QuantisedRows quantised = m.grouped() ? QuantisedRows(kernels, x, rows) : QuantisedRows(kernels, {}, 1);
    const int stride = m.n + 3;
    for (const bool whole : {true, false}) {
        // No room behind the last row, and what lies between rows must stay as it was.
        std::vector<float> out(std::size_t((rows - 1) * stride + m.n), kUntouched);
        for (int r = 0; r < rows; ++r) std::copy_n(&before[std::size_t(r * m.n)], m.n, &out[std::size_t(r * stride)]);
        const auto target = [&](int r) { return Output{out.data() + r * stride, stride, bias.data(), true}; };
        if (whole) {
            product(kernels, m, 0, m.panels(), x.data(), &quantised, 0, rows, target(0));
        } else {
            for (int p = m.panels(); p-- > 0;)
                for (int r = 0; r < rows; ++r) product(kernels, m, p, p + 1, x.data(), &quantised, r, 1, target(r));
        }
        std::vector<float> packed;
        for (int r = 0; r < rows; ++r) {
            packed.insert(packed.end(), &out[std::size_t(r * stride)], &out[std::size_t(r * stride)] + m.n);
            for (int i = m.n; r + 1 < rows && i < stride; ++i) CHECK(out[std::size_t(r * stride + i)] == kUntouched);
        }
        for (std::size_t i = 0; i < packed.size(); ++i) {
            const double wanted = right.sum[i] + double(bias[i % std::size_t(m.n)]) + double(before[i]);
            CHECK(close(double(packed[i]), wanted, 1e-6 + slack * right.size[i]));
        }
        if (bits.empty()) bits = packed;
        CHECK(same(bits, packed));
    }
    // Neither bias nor what was there before.
    std::vector<float> plain(std::size_t(rows * m.n), NAN);
    product(kernels, m, 0, m.panels(), x.data(), &quantised, 0, rows, {plain.data(), m.n, nullptr, false});
    for (std::size_t i = 0; i < plain.size(); ++i)
        CHECK(close(double(plain[i]), right.sum[i], 1e-6 + slack * right.size[i]));
}

}  // namespace

TEST(linear_grouped) {
    Random random(1);
    Team team(2);
    for (const GroupedKind kind : grouped_kinds())
        for (const int n : {1, 15, 16, 37})
            for (const int k : {32, 160}) {
                const GroupedWeights weights(random, kind, n, k);
                const PackedMatrix packed(std::make_shared<Arena>(), team, weights.source());
                const Matrix& m = packed.view();
                for (int rows = 1; rows <= kMostRows; ++rows) {
                    const std::vector<float> x = random.numbers(std::size_t(rows * k), 2);
                    const QuantisedRows quantised(*instruction_sets().front(), x, rows);
                    const Expected right = expected(
                        rows, n, k, [&](std::size_t i) { return weights.value(i); },
                        [&](std::size_t i) { return quantised.value(i); });
                    std::vector<float> bits;
                    for (const Kernels* kernels : instruction_sets())
                        check_products(grouped_product, m, x, rows, right, 4e-6, bits, *kernels);
                }
            }
}

TEST(linear_dense) {
    Random random(2);
    Team team(2);
    for (const Format format : {Format::kF32, Format::kF16, Format::kBF16})
        for (const int n : {1, 16, 37})
            for (const int k : {1, 2, 33, 96}) {
                const std::vector<float> weights = dense_weights(random, format, std::size_t(n * k));
                const PackedMatrix packed(std::make_shared<Arena>(), team, DenseSource{n, k, weights.data()});
                CHECK(packed.view().format == format);
                const Matrix& m = packed.view();
                for (int rows = 1; rows <= kMostRows; ++rows) {
                    const std::vector<float> x = random.numbers(std::size_t(rows * k), 2);
                    const Expected right = expected(
                        rows, n, k, [&](std::size_t i) { return double(weights[i]); },
                        [&](std::size_t i) { return double(x[i]); });
                    std::vector<float> bits;
                    for (const Kernels* kernels : instruction_sets())
                        check_products(dense_product, m, x, rows, right, 4e-6, bits, *kernels);
                }
            }
}

TEST(linear_packed_rows_are_the_weights) {
    Random random(4);
    Team team(3);
    constexpr int kN = 21, kK = 96;
    for (const GroupedKind kind : grouped_kinds()) {
        const GroupedWeights weights(random, kind, kN, kK);
        const PackedMatrix packed(std::make_shared<Arena>(), team, weights.source());
        const Matrix& m = packed.view();
        const bool nibbles = kind.bits == 4 && kind.group == 32;
        CHECK(m.format == (nibbles ? Format::kW4 : kind.group == 16 ? Format::kW8Half : Format::kW8));
        CHECK(m.minima == kind.minima && m.half_scales == kind.half);
        CHECK(m.minima || m.zero == 1 << (kind.bits - 1));
        std::vector<float> row(kK);
        for (int r = 0; r < kN; ++r) {
            packed.row(r, 0.5f, row.data());
            for (int c = 0; c < kK; ++c)
                CHECK(close(double(row[std::size_t(c)]), 0.5 * weights.value(std::size_t(r * kK + c)), 1e-6));
        }
    }
    for (const Format format : {Format::kF32, Format::kF16, Format::kBF16}) {
        const std::vector<float> weights = dense_weights(random, format, std::size_t(kN) * 35);
        const PackedMatrix packed(std::make_shared<Arena>(), team, DenseSource{kN, 35, weights.data()});
        std::vector<float> row(35);
        for (int r = 0; r < kN; ++r) {
            packed.row(r, 1, row.data());
            CHECK(same(row, std::span(weights).subspan(std::size_t(r) * 35, 35)));
        }
    }
}

}  // namespace headrace::test
