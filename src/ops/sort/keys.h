// Sort keys: unsigned integers in the order of the elements, so that sorting and selecting are integer work. NaN is the
// largest, all NaNs are equal, and so are both zeros.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "calor/dtype.h"

namespace calor::ops {

/// 8, 16, 32 or 64 bits to which the elements of T map.
template <class T>
using SortKey =
    std::conditional_t<sizeof(T) == 1, std::uint8_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                          std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

/// The key of an element; `descending` reverses the order.
template <class T> SortKey<T> sort_key(T value, bool descending) {
    using Key = SortKey<T>;
    constexpr Key top = Key(Key{1} << (8 * sizeof(T) - 1));
    Key key = std::bit_cast<Key>(value);
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, float16> ||
                  std::is_same_v<T, bfloat16>) {
        const auto wide = static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value);
        if (wide == 0) key = 0;
        key = key & top ? Key(~key) : Key(key | top);  // negative numbers count backwards
        if (wide != wide) key = Key(~Key{0});
    } else if constexpr (std::is_signed_v<T>) {
        key = Key(key ^ top);
    }
    return descending ? Key(~key) : key;
}

}  // namespace calor::ops
