// How the public functions record a reduction.
#pragma once

#include "graph/operation.h"
#include "ops/reduce/reduction.h"

namespace calor::ops {

/// Shape rule of every reduction: reduced axes keep size 1. Throws ValueError [reduce/empty].
graph::Specs infer_reduction(const graph::InferContext& c);
/// The implementations of every reduction: the engine, then the reference.
std::span<const graph::Implementation> reduction_implementations(DeviceKind kind);
/// Those on GPUs.
std::span<const graph::Implementation> reduction_on_gpu();
/// Records `op` over the axes and drops them unless `keepdims`.
Tensor record_reduction(const graph::Operation& op, Reduction kind, const Tensor& x, const Axes& axes, bool keepdims,
                        double parameter, const Where& where);
/// x with a floating dtype: integers and bool become f32.
Tensor to_floating(std::string_view operation, const Tensor& x, const Where& where);
/// How many elements are reduced to one.
double reduced_count(const Shape& shape, const Axes& axes);

void reference_reduction(const graph::Call& c);

// Gradient rules.
void sum_gradient(const graph::GradContext& c);
void mean_gradient(const graph::GradContext& c);
void prod_gradient(const graph::GradContext& c);
void extreme_gradient(const graph::GradContext& c);
void logsumexp_gradient(const graph::GradContext& c);
void var_gradient(const graph::GradContext& c);
void std_gradient(const graph::GradContext& c);
void norm_gradient(const graph::GradContext& c);

}  // namespace calor::ops
