#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "experts.hpp"

namespace headrace {

namespace {

// ---- operations on rows ----

class Embed final : public RowOp {
public:
    Embed(const Buffer& out, std::shared_ptr<PackedMatrix> weight, float scale)
        : out_(out), weight_(std::move(weight)), scale_(scale) {}
    void row(const Step& step, int r) const override {
        weight_->row(step.tokens[std::size_t(r)], scale_, out_.row(r));
    }
    int width() const override { return 4 * out_.width; }

private:
    const Buffer& out_;
    std::shared_ptr<PackedMatrix> weight_;
    float scale_;
};

class Norm final : public RowOp {
public:
    Norm(const Kernels& kernels, const Buffer& out, const Buffer& x, std::vector<float> weight, float eps, int groups)
        : kernels_(kernels), out_(out), x_(x), weight_(std::move(weight)), eps_(eps), groups_(groups) {}
    void row(const Step&, int r) const override {
        kernels_.norm(out_.row(r), x_.row(r), weight_.data(), x_.width, groups_, eps_);
    }
    int width() const override { return x_.width; }

private:
    const Kernels& kernels_;
    const Buffer &out_, &x_;
    std::vector<float> weight_;
    float eps_;
    int groups_;
};

class Gate final : public RowOp {
public:
    Gate(const Kernels& kernels, const Buffer& out, const Buffer& gate, const Buffer& up, Activation activation)
        : kernels_(kernels), out_(out), gate_(gate), up_(up), activation_(activation) {}
    void row(const Step&, int r) const override {
        kernels_.gate(out_.row(r), gate_.row(r), up_.row(r), out_.width, activation_);
    }
    int width() const override { return 2 * out_.width; }

private:
    const Kernels& kernels_;
    const Buffer &out_, &gate_, &up_;
    Activation activation_;
};

class Add final : public RowOp {
public:
    Add(const Kernels& kernels, const Buffer& x, const Buffer& y) : kernels_(kernels), x_(x), y_(y) {}
    void row(const Step&, int r) const override { kernels_.add(x_.row(r), y_.row(r), x_.width); }
    int width() const override { return x_.width; }

private:
    const Kernels& kernels_;
    const Buffer &x_, &y_;
};

class Softcap final : public RowOp {
public:
    Softcap(const Kernels& kernels, const Buffer& x, float cap) : kernels_(kernels), x_(x), cap_(cap) {}
    void row(const Step&, int r) const override { kernels_.softcap(x_.row(r), x_.width, cap_); }
    int width() const override { return x_.width; }

private:
    const Kernels& kernels_;
    const Buffer& x_;
    float cap_;
};

class Select final : public RowOp {
public:
    Select(const Buffer& out, const Buffer& x) : out_(out), x_(x) {}
    void row(const Step& step, int r) const override {
        std::copy_n(x_.row(step.logit_rows[std::size_t(r)]), x_.width, out_.row(r));
    }
    int width() const override { return x_.width; }

private:
    const Buffer &out_, &x_;
};

class Quantise final : public RowOp {
public:
    Quantise(const Kernels& kernels, const Buffer& x) : kernels_(kernels), x_(x) {}
    void row(const Step&, int r) const override {
        kernels_.quantise(x_.row(r), x_.quantised.row(r));
    }
    int width() const override { return x_.width; }

private:
    const Kernels& kernels_;
    const Buffer& x_;
};

class FillRopeTable final : public RowOp {
public:
    explicit FillRopeTable(const RopeTable& table) : table_(table) {}
    void row(const Step& step, int r) const override {
        const RopeShape& shape = table_.shape;
        const int half = shape.dims / 2;
        float* cos = table_.cos + std::int64_t(r) * shape.dims;
        float* sin = table_.sin + std::int64_t(r) * shape.dims;
        for (int i = 0; i < half; ++i) {
            // Double precision: at position 10^6 a float angle would be off by 0.03.
            const double angle = step.positions[std::size_t(r)] * table_.frequencies[std::size_t(i)];
            const int first = shape.interleaved ? 2 * i : i;
            const int second = shape.interleaved ? 2 * i + 1 : i + half;
            cos[first] = cos[second] = float(shape.magnitude * std::cos(angle));
            sin[second] = float(shape.magnitude * std::sin(angle));
            sin[first] = -sin[second];
        }
    }
    int width() const override { return 16 * table_.shape.dims; }

private:
    const RopeTable& table_;
};

class RotaryKV final : public RowOp {
public:
    RotaryKV(const Kernels& kernels, const Sizes& sizes, const Cache& cache, int layer, const Buffer& q,
             const Buffer& k, const Buffer& v, const RopeTable* rope)
        : kernels_(kernels), sizes_(sizes), cache_(cache), layer_(layer), q_(q), k_(k), v_(v), rope_(rope) {}
    void row(const Step& step, int r) const override {
        if (rope_) {
            turn(q_.row(r), sizes_.heads, r);
            turn(k_.row(r), sizes_.kv_heads, r);
        }
        const int position = step.positions[std::size_t(r)];
        const std::int64_t block = step.table(step.sequence_of[std::size_t(r)])[position / kBlock];
        std::uint8_t* at = cache_.data + layer_ * cache_.layer_stride + block * cache_.block_stride;
        for (int h = 0; h < sizes_.kv_heads; ++h, at += cache_.head_stride)
            kernels_.store_kv({at, sizes_.head_dim, sizes_.key_bytes}, position % kBlock,
                              k_.row(r) + h * sizes_.head_dim, v_.row(r) + h * sizes_.head_dim);
    }
    int width() const override { return q_.width + 4 * k_.width; }

private:
    void turn(float* x, int heads, int r) const {
        const RopeShape& shape = rope_->shape;
        const std::int64_t at = std::int64_t(r) * shape.dims;
        kernels_.rotate(x, heads, sizes_.head_dim, shape.dims, shape.interleaved, rope_->cos + at, rope_->sin + at);
    }

