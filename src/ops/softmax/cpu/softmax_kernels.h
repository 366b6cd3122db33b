// Kernels of softmax, log-softmax and their gradients.
#pragma once

#include "ops/softmax/lines.h"

namespace calor::ops {

enum class SoftmaxKernel : std::uint8_t { softmax, log_softmax, softmax_grad, log_softmax_grad };

/// The same lines for the cross entropy with one class a line.
struct CrossEntropyKernels {
    double (*logsumexp)(const void* x, std::int64_t n) = nullptr;
    /// gx = g exp(x - sum)
    void (*scaled_softmax)(const void* x, void* gx, std::int64_t n, double sum, double g) = nullptr;
};
const CrossEntropyKernels& find_cross_entropy_kernels(bool wide);

const LineKernels& find_softmax_kernels(SoftmaxKernel kind, DType dtype);

}  // namespace calor::ops
