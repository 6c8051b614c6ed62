// Kernels that work on one row, against the formulas in double precision.
#include <algorithm>
#include <limits>

#include "check.hpp"
#include "arrays.hpp"

namespace headrace::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Runs body(kernels) on each instruction set: it returns floats, the same from all.
template <class Body>
void alike(Body body) {
    std::vector<float> first;
    for (const Kernels* kernels : instruction_sets()) {
        const std::vector<float> out = body(*kernels);
        if (first.empty()) first = out;
        CHECK(same(first, out));
    }
}

double activation(Activation kind, double x) {
    if (kind == Activation::kSilu) return x / (1 + std::exp(-x));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

}  // namespace

TEST(rows_quantise) {
    Random random(1);
    for (const float spread : {1e-35f, 1e-3f, 1.0f, 1e30f})
        for (const int groups : {1, 3}) {
            std::vector<float> x = random.numbers(std::size_t(groups) * 32, spread);
            for (float& v : x) v += spread * 0.7f;
            std::fill_n(x.begin(), 4, 0.0f);
            const QuantisedRows first(*instruction_sets().front(), x, 1);
            for (const Kernels* kernels : instruction_sets()) CHECK(QuantisedRows(*kernels, x, 1) == first);
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double step = std::max(double(first.group(i).scale), 1e-30);
                CHECK(close(first.value(i), double(x[i]), 0.502 * step + 1e-6 * std::abs(double(x[i]))));
            }
            for (std::size_t half = 0; half < x.size() / 16; ++half) {
                int sum = 0;
                for (std::size_t i = 0; i < 16; ++i) sum += first.code(half * 16 + i);
                CHECK(first.group(half * 16).sums[half % 2] == sum);
            }
        }
}

TEST(rows_masked) {
    Random random(8);
    for (const int n : {1, 31, 32, 33, 70, 128}) {
        const std::vector<float> x = random.numbers(std::size_t(n), 3);
        for (const std::uint32_t word : {0u, ~0u, 1u, 0x80000000u, 0x12345678u}) {
            const std::vector<std::uint32_t> mask(std::size_t(n + 31) / 32, word);
            alike([&](const Kernels& kernels) {
                std::vector<float> out(x.size());
                const float greatest = kernels.mask(out.data(), x.data(), mask.data(), n);
                for (std::size_t i = 0; i < x.size(); ++i) CHECK(out[i] == (word >> (i % 32) & 1u ? x[i] : -kInfinity));
                CHECK(greatest == *std::max_element(out.begin(), out.end()));
                return out;
            });
        }
    }
}

TEST(rows_quantise_constants_exactly) {
    for (const float value : {0.0f, -0.0f, 1.0f, -3.5f, 1e-20f, std::numeric_limits<float>::max()})
        for (const Kernels* kernels : instruction_sets()) {
            const QuantisedRows rows(*kernels, std::vector<float>(32, value), 1);
            for (std::size_t i = 0; i < 32; ++i) CHECK(rows.value(i) == double(value));
        }
}

TEST(rows_quantise_shows_what_is_not_finite) {
    for (const float value : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()})
        for (std::size_t at = 0; at < 64; at += 9) {
            std::vector<float> x(64, 1.0f);
            x[at] = value;
            for (const Kernels* kernels : instruction_sets()) {
                const QuantisedRows rows(*kernels, x, 1);
                CHECK(!std::isfinite(rows.value(at)));
                CHECK(rows.value(at < 32 ? 40 : 10) == 1);
            }
        }
}

TEST(rows_norm) {
    Random random(2);
    for (const int groups : {1, 3})
        for (int part = 1; part <= 70; ++part) {
            const int width = groups * part;
            const std::vector<float> x = random.numbers(std::size_t(width), 3), weight = random.numbers(std::size_t(part));
            alike([&](const Kernels& kernels) {
                std::vector<float> out(x.size(), NAN), place = x;
                kernels.norm(out.data(), x.data(), weight.data(), width, groups, 1e-5f);
                kernels.norm(place.data(), place.data(), weight.data(), width, groups, 1e-5f);
                CHECK(same(out, place));
                for (int i = 0; i < width; ++i) {
                    double squares = 0;
                    for (int j = 0; j < part; ++j) squares += std::pow(double(x[std::size_t(i / part * part + j)]), 2);
                    const double right = double(x[std::size_t(i)]) / std::sqrt(squares / part + 1e-5) * double(weight[std::size_t(i % part)]);
                    CHECK(close(double(out[std::size_t(i)]), right, 1e-5));
                }
                return out;
            });
        }
}

