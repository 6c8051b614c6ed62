// Attention over a paged cache, against softmax written out in double precision.
#include <algorithm>

#include "check.hpp"
#include "arrays.hpp"

namespace headrace::test {
namespace {

constexpr int kEndless = 1 << 30;

struct Case {
    int tokens, group, head_dim, position, window;
    float softcap;
    int key_bytes = 2;

    std::int64_t block_bytes() const { return KvHead::bytes(head_dim, key_bytes); }
};

// One KV head's cache, its blocks out of order, full up to the tile's last position; the rest
// of it is NaN, which must never show.
struct Scene {
    Scene(Random& random, const Case& c)
        : at(c), length(c.position + c.tokens), d(std::size_t(c.head_dim)),
          k(random.numbers(std::size_t(length) * d)), v(random.numbers(std::size_t(length) * d)),
          q(random.numbers(std::size_t(c.tokens * c.group) * d, 2)), table(std::size_t(length + kBlock - 1) / kBlock),
          cache(table.size() * std::size_t(c.block_bytes()), 0xff) {
        for (std::size_t b = 0; b < table.size(); ++b) table[b] = std::int32_t(b);
        for (std::size_t b = table.size(); b > 1; --b) std::swap(table[b - 1], table[std::size_t(random.integer(int(b)))]);
        for (int p = 0; p < length; ++p)
            instruction_sets().front()->store_kv(head(p), p % kBlock, &k[std::size_t(p) * d], &v[std::size_t(p) * d]);
    }

    AttentionTile tile(int first, int tokens) {
        return {
            .q = q.data() + std::size_t(first * at.group) * d,
            .q_stride = at.group * at.head_dim,
            .tokens = tokens,
            .group = at.group,
            .head_dim = at.head_dim,
            .key_bytes = at.key_bytes,
            .position = at.position + first,
            .table = table.data(),
            .cache = cache.data(),
            .block_stride = at.block_bytes(),
            .scale = 0.4f,
            .window = at.window,
            .softcap = at.softcap,
        };
    }
    KvHead head(int p) {
        return {cache.data() + table[std::size_t(p / kBlock)] * at.block_bytes(), at.head_dim, at.key_bytes};
    }
    float key(int p, int i) {
        const KvHead block = head(p);
        const int place = i / 2 * 2 * kBlock + p % kBlock * 2 + i % 2;
        const int code = at.key_bytes == 1 ? block.keys<std::int8_t>()[place] : block.keys<std::int16_t>()[place];
        return block.key_scales()[p % kBlock] * float(code);
    }
    float value_code(int p, int i) { return float(head(p).values()[(p % kBlock / 4 * at.head_dim + i) * 4 + p % 4]); }
    float value_scale(int p) { return head(p).value_scales()[p % kBlock]; }

    // Attention over what the cache says, and how far rounding a block's weights to 255 steps of
    // its greatest may lead away from it.
    struct Right {
        std::vector<double> out, slack;
    };
    Right right() {
        Right result = {std::vector<double>(q.size()), std::vector<double>(q.size())};
        for (int row = 0; row < at.tokens * at.group; ++row) {
            const int last = at.position + row / at.group, first = std::max(0, last - at.window + 1);
            std::vector<double> weight;
            double sum = 0;
            for (int p = first; p <= last; ++p) {
                double score = 0;
                for (std::size_t i = 0; i < d; ++i) score += double(q[std::size_t(row) * d + i]) * double(key(p, int(i)));
                score *= double(0.4f);
                if (at.softcap > 0) score = double(at.softcap) * std::tanh(score / double(at.softcap));
                weight.push_back(std::exp(score));
                sum += weight.back();
            }
            for (int p = first; p <= last; ++p) {
                double peak = 0;  // of the position's block
                for (int other = std::max(first, p / kBlock * kBlock); other <= std::min(last, p / kBlock * kBlock + kBlock - 1); ++other)
                    peak = std::max(peak, weight[std::size_t(other - first)] * double(value_scale(other)));
                for (std::size_t i = 0; i < d; ++i) {
                    const std::size_t to = std::size_t(row) * d + i;
                    const double code = double(value_code(p, int(i)));
                    result.out[to] += weight[std::size_t(p - first)] / sum * double(value_scale(p)) * code;
                    result.slack[to] += 0.51 / 255 * peak / sum * std::abs(code);
                }
            }
        }
        return result;
    }

