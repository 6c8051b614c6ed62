// One batch on its way through a plan, region by region.
#pragma once

#include <cstddef>
#include <memory>

#include "checks.hpp"
#include "program.hpp"

namespace headrace {

class Pass {
public:
    // For a team of so many threads.
    Pass(std::unique_ptr<Plan> plan, int threads);

    Plan& plan() { return *plan_; }
    const Plan& plan() const { return *plan_; }
    const Step& step() const { return step_; }

    // Copies the batch, which has been checked, and goes to the beginning.
    void begin(const BatchView&);
    // The tasks of the next region that has some, or 0 at the end. What is small is done here.
    int next();
    // Which that was.
    std::size_t region() const { return cursor_ - 1; }
    // A task of that region.
    void run(int task, float* scratch) const { plan_->regions()[region()]->run(step_, task, scratch); }

private:
    void cut(int sequence, int first, int end);

    std::unique_ptr<Plan> plan_;
    int threads_;
    Step step_;
    std::size_t cursor_ = 0;  // the region after the one under way
};

}  // namespace headrace
