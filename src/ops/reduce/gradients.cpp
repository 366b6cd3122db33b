// Gradient rules of the reductions. Inputs have shape x, outputs keep reduced axes with size 1, g is the cotangent.
#include <cmath>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/reduce.h"
#include "calor/view.h"
#include "ops/reduce/operations.h"

namespace calor::ops {

using graph::GradContext;

/// dx = g
void sum_gradient(const GradContext& c) { c.grads[0] = expand(c.cotangent(), c.inputs[0].shape(), c.where); }

/// dx = g / n
void mean_gradient(const GradContext& c) {
    const double n = reduced_count(c.inputs[0].shape(), c.attrs<ReduceAttributes>().axes);
    c.grads[0] = expand(div(c.cotangent(), n, c.where), c.inputs[0].shape(), c.where);
}

/// dx = g / k for the k elements that equal the result
void extreme_gradient(const GradContext& c) {
    const Tensor &x = c.inputs[0], &y = c.outputs[0];
    const Tensor chosen =
        logical_or(eq(x, y, c.where), logical_and(isnan(x, c.where), isnan(y, c.where), c.where), c.where);
    const Tensor count = sum(chosen, c.attrs<ReduceAttributes>().axes, true, c.where);
    const Tensor share = div(c.cotangent(), count.to(compute_type(x.dtype()), c.where), c.where);
    c.grads[0] = where(chosen, share, 0, c.where);
}

/// dx = g exp(x - y); a result of -inf is constant
void logsumexp_gradient(const GradContext& c) {
    const Tensor &x = c.inputs[0], &y = c.outputs[0];
    const Tensor empty = eq(y, -HUGE_VAL, c.where);
    const Tensor safe = where(empty, 0, y, c.where), g = where(empty, 0, c.cotangent(), c.where);
    c.grads[0] = mul(g, exp(sub(x, safe, c.where), c.where), c.where);
}

/// dx = 2 g (x - mean) / (n - correction)
void var_gradient(const GradContext& c) {
    const Tensor& x = c.inputs[0];
    const auto& a = c.attrs<ReduceAttributes>();
    const double left = std::fmax(0.0, reduced_count(x.shape(), a.axes) - a.parameter);
    const Tensor centred = sub(x, mean(x, a.axes, true, c.where), c.where);
    c.grads[0] = mul(mul(c.cotangent(), 2 / left, c.where), centred, c.where);
}

/// dx = g (x - mean) / ((n - correction) y), 0 where y = 0
void std_gradient(const GradContext& c) {
    const Tensor &x = c.inputs[0], &y = c.outputs[0];
    const auto& a = c.attrs<ReduceAttributes>();
    const double left = std::fmax(0.0, reduced_count(x.shape(), a.axes) - a.parameter);
    const Tensor flat = eq(y, 0, c.where);
    const Tensor scale =
        where(flat, 0, div(c.cotangent(), mul(where(flat, 1, y, c.where), left, c.where), c.where), c.where);
    c.grads[0] = mul(scale, sub(x, mean(x, a.axes, true, c.where), c.where), c.where);
}

/// p = 1: g sign x. p = 2: g x / y, 0 where y = 0. p = +-inf: g sign x / k for the k elements with |x| = y
void norm_gradient(const GradContext& c) {
    const Tensor &x = c.inputs[0], &y = c.outputs[0], g = c.cotangent();
    const auto& a = c.attrs<ReduceAttributes>();
    if (a.parameter == 1) {
        c.grads[0] = mul(g, sign(x, c.where), c.where);
    } else if (a.parameter == 2) {
        const Tensor none = eq(y, 0, c.where);
        c.grads[0] = mul(where(none, 0, div(g, where(none, 1, y, c.where), c.where), c.where), x, c.where);
    } else {
        const Tensor chosen = eq(abs(x, c.where), y, c.where);
        const Tensor count = sum(chosen, a.axes, true, c.where).to(compute_type(x.dtype()), c.where);
        c.grads[0] = where(chosen, mul(div(g, count, c.where), sign(x, c.where), c.where), 0, c.where);
    }
}

namespace {

/// Halves along the last axis, and the odd element that is left over (undefined when there is none).
struct Halves {
    Tensor first, second, rest;
    std::int64_t half = 0;
};
Halves halve(const Tensor& t, const Where& where) {
    const std::int64_t n = t.size(-1), half = n / 2;
    Halves h{narrow(t, -1, 0, half, where), narrow(t, -1, half, half, where), {}, half};
    if (n % 2) h.rest = narrow(t, -1, n - 1, 1, where);
    return h;
}

/// g prod_{j != i} x_j for every i along the last axis of x, by a tree of products: no division, so zeros are no
/// special case.
Tensor products_of_others(const Tensor& x, const Tensor& g, const Where& where) {
    std::vector<Halves> levels;
    Tensor up = x;
    while (up.size(-1) > 1) {
        levels.push_back(halve(up, where));
        const Halves& h = levels.back();
        up = mul(h.first, h.second, where);
        if (h.rest.defined()) up = concat({up, h.rest}, -1, where);
    }
    Tensor down = g;
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
        const Tensor above = narrow(down, -1, 0, level->half, where);
        std::vector<Tensor> parts{mul(above, level->second, where), mul(above, level->first, where)};
        if (level->rest.defined()) parts.push_back(narrow(down, -1, level->half, 1, where));
        down = concat(parts, -1, where);
    }
    return down;
}

}  // namespace

/// dx_i = g prod_{j != i} x_j
void prod_gradient(const GradContext& c) {
    const Tensor& x = c.inputs[0];
    const Axes& reduced = c.attrs<ReduceAttributes>().axes;
    if (x.numel() == 0) {
        c.grads[0] = zeros(x.shape(), x.dtype(), c.where);
        return;
    }
    Axes order, back(x.rank(), 0);
    Shape kept;
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        if (std::ranges::find(reduced, a) != reduced.end()) continue;
        order.push_back(a);
        kept.push_back(x.shape()[a]);
    }
    for (const std::int64_t a : reduced) order.push_back(a);
    for (std::int64_t i = 0; i < order.rank(); ++i) back[order[i]] = i;
    const Tensor moved = permute(x.to(compute_type(x.dtype()), c.where), order, c.where);
    const Shape shape = moved.shape();
    kept.push_back(-1);
    const Tensor g = reshape(c.cotangent().to(compute_type(x.dtype()), c.where), kept, c.where);
    const Tensor others = products_of_others(reshape(moved, kept, c.where), g, c.where);
    c.grads[0] = permute(reshape(others, shape, c.where), back, c.where);
}

}  // namespace calor::ops
