#include "sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

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
    std::vector<std::int32_t> top(const Kernels& kernels, int count) const {
        const int size = std::min(count, n_);
        const std::vector<std::int32_t> chunks = likeliest_chunks(kernels, size);
        std::vector<std::int32_t> ids;
        for (const std::int32_t chunk : chunks)
            for (std::int32_t id = chunk * kChunk; id < std::min(n_, (chunk + 1) * kChunk); ++id) ids.push_back(id);
        const auto end = ids.begin() + size;
        std::partial_sort(ids.begin(), end, ids.end(), [this](std::int32_t a, std::int32_t b) {
            return logits_[a] > logits_[b] || (logits_[a] == logits_[b] && a < b);
        });
        ids.erase(end, ids.end());
        return ids;
    }

private:
    static constexpr int kChunk = 64;

    // Chunks of tokens that may hold one of the `count` likeliest: as many chunks as that have
    // greatest logits of their own that are no less than any other chunk's.
    std::vector<std::int32_t> likeliest_chunks(const Kernels& kernels, int count) const {
        std::vector<float> greatest;
        for (int start = 0; start < n_; start += kChunk)
            greatest.push_back(kernels.maximum(logits_ + start, std::min(kChunk, n_ - start)));
        std::vector<std::int32_t> chunks(greatest.size());
        std::iota(chunks.begin(), chunks.end(), 0);
        if (count >= int(chunks.size())) return chunks;
        std::vector<float> sorted = greatest;
        std::nth_element(sorted.begin(), sorted.begin() + (count - 1), sorted.end(), std::greater<>());
        std::erase_if(chunks, [&](std::int32_t chunk) {
            return greatest[std::size_t(chunk)] < sorted[std::size_t(count - 1)];
        });
        return chunks;
    }

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

// The first of some tokens in the order of their weights, equal ones by id.
struct Prefix {
    int count;
    double mass;
    std::int32_t last;
};

// Tokens in buckets by the leading bits of their weights: finds prefixes of their order, but sorts
// only the bucket in which each ends.
class Ranking {
public:
    // ids in ascending order, all weights from above 0 to 1, which is the greatest.
    Ranking(const float* weights, std::span<const std::int32_t> ids, SamplingScratch& scratch)
        : weights_(weights), ids_(ids), buckets_(scratch.buckets), members_(scratch.members) {
        buckets_.assign(kBuckets, {});
        for (const std::int32_t id : ids_) {
            Bucket& bucket = buckets_[bucket_of(id)];
            ++bucket.count;
            bucket.mass += double(weights_[id]);
            mass_ += double(weights_[id]);
        }
    }

    int count() const { return int(ids_.size()); }
    double mass() const { return mass_; }

    // The shortest prefix for which enough(count, mass), or all.
    template <class Enough>
    Prefix until(Enough enough) const {
        Prefix out = {0, 0, -1};
        for (std::size_t b = kBuckets; b-- > 0;) {
            const Bucket& bucket = buckets_[b];
            if (bucket.count == 0) continue;
            // A sum token by token may round otherwise than the bucket's: if that is all that is
            // missing, the bucket's last token ends the prefix.
            const Prefix with = {out.count + bucket.count, out.mass + bucket.mass, -1};
            const bool least = with.count == count();
            if (!least && !enough(with.count, with.mass)) {
                out = with;
                continue;
            }
            sort_members(b);
            for (const std::int32_t id : members_) {
                out = {out.count + 1, out.mass + double(weights_[id]), id};
                if (enough(out.count, out.mass)) return out;
            }
            return out;
        }
        return out;
    }

    // Of the first `kept`, the likeliest that has less than `left` behind it. Sums begin at the
    // small end, where draws next to 1 tell tokens apart whose weights vanish beside all others.
    std::int32_t leaving(int kept, double left) const {
        int beyond = count() - kept;
        double tail = 0;
        std::int32_t last = -1;
        for (std::size_t b = 0; b < kBuckets; ++b) {
            const Bucket& bucket = buckets_[b];
            if (bucket.count <= beyond) {
                beyond -= bucket.count;
                continue;
            }
            if (beyond == 0 && b + 1 < kBuckets && tail + bucket.mass < left) {
                tail += bucket.mass;
                continue;
            }
            sort_members(b);
            members_.resize(members_.size() - std::size_t(std::exchange(beyond, 0)));
            for (std::size_t i = members_.size(); i-- > 0;) {
                last = members_[i];
                tail += double(weights_[last]);
                if (tail >= left) return last;
            }
        }
        return last;
    }

private:
    using Bucket = SamplingScratch::Bucket;
    static constexpr int kShift = 18;  // 32 buckets from a power of two to the next
    static constexpr std::uint32_t kLeast = std::bit_cast<std::uint32_t>(0x1p-40f) >> kShift;
    static constexpr std::size_t kBuckets = (std::bit_cast<std::uint32_t>(1.0f) >> kShift) - kLeast + 1;

