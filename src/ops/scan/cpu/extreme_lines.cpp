// Blocks of a line that hold no new extreme, which get most of them soon, are found with vector comparisons and filled
// with what is known; past the caches where the results are far larger than those.
#include "ops/scan/cpu/extreme_lines.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scan/cpu/extreme_lines.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/cache_control.h>

#include <bit>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace calor::ops::scan {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t block = 32;

/// `count` copies of a value, a multiple of 32 bytes in all.
template <class T> HWY_INLINE void fill(T* to, std::int64_t count, T value, bool past_caches) {
    using Bits =
        std::conditional_t<sizeof(T) == 8, std::uint64_t,
                           std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                              std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
    const hn::CappedTag<Bits, 32 / sizeof(T)> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto v = hn::Set(d, std::bit_cast<Bits>(value));
    auto* out = reinterpret_cast<Bits*>(to);
    if (past_caches && reinterpret_cast<std::uintptr_t>(to) % 32 == 0) {
        for (std::int64_t i = 0; i < count; i += lanes) hn::Stream(v, d, out + i);
        return;
    }
    for (std::int64_t i = 0; i < count; i += lanes) hn::StoreU(v, d, out + i);
}

/// Whether all elements of a block lie before `known`; NaN does not.
template <bool largest, class T> HWY_INLINE bool all_before(const T* x, Comparable<T> known) {
    unsigned beyond = 0;
    for (std::int64_t i = 0; i < block; ++i) {
        const Comparable<T> own = x[i];
        beyond |= (largest ? own < known : own > known) ? 0U : 1U;
    }
    return beyond == 0;
}

template <class T, bool largest>
void line(const void* from, void* to, std::int64_t* indices, std::int64_t n, bool reverse, bool past_caches) {
    const std::int64_t step = reverse ? -1 : 1, first = reverse ? n - 1 : 0;
    const T* x = static_cast<const T*>(from) + first;
    T* values = static_cast<T*>(to) + first;
    indices += first;
    T best = x[0];
    std::int64_t at = first;
    const auto take = [&](std::int64_t k) {
        const T own = x[k * step];
        if (replaces<largest>(Comparable<T>(own), Comparable<T>(best))) {
            best = own;
            at = first + k * step;
        }
        values[k * step] = best;
        indices[k * step] = at;
    };
    std::int64_t k = 0;
    for (; k + block <= n; k += block) {
        const std::int64_t lowest = step > 0 ? k : -(k + block - 1);
        if (!all_before<largest>(x + lowest, Comparable<T>(best))) {
            for (std::int64_t i = k; i < k + block; ++i) take(i);
            continue;
        }
        fill(values + lowest, block, best, past_caches);
        fill(indices + lowest, block, at, past_caches);
    }
    for (; k < n; ++k) take(k);
    if (past_caches) hwy::FlushStream();
}

template <class T> ExtremeLine either(bool largest) { return largest ? line<T, true> : line<T, false>; }

ExtremeLine extreme_line(DType dtype, bool largest) {
    switch (dtype) {
        case f64: return either<double>(largest);
        case f32: return either<float>(largest);
        case f16: return either<float16>(largest);
        case bf16: return either<bfloat16>(largest);
        case i64: return either<std::int64_t>(largest);
        case i32: return either<std::int32_t>(largest);
        case i16: return either<std::int16_t>(largest);
        case i8: return either<std::int8_t>(largest);
        case u64: return either<std::uint64_t>(largest);
        case u32: return either<std::uint32_t>(largest);
        case u16: return either<std::uint16_t>(largest);
        case u8:
        case boolean: break;
    }
    return either<std::uint8_t>(largest);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::scan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::scan {

HWY_EXPORT(extreme_line);
ExtremeLine find_extreme_line(DType dtype, bool largest) { return HWY_DYNAMIC_DISPATCH(extreme_line)(dtype, largest); }

}  // namespace calor::ops::scan
#endif
