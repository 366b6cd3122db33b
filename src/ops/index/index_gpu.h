// What the index operations share on GPUs.
#pragma once

#include "ops/gpu.h"
#include "ops/index/indices.h"

namespace calor::index {

/// An unsigned dtype of an element's size: what is only moved.
DType carrier(DType dtype);

/// The check that all indices lie in [0, size). Kernels that were launched between its making and finish() met indices
/// out of range, which they pass over.
class RangeCheck {
public:
    RangeCheck(const graph::Call& call, const View& indices, std::int64_t axis, std::int64_t size);
    /// Throws ValueError [index/range] for the first index in row-major order that is outside.
    void finish();

private:
    const graph::Call& call_;
    const View& indices_;
    std::int64_t axis_, size_, groups_ = 0;
    Ref<Storage> firsts_;
};

/// y[..] = x[.., indices[..], ..], 0 for the index `skip` unless it is negative; y is dense.
void launch_gather(const graph::Call& call, const View& x, const View& indices, const View& y, std::int64_t axis,
                   std::int64_t skip = -1);

/// Strides with that of one axis set to 0.
inline Strides without(const Strides& strides, std::int64_t axis) {
    Strides s = strides;
    s[axis] = 0;
    return s;
}
/// A walk over operands in row-major order.
inline gpu::Walk row_major(const Shape& shape, std::initializer_list<const Strides*> operands) {
    return gpu::join_axes(shape, std::span(operands.begin(), operands.size()), contiguous_strides(shape));
}

}  // namespace calor::index
