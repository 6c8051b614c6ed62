// A weight matrix as the kernels read it: panels of 16 outputs, lanes = outputs.
//
// A grouped panel is one stream of strides. A stride holds 32 columns:
//   codes    planes of 64-byte vectors, four bytes an output. Vector j stands for columns
//            4j .. 4j+3. Codes of 8 bits are eight such vectors. Others are four: the low four
//            bits of vector j in low nibbles, of vector j + 4 in high ones; then come the bits
//            above, of 5-bit codes one vector (bit j: of vector j), of 6-bit codes two (bits
//            2j, 2j+1 of the first: of vector j; of the second: of vector j + 4).
//   scales   16 for each group (one, or two of 16 columns)
//   minima   as many, unless every minimum is -zero * scale
// Scales and minima are half floats where all of the matrix's are exactly that, else floats. Or
// they are multiples: int8 in the strides, of half floats that each block of 256 columns begins
// with, 16 for the scales and 16 for the minima. A dense panel holds 16 values for each column.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

constexpr int kPanel = 16;   // outputs
constexpr int kGroup = 32;   // columns that share an activation scale
constexpr int kBlockColumns = 256;  // columns that share the units of multiples

enum class Format : std::uint8_t { kGrouped, kF32, kF16, kBF16 };
enum class Numbers : std::uint8_t { kHalf, kFloat, kMultiple };

// Bytes that one set of 16 numbers takes of a stride, and of the head of a block.
constexpr int number_bytes(Numbers numbers) {
    return kPanel * (numbers == Numbers::kFloat ? 4 : numbers == Numbers::kHalf ? 2 : 1);
}
constexpr int unit_bytes(Numbers numbers) { return numbers == Numbers::kMultiple ? kPanel * 2 : 0; }

// Where things lie in a grouped panel.
struct Layout {
    int bits, group;  // 4, 5, 6 or 8; 16 or 32
    Numbers numbers;
    bool minima;

    constexpr int parts() const { return kGroup / group; }
    constexpr int kinds() const { return minima ? 2 : 1; }  // of numbers
    constexpr int code_bytes() const { return bits * kPanel * kGroup / 8; }
    constexpr int scale_at(int part) const { return code_bytes() + part * number_bytes(numbers); }
    constexpr int minimum_at(int part) const { return scale_at(parts() + part); }
    constexpr int stride() const { return scale_at(parts() * kinds()); }
    constexpr int head() const { return unit_bytes(numbers) * kinds(); }
    // From the panel's beginning.
    constexpr std::size_t block_at(int column) const {
        return std::size_t(column / kBlockColumns) * std::size_t(head() + kBlockColumns / kGroup * stride());
    }
    constexpr std::size_t stride_at(int column) const {
        return block_at(column) + std::size_t(head() + column % kBlockColumns / kGroup * stride());
    }
    constexpr bool operator==(const Layout&) const = default;
};

struct Matrix {
    Format format;
    Layout layout;  // grouped only
    int zero;       // code that means 0, where there are no minima
    int n, k;       // outputs, columns
    std::size_t panel_bytes;
    const std::uint8_t* data;

    bool grouped() const { return format == Format::kGrouped; }
    int panels() const { return (n + kPanel - 1) / kPanel; }
    const std::uint8_t* panel(int p) const { return data + std::size_t(p) * panel_bytes; }
};

}  // namespace headrace