TEST(rows_gate_add_and_cap) {
    Random random(3);
    for (int width = 1; width <= 70; ++width) {
        const std::vector<float> x = random.numbers(std::size_t(width), 12), y = random.numbers(std::size_t(width), 2);
        for (const Activation kind : {Activation::kSilu, Activation::kGelu})
            alike([&](const Kernels& kernels) {
                std::vector<float> out(x.size(), NAN);
                kernels.gate(out.data(), x.data(), y.data(), width, kind);
                for (std::size_t i = 0; i < out.size(); ++i)
                    CHECK(close(double(out[i]), activation(kind, double(x[i])) * double(y[i]), 2e-5));
                return out;
            });
        alike([&](const Kernels& kernels) {
            std::vector<float> sum = x;
            kernels.add(sum.data(), y.data(), width);
            for (std::size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == x[i] + y[i]);
            return sum;
        });
        alike([&](const Kernels& kernels) {
            std::vector<float> out = x;
            kernels.softcap(out.data(), width, 5);
            for (std::size_t i = 0; i < out.size(); ++i)
                CHECK(close(double(out[i]), 5 * std::tanh(double(x[i]) / 5), 1e-5));
            return out;
        });
    }
}

TEST(rows_activations_of_extremes) {
    const std::vector<float> x = {-kInfinity, -3e38f, -1000, -90, -0.0f, 0, 90, 1000, 1e18f};
    const std::vector<float> one(x.size(), 1.0f);
    alike([&](const Kernels& kernels) {
        std::vector<float> out(x.size());
        kernels.gate(out.data(), x.data(), one.data(), int(x.size()), Activation::kSilu);
        for (std::size_t i = 3; i < x.size(); ++i) CHECK(close(double(out[i]), std::max(double(x[i]), 0.0), 1e-6 * std::abs(double(x[i]))));
        return out;
    });
}

TEST(rows_rotate) {
    Random random(4);
    constexpr int kHeads = 3, kHeadDim = 48;
    for (const bool interleaved : {false, true})
        for (const int dims : {2, 6, 24, 32, 48}) {
            const std::vector<float> x = random.numbers(kHeads * kHeadDim), angles = random.numbers(std::size_t(dims) / 2, 7);
            std::vector<float> cos(static_cast<std::size_t>(dims)), sin(cos.size());
            const auto pair = [&](int i) {
                return interleaved ? std::pair(2 * i, 2 * i + 1) : std::pair(i, i + dims / 2);
            };
            for (int i = 0; i < dims / 2; ++i) {
                const auto [a, b] = pair(i);
                cos[std::size_t(a)] = cos[std::size_t(b)] = std::cos(angles[std::size_t(i)]);
                sin[std::size_t(b)] = std::sin(angles[std::size_t(i)]);
                sin[std::size_t(a)] = -sin[std::size_t(b)];
            }
            alike([&](const Kernels& kernels) {
                std::vector<float> out = x;
                kernels.rotate(out.data(), kHeads, kHeadDim, dims, interleaved, cos.data(), sin.data());
                for (int h = 0; h < kHeads; ++h) {
                    const std::size_t head = std::size_t(h) * kHeadDim;
                    for (int i = 0; i < dims / 2; ++i) {
                        const std::size_t a = head + std::size_t(pair(i).first), b = head + std::size_t(pair(i).second);
                        const double c = std::cos(double(angles[std::size_t(i)])), s = std::sin(double(angles[std::size_t(i)]));
                        CHECK(close(double(out[a]), double(x[a]) * c - double(x[b]) * s, 1e-6));
                        CHECK(close(double(out[b]), double(x[b]) * c + double(x[a]) * s, 1e-6));
                    }
                    for (std::size_t i = std::size_t(dims); i < kHeadDim; ++i) CHECK(out[head + i] == x[head + i]);
                }
                return out;
            });
        }
}

