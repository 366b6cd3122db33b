// Convolution on GPUs: implementations for CUDA and OpenCL.
#pragma once

#include "ops/conv/conv.h"

namespace calor::ops::conv {

// One channel a group, up to 7 taps along each of up to three axes, without strides and dilations: a thread a column.
const char* depthwise_gpu_why_not(Role role, const graph::Call& call);
void run_depthwise_gpu(Role role, const graph::Call& call);
// Through a vendor's library.
const char* vendor_gpu_why_not(Role role, const graph::Call& call);
void run_vendor_gpu(Role role, const graph::Call& call);
// Fewer than 8 channels a group, up to 3 spatial axes: one thread, or one group of threads, a result.
const char* direct_gpu_why_not(Role role, const graph::Call& call);
void run_direct_gpu(Role role, const graph::Call& call);
// An implicit product of matrices in tiles.
const char* tiles_gpu_why_not(Role role, const graph::Call& call);
void run_tiles_gpu(Role role, const graph::Call& call);
// Everything.
void run_reference_gpu(Role role, const graph::Call& call);

/// The bias gradient of a weight gradient: sums of gy, one a channel.
void run_bias_grad_gpu(const graph::Call& call, const View& gy, const View& bias);
/// Whether there is nothing to multiply; the results are then complete.
bool without_products_gpu(Role role, const graph::Call& call);
/// What sums of this dtype run in: f32 for halves, unsigned for integers.
DType sum_type(DType result);
/// The dtype to read an operand in: where results are as wide, the sign of integers makes no difference.
DType read_type(DType operand, DType result);

}  // namespace calor::ops::conv
