// Views: the same elements under another shape. They alias the input's memory where strides allow.
#pragma once

#include "calor/tensor.h"

namespace calor {

/// The elements in row-major order under another shape; one size may be -1. Throws ShapeError [reshape/size].
Tensor reshape(const Tensor& x, const Shape& shape, const Where& where = Where::current());
/// Stretches axes of size 1 (and adds leading axes) to `shape` without copying. Throws ShapeError [shape/broadcast].
Tensor expand(const Tensor& x, const Shape& shape, const Where& where = Where::current());
/// Reorders axes: result axis i is input axis axes[i]. Throws ValueError [axis/range], [axis/duplicate], [value/count].
Tensor permute(const Tensor& x, const Axes& axes, const Where& where = Where::current());

}  // namespace calor
