// softmax and log_softmax with their gradients as operations; every gradient rule is made of these and of elementwise
// ones.
#include "calor/softmax.h"

#include <cmath>

#include "calor/elementwise.h"
#include "calor/reduce.h"
#include "ops/registry.h"
#include "ops/softmax/cpu/softmax_kernels.h"
#include "ops/softmax/softmax_gpu.h"
#include "ops/support.h"

namespace calor {
namespace {

using graph::GradContext;
using ops::SoftmaxKernel;

struct SoftmaxAttributes {
    SoftmaxKernel kind = SoftmaxKernel::softmax;
    std::int64_t axis = 0;
    friend bool operator==(const SoftmaxAttributes&, const SoftmaxAttributes&) = default;
};

graph::Specs infer(const graph::InferContext& c) { return {{c.inputs[0].shape(), c.inputs[0].dtype()}}; }

void run_fast(const graph::Call& c) {
    const auto& a = c.attrs<SoftmaxAttributes>();
    const View& out = c.outputs[0];
    ops::run_lines(c.inputs, out, a.axis, ops::find_softmax_kernels(a.kind, out.dtype));
}

/// One line of the reference. x is the input or the result, g the cotangent.
void line(SoftmaxKernel kind, const std::vector<double>& x, const std::vector<double>& g, std::vector<double>& out) {
    const std::size_t n = x.size();
    double top = -HUGE_VAL, sum = 0;
    const bool forward = kind == SoftmaxKernel::softmax || kind == SoftmaxKernel::log_softmax;
    for (std::size_t i = 0; i < n; ++i) top = std::isnan(x[i]) || std::isnan(top) ? NAN : std::fmax(top, x[i]);
    for (std::size_t i = 0; i < n; ++i) {
        if (forward) sum += std::exp(x[i] - top);
        if (!forward) sum += kind == SoftmaxKernel::softmax_grad ? x[i] * g[i] : g[i];
    }
    for (std::size_t i = 0; i < n; ++i) {
        switch (kind) {
            case SoftmaxKernel::softmax: out[i] = std::exp(x[i] - top) / sum; break;
            case SoftmaxKernel::log_softmax: out[i] = x[i] - top - std::log(sum); break;
            case SoftmaxKernel::softmax_grad: out[i] = x[i] * (g[i] - sum); break;
            case SoftmaxKernel::log_softmax_grad: out[i] = g[i] - std::exp(x[i]) * sum; break;
        }
    }
}

template <class T> void reference(const graph::Call& c) {
    const auto& a = c.attrs<SoftmaxAttributes>();
    const View& out = c.outputs[0];
    const std::int64_t n = out.size(a.axis), rank = out.rank();
    std::vector<double> x(static_cast<std::size_t>(n)), g(x), y(x);
    Dims index(rank, 0);
    const auto offset = [&](const View& v) {
        std::int64_t at = 0;
        for (std::int64_t i = 0; i < rank; ++i) at += index[i] * v.stride(i);
        return at;
    };
    const std::int64_t lines = out.count() == 0 ? 0 : out.count() / n;
    for (std::int64_t l = 0; l < lines; ++l) {
        for (std::int64_t k = 0; k < n; ++k) {
            const auto i = static_cast<std::size_t>(k);
            x[i] = static_cast<double>(c.inputs[0].as<T>()[offset(c.inputs[0]) + k * c.inputs[0].stride(a.axis)]);
            if (c.inputs.size() > 1)
                g[i] = static_cast<double>(c.inputs[1].as<T>()[offset(c.inputs[1]) + k * c.inputs[1].stride(a.axis)]);
        }
        line(a.kind, x, g, y);
        for (std::int64_t k = 0; k < n; ++k) {
            T& to = out.as<T>()[offset(out) + k * out.stride(a.axis)];
            if constexpr (std::is_same_v<T, double>) to = y[static_cast<std::size_t>(k)];
            if constexpr (!std::is_same_v<T, double>)
                to = static_cast<T>(static_cast<float>(y[static_cast<std::size_t>(k)]));
        }
        for (std::int64_t i = rank - 1; i >= 0; --i) {
            if (i == a.axis) continue;
            if (++index[i] < out.size(i)) break;
            index[i] = 0;
        }
    }
}

void run_reference(const graph::Call& c) {
    switch (c.outputs[0].dtype) {
        case f64: return reference<double>(c);
        case f32: return reference<float>(c);
        case f16: return reference<float16>(c);
        case bf16: return reference<bfloat16>(c);
        default: fail_internal("softmax of a dtype that was not converted");
    }
}

const graph::Implementation implementations[] = {{.name = "lanes", .run = run_fast},
                                                 {.name = "reference", .run = run_reference}};

const graph::Implementation gpu_implementations[] = {{.name = "reference", .run = [](const graph::Call& c) {
                                                          const auto& a = c.attrs<SoftmaxAttributes>();
                                                          ops::softmax_on_gpu(c, a.kind, a.axis);
                                                      }}};

constexpr graph::Operation operation(std::string_view name, void (*gradient)(const GradContext&),
                                     std::uint32_t traits = graph::none) {
    graph::Operation op;
    op.name = name;
    op.traits = traits;
    op.infer = infer;
    op.gradient = gradient;
    op.implementations = [](DeviceKind) { return std::span<const graph::Implementation>(implementations); };
    op.gpu_implementations = [] { return std::span<const graph::Implementation>(gpu_implementations); };
    op.format = ops::format_of_input;
    return op;
}

Tensor softmax_grad(const Tensor& y, const Tensor& g, std::int64_t axis, const Where& where);
Tensor log_softmax_grad(const Tensor& y, const Tensor& g, std::int64_t axis, const Where& where);

/// z = y (g - s), s = sum(g y). For the cotangent u: dg = y (u - sum(u y)), dy = u (g - s) - g sum(u y).
void softmax_grad_gradient(const GradContext& c) {
    const std::int64_t axis = c.attrs<SoftmaxAttributes>().axis;
    const Tensor &y = c.inputs[0], &g = c.inputs[1], u = c.cotangent();
    if (c.needs[0]) {
        const Tensor s = sum(mul(g, y, c.where), {axis}, true, c.where),
                     t = sum(mul(u, y, c.where), {axis}, true, c.where);
        c.grads[0] = sub(mul(u, sub(g, s, c.where), c.where), mul(g, t, c.where), c.where);
    }
    if (c.needs[1]) c.grads[1] = softmax_grad(y, u, axis, c.where);
}

/// z = g - exp(y) s, s = sum(g). For the cotangent u: dg = u - sum(u exp y), dy = -u exp(y) s.
void log_softmax_grad_gradient(const GradContext& c) {
    const std::int64_t axis = c.attrs<SoftmaxAttributes>().axis;
    const Tensor weighted = mul(c.cotangent(), exp(c.inputs[0], c.where), c.where);
    if (c.needs[0]) c.grads[0] = neg(mul(weighted, sum(c.inputs[1], {axis}, true, c.where), c.where), c.where);
    if (c.needs[1]) c.grads[1] = sub(c.cotangent(), sum(weighted, {axis}, true, c.where), c.where);
}

constinit const graph::Operation softmax_grad_operation = operation("softmax_grad", softmax_grad_gradient);
constinit const graph::Operation log_softmax_grad_operation = operation("log_softmax_grad", log_softmax_grad_gradient);

Tensor softmax_grad(const Tensor& y, const Tensor& g, std::int64_t axis, const Where& where) {
    return graph::record(softmax_grad_operation, SoftmaxAttributes{SoftmaxKernel::softmax_grad, axis}, {y, g}, where);
}
Tensor log_softmax_grad(const Tensor& y, const Tensor& g, std::int64_t axis, const Where& where) {
    return graph::record(log_softmax_grad_operation, SoftmaxAttributes{SoftmaxKernel::log_softmax_grad, axis}, {y, g},
                         where);
}

constinit const graph::Operation softmax_operation = operation("softmax", [](const GradContext& c) {
    c.grads[0] = softmax_grad(c.outputs[0], c.cotangent(), c.attrs<SoftmaxAttributes>().axis, c.where);
});
constinit const graph::Operation log_softmax_operation = operation("log_softmax", [](const GradContext& c) {
    c.grads[0] = log_softmax_grad(c.outputs[0], c.cotangent(), c.attrs<SoftmaxAttributes>().axis, c.where);
});

Tensor record_softmax(const graph::Operation& op, SoftmaxKernel kind, const Tensor& x, std::int64_t axis,
                      const Where& where) {
    ops::check_defined(op.name, x, "the tensor", where);
    const std::int64_t at = ops::normalize_axis(op.name, axis, x.rank(), where);
    return graph::record(op, SoftmaxAttributes{kind, at}, {is_floating(x.dtype()) ? x : x.to(f32, where)}, where);
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t axis, const Where& where) {
    const Naming naming("softmax");
    return record_softmax(softmax_operation, SoftmaxKernel::softmax, x, axis, where);
}

Tensor log_softmax(const Tensor& x, std::int64_t axis, const Where& where) {
    const Naming naming("log_softmax");
    return record_softmax(log_softmax_operation, SoftmaxKernel::log_softmax, x, axis, where);
}

ops::Descriptors ops::softmax_descriptors() {
    return {&softmax_operation, &softmax_grad_operation, &log_softmax_operation, &log_softmax_grad_operation};
}

}  // namespace calor
