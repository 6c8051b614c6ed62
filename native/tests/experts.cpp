// Mixtures of experts: routes and products against the formulas, and the same bits for any
// threads, instruction set and company.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "check.hpp"
#include "executor.hpp"
#include "experts.hpp"
#include "weights.hpp"

namespace headrace::test {
namespace {

constexpr int kRows = 90, kWidth = 64, kInner = 96, kExperts = 7, kUsed = 3;
constexpr Sizes kSizes = {.tokens = kRows, .sequences = 1, .blocks = 3, .layers = 1, .heads = 1, .kv_heads = 1,
                          .head_dim = 16, .key_bytes = 2, .vocabulary = kRows, .context = 128};
enum : int { kX, kScores, kRoutes, kOut, kLast };

using Weights = std::vector<std::shared_ptr<PackedMatrix>>;

// Token t's row of x and of the scores, through the experts; the logits are what comes out.
class Mixture {
public:
    // kind: of the experts' matrices, -1: dense ones and grouped ones in turn.
    Mixture(const Kernels& kernels, int threads, int kind, bool accumulate)
        : team_(std::make_shared<Team>(threads)), executor_(team_, kernels, plan(kernels, threads, kind, accumulate)) {}

    std::vector<float> step(const std::vector<std::int32_t>& tokens) {
        std::vector<std::int32_t> positions(tokens.size()), tables = {0, 1, 2};
        std::iota(positions.begin(), positions.end(), 0);
        const std::vector<std::int32_t> starts = {0, int(tokens.size())};
        executor_.launch({tokens, positions, starts, positions, tables.data(), {1, 3}, 3});
        executor_.wait();
        const std::span<const float> logits = executor_.logits();
        return {logits.begin(), logits.end()};
    }
    const std::vector<float>& x() const { return x_; }
    const std::vector<float>& scores() const { return scores_; }

private:
    std::shared_ptr<PackedMatrix> dense(const std::vector<float>& values, int n, int k) {
        return std::make_shared<PackedMatrix>(arena_, *team_, DenseSource{n, k, values.data()});
    }
    std::shared_ptr<PackedMatrix> matrix(int n, int k, int kind) {
        const std::vector<GroupedKind> kinds = grouped_kinds(k);
        const std::size_t turn = kind >= 0 ? std::size_t(kind) : made_++ % (kinds.size() + 3);
        if (turn >= kinds.size()) {
            const auto format = Format(int(Format::kF32) + int(turn - kinds.size()));
            return dense(dense_weights(random_, format, std::size_t(n * k), 0.25f), n, k);
        }
        GroupedWeights weights(random_, kinds[turn], n, k);
        weights.scale.multiply(0.125f);
        weights.minimum.multiply(0.125f);
        return std::make_shared<PackedMatrix>(arena_, *team_, weights.source());
    }
    Weights matrices(int n, int k, int kind) {
        Weights all;
        for (int e = 0; e < kExperts; ++e) all.push_back(matrix(n, k, kind));
        return all;
    }

    std::unique_ptr<Plan> plan(const Kernels& kernels, int threads, int kind, bool accumulate) {
        auto plan = std::make_unique<Plan>(arena_, kernels, kSizes, Cache::allocate(*arena_, kSizes),
                                           std::vector<int>{kWidth, kExperts, kExperts, kWidth, kWidth}, threads);
        plan->embed(kX, dense(x_, kRows, kWidth), 1);
        plan->embed(kScores, dense(scores_, kRows, kExperts), 1);
        plan->embed(kOut, dense(x_, kRows, kWidth), 2);
        plan->route(kRoutes, kScores, kUsed, true);
        plan->experts({kOut, kX, kRoutes, matrices(kInner, kWidth, kind), matrices(kInner, kWidth, kind),
                       matrices(kWidth, kInner, kind), Activation::kSilu, accumulate});
        plan->select_rows(kLast, kOut);
        std::vector<float> identity(kWidth * kWidth, 0.0f);
        for (std::size_t i = 0; i < kWidth; ++i) identity[i * kWidth + i] = 1;
        plan->logits(kLast, dense(identity, kWidth, kWidth), 0);
        return plan;
    }

    static std::vector<float> uneven_scores(Random& random) {
        std::vector<float> scores = random.numbers(std::size_t(kRows) * kExperts);
        for (std::size_t i = 0; i < scores.size(); i += kExperts) scores[i + 5] += 9, scores[i + 2] -= 9;
        return scores;
    }

