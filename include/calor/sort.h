// Order along an axis: sorting, ranking, the largest and smallest entries. All dtypes. Sorting is stable: equal entries
// keep their order, for any number of threads. NaN counts as larger than every number, and -0 equals 0. The values'
// gradients go to where they came from, to any order; indices have none.
#pragma once

#include "calor/tensor.h"

namespace calor {

struct SortResult {
    Tensor values;
    Tensor indices;  ///< i64: where along the axis of x each value stands
};

/// x in ascending order along an axis (descending: the largest first). Throws ValueError [axis/range].
SortResult sort(const Tensor& x, std::int64_t axis = -1, bool descending = false,
                const Where& where = Where::current());
/// The indices of sort() alone.
Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false, const Where& where = Where::current());
/// The k largest (or smallest) entries along an axis in descending (ascending) order; of equal ones the first. The
/// axis has k entries in the results. Throws ValueError [value/option] unless k is in [0, size of the axis],
/// [axis/range].
SortResult topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1, bool largest = true,
                const Where& where = Where::current());
/// The k-th smallest entry along an axis, k = 1 being the smallest; the axis vanishes. Throws ValueError [value/option]
/// unless k is in [1, size of the axis], [axis/range].
SortResult kthvalue(const Tensor& x, std::int64_t k, std::int64_t axis = -1, const Where& where = Where::current());

}  // namespace calor
