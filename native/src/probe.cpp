#include "probe.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "arena.hpp"
#include "packing.hpp"

namespace headrace {

namespace {

// The best of several tries, in seconds: others share the machine.
template <class Body>
double seconds(Body body) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
        const auto start = std::chrono::steady_clock::now();
        body();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
}

}  // namespace

double read_bandwidth(Team& team, const Kernels& kernels) {
    constexpr int kTasks = 256, kFloats = 1 << 18;  // 256 MiB: beyond the caches of most machines
    Arena arena;
    float* data = arena.allocate<float>(std::size_t(kTasks) * kFloats);
    std::fill_n(data, std::size_t(kTasks) * kFloats, 1.0f);
    std::vector<float> found(kTasks);
    const double time = seconds([&] {
        team.run(kTasks, [&](int, int t) { found[std::size_t(t)] = kernels.maximum(data + std::size_t(t) * kFloats, kFloats); });
    });
    return double(kTasks) * kFloats * sizeof(float) / time;
}

double product_rate(Team& team, const Kernels& kernels) {
    constexpr int kRows = 48, kColumns = 512, kOutputs = 64, kTasks = 64, kRepeats = 16;
    const std::vector<std::uint8_t> codes(std::size_t(kOutputs) * kColumns, 1);
    const std::vector<float> scale(codes.size() / 32, 1.0f);
    const PackedMatrix matrix(std::make_shared<Arena>(), team,
                              GroupedSource{8, 32, kOutputs, kColumns, codes.data(), {scale.data(), nullptr, nullptr}, nullptr, 0});
    std::vector<QuantisedGroup> groups(Quantised::count(kRows, kColumns));
    const Quantised rows = {groups.data(), kColumns};
    const std::vector<float> x(kColumns, 1.0f);
    for (int r = 0; r < kRows; ++r) kernels.quantise(x.data(), rows.row(r));
    std::vector<float> out(std::size_t(kTasks) * kRows * kOutputs);
    const auto room = std::size_t(kernels.linear_workspace(matrix.view()));
    std::vector<float> workspaces(std::size_t(team.threads()) * room);
    const double time = seconds([&] {
        team.run(kTasks, [&](int member, int t) {
            float* workspace = workspaces.data() + std::size_t(member) * room;
            const Output target = {out.data() + std::size_t(t) * kRows * kOutputs, kOutputs, nullptr, false};
            for (int i = 0; i < kRepeats; ++i) kernels.linear(matrix.view(), 0, kOutputs / kPanel, rows, kRows, workspace, target);
        });
    });
    return double(kTasks) * kRepeats * kRows * kColumns * kOutputs / time;
}

}  // namespace headrace
