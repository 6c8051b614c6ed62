#include "probe.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "arena.hpp"
#include "packing.hpp"

namespace headrace {

namespace {

// The best of several tries, in seconds: others share the machine. Slow ones are few.
template <class Body>
double seconds(Body body) {
    double best = 1e9, total = 0;
    for (int i = 0; i < 8 && total < 0.4; ++i) {
        const auto start = std::chrono::steady_clock::now();
        body();
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        best = std::min(best, took);
        total += took;
    }
    return best;
}

}  // namespace

double read_bandwidth(Team& team, const Kernels& kernels, std::size_t bytes) {
    constexpr int kTasks = 256;
    const std::size_t part = std::max<std::size_t>(bytes / sizeof(float) / kTasks, 1);
    Arena arena;
    float* data = arena.allocate<float>(kTasks * part);
    std::fill_n(data, kTasks * part, 1.0f);
    std::vector<float> found(kTasks);
    const double time = seconds([&] {
        team.run(kTasks, [&](int, int t) { found[std::size_t(t)] = kernels.maximum(data + std::size_t(t) * part, int(part)); });
    });
    return double(kTasks * part * sizeof(float)) / time;
}

double product_rate(Team& team, const Kernels& kernels) {
    constexpr int kRows = 48, kColumns = 512, kOutputs = 64, kTasks = 64, kRepeats = 4;
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

namespace {

// chains(out) does some work and returns how much it was, in multiply-adds.
template <class Chains>
double chain_rate(Team& team, Chains chains) {
    constexpr int kTasks = 64;
    std::vector<float> out(kTasks * kPanel);
    std::int64_t done = 0;
    const double time = seconds([&] {
        std::vector<std::int64_t> each(kTasks);
        team.run(kTasks, [&](int, int t) { each[std::size_t(t)] = chains(&out[std::size_t(t) * kPanel]); });
        done = std::accumulate(each.begin(), each.end(), std::int64_t(0));
    });
    return double(done) / time;
}

constexpr int kChainRepeats = 1 << 14;

}  // namespace

double peak_product_rate(Team& team, const Kernels& kernels) {
    const std::vector<std::uint8_t> codes(64, 3);
    const std::vector<std::int8_t> x(64, 1);
    return chain_rate(team, [&](float* out) { return kernels.product_chains(kChainRepeats, codes.data(), x.data(), out); });
}

double peak_float_rate(Team& team, const Kernels& kernels) {
    const std::vector<float> x(32, 0.5f);
    return chain_rate(team, [&](float* out) { return kernels.float_chains(kChainRepeats, x.data(), out); });
}

}  // namespace headrace
