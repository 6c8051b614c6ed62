// Python bindings: headrace.ops._native. ops/cpu.py is the only caller and checks what it passes.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "executor.hpp"
#include "probe.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace {

namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Grid = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
using Block = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;  // of any shape

template <class Array>
Shape shape_of(const Array& array) {
    Shape shape;
    for (std::size_t i = 0; i < array.ndim(); ++i) shape.push_back(array.shape(i));
    return shape;
}

template <class T, class Array>
std::span<const T> view(const Array& array) {
    return {array.data(), array.size()};
}

constexpr Isa kIsas[] = {Isa::kAvx512, Isa::kAvx2, Isa::kNeon, Isa::kScalar};  // best first

std::vector<std::string> available_isas() {
    std::vector<std::string> names;
    for (const Isa isa : kIsas)
        if (const Kernels* table = kernels(isa)) names.emplace_back(table->name);
    return names;
}

const Kernels& kernels_named(const std::string& name) {
    for (const Isa isa : kIsas)
        if (const Kernels* table = kernels(isa); table && name == table->name) return *table;
    throw std::invalid_argument("this machine or build has no instruction set '" + name + "'");
}

// A number for each group: values, or units and counts of them.
struct NumberArrays {
    std::optional<Grid<float>> values;
    std::optional<Grid<std::uint16_t>> units;
    std::optional<Grid<std::int8_t>> counts;

    NumberSource source() const {
        if (values) return {values->data(), nullptr, nullptr};
        return {nullptr, units->data(), counts->data()};
    }
};

// Owns what the parts of one loaded program share: threads, memory, kernels.
class Machine {
public:
    Machine(const std::string& isa, int threads) : kernels_(kernels_named(isa)) {
        if (threads < 1) throw std::invalid_argument("threads must be at least 1");
        team_ = std::make_shared<Team>(threads);
    }

    const Kernels& kernels() const { return kernels_; }
    const std::shared_ptr<Team>& team() const { return team_; }
    const std::shared_ptr<Arena>& arena() const { return arena_; }

    std::shared_ptr<PackedMatrix> grouped(int bits, int group, const Grid<std::uint8_t>& codes, const NumberArrays& scale,
                                          const NumberArrays* minimum, int zero) {
        const NumberSource minima = minimum ? minimum->source() : NumberSource{};
        const GroupedSource source = {bits, group, int(codes.shape(0)), int(codes.shape(1)), codes.data(), scale.source(),
                                      minimum ? &minima : nullptr, zero};
        const nb::gil_scoped_release released;
        return std::make_shared<PackedMatrix>(arena_, *team_, source);
    }
    std::shared_ptr<PackedMatrix> dense(const Grid<float>& values) {
        const DenseSource source = {int(values.shape(0)), int(values.shape(1)), values.data()};
        const nb::gil_scoped_release released;
        return std::make_shared<PackedMatrix>(arena_, *team_, source);
    }
    double bandwidth(std::size_t bytes) {
        const nb::gil_scoped_release released;
        return read_bandwidth(*team_, kernels_, bytes);
    }
    double products() {
        const nb::gil_scoped_release released;
        return product_rate(*team_, kernels_);
    }
    double peak_products() {
        const nb::gil_scoped_release released;
        return peak_product_rate(*team_, kernels_);
    }
    double peak_floats() {
        const nb::gil_scoped_release released;
        return peak_float_rate(*team_, kernels_);
    }

private:
    const Kernels& kernels_;
    std::shared_ptr<Team> team_;
    std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
};

// Collects a program's operations; `build` makes the executor of them.
class Builder {
public:
    // prefill_tokens: of a chunk of a prompt beside the steps; 0 if there shall be none.
    Builder(std::shared_ptr<Machine> machine, const Sizes& sizes, int prefill_tokens, const std::vector<int>& widths)
        : machine_(std::move(machine)) {
        const Cache cache = Cache::allocate(*machine_->arena(), sizes);
        const auto plan = [&](int tokens) {
            Sizes own = sizes;
            own.tokens = tokens;
            return std::make_unique<Plan>(machine_->arena(), machine_->kernels(), own, cache, widths, machine_->team()->threads());
        };
        steps_ = plan(sizes.tokens);
        if (prefill_tokens > 0) prefill_ = plan(prefill_tokens);
    }

