// Turns weights as checkpoints give them into the panels the kernels read.
#pragma once

#include <cstdint>
#include <memory>

#include "arena.hpp"
#include "matrix.hpp"
#include "team.hpp"

namespace headrace {

// weight[n][k] = scale[n][g] * codes[n][k] + minimum[n][g]; codes below 2**bits.
struct GroupedSource {
    int bits, group;  // 4 or 8; 16 or 32
    int n, k;
    const std::uint8_t* codes;
    const float *scale, *minimum;
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
