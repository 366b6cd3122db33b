// Softmax and its relatives on GPUs.
#pragma once

#include "graph/operation.h"
#include "ops/softmax/cpu/softmax_kernels.h"

namespace calor::ops {

void softmax_on_gpu(const graph::Call& c, SoftmaxKernel kind, std::int64_t axis);
/// Inputs x, classes; results losses and sums. Throws IndexError [index/range].
void cross_entropy_on_gpu(const graph::Call& c, std::int64_t axis);
/// Inputs x, classes, sums, g.
void cross_entropy_grad_on_gpu(const graph::Call& c, std::int64_t axis);

}  // namespace calor::ops
