// A tile of four rows by up to three columns in registers. The last rows of a matrix are computed once more instead of
// fewer.
#include "device/cpu/small_matmul_kernels.h"

#include <algorithm>
#include <array>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/small_matmul_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr hn::CappedTag<float, 16> lanes{};
using Vector = hn::Vec<decltype(lanes)>;
constexpr std::int64_t vector_size = hn::MaxLanes(lanes);
constexpr std::int64_t rows = 4;
using Column = std::array<Vector, 4>;

/// The sums of the lanes of four vectors.
HWY_INLINE void add_lanes(const Column& v, float* to) {
#if HWY_TARGET == HWY_SCALAR
    for (std::size_t i = 0; i < 4; ++i) to[i] = hn::GetLane(v[i]);
#else
    constexpr hn::Repartition<double, decltype(lanes)> pairs{};
    const auto low =
        hn::BitCast(pairs, hn::Add(hn::InterleaveLower(lanes, v[0], v[1]), hn::InterleaveUpper(lanes, v[0], v[1])));
    const auto high =
        hn::BitCast(pairs, hn::Add(hn::InterleaveLower(lanes, v[2], v[3]), hn::InterleaveUpper(lanes, v[2], v[3])));
    const auto even = hn::BitCast(lanes, hn::InterleaveLower(pairs, low, high));
    const auto odd = hn::BitCast(lanes, hn::InterleaveUpper(pairs, low, high));
    HWY_ALIGN float blocks[vector_size];
    hn::Store(hn::Add(even, odd), lanes, blocks);
    for (std::size_t i = 0; i < 4; ++i) {
        to[i] = blocks[i];
        for (std::int64_t block = 4; block < vector_size; block += 4)
            to[i] += blocks[static_cast<std::size_t>(block) + i];
    }
#endif
}

template <std::size_t... j>
HWY_INLINE void tile(const Dots& d, std::int64_t row, std::int64_t column, std::index_sequence<j...>) {
    const float* const a = d.a + row * d.a_row;
    const std::array<const float*, sizeof...(j)> b{(d.b + (column + static_cast<std::int64_t>(j)) * d.b_column)...};
    const Vector zero = hn::Zero(lanes);
    std::array<Column, sizeof...(j)> sums{((void)j, Column{zero, zero, zero, zero})...};
    for (std::int64_t p = 0; p < d.inner; p += vector_size) {
        const std::array<Vector, sizeof...(j)> y{hn::LoadU(lanes, b[j] + p)...};
        // Row by row: loaded side by side, compilers read them anew for every column.
        const auto add_row = [&](std::size_t i) HWY_ATTR {
            const Vector x = hn::LoadU(lanes, a + static_cast<std::int64_t>(i) * d.a_row + p);
            ((sums[j][i] = hn::MulAdd(x, y[j], sums[j][i])), ...);
        };
        add_row(0);
        add_row(1);
        add_row(2);
        add_row(3);
    }
    const auto put = [&](const Column& sum, std::int64_t at) HWY_ATTR {
        float values[rows];
        add_lanes(sum, values);
        const float bias = d.bias != nullptr ? d.bias[at] : 0.0F;
        for (std::int64_t i = 0; i < rows; ++i) d.c[(row + i) * d.c_row + at] = values[i] + bias;
    };
    (put(sums[j], column + static_cast<std::int64_t>(j)), ...);
}

void dots(const Dots& d, std::int64_t first_row, std::int64_t past_row) {
    const std::int64_t cuts = (d.columns + 2) / 3;
    for (std::int64_t r = first_row; r < past_row; r += rows) {
        const std::int64_t row = std::min(r, past_row - rows);
        for (std::int64_t cut = 0; cut < cuts; ++cut) {
            const std::int64_t column = d.columns * cut / cuts, count = d.columns * (cut + 1) / cuts - column;
            switch (count) {
                case 3: tile(d, row, column, std::make_index_sequence<3>()); break;
                case 2: tile(d, row, column, std::make_index_sequence<2>()); break;
                default: tile(d, row, column, std::make_index_sequence<1>()); break;
            }
        }
    }
}

}  // namespace

const DotKernels& dot_table() {
    static constexpr DotKernels kernels{vector_size, dots};
    return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::cpu {

HWY_EXPORT(dot_table);
const DotKernels& dot_kernels() { return HWY_DYNAMIC_DISPATCH(dot_table)(); }

}  // namespace calor::cpu
#endif
