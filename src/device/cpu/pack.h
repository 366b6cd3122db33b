// Copies between an array of any strides (f32, bf16 or f16) and a dense f32 array: what the contractions do with
// operands that an implementation cannot read or write where they lie.
#pragma once

#include "device/view.h"

namespace calor::cpu {

/// Strides of a dense array whose axes lie in the order of `strides` (by magnitude, ties as in row-major order).
Strides dense_like(const Shape& shape, const Strides& strides);
/// Positive strides under which no two elements share a place, judged axis by axis (a sufficient condition).
bool is_regular(const Shape& shape, const Strides& strides);

/// to[i] = from[i]; exact.
void pack(const View& from, float* to, const Strides& to_strides);
/// to[i] = from[i], rounded to nearest even.
void unpack(const float* from, const Strides& from_strides, const View& to);

}  // namespace calor::cpu
