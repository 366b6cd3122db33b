// Shape and gradient rules of normalize. With r = 1 / sqrt(variance + epsilon), x' = (x - mean) r, M = mean over the
// group and c = g weight:
//   gx      = P(c) = r (c - M(c) - x' M(c x'))         (without M(c) when not centred)
//   gweight = sum(g x'), gbias = sum(g)
// P is linear and symmetric in c. For cotangents U of gx, V of gweight, W of gbias, normalize_grad has the gradients
//   dg = weight P(U) + V x' + W
//   dweight = sum(g P(U))
//   dx = P(V g) - r (x' M(U gx) + M(c x') P(U) + M(U x') gx)
// where dx includes the dependence through mean and variance: these two inputs are but carried along.
#include "ops/norm/normalize.h"

#include "calor/elementwise.h"
#include "calor/reduce.h"
#include "calor/view.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace calor::ops {
namespace {

using graph::GradContext;

graph::Specs infer_normalize(const graph::InferContext& c) {
    const Tensor& x = c.inputs[0];
    const auto& attributes = c.attrs<NormAttributes>();
    Shape shape = grouped_shape(x.shape(), attributes.channel_groups);
    for (const std::int64_t a : attributes.axes) shape[a] = 1;
    const DType wide = compute_type(x.dtype());
    return {{x.shape(), x.dtype()}, {shape, wide}, {shape, wide}};
}

graph::Specs infer_normalize_grad(const graph::InferContext& c) {
    const auto& a = c.attrs<NormAttributes>();
    graph::Specs specs{{c.inputs[1].shape(), c.inputs[1].dtype()}};
    if (a.affine_gradients) {
        specs.push_back({a.affine, compute_type(c.inputs[1].dtype())});
        specs.push_back({a.affine, compute_type(c.inputs[1].dtype())});
    }
    return specs;
}

/// Calls run with views of x, y and their cotangents whose channel axis is split, when there are groups.
template <auto run> auto with_groups(const graph::Call& c) {
    const std::int64_t groups = c.attrs<NormAttributes>().channel_groups;
    if (groups == 0) return run(c);
    std::vector<Shape> shapes;
    std::vector<Strides> strides;
    shapes.reserve(c.inputs.size() + c.outputs.size());
    strides.reserve(shapes.capacity());
    const std::int64_t rank = c.outputs[0].rank();  // statistics and weights already have one axis more
    const auto split = [&](std::span<const View> views) {
        std::vector<View> all(views.begin(), views.end());
        for (View& v : all) {
            if (v.rank() != rank) continue;
            shapes.push_back(grouped_shape(*v.shape, groups));
            strides.push_back(*v.strides);
            strides.back().insert(1, v.stride(1) * shapes.back()[2]);
            v.shape = &shapes.back();
            v.strides = &strides.back();
        }
        return all;
    };
    const std::vector<View> inputs = split(c.inputs), outputs = split(c.outputs);
    return run({c.operation, c.attributes, inputs, outputs, c.backend, c.where});
}

const graph::Implementation grad_implementations[] = {
    {.name = "lanes", .why_not = with_groups<why_not_fast>, .run = with_groups<fast_normalize_grad>},
    {.name = "reference", .run = with_groups<reference_normalize_grad>}};
const graph::Implementation implementations[] = {
    {.name = "lanes", .why_not = with_groups<why_not_fast>, .run = with_groups<fast_normalize>},
    {.name = "reference", .run = with_groups<reference_normalize>}};

const graph::Implementation grad_on_gpu[] = {{.name = "reference", .run = with_groups<gpu_normalize_grad>}};
const graph::Implementation on_gpu[] = {{.name = "reference", .run = with_groups<gpu_normalize>}};

void normalize_grad_gradient(const GradContext& c);

const graph::Operation normalize_grad_operation{
    .name = "normalize_grad",
    .infer = infer_normalize_grad,
    .gradient = normalize_grad_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(grad_implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(grad_on_gpu); },
    .format = format_of_input};

/// gx (and gweight, gbias as further results). The cotangent takes the dtype of x.
Tensor normalize_grad(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& variance,
                      const Tensor& weight, NormAttributes a, const Where& where) {
    a.weight = weight.defined();
    a.bias = false;
    if (!a.weight && !a.affine_gradients) a.affine = {};
    const Tensor like = g.to(x.dtype(), where);
    if (!a.weight) return graph::record(normalize_grad_operation, a, {like, x, mean, variance}, where);
    return graph::record(normalize_grad_operation, a, {like, x, mean, variance, weight}, where);
}

Tensor scale_of(const Tensor& variance, double epsilon, const Where& where) {
    return rsqrt(add(variance, epsilon, where), where);
}

/// a + b where either may be undefined.
Tensor plus(const Tensor& a, const Tensor& b, const Where& where) {
    if (!a.defined() || !b.defined()) return a.defined() ? a : b;
    return add(a, b, where);
}

/// The channel axis split into groups, and back.
Tensor grouped(const Tensor& t, const NormAttributes& a, const Where& where) {
    return a.channel_groups == 0 || !t.defined() ? t : reshape(t, grouped_shape(t.shape(), a.channel_groups), where);
}
Tensor joined(const Tensor& t, const Shape& shape, const Where& where) {
    return !t.defined() || t.rank() == shape.rank() ? t : reshape(t, shape, where);
}

void normalize_grad_gradient(const GradContext& c) {
    const auto& a = c.attrs<NormAttributes>();
    const Where& at = c.where;
    const Shape& shape = c.inputs[1].shape();
    const Tensor g = grouped(c.inputs[0], a, at), x = grouped(c.inputs[1], a, at), u = grouped(c.cotangents[0], a, at);
    const Tensor &mean_ = c.inputs[2], &variance = c.inputs[3];
    const Tensor weight = a.weight ? c.inputs[4] : Tensor();
    const Tensor v = a.affine_gradients ? c.cotangents[1] : Tensor(),
                 w = a.affine_gradients ? c.cotangents[2] : Tensor();
    NormAttributes plain = a;
    plain.affine_gradients = false;
    const auto p = [&](const Tensor& of) {
        return grouped(normalize_grad(joined(of, shape, at), c.inputs[1], mean_, variance, {}, plain, at), a, at);
    };
    const auto group_mean = [&](const Tensor& t) { return mean(t, a.axes, true, at); };
    const Tensor r = scale_of(variance, a.epsilon, at), hat = mul(sub(x, mean_, at), r, at);
    const Tensor pu = u.defined() ? p(u) : Tensor();
    if (c.needs[0]) {
        Tensor dg = u.defined() && a.weight ? mul(weight, pu, at) : pu;
        if (v.defined()) dg = plus(dg, mul(v, hat, at), at);
        if (w.defined()) dg = plus(dg, expand(w, x.shape(), at), at);
        c.grads[0] = joined(dg, shape, at);
    }
    if (a.weight && c.needs[4] && u.defined()) c.grads[4] = mul(g, pu, at);
    if (!c.needs[1]) return;
    Tensor dx = v.defined() ? p(mul(v, g, at)) : Tensor();
    if (u.defined()) {
        const Tensor gx = grouped(c.outputs[0], a, at);
        const Tensor cotangent = a.weight ? mul(g, weight, at) : g;
        const Tensor first = mul(hat, group_mean(mul(u, gx, at)), at);
        const Tensor second = mul(group_mean(mul(cotangent, hat, at)), pu, at);
        const Tensor third = mul(group_mean(mul(u, hat, at)), gx, at);
        dx = plus(dx, neg(mul(r, add(add(first, second, at), third, at), at), at), at);
    }
    c.grads[1] = joined(dx, shape, at);
}

/// The part of dx that comes through the statistics: gmean / n + gvariance 2 (x - mean) / n.
Tensor statistics_gradient(const GradContext& c, const NormAttributes& a) {
    const Tensor x = grouped(c.inputs[0], a, c.where);
    double count = 1;
    for (const std::int64_t axis : a.axes) count *= static_cast<double>(x.shape()[axis]);
    Tensor dx;
    if (c.cotangents[1].defined() && a.centred) {
        dx = expand(div(c.cotangents[1], count, c.where), x.shape(), c.where);
    }
    if (c.cotangents[2].defined()) {
        const Tensor slope = mul(sub(x, c.outputs[1], c.where), 2 / count, c.where);
        dx = plus(dx, mul(c.cotangents[2], slope, c.where), c.where);
    }
    return joined(dx, c.inputs[0].shape(), c.where);
}

void normalize_gradient(const GradContext& c) {
    auto a = c.attrs<NormAttributes>();
    const std::size_t weight_at = 1, bias_at = a.weight ? 2 : 1;
    if (c.cotangents[0].defined()) {
        const bool weight_needed = a.weight && c.needs[weight_at], bias_needed = a.bias && c.needs[bias_at];
        const Tensor weight = a.weight ? c.inputs[weight_at] : Tensor();
        a.affine_gradients = weight_needed || bias_needed;
        const Tensor gx = normalize_grad(c.cotangents[0], c.inputs[0], c.outputs[1], c.outputs[2], weight, a, c.where);
        if (c.needs[0]) c.grads[0] = gx;
        if (weight_needed) c.grads[weight_at] = graph::result(gx, 1);
        if (bias_needed) c.grads[bias_at] = graph::result(gx, 2);
    }
    if (c.needs[0]) c.grads[0] = plus(c.grads[0], statistics_gradient(c, a), c.where);
}

const graph::Operation normalize_operation{
    .name = "normalize",
    .infer = infer_normalize,
    .gradient = normalize_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(on_gpu); },
    .format = format_of_input};

