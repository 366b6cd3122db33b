// Elements of f64, f32, f16 and bf16 in pairs of vectors of the type that arithmetic runs in; included once for every
// instruction set. bf16 is taken as it lies: of two neighbours in 32 bits one is shifted up and the other masked, so
// that a pair holds the even and the odd elements. That is cheaper than unpacking in order and serves sums and whatever
// is done to every element alone; other types come in order.
#include <cstring>
#include <type_traits>

#include "calor/dtype.h"

#if defined(CALOR_ELEMENT_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_ELEMENT_PAIRS_INL_H
#undef CALOR_ELEMENT_PAIRS_INL_H
#else
#define CALOR_ELEMENT_PAIRS_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class E> using Wide = std::conditional_t<sizeof(E) == 2, float, E>;
template <class E> using WideTag = hn::ScalableTag<Wide<E>>;
template <class E> using WideVec = hn::Vec<WideTag<E>>;
template <class E> struct Two { WideVec<E> a, b; };
template <class E> constexpr std::int64_t lanes_of_wide() {
    return static_cast<std::int64_t>(hn::MaxLanes(WideTag<E>()));
}
/// Elements of a pair.
template <class E> inline constexpr std::int64_t pair_size = 2 * lanes_of_wide<E>();

#if HWY_TARGET != HWY_SCALAR
/// Two vectors of f32 to bf16, rounded to nearest even: a in the even elements and b in the odd ones. Both are taken
/// apart into upper and lower halves, so that one instruction serves sixteen elements: the upper half grows by one
/// where the lower one is beyond the middle, or on it and the upper half odd. A NaN must have a lower half of zeros.
HWY_INLINE hn::Vec<hn::Repartition<std::uint16_t, WideTag<float>>> round_pair(WideVec<float> a, WideVec<float> b) {
    const hn::Repartition<std::uint32_t, WideTag<float>> words;
    const hn::Repartition<std::uint16_t, WideTag<float>> halves;
    const auto first = hn::BitCast(words, a), second = hn::BitCast(words, b);
    const auto upper = hn::OddEven(hn::BitCast(halves, second), hn::BitCast(halves, hn::ShiftRight<16>(first)));
    const auto lower = hn::OddEven(hn::BitCast(halves, hn::ShiftLeft<16>(second)), hn::BitCast(halves, first));
    const auto even = hn::AndNot(upper, hn::Set(halves, std::uint16_t{1}));
    return hn::Add(upper, hn::ShiftRight<15>(hn::SaturatedSub(lower, even)));
}
#endif

#if HWY_TARGET == HWY_AVX2
/// Two vectors of f32, rounded to bf16 in order; a NaN must be as in store_pair.
HWY_INLINE __m256i rounded_in_order(WideVec<float> a, WideVec<float> b) {
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                           0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(round_pair(a, b).raw, order), 0xd8);
}
HWY_INLINE void store_bf16(WideVec<float> a, WideVec<float> b, bfloat16* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded_in_order(a, b));
}
/// Whether any of four vectors may hold a NaN.
HWY_INLINE bool may_be_nan(WideVec<float> a, WideVec<float> b, WideVec<float> c, WideVec<float> e) {
    return !hn::AllFalse(WideTag<float>(), hn::IsNaN(hn::Add(hn::Add(a, b), hn::Add(c, e))));
}
#endif

template <class E> HWY_INLINE WideVec<E> load_half_vector(const E* p) {
    const WideTag<E> d;
#if HWY_TARGET == HWY_AVX2
    const hn::Rebind<hwy::float16_t, WideTag<E>> narrow;
    return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(p)));
#else
    HWY_ALIGN float wide[lanes_of_wide<E>()];
    for (std::int64_t i = 0; i < lanes_of_wide<E>(); ++i) wide[i] = static_cast<float>(p[i]);
    return hn::Load(d, wide);
