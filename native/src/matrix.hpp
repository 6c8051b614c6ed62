// A weight matrix as the kernels read it: panels of 16 outputs, lanes = outputs.
//
// A grouped panel is one stream that holds, for each 32 columns,
//   codes    eight (8-bit) or four (4-bit) vectors of 64 bytes. Vector j holds columns
//            4j .. 4j+3 of each of the 16 outputs, four bytes an output; a 4-bit vector has
//            columns of vector j in its low nibbles and of j + 4 in its high ones.
//   scales   16 for each group (one, or two of 16 columns)
//   minima   as many, unless every minimum is -zero * scale
// Scales and minima are half floats where all of the matrix's are exactly that, else floats.
// A dense panel holds 16 values for each column.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

constexpr int kPanel = 16;  // outputs
constexpr int kGroup = 32;  // columns that share an activation scale

enum class Format : std::uint8_t { kW4, kW8, kW8Half, kF32, kF16, kBF16 };  // kW8Half: groups of 16

struct Matrix {
    Format format;
    bool half_scales;  // grouped only
    bool minima;       // grouped only
    int zero;          // code that means 0, where there are no minima
    int n, k;          // outputs, columns
    std::size_t panel_bytes;
    const std::uint8_t* data;

    bool grouped() const { return format <= Format::kW8Half; }
    int panels() const { return (n + kPanel - 1) / kPanel; }
    int group() const { return format == Format::kW8Half ? 16 : 32; }
    // Bytes that 32 columns take of a grouped panel: their codes, and one set of 16 numbers for
    // each group.
    std::size_t code_bytes() const { return format == Format::kW4 ? 256 : 512; }
    std::size_t number_bytes() const { return std::size_t(kGroup / group()) * kPanel * (half_scales ? 2 : 4); }
    std::size_t stride() const { return code_bytes() + number_bytes() * (minima ? 2 : 1); }
    const std::uint8_t* panel(int p) const { return data + std::size_t(p) * panel_bytes; }
};

}  // namespace headrace
