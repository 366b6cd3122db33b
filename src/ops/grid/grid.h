// The sampling family inside: three roles that are closed under differentiation. With weights W_d(g) that are
// products over the axes of the d[a]-th derivatives of the interpolation weights by the coordinate,
//   sample  x, g -> y       y[n, c, p] = sum over taps t of W_d(g[n, p])[t] x[n, c, t]
//   spread  h, g -> gx      its adjoint in x: gx[n, c, t] = sum over p of W_d(g[n, p])[t] h[n, c, p]
//   slope   x, g, h -> gg   gg[n, p, a] = sum over c of h[n, c, p] sample with d[a] + 1
// Every gradient of one is made of the three.
#pragma once

#include "calor/grid.h"
#include "ops/support.h"

namespace calor::ops::grid {

inline constexpr std::int64_t most_axes = 8;

enum class Role : std::uint8_t { sample, spread, slope };

struct Attributes {
    GridMode mode = GridMode::linear;
    GridPadding padding = GridPadding::zeros;
    bool align_corners = false;
    bool pixels = false;  ///< coordinates are u itself, in the order of the spatial axes; NaN is outside
    Dims sizes;           ///< spatial sizes of x
    Dims orders;          ///< d, one a spatial axis
    friend bool operator==(const Attributes&, const Attributes&) = default;
};

/// Which entry of a grid's last axis belongs to spatial axis a.
inline std::int64_t component(const Attributes& a, std::int64_t axis) {
    return a.pixels ? axis : a.sizes.rank() - 1 - axis;
}
/// Elements that an axis takes part with.
inline std::int64_t taps_per_axis(GridMode mode) {
    return mode == GridMode::nearest ? 1 : mode == GridMode::linear ? 2 : 4;
}
/// The largest order whose weights are not all zero.
inline std::int64_t highest_order(GridMode mode) {
    return mode == GridMode::nearest ? 0 : mode == GridMode::linear ? 1 : 3;
}

/// The roles as recorded operations, for gradient rules and for deformable convolution.
Tensor sample(const Tensor& x, const Tensor& g, const Attributes& attributes, const Where& where);
Tensor spread(const Tensor& h, const Tensor& g, const Attributes& attributes, const Where& where);
Tensor slope(const Tensor& x, const Tensor& g, const Tensor& h, const Attributes& attributes, const Where& where);

// Implementations.
void run_fast(Role role, const graph::Call& call);
void run_reference(Role role, const graph::Call& call);

}  // namespace calor::ops::grid
