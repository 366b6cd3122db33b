// Fills the tables of taps: the weights of each axis, then their products axis by axis, all along the points of a
// block.
#include "ops/grid/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid/taps_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vectorize.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops::grid {
namespace HWY_NAMESPACE {
namespace {

template <GridMode mode, GridPadding padding, int order, bool slopes, class T>
HWY_INLINE void axis_loop(const AxisRule<T>& of_axis, const T* HWY_RESTRICT g, std::int64_t count, AxisTaps<T>& taps) {
    constexpr int n = mode == GridMode::nearest ? 1 : mode == GridMode::linear ? 2 : 4;
    const AxisRule<T> rule = of_axis;  // stores to the tables cannot change it
    CALOR_VECTORIZE
    for (std::int64_t p = 0; p < count; ++p) {
        const Place<T> at = place<padding>(rule, g[p]);
        taps.first[p] = first_tap<mode>(at.at);
        T w[4], v[4];
        tap_weights<mode, order>(at, w);
        taps.weight[0][p] = w[0];
        if constexpr (n > 1) taps.weight[1][p] = w[1];
        if constexpr (n > 2) taps.weight[2][p] = w[2];
        if constexpr (n > 2) taps.weight[3][p] = w[3];
        if constexpr (slopes) {
            tap_weights<mode, order + 1>(at, v);
            taps.slope[0][p] = v[0];
            if constexpr (n > 1) taps.slope[1][p] = v[1];
            if constexpr (n > 2) taps.slope[2][p] = v[2];
            if constexpr (n > 2) taps.slope[3][p] = v[3];
        }
    }
}

template <class T>
void axis(const Lattice<T>& lattice, const AxisRule<T>& rule, const T* g, std::int64_t count, AxisTaps<T>& taps) {
    with_mode(lattice.mode, [&](auto mode) HWY_ATTR {
        with_padding(lattice.mode, lattice.padding, [&](auto padding) HWY_ATTR {
            with_order(rule.order, [&](auto order) HWY_ATTR {
                if (lattice.slopes) {
                    axis_loop<mode(), padding(), order(), true>(rule, g, count, taps);
                } else {
                    axis_loop<mode(), padding(), order(), false>(rule, g, count, taps);
                }
            });
        });
    });
}

/// Marks a tap outside of the data: sums over up to 8 axes stay negative.
template <class O> constexpr O outside = -(O(1) << (sizeof(O) == 4 ? 28 : 58));

/// Offsets along one axis of tap k of the points.
template <class T, class O>
void axis_offsets(const Lattice<T>& lattice, const AxisRule<T>& rule, const T* HWY_RESTRICT first, std::int64_t count,
                  int k, O* HWY_RESTRICT offset) {
    const O size = static_cast<O>(rule.size), stride = static_cast<O>(rule.stride);
    if (lattice.mode == GridMode::cubic && lattice.padding != GridPadding::zeros) {
        for (std::int64_t p = 0; p < count; ++p) {
            const auto i = static_cast<std::int64_t>(first[p]) + k;
            offset[p] = static_cast<O>(tap_index(lattice.mode, lattice.padding, rule.align, rule.size, i)) * stride;
        }
        return;
    }
    for (std::int64_t p = 0; p < count; ++p) {
        const O i = static_cast<O>(first[p]) + k;
        const bool inside = i >= 0 && i < size;
        const O there = (inside ? i : O(0)) * stride;
        offset[p] = inside ? there : outside<O>;
    }
}

/// Rows of the tables for axes 0 to a, from those for axes 0 to a - 1: row j becomes rows j k.., from the back, so that
/// they are overwritten after their use.
template <class V>
void extend(V* rows, std::int64_t pitch, std::int64_t count, std::int64_t n, std::int64_t k, const V* other,
            std::int64_t other_pitch, bool product) {
    for (std::int64_t j = n - 1; j >= 0; --j) {
        const V* from = rows + j * pitch;
        for (std::int64_t i = k - 1; i >= 0; --i) {
            V* to = rows + (j * k + i) * pitch;
            const V* with = other + i * other_pitch;
            if (product) {
                CALOR_VECTORIZE
                for (std::int64_t p = 0; p < count; ++p) to[p] = from[p] * with[p];
            } else {
                CALOR_VECTORIZE
                for (std::int64_t p = 0; p < count; ++p) to[p] = from[p] + with[p];
            }
        }
    }
}

template <class T, class O> void combine(const Lattice<T>& lattice, std::int64_t count, Taps<T>& taps, O* offset) {
    const auto k = taps_per_axis(lattice.mode);
    std::int64_t n = 1;
    for (std::int64_t p = 0; p < count; ++p) offset[p] = 0;
    for (std::int64_t s = 0; s < taps.sets; ++s) {
        T* ones = taps.weight.data() + s * taps.count * taps.pitch;
        for (std::int64_t p = 0; p < count; ++p) ones[p] = 1;
    }
    for (std::int64_t a = 0; a < lattice.rank(); ++a) {
        const AxisTaps<T>& axis = taps.axes[static_cast<std::size_t>(a)];
        alignas(64) O along[4][block];
        for (int i = 0; i < k; ++i) {
            axis_offsets(lattice, lattice.axes[static_cast<std::size_t>(a)], axis.first, count, i, along[i]);
        }
        extend(offset, taps.pitch, count, n, k, &along[0][0], block, false);
        for (std::int64_t s = 0; s < taps.sets; ++s) {
            extend(taps.weight.data() + s * taps.count * taps.pitch, taps.pitch, count, n, k,
                   s == a + 1 ? &axis.slope[0][0] : &axis.weight[0][0], block, true);
        }
        n *= k;
    }
}

/// Linear taps of two axes without derivatives but the slopes: everything of a point in one go.
template <GridPadding padding, bool slopes>
HWY_INLINE void plane_loop(const Lattice<float>& lattice, const float* HWY_RESTRICT along, std::int64_t count,
                           float* HWY_RESTRICT weight, std::int32_t* HWY_RESTRICT offset) {
    constexpr std::int32_t none = outside<std::int32_t>;
    const AxisRule<float> rows = lattice.axes[0], columns = lattice.axes[1];
    const auto height = static_cast<std::int32_t>(rows.size), width = static_cast<std::int32_t>(columns.size);
    const auto row_step = static_cast<std::int32_t>(rows.stride), step = static_cast<std::int32_t>(columns.stride);
    CALOR_VECTORIZE
    for (std::int64_t p = 0; p < count; ++p) {
        const Place<float> r = place<padding>(rows, along[p]), c = place<padding>(columns, along[block + p]);
        const float row = std::floor(r.at), column = std::floor(c.at);
        const float r1 = r.at - row, r0 = 1 - r1, c1 = c.at - column, c0 = 1 - c1;
        const auto i = static_cast<std::int32_t>(row), k = static_cast<std::int32_t>(column);
        const std::int32_t first = static_cast<int>(i >= 0) & static_cast<int>(i < height) ? i * row_step : none;
        const std::int32_t second =
            static_cast<int>(i >= -1) & static_cast<int>(i < height - 1) ? (i + 1) * row_step : none;
        const std::int32_t left = static_cast<int>(k >= 0) & static_cast<int>(k < width) ? k * step : none;
        const std::int32_t right = static_cast<int>(k >= -1) & static_cast<int>(k < width - 1) ? (k + 1) * step : none;
        offset[p] = first + left;
        offset[block + p] = first + right;
        offset[2 * block + p] = second + left;
        offset[3 * block + p] = second + right;
        weight[p] = r0 * c0;
        weight[block + p] = r0 * c1;
        weight[2 * block + p] = r1 * c0;
        weight[3 * block + p] = r1 * c1;
        if constexpr (slopes) {
            weight[4 * block + p] = -r.slope * c0;
            weight[5 * block + p] = -r.slope * c1;
            weight[6 * block + p] = r.slope * c0;
            weight[7 * block + p] = r.slope * c1;
            weight[8 * block + p] = -r0 * c.slope;
            weight[9 * block + p] = r0 * c.slope;
            weight[10 * block + p] = -r1 * c.slope;
            weight[11 * block + p] = r1 * c.slope;
        }
    }
}
/// Whether that serves.
template <class T> bool plane_taps(const Lattice<T>& lattice, const T* along, std::int64_t count, Taps<T>& taps) {
    if constexpr (sizeof(T) == 4) {
        if (lattice.mode != GridMode::linear || lattice.rank() != 2 || !taps.narrow || taps.pitch != block)
            return false;
        if (lattice.axes[0].order != 0 || lattice.axes[1].order != 0) return false;
        with_padding(lattice.mode, lattice.padding, [&](auto padding) HWY_ATTR {
            float* weight = taps.weight.data();
            std::int32_t* offset = taps.offset32.data();
            lattice.slopes ? plane_loop<padding(), true>(lattice, along, count, weight, offset)
                           : plane_loop<padding(), false>(lattice, along, count, weight, offset);
        });
        return true;
    }
    return false;
}

template <class T> void make_taps(const Lattice<T>& lattice, const T* coordinates, std::int64_t count, Taps<T>& taps) {
    if (plane_taps(lattice, coordinates, count, taps)) return;
    for (std::int64_t a = 0; a < lattice.rank(); ++a) {
        axis(lattice, lattice.axes[static_cast<std::size_t>(a)], coordinates + a * block, count,
             taps.axes[static_cast<std::size_t>(a)]);
    }
    if (taps.narrow) return combine(lattice, count, taps, taps.offset32.data());
    combine(lattice, count, taps, taps.offset64.data());
}

}  // namespace

TapsKernel<float> float_taps() { return make_taps<float>; }
TapsKernel<double> double_taps() { return make_taps<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::grid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::grid {

HWY_EXPORT(float_taps);
HWY_EXPORT(double_taps);

template <> TapsKernel<float> taps_kernel() { return HWY_DYNAMIC_DISPATCH(float_taps)(); }
template <> TapsKernel<double> taps_kernel() { return HWY_DYNAMIC_DISPATCH(double_taps)(); }

}  // namespace calor::ops::grid
#endif
