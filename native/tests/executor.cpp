// Whole steps of a small model: the same bits for any threads, instruction set, company, chunks.
#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

#include "check.hpp"
#include "executor.hpp"
#include "weights.hpp"

namespace headrace::test {
namespace {

constexpr int kVocabulary = 70, kWidth = 64, kInner = 96, kHeads = 4, kKvHeads = 2, kHeadDim = 16;
constexpr Sizes kSizes = {.tokens = 400, .sequences = 8, .blocks = 40, .layers = 2, .heads = kHeads, .kv_heads = kKvHeads,
                          .head_dim = kHeadDim, .key_bytes = 2, .vocabulary = kVocabulary, .context = 600};
enum : int { kX, kH, kQ, kK, kV, kA, kGate, kUp, kY, kLast };

// A model on a team of its own, its matrices of every format in turn.
class Model {
public:
    // prefill: tokens of a chunk beside the steps, if there shall be one.
    Model(const Kernels& kernels, int threads, int key_bytes = 2, int prefill = 0)
        : kernels_(kernels), key_bytes_(key_bytes), team_(std::make_shared<Team>(threads)),
          executor_(team_, kernels, plan(kSizes.tokens),
                    prefill > 0 ? std::make_unique<Prefill>(plan(prefill), threads) : nullptr) {}

    Executor* operator->() { return &executor_; }

private:
    std::shared_ptr<PackedMatrix> matrix(int n, int k) {
        const std::vector<GroupedKind> kinds = grouped_kinds(k);
        const std::size_t turn = made_++ % (kinds.size() + 3);
        if (turn < kinds.size()) {
            GroupedWeights weights(random_, kinds[turn], n, k);
            weights.scale.multiply(0.125f);
            weights.minimum.multiply(0.125f);
            return std::make_shared<PackedMatrix>(arena_, *team_, weights.source());
        }
        const auto format = Format(int(Format::kF32) + int(turn - kinds.size()));
        const std::vector<float> values = dense_weights(random_, format, std::size_t(n * k), 0.25f);
        return std::make_shared<PackedMatrix>(arena_, *team_, DenseSource{n, k, values.data()});
    }
    std::vector<float> norm() {
        std::vector<float> weight(kWidth);
        for (float& x : weight) x = random_.number(0.5f, 1.5f);
        return weight;
    }

    std::unique_ptr<Plan> plan(int tokens) {
        Sizes sizes = kSizes;
        sizes.key_bytes = key_bytes_;
        if (!cache_.data) cache_ = Cache::allocate(*arena_, sizes);
        sizes.tokens = tokens;
        const std::vector<int> widths = {kWidth, kWidth, kHeads * kHeadDim, kKvHeads * kHeadDim, kKvHeads * kHeadDim,
                                         kHeads * kHeadDim, kInner, kInner, kWidth, kWidth};
        auto plan = std::make_unique<Plan>(arena_, kernels_, sizes, cache_, widths, team_->threads());
        // The same matrices again for each plan.
        random_ = Random(42);
        made_ = 0;
        plan->embed(kX, matrix(kVocabulary, kWidth), 2);
        for (int layer = 0; layer < kSizes.layers; ++layer) {
            const bool first = layer == 0;
            plan->norm(kH, kX, norm(), 1e-5f, 1);
            plan->linear(kH, {{kQ, matrix(kHeads * kHeadDim, kWidth), random_.numbers(kHeads * kHeadDim), false},
                              {kK, matrix(kKvHeads * kHeadDim, kWidth), {}, false},
                              {kV, matrix(kKvHeads * kHeadDim, kWidth), {}, false}});
            plan->rotary_kv(kQ, kK, kV, layer, RopeShape{1e4, 1, 1, first ? kHeadDim : 6, first, {}});
            plan->attention({kA, kQ, layer, 0.25f, first ? 0 : 40, first ? 0.0f : 10.0f});
            plan->linear(kA, {{kX, matrix(kWidth, kHeads * kHeadDim), {}, true}});
            plan->norm(kH, kX, norm(), 1e-5f, 1);
            plan->linear(kH, {{kGate, matrix(kInner, kWidth), {}, false}, {kUp, matrix(kInner, kWidth), {}, false}});
            plan->gate(kGate, kGate, kUp, first ? Activation::kSilu : Activation::kGelu);
            plan->linear(kGate, {{kY, matrix(kWidth, kInner), {}, false}});
            plan->add(kX, kY);
        }
        plan->select_rows(kLast, kX);
        plan->norm(kLast, kLast, norm(), 1e-5f, 1);
        plan->logits(kLast, matrix(kVocabulary + 3, kWidth), 30);
        return plan;
    }

