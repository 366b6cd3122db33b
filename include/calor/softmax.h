// Softmax along an axis.
#pragma once

#include "calor/tensor.h"

namespace calor {

/// exp(x) / sum(exp(x)) along `axis`, computed around the largest element so that nothing overflows. f16 and bf16 are
/// computed in f32; integers and bool become f32. A line of only -inf, or with an inf or NaN in it, gives NaN, as the
/// formula says. Throws ValueError [axis/range], [tensor/undefined].
Tensor softmax(const Tensor& x, std::int64_t axis = -1, const Where& where = Where::current());
/// x - log(sum(exp(x))) along `axis`, as softmax.
Tensor log_softmax(const Tensor& x, std::int64_t axis = -1, const Where& where = Where::current());

}  // namespace calor
