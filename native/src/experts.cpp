#include "experts.hpp"

#include <algorithm>
#include <bitset>
#include <utility>

namespace headrace {

namespace {

int whole_tiles(int rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; }

}  // namespace

ExpertRoom::ExpertRoom(Arena& arena, const Size& s) : size(s) {
    const auto floats = [&](Buffer& buffer, int width) {
        buffer.width = width;
        buffer.data = arena.allocate<float>(std::size_t(s.places) * std::size_t(width));
    };
    const auto codes = [&](Buffer& buffer) {
        buffer.quantised = {arena.allocate<QuantisedGroup>(Quantised::count(s.places, buffer.width)), buffer.width};
    };
    x.width = s.width;
    if (s.floats) floats(x, s.width);
    if (s.codes) codes(x);
    floats(gate, s.inner);
    floats(up, s.inner);
    if (s.inner_codes) codes(gate);
    floats(out, s.out_width);
}

int ExpertRoom::places(int rows, int used, int experts) {
    return whole_tiles(rows * used + std::min(experts, rows * used) * (kTileRows - 1));
}

Route::Route(const Kernels& kernels, const Buffer& out, const Buffer& x, int used, bool normalise)
    : kernels_(kernels), out_(out), x_(x), used_(used), normalise_(normalise) {}

void Route::row(const Step&, int r) const {
    const float* x = x_.row(r);
    float* out = out_.row(r);
    const int experts = x_.width;
    std::bitset<kMaxExperts> chosen;
    for (int turn = 0; turn < used_; ++turn) {
        int best = -1;
        for (int e = 0; e < experts; ++e)
            if (!chosen[std::size_t(e)] && (best < 0 || x[e] > x[best])) best = e;
        chosen.set(std::size_t(best));
    }
    double total = kernels_.exponentials(out, x, experts, kernels_.maximum(x, experts), 1);
    if (normalise_) {
        total = 0;
        for (int e = 0; e < experts; ++e)
            if (chosen[std::size_t(e)]) total += double(out[e]);
    }
    for (int e = 0; e < experts; ++e) out[e] = chosen[std::size_t(e)] ? float(double(out[e]) / total) : 0;
}

SortRows::SortRows(Routing& routing, Rows rows, const Buffer& routes, int inner_panels, int out_panels, int threads)
    : routing_(routing), rows_(rows), routes_(routes), inner_panels_(inner_panels), out_panels_(out_panels),
      threads_(threads) {}

void SortRows::run(const Step& step, int, float*) const {
    const int rows = step.rows(rows_), experts = routes_.width;
    std::vector<int> next(std::size_t(experts), 0);  // how many rows, then the place of the next
    for (int r = 0; r < rows; ++r)
        for (int e = 0; e < experts; ++e) next[std::size_t(e)] += routes_.row(r)[e] != 0;
    std::vector<ExpertRows> used;
    int first = 0;
    for (int e = 0; e < experts; ++e) {
        const int count = std::exchange(next[std::size_t(e)], first);
        if (count > 0) used.push_back({e, first, count});
        first += whole_tiles(count);
    }
    routing_.places.resize(std::size_t(rows) * std::size_t(routing_.used));
    routing_.counts.assign(std::size_t(rows), 0);
    for (int r = 0; r < rows; ++r)
        for (int e = 0; e < experts; ++e)
            if (const float weight = routes_.row(r)[e]; weight != 0) {
                const int at = routing_.counts[std::size_t(r)]++;
                routing_.places[std::size_t(r) * std::size_t(routing_.used) + std::size_t(at)] = {next[std::size_t(e)]++, weight};
            }
    routing_.inner_tasks = cut(used, inner_panels_);
    routing_.out_tasks = cut(used, out_panels_);
}

// Guided, as other products are, but by what a panel costs: to read it, which takes as long as
// some rows' products, and the products. An expert that many rows chose is cut finer.
std::vector<ExpertPanels> SortRows::cut(const std::vector<ExpertRows>& used, int panels) const {
    constexpr std::int64_t kReading = 8;
    std::int64_t left = 0;
    for (const ExpertRows& rows : used) left += panels * (kReading + rows.rows);
    std::vector<ExpertPanels> tasks;
    for (const ExpertRows& rows : used)
        for (int first = 0; first < panels;) {
            const std::int64_t cost = kReading + rows.rows, share = left / (threads_ * 4) / cost;
            const int last = int(std::min<std::int64_t>(panels, first + std::max<std::int64_t>(share, 1)));
            tasks.push_back({rows, first, last});
            left -= (last - first) * cost;
            first = last;
        }
    return tasks;
}

GatherRow::GatherRow(const Routing& routing, const ExpertRoom& room, const Buffer& x)
    : routing_(routing), room_(room), x_(x) {}

void GatherRow::row(const Step&, int r) const {
    for (const Routing::Place* place = routing_.begin(r); place != routing_.end(r); ++place) {
        if (room_.x.data) std::copy_n(x_.row(r), x_.width, room_.x.row(place->index));
        if (!room_.x.quantised.groups) continue;
        const QuantisedGroup* from = x_.quantised.row(r).group();
        QuantisedGroup* to = room_.x.quantised.row(place->index).group();
        for (int c = 0; c < x_.width; c += kGroup, from += kTileRows, to += kTileRows) *to = *from;
    }
}

ExpertProducts::ExpertProducts(const Kernels& kernels, const std::vector<ExpertPanels>& tasks, const Buffer& x,
                               std::vector<Part> parts)
    : kernels_(kernels), tasks_(tasks), x_(x), parts_(std::move(parts)) {}

void ExpertProducts::run(const Step&, int task, float* scratch) const {
    const auto& [rows, first, last] = tasks_[std::size_t(task)];
    for (const Part& part : parts_) {
        const Matrix& m = part.weights[std::size_t(rows.expert)]->view();
        const Output out = {part.out.row(rows.first), part.out.width, nullptr, false};
        if (m.grouped()) kernels_.linear(m, first, last, x_.quantised.row(rows.first), rows.rows, scratch, out);
        else kernels_.dense(m, first, last, x_.row(rows.first), x_.width, rows.rows, out);
    }
}

GateRow::GateRow(const Kernels& kernels, const Routing& routing, const ExpertRoom& room, Activation activation)
    : kernels_(kernels), routing_(routing), room_(room), activation_(activation) {}

void GateRow::row(const Step&, int r) const {
    const Buffer& gate = room_.gate;
    for (const Routing::Place* place = routing_.begin(r); place != routing_.end(r); ++place) {
        float* out = gate.row(place->index);
        kernels_.gate(out, out, room_.up.row(place->index), gate.width, activation_);
        if (gate.quantised.groups) kernels_.quantise(out, gate.quantised.row(place->index));
    }
}

CombineRow::CombineRow(const Kernels& kernels, const Routing& routing, const ExpertRoom& room, const Buffer& out,
                       bool accumulate)
    : kernels_(kernels), routing_(routing), room_(room), out_(out), accumulate_(accumulate) {}

void CombineRow::row(const Step&, int r) const {
    float* out = out_.row(r);
    if (!accumulate_) std::fill_n(out, out_.width, 0.0f);
    for (const Routing::Place* place = routing_.begin(r); place != routing_.end(r); ++place)
        kernels_.add_scaled(out, room_.out.row(place->index), place->weight, out_.width);
}

}  // namespace headrace
