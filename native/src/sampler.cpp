#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headrace {

namespace {

constexpr float kGreedyBelow = 1e-5f;
constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

// Log-probabilities of the unadjusted row: that of the token drawn and the greatest ones.
class RawDistribution {
public:
    RawDistribution(const Kernels& kernels, const float* logits, int n, float greatest, SamplingScratch& scratch)
        : logits_(logits), n_(n), greatest_(greatest) {
        log_sum_ = std::log(kernels.exponentials(scratch.weights.data(), logits, n, greatest, 1.0f));
    }

    float operator()(std::int32_t token) const {
        return float(double(logits_[token]) - double(greatest_) - log_sum_);
    }
    // Ids of the `count` likeliest tokens, likeliest first, the lower of equals first.
    std::vector<std::int32_t> top(int count) const {
        const auto likelier = [this](std::int32_t a, std::int32_t b) {
            return logits_[a] > logits_[b] || (logits_[a] == logits_[b] && a < b);
        };
        std::vector<std::int32_t> heap;  // its front is the least likely of those kept
        const auto size = std::size_t(std::min(count, n_));
        heap.reserve(size + 1);
        for (std::int32_t id = 0; id < n_ && size > 0; ++id) {
            if (heap.size() == size && !likelier(id, heap.front())) continue;
            heap.push_back(id);
            std::push_heap(heap.begin(), heap.end(), likelier);
            if (heap.size() > size) {
                std::pop_heap(heap.begin(), heap.end(), likelier);
                heap.pop_back();
            }
        }
        std::sort_heap(heap.begin(), heap.end(), likelier);
        return heap;
    }

private:
    const float* logits_;
    int n_;
    float greatest_;
    double log_sum_;
};

// Applies adjustments and takes them back when it goes.
class Adjusted {
public:
    Adjusted(float* logits, std::span<const Adjustment> changes) : logits_(logits), changes_(changes) {
        before_.reserve(changes.size());
        for (const Adjustment& change : changes) {
            float& logit = logits_[change.token];
            before_.push_back(logit);
            logit = (logit > 0 ? logit / change.divide : logit * change.divide) + change.add;
        }
    }
    Adjusted(const Adjusted&) = delete;
    Adjusted& operator=(const Adjusted&) = delete;
    ~Adjusted() {
        for (std::size_t i = changes_.size(); i-- > 0;) logits_[changes_[i].token] = before_[i];
    }

private:
    float* logits_;
    std::span<const Adjustment> changes_;
    std::vector<float> before_;
};

// Draws from weights w = exp((logit - greatest) / temperature) without sorting them all: takes
// the tokens above a threshold, and lowers it until they settle the draw.
class Draw {
public:
    Draw(const Kernels& kernels, const float* weights, int n, double total, const RowSampling& how,
         std::vector<std::int32_t>& ids)
        : kernels_(kernels), weights_(weights), n_(n), total_(total), how_(how), ids_(ids) {}

    std::int32_t token() {
        for (float least = 0x1p-6f; least > 0x1p-40f; least *= 0x1p-8f) {
            collect(least);
            if (settle(false)) return token_;
        }
        collect(0);
        settle(true);
        return token_;
    }

private:
    void collect(float least) {
        count_ = kernels_.collect(ids_.data(), weights_, n_, least);
        least_ = least;
        std::sort(ids_.begin(), ids_.begin() + count_, [this](std::int32_t a, std::int32_t b) {
            return weights_[a] > weights_[b] || (weights_[a] == weights_[b] && a < b);
        });
    }
    double weight(int rank) const { return double(weights_[ids_[std::size_t(rank)]]); }

    // Sets token_ if the collected tokens are enough to; `whole`: there are no others.
    bool settle(bool whole) {
        int kept = count_;
        // Of what is kept. The total is rounded to about a float: taken for the whole, it could
        // leave a draw close to 1 no token but the very last.
        double mass = whole ? sum(kept) : total_;
        if (how_.top_k > 0) {
            if (count_ < how_.top_k && !whole) return false;
            kept = std::min(kept, how_.top_k);
            mass = sum(kept);
            whole = true;
        }
        if (how_.top_p < 1) {
            const double wanted = double(how_.top_p) * mass;
            double before = weight(0);
            int end = 1;
            for (; end < kept && before < wanted; ++end) before += weight(end);
            if (end == kept && before < wanted && !whole) return false;
            kept = end;
            mass = before;
            whole = true;
        }
        if (how_.min_p > 0) {
            if (how_.min_p < least_ && !whole) return false;
            int end = 1;
            while (end < kept && weight(end) >= double(how_.min_p)) ++end;
            kept = end;
            mass = sum(kept);
            whole = true;
        }
        const double target = how_.draw * mass;
        double reached = 0;
        for (int rank = 0; rank < kept; ++rank) {
            token_ = ids_[std::size_t(rank)];
            reached += weight(rank);
            if (reached > target) return true;
        }
        return whole;  // rounding may leave the draw just past the last
    }
    double sum(int count) const {
        double total = 0;
        for (int rank = 0; rank < count; ++rank) total += weight(rank);
        return total;
    }

    const Kernels& kernels_;
    const float* weights_;
    int n_;
    double total_;
    const RowSampling& how_;
    std::vector<std::int32_t>& ids_;
    int count_ = 0;
    float least_ = 0;
    std::int32_t token_ = -1;
};

const float* masked(const float* logits, int n, const std::uint32_t* mask, std::vector<float>& out) {
    if (!mask) return logits;
    for (int i = 0; i < n; ++i)
        out[std::size_t(i)] = mask[i / 32] >> (i % 32) & 1u ? logits[i] : kNegativeInfinity;
    return out.data();
}

}  // namespace

RowSample sample_row(const Kernels& kernels, float* logits, int vocabulary, const RowSampling& how,
                     SamplingScratch& scratch) {
    scratch.logits.resize(std::size_t(vocabulary));
    scratch.weights.resize(std::size_t(vocabulary));
    scratch.ids.resize(std::size_t(vocabulary));
    RowSample out;
    const float raw_greatest = kernels.finite_maximum(logits, vocabulary);
    if (std::isnan(raw_greatest)) {
        out.verdict = Verdict::kNotFinite;
        return out;
    }
    {
        const Adjusted adjusted(logits, how.adjustments);
        const float* row = masked(logits, vocabulary, how.mask, scratch.logits);
        const bool changed = !how.adjustments.empty() || how.mask;
        const float greatest = changed ? kernels.maximum(row, vocabulary) : raw_greatest;
        if (greatest == kNegativeInfinity) {
            out.verdict = Verdict::kNothingAllowed;
            return out;
        }
        if (how.temperature < kGreedyBelow || greatest == -kNegativeInfinity) {
            out.token = kernels.find(row, vocabulary, greatest);
        } else {
            const double total = kernels.exponentials(scratch.weights.data(), row, vocabulary, greatest, 1.0f / how.temperature);
            out.token = Draw(kernels, scratch.weights.data(), vocabulary, total, how, scratch.ids).token();
        }
    }
    if (how.top_logprobs >= 0) {
        const RawDistribution raw(kernels, logits, vocabulary, raw_greatest, scratch);
        out.logprob = raw(out.token);
        if (how.top_logprobs > 0) out.top_ids = raw.top(how.top_logprobs);
        for (const std::int32_t id : out.top_ids) out.top_logprobs.push_back(raw(id));
    }
    return out;
}

}  // namespace headrace
