// Ranges of several axes, and the operation that is the adjoint of taking them: a tensor placed into a larger one that
// is filled with a constant. slice and place are each other's gradients, so that both have gradients of any order.
#pragma once

#include "ops/support.h"

namespace calor::ops {

/// Entry i of an axis of the smaller tensor is entry start + i * step of the larger one's.
struct Ranges {
    Shape shape;  ///< of the result: the smaller tensor for slice, the larger one for place
    Dims starts, steps;
    friend bool operator==(const Ranges&, const Ranges&) = default;
};

/// Attributes of pad and slice_grad.
struct PlaceAttributes {
    Ranges ranges;
    std::uint64_t value = 0;  ///< the bytes of one element
    friend bool operator==(const PlaceAttributes&, const PlaceAttributes&) = default;
};

/// The entries of x at the ranges: a view.
Tensor take_ranges(const Tensor& x, const Ranges& ranges, const Where& where);
/// Zeros of shape ranges.shape with x at the ranges.
Tensor place_ranges(const Tensor& x, const Ranges& ranges, const Where& where);
/// The same around an element given by its bytes.
Tensor place_in_constant(const Tensor& x, const Ranges& ranges, std::uint64_t bits, const Where& where);

void place_on_gpu(const graph::Call& call);

}  // namespace calor::ops
