// The reductions as operations: sum, mean, products, extremes, truth, log-sum-exp, variance.
#include "calor/reduce.h"

#include <algorithm>
#include <cmath>

#include "calor/view.h"
#include "ops/reduce/engine.h"
#include "ops/reduce/operations.h"
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

graph::Operation reduction(std::string_view name, void (*gradient)(const graph::GradContext&),
                           std::uint32_t traits = 0) {
    graph::Operation op;
    op.name = name;
    op.traits = graph::reduction | traits;
    op.infer = ops::infer_reduction;
    op.gradient = gradient;
    op.implementations = ops::reduction_implementations;
    return op;
}

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
    static const auto op = reduction("sum", ops::sum_gradient, graph::linear);
    return ops::record_reduction(op, Reduction::sum, x, axes, keepdims, 0, where);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("mean", ops::mean_gradient, graph::linear);
    return ops::record_reduction(op, Reduction::mean, ops::to_floating(op.name, x, where), axes, keepdims, 0, where);
}

Tensor prod(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("prod", ops::prod_gradient);
    ops::check_defined(op.name, x, "the tensor", where);
    return ops::record_reduction(op, Reduction::prod, x.dtype() == boolean ? x.to(i64, where) : x, axes, keepdims, 0,
                                 where);
}

Tensor max(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("max", ops::extreme_gradient);
    return ops::record_reduction(op, Reduction::max, x, axes, keepdims, 0, where);
}

Tensor min(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("min", ops::extreme_gradient);
    return ops::record_reduction(op, Reduction::min, x, axes, keepdims, 0, where);
}

Tensor argmax(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("argmax", nullptr);
    return ops::record_reduction(op, Reduction::argmax, x, axes, keepdims, 0, where);
}

Tensor argmin(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("argmin", nullptr);
    return ops::record_reduction(op, Reduction::argmin, x, axes, keepdims, 0, where);
}

Tensor any(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("any", nullptr);
    return ops::record_reduction(op, Reduction::any, truth(op.name, x, where), axes, keepdims, 0, where);
}

Tensor all(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("all", nullptr);
    return ops::record_reduction(op, Reduction::all, truth(op.name, x, where), axes, keepdims, 0, where);
}

Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("count_nonzero", nullptr);
    return ops::record_reduction(op, Reduction::sum, truth(op.name, x, where), axes, keepdims, 0, where);
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    static const auto op = reduction("logsumexp", ops::logsumexp_gradient);
    return ops::record_reduction(op, Reduction::logsumexp, ops::to_floating(op.name, x, where), axes, keepdims, 0,
                                 where);
}

Tensor var(const Tensor& x, const Axes& axes, bool keepdims, double correction, const Where& where) {
    static const auto op = reduction("var", ops::var_gradient);
    check_correction(op.name, correction, where);
    return ops::record_reduction(op, Reduction::var, ops::to_floating(op.name, x, where), axes, keepdims, correction,
                                 where);
}

Tensor std(const Tensor& x, const Axes& axes, bool keepdims, double correction, const Where& where) {
    static const auto op = reduction("std", ops::std_gradient);
    check_correction(op.name, correction, where);
    return ops::record_reduction(op, Reduction::std, ops::to_floating(op.name, x, where), axes, keepdims, correction,
                                 where);
}

}  // namespace calor
