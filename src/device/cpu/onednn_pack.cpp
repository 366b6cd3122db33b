// The loops: axes of size 1 go, neighbours that lie alike in both arrays merge, the innermost axis is the dense array's
// fastest; threads share the rows.
#include "device/cpu/onednn_pack.h"

#include <bit>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace calor::cpu::onednn {
namespace {

constexpr std::int64_t parallel_elements = 1 << 15;

struct Axis {
    std::int64_t size, dense, other;
};

/// Axes from the outermost to the innermost of the dense array, merged where both arrays allow it.
std::vector<Axis> merged_axes(const Shape& shape, const Strides& dense, const Strides& other) {
    std::vector<Axis> axes;
    for (std::int64_t i = 0; i < shape.rank(); ++i)
        if (shape[i] != 1) axes.push_back({shape[i], dense[i], other[i]});
    std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.dense > b.dense; });
    std::vector<Axis> merged;
    for (const Axis& axis : axes) {
        if (!merged.empty() && merged.back().dense == axis.dense * axis.size &&
            merged.back().other == axis.other * axis.size) {
            merged.back() = {merged.back().size * axis.size, axis.dense, axis.other};
        } else {
            merged.push_back(axis);
        }
    }
    if (merged.empty()) merged.push_back({1, 1, 1});
    return merged;
}

/// Calls row(dense offset, other offset, count) for pieces of the innermost axis that together are everything.
template <class Row>
void for_rows(const std::vector<Axis>& axes, Row&& row) {
    constexpr std::int64_t piece = 1 << 14;
    const Axis& inner = axes.back();
    const auto outer = static_cast<std::int64_t>(axes.size()) - 1;
    const std::int64_t pieces = (inner.size + piece - 1) / piece;
    std::int64_t rows = 1;
    for (std::int64_t i = 0; i < outer; ++i) rows *= axes[static_cast<std::size_t>(i)].size;
    [[maybe_unused]] const bool threads = rows * inner.size >= parallel_elements;
#ifdef CALOR_OPENMP
#pragma omp parallel for schedule(static) if (threads)
#endif
    for (std::int64_t r = 0; r < rows * pieces; ++r) {
        const std::int64_t begin = r % pieces * piece;
        std::int64_t dense = begin * inner.dense, other = begin * inner.other, rest = r / pieces;
        for (std::int64_t i = outer; i-- > 0;) {
            const Axis& axis = axes[static_cast<std::size_t>(i)];
            const std::int64_t index = rest % axis.size;
            rest /= axis.size;
            dense += index * axis.dense;
            other += index * axis.other;
        }
        row(dense, other, std::min(piece, inner.size - begin));
    }
}

/// A half as float without branches: the multiplication rebiases the exponent and normalises subnormal numbers.
inline float widen(float16 h) {
    const std::uint32_t magnitude = h.bits & 0x7fffU, sign = static_cast<std::uint32_t>(h.bits & 0x8000U) << 16;
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
    const std::uint32_t special = magnitude >= 0x7c00U ? 0x7f800000U : 0U;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}
inline float widen(bfloat16 b) { return b; }
inline float widen(float f) { return f; }

template <class T>
void pack_as(const View& from, float* to, const Strides& to_strides) {
    const auto axes = merged_axes(*from.shape, to_strides, *from.strides);
    const std::int64_t to_step = axes.back().dense, from_step = axes.back().other;
    const auto* source = static_cast<const T*>(from.data);
    for_rows(axes, [=](std::int64_t dense, std::int64_t other, std::int64_t size) {
        float* out = to + dense;
        const T* in = source + other;
        if (to_step == 1 && from_step == 1) {
#ifdef CALOR_OPENMP
#pragma omp simd
#endif
            for (std::int64_t i = 0; i < size; ++i) out[i] = widen(in[i]);
        } else {
            for (std::int64_t i = 0; i < size; ++i) out[i * to_step] = widen(in[i * from_step]);
        }
    });
}

template <class T>
void unpack_as(const float* from, const Strides& from_strides, const View& to) {
    const auto axes = merged_axes(*to.shape, from_strides, *to.strides);
    const std::int64_t from_step = axes.back().dense, to_step = axes.back().other;
    auto* target = static_cast<T*>(to.data);
    for_rows(axes, [=](std::int64_t dense, std::int64_t other, std::int64_t size) {
        T* out = target + other;
        const float* in = from + dense;
        if (to_step == 1 && from_step == 1) {
#ifdef CALOR_OPENMP
#pragma omp simd
#endif
            for (std::int64_t i = 0; i < size; ++i) out[i] = T(in[i]);
        } else {
            for (std::int64_t i = 0; i < size; ++i) out[i * to_step] = T(in[i * from_step]);
        }
    });
}

/// The axes in the order of their strides, the farthest apart first.
std::vector<std::int64_t> memory_order(const Strides& strides) {
    std::vector<std::int64_t> order(strides.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return std::abs(strides[a]) > std::abs(strides[b]); });
    return order;
}

}  // namespace

Strides dense_like(const Shape& shape, const Strides& strides) {
    const auto order = memory_order(strides);
    Strides dense(shape.rank(), 1);
    std::int64_t step = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
        dense[order[i]] = step;
        step *= shape[order[i]];
    }
    return dense;
}

bool is_regular(const Shape& shape, const Strides& strides) {
    const auto order = memory_order(strides);
    std::int64_t extent = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
        if (shape[order[i]] == 1) continue;
        const std::int64_t stride = strides[order[i]];
        if (stride < extent) return false;
        extent = stride * shape[order[i]];
    }
    return true;
}

void pack(const View& from, float* to, const Strides& to_strides) {
    switch (from.dtype) {
        case bf16:
            return pack_as<bfloat16>(from, to, to_strides);
        case f16:
            return pack_as<float16>(from, to, to_strides);
        default:
            return pack_as<float>(from, to, to_strides);
    }
}

void unpack(const float* from, const Strides& from_strides, const View& to) {
    switch (to.dtype) {
        case bf16:
            return unpack_as<bfloat16>(from, from_strides, to);
        case f16:
            return unpack_as<float16>(from, from_strides, to);
        default:
            return unpack_as<float>(from, from_strides, to);
    }
}

}  // namespace calor::cpu::onednn
