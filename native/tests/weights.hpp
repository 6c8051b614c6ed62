// Weights of every format a checkpoint may bring.
#pragma once

#include <memory>
#include <vector>

#include "arrays.hpp"
#include "packing.hpp"

namespace headrace::test {

struct GroupedKind {
    int bits, group;
    bool minima;  // of its own for each group
    Numbers numbers;
};

// All that a matrix of `columns` columns can be.
inline std::vector<GroupedKind> grouped_kinds(int columns) {
    std::vector<GroupedKind> kinds;
    for (const int bits : {4, 5, 6, 8})
        for (const int group : {16, 32})
            for (const bool minima : {false, true})
                for (const Numbers numbers : {Numbers::kHalf, Numbers::kFloat, Numbers::kMultiple})
                    if (numbers != Numbers::kMultiple || columns % kBlockColumns == 0)
                        kinds.push_back({bits, group, minima, numbers});
    return kinds;
}

// Random numbers around `middle`, one a group, some of them 0.
struct GroupNumbers {
    GroupNumbers(Random& random, Numbers kind, std::size_t count, int groups_a_block, float middle) : values(count) {
        if (kind == Numbers::kMultiple) {
            units.resize(count / std::size_t(groups_a_block));
            counts.resize(count);
            for (auto& unit : units) unit = float_to_half(middle / 64 * random.number(0.5f, 1.5f));
        }
        for (std::size_t i = 0; i < count; ++i) {
            const bool none = random.integer(20) == 0;
            if (kind == Numbers::kMultiple) {
                counts[i] = std::int8_t(none ? 0 : random.integer(255) - 127);
                values[i] = half_to_float(units[i / std::size_t(groups_a_block)]) * float(counts[i]);
            } else {
                const float x = none ? 0 : middle * random.number(0.5f, 1.5f);
                values[i] = kind == Numbers::kHalf ? as_half(x) : x;
            }
        }
    }

    NumberSource source() const {
        if (counts.empty()) return {values.data(), nullptr, nullptr};
        return {nullptr, units.data(), counts.data()};
    }
    void multiply(float factor) {
        for (float& x : values) x *= factor;
        for (auto& unit : units) unit = float_to_half(half_to_float(unit) * factor);
    }

    std::vector<float> values;
    std::vector<std::uint16_t> units;
    std::vector<std::int8_t> counts;
};

struct GroupedWeights {
    GroupedWeights(Random& random, GroupedKind kind, int outputs, int columns)
        : bits(kind.bits), group(kind.group), n(outputs), k(columns), zero(kind.minima ? 0 : 1 << (bits - 1)),
          codes(std::size_t(n) * std::size_t(k)),
          scale(random, kind.numbers, codes.size() / std::size_t(group), kBlockColumns / group, 4.0f / float(1 << bits)),
          minimum(random, kind.numbers, kind.minima ? scale.values.size() : 0, kBlockColumns / group, -2),
          minima(minimum.source()) {
        for (auto& code : codes) code = std::uint8_t(random.integer(1 << bits));
    }
    GroupedWeights(const GroupedWeights&) = delete;

    GroupedSource source() const {
        return {bits, group, n, k, codes.data(), scale.source(), minimum.values.empty() ? nullptr : &minima, zero};
    }
    double value(std::size_t i) const {
        const std::size_t g = i / std::size_t(group);
        const double least = minimum.values.empty() ? 0 : double(minimum.values[g]);
        return double(scale.values[g]) * (codes[i] - zero) + least;
    }

    int bits, group, n, k, zero;
    std::vector<std::uint8_t> codes;
    GroupNumbers scale, minimum;
    NumberSource minima;
};

inline std::vector<float> dense_weights(Random& random, Format format, std::size_t count, float spread = 1) {
    std::vector<float> values = random.numbers(count, spread);
    for (float& x : values) x = format == Format::kF16 ? as_half(x) : format == Format::kBF16 ? as_bfloat(x) : x;
    return values;
}

}  // namespace headrace::test
