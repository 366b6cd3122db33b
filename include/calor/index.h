// Reading and writing by index tensors. Indices are integers of any dtype (not bool), from 0 on: negative ones are
// errors. Every index is checked when the operation runs: ValueError [index/range] at the line of the call, before
// anything is written. Sums run in the order of the indices for any number of threads. Every operation is
// differentiable in its values, to any order.
#pragma once

#include <optional>

#include "calor/tensor.h"

namespace calor {

/// y[.., i, ..] = x[.., indices[.., i, ..], ..] along one axis. The ranks agree; on other axes `indices` is no longer
/// than x. The result has the shape of `indices`. Throws DTypeError [dtype/unsupported], ShapeError [shape/rank],
/// [shape/mismatch], [axis/range].
Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& indices, const Where& where = Where::current());
/// gather() with the other axes of x and `indices` broadcast against each other, as NumPy's. Throws as gather(),
/// [shape/broadcast].
Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis = -1,
                       const Where& where = Where::current());
/// x with x[.., indices[.., i, ..], ..] = values[.., i, ..]. `values` broadcasts to the shape of `indices` and has the
/// dtype of x. When several values meet at one place the last one in row-major order stays; only it has a gradient.
/// Throws as gather(), [dtype/mismatch], [shape/broadcast].
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& values,
               const Where& where = Where::current());
/// x with values added where scatter() writes; all that meet at one place add up. f16 and bf16 sum in f32 and round
/// once. Not for bool. Throws as scatter().
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& values,
                   const Where& where = Where::current());

/// The entries of an axis at `indices`, of rank 1 (or 0 for one entry that keeps its axis). Throws DTypeError
/// [dtype/unsupported], ShapeError [shape/rank], [axis/range].
Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& indices, const Where& where = Where::current());
/// x with values[.., k, ..] added at entry indices[k] of an axis; `values` has the shape of x but for that axis, where
/// it has one entry an index, and its dtype. f16 and bf16 sum in f32 and round once. Not for bool. Throws as
/// index_select(), [shape/mismatch], [dtype/mismatch].
Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& values,
                 const Where& where = Where::current());

/// Rows of a table: weight [count, width...], indices [..] -> [.., width...]. The row `padding` (which may count from
/// the end) gets no gradient. Throws DTypeError [dtype/unsupported], ShapeError [shape/rank], ValueError [index/range].
Tensor embedding(const Tensor& weight, const Tensor& indices, std::optional<std::int64_t> padding = std::nullopt,
                 const Where& where = Where::current());
/// One at the index and zero elsewhere along a new last axis of `classes` entries. Not differentiable.
/// Throws DTypeError [dtype/unsupported], ValueError [value/option] for a negative number of classes.
Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype = f32, const Where& where = Where::current());

/// The indices of the elements that are not zero, in row-major order: i64 [count, rank]. Evaluates x: the shape depends
/// on it.
Tensor nonzero(const Tensor& x, const Where& where = Where::current());
/// The elements where a bool mask is true, in row-major order: [count]. Both broadcast against each other. Evaluates
/// the mask. Throws DTypeError [dtype/unsupported], ShapeError [shape/broadcast].
Tensor masked_select(const Tensor& x, const Tensor& mask, const Where& where = Where::current());
/// x with `value` (a number or a tensor that broadcasts) where a bool mask is true. Throws as masked_select().
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value, const Where& where = Where::current());

}  // namespace calor