/// y = (x - mean) r weight + bias with given statistics: every input is an operand of elementwise operations.
void normalize_given_gradient(const GradContext& c) {
    const auto& a = c.attrs<NormAttributes>();
    const Where& at = c.where;
    const std::size_t weight_at = 3, bias_at = a.weight ? 4 : 3;
    const Tensor g = c.cotangent(), r = scale_of(c.inputs[2], a.epsilon, at);
    const Tensor hat = mul(sub(c.inputs[0], c.inputs[1], at), r, at);
    const Tensor scaled = mul(g, a.weight ? mul(r, c.inputs[weight_at], at) : r, at);
    if (c.needs[0]) c.grads[0] = scaled;
    if (c.needs[1]) c.grads[1] = neg(scaled, at);
    if (c.needs[2]) c.grads[2] = mul(mul(scaled, hat, at), mul(r, -0.5, at), at);
    if (a.weight && c.needs[weight_at]) c.grads[weight_at] = mul(g, hat, at);
    if (a.bias && c.needs[bias_at]) c.grads[bias_at] = g;
}

const graph::Operation normalize_given_operation{
    .name = "normalize_given",
    .infer =
        [](const graph::InferContext& c) {
            return graph::Specs{{c.inputs[0].shape(), c.inputs[0].dtype()}};
        },
    .gradient = normalize_given_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(on_gpu); },
    .format = format_of_input};