template <class Key>
void check_store_kv() {
    Random random(5);
    for (const int head_dim : {16, 48, 128})
        for (const int slot : {0, 7, kBlock - 1})
            for (const Kernels* kernels : instruction_sets()) {
                const std::size_t d = std::size_t(head_dim);
                const std::vector<float> k = random.numbers(d, 9), v = random.numbers(d, 9);
                std::vector<std::uint8_t> block(std::size_t(KvHead::bytes(head_dim, sizeof(Key))), 0x5a);
                const std::vector<std::uint8_t> before = block;
                const KvHead head = {block.data(), head_dim, sizeof(Key)};
                kernels->store_kv(head, slot, k.data(), v.data());
                for (int i = 0; i < head_dim; ++i) {
                    const float key = head.key_scales()[slot] * float(head.keys<Key>()[i / 2 * 2 * kBlock + 2 * slot + i % 2]);
                    const float value = head.value_scales()[slot] * float(head.values()[(slot / 4 * head_dim + i) * 4 + slot % 4]);
                    CHECK(std::abs(key - k[std::size_t(i)]) <= 0.501f * head.key_scales()[slot]);
                    CHECK(std::abs(value - v[std::size_t(i)]) <= 0.501f * head.value_scales()[slot]);
                }
                std::size_t changed = 0;
                for (std::size_t i = 0; i < block.size(); ++i) changed += block[i] != before[i];
                CHECK(changed <= (sizeof(Key) + 1) * d + 8);
            }
}

TEST(rows_store_kv) {
    check_store_kv<std::int16_t>();
    check_store_kv<std::int8_t>();
}

TEST(rows_store_kv_keeps_what_is_not_finite_visible) {
    for (const float bad : {NAN, kInfinity, -kInfinity})
        for (const Kernels* kernels : instruction_sets())
            for (const int key_bytes : {1, 2}) {
                std::vector<float> x(16, 1);
                x[11] = bad;
                std::vector<std::uint8_t> block(std::size_t(KvHead::bytes(16, key_bytes)));
                const KvHead head = {block.data(), 16, key_bytes};
                kernels->store_kv(head, 3, x.data(), x.data());
                CHECK(!std::isfinite(head.key_scales()[3]) && !std::isfinite(head.value_scales()[3]));
            }
}

TEST(rows_halves) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float value = half_to_float(std::uint16_t(bits));
        if (!std::isnan(value)) CHECK(float_to_half(value) == bits);
    }
}

TEST(rows_searches) {
    Random random(6);
    for (int n = 1; n <= 70; ++n)
        for (const Kernels* kernels : instruction_sets()) {
            std::vector<float> x = random.numbers(std::size_t(n), 5);
            const float greatest = *std::max_element(x.begin(), x.end());
            CHECK(kernels->maximum(x.data(), n) == greatest && kernels->finite_maximum(x.data(), n) == greatest);
            const std::size_t last = std::size_t(n) - 1;
            CHECK(kernels->find(x.data(), n, x[last]) == n - 1 && kernels->find(x.data(), n, 77) == n);
            std::vector<std::int32_t> ids(x.size()), right;
            for (int i = 0; i < n; ++i)
                if (x[std::size_t(i)] >= 1) right.push_back(i);
            ids.resize(std::size_t(kernels->collect(ids.data(), x.data(), n, 1)));
            CHECK(ids == right);
            x.assign(x.size(), -kInfinity);
            CHECK(kernels->maximum(x.data(), n) == -kInfinity);
            for (const float value : {kInfinity, -kInfinity, NAN}) {
                std::vector<float> broken(x.size(), -1.0f);
                broken[last] = value;
                CHECK(std::isnan(kernels->finite_maximum(broken.data(), n)));
            }
        }
}

TEST(rows_exponentials) {
    Random random(7);
    for (const int n : {1, 16, 17, 1000, 1024, 1025, 2500}) {
        std::vector<float> x = random.numbers(std::size_t(n), 40);
        x[std::size_t(n / 2)] = -kInfinity;
        alike([&](const Kernels& kernels) {
            std::vector<float> out(x.size(), NAN);
            const double sum = kernels.exponentials(out.data(), x.data(), n, 40, 0.5f);
            double right = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double e = std::exp((double(x[i]) - 40) * 0.5);
                CHECK(close(double(out[i]), e, 1e-5 * e));
                right += e;
            }
            CHECK(close(sum, right, 1e-5 * right));
            out.push_back(float(sum));
            return out;
        });
    }
}

}  // namespace headrace::test
