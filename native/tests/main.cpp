// Runs every test, or those whose names begin with one of the arguments.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "check.hpp"

int main(int count, char** arguments) {
    const std::vector<std::string> wanted(arguments + 1, arguments + count);
    std::printf("instruction sets:");
    for (const headrace::Kernels* kernels : headrace::test::instruction_sets()) std::printf(" %s", kernels->name);
    std::printf("\n");
    int run = 0, failed = 0;
    for (const auto& [name, body] : headrace::test::tests()) {
        const bool chosen = wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&name = name](const std::string& start) {
            return name.starts_with(start);
        });
        if (!chosen) continue;
        ++run;
        const auto start = std::chrono::steady_clock::now();
        try {
            body();
        } catch (const std::exception& error) {
            ++failed;
            std::printf("FAILED %s: %s\n", name.c_str(), error.what());
            continue;
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        std::printf("%6.2f s  %s\n", took.count(), name.c_str());
        std::fflush(stdout);
    }
    std::printf("%d tests, %d failed\n", run, failed);
    return run == 0 || failed > 0;
}