#endif
}
template <class E> HWY_INLINE void store_half_vector(WideVec<E> v, E* p) {
#if HWY_TARGET == HWY_AVX2
    const hn::Rebind<hwy::float16_t, WideTag<E>> narrow;
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<hwy::float16_t*>(p));
#else
    HWY_ALIGN float wide[lanes_of_wide<E>()];
    hn::Store(v, WideTag<E>(), wide);
    for (std::int64_t i = 0; i < lanes_of_wide<E>(); ++i) p[i] = E(wide[i]);
#endif
}

template <class E> HWY_INLINE Two<E> load_pair(const E* p) {
    const WideTag<E> d;
    if constexpr (std::is_same_v<E, bfloat16>) {
        const hn::Repartition<std::uint32_t, WideTag<E>> words;
        const auto both = hn::LoadU(words, reinterpret_cast<const std::uint32_t*>(p));
        return {hn::BitCast(d, hn::ShiftLeft<16>(both)), hn::BitCast(d, hn::And(both, hn::Set(words, 0xffff0000u)))};
    } else if constexpr (std::is_same_v<E, float16>) {
        return {load_half_vector(p), load_half_vector(p + lanes_of_wide<E>())};
    } else {
        return {hn::LoadU(d, p), hn::LoadU(d, p + lanes_of_wide<E>())};
    }
}

/// Rounds once, to nearest even. A NaN must be one that arithmetic made or passed on from elements of E: quiet, with
/// the lower half of its bits 0; then it needs no care.
template <class E> HWY_INLINE void store_pair(Two<E> v, E* p) {
    [[maybe_unused]] const WideTag<E> d;
    if constexpr (std::is_same_v<E, bfloat16>) {
#if HWY_TARGET == HWY_SCALAR
        const hn::Repartition<std::uint32_t, WideTag<E>> words;
        const auto rounded = [&](WideVec<E> x) HWY_ATTR {
            const auto bits = hn::BitCast(words, x);
            const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
            return hn::Add(hn::Add(bits, hn::Set(words, 0x7fffu)), odd);
        };
        const auto low = hn::ShiftRight<16>(rounded(v.a)), high = rounded(v.b);
        hn::StoreU(hn::Or(low, hn::And(high, hn::Set(words, 0xffff0000u))), words, reinterpret_cast<std::uint32_t*>(p));
#else
        const hn::Repartition<std::uint16_t, WideTag<E>> halves;
        hn::StoreU(round_pair(v.a, v.b), halves, reinterpret_cast<std::uint16_t*>(p));
#endif
    } else if constexpr (std::is_same_v<E, float16>) {
        store_half_vector(v.a, p);
        store_half_vector(v.b, p + lanes_of_wide<E>());
    } else {
        hn::StoreU(v.a, d, p);
        hn::StoreU(v.b, d, p + lanes_of_wide<E>());
    }
}

/// The first n < pair_size<E> elements; `fill` stands for those that are missing.
template <class E> HWY_INLINE Two<E> load_some(const E* p, std::int64_t n, E fill) {
    E elements[pair_size<E>];
    for (E& e : elements) e = fill;
    std::memcpy(static_cast<void*>(elements), static_cast<const void*>(p), static_cast<std::size_t>(n) * sizeof(E));
    return load_pair(elements);
}
template <class E> HWY_INLINE void store_some(Two<E> v, E* p, std::int64_t n) {
    E elements[pair_size<E>];
    store_pair(v, elements);
    std::memcpy(static_cast<void*>(p), static_cast<const void*>(elements), static_cast<std::size_t>(n) * sizeof(E));
}

/// body(i, load) for every pair of a row of n elements, where load(p) takes that of p + i; the last one may be short,
/// with `fill` for what is missing.
template <class E, class Body> HWY_INLINE void each_pair(std::int64_t n, E fill, const Body& body) {
    std::int64_t i = 0;
    for (; i + pair_size<E> <= n; i += pair_size<E>) {
        body(i, [&](const E* p) HWY_ATTR { return load_pair(p + i); });
    }
    if (i < n) body(i, [&](const E* p) HWY_ATTR { return load_some(p + i, n - i, fill); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
