// What this machine can do at most, for `headrace doctor` and the performance pages.
#pragma once

#include <cstddef>

#include "kernels.hpp"
#include "team.hpp"

namespace headrace {

// Bytes a second that the team reads of `bytes` bytes, streaming, again and again: from memory
// if they are more than the caches hold.
double read_bandwidth(Team&, const Kernels&, std::size_t bytes);
// Multiply-adds a second of the 8-bit product kernel on data that stays in cache.
double product_rate(Team&, const Kernels&);
// Multiply-adds a second of the instructions themselves: 8-bit integers, and floats.
double peak_product_rate(Team&, const Kernels&);
double peak_float_rate(Team&, const Kernels&);

}  // namespace headrace
