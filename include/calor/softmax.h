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

/// -log_softmax(logits)[class] along `axis`: the loss of each sample, with the shape of `classes`, which is that of the
/// logits without the axis. Reads the logits once, and once more for the gradient softmax(logits) - [class]. Half types
/// give f32. Throws ValueError [axis/range], [index/range] for a class that does not exist (when evaluated),
/// [tensor/undefined], ShapeError [shape/mismatch], DTypeError [dtype/unsupported] for logits that are not floating or
/// classes that are not integers.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& classes, std::int64_t axis = -1,
                             const Where& where = Where::current());

}  // namespace calor
