#include "packing.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <stdexcept>

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

// Codes of 32 columns of one panel, from column c.
void pack_codes(const GroupedSource& source, int bits, int panel, int c, std::uint8_t* to) {
    std::uint8_t vectors[8][64] = {};
    for (int lane = 0; lane < kPanel && panel * kPanel + lane < source.n; ++lane) {
        const std::uint8_t* row = source.codes + std::size_t(panel * kPanel + lane) * std::size_t(source.k) + c;
        for (int j = 0; j < 8; ++j) std::memcpy(vectors[j] + 4 * lane, row + 4 * j, 4);
    }
    if (bits == 8) {
        std::memcpy(to, vectors, sizeof vectors);
        return;
    }
    for (int j = 0; j < 4; ++j, to += 64)
        for (int i = 0; i < 64; ++i) to[i] = std::uint8_t((vectors[j][i] & 0x0f) | vectors[j + 4][i] << 4);
    const int high = bits - 4, vectors_a_plane = high == 1 ? 8 : 4;
    for (int j = 0; high > 0 && j < 8; ++j) {
        std::uint8_t* plane = to + j / vectors_a_plane * 64;
        if (j % vectors_a_plane == 0) std::memset(plane, 0, 64);
        for (int i = 0; i < 64; ++i) plane[i] = std::uint8_t(plane[i] | vectors[j][i] >> 4 << j % vectors_a_plane * high);
    }
}

int unpack_code(const std::uint8_t* stride, int bits, int lane, int column) {
    const int j = column / 4, byte = 4 * lane + column % 4;
    if (bits == 8) return stride[j * 64 + byte];
    const int both = stride[j % 4 * 64 + byte], low = j < 4 ? both & 0x0f : both >> 4;
    if (bits == 5) return low | (stride[256 + byte] >> j & 1) << 4;
    if (bits == 6) return low | (stride[256 + j / 4 * 64 + byte] >> j % 4 * 2 & 3) << 4;
    return low;
}

// How numbers are kept without loss.
Numbers kept_as(Team& team, const NumberSource& source, std::size_t count) {
    if (!source.values) return Numbers::kMultiple;
    return all(team, count, [&](std::size_t i) { return is_half(source.values[i]); }) ? Numbers::kHalf : Numbers::kFloat;
}

// One kind of numbers of a panel: 0 scales, 1 minima.
void pack_numbers(const NumberSource& source, const Matrix& m, int kind, int panel, std::uint8_t* to) {
    const Layout& l = m.layout;
    const int groups = m.k / l.group, blocks = m.k / kBlockColumns;
    for (int lane = 0; lane < kPanel && panel * kPanel + lane < m.n; ++lane) {
        const std::size_t row = std::size_t(panel * kPanel + lane);
        for (int g = 0; g < groups; ++g) {
            const int part = g % l.parts();
            std::uint8_t* at = to + l.stride_at(g * l.group) + (kind == 0 ? l.scale_at(part) : l.minimum_at(part));
            const std::size_t index = row * std::size_t(groups) + std::size_t(g);
            if (l.numbers == Numbers::kMultiple) at[lane] = std::uint8_t(source.counts[index]);
            else put(at, std::size_t(lane), source.values[index], l.numbers == Numbers::kHalf);
        }
        for (int b = 0; l.numbers == Numbers::kMultiple && b < blocks; ++b)
            std::memcpy(to + l.block_at(b * kBlockColumns) + kind * unit_bytes(l.numbers) + 2 * lane,
                        source.units + row * std::size_t(blocks) + std::size_t(b), 2);
    }
}

float unpack_number(const Layout& l, const std::uint8_t* at, const std::uint8_t* units, int lane) {
    if (l.numbers != Numbers::kMultiple) return get(at, std::size_t(lane), l.numbers == Numbers::kHalf);
    return get(units, std::size_t(lane), true) * float(std::int8_t(at[lane]));
}

void require(bool fits, const char* what) {
    if (!fits) throw std::invalid_argument(what);
}

std::size_t aligned(std::size_t size) { return (size + 63) / 64 * 64; }

}  // namespace

PackedMatrix::PackedMatrix(std::shared_ptr<Arena> arena, Team& team, const GroupedSource& source)
    : arena_(std::move(arena)) {
    require(source.bits == 4 || source.bits == 5 || source.bits == 6 || source.bits == 8, "codes have 4, 5, 6 or 8 bits");
    require(source.group == 16 || source.group == 32, "groups have 16 or 32 columns");
    require(source.k % kGroup == 0, "grouped weights have a multiple of 32 columns");
    const std::size_t count = std::size_t(source.n) * std::size_t(source.k / source.group);
    Numbers numbers = kept_as(team, source.scale, count);
    if (source.minimum) {
        const Numbers minima = kept_as(team, *source.minimum, count);
        require((numbers == Numbers::kMultiple) == (minima == Numbers::kMultiple),
                "either both scales and minima are multiples, or neither");
        numbers = std::max(numbers, minima);  // floats hold what half floats do
    }
    require(numbers != Numbers::kMultiple || source.k % kBlockColumns == 0, "multiples need a multiple of 256 columns");
    view_ = {
        .format = Format::kGrouped,
        .layout = {source.bits, source.group, numbers, source.minimum != nullptr},
        .zero = source.minimum ? 0 : source.zero,
        .n = source.n,
        .k = source.k,
        .panel_bytes = 0,
        .data = nullptr,
    };
    const Layout& l = view_.layout;
    const int whole = source.k / kBlockColumns * kBlockColumns;
    view_.panel_bytes = aligned(l.block_at(whole) + std::size_t((source.k - whole) / kGroup * l.stride()));
    std::uint8_t* data = arena_->allocate<std::uint8_t>(bytes());
    view_.data = data;
    team.run(view_.panels(), [&](int, int p) {
        std::uint8_t* panel = data + std::size_t(p) * view_.panel_bytes;
        for (int c = 0; c < source.k; c += kGroup) pack_codes(source, l.bits, p, c, panel + l.stride_at(c));
        pack_numbers(source.scale, view_, 0, p, panel);
        if (source.minimum) pack_numbers(*source.minimum, view_, 1, p, panel);
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
        .layout = {},
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
    const Layout& l = m.layout;
    for (int c = 0; c < m.k; c += l.group) {
        const std::uint8_t *block = panel + l.block_at(c), *stride = panel + l.stride_at(c);
        const int first = c % kGroup, part = first / l.group;
        const float scale = unpack_number(l, stride + l.scale_at(part), block, lane);
        const float minimum = l.minima
            ? unpack_number(l, stride + l.minimum_at(part), block + unit_bytes(l.numbers), lane)
            : -float(m.zero) * scale;
        for (int i = 0; i < l.group; ++i)
            out[c + i] = (scale * float(unpack_code(stride, l.bits, lane, first + i)) + minimum) * factor;
    }
}

}  // namespace headrace
