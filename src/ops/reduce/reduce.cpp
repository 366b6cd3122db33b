// The reductions as operations: sum, mean, products, extremes, truth, log-sum-exp, variance.
#include "calor/reduce.h"

#include <algorithm>
#include <cmath>

#include "calor/view.h"
#include "ops/reduce/engine.h"
#include "ops/reduce/operations.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace calor {
namespace ops {
namespace {

DType result_dtype(Reduction kind, DType x) {
    switch (kind) {
        case Reduction::argmax:
        case Reduction::argmin: return i64;
        case Reduction::any:
        case Reduction::all: return boolean;
        case Reduction::sum: return x == boolean ? i64 : x;
        default: return x;
    }
}

bool needs_elements(const ReduceAttributes& a) {
    switch (a.kind) {
        case Reduction::max:
        case Reduction::min:
        case Reduction::argmax:
        case Reduction::argmin: return true;
        case Reduction::norm: return std::isinf(a.parameter);
        default: return false;
    }
}

const graph::Implementation implementations[] = {
    {.name = "lanes",
     .run = [](const graph::Call& c) { reduce_into(c.inputs[0], c.outputs[0], c.attrs<ReduceAttributes>()); }},
    {.name = "reference", .run = reference_reduction}};

}  // namespace

graph::Specs infer_reduction(const graph::InferContext& c) {
    const auto& a = c.attrs<ReduceAttributes>();
    Shape shape = c.inputs[0].shape();
    for (const std::int64_t axis : a.axes) {
        if (shape[axis] == 0 && needs_elements(a)) {
            fail("reduce/empty", c.operation, c.where, {{"axis", axis}, {"shape", c.inputs[0].shape()}},
                 describe(c.inputs[0]));
        }
        shape[axis] = 1;
    }
    return {{shape, result_dtype(a.kind, c.inputs[0].dtype())}};
}

std::span<const graph::Implementation> reduction_implementations(DeviceKind) { return implementations; }

Tensor record_reduction(const graph::Operation& op, Reduction kind, const Tensor& x, const Axes& axes, bool keepdims,
                        double parameter, const Where& where) {
    check_defined(op.name, x, "the tensor", where);
    const Axes over = normalize_axes(op.name, axes, x.rank(), where);
    const Tensor reduced = graph::record(op, ReduceAttributes{kind, over, parameter}, {x}, where);
    if (keepdims || over.empty()) return reduced;
    Shape shape;
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        if (std::ranges::find(over, a) == over.end()) shape.push_back(x.shape()[a]);
    }
    return reshape(reduced, shape, where);
}

Tensor to_floating(std::string_view operation, const Tensor& x, const Where& where) {
    check_defined(operation, x, "the tensor", where);
    return is_floating(x.dtype()) ? x : x.to(f32, where);
}

double reduced_count(const Shape& shape, const Axes& axes) {
    double count = 1;
    for (const std::int64_t a : axes) count *= static_cast<double>(shape[a]);
    return count;
}

}  // namespace ops

