// Sampling of one row: cuts, ties, borders, and rows that allow nothing.
#include <algorithm>
#include <limits>
#include <numeric>

#include "check.hpp"
#include "arrays.hpp"
#include "sampler.hpp"

namespace headrace::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kAlmostOne = 1 - 0x1p-53;

RowSampling plain(float temperature, double draw) {
    return {.temperature = temperature, .top_p = 1, .min_p = 0, .top_k = 0, .top_logprobs = -1, .draw = draw,
            .adjustments = {}, .mask = nullptr};
}

// A sample on each instruction set; all alike, and the logits untouched.
RowSample sample(const std::vector<float>& logits, const RowSampling& how) {
    std::vector<RowSample> all;
    for (const Kernels* kernels : instruction_sets()) {
        SamplingScratch scratch;
        std::vector<float> row = logits;
        all.push_back(sample_row(*kernels, row.data(), int(row.size()), how, scratch));
        CHECK(same(row, logits));
        CHECK(all.back().verdict == all.front().verdict && all.back().token == all.front().token);
        CHECK(same(all.back().logprob, all.front().logprob) && all.back().top_ids == all.front().top_ids);
        CHECK(same(all.back().top_logprobs, all.front().top_logprobs));
    }
    return all.front();
}

// The rules in plain words, as ops/sampling.py has them. Sets `clear` to whether the draw is
// far enough from a border that float weights cannot tip it.
std::int32_t naive(const std::vector<float>& logits, const RowSampling& how, bool& clear) {
    const double best = double(*std::max_element(logits.begin(), logits.end()));
    std::vector<std::int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto weight = [&](std::int32_t id) {
        return std::exp((double(logits[std::size_t(id)]) - best) / double(how.temperature));
    };
    std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return logits[std::size_t(a)] > logits[std::size_t(b)]; });
    std::size_t kept = how.top_k > 0 ? std::min(ids.size(), std::size_t(how.top_k)) : ids.size();
    constexpr double kMargin = 1e-4;
    clear = true;
    const auto mass = [&] {
        double sum = 0;
        for (std::size_t i = 0; i < kept; ++i) sum += weight(ids[i]);
        return sum;
    };
    double before = 0, total = mass();
    std::size_t end = 0;
    for (; how.top_p < 1 && end < kept; ++end) {
        const double gap = before - double(how.top_p) * total;
        if (std::abs(gap) < kMargin * total) clear = false;
        if (gap >= 0 && end > 0) break;
        before += weight(ids[end]);
    }
    if (how.top_p < 1) kept = end;
    for (end = 1; end < kept && weight(ids[end]) >= double(how.min_p); ++end) {}
    for (std::size_t i = 0; i < kept; ++i)
        if (std::abs(weight(ids[i]) - double(how.min_p)) < kMargin * double(how.min_p)) clear = false;
    kept = end;
    total = mass();
    double reached = 0;
    for (std::size_t i = 0; i < kept; ++i) {
        reached += weight(ids[i]);
        if (std::abs(reached - how.draw * total) < kMargin * total) clear = false;
        if (reached > how.draw * total) return ids[i];
    }
    return ids[kept - 1];
}

}  // namespace

TEST(sampler_follows_the_rules) {
    Random random(1);
    int compared = 0;
    for (int i = 0; i < 1500; ++i) {
        const std::vector<float> logits = random.numbers(std::size_t(1 + random.integer(200)), random.number(0.1f, 12));
        RowSampling how = plain(random.number(0.05f, 2), double(random.number(0, 0.999f)));
        if (random.integer(2)) how.top_k = 1 + random.integer(int(logits.size()) + 5);
        if (random.integer(2)) how.top_p = random.number(0, 1);
        if (random.integer(2)) how.min_p = random.number(0, 1);
        bool clear;
        const std::int32_t right = naive(logits, how, clear);
        const RowSample drawn = sample(logits, how);
        CHECK(drawn.verdict == Verdict::kDrawn);
        if (!clear) continue;
        ++compared;
        CHECK(drawn.token == right);
    }
    CHECK(compared > 1000);
}

TEST(sampler_greedy_takes_the_lowest_of_ties) {
    for (std::size_t n = 2; n <= 70; ++n) {
        std::vector<float> logits(n, 1.0f);
        CHECK(sample(logits, plain(0, 0.9)).token == 0);
        logits[n - 1] = logits[n / 2] = 2;
        CHECK(sample(logits, plain(0, 0.9)).token == std::int32_t(n / 2));
        CHECK(sample(logits, plain(9e-6f, 0.9)).token == std::int32_t(n / 2));
    }
}

