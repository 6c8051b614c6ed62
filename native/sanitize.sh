#!/bin/sh
# Builds the native tests with sanitizers and runs them: all under address and undefined
# behaviour, and what uses several threads under the thread sanitizer.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
PATH="$root/.venv/bin:$PATH"

build() {  # sanitizers, folder
    generator=$(command -v ninja >/dev/null && echo Ninja || echo "Unix Makefiles")
    cmake -S "$here" -B "$2" -G "$generator" -DHEADRACE_PYTHON=OFF -DHEADRACE_TESTS=ON \
        -DHEADRACE_WERROR=ON "-DHEADRACE_SANITIZE=$1" >/dev/null
    cmake --build "$2" --parallel "$(nproc)"
}

echo "== address, undefined"
build address,undefined "$root/build/sanitize-address"
ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    "$root/build/sanitize-address/headrace_tests"

echo "== thread"
build thread "$root/build/sanitize-thread"
TSAN_OPTIONS=halt_on_error=1 "$root/build/sanitize-thread/headrace_tests" team executor experts

echo "sanitize: all native tests pass, and no sanitizer found anything"