    // add(plan) for each plan.
    template <class Add>
    void each(Add add) {
        if (!steps_) throw std::logic_error("the program is already built");
        add(*steps_);
        if (prefill_) add(*prefill_);
    }
    std::unique_ptr<Executor> build() {
        auto prefill = prefill_ ? std::make_unique<Prefill>(std::move(prefill_), machine_->team()->threads()) : nullptr;
        return std::make_unique<Executor>(machine_->team(), machine_->kernels(), std::move(steps_), std::move(prefill));
    }

private:
    std::shared_ptr<Machine> machine_;
    std::unique_ptr<Plan> steps_, prefill_;
};

template <class T>
std::vector<T> copied(const Vector<T>& values) {
    return {values.data(), values.data() + values.size()};
}
std::vector<float> copied(const std::optional<Vector<float>>& values) {
    return values ? copied(*values) : std::vector<float>{};
}

template <class T>
nb::object owned(std::vector<T> values) {
    auto* moved = new std::vector<T>(std::move(values));
    const nb::capsule owner(moved, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(moved->data(), {moved->size()}, owner));
}

// Adjustments as (row, token, divide, add) columns.
struct AdjustmentColumns {
    Vector<std::int32_t> row, token;
    Vector<float> divide, add;
};

// Masks as the rows they are of, and their words.
struct MaskRows {
    Vector<std::int32_t> row;
    Block<std::uint32_t> allowed;
};

nb::tuple sample(Executor& executor, const Vector<float>& temperature, const Vector<std::int32_t>& top_k,
                 const Vector<float>& top_p, const Vector<float>& min_p, const Vector<double>& draw,
                 const Vector<std::int32_t>& top_logprobs, const std::optional<AdjustmentColumns>& adjustments,
                 const std::optional<MaskRows>& masks) {
    SamplingView how = {};
    how.temperature = view<float>(temperature);
    how.top_p = view<float>(top_p);
    how.min_p = view<float>(min_p);
    how.top_k = view<std::int32_t>(top_k);
    how.top_logprobs = view<std::int32_t>(top_logprobs);
    how.draw = view<double>(draw);
    if (adjustments) {
        how.change_row = view<std::int32_t>(adjustments->row);
        how.change_token = view<std::int32_t>(adjustments->token);
        how.change_divide = view<float>(adjustments->divide);
        how.change_add = view<float>(adjustments->add);
    }
    if (masks) {
        how.mask_row = view<std::int32_t>(masks->row);
        how.masks = masks->allowed.data();
        how.mask_shape = shape_of(masks->allowed);
    }
    std::vector<RowSample> samples;
    {
        const nb::gil_scoped_release released;
        samples = executor.sample(how);
    }
    const std::size_t rows = samples.size();
    std::vector<std::int32_t> tokens(rows);
    std::vector<float> logprobs(rows, std::numeric_limits<float>::quiet_NaN());
    nb::list top_ids, top_values, not_finite, nothing_allowed;
    const nb::object no_ids = nb::cast(owned(std::vector<std::int32_t>())), no_values = nb::cast(owned(std::vector<float>()));
    for (std::size_t r = 0; r < rows; ++r) {
        tokens[r] = samples[r].token;
        if (samples[r].verdict == Verdict::kDrawn && how.top_logprobs[r] >= 0) logprobs[r] = samples[r].logprob;
        if (samples[r].verdict == Verdict::kNotFinite) not_finite.append(r);
        if (samples[r].verdict == Verdict::kNothingAllowed) nothing_allowed.append(r);
        if (samples[r].top_ids.empty()) {
            top_ids.append(no_ids);
            top_values.append(no_values);
            continue;
        }
        top_ids.append(owned(std::move(samples[r].top_ids)));
        top_values.append(owned(std::move(samples[r].top_logprobs)));
    }
    return nb::make_tuple(owned(std::move(tokens)), owned(std::move(logprobs)), top_ids, top_values, not_finite, nothing_allowed);
}

}  // namespace