    std::size_t bucket_of(std::int32_t id) const {
        const std::uint32_t leading = std::bit_cast<std::uint32_t>(weights_[id]) >> kShift;
        return std::min<std::size_t>(leading > kLeast ? leading - kLeast : 0, kBuckets - 1);
    }
    void sort_members(std::size_t bucket) const {
        members_.clear();
        for (const std::int32_t id : ids_)
            if (bucket_of(id) == bucket) members_.push_back(id);
        std::sort(members_.begin(), members_.end(), [this](std::int32_t a, std::int32_t b) {
            return weights_[a] > weights_[b] || (weights_[a] == weights_[b] && a < b);
        });
    }

    const float* weights_;
    std::span<const std::int32_t> ids_;
    std::vector<Bucket>& buckets_;
    std::vector<std::int32_t>& members_;
    double mass_ = 0;
};

// Draws from weights w = exp((logit - greatest) / temperature): takes the tokens above a
// threshold, and lowers it until they settle the draw.
class Draw {
public:
    Draw(const Kernels& kernels, int n, double total, const RowSampling& how, SamplingScratch& scratch)
        : kernels_(kernels), n_(n), total_(total), how_(how), scratch_(scratch) {}

    std::int32_t token() {
        for (float least = 0x1p-6f; least > 0x1p-40f; least *= 0x1p-8f)
            if (settle(least, false)) return token_;
        settle(0, true);
        return token_;
    }

private:
    // Sets token_ if the tokens from `least` on are enough to; `whole`: there are no others.
    bool settle(float least, bool whole) {
        const float* weights = scratch_.weights.data();
        const int count = kernels_.collect(scratch_.ids.data(), weights, n_, least);
        const Ranking ranking(weights, {scratch_.ids.data(), std::size_t(count)}, scratch_);
        int kept = count;
        // Of what is kept. The total is rounded to about a float: taken for the whole, it could
        // leave a draw close to 1 no token but the very last.
        double mass = whole ? ranking.mass() : total_;
        if (how_.top_k > 0) {
            if (count < how_.top_k && !whole) return false;
            if (how_.top_k < count) {
                const Prefix prefix = ranking.until([&](int c, double) { return c >= how_.top_k; });
                kept = prefix.count;
                mass = prefix.mass;
            } else {
                mass = ranking.mass();
            }
            whole = true;
        }
        if (how_.top_p < 1) {
            const double wanted = double(how_.top_p) * mass;
            if (!whole && ranking.mass() < wanted) return false;
            const Prefix prefix = ranking.until([&](int c, double m) { return m >= wanted || c >= kept; });
            kept = prefix.count;
            mass = prefix.mass;
            whole = true;
        }
        if (how_.min_p > 0) {
            if (how_.min_p < least && !whole) return false;
            int likely = 0;
            for (int i = 0; i < count; ++i) likely += weights[scratch_.ids[std::size_t(i)]] >= how_.min_p;
            kept = std::clamp(likely, 1, kept);
            mass = ranking.until([&](int c, double) { return c >= kept; }).mass;
            whole = true;
        }
        if (whole) {
            token_ = ranking.leaving(kept, (1 - how_.draw) * mass);
            return true;
        }
        const double target = how_.draw * mass;
        if (ranking.mass() <= target) return false;
        token_ = ranking.until([&](int c, double m) { return m > target || c >= kept; }).last;
        return true;
    }

    const Kernels& kernels_;
    int n_;
    double total_;
    const RowSampling& how_;
    SamplingScratch& scratch_;
    std::int32_t token_ = -1;
};

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
        const float* row = logits;
        float greatest = raw_greatest;
        if (how.mask) {
            greatest = kernels.mask(scratch.logits.data(), logits, how.mask, vocabulary);
            row = scratch.logits.data();
        } else if (!how.adjustments.empty()) {
            greatest = kernels.maximum(logits, vocabulary);
        }
        if (greatest == kNegativeInfinity) {
            out.verdict = Verdict::kNothingAllowed;
            return out;
        }
        if (how.temperature < kGreedyBelow || greatest == -kNegativeInfinity) {
            out.token = kernels.find(row, vocabulary, greatest);
        } else {
            const double total = kernels.exponentials(scratch.weights.data(), row, vocabulary, greatest, 1.0f / how.temperature);
            out.token = Draw(kernels, vocabulary, total, how, scratch).token();
        }
    }
    if (how.top_logprobs >= 0) {
        const RawDistribution raw(kernels, logits, vocabulary, raw_greatest, scratch);
        out.logprob = raw(out.token);
        if (how.top_logprobs > 0) out.top_ids = raw.top(kernels, how.top_logprobs);
        for (const std::int32_t id : out.top_ids) out.top_logprobs.push_back(raw(id));
    }
    return out;
}

}  // namespace headrace
