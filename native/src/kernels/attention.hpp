// Attention of a tile of query rows over a paged KV cache.
//
// Positions are cut into splits of 256 at absolute borders. Within a split a row takes one
// softmax over what it sees; splits merge in order (as in online softmax, arXiv:1805.02867,
// but with fixed borders). A row's operations are therefore the same whatever other rows share
// its tile, however its prompt was chunked, and wherever its splits were computed.
#pragma once

#include "../kernels.hpp"
#include "math.hpp"

namespace headrace::HEADRACE_ISA {

template <int N>
struct Count {
    static constexpr int value = N;
};

// body(Count<rows>) for rows in 1 .. N.
template <int N, class Body>
HEADRACE_INLINE void with_rows(int rows, Body body) {
    if (rows == N) body(Count<N>{});
    else if constexpr (N > 1) with_rows<N - 1>(rows, body);
}

// s[r][32 b + p] = q[r] . key[b][p], for R rows and B blocks, summed over the head in order.
template <class Key, int R, int B>
static void score_tile(const float* q, int head_dim, const Key* const* keys, float* s) {
    F32 sum[R][2 * B];
    for (auto& row : sum)
        for (auto& v : row) v = zero();
    for (int d = 0; d < head_dim; ++d) {
#pragma GCC unroll 8
        for (int v = 0; v < 2 * B; ++v) {
            const F32 key = load(keys[v / 2] + d * kBlock + (v % 2) * kLanes);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) sum[r][v] = fma(key, splat(q[r * head_dim + d]), sum[r][v]);
        }
    }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < 2 * B; ++v) store(s + r * kSplit + v * kLanes, sum[r][v]);
}

constexpr int kScoreRows = kScoreVectors / 2;  // of one block

// Few rows take several blocks at a time, so that enough sums are under way at once.
template <class Key, int R>
static void score_rows(const float* q, int head_dim, const Key* const* keys, int blocks, float* s) {
    constexpr int kMost = kScoreRows / R;
    constexpr int kBlocks = kMost >= 4 ? 4 : kMost >= 2 ? 2 : 1;
    int b = 0;
    for (; b + kBlocks <= blocks; b += kBlocks)
        score_tile<Key, R, kBlocks>(q, head_dim, keys + b, s + b * kBlock);
    for (; b < blocks; ++b) score_tile<Key, R, 1>(q, head_dim, keys + b, s + b * kBlock);
}

template <class Key>
static void scores(const float* q, int rows, int head_dim, const Key* const* keys, int blocks, float* s) {
    for (int r = 0; r < rows; r += kScoreRows) {
        const int count = rows - r < kScoreRows ? rows - r : kScoreRows;
        with_rows<kScoreRows>(count, [&](auto n) {
            score_rows<Key, decltype(n)::value>(q + r * head_dim, head_dim, keys, blocks, s + r * kSplit);
        });
    }
}

// o[r] += sum over positions first .. last of p[r][position] * value[position], in order.
template <class Value, int R, int C>
static void value_tile(const float* p, const Value* const* values, int first, int last, int head_dim, float* o) {
    F32 sum[R][C];
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) sum[r][c] = load(o + r * head_dim + c * kLanes);
    for (int block = first / kBlock; block * kBlock < last; ++block) {
        const int from = block * kBlock, start = first > from ? first : from;
        const int end = last < from + kBlock ? last : from + kBlock;
        for (int i = start; i < end; ++i) {
            const Value* row = values[block] + (i - from) * head_dim;
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                const F32 value = load(row + c * kLanes);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) sum[r][c] = fma(value, splat(p[r * kSplit + i]), sum[r][c]);
            }
        }
    }
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) store(o + r * head_dim + c * kLanes, sum[r][c]);
}

struct Slice {
    int rows;         // of the tile, from its first
    const float* p;   // [rows][kSplit]
    float* o;         // [rows][head_dim]
};

template <class Value>
static void weigh(Slice at, const Value* const* values, int first, int last, int head_dim) {
    with_rows<kValueRows>(at.rows, [&](auto n) {
        constexpr int R = decltype(n)::value;
        const Value* shifted[kSplit / kBlock];
        int d = 0;
        for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes) {
            for (int b = 0; b * kBlock < last; ++b) shifted[b] = values[b] + d;
            value_tile<Value, R, 4>(at.p, shifted, first, last, head_dim, at.o + d);
        }
        for (; d < head_dim; d += kLanes) {
            for (int b = 0; b * kBlock < last; ++b) shifted[b] = values[b] + d;
            value_tile<Value, R, 1>(at.p, shifted, first, last, head_dim, at.o + d);
        }
    });
}

