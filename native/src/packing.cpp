#include "packing.hpp"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "half.hpp"

namespace headrace {

namespace {

bool is_half(float x) { return half_to_float(float_to_half(x)) == x; }
bool is_bfloat(float x) { return (std::bit_cast<std::uint32_t>(x) & 0xffffu) == 0; }

// Whether `holds` is true of every index below count, looked into by the whole team.
template <class Holds>
bool all(Team& team, std::size_t count, Holds holds) {
    constexpr std::size_t kChunk = 1 << 16;
    std::atomic<bool> good{true};
    team.run(int((count + kChunk - 1) / kChunk), [&](int, int chunk) {
        const std::size_t end = std::min(count, (std::size_t(chunk) + 1) * kChunk);
        for (std::size_t i = std::size_t(chunk) * kChunk; good.load(std::memory_order_relaxed) && i < end; ++i)
            if (!holds(i)) good.store(false, std::memory_order_relaxed);
    });
    return good;
}

// The code that stands for 0 if that is one number for the whole matrix, else -1.
int common_zero(Team& team, const GroupedSource& source, std::size_t groups) {
    std::size_t i = 0;
    while (i < groups && source.scale[i] == 0) ++i;
    const float zero = i < groups ? -source.minimum[i] / source.scale[i] : 0;
    if (!(zero >= 0 && zero <= 255 && zero == std::floor(zero))) return -1;
    const bool common = all(team, groups, [&](std::size_t g) {
        return source.minimum[g] == -zero * source.scale[g];
    });
    return common ? int(zero) : -1;
}

void put(std::uint8_t* at, std::size_t index, float value, bool half) {
    if (half) {
        const std::uint16_t bits = float_to_half(value);
        std::memcpy(at + 2 * index, &bits, 2);
    } else {
        std::memcpy(at + 4 * index, &value, 4);
    }
}

float get(const std::uint8_t* at, std::size_t index, bool half) {
    if (half) {
        std::uint16_t bits;
        std::memcpy(&bits, at + 2 * index, 2);
        return half_to_float(bits);
    }
    float value;
    std::memcpy(&value, at + 4 * index, 4);
    return value;
}

// Codes of one panel: `vectors[j]` of a group of 32 columns is four columns of each output.
void pack_codes(const GroupedSource& source, const Matrix& m, int panel, std::uint8_t* to) {
    for (int c = 0; c < source.k; c += kGroup, to += m.stride()) {
        std::uint8_t vectors[8][64] = {};
        for (int lane = 0; lane < kPanel && panel * kPanel + lane < source.n; ++lane) {
            const std::uint8_t* row = source.codes + std::size_t(panel * kPanel + lane) * std::size_t(source.k) + c;
            for (int j = 0; j < 8; ++j) std::memcpy(vectors[j] + 4 * lane, row + 4 * j, 4);
        }
        if (m.format != Format::kW4) {
            std::memcpy(to, vectors, sizeof vectors);
            continue;
        }
        for (int j = 0; j < 4; ++j)
            for (int i = 0; i < 64; ++i)
                to[64 * j + i] = std::uint8_t((vectors[j][i] & 0x0f) | vectors[j + 4][i] << 4);
    }
}

// Scales or minima of one panel; `to` is where those of the first group go.
void pack_numbers(const float* values, const Matrix& m, int panel, std::uint8_t* to) {
    const int groups = m.k / m.group(), parts = kGroup / m.group();
    for (int lane = 0; lane < kPanel && panel * kPanel + lane < m.n; ++lane) {
        const float* row = values + std::size_t(panel * kPanel + lane) * std::size_t(groups);
        for (int g = 0; g < groups; ++g)
            put(to + std::size_t(g / parts) * m.stride(), std::size_t(g % parts * kPanel + lane), row[g], m.half_scales);
    }
}

std::size_t aligned(std::size_t size) { return (size + 63) / 64 * 64; }

}  // namespace

PackedMatrix::PackedMatrix(std::shared_ptr<Arena> arena, Team& team, const GroupedSource& source)
    : arena_(std::move(arena)) {
    const bool nibbles = source.bits == 4 && source.group == 32;
    const int groups = source.k / source.group;
    const std::size_t count = std::size_t(source.n) * std::size_t(groups);
    const int zero = common_zero(team, source, count);
    const bool minima = zero < 0;
    const bool half = all(team, count, [&](std::size_t g) {
        return is_half(source.scale[g]) && (!minima || is_half(source.minimum[g]));
    });
    view_ = {
        .format = nibbles ? Format::kW4 : source.group == 16 ? Format::kW8Half : Format::kW8,
        .half_scales = half,
        .minima = minima,
        .zero = minima ? 0 : zero,
        .n = source.n,
        .k = source.k,
        .panel_bytes = 0,
        .data = nullptr,
    };
    view_.panel_bytes = aligned(view_.stride() * std::size_t(source.k / kGroup));
    std::uint8_t* data = arena_->allocate<std::uint8_t>(bytes());
    view_.data = data;
    team.run(view_.panels(), [&](int, int p) {
        std::uint8_t* panel = data + std::size_t(p) * view_.panel_bytes;
        pack_codes(source, view_, p, panel);
        pack_numbers(source.scale, view_, p, panel + view_.code_bytes());
        if (minima) pack_numbers(source.minimum, view_, p, panel + view_.code_bytes() + view_.number_bytes());
    });
}

PackedMatrix::PackedMatrix(std::shared_ptr<Arena> arena, Team& team, const DenseSource& source)
    : arena_(std::move(arena)) {
    const std::size_t count = std::size_t(source.n) * std::size_t(source.k);
    const bool bfloat = all(team, count, [&](std::size_t i) { return is_bfloat(source.values[i]); });
    const bool half = !bfloat && all(team, count, [&](std::size_t i) { return is_half(source.values[i]); });
    const std::size_t width = bfloat || half ? 2 : 4;
    view_ = {
        .format = bfloat ? Format::kBF16 : half ? Format::kF16 : Format::kF32,
        .half_scales = false,
        .minima = false,
        .zero = 0,
        .n = source.n,
        .k = source.k,
        .panel_bytes = aligned(std::size_t(source.k) * kPanel * width),
        .data = nullptr,
    };
    std::uint8_t* data = arena_->allocate<std::uint8_t>(bytes());
    view_.data = data;
    team.run(view_.panels(), [&](int, int p) {
        std::uint8_t* panel = data + std::size_t(p) * view_.panel_bytes;
        for (int lane = 0; lane < kPanel && p * kPanel + lane < source.n; ++lane) {
            const float* row = source.values + std::size_t(p * kPanel + lane) * std::size_t(source.k);
            for (int c = 0; c < source.k; ++c) {
                const std::size_t at = std::size_t(c * kPanel + lane);
                if (bfloat) {
                    const auto bits = std::uint16_t(std::bit_cast<std::uint32_t>(row[c]) >> 16);
                    std::memcpy(panel + 2 * at, &bits, 2);
                } else {
                    put(panel, at, row[c], half);
                }
            }
        }
    });
}

void PackedMatrix::row(int row, float factor, float* out) const {
    const Matrix& m = view_;
    const std::uint8_t* panel = m.panel(row / kPanel);
    const int lane = row % kPanel;
    if (!m.grouped()) {
        for (int c = 0; c < m.k; ++c) {
            const std::size_t at = std::size_t(c * kPanel + lane);
            float value;
            if (m.format == Format::kBF16) {
                std::uint16_t bits;
                std::memcpy(&bits, panel + 2 * at, 2);
                value = std::bit_cast<float>(std::uint32_t(bits) << 16);
            } else {
                value = get(panel, at, m.format == Format::kF16);
            }
            out[c] = value * factor;
        }
        return;
    }
    for (int c = 0; c < m.k; c += 4) {
        const std::uint8_t* codes = panel + std::size_t(c / kGroup) * m.stride();
        const std::uint8_t* numbers = codes + m.code_bytes();
        const std::size_t at = std::size_t(c % kGroup / m.group() * kPanel + lane);
        const float scale = get(numbers, at, m.half_scales);
        const float minimum = m.minima ? get(numbers + m.number_bytes(), at, m.half_scales) : -float(m.zero) * scale;
        const int vector = c / 4 % 8;
        for (int i = 0; i < 4; ++i) {
            int code;
            if (m.format == Format::kW4) {
                const int both = codes[vector % 4 * 64 + 4 * lane + i];
                code = vector < 4 ? both & 0x0f : both >> 4;
            } else {
                code = codes[vector * 64 + 4 * lane + i];
            }
            out[c + i] = (scale * float(code) + minimum) * factor;
        }
    }
}

}  // namespace headrace
