// Sampling at given places: grid_sample reads a tensor between its elements, affine_grid makes the places of an affine
// map. Any number of spatial axes from 1 to 8.
//
// Coordinates are normalised: -1 and 1 are the two ends of an axis. With align_corners they are the centres of its
// first and last element, else the outer edges of these. Along an axis of `size` elements a coordinate g lies at
//   u = (g + 1) (size - 1) / 2        with align_corners
//   u = ((g + 1) size - 1) / 2        without
// The last axis of a grid holds one coordinate a spatial axis, in the order of PyTorch: the first belongs to the last
// spatial axis (x, y, z for an input [N, C, z, y, x]).
#pragma once

#include "calor/tensor.h"

namespace calor {

enum class GridMode : std::uint8_t {
    nearest,  ///< the element nearest to u; halves go to the even index. The gradient to the grid is 0
    linear,   ///< between the 2 neighbours along each axis
    cubic     ///< the 4 neighbours along each axis, cubic convolution with a = -0.75 (Keys, IEEE ASSP 29, 1981)
};

/// What lies outside of the input.
enum class GridPadding : std::uint8_t {
    zeros,
    border,     ///< the nearest element
    reflection  ///< the input mirrored, again and again: at the centres of the outer elements with align_corners, else
                ///< at their edges
};

struct GridSampleOptions {
    GridMode mode = GridMode::linear;
    GridPadding padding = GridPadding::zeros;
    bool align_corners = false;
};

/// y[n, c, p] = the input x[n, c] at the place grid[n, p]: x [N, C, sizes...], grid [N, positions..., R] for R spatial
/// axes -> [N, C, positions...]. There may be any number of position axes, at least one. A coordinate NaN counts as -1
/// and has no gradient; infinite ones are far outside (reflected, they count as the first element). Places are computed
/// in f32, or in f64 for an f64 input. Differentiable in x and grid, to any order; on the kinks of linear sampling the
/// derivative is the one toward larger u. The gradient to x adds the contributions of the positions in row-major
/// order: the same bits for any number of threads. Workspace: the samples of x (or of its gradient) that are worked on,
/// in f32 or f64: one, or as many as fit in 8 MiB.
///
/// x is of a floating dtype; the grid is of the same or f32. Throws ShapeError [grid/rank], [grid/coordinates],
/// [grid/batch], [grid/empty], DTypeError [dtype/unsupported], [dtype/mismatch].
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {},
                   const Where& where = Where::current());

/// The grid [N, size..., R] of an affine map theta [N, R, R + 1]: the coordinates of position p are theta[n] (q, 1)
/// with q the normalised coordinates of p on an axis-aligned grid of `size`, in the order of a grid's last axis.
/// Floating dtypes; differentiable. Throws ShapeError [grid/theta], DTypeError [dtype/unsupported], ValueError
/// [shape/negative], [shape/overflow].
Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false,
                   const Where& where = Where::current());

}  // namespace calor
