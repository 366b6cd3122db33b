// Vector norms: kernels for p = 1, 2, inf and -inf, compositions for every other p.
#include <cmath>

#include "calor/elementwise.h"
#include "calor/reduce.h"
#include "ops/reduce/operations.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace calor {
namespace {

const graph::Operation norm_operation{.name = "norm",
                                      .traits = graph::reduction,
                                      .infer = ops::infer_reduction,
                                      .gradient = ops::norm_gradient,
                                      .implementations = ops::reduction_implementations,
                                      .gpu_implementations = ops::reduction_on_gpu};

/// (sum |x|^p)^(1/p). Zeros are kept away from pow, whose gradient there may be infinite.
Tensor general_norm(const Tensor& x, double p, const Axes& axes, bool keepdims, const Where& where) {
    const Tensor size = abs(x, where), zero = eq(size, 0, where);
    const double of_zero = p > 0 ? 0.0 : HUGE_VAL;
    const Tensor powers = calor::where(zero, of_zero, pow(calor::where(zero, 1, size, where), p, where), where);
    const Tensor total = sum(powers, axes, keepdims, where), none = eq(total, 0, where);
    return calor::where(none, of_zero, pow(calor::where(none, 1, total, where), 1 / p, where), where);
}

}  // namespace

Tensor norm(const Tensor& x, double p, const Axes& axes, bool keepdims, const Where& where) {
    const Naming naming("norm");
    ops::check_defined("norm", x, "the tensor", where);
    if (std::isnan(p)) {
        fail("value/option", "norm", where,
             {{"option", "p"},
              {"got", "NaN"},
              {"expected", "a number or an infinity"},
              {"help", "2 is the Euclidean norm"}});
    }
    const Tensor f = ops::to_floating("norm", x, where);
    if (p == 0) return count_nonzero(x, axes, keepdims, where).to(f.dtype(), where);
    if (p == 1 || p == 2 || std::isinf(p)) {
        return ops::record_reduction(norm_operation, ops::Reduction::norm, f, axes, keepdims, p, where);
    }
    return general_norm(f.to(compute_type(f.dtype()), where), p, axes, keepdims, where).to(f.dtype(), where);
}

ops::Descriptors ops::vector_norm_descriptors() { return {&norm_operation}; }

}  // namespace calor
