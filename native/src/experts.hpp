// Mixtures of experts: each row goes through the few experts that its route names.
//
// A step's rows are copied to places in the order of their experts, so that those of one expert
// lie together and each of its matrices is read once for all of them; experts that no row chose
// are not read. What comes out is added up for each row in the order of its experts' numbers,
// whoever else went to them.
#pragma once

#include <memory>
#include <vector>

#include "program.hpp"

namespace headrace {

// What the layers of a program share, since they run one after the other. Rows of one expert
// begin at a whole tile.
struct ExpertRoom {
    struct Size {
        int places, width, inner, out_width;
        bool floats, codes, inner_codes;  // what the matrices want of x, and of what gate and up make of it
        bool operator==(const Size&) const = default;
    } size;
    Buffer x, gate, up, out;

    ExpertRoom(Arena&, const Size&);
    // The most places that so many rows take, each with `used` of the experts.
    static int places(int rows, int used, int experts);
};

// One expert's rows of a step: places first .. first + rows.
struct ExpertRows {
    int expert, first, rows;
};

// Panels of one expert's matrices, for one task.
struct ExpertPanels {
    ExpertRows of;
    int first, last;
};

// Who goes where in the step under way.
struct Routing {
    struct Place {
        int index;
        float weight;
    };
    int used;                   // places a row has at most
    std::vector<Place> places;  // [rows][used], in the order of the experts
    std::vector<int> counts;    // how many each row has
    std::vector<ExpertPanels> inner_tasks, out_tasks;

    const Place* begin(int row) const { return places.data() + std::size_t(row) * std::size_t(used); }
    const Place* end(int row) const { return begin(row) + counts[std::size_t(row)]; }
};

// out[e] = the softmax of x, for the `used` likeliest experts (of equals, the first), and 0 for
// all others; `normalise` makes them add up to 1.
class Route final : public RowOp {
public:
    Route(const Kernels&, const Buffer& out, const Buffer& x, int used, bool normalise);
    void row(const Step&, int row) const override;
    int width() const override { return used_ * x_.width; }

private:
    const Kernels& kernels_;
    const Buffer &out_, &x_;
    int used_;
    bool normalise_;
};

// Sorts the rows by experts, and cuts the products into tasks of like size.
class SortRows final : public Region {
public:
    SortRows(Routing&, Rows, const Buffer& routes, int inner_panels, int out_panels, int threads);
    int tasks(const Step&) const override { return 1; }
    void run(const Step&, int task, float* scratch) const override;
    bool small(const Step&) const override { return true; }  // little, and one thread's work

private:
    std::vector<ExpertPanels> cut(const std::vector<ExpertRows>&, int panels) const;

    Routing& routing_;
    Rows rows_;
    const Buffer& routes_;
    int inner_panels_, out_panels_, threads_;
};

// A row of x to its places.
class GatherRow final : public RowOp {
public:
    GatherRow(const Routing&, const ExpertRoom&, const Buffer& x);
    void row(const Step&, int row) const override;
    int width() const override { return 2 * routing_.used * x_.width; }

private:
    const Routing& routing_;
    const ExpertRoom& room_;
    const Buffer& x_;
};

// Rows of an input with matrices of their experts.
class ExpertProducts final : public Region {
public:
    struct Part {
        const Buffer& out;
        std::vector<std::shared_ptr<PackedMatrix>> weights;  // one an expert
    };

    ExpertProducts(const Kernels&, const std::vector<ExpertPanels>& tasks, const Buffer& x, std::vector<Part> parts);
    int tasks(const Step&) const override { return int(tasks_.size()); }
    void run(const Step&, int task, float* scratch) const override;

private:
    const Kernels& kernels_;
    const std::vector<ExpertPanels>& tasks_;
    const Buffer& x_;
    std::vector<Part> parts_;
};

// gate = activation(gate) * up at a row's places, and its codes if they are needed.
class GateRow final : public RowOp {
public:
    GateRow(const Kernels&, const Routing&, const ExpertRoom&, Activation);
    void row(const Step&, int row) const override;
    int width() const override { return 4 * routing_.used * room_.gate.width; }

private:
    const Kernels& kernels_;
    const Routing& routing_;
    const ExpertRoom& room_;
    Activation activation_;
};

// out (+)= what came out at the row's places, by their weights.
class CombineRow final : public RowOp {
public:
    CombineRow(const Kernels&, const Routing&, const ExpertRoom&, const Buffer& out, bool accumulate);
    void row(const Step&, int row) const override;
    int width() const override { return 2 * routing_.used * out_.width; }

private:
    const Kernels& kernels_;
    const Routing& routing_;
    const ExpertRoom& room_;
    const Buffer& out_;
    bool accumulate_;
};

}  // namespace headrace
