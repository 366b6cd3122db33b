// normalize: the operation behind every norm. Groups are the elements that differ only along `axes`; weight and bias
// have the rank of x and size 1 where they repeat.
// With `channel_groups` the channel axis of x counts as two, groups and channels of a group, for axes, statistics,
// weight and bias; x itself is not reshaped, so that it keeps its memory format.
//   normalize       x, [weight], [bias] -> y, mean, variance (axes of size 1)
//   normalize_given x, mean, variance, [weight], [bias] -> y
//   normalize_grad  g, x, mean, variance, [weight] -> gx, [gweight, gbias]
#pragma once

#include "graph/operation.h"

namespace calor::ops {

struct NormAttributes {
    Axes axes = {};  ///< sorted, in range
    double epsilon = 1e-5;
    std::int64_t channel_groups = 0;    ///< 0: the axes of x are what they are
    bool centred = true;                ///< false: the mean is taken for 0
    bool weight = false, bias = false;  ///< which inputs there are
    Shape affine = {};                  ///< their shape; of the gradients when `affine_gradients`
    bool given = false;                 ///< normalize_given: the statistics are inputs
    bool affine_gradients = false;      ///< normalize_grad: results gweight and gbias exist
    friend bool operator==(const NormAttributes&, const NormAttributes&) = default;
};

/// The shape of x with its channels in groups.
Shape grouped_shape(const Shape& x, std::int64_t channel_groups);

/// Records normalize.
Tensor normalize(const Tensor& x, const Tensor& weight, const Tensor& bias, NormAttributes attributes,
                 const Where& where);

/// Records normalize_given; mean and variance have the rank of x and size 1 on the axes.
Tensor normalize_given(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& weight,
                       const Tensor& bias, NormAttributes attributes, const Where& where);

// Implementations.
const char* why_not_fast(const graph::Call& c);
void fast_normalize(const graph::Call& c);
void fast_normalize_grad(const graph::Call& c);
void reference_normalize(const graph::Call& c);
void reference_normalize_grad(const graph::Call& c);
void gpu_normalize(const graph::Call& c);
void gpu_normalize_grad(const graph::Call& c);

}  // namespace calor::ops