    const Kernels& kernels_;
    const Sizes& sizes_;
    const Cache& cache_;
    int layer_;
    const Buffer &q_, &k_, &v_;
    const RopeTable* rope_;
};

// Puts together what Attention left of each head, split by split.
class MergeParts final : public RowOp {
public:
    MergeParts(const Kernels& kernels, const Sizes& sizes, const Buffer& out)
        : kernels_(kernels), sizes_(sizes), out_(out) {}
    void row(const Step& step, int r) const override {
        if (step.splits == 0) return;
        for (int h = 0; h < sizes_.heads; ++h) {
            const std::int64_t first = (std::int64_t(r) * sizes_.heads + h) * step.splits;
            kernels_.merge(out_.row(r) + h * sizes_.head_dim, step.parts.data() + first * step.part_stride,
                           step.splits, step.part_stride, sizes_.head_dim);
        }
    }
    int width() const override { return out_.width; }

private:
    const Kernels& kernels_;
    const Sizes& sizes_;
    const Buffer& out_;
};

// ---- regions ----

// Operations that follow each other on the same rows: each row goes through all of them.
class RowChain final : public Region {
public:
    explicit RowChain(Rows rows) : rows_(rows) {}

    Rows rows() const { return rows_; }
    void append(std::unique_ptr<RowOp> op) {
        width_ += op->width();
        ops_.push_back(std::move(op));
    }
    int tasks(const Step& step) const override { return (step.rows(rows_) + chunk() - 1) / chunk(); }
    void run(const Step& step, int task, float*) const override {
        const int end = std::min(step.rows(rows_), (task + 1) * chunk());
        for (int r = task * chunk(); r < end; ++r)
            for (const auto& op : ops_) op->row(step, r);
    }
    bool small(const Step& step) const override { return std::int64_t(step.rows(rows_)) * width_ <= kSmall; }

private:
    static constexpr int kSmall = 8192;  // floats: some microseconds
    int chunk() const { return std::max(1, kSmall / std::max(width_, 1)); }

    Rows rows_;
    int width_ = 0;
    std::vector<std::unique_ptr<RowOp>> ops_;
};

class Linear final : public Region {
public:
    struct Part {
        const Buffer& out;
        std::shared_ptr<PackedMatrix> weight;
        std::vector<float> bias;
        bool accumulate;
    };

