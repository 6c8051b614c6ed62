// Attention of a tile of query rows over a paged KV cache.
//
// Positions are cut into splits of 256 at absolute borders. Within a split a row takes one
// softmax over what it sees; splits merge in order (as in online softmax, arXiv:1805.02867,
// but with fixed borders). A row's operations are therefore the same whatever other rows share
// its tile, however its prompt was chunked, and wherever its splits were computed.
//
// Both products are of integers: queries and keys as 16-bit codes, softmax weights and values as
// 8-bit ones. Twice and four times the rate of float products, and integer sums have no order.
// Keys may be kept as 8-bit codes: a third less to read, but it costs models with outliers among
// their keys, such as Qwen 2, a tenfold divergence.
#pragma once

#include "../kernels.hpp"
#include "codes.hpp"
#include "math.hpp"

namespace headrace::HEADRACE_ISA {

// body(Constant<rows>()) for rows in 1 .. N.
template <int N, class Body>
HEADRACE_INLINE void with_rows(int rows, Body body) {
    if (rows == N) body(Constant<N>());
    else if constexpr (N > 1) with_rows<N - 1>(rows, body);
}

// Loops over register arrays are all unrolled: one that is not would keep the array in memory.

// s[r][32 b + p] = scale[r] * key_scale[b][p] * (q[r] . key[b][p]), for R rows and B blocks.
template <class Key, int R, int B>
static void score_tile(const std::int16_t* q, const float* scale, const KvHead* heads, float* s) {
    const int head_dim = heads->head_dim;
    I32 dots[R][2 * B];
#pragma GCC unroll 32
    for (int i = 0; i < 2 * R * B; ++i) dots[i / (2 * B)][i % (2 * B)] = splat(0);
    // What is read once and used by all is the shorter side, so that it fits beside the sums.
    for (int d = 0; d < head_dim; d += 2) {
        if constexpr (R < 2 * B) {
#pragma GCC unroll 8
            for (int v = 0; v < 2 * B; ++v) {
                const Words key = load_words(heads[v / 2].keys<Key>() + d * kBlock + v % 2 * 2 * kLanes);
#pragma GCC unroll 16
                for (int r = 0; r < R; ++r) dots[r][v] = dot(dots[r][v], key, q + r * head_dim + d);
            }
        } else {
            Words keys[2 * B];
#pragma GCC unroll 8
            for (int v = 0; v < 2 * B; ++v) keys[v] = load_words(heads[v / 2].keys<Key>() + d * kBlock + v % 2 * 2 * kLanes);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
                for (int v = 0; v < 2 * B; ++v) dots[r][v] = dot(dots[r][v], keys[v], q + r * head_dim + d);
            }
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < 2 * B; ++v) {
        const F32 key_scale = load(heads[v / 2].key_scales() + (v % 2) * kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
            store(s + r * kSplit + v * kLanes, to_float(dots[r][v]) * (key_scale * splat(scale[r])));
    }
}

constexpr int kScoreRows = kScoreVectors / 2;  // of one block

// Few rows take several blocks at a time, so that enough sums are under way at once.
template <class Key, int R>
static void score_rows(const std::int16_t* q, const float* scale, const KvHead* heads, int blocks, float* s) {
    constexpr int kMost = kScoreRows / R;
    constexpr int kBlocks = kMost >= 4 ? 4 : kMost >= 2 ? 2 : 1;
    int b = 0;
    for (; b + kBlocks <= blocks; b += kBlocks) score_tile<Key, R, kBlocks>(q, scale, heads + b, s + b * kBlock);
    for (; b < blocks; ++b) score_tile<Key, R, 1>(q, scale, heads + b, s + b * kBlock);
}

// Weights of a row's values: codes [kSplit], and for each block the scale of its codes.
struct Weights {
    std::uint8_t* codes;
    float* scales;
};

// o[r] = sum over blocks of scales[r][block] * (codes[r] . values of the block), C vectors of the head.
template <int R, int C>
static void value_tile(const Weights& w, const KvHead* heads, int first, int last, int at, float* o) {
    const int head_dim = heads[first].head_dim;
    F32 sum[R][C];
#pragma GCC unroll 32
    for (int i = 0; i < R * C; ++i) sum[i / C][i % C] = zero();
    for (int block = first; block < last; ++block) {
        const std::int8_t* values = heads[block].values() + 4 * at;
        const std::uint8_t* codes = w.codes + block * kBlock;
        I32 dots[R][C];
#pragma GCC unroll 32
        for (int i = 0; i < R * C; ++i) dots[i / C][i % C] = splat(0);
        for (int p = 0; p < kBlock; p += 4, values += 4 * head_dim) {
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                const SignedCodes value = load_codes(values + 4 * c * kLanes);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) dots[r][c] = dot(dots[r][c], value, codes + r * kSplit + p);
            }
        }
#pragma GCC unroll 32
        for (int i = 0; i < R * C; ++i) {
            const F32 scale = splat(w.scales[i / C * kSplitBlocks + block]);
            sum[i / C][i % C] = fma(to_float(dots[i / C][i % C]), scale, sum[i / C][i % C]);
        }
    }
#pragma GCC unroll 32
    for (int i = 0; i < R * C; ++i) store(o + i / C * head_dim + at + i % C * kLanes, sum[i / C][i % C]);
}

