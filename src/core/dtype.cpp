// Type promotion. The rule, of which docs/promotion.md is the table:
//   bool < integers < floats. Within floats the wider wins, f16 with bf16 gives f32. A float with an integer or bool
//   keeps the float. Integers of one sign: the wider. Of both signs: the smallest signed type that holds both;
//   where there is none (u64), i64.
#include "calor/dtype.h"

#include <algorithm>

namespace calor {

DType promote(DType a, DType b) {
    if (a == b) return a;
    if (is_floating(a) && is_floating(b)) return is_half(a) && is_half(b) ? f32 : std::min(a, b);
    if (is_floating(a) || b == boolean) return a;
    if (is_floating(b) || a == boolean) return b;
    if (is_signed_integer(a) == is_signed_integer(b)) return std::min(a, b);
    const std::int64_t signed_size = size_of(is_signed_integer(a) ? a : b);
    const std::int64_t unsigned_size = size_of(is_signed_integer(a) ? b : a);
    const std::int64_t needed = std::min<std::int64_t>(8, std::max(signed_size, 2 * unsigned_size));
    return needed == 8 ? i64 : needed == 4 ? i32 : i16;
}

}  // namespace calor