// Exponentials of s[first .. last] where visible, 0 elsewhere in the vectors of first .. last.
struct Softmax {
    float maximum, sum;
};
static Softmax softmax(float* s, int first, int last, int visible_from, int visible_to) {
    const F32 nothing = splat(-__builtin_inff());
    F32 greatest = nothing;
    for (int i = first; i < last; i += kLanes)
        greatest = max(within(load(s + i), visible_from - i, visible_to - i, nothing), greatest);
    const float maximum = reduce_max(greatest);
    F32 sum = zero();
    for (int i = first; i < last; i += kLanes) {
        const F32 e = exp(load(s + i) - splat(maximum));
        const F32 seen = within(e, visible_from - i, visible_to - i, zero());
        store(s + i, seen);
        sum = sum + seen;
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
    float *q, *scores, *part, *total, *wide;
    Softmax *part_stats, *stats;

    Workspace(float* memory, int rows, int head_dim)
        : q(memory),
          scores(q + rows * head_dim),
          part(scores + rows * kSplit),
          total(part + rows * head_dim),
          wide(total + rows * head_dim),
          part_stats(reinterpret_cast<Softmax*>(wide + kBlock * head_dim)),
          stats(part_stats + rows) {}
};

static std::int64_t attention_workspace(int rows, int head_dim) {
    return std::int64_t(rows) * (3 * head_dim + kSplit + 4) + kBlock * head_dim;
}

static void widen(float* out, const std::uint16_t* halves, int n) {
    for (int i = 0; i < n; i += kLanes) store(out + i, load(halves + i));
}

// One tile over one split: which rows see which of its positions, and the three passes.
class Split {
public:
    Split(const AttentionTile& tile, int index, const Workspace& w)
        : tile_(tile), w_(w), base_(index * kSplit), head_dim_(tile.head_dim) {
        // Tokens that see some of it: those at or after its start whose window reaches into it.
        const int before = base_ - tile.position;
        const std::int64_t reach = std::int64_t(base_) + kSplit + tile.window - 1 - tile.position;
        first_ = tile.group * (before > 0 ? before : 0);
        last_ = tile.group * int(reach < tile.tokens ? reach : tile.tokens);
        if (first_ >= last_) return;
        from_ = sees_from(first_) / kBlock * kBlock;
        to_ = sees_to(last_ - 1);
        const int blocks = (to_ + kBlock - 1) / kBlock;
        for (int b = from_ / kBlock; b < blocks; ++b)
            keys_[b] = tile.cache + tile.table[base_ / kBlock + b] * tile.block_stride;
        for (int b = from_ / kBlock; b < blocks; ++b) values_[b] = keys_[b] + head_dim_ * kBlock;
    }

    // Fills w.part and w.part_stats of rows first() .. last().
    void run() const {
        if (last_ - first_ <= kScoreRows) {
            const int block = from_ / kBlock;
            scores(w_.q + first_ * head_dim_, last_ - first_, head_dim_, keys_ + block,
                   (to_ + kBlock - 1) / kBlock - block, w_.scores + first_ * kSplit + from_);
        } else {
            score_wide();
        }
        for (int r = first_; r < last_; ++r) {
            float* s = w_.scores + r * kSplit;
            if (tile_.softcap > 0) {
                const F32 cap = splat(tile_.softcap), inverse = splat(1.0f / tile_.softcap);
                for (int i = from_; i < to_; i += kLanes) store(s + i, capped(load(s + i), cap, inverse));
            }
            w_.part_stats[r] = softmax(s, from_, to_, sees_from(r), sees_to(r));
            for (int d = 0; d < head_dim_; d += kLanes) store(w_.part + r * head_dim_ + d, zero());
        }
        if (last_ - first_ <= kScoreRows) {
            for (int r = first_; r < last_; r += kValueRows) {
                const int end = r + kValueRows < last_ ? r + kValueRows : last_;
                weigh(slice(r, end), values_, sees_from(r), sees_to(end - 1), head_dim_);
            }
        } else {
            weigh_wide();
        }
    }

    int first() const { return first_; }
    int last() const { return last_; }

private:
    int position(int row) const { return tile_.position + row / tile_.group; }
    int sees_from(int row) const {
        const int at = position(row) - tile_.window + 1 - base_;
        return at > 0 ? at : 0;
    }
    int sees_to(int row) const {
        const int at = position(row) + 1 - base_;
        return at < kSplit ? at : kSplit;
    }
    Slice slice(int r, int end) const { return {end - r, w_.scores + r * kSplit, w_.part + r * head_dim_}; }

    // Rows first .. last that see something of positions at .. at + kBlock.
    struct Rows {
        int first, last;
    };
    Rows rows_of(int at) const {
        int first = first_, last = last_;
        while (sees_to(first) <= at) ++first;
        while (sees_from(last - 1) >= at + kBlock) --last;
        return {first, last};
    }

    // Many rows share a block: widen it once.
    void score_wide() const {
        for (int at = from_; at < to_; at += kBlock) {
            const Rows rows = rows_of(at);
            widen(w_.wide, keys_[at / kBlock], head_dim_ * kBlock);
            const float* key = w_.wide;
            scores(w_.q + rows.first * head_dim_, rows.last - rows.first, head_dim_, &key, 1,
                   w_.scores + rows.first * kSplit + at);
        }
    }
    void weigh_wide() const {
        for (int at = from_; at < to_; at += kBlock) {
            const Rows rows = rows_of(at);
            widen(w_.wide, values_[at / kBlock], head_dim_ * kBlock);
            const float* value = w_.wide;
            for (int r = rows.first; r < rows.last; r += kValueRows) {
                const int end = r + kValueRows < rows.last ? r + kValueRows : rows.last;
                const int from = sees_from(r) - at, to = sees_to(end - 1) - at;
                Slice part = slice(r, end);
                part.p += at;
                weigh(part, &value, from > 0 ? from : 0, to < kBlock ? to : kBlock, head_dim_);
            }
        }
    }

    const AttentionTile& tile_;
    const Workspace& w_;
    int base_, head_dim_;
    int first_ = 0, last_ = 0;  // rows
    int from_ = 0, to_ = 0;     // positions within the split; from_ is a block's start
    const std::uint16_t* keys_[kSplit / kBlock] = {};
    const std::uint16_t* values_[kSplit / kBlock] = {};
};

static Workspace prepare(const AttentionTile& tile, float* memory) {
    const int rows = tile.tokens * tile.group;
    const Workspace w(memory, rows, tile.head_dim);
    const F32 scale = splat(tile.scale);
    for (int r = 0; r < rows; ++r) {
        const float* q = tile.q + r / tile.group * tile.q_stride + r % tile.group * tile.head_dim;
        for (int d = 0; d < tile.head_dim; d += kLanes)
            store(w.q + r * tile.head_dim + d, load(q + d) * scale);
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
