// The convolution family inside: one set of attributes for its three roles, and their implementations.
//   forward      x [N, C, sizes...], w [O, C/g, kernel...] (, bias [O]) -> y [N, O, positions...]
//   input_grad   gy, w (, bias [C]) -> gx
//   weight_grad  x, gy -> gw (, gbias)
#pragma once

#include "device/cpu/conv_types.h"
#include "ops/window.h"

namespace calor::ops::conv {

struct Attributes {
    Window window;
    std::int64_t groups = 1;
    Dims sizes;         ///< spatial sizes of x
    bool bias = false;  ///< forward and input_grad add one; weight_grad gives its gradient as a second result
    friend bool operator==(const Attributes&, const Attributes&) = default;
};

using Role = cpu::ConvRole;

/// The operands of a call by their meaning, whatever the role.
struct Operands {
    const View &x, &w, &y;
    const View* bias;  ///< one number a channel of the result, or weight_grad's bias gradient; null for none
};
Operands operands(Role role, const graph::Call& call);

/// Throws ShapeError [conv/empty] for a spatial axis of size 0.
void check_not_empty(std::string_view operation, std::string_view what, const Dims& sizes, std::int64_t axis,
                     const Where& where);

/// The rules behind the public functions.
Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias, Attributes attributes, const Where& where);
Tensor input_grad(const Tensor& gy, const Tensor& w, const Attributes& attributes, const Where& where);
/// input_grad under its other name, with a bias (or an undefined one).
Tensor transposed(const Tensor& x, const Tensor& w, const Tensor& bias, Attributes attributes, const Where& where);
Tensor weight_grad(const Tensor& x, const Tensor& gy, Attributes attributes, bool with_bias, const Where& where);
void forward_gradient(const graph::GradContext& c);
void input_grad_gradient(const graph::GradContext& c);
void weight_grad_gradient(const graph::GradContext& c);

// Implementations. `direct_first`, `planar` and `winograd` refuse where others are expected to be faster.
const char* gemm_first_why_not(Role role, const graph::Call& call);
const char* direct_first_why_not(Role role, const graph::Call& call);
const char* direct_why_not(Role role, const graph::Call& call);
void run_direct(Role role, const graph::Call& call);
const char* planar_why_not(Role role, const graph::Call& call);
void run_planar(Role role, const graph::Call& call);
const char* winograd_why_not(Role role, const graph::Call& call);
void run_winograd(Role role, const graph::Call& call);
const char* onednn_why_not(Role role, const graph::Call& call);
void run_onednn(Role role, const graph::Call& call);
/// Whether no product goes into the results (which are then written): positions may be absurdly many where the batch
/// is empty.
bool without_products(Role role, const graph::Call& call);
void run_gemm(Role role, const graph::Call& call);
void run_reference(Role role, const graph::Call& call);

/// How activations should lie.
graph::Format result_format(Role role, const graph::Call& call);

}  // namespace calor::ops::conv