    const Kernels& kernels_;
    int key_bytes_;
    Random random_{42};
    std::size_t made_ = 0;
    std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
    Cache cache_{};
    std::shared_ptr<Team> team_;
    Executor executor_;
};

struct Part {
    std::vector<std::int32_t> tokens;
    int start;
    std::vector<std::int32_t> blocks;
};

struct Batch {
    explicit Batch(const std::vector<Part>& parts) {
        std::size_t columns = 0;
        for (const Part& p : parts) columns = std::max(columns, p.blocks.size());
        for (const Part& p : parts) {
            for (std::size_t i = 0; i < p.tokens.size(); ++i) positions.push_back(p.start + int(i));
            tokens.insert(tokens.end(), p.tokens.begin(), p.tokens.end());
            starts.push_back(int(tokens.size()));
            tables.insert(tables.end(), p.blocks.begin(), p.blocks.end());
            tables.resize(starts.size() * columns - columns, 1 << 30);
        }
        for (std::size_t i = 0; i < tokens.size(); ++i) rows.push_back(int(i));
        shape = {parts.size(), columns};
    }
    BatchView view() const {
        return {tokens, positions, starts, rows, tables.data(), shape, shape.empty() ? 0 : std::int64_t(shape[1])};
    }

    std::vector<std::int32_t> tokens, positions, starts{0}, tables, rows;
    Shape shape;
};

std::vector<float> step(Model& model, const std::vector<Part>& parts, double slice_seconds = 0) {
    model->launch(Batch(parts).view(), slice_seconds);
    model->wait();
    const std::span<const float> logits = model->logits();
    return {logits.begin(), logits.end()};
}

std::vector<std::int32_t> tokens(unsigned seed, int count) {
    Random random(seed);
    std::vector<std::int32_t> out(static_cast<std::size_t>(count));
    for (auto& token : out) token = random.integer(kVocabulary);
    return out;
}

std::vector<std::int32_t> slice(const std::vector<std::int32_t>& all, int first, int last) {
    return {all.begin() + first, all.begin() + last};
}

const std::vector<std::int32_t> kLongBlocks = {9, 3, 30, 0, 17, 22, 5, 11, 1, 39, 2, 28};

// A long prompt, then odd steps in company: all the logits that come out.
std::vector<float> session(Model& model) {
    const auto a = tokens(1, 310), b = tokens(2, 40);
    std::vector<float> all;
    const auto keep = [&](const std::vector<float>& logits) { all.insert(all.end(), logits.begin(), logits.end()); };
    keep(step(model, {{slice(a, 0, 301), 0, kLongBlocks}}));
    keep(step(model, {{slice(a, 301, 302), 301, kLongBlocks}}));
    keep(step(model, {{slice(b, 0, 33), 0, {7, 8}}, {slice(a, 302, 305), 302, kLongBlocks}}));
    keep(step(model, {{slice(b, 33, 34), 33, {7, 8}}, {{1}, 0, {4}}, {slice(a, 305, 306), 305, kLongBlocks}, {{5, 6, 7}, 0, {10}}}));
    return all;
}

SamplingView greedy(std::size_t rows) {
    static const std::vector<float> zeros(400, 0.0f), ones(400, 1.0f);
    static const std::vector<std::int32_t> none(400, 0);
    static const std::vector<double> draws(400, 0.5);
    SamplingView how = {};
    how.temperature = how.min_p = std::span(zeros).first(rows);
    how.top_p = std::span(ones).first(rows);
    how.top_k = how.top_logprobs = std::span(none).first(rows);
    how.draw = std::span(draws).first(rows);
    return how;
}

}  // namespace

TEST(executor_threads_and_instruction_sets) {
    for (const int key_bytes : {2, 1}) {
        std::vector<float> first;
        for (const Kernels* kernels : instruction_sets())
            for (const int threads : {1, 2, 5}) {
                Model model(*kernels, threads, key_bytes);
                const std::vector<float> logits = session(model);
                for (const float x : logits) CHECK(std::isfinite(x));
                if (first.empty()) first = logits;
                CHECK(same(logits, first));
            }
    }
}

TEST(executor_does_not_see_what_the_cache_held) {
    Model model(*instruction_sets().back(), 2);
    const std::vector<float> first = session(model);
    CHECK(same(session(model), first));
}

TEST(executor_chunks) {
    const auto prompt = tokens(3, 290);
    const std::size_t width = kVocabulary + 3;
    for (const int threads : {1, 3}) {
        Model model(*instruction_sets().back(), threads, threads == 1 ? 2 : 1);
        const std::vector<float> whole = step(model, {{prompt, 0, kLongBlocks}});
        for (const int size : {1, 7, 32, 257}) {
            std::vector<float> chunks;
            for (int first = 0; first < 290; first += size) {
                const auto part = step(model, {{slice(prompt, first, std::min(290, first + size)), first, kLongBlocks}});
                chunks.insert(chunks.end(), part.begin(), part.end());
            }
            CHECK(chunks.size() == 290 * width && same(chunks, whole));
        }
    }
}

TEST(executor_rows_asked_for) {
    Model model(*instruction_sets().back(), 2);
    const auto prompt = tokens(4, 50);
    const std::vector<float> all = step(model, {{prompt, 0, {3, 1}}});
    const std::size_t width = std::size_t(model->logit_width());
    Batch batch({{prompt, 0, {3, 1}}});
    batch.rows = {0, 17, 49};
    model->launch(batch.view());
    model->wait();
    CHECK(model->logit_rows() == 3);
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(same(model->logits().subspan(i * width, width), std::span(all).subspan(std::size_t(batch.rows[i]) * width, width)));
    batch.rows = {};
    model->launch(batch.view());
    model->wait();
    CHECK(model->logit_rows() == 0 && model->logits().empty() && model->sample(greedy(0)).empty());
}

TEST(executor_refuses_and_goes_on) {
    Model model(*instruction_sets().back(), 2);
    const auto prompt = tokens(5, 20);
    const std::vector<float> right = step(model, {{prompt, 0, {3}}});
    std::vector<Batch> bad(7, Batch({{prompt, 0, {3}}}));
    bad[0].tokens[3] = kVocabulary;
    bad[1].positions[19] = 1 << 20;
    bad[2].tables[0] = kSizes.blocks;
    bad[3].starts[1] = 1000;
    bad[4].rows[19] = 20;
    bad[5].shape = {1, 0};
    bad[6].starts.clear();
    for (const Batch& batch : bad) {
        bool refused = false;
        try {
            model->launch(batch.view());
        } catch (const std::invalid_argument&) {
            refused = true;
        }
        CHECK(refused);
    }
    CHECK(same(step(model, {{prompt, 0, {3}}}), right));
    model->launch(Batch({{prompt, 0, {3}}}).view());  // nobody waits for it
    CHECK(same(step(model, {{prompt, 0, {3}}}), right));
    model->launch(Batch({{prompt, 0, {3}}}).view());  // nor for this, when the model goes
}

// A prompt but for its last token is computed beside steps of another sequence, in slices of no time.
TEST(executor_prefills_beside_steps) {
    const auto prompt = tokens(7, 290), other = tokens(8, 40);
    const std::vector<std::int32_t> others = {7, 8};
    for (const Kernels* kernels : {instruction_sets().front(), instruction_sets().back()})
        for (const int threads : {1, 2, 5})
            for (const int chunk : {1, 19, 64, 300}) {
                Model plain(*kernels, threads, threads == 2 ? 1 : 2), model(*kernels, threads, threads == 2 ? 1 : 2, chunk);
                const std::vector<float> decodes = step(plain, {{other, 0, others}});
                step(plain, {{slice(prompt, 0, 289), 0, kLongBlocks}});
                const std::vector<float> right = step(plain, {{slice(prompt, 289, 290), 289, kLongBlocks}});

                const std::size_t width = std::size_t(model->logit_width());
                model->begin(slice(prompt, 0, 289), 0, kLongBlocks);
                int done = 0, steps = 0;
                for (; done < 289; ++steps) {
                    CHECK(steps < 289);
                    const int at = steps % 40;
                    const std::vector<float> logits = step(model, {{slice(other, at, at + 1), at, others}}, 1e-9);
                    CHECK(same(logits, std::span(decodes).subspan(std::size_t(at) * width, width)));
                    const Slice slice = model->slice();
                    CHECK(slice.tokens % chunk == 0 || done + slice.tokens == 289);
                    CHECK(slice.seconds > 0 && (slice.chunk_seconds > 0) == (slice.tokens > 0));
                    done += slice.tokens;
                }
                CHECK(done == 289 && steps > 1);
                CHECK(same(step(model, {{slice(prompt, 289, 290), 289, kLongBlocks}}), right));
                CHECK(model->slice().tokens == 0 && model->slice().seconds == 0);  // of that step
                step(model, {{slice(other, 0, 1), 0, others}}, 1);
                CHECK(model->slice().tokens == 0);  // nothing is left
            }
}

TEST(executor_prefills_alone_and_another_prompt_instead) {
    const auto prompt = tokens(9, 290), dropped = tokens(10, 200);
    const SamplingView none = greedy(0);
    Model model(*instruction_sets().back(), 2, 2, 64);
    const std::vector<float> right = step(model, {{prompt, 0, kLongBlocks}});
    const std::size_t width = std::size_t(model->logit_width());
    model->begin(dropped, 0, {20, 21, 22, 23, 24, 25, 26});
    step(model, {}, 1e-9);
    model->begin(slice(prompt, 33, 289), 33, kLongBlocks);  // the rest is cached
    step(model, {}, 60);
    CHECK(model->slice().tokens == 256 && model->logits().empty() && model->sample(none).empty());
    CHECK(same(step(model, {{slice(prompt, 289, 290), 289, kLongBlocks}}), std::span(right).last(width)));
}

TEST(executor_refuses_prompts_and_goes_on) {
    Model model(*instruction_sets().back(), 2, 2, 64), none(*instruction_sets().back(), 2);
    const auto prompt = tokens(11, 100);
    const auto refuses = [&](Model& where, std::vector<std::int32_t> what, int position, const std::vector<std::int32_t>& blocks) {
        try {
            where->begin(std::move(what), position, blocks);
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    model->begin(slice(prompt, 0, 99), 0, {1, 2, 3, 4});
    step(model, {}, 1e-9);
    CHECK(refuses(none, prompt, 0, {1, 2, 3, 4}));
    CHECK(refuses(model, {}, 0, {1}));
    CHECK(refuses(model, {1, kVocabulary}, 0, {1}));
    CHECK(refuses(model, prompt, 0, {1, 2, 3}));
    CHECK(refuses(model, prompt, 0, {1, 2, 3, kSizes.blocks}));
    CHECK(refuses(model, {1}, kSizes.context, kLongBlocks));
    CHECK(refuses(model, {1, 2}, std::numeric_limits<int>::max(), kLongBlocks));
    CHECK(refuses(model, {1}, -1, kLongBlocks));
    Batch rows({});  // nothing to take logits of
    rows.rows = {0};
    bool refused = false;
    try {
        model->launch(rows.view(), 1);
    } catch (const std::invalid_argument&) {
        refused = true;
    }
    CHECK(refused);
    step(model, {}, 60);  // what was under way still is
    CHECK(model->slice().tokens == 99);
}

TEST(executor_samples) {
    for (const int threads : {1, 2, 5}) {
        Model model(*instruction_sets().back(), threads);
        const std::vector<float> logits = step(model, {{tokens(6, 33), 0, {3, 4}}});
        const std::size_t width = std::size_t(model->logit_width());
        for (int again = 0; again < 20; ++again) {
            const std::vector<RowSample> samples = model->sample(greedy(33));
            CHECK(samples.size() == 33);
            for (std::size_t r = 0; r < 33; ++r) {
                const auto row = std::span(logits).subspan(r * width, kVocabulary);  // never the padding
                CHECK(samples[r].token == std::max_element(row.begin(), row.end()) - row.begin());
            }
        }
        // Row 1 may say only 69, row 2 nothing; the rest everything but 5.
        SamplingView how = greedy(33);
        const std::vector<std::uint32_t> masks = {0, 0, 0, 0, 0, 1u << 5};
        const std::vector<std::int32_t> masked = {2, 1};
        how.mask_row = masked;
        how.masks = masks.data();
        how.mask_shape = {2, 3};
        std::vector<std::int32_t> rows(33), ids(33, 5);
        for (int r = 0; r < 33; ++r) rows[std::size_t(r)] = r;
        const std::vector<float> divide(33, 1.0f), add(33, -std::numeric_limits<float>::infinity());
        how.change_row = rows, how.change_token = ids, how.change_divide = divide, how.change_add = add;
        const std::vector<RowSample> samples = model->sample(how);
        CHECK(samples[1].token == 69 && samples[2].verdict == Verdict::kNothingAllowed);
        for (const RowSample& s : samples) CHECK(s.token != 5);
        CHECK(same(model->logits(), logits));
    }
}

}  // namespace headrace::test