    Linear(const Kernels& kernels, Rows rows, const Buffer& x, std::vector<Part> parts, int threads)
        : kernels_(kernels), rows_(rows), x_(x), parts_(std::move(parts)) {
        for (const Part& part : parts_) panels_ += part.weight->view().panels();
        // Guided self-scheduling (Polychronopoulos and Kuck, 1987): long tasks stream from memory
        // without a new start, and nobody waits long for the short last ones.
        for (int first = 0; first < panels_; first += std::max(1, (panels_ - first) / (threads * 4)))
            starts_.push_back(first);
        starts_.push_back(panels_);
    }
    int tasks(const Step& step) const override {
        return step.rows(rows_) == 0 ? 0 : int(starts_.size()) - 1;
    }
    void run(const Step& step, int task, float* scratch) const override {
        int first = starts_[std::size_t(task)], last = starts_[std::size_t(task) + 1];
        for (const Part& part : parts_) {
            const int count = part.weight->view().panels();
            if (first < count && last > 0) multiply(step, part, std::max(first, 0), std::min(last, count), scratch);
            first -= count;
            last -= count;
        }
    }

private:
    void multiply(const Step& step, const Part& part, int first, int last, float* scratch) const {
        const Matrix& m = part.weight->view();
        const Output out = {part.out.data, part.out.width, part.bias.empty() ? nullptr : part.bias.data(), part.accumulate};
        if (m.grouped()) kernels_.linear(m, first, last, x_.quantised, step.rows(rows_), scratch, out);
        else kernels_.dense(m, first, last, x_.data, x_.width, step.rows(rows_), out);
    }