namespace {

using ops::Reduction;

constexpr graph::Operation reduction(std::string_view name, void (*gradient)(const graph::GradContext&),
                                     std::uint32_t traits = 0) {
    graph::Operation op;
    op.name = name;
    op.traits = graph::reduction | traits;
    op.infer = ops::infer_reduction;
    op.gradient = gradient;
    op.implementations = ops::reduction_implementations;
    op.gpu_implementations = ops::reduction_on_gpu;
    return op;
}

constinit const graph::Operation sum_operation = reduction("sum", ops::sum_gradient, graph::linear);
constinit const graph::Operation mean_operation = reduction("mean", ops::mean_gradient, graph::linear);
constinit const graph::Operation prod_operation = reduction("prod", ops::prod_gradient);
constinit const graph::Operation max_operation = reduction("max", ops::extreme_gradient);
constinit const graph::Operation min_operation = reduction("min", ops::extreme_gradient);
constinit const graph::Operation argmax_operation = reduction("argmax", nullptr);
constinit const graph::Operation argmin_operation = reduction("argmin", nullptr);
constinit const graph::Operation any_operation = reduction("any", nullptr);
constinit const graph::Operation all_operation = reduction("all", nullptr);
constinit const graph::Operation count_nonzero_operation = reduction("count_nonzero", nullptr);
constinit const graph::Operation logsumexp_operation = reduction("logsumexp", ops::logsumexp_gradient);
constinit const graph::Operation var_operation = reduction("var", ops::var_gradient);
constinit const graph::Operation std_operation = reduction("std", ops::std_gradient);

Tensor truth(std::string_view operation, const Tensor& x, const Where& where) {
    ops::check_defined(operation, x, "the tensor", where);
    return x.to(boolean, where);
}

void check_correction(std::string_view operation, double correction, const Where& where) {
    if (std::isfinite(correction)) return;
    fail("value/option", operation, where,
         {{"option", "correction"},
          {"got", correction},
          {"expected", "a finite number"},
          {"help", "1 is the unbiased estimate, 0 the population's"}});
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    return ops::record_reduction(sum_operation, Reduction::sum, x, axes, keepdims, 0, where);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    const Naming naming("mean");
    return ops::record_reduction(mean_operation, Reduction::mean, ops::to_floating(mean_operation.name, x, where), axes,
                                 keepdims, 0, where);
}

Tensor prod(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    const Naming naming("prod");
    ops::check_defined(prod_operation.name, x, "the tensor", where);
    return ops::record_reduction(prod_operation, Reduction::prod, x.dtype() == boolean ? x.to(i64, where) : x, axes,
                                 keepdims, 0, where);
}

Tensor max(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    return ops::record_reduction(max_operation, Reduction::max, x, axes, keepdims, 0, where);
}

Tensor min(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    return ops::record_reduction(min_operation, Reduction::min, x, axes, keepdims, 0, where);
}

Tensor argmax(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    return ops::record_reduction(argmax_operation, Reduction::argmax, x, axes, keepdims, 0, where);
}

Tensor argmin(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    return ops::record_reduction(argmin_operation, Reduction::argmin, x, axes, keepdims, 0, where);
}

Tensor any(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    const Naming naming("any");
    return ops::record_reduction(any_operation, Reduction::any, truth(any_operation.name, x, where), axes, keepdims, 0,
                                 where);
}

Tensor all(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    const Naming naming("all");
    return ops::record_reduction(all_operation, Reduction::all, truth(all_operation.name, x, where), axes, keepdims, 0,
                                 where);
}

Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    const Naming naming("count_nonzero");
    return ops::record_reduction(count_nonzero_operation, Reduction::sum, truth(count_nonzero_operation.name, x, where),
                                 axes, keepdims, 0, where);
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    const Naming naming("logsumexp");
    return ops::record_reduction(logsumexp_operation, Reduction::logsumexp,
                                 ops::to_floating(logsumexp_operation.name, x, where), axes, keepdims, 0, where);
}

Tensor var(const Tensor& x, const Axes& axes, bool keepdims, double correction, const Where& where) {
    const Naming naming("var");
    check_correction(var_operation.name, correction, where);
    return ops::record_reduction(var_operation, Reduction::var, ops::to_floating(var_operation.name, x, where), axes,
                                 keepdims, correction, where);
}

Tensor std(const Tensor& x, const Axes& axes, bool keepdims, double correction, const Where& where) {
    const Naming naming("std");
    check_correction(std_operation.name, correction, where);
    return ops::record_reduction(std_operation, Reduction::std, ops::to_floating(std_operation.name, x, where), axes,
                                 keepdims, correction, where);
}

ops::Descriptors ops::reduce_descriptors() {
    return {&sum_operation,       &mean_operation,   &prod_operation, &max_operation, &min_operation,
            &argmax_operation,    &argmin_operation, &any_operation,  &all_operation, &count_nonzero_operation,
            &logsumexp_operation, &var_operation,    &std_operation};
}

}  // namespace calor