NB_MODULE(_native, m) {
    m.def("available_isas", available_isas, "Instruction sets this build and machine have, best first.");
    m.def("kv_row_bytes", [](int head_dim, int key_bytes) { return KvHead::bytes(head_dim, key_bytes) / kBlock; },
          nb::arg("head_dim"), nb::arg("key_bytes"),
          "What the key and the value of one token and KV head take in the cache.");

    nb::class_<PackedMatrix>(m, "Matrix").def_prop_ro("bytes", &PackedMatrix::bytes);

    nb::class_<NumberArrays>(m, "Numbers")
        .def("__init__", [](NumberArrays* self, Grid<float> values) { new (self) NumberArrays{std::move(values), {}, {}}; })
        .def("__init__", [](NumberArrays* self, Grid<std::uint16_t> units, Grid<std::int8_t> counts) {
            new (self) NumberArrays{{}, std::move(units), std::move(counts)};
        });

    nb::class_<MaskRows>(m, "Masks")
        .def("__init__", [](MaskRows* self, Vector<std::int32_t> row, Block<std::uint32_t> allowed) {
            new (self) MaskRows{std::move(row), std::move(allowed)};
        }, "row"_a, "allowed"_a);
    nb::class_<AdjustmentColumns>(m, "Adjustments")
        .def("__init__", [](AdjustmentColumns* self, Vector<std::int32_t> row, Vector<std::int32_t> token,
                            Vector<float> divide, Vector<float> add) {
            new (self) AdjustmentColumns{std::move(row), std::move(token), std::move(divide), std::move(add)};
        });

    nb::class_<Machine>(m, "Machine")
        .def(nb::init<const std::string&, int>(), "isa"_a, "threads"_a)
        .def("grouped", &Machine::grouped, "bits"_a, "group"_a, "codes"_a, "scale"_a, "minimum"_a.none(), "zero"_a)
        .def("dense", &Machine::dense, "values"_a)
        .def("bandwidth", &Machine::bandwidth, "bytes"_a, "Bytes read a second, of so many.")
        .def("products", &Machine::products, "Integer multiply-adds a second of the matrix kernel.")
        .def("peak_products", &Machine::peak_products, "Integer multiply-adds a second at most.")
        .def("peak_floats", &Machine::peak_floats, "Float multiply-adds a second at most.");

    nb::class_<Builder>(m, "Builder")
        .def("__init__", [](Builder* self, std::shared_ptr<Machine> machine, int tokens, int sequences, int blocks, int layers,
                            int heads, int kv_heads, int head_dim, int key_bytes, int vocabulary, int context,
                            int prefill_tokens, const std::vector<int>& widths) {
            new (self) Builder(std::move(machine),
                               {tokens, sequences, blocks, layers, heads, kv_heads, head_dim, key_bytes, vocabulary, context},
                               prefill_tokens, widths);
        }, "machine"_a, nb::kw_only(), "tokens"_a, "sequences"_a, "blocks"_a, "layers"_a, "heads"_a, "kv_heads"_a,
             "head_dim"_a, "key_bytes"_a, "vocabulary"_a, "context"_a, "prefill_tokens"_a, "widths"_a)
        .def("embed", [](Builder& b, int out, const std::shared_ptr<PackedMatrix>& weight, float scale) {
            b.each([&](Plan& plan) { plan.embed(out, weight, scale); });
        })
        .def("norm", [](Builder& b, int out, int x, const Vector<float>& weight, float eps, int groups) {
            b.each([&](Plan& plan) { plan.norm(out, x, copied(weight), eps, groups); });
        })
        .def("linear", [](Builder& b, int x, const std::vector<int>& outs, const std::vector<std::shared_ptr<PackedMatrix>>& weights,
                          const std::vector<std::optional<Vector<float>>>& biases, const std::vector<bool>& accumulate) {
            std::vector<ProjectionSpec> parts;
            for (std::size_t i = 0; i < outs.size(); ++i)
                parts.push_back({outs.at(i), weights.at(i), copied(biases.at(i)), accumulate.at(i)});
            b.each([&](Plan& plan) { plan.linear(x, parts); });
        })
        .def("rotary_kv", [](Builder& b, int q, int k, int v, int layer) {
            b.each([&](Plan& plan) { plan.rotary_kv(q, k, v, layer, std::nullopt); });
        })
        .def("rotary_kv", [](Builder& b, int q, int k, int v, int layer, double base, int dims, bool interleaved,
                             const std::optional<Vector<float>>& factors, double scale, double magnitude) {
            const RopeShape rope = {base, scale, magnitude, dims, interleaved, copied(factors)};
            b.each([&](Plan& plan) { plan.rotary_kv(q, k, v, layer, rope); });
        }, "q"_a, "k"_a, "v"_a, "layer"_a, "base"_a, "dims"_a, "interleaved"_a, "factors"_a.none(), "scale"_a, "magnitude"_a)
        .def("attention", [](Builder& b, int out, int q, int layer, float scale, int window, float softcap) {
            b.each([&](Plan& plan) { plan.attention({out, q, layer, scale, window, softcap}); });
        })
        .def("gate", [](Builder& b, int out, int gate, int up, bool gelu) {
            b.each([&](Plan& plan) { plan.gate(out, gate, up, gelu ? Activation::kGelu : Activation::kSilu); });
        })
        .def("add", [](Builder& b, int x, int y) { b.each([&](Plan& plan) { plan.add(x, y); }); })
        .def("route", [](Builder& b, int out, int x, int used, bool normalise) {
            b.each([&](Plan& plan) { plan.route(out, x, used, normalise); });
        })
        .def("experts", [](Builder& b, int out, int x, int routes, const std::vector<std::shared_ptr<PackedMatrix>>& gates,
                           const std::vector<std::shared_ptr<PackedMatrix>>& ups,
                           const std::vector<std::shared_ptr<PackedMatrix>>& downs, bool gelu, bool accumulate) {
            const Activation activation = gelu ? Activation::kGelu : Activation::kSilu;
            b.each([&](Plan& plan) { plan.experts({out, x, routes, gates, ups, downs, activation, accumulate}); });
        })
        .def("select_rows", [](Builder& b, int out, int x) { b.each([&](Plan& plan) { plan.select_rows(out, x); }); })
        .def("logits", [](Builder& b, int x, const std::shared_ptr<PackedMatrix>& weight, float softcap) {
            b.each([&](Plan& plan) { plan.logits(x, weight, softcap); });
        })
        .def("build", &Builder::build);

    nb::class_<Executor>(m, "Executor")
        .def("launch", [](Executor& executor, const Vector<std::int32_t>& tokens, const Vector<std::int32_t>& positions,
                          const Vector<std::int32_t>& starts, const nb::ndarray<const std::int32_t, nb::device::cpu>& tables,
                          const Vector<std::int32_t>& logit_rows, double slice_seconds) {
            const bool grid = tables.ndim() == 2;
            if (grid && tables.shape(1) > 1 && tables.stride(1) != 1)
                throw std::invalid_argument("block tables must lie in contiguous rows");
            const BatchView batch = {view<std::int32_t>(tokens), view<std::int32_t>(positions), view<std::int32_t>(starts),
                                     view<std::int32_t>(logit_rows), tables.data(), shape_of(tables), grid ? tables.stride(0) : 0};
            const nb::gil_scoped_release released;
            executor.launch(batch, slice_seconds);
        })
        .def("begin", [](Executor& executor, const Vector<std::int32_t>& tokens, int position, const Vector<std::int32_t>& blocks) {
            executor.begin(copied(tokens), position, copied(blocks));
        })
        .def("slice", [](const Executor& executor) {
            const Slice slice = executor.slice();
            return nb::make_tuple(slice.tokens, slice.chunk_seconds, slice.seconds);
        })
        .def("wait", [](Executor& executor) {
            const nb::gil_scoped_release released;
            executor.wait();
        })
        .def("logits", [](Executor& executor) {
            const std::span<float> all = executor.logits();
            const std::size_t rows = std::size_t(executor.logit_rows()), width = std::size_t(executor.logit_width());
            auto* copy = new float[all.size()];
            std::copy(all.begin(), all.end(), copy);
            const nb::capsule owner(copy, [](void* p) noexcept { delete[] static_cast<float*>(p); });
            return nb::ndarray<nb::numpy, float, nb::ndim<2>>(copy, {rows, width}, owner);
        })
        .def("sample", &sample, "temperature"_a, "top_k"_a, "top_p"_a, "min_p"_a, "draw"_a,
             "top_logprobs"_a, "adjustments"_a.none(), "masks"_a.none());
}

}  // namespace headrace
