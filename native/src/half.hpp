// IEEE 754 half precision in plain C++: what every instruction set must agree with.
#pragma once

#include <bit>
#include <cstdint>

namespace headrace {

inline float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = std::uint32_t(half & 0x8000u) << 16;
    const std::uint32_t magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) {  // infinity and NaN (quiet, as hardware makes it)
        const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
        return std::bit_cast<float>(sign | 0x7f800000u | quiet | (magnitude & 0x3ffu) << 13);
    }
    // Shifting the exponent by a multiplication also normalises subnormal halves.
    const float shifted = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(shifted));
}

// Rounds to nearest, ties to even.
inline std::uint16_t float_to_half(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return std::uint16_t(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    if (magnitude >= 0x477ff000u) return std::uint16_t(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {  // subnormal half: let a float addition do the rounding
        const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
        return std::uint16_t(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
    }
    const std::uint32_t odd = magnitude >> 13 & 1u;
    return std::uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

}  // namespace headrace
