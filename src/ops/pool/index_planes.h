// Values and the i64 positions in their plane (the flattened spatial axes of one sample's channel) that they belong to:
//   scatter_add   y[n, c, i[p]] += v[p]         and its adjoint  gather       v[p] = y[n, c, i[p]]
//   scatter_set   y[n, c, i[p]] = v[p], the last stays, and its adjoint  gather_last   0 for values that did not stay
#pragma once

#include "ops/support.h"

namespace calor::ops::pool {

enum class PlaneKind : std::uint8_t { add, set, gather, gather_last };
/// The operations on GPUs.
void planes_on_gpu(PlaneKind kind, const graph::Call& call);
[[noreturn]] void fail_range(const graph::Call& c, std::int64_t index, std::int64_t position, std::int64_t size);

/// Sums at the positions that `indices` name, zeros elsewhere: [N, C, positions...] -> [N, C, sizes...]. The indices
/// are right: they come from pooling.
Tensor add_to_planes(const Tensor& values, const Tensor& indices, const Dims& sizes, const Where& where);
/// The values at the positions, zeros elsewhere; of several at one position the last stays. Indices out of range fail
/// with [index/range] when it runs.
Tensor set_in_planes(const Tensor& values, const Tensor& indices, const Dims& sizes, const Where& where);

}  // namespace calor::ops::pool
