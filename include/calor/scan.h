// Scans: running sums, products, extremes and linear recurrences along an axis.
//
// Each takes linear time, in either direction, along any axis. Integers keep their dtype and wrap; f16 and bf16 are
// computed in f32 and rounded once an element. The result does not depend on the number of threads. Every scan of
// floating numbers has gradients of any order, by other scans: no rule divides, so zeros are no special case.
//
// Every function throws ValueError [tensor/undefined] and [axis/range]; a tensor of rank 0 has no axis.
#pragma once

#include "calor/tensor.h"

namespace calor {

struct ScanOptions {
    bool reverse = false;    ///< from the end of the axis to its start
    bool exclusive = false;  ///< an element's own value is left out: the first result is that of nothing
};

/// y_i = x_0 + ... + x_i along `axis`. bool becomes i64.
Tensor cumsum(const Tensor& x, std::int64_t axis, const ScanOptions& options = {},
              const Where& where = Where::current());
/// y_i = x_0 ... x_i along `axis`. bool becomes i64.
Tensor cumprod(const Tensor& x, std::int64_t axis, const ScanOptions& options = {},
               const Where& where = Where::current());
/// y_i = log(exp x_0 + ... + exp x_i) along `axis`, without overflow on the way; of nothing it is -inf. Integers and
/// bool become f32.
Tensor logcumsumexp(const Tensor& x, std::int64_t axis, const ScanOptions& options = {},
                    const Where& where = Where::current());

/// Running extremes and where they stand on the axis.
struct RunningExtreme {
    Tensor values;   ///< the dtype of x
    Tensor indices;  ///< i64: the latest position that holds the value
};
/// The largest of x_0 ... x_i; a NaN stays from where it stands on. Its gradient goes to the elements at `indices`.
RunningExtreme cummax(const Tensor& x, std::int64_t axis, bool reverse = false, const Where& where = Where::current());
/// The smallest of x_0 ... x_i, as cummax.
RunningExtreme cummin(const Tensor& x, std::int64_t axis, bool reverse = false, const Where& where = Where::current());

/// The first-order linear recurrence h_i = a_i h_{i-1} + b_i along `axis`, h_{-1} = 0 (with `reverse`, h_i = a_i
/// h_{i+1}
/// + b_i): exponential smoothing, discounted sums, diagonal state-space models. a and b have one shape and one floating
/// dtype. Throws ShapeError [shape/mismatch], DTypeError [dtype/mismatch], [dtype/unsupported].
Tensor linear_recurrence(const Tensor& a, const Tensor& b, std::int64_t axis, bool reverse = false,
                         const Where& where = Where::current());

}  // namespace calor
