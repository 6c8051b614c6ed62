// Packed matrices and their products, against a plain loop in double precision.
#include <algorithm>
#include <stdexcept>

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
    // Exactly as much room as is asked for, and with nothing useful in it.
    std::vector<float> workspace(std::size_t(kernels.linear_workspace(m)), NAN);
    kernels.linear(m, first, last, x->view().row(row), rows, workspace.data(), out);
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

namespace {

void check_grouped(Random& random, Team& team, GroupedKind kind, int n, int k, int rows) {
    const GroupedWeights weights(random, kind, n, k);
    const PackedMatrix packed(std::make_shared<Arena>(), team, weights.source());
    const std::vector<float> x = random.numbers(std::size_t(rows * k), 2);
    const QuantisedRows quantised(*instruction_sets().front(), x, rows);
    const Expected right = expected(
        rows, n, k, [&](std::size_t i) { return weights.value(i); }, [&](std::size_t i) { return quantised.value(i); });
    std::vector<float> bits;
    for (const Kernels* kernels : instruction_sets())
        check_products(grouped_product, packed.view(), x, rows, right, 4e-6, bits, *kernels);
}

}  // namespace

TEST(linear_grouped) {
    Random random(1);
    Team team(2);
    for (const int k : {32, 160, 512})
        for (const GroupedKind kind : grouped_kinds(k))
            for (const int n : {1, 15, 37}) check_grouped(random, team, kind, n, k, 2);
}

// Every tile of rows, and so many rows that panels are unpacked for them.
TEST(linear_grouped_rows) {
    Random random(5);
    Team team(2);
    for (const GroupedKind kind : grouped_kinds(256))
        for (const int rows : {1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 97}) check_grouped(random, team, kind, 17, 256, rows);
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
    constexpr int kN = 21, kK = 512;
    for (const GroupedKind kind : grouped_kinds(kK)) {
        const GroupedWeights weights(random, kind, kN, kK);
        const PackedMatrix packed(std::make_shared<Arena>(), team, weights.source());
        CHECK(packed.view().layout == (Layout{kind.bits, kind.group, kind.numbers, kind.minima}));
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

TEST(linear_packed_size) {
    // Bits a weight: codes, half scales a group; or units a block and a byte a group.
    const auto bits = [](Layout l) { return 8.0 * double(l.block_at(kBlockColumns)) / (kPanel * kBlockColumns); };
    CHECK(bits({4, 32, Numbers::kHalf, false}) == 4.5);
    CHECK(bits({5, 32, Numbers::kHalf, true}) == 6);
    CHECK(bits({4, 32, Numbers::kMultiple, true}) == 4 + 0.5 + 0.125);
    CHECK(bits({6, 16, Numbers::kMultiple, false}) == 6 + 0.5 + 0.0625);
    CHECK(bits({8, 32, Numbers::kHalf, false}) == 8.5);
}

TEST(linear_refuses_what_it_cannot_pack) {
    Random random(6);
    Team team(1);
    GroupedWeights weights(random, {4, 32, true, Numbers::kMultiple}, 3, 256);
    const auto refuses = [&](auto change) {
        GroupedSource source = weights.source();
        change(source);
        try {
            const PackedMatrix packed(std::make_shared<Arena>(), team, source);
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    CHECK(!refuses([](GroupedSource&) {}));
    CHECK(refuses([](GroupedSource& s) { s.bits = 7; }));
    CHECK(refuses([](GroupedSource& s) { s.group = 64; }));
    CHECK(refuses([](GroupedSource& s) { s.k = 48; }));
    CHECK(refuses([](GroupedSource& s) { s.k = 128; }));
    CHECK(refuses([&](GroupedSource& s) { s.scale = {weights.scale.values.data(), nullptr, nullptr}; }));
}

}  // namespace headrace::test