template <int R>
static void value_rows(const Weights& w, const KvHead* heads, int first, int last, float* o) {
    const int head_dim = heads[first].head_dim;
    int d = 0;
    for (; d + kValueVectors * kLanes <= head_dim; d += kValueVectors * kLanes)
        value_tile<R, kValueVectors>(w, heads, first, last, d, o);
    for (; d < head_dim; d += kLanes) value_tile<R, 1>(w, heads, first, last, d, o);
}

struct Softmax {
    float maximum, sum;
};

// Which of a split's positions a row sees.
struct Visible {
    int from, to;

    bool whole(int block) const { return from <= block * kBlock && to >= (block + 1) * kBlock; }
    F32 operator()(F32 x, int at, F32 other) const { return within(x, from - at, to - at, other); }
};

struct Everything {
    F32 operator()(F32 x, int, F32) const { return x; }
};

// The exponentials of one block's scores, each times the scale of its position's value, as codes
// from 0 to 255: what the values' own codes are multiplied with. Adds the exponentials to sum.
template <class Seen>
static void weigh(const float* s, const KvHead& head, int block, float maximum, Seen seen, F32& sum, const Weights& w) {
    F32 weights[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
        const int at = block * kBlock + v * kLanes;
        const F32 e = exp_nonpositive(load(s + at) - splat(maximum));
        sum = sum + seen(e, at, zero());
        weights[v] = seen(e * load(head.value_scales() + v * kLanes), at, zero());
    }
    // What is not finite goes into the block's scale, as in symmetric_codes().
    const float peak = __builtin_bit_cast(float, reduce_max(max(magnitude(weights[0]), magnitude(weights[1]))));
    const bool ordinary = peak >= 1e-30f && peak <= 3.4028235e38f;
    w.scales[block] = peak < 1e-30f ? 0.0f : peak * (1.0f / 255);
    const F32 inverse = splat(ordinary ? 255.0f / peak : 0.0f);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v)
        store_bytes(w.codes + block * kBlock + v * kLanes, ordinary ? nearest(weights[v] * inverse) : splat(0));
}

// The greatest of a row's visible scores in blocks first .. last, the sum of their exponentials
// and the weights that follow from them.
static Softmax softmax(const float* s, const KvHead* heads, int first, int last, Visible visible, const Weights& w) {
    const F32 nothing = splat(-__builtin_inff());
    F32 greatest = nothing;
    for (int b = first; b < last; ++b) {
        const int at = b * kBlock;
        const F32 low = load(s + at), high = load(s + at + kLanes);
        if (visible.whole(b)) greatest = max(max(low, high), greatest);
        else greatest = max(max(visible(low, at, nothing), visible(high, at + kLanes, nothing)), greatest);
    }
    const float maximum = reduce_max(greatest);
    F32 sum = zero();
    for (int b = first; b < last; ++b) {
        if (visible.whole(b)) weigh(s, heads[b], b, maximum, Everything{}, sum, w);
        else weigh(s, heads[b], b, maximum, visible, sum, w);
    }
    return {maximum, reduce_add(sum)};
}