    Random random_{23};
    std::size_t made_ = 0;
    std::vector<float> x_ = random_.numbers(std::size_t(kRows) * kWidth), scores_ = uneven_scores(random_);
    std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
    std::shared_ptr<Team> team_;
    Executor executor_;
};

std::vector<std::int32_t> all_rows() {
    std::vector<std::int32_t> rows(kRows);
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
}

std::span<const float> row_of(const std::vector<float>& all, std::size_t row) {
    return std::span(all).subspan(row * kWidth, kWidth);
}

// One row of routes.
std::vector<float> routes(const Kernels& kernels, std::vector<float> scores, int used, bool normalise) {
    std::vector<float> out(scores.size(), NAN);
    Buffer x, to;
    x.width = to.width = int(scores.size());
    x.data = scores.data();
    to.data = out.data();
    Route(kernels, to, x, used, normalise).row(Step{}, 0);
    return out;
}

}  // namespace

TEST(experts_routes) {
    Random random(31);
    for (const int experts : {1, 2, 16, 17, 128, kMaxExperts})
        for (const int used : {1, std::min(experts, 8), experts})
            for (const bool normalise : {false, true}) {
                const std::vector<float> scores = random.numbers(std::size_t(experts), 5);
                const std::vector<float> first = routes(*instruction_sets().front(), scores, used, normalise);
                for (const Kernels* kernels : instruction_sets()) CHECK(same(routes(*kernels, scores, used, normalise), first));
                std::vector<float> sorted = scores;
                std::ranges::sort(sorted, std::greater());
                const float least = sorted[std::size_t(used) - 1];
                double total = 0;
                for (const float s : scores)
                    if (!normalise || s >= least) total += std::exp(double(s));
                for (std::size_t e = 0; e < scores.size(); ++e)
                    CHECK(close(first[e], scores[e] >= least ? std::exp(double(scores[e])) / total : 0, 1e-6));
            }
}

TEST(experts_first_of_equals) {
    for (const Kernels* kernels : instruction_sets()) {
        CHECK(same(routes(*kernels, {1, 1, 1, 1}, 2, true), std::vector<float>{0.5, 0.5, 0, 0}));
        CHECK(same(routes(*kernels, {0, 1, 0, 1}, 3, false)[2], 0));
    }
}

TEST(experts_scores_that_are_not_finite) {
    for (const Kernels* kernels : instruction_sets()) {
        const std::vector<float> out = routes(*kernels, {NAN, NAN, NAN, NAN}, 2, true);
        CHECK(out[2] == 0 && out[3] == 0);  // no more places than a row has
    }
}

TEST(experts_sums) {
    for (const bool accumulate : {false, true}) {
        const int f32 = int(grouped_kinds(kWidth).size());
        Mixture mixture(*instruction_sets().back(), 2, f32, accumulate);
        const std::vector<float> out = mixture.step(all_rows());
        // The same numbers again: the experts' matrices follow x and scores.
        Random random(23);
        const std::vector<float> x = random.numbers(std::size_t(kRows) * kWidth);
        random.numbers(std::size_t(kRows) * kExperts);
        std::vector<std::vector<float>> weights;
        for (int kind = 0; kind < 3; ++kind)
            for (int e = 0; e < kExperts; ++e) weights.push_back(random.numbers(kInner * kWidth, 0.25f));
        for (std::size_t r = 0; r < kRows; r += 11) {
            const auto scores = std::span(mixture.scores()).subspan(r * kExperts, kExperts);
            const std::vector<float> weight = routes(*instruction_sets().front(), {scores.begin(), scores.end()}, kUsed, true);
            std::vector<double> expected(kWidth, 0.0);
            for (std::size_t c = 0; accumulate && c < kWidth; ++c) expected[c] = 2.0 * double(x[r * kWidth + c]);
            for (std::size_t e = 0; e < kExperts; ++e)
                for (std::size_t i = 0; i < kInner; ++i) {
                    double gate = 0, up = 0;
                    for (std::size_t c = 0; c < kWidth; ++c) {
                        gate += double(x[r * kWidth + c]) * double(weights[e][i * kWidth + c]);
                        up += double(x[r * kWidth + c]) * double(weights[kExperts + e][i * kWidth + c]);
                    }
                    const double inner = double(weight[e]) * up * gate / (1 + std::exp(-gate));
                    for (std::size_t c = 0; c < kWidth; ++c)
                        expected[c] += inner * double(weights[2 * kExperts + e][c * kInner + i]);
                }
            for (std::size_t c = 0; c < kWidth; ++c) CHECK(close(row_of(out, r)[c], expected[c], 1e-5));
        }
    }
}

TEST(experts_of_every_format) {
    const int kinds = int(grouped_kinds(kWidth).size()) + 3;
    for (int kind = -1; kind < kinds; ++kind) {
        std::vector<float> first;
        for (const Kernels* kernels : instruction_sets())
            for (const int threads : kind < 0 ? std::vector{1, 2, 5} : std::vector{2}) {
                Mixture mixture(*kernels, threads, kind, true);
                const std::vector<float> out = mixture.step(all_rows());
                for (const float x : out) CHECK(std::isfinite(x));
                if (first.empty()) first = out;
                CHECK(same(out, first));
            }
    }
}

TEST(experts_company) {
    for (const Kernels* kernels : instruction_sets()) {
        Mixture mixture(*kernels, 3, -1, true);
        const std::vector<float> whole = mixture.step(all_rows());
        Random random(5);
        for (int turn = 0; turn < 12; ++turn) {
            std::vector<std::int32_t> tokens(std::size_t(1 + random.integer(turn % 3 ? 8 : kRows)));
            for (auto& token : tokens) token = random.integer(kRows);
            const std::vector<float> out = mixture.step(tokens);
            for (std::size_t i = 0; i < tokens.size(); ++i)
                CHECK(same(row_of(out, i), row_of(whole, std::size_t(tokens[i]))));
        }
    }
}

TEST(experts_places) {
    // Every row to one expert, or all of them to all.
    CHECK(ExpertRoom::places(1, 1, 8) == 12);
    CHECK(ExpertRoom::places(24, 8, 8) >= 8 * 24);
    CHECK(ExpertRoom::places(13, 2, 2) >= 2 * 24);
}

}  // namespace headrace::test
