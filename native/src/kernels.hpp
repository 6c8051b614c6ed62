// The kernels as a table of functions, one table an instruction set.
//
// Every table computes the same bits, for any split of the work into calls: a row's result
// depends on the row alone.
#pragma once

#include <cstdint>

#include "matrix.hpp"

namespace headrace {

constexpr int kBlock = 32;   // positions in a KV block
constexpr int kSplit = 256;  // positions whose softmax is taken at once; partial results merge in order
constexpr int kSplitBlocks = kSplit / kBlock;

// 32 columns of a row, quantised to int8: x = scale * code + centre. A cache line, so that threads
// that quantise neighbouring rows don't meet in one.
struct alignas(64) QuantisedGroup {
    std::int8_t codes[kGroup];
    float scale, centre;
    float scaled_sum;      // scale * sum of the codes
    std::int32_t sums[2];  // of each half's codes
};

constexpr int kTileRows = 12;  // rows whose groups lie side by side, so that a register tile reads
                               // all of them at fixed distances from one address

// Quantised rows, from one of them on.
struct Quantised {
    QuantisedGroup* groups;  // [rows / 12][k / 32][12]
    std::int64_t k, first = 0;

    static std::size_t count(std::int64_t rows, std::int64_t k) {
        return std::size_t((rows + kTileRows - 1) / kTileRows * kTileRows * (k / kGroup));
    }
    Quantised row(std::int64_t r) const { return {groups, k, first + r}; }
    // How many rows of its tile come before the first.
    int place() const { return int(first % kTileRows); }
    // The first row's first group; the next of the same row is kTileRows on.
    QuantisedGroup* group() const { return groups + first / kTileRows * (k / kGroup) * kTileRows + place(); }
};

// One KV head of a block of the cache: 32 positions, each position's key and value as codes around
// 0 and a float scale. A view; its memory is 64-byte aligned.
//   keys    int16 or int8 [head_dim / 2][32][2]: two columns of each position, as 16-bit dot
//           products read (bytes are widened on the way)
//   values  int8 [8][head_dim][4]: four positions of each column, as 8-bit dot products read
struct KvHead {
    std::uint8_t* data;
    int head_dim, key_bytes;  // bytes of a key's code: 2 or 1

    static constexpr std::int64_t bytes(int head_dim, int key_bytes) {
        return std::int64_t(kBlock) * ((key_bytes + 1) * head_dim + 8);
    }
    template <class Code>
    Code* keys() const { return reinterpret_cast<Code*>(data); }
    float* key_scales() const { return reinterpret_cast<float*>(data + std::int64_t(key_bytes) * kBlock * head_dim); }
    float* value_scales() const { return key_scales() + kBlock; }
    std::int8_t* values() const { return reinterpret_cast<std::int8_t*>(value_scales() + kBlock); }
};

// Where a matrix product goes: out[row * stride + n] = product + bias[n] (+ what was there).
struct Output {
    float* data;
    std::int64_t stride;
    const float* bias;  // or null
    bool accumulate;
};

enum class Activation : std::uint8_t { kSilu, kGelu };

// Queries of consecutive tokens of one sequence, for the query heads of one KV head.
struct AttentionTile {
    const float* q;          // first token's first head of the group
    std::int64_t q_stride;   // floats from token to token
    int tokens, group, head_dim, key_bytes;
    int position;            // of the first token
    const std::int32_t* table;   // the sequence's block table
    std::uint8_t* cache;         // this KV head in block 0
    std::int64_t block_stride;   // bytes from block to block
    float scale;
    int window;     // positions a query sees, itself included
    float softcap;  // 0: none
};

// Where a tile's result goes. Whole: out, normalised. Parts: for each row and split of the tile
// [head_dim values, maximum, sum] to be merged later.
struct AttentionOutput {
    float* data;
    std::int64_t token_stride, head_stride;  // floats
};

struct Kernels {
    const char* name;

    // Panels first .. last of the product.
    std::int64_t (*linear_workspace)(const Matrix&);  // floats
    void (*linear)(const Matrix&, int first_panel, int last_panel, const Quantised&, int rows, float* workspace,
                   const Output&);
    void (*dense)(const Matrix&, int first_panel, int last_panel, const float* x, std::int64_t stride, int rows,
                  const Output&);
    // One row.
    void (*quantise)(const float* x, const Quantised& out);
    void (*norm)(float* out, const float* x, const float* weight, int width, int groups, float eps);
    void (*gate)(float* out, const float* gate, const float* up, int width, Activation);
    void (*add)(float* x, const float* y, int width);
    void (*add_scaled)(float* x, const float* y, float scale, int width);  // x += scale * y, fused
    void (*softcap)(float* x, int width, float cap);
    // Turns `heads` heads; cos and sin [dims], sin negated for the first of a pair.
    void (*rotate)(float* x, int heads, int head_dim, int dims, bool interleaved, const float* cos, const float* sin);
    // One position of one KV head into its block: see KvHead.
    void (*store_kv)(const KvHead&, int slot, const float* k, const float* v);
    std::int64_t (*attention_workspace)(int rows, int head_dim);  // floats
    void (*attend)(const AttentionTile&, float* workspace, const AttentionOutput& out);
    void (*attend_split)(const AttentionTile&, int split, float* workspace, const AttentionOutput& out);
    // Parts [splits][head_dim + 2], `stride` floats apart, to one normalised head.
    void (*merge)(float* out, const float* parts, int splits, std::int64_t stride, int head_dim);
    // The greatest value, or NaN if any value is NaN or infinite.
    float (*finite_maximum)(const float* x, int n);
    float (*maximum)(const float* x, int n);
    // out[i] = x[i] where bit i of mask is set, else -infinity; the greatest of them.
    float (*mask)(float* out, const float* x, const std::uint32_t* mask, int n);
    // Index of the first element equal to value, or n.
    int (*find)(const float* x, int n, float value);
    // Indices of the elements >= least (and above 0), in order; returns how many.
    int (*collect)(std::int32_t* indices, const float* x, int n, float least);
    // out[i] = exp((x[i] - shift) * factor); returns their sum (double over blocks of floats).
    double (*exponentials)(float* out, const float* x, int n, float shift, float factor);
    // For probe.cpp: arithmetic and nothing else, on 64 codes and bytes, or 32 floats. Return how
    // many multiply-adds it was; add what came out to out[16].
    std::int64_t (*product_chains)(int repeats, const std::uint8_t* codes, const std::int8_t* x, float* out);
    std::int64_t (*float_chains)(int repeats, const float* x, float* out);
};

enum class Isa { kScalar, kNeon, kAvx2, kAvx512 };

// The table for an instruction set, or null where this build or this machine lacks it.
const Kernels* kernels(Isa);

}  // namespace headrace
