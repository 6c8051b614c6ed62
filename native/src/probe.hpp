// What this machine can do at most, for `headrace doctor` and the performance pages.
#pragma once

#include "kernels.hpp"
#include "team.hpp"

namespace headrace {

// Bytes a second that the team reads from memory, streaming.
double read_bandwidth(Team&, const Kernels&);
// Multiply-adds a second of the 8-bit product kernel on data that stays in cache.
double product_rate(Team&, const Kernels&);

}  // namespace headrace
