// Numbers for the tests. Arrays lie on the heap, exactly as large as a kernel may touch, so
// that the address sanitizer sees a step beyond them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "half.hpp"
#include "kernels.hpp"

namespace headrace::test {

inline std::vector<const Kernels*> instruction_sets() {
    std::vector<const Kernels*> all;
    for (const Isa isa : {Isa::kScalar, Isa::kNeon, Isa::kAvx2, Isa::kAvx512})
        if (const Kernels* table = kernels(isa)) all.push_back(table);
    return all;
}

class Random {
public:
    explicit Random(unsigned seed) : engine_(seed) {}

    int integer(int below) { return int(engine_() % unsigned(below)); }
    float number(float low, float high) { return low + (high - low) * float(engine_() >> 8) * 0x1p-24f; }
    std::vector<float> numbers(std::size_t count, float spread = 1) {
        std::vector<float> out(count);
        for (float& x : out) x = number(-spread, spread);
        return out;
    }

private:
    std::mt19937 engine_;
};

inline float as_half(float x) { return half_to_float(float_to_half(x)); }
inline float as_bfloat(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffff0000u); }

// The same bits, but any NaN is as good as another.
inline bool same(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
inline bool same(std::span<const float> a, std::span<const float> b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (!same(a[i], b[i])) return false;
    return true;
}

inline bool close(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

// Rows as `quantise` leaves them.
class QuantisedRows {
public:
    QuantisedRows(const Kernels& kernels, const std::vector<float>& x, int rows)
        : k(int(x.size()) / rows), codes(x.size()), scales(x.size() / 32), centres(x.size() / 32),
          scaled_sums(x.size() / 32), sums(x.size() / 16) {
        for (int r = 0; r < rows; ++r) kernels.quantise(x.data() + std::ptrdiff_t(r) * k, k, view().row(r));
    }

    Quantised view() {
        return {codes.data(), scales.data(), centres.data(), scaled_sums.data(), sums.data(), k};
    }
    // What element i stands for.
    double value(std::size_t i) const {
        return double(scales[i / 32]) * codes[i] + double(centres[i / 32]);
    }
    bool operator==(const QuantisedRows& other) const {
        return codes == other.codes && same(scales, other.scales) && same(centres, other.centres) &&
               same(scaled_sums, other.scaled_sums) && sums == other.sums;
    }

    int k;
    std::vector<std::int8_t> codes;
    std::vector<float> scales, centres, scaled_sums;
    std::vector<std::int32_t> sums;
};

}  // namespace headrace::test
