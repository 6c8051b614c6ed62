// A program as native code sees it, and the step it is run on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arena.hpp"
#include "kernels.hpp"
#include "packing.hpp"

namespace headrace {

// What is reserved at load, and what the program is for.
struct Sizes {
    int tokens, sequences;  // most of a step
    int blocks;             // of the KV cache
    int layers, heads, kv_heads, head_dim;
    int key_bytes;            // of a key's code in the cache: 2 or 1
    int vocabulary, context;  // token ids and positions lie below them
};

// A float matrix with one row for each token of the step, or for each row whose logits are
// wanted. `quantised` has memory if an operation needs it so.
struct Buffer {
    int width = 0;
    float* data = nullptr;
    Quantised quantised{};

    float* row(std::int64_t r) const { return data + r * width; }
};

// Rows of a step: its tokens, or those selected for logits.
enum class Rows { kTokens, kSelected };

// Consecutive tokens of one sequence that attend together.
struct TokenTile {
    int sequence, first, count;
};

struct Step {
    std::vector<std::int32_t> tokens, positions, sequence_of, logit_rows;
    std::vector<std::int32_t> tables;     // the blocks of each sequence in turn
    std::vector<std::size_t> table_starts;  // where each begins
    std::vector<TokenTile> tiles;
    // If there are few tokens for the threads, each split of the KV cache is a task of its own
    // and leaves its part here: [token][head][split][part_stride].
    int splits = 0;  // 0: tiles are whole
    std::int64_t part_stride = 0;
    std::vector<float> parts;

    const std::int32_t* table(int sequence) const { return tables.data() + table_starts[std::size_t(sequence)]; }
    int rows(Rows which) const { return int(which == Rows::kTokens ? tokens.size() : logit_rows.size()); }
};

struct RopeShape {
    double base, scale;
    double magnitude;  // what a pair's length is multiplied by
    int dims;
    bool interleaved;
    std::vector<float> factors;  // empty: none
    bool operator==(const RopeShape&) const = default;
};

// Each step's cosines and sines of one rope: [tokens][dims].
struct RopeTable {
    RopeShape shape;
    std::vector<double> frequencies;
    float *cos, *sin;
};

// The KV cache: [block][layer][kv head], each as KvHead says. Blocks come first so that memory is
// only touched as far as blocks are used. Strides in bytes.
struct Cache {
    std::uint8_t* data;
    std::int64_t head_stride, layer_stride, block_stride;

    static Cache allocate(Arena&, const Sizes&);
};

// An operation on one row, independent of all others.
class RowOp {
public:
    virtual ~RowOp() = default;
    virtual void row(const Step&, int row) const = 0;
    virtual int width() const = 0;  // floats it goes through, roughly
};

// A part of a step between two meetings of the team; its tasks may run in any order.
class Region {
public:
    virtual ~Region() = default;
    virtual int tasks(const Step&) const = 0;
    virtual void run(const Step&, int task, float* scratch) const = 0;
    // So little that one thread does it faster than the team could meet.
    virtual bool small(const Step&) const { return false; }
};

struct ProjectionSpec {
    int out;
    std::shared_ptr<PackedMatrix> weight;
    std::vector<float> bias;  // empty: none
    bool accumulate;
};

constexpr int kMaxExperts = 1024;

// Each expert's matrices: weights[down](activation(weights[gate] x) * (weights[up] x)).
struct ExpertsSpec {
    int out, x, routes;
    std::vector<std::shared_ptr<PackedMatrix>> gates, ups, downs;
    Activation activation;
    bool accumulate;
};

struct ExpertRoom;
struct Routing;

struct AttentionSpec {
    int out, q, layer;
    float scale;
    int window;     // 0: none
    float softcap;  // 0: none
};

// Takes the operations of a program in order and turns them into regions.
class Plan {
public:
    // cache: of these sizes; several plans may share it.
    Plan(std::shared_ptr<Arena>, const Kernels&, const Sizes&, const Cache& cache, const std::vector<int>& widths, int threads);
    ~Plan();

    void embed(int out, std::shared_ptr<PackedMatrix> weight, float scale);
    void norm(int out, int x, std::vector<float> weight, float eps, int groups);
    void linear(int x, std::vector<ProjectionSpec> projections);
    void rotary_kv(int q, int k, int v, int layer, std::optional<RopeShape> rope);
    void attention(const AttentionSpec&);
    void gate(int out, int gate, int up, Activation);
    void add(int x, int y);
    void route(int out, int x, int used, bool normalise);
    void experts(ExpertsSpec);
    void select_rows(int out, int x);
    void logits(int x, std::shared_ptr<PackedMatrix> weight, float softcap);

    const std::vector<std::unique_ptr<Region>>& regions() const { return regions_; }
    // So many of them are needed where no logits are wanted: up to the last keys and values.
    std::size_t caching() const { return caching_; }
    Buffer& logits_buffer() { return *logits_; }
    const Buffer& logits_buffer() const { return *logits_; }
    // Floats that a thread needs beside the buffers.
    std::size_t scratch_floats() const { return scratch_; }
    const Sizes& sizes() const { return sizes_; }
    // The most tokens of an attention tile.
    int tile_tokens() const;

private:
    struct Slot {
        Buffer buffer;
        Rows rows = Rows::kTokens;
        bool quantised = false;  // whether buffer.quantised is what buffer.data says
        int used = 0;            // experts of a row, if it holds routes
    };

    Slot& slot(int index) { return *slots_.at(std::size_t(index)); }
    void same_rows(const Slot&, const Slot&) const;
    static void write(Slot&, Rows);
    void add_rows(Rows, std::unique_ptr<RowOp>, bool fresh = false);
    void quantise(Slot&);
    const RopeTable& rope_table(RopeShape);

    std::shared_ptr<Arena> arena_;
    const Kernels& kernels_;
    Sizes sizes_;
    int threads_;
    Cache cache_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::unique_ptr<Buffer> logits_;
    std::vector<std::unique_ptr<RopeTable>> ropes_;
    std::vector<std::unique_ptr<ExpertRoom>> rooms_;
    std::vector<std::unique_ptr<Routing>> routings_;
    std::vector<std::unique_ptr<Region>> regions_;
    std::size_t caching_ = 1;
    std::size_t scratch_ = 0;
};

}  // namespace headrace
