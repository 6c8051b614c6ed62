// Numbers for the tests. Arrays lie on the heap, exactly as large as a kernel may touch, so
// that the address sanitizer sees a step beyond them.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
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
        : k(int(x.size()) / rows), groups(Quantised::count(rows, k)) {
        for (int r = 0; r < rows; ++r) kernels.quantise(x.data() + std::ptrdiff_t(r) * k, view().row(r));
    }

    Quantised view() { return {groups.data(), k}; }
    // The group that element i is in.
    const QuantisedGroup& group(std::size_t i) const {
        const std::size_t width = std::size_t(k), row = i / width, column = i % width;
        return groups[(row / kTileRows * (width / kGroup) + column / kGroup) * kTileRows + row % kTileRows];
    }
    int code(std::size_t i) const { return group(i).codes[i % kGroup]; }
    // What element i stands for.
    double value(std::size_t i) const { return double(group(i).scale) * code(i) + double(group(i).centre); }
    bool operator==(const QuantisedRows& other) const {
        return std::memcmp(groups.data(), other.groups.data(), groups.size() * sizeof(QuantisedGroup)) == 0;
    }

    int k;
    std::vector<QuantisedGroup> groups;
};

}  // namespace headrace::test