// Folds a later split's result into what came before. A sum of 0 means "nothing yet".
HEADRACE_INLINE void fold(float* total, Softmax& so_far, const float* part, Softmax next, int head_dim) {
    if (next.sum == 0.0f) return;
    if (so_far.sum == 0.0f) {
        for (int d = 0; d < head_dim; d += kLanes) store(total + d, load(part + d));
        so_far = next;
        return;
    }
    const float top = so_far.maximum > next.maximum ? so_far.maximum : next.maximum;
    const float a = first(exp(splat(so_far.maximum - top)));
    const float b = first(exp(splat(next.maximum - top)));
    for (int d = 0; d < head_dim; d += kLanes)
        store(total + d, fma(load(part + d), splat(b), load(total + d) * splat(a)));
    so_far = {top, __builtin_fmaf(next.sum, b, so_far.sum * a)};
}

struct Workspace {
    float *scores, *part, *total, *q_scales;
    Weights weights;
    Softmax *part_stats, *stats;
    std::int16_t* q;

    Workspace(float* memory, int rows, int head_dim)
        : scores(memory),
          part(scores + rows * kSplit),
          total(part + rows * head_dim),
          q_scales(total + rows * head_dim),
          weights{reinterpret_cast<std::uint8_t*>(q_scales + rows + rows * kSplitBlocks), q_scales + rows},
          part_stats(reinterpret_cast<Softmax*>(weights.codes + rows * kSplit)),
          stats(part_stats + rows),
          q(reinterpret_cast<std::int16_t*>(stats + rows)) {}

    Weights weights_of(int row) const { return {weights.codes + row * kSplit, weights.scales + row * kSplitBlocks}; }
};

static std::int64_t attention_workspace(int rows, int head_dim) {
    return std::int64_t(rows) * (kSplit + 2 * head_dim + 1 + kSplitBlocks + kSplit / 4 + 4 + head_dim / 2);
}

// One tile over one split: which rows see which of its positions, and the three passes.
class Split {
public:
    Split(const AttentionTile& tile, int index, const Workspace& w)
        : tile_(tile), w_(w), base_(index * kSplit) {
        // Tokens that see some of it: those at or after its start whose window reaches into it.
        const int before = base_ - tile.position;
        const std::int64_t reach = std::int64_t(base_) + kSplit + tile.window - 1 - tile.position;
        first_ = tile.group * (before > 0 ? before : 0);
        last_ = tile.group * int(reach < tile.tokens ? reach : tile.tokens);
        if (first_ >= last_) return;
        from_ = sees_from(first_) / kBlock;
        to_ = end_block(last_ - 1);
        for (int b = from_; b < to_; ++b)
            heads_[b] = {tile.cache + tile.table[index * kSplitBlocks + b] * tile.block_stride, tile.head_dim, tile.key_bytes};
    }

    // Fills w.part and w.part_stats of rows first() .. last().
    void run() const {
        if (last_ - first_ <= kScoreRows) {
            score(first_, last_, from_, to_);
        } else {
            for (int b = from_; b < to_; ++b) {
                int first = first_, last = last_;  // those that see something of the block
                while (end_block(first) <= b) ++first;
                while (sees_from(last - 1) >= (b + 1) * kBlock) --last;
                score(first, last, b, b + 1);
            }
        }
        for (int r = first_; r < last_; ++r) {
            float* s = w_.scores + r * kSplit;
            if (tile_.softcap > 0) {
                const F32 cap = splat(tile_.softcap), inverse = splat(1.0f / tile_.softcap);
                for (int i = from_ * kBlock; i < to_ * kBlock; i += kLanes) store(s + i, capped(load(s + i), cap, inverse));
            }
            w_.part_stats[r] = softmax(s, heads_, from_, to_, {sees_from(r), sees_to(r)}, w_.weights_of(r));
        }
        for (int r = first_; r < last_; r += kValueRows) {
            const int count = last_ - r < kValueRows ? last_ - r : kValueRows;
            with_rows<kValueRows>(count, [&](auto n) {
                value_rows<decltype(n)::value>(w_.weights_of(r), heads_, sees_from(r) / kBlock, end_block(r + count - 1),
                                               w_.part + r * tile_.head_dim);
            });
        }
    }

    int first() const { return first_; }
    int last() const { return last_; }

private:
    int position(int row) const { return tile_.position + row / tile_.group; }
    // Positions within the split that a row sees, and the block after the last of them.
    int sees_from(int row) const {
        const int at = position(row) - tile_.window + 1 - base_;
        return at > 0 ? at : 0;
    }
    int sees_to(int row) const {
        const int at = position(row) + 1 - base_;
        return at < kSplit ? at : kSplit;
    }
    int end_block(int row) const { return (sees_to(row) + kBlock - 1) / kBlock; }

