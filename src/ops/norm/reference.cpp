// The reference of normalize and its gradient: whole passes over the elements in f64.
#include <cmath>
#include <vector>

#include "core/fail.h"
#include "ops/norm/normalize.h"

namespace calor::ops {
namespace {

double load(const View& v, std::int64_t at) {
    switch (v.dtype) {
        case f64: return v.as<double>()[at];
        case f32: return v.as<float>()[at];
        case f16: return v.as<float16>()[at];
        case bf16: return v.as<bfloat16>()[at];
        default: fail_internal("a norm of a dtype that was not converted");
    }
}
void store(const View& v, std::int64_t at, double value) {
    switch (v.dtype) {
        case f64: v.as<double>()[at] = value; return;
        case f32: v.as<float>()[at] = static_cast<float>(value); return;
        case f16: v.as<float16>()[at] = float16(static_cast<float>(value)); return;
        case bf16: v.as<bfloat16>()[at] = bfloat16(static_cast<float>(value)); return;
        default: fail_internal("a norm of a dtype that was not converted");
    }
}

/// The offset of an index in a view that repeats axes of size 1.
std::int64_t offset(const View& v, const Dims& index) {
    std::int64_t at = 0;
    for (std::int64_t a = 0; a < v.rank(); ++a) at += v.size(a) == 1 ? 0 : index[a] * v.stride(a);
    return at;
}
/// The row-major position in a tensor of this shape that repeats axes of size 1.
std::size_t position(const Shape& shape, const Dims& index) {
    std::int64_t at = 0;
    for (std::int64_t a = 0; a < shape.rank(); ++a) at = at * shape[a] + (shape[a] == 1 ? 0 : index[a]);
    return static_cast<std::size_t>(at);
}

template <class F> void each(const Shape& shape, const F& body) {
    Dims index(shape.rank(), 0);
    for (std::int64_t i = 0, n = numel(shape); i < n; ++i) {
        body(index);
        for (std::int64_t a = shape.rank() - 1; a >= 0 && ++index[a] == shape[a]; --a) index[a] = 0;
    }
}

double group_count(const Shape& shape, const Axes& axes) {
    double n = 1;
    for (const std::int64_t a : axes) n *= static_cast<double>(shape[a]);
    return n;
}

/// Mean and variance of every group.
void measure(const View& x, const NormAttributes& a, const Shape& groups, std::vector<double>& means,
             std::vector<double>& squares) {
    const double n = group_count(*x.shape, a.axes);
    if (a.centred) each(*x.shape, [&](const Dims& i) { means[position(groups, i)] += load(x, offset(x, i)) / n; });
    each(*x.shape, [&](const Dims& i) {
        const double d = load(x, offset(x, i)) - means[position(groups, i)];
        squares[position(groups, i)] += d * d / n;
    });
}

}  // namespace

void reference_normalize(const graph::Call& c) {
    const auto& a = c.attrs<NormAttributes>();
    const View &x = c.inputs[0], &y = c.outputs[0];
    const View &mean = a.given ? c.inputs[1] : c.outputs[1], &variance = a.given ? c.inputs[2] : c.outputs[2];
    const Shape &shape = *x.shape, &groups = *mean.shape;
    std::vector<double> means(static_cast<std::size_t>(numel(groups)), 0.0), squares(means);
    if (a.given) {
        each(groups, [&](const Dims& i) {
            means[position(groups, i)] = load(mean, offset(mean, i));
            squares[position(groups, i)] = load(variance, offset(variance, i));
        });
    } else {
        measure(x, a, groups, means, squares);
        each(groups, [&](const Dims& i) {
            store(mean, offset(mean, i), means[position(groups, i)]);
            store(variance, offset(variance, i), squares[position(groups, i)]);
        });
    }
    const std::size_t weight_at = a.given ? 3 : 1, bias_at = weight_at + (a.weight ? 1 : 0);
    each(shape, [&](const Dims& i) {
        const std::size_t group = position(groups, i);
        double value = (load(x, offset(x, i)) - means[group]) / std::sqrt(squares[group] + a.epsilon);
        if (a.weight) value *= load(c.inputs[weight_at], offset(c.inputs[weight_at], i));
        if (a.bias) value += load(c.inputs[bias_at], offset(c.inputs[bias_at], i));
        store(y, offset(y, i), value);
    });
}

void reference_normalize_grad(const graph::Call& c) {
    const auto& a = c.attrs<NormAttributes>();
    const View &g = c.inputs[0], &x = c.inputs[1], &mean = c.inputs[2], &variance = c.inputs[3], &gx = c.outputs[0];
    const Shape &shape = *x.shape, &groups = *mean.shape;
    const double n = group_count(shape, a.axes);
    const auto cotangent = [&](const Dims& i) {
        const double v = load(g, offset(g, i));
        return a.weight ? v * load(c.inputs[4], offset(c.inputs[4], i)) : v;
    };
    const auto scale = [&](const Dims& i) { return 1 / std::sqrt(load(variance, offset(variance, i)) + a.epsilon); };
    const auto hat = [&](const Dims& i) { return (load(x, offset(x, i)) - load(mean, offset(mean, i))) * scale(i); };
    std::vector<double> first(static_cast<std::size_t>(numel(groups)), 0.0), second(first);
    each(shape, [&](const Dims& i) {
        if (a.centred) first[position(groups, i)] += cotangent(i) / n;
        second[position(groups, i)] += cotangent(i) * hat(i) / n;
    });
    each(shape, [&](const Dims& i) {
        const std::size_t group = position(groups, i);
        store(gx, offset(gx, i), scale(i) * (cotangent(i) - first[group] - hat(i) * second[group]));
    });
    if (!a.affine_gradients) return;
    std::vector<double> weight(static_cast<std::size_t>(numel(a.affine)), 0.0), bias(weight);
    each(shape, [&](const Dims& i) {
        weight[position(a.affine, i)] += load(g, offset(g, i)) * hat(i);
        bias[position(a.affine, i)] += load(g, offset(g, i));
    });
    each(a.affine, [&](const Dims& i) {
        store(c.outputs[1], offset(c.outputs[1], i), weight[position(a.affine, i)]);
        store(c.outputs[2], offset(c.outputs[2], i), bias[position(a.affine, i)]);
    });
}

}  // namespace calor::ops
