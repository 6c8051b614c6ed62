// Weights of every format a checkpoint may bring.
#pragma once

#include <memory>
#include <vector>

#include "arrays.hpp"
#include "packing.hpp"

namespace headrace::test {

struct GroupedKind {
    int bits, group;
    bool minima, half;  // minima: one of its own for each group; half: numbers fit half floats
};

inline std::vector<GroupedKind> grouped_kinds() {
    std::vector<GroupedKind> kinds;
    for (const int bits : {4, 8})
        for (const int group : {16, 32})
            for (const bool minima : {false, true})
                for (const bool half : {false, true}) kinds.push_back({bits, group, minima, half});
    return kinds;
}

struct GroupedWeights {
    GroupedWeights(Random& random, GroupedKind kind, int outputs, int columns)
        : bits(kind.bits), group(kind.group), n(outputs), k(columns), codes(std::size_t(n) * std::size_t(k)),
          scale(codes.size() / std::size_t(group)), minimum(scale.size()) {
        for (auto& code : codes) code = std::uint8_t(random.integer(1 << bits));
        const auto stored = [&](float x) { return kind.half ? as_half(x) : x; };
        const float step = 4.0f / float(1 << bits), zero = float(1 << (bits - 1));
        for (std::size_t g = 0; g < scale.size(); ++g) {
            scale[g] = stored(step * random.number(0.5f, 1.5f));
            if (random.integer(20) == 0) scale[g] = 0;
            minimum[g] = kind.minima ? stored(random.number(-3, 0.5f)) : -zero * scale[g];
        }
    }

    GroupedSource source() const { return {bits, group, n, k, codes.data(), scale.data(), minimum.data()}; }
    double value(std::size_t i) const {
        return double(scale[i / std::size_t(group)]) * codes[i] + double(minimum[i / std::size_t(group)]);
    }

    int bits, group, n, k;
    std::vector<std::uint8_t> codes;
    std::vector<float> scale, minimum;
};

inline std::vector<float> dense_weights(Random& random, Format format, std::size_t count, float spread = 1) {
    std::vector<float> values = random.numbers(count, spread);
    for (float& x : values) x = format == Format::kF16 ? as_half(x) : format == Format::kBF16 ? as_bfloat(x) : x;
    return values;
}

}  // namespace headrace::test
