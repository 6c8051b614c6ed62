#include "checks.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>

namespace headrace {

namespace {

void append(std::string& sentence, const char* text) { sentence += text; }
// As Python writes it: (3,) or (3, 4).
void append(std::string& sentence, const Shape& shape) {
    sentence += "(";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (i > 0) sentence += ", ";
        sentence += std::to_string(shape[i]);
    }
    sentence += shape.size() == 1 ? ",)" : ")";
}
template <class Number>
    requires std::is_arithmetic_v<Number>
void append(std::string& sentence, Number number) {
    sentence += std::to_string(number);
}

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
    std::string sentence;
    (append(sentence, parts), ...);
    throw std::invalid_argument(sentence);
}

void check_blocks(const BatchView& batch, const Sizes& sizes) {
    const std::size_t sequences = batch.starts.size() - 1;
    std::size_t deepest = 0;
    for (std::size_t s = 0; s < sequences; ++s) deepest = std::max(deepest, batch.table(s).size());
    const Shape& shape = batch.table_shape;
    if (shape.size() != 2 || shape[0] != sequences || shape[1] < deepest)
        refuse("block tables of shape ", shape, " for ", sequences,
               " sequences of up to ", deepest, " blocks");
    for (std::size_t s = 0; s < sequences; ++s)
        for (const std::int32_t block : batch.table(s))
            if (block < 0 || block >= sizes.blocks)
                refuse("block id outside the cache of ", sizes.blocks, " blocks");
}

template <class T>
void check_values(const char* name, std::span<const T> values, int rows) {
    if (values.size() != std::size_t(rows))
        refuse(name, " has shape ", Shape{values.size()}, " for ", rows, " logits rows");
    for (const T value : values)
        if (!std::isfinite(double(value))) refuse(name, " must be finite");
}

}  // namespace

void check_batch(const BatchView& batch, const Sizes& sizes) {
    const auto [tokens, positions, starts] = std::tuple(batch.tokens, batch.positions, batch.starts);
    const std::size_t count = tokens.size();
    if (count < 1 || count > std::size_t(sizes.tokens))
        refuse("batch of ", count, " tokens; the limit is ", sizes.tokens);
    if (starts.size() < 2 || starts.size() - 1 > std::size_t(sizes.sequences))
        refuse("batch of ", int(starts.size()) - 1, " sequences; the limit is ", sizes.sequences);
    if (positions.size() != count) refuse(positions.size(), " positions for ", count, " tokens");
    bool rise = starts.front() == 0 && starts.back() == std::int32_t(count);
    for (std::size_t s = 1; s < starts.size(); ++s) rise = rise && starts[s] > starts[s - 1];
    if (!rise) refuse("starts must rise from 0 to the number of tokens");
    for (const std::int32_t token : tokens)
        if (token < 0 || token >= sizes.vocabulary)
            refuse("token id outside the vocabulary of ", sizes.vocabulary);
    for (const std::int32_t position : positions)
        if (position < 0 || position >= sizes.context)
            refuse("position outside the context of ", sizes.context);
    for (std::size_t s = 1; s < starts.size(); ++s)
        for (auto t = std::size_t(starts[s - 1]) + 1; t < std::size_t(starts[s]); ++t)
            if (positions[t] != positions[t - 1] + 1) refuse("positions of a sequence must be consecutive");
    check_blocks(batch, sizes);
    std::int64_t before = -1;
    for (const std::int32_t row : batch.logit_rows) {
        if (row <= before || row >= std::int32_t(count))
            refuse("logit rows must rise and lie among the batch's tokens");
        before = row;
    }
}

void check_sampling(const SamplingView& how, int rows, int vocabulary) {
    check_values("temperature", how.temperature, rows);
    check_values("top_k", how.top_k, rows);
    check_values("top_p", how.top_p, rows);
    check_values("min_p", how.min_p, rows);
    check_values("draw", how.draw, rows);
    check_values("top_logprobs", how.top_logprobs, rows);
    for (const double draw : how.draw)
        if (!(draw >= 0 && draw < 1)) refuse("draws must lie in [0, 1)");
    if (how.masks) {
        const std::size_t words = std::size_t(vocabulary + 31) / 32;
        const Shape& shape = how.mask_shape;
        if (shape.size() != 2 || shape[0] != how.mask_row.size())
            refuse("masks have shape ", shape, " for ", how.mask_row.size(), " rows");
        if (shape[1] < words) refuse("masks have ", shape[1], " words, need ", words);
        for (const std::int32_t row : how.mask_row)
            if (row < 0 || row >= rows) refuse("mask for a row that does not exist");
    }
    const std::size_t changes = how.change_row.size();
    if (how.change_token.size() != changes || how.change_divide.size() != changes || how.change_add.size() != changes)
        refuse("adjustments differ in length");
    for (std::size_t i = 0; i < changes; ++i) {
        if (how.change_row[i] < 0 || how.change_row[i] >= rows) refuse("adjustment for a row that does not exist");
        if (how.change_token[i] < 0 || how.change_token[i] >= vocabulary)
            refuse("adjustment for a token outside the vocabulary");
        if (!(how.change_divide[i] > 0) || !(how.change_add[i] < INFINITY))
            refuse("adjustments must divide by a positive number and not add infinity");
    }
}

}  // namespace headrace
