// Conversions between dtypes: plain loops that the compiler vectorises, compiled for the baseline and for AVX2 (which
// brings the F16C instructions). Half types go through a block of f32; what cannot be held exactly in f32 is first
// rounded to odd, so that the second rounding gives the same bits as a single one.
#include "device/cpu/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/convert.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/element_pairs-inl.h"
#include "device/cpu/vectorize.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// `bool` elements are read and written as bytes; a byte other than 0 counts as 1.
struct Truth {
    std::uint8_t byte;
};

template <class T> inline constexpr bool is_half_type = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// The float that is x, or x cut toward zero with its last bit set when bits were lost.
inline float round_to_odd(double x) {
    const float nearest = static_cast<float>(x);
    const double back = nearest;
    std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
    const double size = x < 0 ? -x : x, back_size = back < 0 ? -back : back;
    bits -= back_size > size ? 1u : 0u;  // rounded away from zero, maybe to infinity: one step back
    bits |= back < x || back > x ? 1u : 0u;
    return std::bit_cast<float>(bits);
}

/// The double that is `magnitude`, with its last bit set when bits were lost.
inline double magnitude_to_odd(std::uint64_t magnitude) {
    if (magnitude < (std::uint64_t{1} << 53)) return static_cast<double>(magnitude);
    const std::uint64_t kept = (magnitude >> 11) | ((magnitude & 0x7ff) != 0 ? 1u : 0u);
    return static_cast<double>(kept) * 2048.0;
}

/// To the f32 whose rounding to a half type is the correct rounding of x.
template <class From> inline float to_wide(From x) {
    if constexpr (std::is_same_v<From, Truth>) {
        return x.byte != 0 ? 1.0f : 0.0f;
    } else if constexpr (std::is_same_v<From, double>) {
        return round_to_odd(x);
    } else if constexpr (std::is_integral_v<From> && sizeof(From) == 8) {
        if constexpr (std::is_signed_v<From>) {
            const auto bits = static_cast<std::uint64_t>(x);
            const double size = magnitude_to_odd(x < 0 ? 0 - bits : bits);
            return round_to_odd(x < 0 ? -size : size);
        } else {
            return round_to_odd(magnitude_to_odd(x));
        }
    } else if constexpr (std::is_integral_v<From> && sizeof(From) == 4) {
        return round_to_odd(static_cast<double>(x));
    } else {
        return static_cast<float>(x);
    }
}

template <class To, class From> inline To saturate(From x) {
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From past = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From{2};  // 2^bits, exact
    const From inside = x < past ? (x > low ? x : low) : low;
    const To cut = static_cast<To>(inside);
    const To top = x >= past ? std::numeric_limits<To>::max() : cut;
    return x != x ? To{0} : top;
}

/// Every pair without a half type.
template <class To, class From> inline To convert(From x) {
    if constexpr (std::is_same_v<To, Truth>) {
        if constexpr (std::is_same_v<From, Truth>) {
            return Truth{static_cast<std::uint8_t>(x.byte != 0)};
        } else {
            return Truth{static_cast<std::uint8_t>(x != From{0})};
        }
    } else if constexpr (std::is_same_v<From, Truth>) {
        return static_cast<To>(x.byte != 0 ? 1 : 0);
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        return saturate<To>(x);
    } else {
        return static_cast<To>(x);  // int to int wraps (C++20), int and float to float round to nearest
    }
}

template <class From, class To> void convert_tile(const From* in, To* out, std::int64_t n) {
    if constexpr (std::is_same_v<From, To> && !std::is_same_v<From, Truth>) {
        if (in != out && n > 0) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(From));
    } else {
        CALOR_VECTORIZE
        for (std::int64_t i = 0; i < n; ++i) out[i] = convert<To>(in[i]);
    }
}

void half_to_float(const float16* in, float* out, std::int64_t n) {
    std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX2
    const hn::ScalableTag<float> wide;
    const hn::Rebind<hwy::float16_t, decltype(wide)> narrow;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
    for (; i + lanes <= n; i += lanes) {
        const auto* halves = reinterpret_cast<const hwy::float16_t*>(in + i);
        hn::StoreU(hn::PromoteTo(wide, hn::LoadU(narrow, halves)), wide, out + i);
    }
#endif
    for (; i < n; ++i) out[i] = in[i];  // same bits: the conversion is exact, and a NaN only has to stay one
}

void float_to_half(const float* in, float16* out, std::int64_t n) {
    std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX2
    const hn::ScalableTag<float> wide;
    const hn::Rebind<hwy::float16_t, decltype(wide)> narrow;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
    for (; i + lanes <= n; i += lanes) {
        auto* halves = reinterpret_cast<hwy::float16_t*>(out + i);
        hn::StoreU(hn::DemoteTo(narrow, hn::LoadU(wide, in + i)), narrow, halves);
    }
#endif
    for (; i < n; ++i) out[i] = float16(in[i]);  // F16C and this function agree on every float, NaNs included
}

void half_to_float(const bfloat16* in, float* out, std::int64_t n) {
    CALOR_VECTORIZE
    for (std::int64_t i = 0; i < n; ++i) out[i] = in[i];
}