    void score(int first, int last, int from, int to) const {
        for (int r = first; r < last; r += kScoreRows) {
            const int count = last - r < kScoreRows ? last - r : kScoreRows;
            with_rows<kScoreRows>(count, [&](auto n) {
                constexpr int kRows = decltype(n)::value;
                const auto rows = tile_.key_bytes == 1 ? score_rows<std::int8_t, kRows> : score_rows<std::int16_t, kRows>;
                rows(w_.q + r * tile_.head_dim, w_.q_scales + r, heads_ + from, to - from,
                     w_.scores + r * kSplit + from * kBlock);
            });
        }
    }

    const AttentionTile& tile_;
    const Workspace& w_;
    int base_;
    int first_ = 0, last_ = 0;  // rows
    int from_ = 0, to_ = 0;     // blocks of the split
    KvHead heads_[kSplitBlocks] = {};
};

static Workspace prepare(const AttentionTile& tile, float* memory) {
    const int rows = tile.tokens * tile.group;
    const Workspace w(memory, rows, tile.head_dim);
    for (int r = 0; r < rows; ++r) {
        const float* q = tile.q + r / tile.group * tile.q_stride + r % tile.group * tile.head_dim;
        alignas(64) std::int32_t codes[kLanes];
        w.q_scales[r] = tile.scale * symmetric_codes(q, tile.head_dim, word_limit(tile.head_dim), [&](int d, I32 x) {
            store(codes, x);
            for (int i = 0; i < kLanes; ++i) w.q[r * tile.head_dim + d + i] = std::int16_t(codes[i]);
        });
        w.stats[r] = {0, 0};
    }
    return w;
}

HEADRACE_INLINE float* head_of(const AttentionOutput& out, const AttentionTile& tile, int row) {
    return out.data + row / tile.group * out.token_stride + row % tile.group * out.head_stride;
}

static void attend(const AttentionTile& tile, float* memory, const AttentionOutput& out) {
    const Workspace w = prepare(tile, memory);
    const int earliest = tile.position - tile.window + 1;
    const int last = (tile.position + tile.tokens - 1) / kSplit;
    for (int s = (earliest > 0 ? earliest : 0) / kSplit; s <= last; ++s) {
        const Split split(tile, s, w);
        split.run();
        for (int r = split.first(); r < split.last(); ++r)
            fold(w.total + r * tile.head_dim, w.stats[r], w.part + r * tile.head_dim, w.part_stats[r], tile.head_dim);
    }
    for (int r = 0; r < tile.tokens * tile.group; ++r) {
        const F32 inverse = splat(1.0f / w.stats[r].sum);
        float* head = head_of(out, tile, r);
        for (int d = 0; d < tile.head_dim; d += kLanes)
            store(head + d, load(w.total + r * tile.head_dim + d) * inverse);
    }
}

static void attend_split(const AttentionTile& tile, int index, float* memory, const AttentionOutput& out) {
    const Workspace w = prepare(tile, memory);
    const Split split(tile, index, w);
    if (split.first() < split.last()) split.run();
    for (int r = 0; r < tile.tokens * tile.group; ++r) {
        float* part = head_of(out, tile, r);
        const bool seen = r >= split.first() && r < split.last();
        for (int d = 0; seen && d < tile.head_dim; d += kLanes)
            store(part + d, load(w.part + r * tile.head_dim + d));
        part[tile.head_dim] = seen ? w.part_stats[r].maximum : 0;
        part[tile.head_dim + 1] = seen ? w.part_stats[r].sum : 0;
    }
}

static void merge(float* out, const float* parts, int splits, std::int64_t stride, int head_dim) {
    Softmax stats = {0, 0};
    for (int s = 0; s < splits; ++s, parts += stride)
        fold(out, stats, parts, {parts[head_dim], parts[head_dim + 1]}, head_dim);
    const F32 inverse = splat(1.0f / stats.sum);
    for (int d = 0; d < head_dim; d += kLanes) store(out + d, load(out + d) * inverse);
}

}  // namespace headrace::HEADRACE_ISA
