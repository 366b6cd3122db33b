// Vectors of lanes for max pooling: loads that widen, stores that narrow, tap numbers. Included once a target.
#if defined(CALOR_OPS_POOL_MAX_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_OPS_POOL_MAX_LANES_INL
#undef CALOR_OPS_POOL_MAX_LANES_INL
#else
#define CALOR_OPS_POOL_MAX_LANES_INL
#endif

#include <bit>
#include <limits>
#include <type_traits>

#include <hwy/highway.h>

#include "calor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops::pool {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class S> inline constexpr bool is_half_type = std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>;
/// What the lanes of S compute in: the order is the same.
template <class S>
using Lane = std::conditional_t<is_half_type<S>, float,
                                std::conditional_t<std::is_integral_v<S> && (sizeof(S) < 4), std::int32_t, S>>;
template <class S> using Tag = hn::ScalableTag<Lane<S>>;
template <class S> using IdTag = hn::RebindToSigned<Tag<S>>;
template <class S> using LaneId = hn::TFromD<IdTag<S>>;
template <class S> using LaneVec = hn::Vec<Tag<S>>;
template <class S> using IdVec = hn::Vec<IdTag<S>>;

template <class S> inline constexpr Lane<S> lowest_lane() {
    using T = Lane<S>;
    if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
    if constexpr (sizeof(S) < sizeof(T)) return static_cast<T>(std::numeric_limits<S>::lowest());
    return std::numeric_limits<T>::lowest();
}

/// n neighbouring elements.
template <class S> inline LaneVec<S> load_side(const S* from) {
    const Tag<S> d;
    if constexpr (std::is_same_v<S, Lane<S>>) {
        return hn::LoadU(d, from);
    } else if constexpr (std::is_same_v<S, bfloat16>) {
        const hn::RebindToUnsigned<Tag<S>> words;
        const hn::Rebind<std::uint16_t, Tag<S>> halves;
        const auto bits = hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from));
        return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
    } else if constexpr (std::is_same_v<S, float16>) {
#if HWY_TARGET == HWY_AVX2
        const hn::Rebind<hwy::float16_t, Tag<S>> halves;
        return hn::PromoteTo(d, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
#else
        float values[HWY_MAX_BYTES / sizeof(float)];
        for (std::size_t i = 0; i < hn::Lanes(d); ++i) values[i] = from[i];
        return hn::LoadU(d, values);
#endif
    } else {
        const hn::Rebind<S, Tag<S>> narrow;
        return hn::PromoteTo(d, hn::LoadU(narrow, from));
    }
}

/// Elements 0, step, 2 step, ...: `step` is 1 or 2, or 0 for any other one. Reads n * step elements.
template <class S, std::int64_t step> inline LaneVec<S> load_lanes(const S* from, [[maybe_unused]] std::int64_t any) {
#if HWY_TARGET == HWY_SCALAR
    return load_side(from);
#else
    const Tag<S> d;
    if constexpr (step == 1) {
        (void)d;
        return load_side(from);
    } else if constexpr (step == 0) {
        constexpr std::size_t most = HWY_MAX_BYTES / sizeof(Lane<S>);
        HWY_ALIGN Lane<S> values[most];
        for (std::size_t i = 0; i < hn::Lanes(d); ++i)
            values[i] = static_cast<Lane<S>>(from[static_cast<std::int64_t>(i) * any]);
        return hn::Load(d, values);
    } else if constexpr (std::is_same_v<S, bfloat16> && std::endian::native == std::endian::little) {
        const hn::RebindToUnsigned<Tag<S>> words;
        const hn::Repartition<std::uint16_t, Tag<S>> halves;
        const auto pairs = hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from));
        return hn::BitCast(d, hn::ShiftLeft<16>(hn::BitCast(words, pairs)));
    } else {
        const auto first = load_side(from);
        return hn::ConcatEven(d, load_side(from + hn::Lanes(d)), first);
    }
#endif
}

/// Rounds to nearest, ties to even; NaN stays one.
template <class S> inline void store_lanes(LaneVec<S> v, S* to) {
    const Tag<S> d;
    if constexpr (std::is_same_v<S, Lane<S>>) {
        hn::StoreU(v, d, to);
    } else if constexpr (std::is_same_v<S, bfloat16>) {
        const hn::RebindToUnsigned<Tag<S>> words;
        const hn::RebindToSigned<Tag<S>> numbers;
        const hn::Rebind<std::uint16_t, Tag<S>> halves;
        const auto bits = hn::BitCast(words, v);
        const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
        const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7FFF))));
        const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(words, 0x40));
        const auto result = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), quiet, rounded);
        hn::StoreU(hn::DemoteTo(halves, hn::BitCast(numbers, result)), halves, reinterpret_cast<std::uint16_t*>(to));
    } else if constexpr (std::is_same_v<S, float16>) {
#if HWY_TARGET == HWY_AVX2
        const hn::Rebind<hwy::float16_t, Tag<S>> halves;
        hn::StoreU(hn::DemoteTo(halves, v), halves, reinterpret_cast<hwy::float16_t*>(to));
#else
        float values[HWY_MAX_BYTES / sizeof(float)];
        hn::StoreU(v, d, values);
        for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = float16(values[i]);
#endif
    } else {
        const hn::Rebind<S, Tag<S>> narrow;
        hn::StoreU(hn::DemoteTo(narrow, v), narrow, to);
    }
}

template <class S> inline IdVec<S> load_ids(const void* taps, bool wide, std::int64_t at) {
    const IdTag<S> d;
    if constexpr (sizeof(LaneId<S>) == 4) {
        const hn::Rebind<std::uint8_t, IdTag<S>> bytes;
        if (!wide) return hn::PromoteTo(d, hn::LoadU(bytes, static_cast<const std::uint8_t*>(taps) + at));
        return hn::LoadU(d, static_cast<const std::int32_t*>(taps) + at);
    } else {
        LaneId<S> ids[HWY_MAX_BYTES / sizeof(LaneId<S>)];
        for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
            const std::size_t from = static_cast<std::size_t>(at) + i;
            ids[i] = wide ? static_cast<const std::int32_t*>(taps)[from] : static_cast<const std::uint8_t*>(taps)[from];
        }
        return hn::LoadU(d, ids);
    }
}

template <class S> inline void store_ids(IdVec<S> v, void* taps, bool wide, std::int64_t at) {
    const IdTag<S> d;
    if constexpr (sizeof(LaneId<S>) == 4) {
        const hn::Rebind<std::uint8_t, IdTag<S>> bytes;
        if (!wide) return hn::StoreU(hn::DemoteTo(bytes, v), bytes, static_cast<std::uint8_t*>(taps) + at);
        hn::StoreU(v, d, static_cast<std::int32_t*>(taps) + at);
    } else {
        LaneId<S> ids[HWY_MAX_BYTES / sizeof(LaneId<S>)];
        hn::StoreU(v, d, ids);
        for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
            const std::size_t to = static_cast<std::size_t>(at) + i;
            if (wide) {
                static_cast<std::int32_t*>(taps)[to] = static_cast<std::int32_t>(ids[i]);
            } else {
                static_cast<std::uint8_t*>(taps)[to] = static_cast<std::uint8_t>(ids[i]);
            }
        }
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::pool
HWY_AFTER_NAMESPACE();

#endif