TEST(sampler_cuts_leave_at_least_one) {
    Random random(2);
    const std::vector<float> logits = random.numbers(100, 3);
    const auto best = std::int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
    for (const double draw : {0.0, 0.5, kAlmostOne}) {
        RowSampling how = plain(1, draw);
        how.top_k = 1;
        CHECK(sample(logits, how).token == best);
        how.top_k = 0, how.top_p = 0;
        CHECK(sample(logits, how).token == best);
        how.top_p = 1e-30f;
        CHECK(sample(logits, how).token == best);
        how.top_p = 1, how.min_p = 1;
        CHECK(sample(logits, how).token == best);
        how.min_p = 2;
        CHECK(sample(logits, how).token == best);
        how = plain(1, draw), how.top_k = 1000;  // more than there are: no cut
        CHECK(sample(logits, how).token == sample(logits, plain(1, draw)).token);
    }
}

TEST(sampler_draws_of_equal_tokens_go_by_id) {
    const std::vector<float> logits(64, -3.0f);
    for (int i = 0; i < 64; ++i) CHECK(sample(logits, plain(1, (i + 0.5) / 64)).token == i);
    CHECK(sample(logits, plain(1, 0)).token == 0);
    CHECK(sample(logits, plain(1, kAlmostOne)).token == 63);
}

TEST(sampler_refuses_what_is_not_finite) {
    for (const float value : {kInfinity, -kInfinity, NAN})
        for (const std::size_t at : {0, 15, 16, 32}) {
            std::vector<float> logits(33, 0.5f);
            logits[at] = value;
            const RowSample out = sample(logits, plain(1, 0.5));
            CHECK(out.verdict == Verdict::kNotFinite && out.token == -1);
        }
}

TEST(sampler_masks_and_bans) {
    Random random(3);
    const std::vector<float> logits = random.numbers(70, 4);
    std::vector<std::uint32_t> mask(3, 0);
    for (const float temperature : {0.0f, 1.0f, 50.0f}) {
        RowSampling how = plain(temperature, kAlmostOne);
        how.mask = mask.data();
        mask.assign(3, 0);
        CHECK(sample(logits, how).verdict == Verdict::kNothingAllowed);
        mask[2] = ~0u << 6;  // beyond the vocabulary
        CHECK(sample(logits, how).verdict == Verdict::kNothingAllowed);
        for (const int only : {0, 31, 32, 69}) {
            mask.assign(3, 0);
            mask[std::size_t(only / 32)] = 1u << (only % 32);
            CHECK(sample(logits, how).token == only);
        }
        std::vector<Adjustment> bans;
        for (int id = 0; id < 70; ++id) bans.push_back({id, 1, -kInfinity});
        how = plain(temperature, 0.5);
        how.adjustments = bans;
        CHECK(sample(logits, how).verdict == Verdict::kNothingAllowed);
        bans.erase(bans.begin() + 41);
        how.adjustments = bans;
        CHECK(sample(logits, how).token == 41);
    }
}

TEST(sampler_adjustments_add_up) {
    const std::vector<float> logits = {1, -1, 0.9f, 0};
    const std::vector<Adjustment> changes = {{0, 2, 0}, {1, 2, 0}, {2, 1, -0.5f}, {3, 1, 0.25f}, {3, 1, 0.2f}, {3, 1, 0.1f}};
    RowSampling how = plain(0, 0);
    how.adjustments = changes;  // 0.5, -2, 0.4, 0.55
    how.top_logprobs = 4;
    const RowSample out = sample(logits, how);
    CHECK(out.token == 3);
    // Log-probabilities are of the logits as they were.
    CHECK(out.top_ids == (std::vector<std::int32_t>{0, 2, 3, 1}));
    const double sum = std::log(std::exp(1.0) + std::exp(-1.0) + std::exp(0.9) + 1.0);
    CHECK(close(double(out.logprob), -sum, 1e-5) && close(double(out.top_logprobs[0]), 1 - sum, 1e-5));
}

TEST(sampler_logprobs_as_many_as_asked_for) {
    Random random(4);
    const std::vector<float> logits = random.numbers(40, 2);
    for (const int count : {-1, 0, 1, 20, 40, 100}) {
        RowSampling how = plain(1, 0.3);
        how.top_logprobs = count;
        const RowSample out = sample(logits, how);
        CHECK(int(out.top_ids.size()) == std::clamp(count, 0, 40) && out.top_ids.size() == out.top_logprobs.size());
        CHECK(std::is_sorted(out.top_logprobs.rbegin(), out.top_logprobs.rend()));
        CHECK(count < 0 || out.logprob < 0);
    }
}

TEST(sampler_extreme_logits) {
    const float most = std::numeric_limits<float>::max();
    for (const double draw : {0.0, 0.5, kAlmostOne}) {
        CHECK(sample({most, -most, most, 0}, plain(1, draw)).token == (draw < 0.5 ? 0 : 2));
        CHECK(sample({-most, -most}, plain(1e-3f, draw)).token == (draw < 0.5 ? 0 : 1));
        CHECK(sample({0}, plain(1, draw)).token == 0);
    }
}

}  // namespace headrace::test
