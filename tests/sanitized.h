// Sanitized code runs many times slower: where a test goes through many cases of one kind, it takes fewer of them
// there.
#pragma once

#include <algorithm>

extern "C" {
void __asan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
}

namespace calor::testing {

/// Whether the program was linked with a sanitizer; the tests' own objects may be plain ones.
inline bool sanitized() { return __asan_init || __tsan_init; }

/// How many random cases to take of `whole`.
template <class T> T sampled(T whole) { return sanitized() ? std::min(whole, std::max<T>(12, whole / 6)) : whole; }

}  // namespace calor::testing
