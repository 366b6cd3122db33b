// Conversions of contiguous tiles between any two of the 13 dtypes.
//   float -> int    truncates toward zero and saturates; NaN gives 0
//   int -> int      wraps (keeps the low bits)
//   anything -> bool  is x != 0; NaN gives true, -0.0 gives false
//   anything -> f16, bf16, f32  rounds once, to nearest, ties to even; NaN stays NaN
#pragma once

#include <cstdint>

#include "calor/dtype.h"
#include "device/elementwise.h"

namespace calor::cpu {

/// Kernel that converts in[0] (`from`, n elements) to out (`to`); never null. params is not read. `out` may equal in[0]
/// exactly when both dtypes have the same size. from == to is a plain copy.
TileKernel find_convert(DType from, DType to);

/// Kernel that converts `from` to f32 for a later conversion to f16 or bf16: what f32 cannot hold is rounded to odd
/// (toward zero, the last bit set), so that the two steps give the value rounded once.
TileKernel find_widen(DType from);

/// find_convert with the instruction sets in `targets` (a mask of Highway's target bits): tests compare them.
TileKernel find_convert_for(std::int64_t targets, DType from, DType to);

}  // namespace calor::cpu
