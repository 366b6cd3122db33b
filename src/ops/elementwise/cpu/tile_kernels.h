// CPU loops ("tile kernels") of the elementwise operations: which exist, and what they promise.
//
// - A result depends on the element's values alone: not on n, not on its place in the tile.
// - Tiles are dense. `out` may equal an input whose elements have the same size, exactly; else they are apart.
// - Comparisons, logical_* and isnan, isinf, isfinite write bool; `where` reads in[0] as bool, in[1] and in[2] as
// `compute`.
//   Logical operations and conditions take every byte (value) other than 0 as true.
// - Integers wrap in their storage type. floor_divide and remainder round toward minus infinity, fmod keeps the sign of
// the
//   dividend; by zero all three give 0. pow with a negative exponent is the exact value cut to 0 where it isn't an
//   integer: 1, -1 or 0 (and 0 for the base 0). A shift count that is negative or reaches the width gives 0, or -1 for
//   shift_right of a negative number.
// - NaN in, NaN out, also through relu, clamp, minimum and maximum. Exceptions follow C: pow(1, NaN), pow(NaN, 0) = 1,
//   hypot(inf, NaN) = inf; and xlogy(0, y) = 0 for every y that isn't NaN.
// - Parameters: leaky_relu(slope), elu(alpha), celu(alpha), softplus(beta, threshold), hardtanh(low, high), clamp(low,
// high),
//   softshrink(lambda), hardshrink(lambda), threshold(threshold, value).
// - f32 results are within 2 units in the last place of the exact value for almost all operations and never beyond 4,
// those
//   of f64 within 4.6; the tests hold the bound of each.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "calor/dtype.h"
#include "device/elementwise.h"

namespace calor {

/// The loop of operation `name` for tiles of `compute` (never f16 or bf16), or null when the operation isn't defined
/// for it.
TileKernel find_tile_kernel(std::string_view name, DType compute);

namespace cpu {

/// As find_tile_kernel, with the instruction sets in `targets` (Highway's target bits); slower. For tests.
TileKernel find_tile_kernel_for(std::int64_t targets, std::string_view name, DType compute);

/// Names of all operations with a kernel, each once, in no order that means anything.
std::vector<std::string_view> tile_kernel_names();

}  // namespace cpu
}  // namespace calor
