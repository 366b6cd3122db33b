// Making tensors: constants, ranges, identity.
#pragma once

#include "calor/tensor.h"

namespace calor {

/// A tensor filled with a number. Throws ValueError [value/scalar] when the dtype cannot hold it, [shape/negative], [shape/overflow].
Tensor full(const Shape& shape, Scalar value, DType dtype = f32, const Where& where = Where::current());
Tensor zeros(const Shape& shape, DType dtype = f32, const Where& where = Where::current());
Tensor ones(const Shape& shape, DType dtype = f32, const Where& where = Where::current());
/// Zeros or ones with the shape, dtype and device of another tensor.
Tensor zeros_like(const Tensor& other, const Where& where = Where::current());
Tensor ones_like(const Tensor& other, const Where& where = Where::current());

}  // namespace calor
