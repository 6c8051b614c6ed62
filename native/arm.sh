#!/bin/sh
# Cross-compiles the native tests for 64-bit Arm and runs them under QEMU: the NEON kernels give
# the bits of the portable ones.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
PATH="$root/.venv/bin:$PATH"
compiler=aarch64-linux-gnu-g++
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)

if ! command -v "$compiler" >/dev/null || [ -z "$emulator" ]; then
    echo "arm: needs a cross-compiler and user-mode QEMU; on Debian and Ubuntu:" >&2
    echo "    apt-get install g++-aarch64-linux-gnu qemu-user-static" >&2
    exit 1
fi

generator=$(command -v ninja >/dev/null && echo Ninja || echo "Unix Makefiles")
cmake -S "$here" -B "$root/build/arm" -G "$generator" -DCMAKE_SYSTEM_NAME=Linux \
    -DCMAKE_SYSTEM_PROCESSOR=aarch64 "-DCMAKE_CXX_COMPILER=$compiler" \
    -DCMAKE_EXE_LINKER_FLAGS=-static -DHEADRACE_PYTHON=OFF -DHEADRACE_TESTS=ON \
    -DHEADRACE_WERROR=ON >/dev/null
cmake --build "$root/build/arm" --parallel "$(nproc)"

# A core with the dot-product instructions, and one that must fall back to the portable code.
run() {  # core, instruction sets it must find, tests
    core=$1 sets=$2
    shift 2
    echo "== $core"
    "$emulator" -cpu "$core" "$root/build/arm/headrace_tests" "$@" >"$root/build/arm/$core.log" ||
        { cat "$root/build/arm/$core.log"; exit 1; }
    cat "$root/build/arm/$core.log"
    grep -qx "instruction sets: $sets" "$root/build/arm/$core.log"
}
run max "scalar neon" "$@"
run cortex-a53 scalar linear

echo "arm: all native tests pass, and NEON gives the bits of the portable code"
