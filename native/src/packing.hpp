// Turns weights as checkpoints give them into the panels the kernels read.
#pragma once

#include <cstdint>
#include <memory>

#include "arena.hpp"
#include "matrix.hpp"
#include "team.hpp"

namespace headrace {

// A number for each group of a matrix, [n][k / group]: values, or counts[n][k / group] times
// units[n][k / 256] in half precision.
struct NumberSource {
    const float* values;  // or null
    const std::uint16_t* units;
    const std::int8_t* counts;
};

// weight[n][k] = scale[n][g] * (codes[n][k] - zero) or, with minima, scale[n][g] * codes[n][k] +
// minimum[n][g]; codes below 2**bits.
struct GroupedSource {
    int bits, group;  // 4, 5, 6 or 8; 16 or 32
    int n, k;
    const std::uint8_t* codes;
    NumberSource scale;
    const NumberSource* minimum;  // or null
    int zero;                     // where there are no minima
};

struct DenseSource {
    int n, k;
    const float* values;
};

class PackedMatrix {
public:
    PackedMatrix(std::shared_ptr<Arena>, Team&, const GroupedSource&);
    PackedMatrix(std::shared_ptr<Arena>, Team&, const DenseSource&);

    const Matrix& view() const { return view_; }
    std::size_t bytes() const { return view_.panel_bytes * std::size_t(view_.panels()); }
    // out[k] = scale * weight[row][k]
    void row(int row, float scale, float* out) const;

private:
    std::shared_ptr<Arena> arena_;
    Matrix view_;
};

}  // namespace headrace
