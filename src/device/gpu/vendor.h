// What device vendors' libraries do for contractions: cuBLASLt for matrix products and cuDNN for convolutions, both
// opened at run time. Functions that ask refuse on devices without such a library; all choices that change a result's
// bits are functions of the problem, the device and the library's version.
#pragma once

#include <string_view>

#include "device/cpu/conv_types.h"
#include "device/device.h"

namespace calor::gpu {

/// c[..., m, n] = a[..., m, k] b[..., k, n] (+ bias[n]). Batch axes of size 1 in a or b broadcast; c is dense.
struct MatmulProblem {
    View a, b, c;
    const View* bias = nullptr;
};
/// Null when the library takes the problem, else why not.
const char* vendor_matmul_why_not(Backend& backend, const MatmulProblem& problem);
/// Throws std::runtime_error with what the library said.
void vendor_matmul(Backend& backend, const MatmulProblem& problem, std::string_view operation, const Where& where);

using ConvRole = cpu::ConvRole;
/// Operands of a convolution in one of its roles. All activations lie channels-last, or all lie plain, and the weight
/// like them: [out, in / groups, kernel...] or [out, kernel..., in / groups] in memory, all dense.
struct ConvProblem {
    ConvRole role = ConvRole::forward;
    View x, w, y;
    const View* bias = nullptr;  ///< added by forward and input_grad
    const cpu::ConvSettings* settings = nullptr;
    bool channels_last = false;
};
/// Null when the library has a deterministic algorithm for it, else why not. Only dtypes, sizes and `channels_last`
/// count, not where the operands lie.
const char* vendor_conv_why_not(Backend& backend, const ConvProblem& problem);
/// Throws std::runtime_error with what the library said.
void vendor_conv(Backend& backend, const ConvProblem& problem, std::string_view operation, const Where& where);

}  // namespace calor::gpu
