// Sanitized code runs many times slower: where a test goes through many cases of one kind, it takes fewer of them
// there.
#pragma once

#include <algorithm>

namespace calor::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// How many random cases to take of `whole`.
template <class T> constexpr T sampled(T whole) {
    return sanitized ? std::min(whole, std::max<T>(12, whole / 6)) : whole;
}

}  // namespace calor::testing