Tensor record_forward(const graph::Operation& op, std::vector<Tensor> inputs, const Tensor& weight, const Tensor& bias,
                      NormAttributes a, const Where& where) {
    a.weight = weight.defined();
    a.bias = bias.defined();
    if (a.weight || a.bias) a.affine = (a.weight ? weight : bias).shape();
    if (a.weight) inputs.push_back(weight);
    if (a.bias) inputs.push_back(bias);
    return graph::record(op, a, inputs, where);
}

}  // namespace

Shape grouped_shape(const Shape& x, std::int64_t channel_groups) {
    if (channel_groups == 0) return x;
    Shape shape = x;
    shape[1] /= channel_groups;
    shape.insert(1, channel_groups);
    return shape;
}

Tensor normalize(const Tensor& x, const Tensor& weight, const Tensor& bias, NormAttributes a, const Where& where) {
    return record_forward(normalize_operation, {x}, weight, bias, std::move(a), where);
}

Tensor normalize_given(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& weight,
                       const Tensor& bias, NormAttributes a, const Where& where) {
    a.given = true;
    return record_forward(normalize_given_operation, {x, mean, variance}, weight, bias, std::move(a), where);
}

Descriptors norm_descriptors() { return {&normalize_operation, &normalize_grad_operation, &normalize_given_operation}; }

}  // namespace calor::ops
