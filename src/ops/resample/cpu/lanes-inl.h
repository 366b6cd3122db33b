// Vectors for the passes of resample: loads that widen, stores that round once, and the turning of eight rows.
#include <type_traits>

#include "calor/dtype.h"

#if defined(CALOR_RESAMPLE_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_RESAMPLE_LANES_INL
#undef CALOR_RESAMPLE_LANES_INL
#else
#define CALOR_RESAMPLE_LANES_INL
#endif

#include <hwy/highway.h>

#include "device/cpu/element_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops::resample {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of at most 32 bytes. W is what arithmetic runs in: float, double, or int32 for fixed point.
template <class W> using Tag = hn::CappedTag<W, 32 / sizeof(W)>;
template <class W> using Vec = hn::Vec<Tag<W>>;
template <class W> constexpr std::int64_t lanes_of() { return static_cast<std::int64_t>(hn::MaxLanes(Tag<W>())); }
template <class W, class To> using Other = hn::Rebind<To, Tag<W>>;

template <class W, class In> HWY_INLINE Vec<W> load(const In* p) {
    const Tag<W> d;
    if constexpr (std::is_same_v<W, In>) {
        return hn::LoadU(d, p);
    } else if constexpr (std::is_same_v<In, bfloat16>) {
        const auto bits = hn::LoadU(Other<W, std::uint16_t>(), reinterpret_cast<const std::uint16_t*>(p));
        return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(Other<W, std::uint32_t>(), bits)));
    } else if constexpr (std::is_same_v<In, float16>) {
        return hn::PromoteTo(d, hn::LoadU(Other<W, hwy::float16_t>(), reinterpret_cast<const hwy::float16_t*>(p)));
    } else {
        const auto wide = hn::PromoteTo(Other<W, std::int32_t>(), hn::LoadU(Other<W, std::uint8_t>(), p));
        if constexpr (std::is_same_v<W, std::int32_t>) return wide;
        if constexpr (std::is_same_v<W, float>) return hn::ConvertTo(d, wide);
    }
}

/// Rounds once: halves to nearest even, u8 to the nearest level (halves up), saturated; fixed point as Pillow does.
template <class W, class Out> HWY_INLINE void store(Vec<W> v, Out* p) {
    const Tag<W> d;
    if constexpr (std::is_same_v<W, std::int32_t>) {
        hn::StoreU(hn::DemoteTo(Other<W, std::uint8_t>(), hn::ShiftRight<22>(v)), Other<W, std::uint8_t>(), p);
    } else if constexpr (std::is_same_v<W, Out>) {
        hn::StoreU(v, d, p);
    } else if constexpr (std::is_same_v<Out, bfloat16>) {
        const Other<W, std::uint32_t> du;
        const auto bits = hn::BitCast(du, v);
        const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
        const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
        const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40));
        const auto result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
        const Other<W, std::uint16_t> narrow;
        hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(Other<W, std::int32_t>(), result)), narrow,
                   reinterpret_cast<std::uint16_t*>(p));
    } else if constexpr (std::is_same_v<Out, float16>) {
        const Other<W, hwy::float16_t> narrow;
        hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<hwy::float16_t*>(p));
    } else {
        const auto held = hn::Min(hn::Max(hn::Add(v, hn::Set(d, 0.5F)), hn::Zero(d)), hn::Set(d, 255.5F));
        const Other<W, std::uint8_t> narrow;
        hn::StoreU(hn::DemoteTo(narrow, hn::ConvertTo(Other<W, std::int32_t>(), held)), narrow, p);
    }
}

/// Four vectors at four places. bf16 is packed two vectors at a time; a NaN comes from elements of bf16 and needs no
/// care.
template <class W, class Out>
HWY_INLINE void store_four(Vec<W> a, Vec<W> b, Vec<W> c, Vec<W> e, Out* pa, Out* pb, Out* pc, Out* pe) {
#if HWY_TARGET == HWY_AVX2
    if constexpr (std::is_same_v<Out, bfloat16>) {
        const auto two = [&](Vec<W> u, Vec<W> v, Out* pu, Out* pv) HWY_ATTR {
            const __m256i both = cpu::HWY_NAMESPACE::rounded_in_order(u, v);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(pu), _mm256_castsi256_si128(both));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(pv), _mm256_extracti128_si256(both, 1));
        };
        two(a, b, pa, pb);
        two(c, e, pc, pe);
        return;
    }
