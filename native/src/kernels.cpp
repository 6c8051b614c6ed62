#include "kernels.hpp"

#if defined(HEADRACE_ARM) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace headrace {

namespace scalar { extern const Kernels table; }
#ifdef HEADRACE_X86
namespace avx2 { extern const Kernels table; }
namespace avx512 { extern const Kernels table; }
#endif
#ifdef HEADRACE_ARM
namespace neon { extern const Kernels table; }

static bool has_dot_product() {
#ifdef __linux__
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
    return true;  // every Apple core that runs arm64 programs has it
#endif
}
#endif

const Kernels* kernels(Isa isa) {
    switch (isa) {
#ifdef HEADRACE_X86
        case Isa::kAvx512: {
            const bool supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                                   __builtin_cpu_supports("avx512vnni");
            return supported ? &avx512::table : nullptr;
        }
        case Isa::kAvx2: {
            const bool supported = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                   __builtin_cpu_supports("f16c");
            return supported ? &avx2::table : nullptr;
        }
#endif
#ifdef HEADRACE_ARM
        case Isa::kNeon: return has_dot_product() ? &neon::table : nullptr;
#endif
        case Isa::kScalar: return &scalar::table;
        default: return nullptr;
    }
}

}  // namespace headrace