void float_to_half(const float* in, bfloat16* out, std::int64_t n) {
    const auto rounded = [](float x) {
        const auto u = std::bit_cast<std::uint32_t>(x);
        const std::uint32_t nearest = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
        return static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40u : nearest);
    };
    std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX2
    // Four vectors at a time, which are looked at once for NaN.
    const hn::ScalableTag<float> wide;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        const auto a = hn::LoadU(wide, in + i), b = hn::LoadU(wide, in + i + lanes);
        const auto c = hn::LoadU(wide, in + i + 2 * lanes), e = hn::LoadU(wide, in + i + 3 * lanes);
        if (HWY_LIKELY(!may_be_nan(a, b, c, e))) {
            store_bf16(a, b, out + i);
            store_bf16(c, e, out + i + 2 * lanes);
        } else {
            for (std::int64_t k = i; k < i + 4 * lanes; ++k) out[k].bits = rounded(in[k]);
        }
    }
#endif
    CALOR_VECTORIZE
    for (std::int64_t k = i; k < n; ++k) out[k].bits = rounded(in[k]);
}

template <class From> void to_wide_tile(const From* in, float* out, std::int64_t n) {
    CALOR_VECTORIZE
    for (std::int64_t i = 0; i < n; ++i) out[i] = to_wide(in[i]);
}

template <class From, class To> void kernel(const void* const* inputs, void* output, std::int64_t n, const double*) {
    const auto* in = static_cast<const From*>(inputs[0]);
    auto* out = static_cast<To*>(output);
    if constexpr (is_half_type<From> && std::is_same_v<To, float>) {
        half_to_float(in, out, n);
    } else if constexpr (std::is_same_v<From, float> && is_half_type<To>) {
        float_to_half(in, out, n);
    } else if constexpr ((is_half_type<From> || is_half_type<To>)&&!std::is_same_v<From, To>) {
        constexpr std::int64_t block = 256;
        alignas(64) float wide[block];
        for (std::int64_t i = 0; i < n; i += block) {
            const std::int64_t count = std::min(block, n - i);
            if constexpr (is_half_type<From>) {
                half_to_float(in + i, wide, count);
            } else {
                to_wide_tile(in + i, wide, count);
            }
            if constexpr (is_half_type<To>) {
                float_to_half(wide, out + i, count);
            } else {
                convert_tile(wide, out + i, count);
            }
        }
    } else {
        convert_tile(in, out, n);
    }
}

template <class From> void widen_kernel(const void* const* inputs, void* output, std::int64_t n, const double*) {
    to_wide_tile(static_cast<const From*>(inputs[0]), static_cast<float*>(output), n);
}

using Row = std::array<TileKernel, dtype_count>;

template <class From> constexpr Row row() {  // in the order of DType
    return {kernel<From, double>,        kernel<From, float>,         kernel<From, float16>,
            kernel<From, bfloat16>,      kernel<From, std::int64_t>,  kernel<From, std::int32_t>,
            kernel<From, std::int16_t>,  kernel<From, std::int8_t>,   kernel<From, std::uint64_t>,
            kernel<From, std::uint32_t>, kernel<From, std::uint16_t>, kernel<From, std::uint8_t>,
            kernel<From, Truth>};
}

constexpr std::array<Row, dtype_count> table = {
    row<double>(),        row<float>(),        row<float16>(),     row<bfloat16>(),      row<std::int64_t>(),
    row<std::int32_t>(),  row<std::int16_t>(), row<std::int8_t>(), row<std::uint64_t>(), row<std::uint32_t>(),
    row<std::uint16_t>(), row<std::uint8_t>(), row<Truth>()};

}  // namespace

TileKernel conversion(DType from, DType to) {
    return table[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

TileKernel widening(DType from) {
    switch (from) {
        case DType::f64: return widen_kernel<double>;
        case DType::i64: return widen_kernel<std::int64_t>;
        case DType::i32: return widen_kernel<std::int32_t>;
        case DType::u64: return widen_kernel<std::uint64_t>;
        case DType::u32: return widen_kernel<std::uint32_t>;
        default: return conversion(from, DType::f32);  // exact
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::cpu {

TileKernel find_convert_for(std::int64_t targets, DType from, DType to) {
#if HWY_TARGETS & HWY_AVX2 && HWY_STATIC_TARGET != HWY_AVX2
    if (targets & HWY_AVX2) return N_AVX2::conversion(from, to);
#endif
    static_cast<void>(targets);
    return HWY_STATIC_DISPATCH(conversion)(from, to);
}

TileKernel find_widen(DType from) {
#if HWY_TARGETS & HWY_AVX2 && HWY_STATIC_TARGET != HWY_AVX2
    static const std::int64_t targets = hwy::SupportedTargets();
    if (targets & HWY_AVX2) return N_AVX2::widening(from);
#endif
    return HWY_STATIC_DISPATCH(widening)(from);
}

TileKernel find_convert(DType from, DType to) {
    static const std::int64_t targets = hwy::SupportedTargets();
    return find_convert_for(targets, from, to);
}

}  // namespace calor::cpu
#endif
