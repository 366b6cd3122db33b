// Products of small f32 matrices, for which calling a library costs more than the arithmetic.
#pragma once

#include "device/view.h"

namespace calor::cpu {

/// Null when small_matmul() runs this and is expected to be faster than the rest. a [M, K], b [K, N], c [M, N] (batch
/// axes of size 1 before them), bias [N] or null; any strides in a and b, adjacent columns in c.
const char* small_matmul_why_not(const View& a, const View& b, const View* bias, const View& c);
/// c = a b + bias; sums run over K in order.
void small_matmul(const View& a, const View& b, const View* bias, const View& c);

}  // namespace calor::cpu
