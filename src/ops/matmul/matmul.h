// The matmul family inside: one operation on operands of equal rank >= 2, c[..., M, N] = a[..., M, K] b[..., K, N] +
// bias[N], where batch axes of size 1 broadcast. With `transposed`, b lies as [..., N, K] (the weight of a linear
// layer).
#pragma once

#include "ops/support.h"

namespace calor::ops::matmul {

struct Attributes {
    bool transposed = false;
    bool bias = false;
    friend bool operator==(const Attributes&, const Attributes&) = default;
};

/// The operands of a call with b as [..., K, N]: views whose shapes and strides live here.
struct Operands {
    explicit Operands(const graph::Call& call);
    Shape b_shape;
    Strides b_strides;
    View a, b, c;
    const View* bias = nullptr;
    std::int64_t m = 0, n = 0, k = 0;
};

// Implementations, fastest first.
const char* small_why_not(const graph::Call& call);
void run_small(const graph::Call& call);
const char* onednn_why_not(const graph::Call& call);
void run_onednn(const graph::Call& call);
void run_gemm(const graph::Call& call);
void run_reference(const graph::Call& call);
/// Those for CUDA and OpenCL devices.
std::span<const graph::Implementation> gpu_implementations();

}  // namespace calor::ops::matmul
