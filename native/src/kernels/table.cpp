// Compiled once for each instruction set; see CMakeLists.txt.
#include "attention.hpp"
#include "chains.hpp"
#include "linear.hpp"
#include "rows.hpp"

namespace headrace::HEADRACE_ISA {

#define HEADRACE_TEXT(x) #x
#define HEADRACE_NAME(x) HEADRACE_TEXT(x)

extern const Kernels table;
const Kernels table = {
    .name = HEADRACE_NAME(HEADRACE_ISA),
    .linear_workspace = linear_workspace,
    .linear = linear,
    .dense = dense,
    .quantise = quantise,
    .norm = norm,
    .gate = gate,
    .add = add,
    .add_scaled = add_scaled,
    .softcap = softcap,
    .rotate = rotate,
    .store_kv = store_kv,
    .attention_workspace = attention_workspace,
    .attend = attend,
    .attend_split = attend_split,
    .merge = merge,
    .finite_maximum = finite_maximum,
    .maximum = maximum,
    .mask = mask,
    .find = find,
    .collect = collect,
    .exponentials = exponentials,
    .product_chains = product_chains,
    .float_chains = float_chains,
};

}  // namespace headrace::HEADRACE_ISA
