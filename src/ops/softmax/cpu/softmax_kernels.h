// Kernels of softmax, log-softmax and their gradients.
#pragma once

#include "ops/softmax/lines.h"

namespace calor::ops {

enum class SoftmaxKernel : std::uint8_t { softmax, log_softmax, softmax_grad, log_softmax_grad };

const LineKernels& find_softmax_kernels(SoftmaxKernel kind, bool wide);

}  // namespace calor::ops
