// Products of matrices and vectors.
#pragma once

#include "calor/tensor.h"

namespace calor {

/// Matrix product over the last two axes, [..., M, K] x [..., K, N] -> [..., M, N]; leading (batch) axes broadcast. A
/// tensor of rank 1 is a row on the left ([K] -> [1, K]) and a column on the right, and the result loses that axis. K =
/// 0 gives zeros. Floats and integers of one dtype: f16 and bf16 accumulate in f32, integers wrap. Throws ShapeError
/// [matmul/inner], [shape/rank] (a scalar), [shape/broadcast], DTypeError [dtype/mismatch], [dtype/unsupported].
Tensor matmul(const Tensor& a, const Tensor& b, const Where& where = Where::current());

/// x w' + bias: x [..., in], weight [out, in], bias [out] or undefined -> [..., out]. Throws ShapeError [matmul/inner],
/// [shape/rank], [shape/mismatch], DTypeError [dtype/mismatch], [dtype/unsupported].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Where& where = Where::current());

/// Sum of the products of two vectors, [K] x [K] -> a scalar. Throws ShapeError [shape/rank], [matmul/inner].
Tensor dot(const Tensor& a, const Tensor& b, const Where& where = Where::current());

/// All products of two vectors, [M] x [N] -> [M, N]. Throws ShapeError [shape/rank].
Tensor outer(const Tensor& a, const Tensor& b, const Where& where = Where::current());

}  // namespace calor
