// cummax and cummin of one line that lies densely, and what "as large" means to both.
#pragma once

#include <cstdint>
#include <type_traits>

#include "calor/dtype.h"

namespace calor::ops::scan {

/// What elements of T are compared in.
template <class T>
using Comparable = std::conditional_t<std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>, float, T>;

/// Whether x takes the place of the extreme so far: as large, or NaN.
template <bool largest, class C> bool replaces(C x, C best) {
    if constexpr (std::is_floating_point_v<C>) {
        if (x != x) return true;
        if (best != best) return false;
    }
    return largest ? x >= best : x <= best;
}

/// Values and places of the extremes of n elements; `reverse` travels from the last one. `past_caches`: results are
/// written around the caches.
using ExtremeLine = void (*)(const void* x, void* values, std::int64_t* indices, std::int64_t n, bool reverse,
                             bool past_caches);
ExtremeLine find_extreme_line(DType dtype, bool largest);

}  // namespace calor::ops::scan