#endif
    store<W>(a, pa);
    store<W>(b, pb);
    store<W>(c, pc);
    store<W>(e, pe);
}

/// Four vectors side by side.
template <class W, class Out> HWY_INLINE void store_along(Vec<W> a, Vec<W> b, Vec<W> c, Vec<W> e, Out* p) {
    constexpr std::int64_t lanes = lanes_of<W>();
#if HWY_TARGET == HWY_AVX2
    if constexpr (std::is_same_v<Out, bfloat16>) {
        cpu::HWY_NAMESPACE::store_bf16(a, b, p);
        cpu::HWY_NAMESPACE::store_bf16(c, e, p + 2 * lanes);
        return;
    }
#endif
    store<W>(a, p);
    store<W>(b, p + lanes);
    store<W>(c, p + 2 * lanes);
    store<W>(e, p + 3 * lanes);
}

/// The first n < lanes elements.
template <class W, class In> HWY_INLINE Vec<W> load_some(const In* p, std::int64_t n) {
    In buffer[32 / sizeof(W)] = {};
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = p[i];
    return load<W>(buffer);
}
template <class W, class Out> HWY_INLINE void store_some(Vec<W> v, Out* p, std::int64_t n) {
    Out buffer[32 / sizeof(W)];
    store<W>(v, buffer);
    for (std::int64_t i = 0; i < n; ++i) p[i] = buffer[i];
}

/// Eight vectors of eight numbers: rows become columns.
template <class V> struct Eight { V v0, v1, v2, v3, v4, v5, v6, v7; };
#if HWY_TARGET != HWY_SCALAR
template <class W> HWY_INLINE void turn(Eight<Vec<W>>& m) {
    const Tag<W> d;
    const hn::Repartition<std::uint64_t, Tag<W>> pairs;
    const auto wide = [&](auto a) HWY_ATTR { return hn::BitCast(pairs, a); };
    const auto narrow = [&](auto a) HWY_ATTR { return hn::BitCast(d, a); };
    const auto a0 = wide(hn::InterleaveLower(d, m.v0, m.v1)), a1 = wide(hn::InterleaveUpper(d, m.v0, m.v1));
    const auto a2 = wide(hn::InterleaveLower(d, m.v2, m.v3)), a3 = wide(hn::InterleaveUpper(d, m.v2, m.v3));
    const auto a4 = wide(hn::InterleaveLower(d, m.v4, m.v5)), a5 = wide(hn::InterleaveUpper(d, m.v4, m.v5));
    const auto a6 = wide(hn::InterleaveLower(d, m.v6, m.v7)), a7 = wide(hn::InterleaveUpper(d, m.v6, m.v7));
    const auto b0 = narrow(hn::InterleaveLower(pairs, a0, a2)), b1 = narrow(hn::InterleaveUpper(pairs, a0, a2));
    const auto b2 = narrow(hn::InterleaveLower(pairs, a1, a3)), b3 = narrow(hn::InterleaveUpper(pairs, a1, a3));
    const auto b4 = narrow(hn::InterleaveLower(pairs, a4, a6)), b5 = narrow(hn::InterleaveUpper(pairs, a4, a6));
    const auto b6 = narrow(hn::InterleaveLower(pairs, a5, a7)), b7 = narrow(hn::InterleaveUpper(pairs, a5, a7));
    m = {hn::ConcatLowerLower(d, b4, b0), hn::ConcatLowerLower(d, b5, b1), hn::ConcatLowerLower(d, b6, b2),
         hn::ConcatLowerLower(d, b7, b3), hn::ConcatUpperUpper(d, b4, b0), hn::ConcatUpperUpper(d, b5, b1),
         hn::ConcatUpperUpper(d, b6, b2), hn::ConcatUpperUpper(d, b7, b3)};
}
#endif
}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::resample
HWY_AFTER_NAMESPACE();

#endif
