// Gradients of the three roles. With <y, u> = sum(y * u), all three are one trilinear form
//   <conv(x, w), gy> = <x, input_grad(gy, w)> = <w, weight_grad(x, gy)>,
// so each one's gradient is made of the other two. The bias adds <bias, sum of gy over all but channels>.
#include "calor/conv.h"
#include "calor/elementwise.h"
#include "calor/reduce.h"
#include "calor/view.h"
#include "ops/conv/conv.h"

namespace calor::ops::conv {
namespace {

/// The sum of gy over everything but its channels.
Tensor bias_grad(const Tensor& gy, const Where& where) {
    Axes axes;
    for (std::int64_t a = 0; a < gy.rank(); ++a) {
        if (a != 1) axes.push_back(a);
    }
    return sum(gy, axes, false, where);
}

}  // namespace

void forward_gradient(const graph::GradContext& c) {
    const auto& attributes = c.attrs<Attributes>();
    const Tensor gy = c.cotangent();
    const bool bias = attributes.bias && c.needs[2];
    if (c.needs[0]) c.grads[0] = input_grad(gy, c.inputs[1], attributes, c.where);
    if (c.needs[1]) {
        c.grads[1] = weight_grad(c.inputs[0], gy, attributes, bias, c.where);
        if (bias) c.grads[2] = graph::result(c.grads[1], 1);
    } else if (bias) {
        c.grads[2] = bias_grad(gy, c.where);
    }
}

void input_grad_gradient(const graph::GradContext& c) {
    const auto& attributes = c.attrs<Attributes>();
    const Tensor u = c.cotangent();
    if (c.needs[0]) c.grads[0] = forward(u, c.inputs[1], {}, attributes, c.where);
    if (c.needs[1]) c.grads[1] = weight_grad(u, c.inputs[0], attributes, false, c.where);
    if (attributes.bias && c.needs[2]) c.grads[2] = bias_grad(u, c.where);
}

void weight_grad_gradient(const graph::GradContext& c) {
    const auto& attributes = c.attrs<Attributes>();
    const Tensor u = c.cotangent(0);
    if (c.needs[0]) c.grads[0] = input_grad(c.inputs[1], u, attributes, c.where);
    if (c.needs[1]) {
        const bool bias = attributes.bias && c.cotangents[1].defined();
        c.grads[1] = forward(c.inputs[0], u, bias ? c.cotangents[1] : Tensor(), attributes, c.where);
    }
}

}  // namespace calor::ops::conv