    const Kernels& kernels_;
    Rows rows_;
    const Buffer& x_;
    std::vector<Part> parts_;
    int panels_ = 0;
    std::vector<int> starts_;  // first panels of the tasks, and where the last one ends
};

class Attention final : public Region {
public:
    Attention(const Kernels& kernels, const Sizes& sizes, const Cache& cache, const AttentionSpec& spec,
              const Buffer& out, const Buffer& q)
        : kernels_(kernels), sizes_(sizes), cache_(cache), spec_(spec), out_(out), q_(q) {}
    int tasks(const Step& step) const override {
        return int(step.tiles.size()) * sizes_.kv_heads * std::max(step.splits, 1);
    }
    void run(const Step& step, int task, float* scratch) const override {
        const int splits = std::max(step.splits, 1);
        const int split = task % splits, head = task / splits % sizes_.kv_heads;
        // The last tiles of a prompt see the most: begin with them.
        const std::size_t last = step.tiles.size() - 1;
        const TokenTile& tokens = step.tiles[last - std::size_t(task / splits / sizes_.kv_heads)];
        const int group = sizes_.heads / sizes_.kv_heads;
        const AttentionTile tile = {
            .q = q_.row(tokens.first) + head * group * sizes_.head_dim,
            .q_stride = q_.width,
            .tokens = tokens.count,
            .group = group,
            .head_dim = sizes_.head_dim,
            .key_bytes = sizes_.key_bytes,
            .position = step.positions[std::size_t(tokens.first)],
            .table = step.table(tokens.sequence),
            .cache = cache_.data + spec_.layer * cache_.layer_stride + head * cache_.head_stride,
            .block_stride = cache_.block_stride,
            .scale = spec_.scale,
            .window = spec_.window > 0 ? spec_.window : 1 << 30,
            .softcap = spec_.softcap,
        };
        if (step.splits == 0) {
            kernels_.attend(tile, scratch, {out_.row(tokens.first) + head * group * sizes_.head_dim, out_.width, sizes_.head_dim});
            return;
        }
        const std::int64_t head_stride = step.splits * step.part_stride;
        const std::int64_t token_stride = sizes_.heads * head_stride;
        // Each part is written by the one task it belongs to.
        float* parts = const_cast<float*>(step.parts.data()) + tokens.first * token_stride +
                       head * group * head_stride + split * step.part_stride;
        kernels_.attend_split(tile, split, scratch, {parts, token_stride, head_stride});
    }

private:
    const Kernels& kernels_;
    const Sizes& sizes_;
    const Cache& cache_;
    AttentionSpec spec_;
    const Buffer &out_, &q_;
};

void require(bool fits, const char* what) {
    if (!fits) throw std::invalid_argument(what);
}

}  // namespace

Cache Cache::allocate(Arena& arena, const Sizes& sizes) {
    require(sizes.head_dim > 0 && sizes.head_dim % 16 == 0, "head_dim must be a multiple of 16");
    require(sizes.key_bytes == 1 || sizes.key_bytes == 2, "key_bytes must be 1 or 2");
    const std::int64_t head = KvHead::bytes(sizes.head_dim, sizes.key_bytes), layer = sizes.kv_heads * head;
    const std::int64_t block = sizes.layers * layer;
    return {arena.allocate<std::uint8_t>(std::size_t(sizes.blocks) * std::size_t(block)), head, layer, block};
}

Plan::Plan(std::shared_ptr<Arena> arena, const Kernels& kernels, const Sizes& sizes, const Cache& cache,
           const std::vector<int>& widths, int threads)
    : arena_(std::move(arena)), kernels_(kernels), sizes_(sizes), threads_(threads), cache_(cache) {
    require(sizes.kv_heads > 0 && sizes.heads % sizes.kv_heads == 0, "heads must be a multiple of kv_heads");
    for (const int width : widths) {
        auto slot = std::make_unique<Slot>();
        slot->buffer.width = width;
        slot->buffer.data = arena_->allocate<float>(std::size_t(sizes.tokens) * std::size_t(width));
        slots_.push_back(std::move(slot));
    }
    // Rope tables join this first chain as the program asks for them.
    regions_.push_back(std::make_unique<RowChain>(Rows::kTokens));
}

Plan::~Plan() = default;

// A tile reads its positions' keys and values once for all of its rows. The more of them, the less a row waits for
// memory: 28 took 95 ns each for 32 positions, 112 took 70.
int Plan::tile_tokens() const { return std::max(1, 128 / (sizes_.heads / sizes_.kv_heads)); }

void Plan::same_rows(const Slot& a, const Slot& b) const {
    require(a.rows == b.rows, "an operation mixes rows of all tokens with selected rows");
}

// An operation leaves something new in the buffer.
void Plan::write(Slot& slot, Rows rows) {
    slot.rows = rows;
    slot.quantised = false;
    slot.used = 0;
}

void Plan::add_rows(Rows rows, std::unique_ptr<RowOp> op, bool fresh) {
    auto* chain = dynamic_cast<RowChain*>(regions_.back().get());
    if (fresh || !chain || chain->rows() != rows) {
        regions_.push_back(std::make_unique<RowChain>(rows));
        chain = static_cast<RowChain*>(regions_.back().get());
    }
    chain->append(std::move(op));
}

void Plan::quantise(Slot& slot) {
    if (slot.quantised) return;
    Buffer& buffer = slot.buffer;
    if (!buffer.quantised.groups)
        buffer.quantised = {arena_->allocate<QuantisedGroup>(Quantised::count(sizes_.tokens, buffer.width)), buffer.width};
    add_rows(slot.rows, std::make_unique<Quantise>(kernels_, buffer));
    slot.quantised = true;
}

const RopeTable& Plan::rope_table(RopeShape shape) {
    for (const auto& table : ropes_)
        if (table->shape == shape) return *table;
    const int dims = shape.dims;
    require(dims > 0 && dims % 2 == 0 && dims <= sizes_.head_dim, "rope dims must be even and at most head_dim");
    require(shape.factors.empty() || int(shape.factors.size()) == dims / 2, "rope factors must be dims / 2 numbers");
    auto table = std::make_unique<RopeTable>();
    for (int i = 0; i < dims / 2; ++i) {
        const double factor = shape.factors.empty() ? 1.0 : double(shape.factors[std::size_t(i)]);
        table->frequencies.push_back(shape.scale / (std::pow(shape.base, 2.0 * i / dims) * factor));
    }
    table->shape = std::move(shape);
    table->cos = arena_->allocate<float>(std::size_t(sizes_.tokens) * std::size_t(dims));
    table->sin = arena_->allocate<float>(std::size_t(sizes_.tokens) * std::size_t(dims));
    static_cast<RowChain*>(regions_.front().get())->append(std::make_unique<FillRopeTable>(*table));
    ropes_.push_back(std::move(table));
    return *ropes_.back();
}

void Plan::embed(int out, std::shared_ptr<PackedMatrix> weight, float scale) {
    Slot& o = slot(out);
    require(weight->view().k == o.buffer.width, "embedding and its buffer differ in width");
    write(o, Rows::kTokens);
    add_rows(o.rows, std::make_unique<Embed>(o.buffer, std::move(weight), scale));
}

void Plan::norm(int out, int x, std::vector<float> weight, float eps, int groups) {
    Slot &o = slot(out), &i = slot(x);
    require(o.buffer.width == i.buffer.width, "a norm's input and output differ in width");
    require(groups > 0 && int(weight.size()) * groups == i.buffer.width, "a norm's weight does not fit its groups");
    write(o, i.rows);
    add_rows(o.rows, std::make_unique<Norm>(kernels_, o.buffer, i.buffer, std::move(weight), eps, groups));
}

void Plan::linear(int x, std::vector<ProjectionSpec> projections) {
    Slot& input = slot(x);
    std::vector<Linear::Part> parts;
    bool grouped = false;
    for (ProjectionSpec& p : projections) {
        Slot& out = slot(p.out);
        const Matrix& m = p.weight->view();
        require(m.k == input.buffer.width && m.n == out.buffer.width, "a projection does not fit its buffers");
        require(p.bias.empty() || int(p.bias.size()) == m.n, "a bias does not fit its projection");
        require(&out != &input, "a projection cannot overwrite its input");
        if (p.accumulate) same_rows(out, input);
        scratch_ = std::max(scratch_, std::size_t(kernels_.linear_workspace(m)));
        grouped = grouped || m.grouped();
        write(out, input.rows);
        parts.push_back({out.buffer, std::move(p.weight), std::move(p.bias), p.accumulate});
    }
    if (grouped) quantise(input);
    regions_.push_back(std::make_unique<Linear>(kernels_, input.rows, input.buffer, std::move(parts), threads_));
}

void Plan::rotary_kv(int q, int k, int v, int layer, std::optional<RopeShape> rope) {
    const RopeTable* table = rope ? &rope_table(std::move(*rope)) : nullptr;
    Slot &sq = slot(q), &sk = slot(k), &sv = slot(v);
    require(layer >= 0 && layer < sizes_.layers, "a layer outside the program");
    require(sq.buffer.width == sizes_.heads * sizes_.head_dim, "queries do not fit the heads");
    require(sk.buffer.width == sizes_.kv_heads * sizes_.head_dim, "keys do not fit the heads");
    require(sv.buffer.width == sk.buffer.width, "values do not fit the heads");
    write(sq, Rows::kTokens);
    write(sk, Rows::kTokens);
    add_rows(Rows::kTokens, std::make_unique<RotaryKV>(kernels_, sizes_, cache_, layer, sq.buffer, sk.buffer,
                                                       sv.buffer, table));
    caching_ = regions_.size();
}

void Plan::attention(const AttentionSpec& spec) {
    Slot &out = slot(spec.out), &q = slot(spec.q);
    require(spec.layer >= 0 && spec.layer < sizes_.layers, "a layer outside the program");
    require(out.buffer.width == q.buffer.width && q.buffer.width == sizes_.heads * sizes_.head_dim,
            "attention's buffers do not fit the heads");
    write(out, Rows::kTokens);
    regions_.push_back(std::make_unique<Attention>(kernels_, sizes_, cache_, spec, out.buffer, q.buffer));
    add_rows(Rows::kTokens, std::make_unique<MergeParts>(kernels_, sizes_, out.buffer));
    const int rows = tile_tokens() * (sizes_.heads / sizes_.kv_heads);
    scratch_ = std::max(scratch_, std::size_t(kernels_.attention_workspace(rows, sizes_.head_dim)));
}

void Plan::gate(int out, int gate, int up, Activation activation) {
    Slot &o = slot(out), &g = slot(gate), &u = slot(up);
    require(o.buffer.width == g.buffer.width && g.buffer.width == u.buffer.width, "a gate's buffers differ in width");
    same_rows(g, u);
    write(o, g.rows);
    add_rows(o.rows, std::make_unique<Gate>(kernels_, o.buffer, g.buffer, u.buffer, activation));
}

void Plan::add(int x, int y) {
    Slot &a = slot(x), &b = slot(y);
    require(a.buffer.width == b.buffer.width, "a sum's buffers differ in width");
    same_rows(a, b);
    write(a, a.rows);
    add_rows(a.rows, std::make_unique<Add>(kernels_, a.buffer, b.buffer));
}

void Plan::route(int out, int x, int used, bool normalise) {
    Slot &o = slot(out), &i = slot(x);
    require(o.buffer.width == i.buffer.width && &o != &i, "routes need a buffer of their own, as wide");
    require(i.buffer.width <= kMaxExperts, "there are at most 1024 experts");
    require(used > 0 && used <= i.buffer.width, "a row uses at least one expert and at most all");
    write(o, i.rows);
    o.used = used;
    add_rows(o.rows, std::make_unique<Route>(kernels_, o.buffer, i.buffer, used, normalise));
}

void Plan::experts(ExpertsSpec spec) {
    using Weights = std::vector<std::shared_ptr<PackedMatrix>>;
    Slot &out = slot(spec.out), &x = slot(spec.x), &routes = slot(spec.routes);
    require(routes.used > 0, "experts need routes");
    same_rows(x, routes);
    require(&out != &x && &out != &routes, "experts cannot overwrite their input");
    if (spec.accumulate) same_rows(out, x);
    const std::size_t count = std::size_t(routes.buffer.width);
    require(spec.gates.size() == count && spec.ups.size() == count && spec.downs.size() == count,
            "routes and experts differ in number");
    const int inner = spec.gates.front()->view().n;
    ExpertRoom::Size size = {ExpertRoom::places(sizes_.tokens, routes.used, int(count)), x.buffer.width, inner,
                             out.buffer.width, false, false, false};
    const auto check = [&](const Weights& weights, int n, int k, bool& dense, bool& grouped) {
        for (const auto& weight : weights) {
            const Matrix& m = weight->view();
            require(m.n == n && m.k == k, "an expert does not fit the others");
            scratch_ = std::max(scratch_, std::size_t(kernels_.linear_workspace(m)));
            (m.grouped() ? grouped : dense) = true;
        }
    };
    bool inner_floats = false;  // they are there in any case
    check(spec.gates, inner, size.width, size.floats, size.codes);
    check(spec.ups, inner, size.width, size.floats, size.codes);
    check(spec.downs, size.out_width, inner, inner_floats, size.inner_codes);
    if (size.codes) quantise(x);

    const auto found = std::ranges::find_if(rooms_, [&](const auto& room) { return room->size == size; });
    const ExpertRoom& room =
        found != rooms_.end() ? **found : *rooms_.emplace_back(std::make_unique<ExpertRoom>(*arena_, size));
    Routing& routing = *routings_.emplace_back(std::make_unique<Routing>());
    routing.used = routes.used;
    const Rows rows = x.rows;
    write(out, rows);
    const auto panels = [](const Weights& weights) { return weights.front()->view().panels(); };
    regions_.push_back(std::make_unique<SortRows>(routing, rows, routes.buffer, panels(spec.gates), panels(spec.downs),
                                                  threads_));
    add_rows(rows, std::make_unique<GatherRow>(routing, room, x.buffer));
    std::vector<ExpertProducts::Part> parts;
    parts.push_back({room.gate, std::move(spec.gates)});
    parts.push_back({room.up, std::move(spec.ups)});
    regions_.push_back(std::make_unique<ExpertProducts>(kernels_, routing.inner_tasks, room.x, std::move(parts)));
    add_rows(rows, std::make_unique<GateRow>(kernels_, routing, room, spec.activation));
    parts.clear();
    parts.push_back({room.out, std::move(spec.downs)});
    regions_.push_back(std::make_unique<ExpertProducts>(kernels_, routing.out_tasks, room.gate, std::move(parts)));
    add_rows(rows, std::make_unique<CombineRow>(kernels_, routing, room, out.buffer, spec.accumulate));
}

void Plan::select_rows(int out, int x) {
    Slot &o = slot(out), &i = slot(x);
    require(o.buffer.width == i.buffer.width && &o != &i, "selected rows need a buffer of their own, as wide");
    write(o, Rows::kSelected);
    add_rows(o.rows, std::make_unique<Select>(o.buffer, i.buffer), true);
}

void Plan::logits(int x, std::shared_ptr<PackedMatrix> weight, float softcap) {
    Slot& input = slot(x);
    require(weight->view().k == input.buffer.width, "the output matrix does not fit its input");
    require(input.rows == Rows::kSelected, "logits are taken of selected rows");
    logits_ = std::make_unique<Buffer>();
    logits_->width = weight->view().n;
    if (weight->view().grouped()) quantise(input);
    scratch_ = std::max(scratch_, std::size_t(kernels_.linear_workspace(weight->view())));
    std::vector<Linear::Part> parts;
    parts.push_back({*logits_, std::move(weight), {}, false});
    regions_.push_back(std::make_unique<Linear>(kernels_, input.rows, input.buffer, std::move(parts), threads_));
    if (softcap > 0) add_rows(input.rows, std::make_unique<Softcap>(kernels_, *logits_, softcap));
}

}  // namespace headrace
