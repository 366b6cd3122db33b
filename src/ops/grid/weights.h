// Where a coordinate lies along an axis, and the weights of the taps around it with their derivatives. Written for one
// point, without branches on it: loops over points vectorise.
//   place     u, and du/dg, from a coordinate g and the rule for what lies outside
//   weights   of the taps first, first + 1, ...: the order-th derivative by g
#pragma once

#include <cmath>
#include <cstdint>

#include "calor/grid.h"

#if defined(__GNUC__) || defined(__clang__)
#define CALOR_GRID_INLINE inline __attribute__((always_inline))
#else
#define CALOR_GRID_INLINE inline
#endif

namespace calor::ops::grid {

/// One axis of what is sampled: u = (g + lead) scale - shift.
template <class T> struct AxisRule {
    std::int64_t size = 1, stride = 0;  ///< `stride` of the memory that taps address
    std::int64_t order = 0;
    bool align = false;
    T lead = 0, scale = 1, shift = 0;
    T low = 0, span = 1;  ///< reflection: at low and low + span
    T last = 0;           ///< size - 1
    T missing = 0;        ///< u of a coordinate NaN
    T limit = 0;          ///< |u| is cut here: the conversion to an integer stays defined
};

template <class T>
AxisRule<T> axis_rule(std::int64_t size, bool align_corners, bool pixels, std::int64_t order, std::int64_t stride) {
    AxisRule<T> r;
    r.size = size;
    r.stride = stride;
    r.order = order;
    r.align = align_corners || pixels;
    r.last = static_cast<T>(size - 1);
    if (!pixels) {
        r.lead = 1;
        r.scale = static_cast<T>(align_corners ? size - 1 : size) / 2;
        r.shift = align_corners ? T(0) : T(0.5);
    }
    r.low = r.align ? T(0) : T(-0.5);
    r.span = static_cast<T>(r.align ? size - 1 : size);
    r.missing = pixels ? T(-8) : (r.lead - 1) * r.scale - r.shift;
    r.limit = std::fmax(static_cast<T>(size), T(1 << 30)) + 8;
    return r;
}

template <class T> struct Place { T at, slope; };

/// `padding` applies to u itself: cubic sampling pads its taps instead and asks for zeros here.
template <GridPadding padding, class T> CALOR_GRID_INLINE Place<T> place(const AxisRule<T>& r, T g) {
    const bool number = g == g;
    T u = (g + r.lead) * r.scale - r.shift;
    T slope = number ? r.scale : T(0);
    u = number ? u : r.missing;
    if constexpr (padding == GridPadding::reflection) {
        const T from_low = u - r.low;
        const T distance = from_low < 0 ? -from_low : from_low;
        const T flips = r.span > 0 ? std::floor(distance / r.span) : T(0);
        const T rest = r.span > 0 ? distance - flips * r.span : T(0);
        const bool odd = flips - 2 * std::floor(flips / 2) != 0;
        u = (odd ? r.span - rest : rest) + r.low;
        slope = (from_low < 0) != odd ? -slope : slope;
        slope = r.span > 0 ? slope : T(0);
    }
    if constexpr (padding != GridPadding::zeros) {  // the order of the comparisons makes NaN the first element
        slope = u > 0 && u < r.last ? slope : T(0);
        u = u > 0 ? u : T(0);
        u = u < r.last ? u : r.last;
    }
    u = u < r.limit ? u : r.limit;
    u = u > -r.limit ? u : -r.limit;
    return {u, slope};
}

/// The cubic convolution kernel with a = -0.75 between 0 and 1 (near) and between 1 and 2 (far), or a derivative.
template <int order, class T> CALOR_GRID_INLINE T cubic_near(T x) {
    constexpr T a = T(-0.75);
    if constexpr (order == 0) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if constexpr (order == 1) return (3 * (a + 2) * x - 2 * (a + 3)) * x;
    if constexpr (order == 2) return 6 * (a + 2) * x - 2 * (a + 3);
    if constexpr (order == 3) return 6 * (a + 2);
    return 0;
}
template <int order, class T> CALOR_GRID_INLINE T cubic_far(T x) {
    constexpr T a = T(-0.75);
    if constexpr (order == 0) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    if constexpr (order == 1) return (3 * a * x - 10 * a) * x + 8 * a;
    if constexpr (order == 2) return 6 * a * x - 10 * a;
    if constexpr (order == 3) return 6 * a;
    return 0;
}

/// The first tap of u.
template <GridMode mode, class T> CALOR_GRID_INLINE T first_tap(T u) {
    if constexpr (mode == GridMode::nearest) return std::rint(u);
    if constexpr (mode == GridMode::linear) return std::floor(u);
    return std::floor(u) - 1;
}

/// Weights of the taps from first_tap(u) on, differentiated `order` times by g.
template <GridMode mode, int order, class T> CALOR_GRID_INLINE void tap_weights(const Place<T>& p, T* weights) {
    T factor = 1;
    for (int i = 0; i < order; ++i) factor *= p.slope;
    if constexpr (mode == GridMode::nearest) {
        weights[0] = order == 0 ? T(1) : T(0);
    } else if constexpr (mode == GridMode::linear) {
        const T t = p.at - std::floor(p.at);
        weights[0] = order == 0 ? 1 - t : order == 1 ? -factor : T(0);
        weights[1] = order == 0 ? t : order == 1 ? factor : T(0);
    } else {
        const T t = p.at - std::floor(p.at), mirrored = order % 2 == 0 ? factor : -factor;
        weights[0] = cubic_far<order>(t + 1) * factor;
        weights[1] = cubic_near<order>(t) * factor;
        weights[2] = cubic_near<order>(1 - t) * mirrored;
        weights[3] = cubic_far<order>(2 - t) * mirrored;
    }
}

/// Calls f(integral_constant<int, order>) for orders 0 to 3, and with 4 for all above, whose weights are 0.
template <class F> CALOR_GRID_INLINE void with_order(std::int64_t order, const F& f) {
    switch (order) {
        case 0: return f(std::integral_constant<int, 0>());
        case 1: return f(std::integral_constant<int, 1>());
        case 2: return f(std::integral_constant<int, 2>());
        case 3: return f(std::integral_constant<int, 3>());
        default: return f(std::integral_constant<int, 4>());
    }
}
template <class F> CALOR_GRID_INLINE void with_mode(GridMode mode, const F& f) {
    switch (mode) {
        case GridMode::nearest: return f(std::integral_constant<GridMode, GridMode::nearest>());
        case GridMode::linear: return f(std::integral_constant<GridMode, GridMode::linear>());
        case GridMode::cubic: return f(std::integral_constant<GridMode, GridMode::cubic>());
    }
}
template <class F> CALOR_GRID_INLINE void with_padding(GridMode mode, GridPadding padding, const F& f) {
    if (mode == GridMode::cubic) padding = GridPadding::zeros;
    switch (padding) {
        case GridPadding::zeros: return f(std::integral_constant<GridPadding, GridPadding::zeros>());
        case GridPadding::border: return f(std::integral_constant<GridPadding, GridPadding::border>());
        case GridPadding::reflection: return f(std::integral_constant<GridPadding, GridPadding::reflection>());
    }
}

/// The element that tap i of an axis reads; -1: none. Only cubic sampling pads its taps.
inline std::int64_t tap_index(GridMode mode, GridPadding padding, bool align, std::int64_t size, std::int64_t i) {
    if (i >= 0 && i < size) return i;
    if (mode != GridMode::cubic || padding == GridPadding::zeros) return -1;
    if (padding == GridPadding::border) return i < 0 ? 0 : size - 1;
    const std::int64_t period = align ? 2 * (size - 1) : 2 * size;
    if (period == 0) return 0;
    const std::int64_t at = ((i % period) + period) % period;
    return at < size ? at : period - at - (align ? 0 : 1);
}

}  // namespace calor::ops::grid
