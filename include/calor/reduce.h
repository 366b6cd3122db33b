// Reductions over any axes. An empty list of axes means all of them.
#pragma once

#include "calor/tensor.h"

namespace calor {

/// Sum over `axes`. f16 and bf16 accumulate in f32; integers wrap, bool counts in i64.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());

}  // namespace calor