    Case at;
    int length;
    std::size_t d;
    std::vector<float> k, v, q;
    std::vector<std::int32_t> table;
    std::vector<std::uint8_t> cache;
};

std::vector<float> workspace(const Kernels& kernels, const Case& c, int tokens) {
    return std::vector<float>(std::size_t(kernels.attention_workspace(tokens * c.group, c.head_dim)), NAN);
}

std::vector<float> whole(const Kernels& kernels, Scene& scene, int chunk) {
    const Case& c = scene.at;
    std::vector<float> out(scene.q.size(), NAN);
    for (int first = 0; first < c.tokens; first += chunk) {
        const int tokens = std::min(chunk, c.tokens - first);
        std::vector<float> memory = workspace(kernels, c, tokens);
        kernels.attend(scene.tile(first, tokens), memory.data(),
                       {out.data() + std::size_t(first * c.group) * scene.d, c.group * c.head_dim, c.head_dim});
    }
    return out;
}

std::vector<float> in_splits(const Kernels& kernels, Scene& scene) {
    const Case& c = scene.at;
    const int splits = (scene.length - 1) / kSplit + 1, part = c.head_dim + 2;
    std::vector<float> parts(std::size_t(c.tokens * c.group * splits * part), NAN), out(scene.q.size(), NAN);
    std::vector<float> memory = workspace(kernels, c, c.tokens);
    for (int s = splits; s-- > 0;)
        kernels.attend_split(scene.tile(0, c.tokens), s, memory.data(),
                             {parts.data() + s * part, c.group * splits * part, splits * part});
    for (int row = 0; row < c.tokens * c.group; ++row)
        kernels.merge(out.data() + std::size_t(row) * scene.d, parts.data() + row * splits * part, splits, part, c.head_dim);
    return out;
}

void check_case(Random& random, const Case& c) {
    Scene scene(random, c);
    const Scene::Right right = scene.right();
    const std::vector<float> first = whole(*instruction_sets().front(), scene, c.tokens);
    for (std::size_t i = 0; i < first.size(); ++i)
        CHECK(std::abs(double(first[i]) - right.out[i]) <= right.slack[i] + 2e-3 * std::abs(right.out[i]) + 2e-4);
    for (const Kernels* kernels : instruction_sets()) {
        for (const int chunk : {c.tokens, 1, 3}) CHECK(same(whole(*kernels, scene, chunk), first));
        CHECK(same(in_splits(*kernels, scene), first));
    }
}

}  // namespace

TEST(attention_positions_and_windows) {
    Random random(1);
    for (const int position : {0, 1, 30, 31, 32, 250, 255, 256, 257, 520})
        for (const int window : {1, 7, 33, 256, 300, kEndless})
            for (const int tokens : {1, 9})
                for (const int key_bytes : {2, 1}) check_case(random, {tokens, 2, 16, position, window, 0, key_bytes});
}

TEST(attention_shapes) {
    Random random(2);
    for (const int group : {1, 3, 8})
        for (const int head_dim : {16, 48, 64, 80, 128})
            for (const int tokens : {1, 128 / group}) {  // the least and most of a tile
                check_case(random, {tokens, group, head_dim, 100, kEndless, 0});
                check_case(random, {tokens, group, head_dim, 240, 60, 3});
                check_case(random, {tokens, group, head_dim, 240, 60, 3, 1});
            }
}

}  // namespace headrace::test
