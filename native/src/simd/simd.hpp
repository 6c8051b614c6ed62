// Sixteen float lanes, whatever the machine: the only thing a kernel is written in.
//
// Each instruction set defines the same types and functions in a namespace of its own, and
// each function gives the same bits in all of them: kernels therefore do too.
//
//   F32    16 floats         Codes        64 unsigned bytes, 4 a lane
//   I32    16 int32          SignedCodes  64 signed bytes, 4 a lane
//                            Words        32 int16, 2 a lane
//
// Kernel files are compiled once per instruction set, so nothing here may have external
// linkage that the linker could merge between them: everything is force-inlined.
#pragma once

#define HEADRACE_INLINE static inline __attribute__((always_inline))

#if defined(HEADRACE_ISA_AVX512)
#define HEADRACE_ISA avx512
#include "avx512.hpp"
#elif defined(HEADRACE_ISA_AVX2)
#define HEADRACE_ISA avx2
#include "avx2.hpp"
#elif defined(HEADRACE_ISA_NEON)
#define HEADRACE_ISA neon
#include "neon.hpp"
#elif defined(HEADRACE_ISA_SCALAR)
#define HEADRACE_ISA scalar
#include "scalar.hpp"
#else
#error "compile kernels with HEADRACE_ISA_AVX512, _AVX2, _NEON or _SCALAR"
#endif

namespace headrace::HEADRACE_ISA {

constexpr int kLanes = 16;

// A number that a body written once can use where a constant is needed.
template <int N>
struct Constant {
    static constexpr int value = N;
};

HEADRACE_INLINE F32 zero() { return splat(0.0f); }

HEADRACE_INLINE float first(F32 x) {
    alignas(64) float lanes[kLanes];
    store(lanes, x);
    return lanes[0];
}

}  // namespace headrace::HEADRACE_ISA
