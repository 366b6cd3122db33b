// Reductions over any axes. An empty list of axes means all of them; negative axes count from the end. With `keepdims`
// reduced axes stay with size 1, else they vanish. Results are the same bits for any number of threads.
//
// Every function throws ValueError [axis/range], [axis/duplicate] for wrong axes and [tensor/undefined] for an
// undefined tensor. f16 and bf16 accumulate in f32 or wider and round once. Functions that need a floating dtype
// convert integers and bool to f32.
#pragma once

#include "calor/tensor.h"

namespace calor {

/// Sum. Integers wrap in their own dtype; bool counts in i64. The sum of nothing is 0.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());
/// Arithmetic mean; integers and bool give f32. The mean of nothing is NaN.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());
/// Product. Integers wrap in their own dtype; bool multiplies in i64. The product of nothing is 1. The gradient is
/// exact with any number of zeros.
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());
/// Largest element of any dtype; a NaN wins. The gradient is split evenly among equal largest elements.
/// Throws ValueError [reduce/empty] over no elements.
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());
/// Smallest element, as max.
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());
/// Position of the largest element as i64: along one axis, or the row-major position among several reduced axes. The
/// first of equal ones, or of NaNs. Not differentiable. Throws ValueError [reduce/empty] over no elements.
Tensor argmax(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());
/// Position of the smallest element, as argmax.
Tensor argmin(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());
/// Whether an element is not 0 (NaN is not 0), as bool. False for no elements.
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());
/// Whether no element is 0, as bool. True for no elements.
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());
/// How many elements are not 0, as i64.
Tensor count_nonzero(const Tensor& x, const Axes& axes = {}, bool keepdims = false,
                     const Where& where = Where::current());
/// log(sum(exp(x))) without overflow. -inf for no elements or only -inf ones, whose gradient is 0.
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdims = false, const Where& where = Where::current());

/// Variance: sum((x - mean)^2) / max(0, n - correction). correction 1 is the unbiased estimate, 0 the population's
/// variance. NaN where nothing is left to divide by.
Tensor var(const Tensor& x, const Axes& axes = {}, bool keepdims = false, double correction = 1,
           const Where& where = Where::current());
/// Square root of var. The gradient at a deviation of 0 is 0.
Tensor std(const Tensor& x, const Axes& axes = {}, bool keepdims = false, double correction = 1,
           const Where& where = Where::current());

/// Vector norm (sum |x|^p)^(1/p). p = inf: the largest |x|, -inf: the smallest, 0: the number of elements that are not
/// 0 (a constant to gradients). Gradients at 0 are 0. Throws ValueError [reduce/empty] for p = inf and -inf over no
/// elements, [value/option] when p is NaN.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdims = false,
            const Where& where = Where::current());

}  // namespace calor
