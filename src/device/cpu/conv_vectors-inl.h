// Vectors for the kernels of convolution: loads that widen bf16, stores that round to bf16 (nearest, ties to even; NaN
// stays NaN).
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(CALOR_CPU_CONV_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_CPU_CONV_VECTORS_INL
#undef CALOR_CPU_CONV_VECTORS_INL
#else
#define CALOR_CPU_CONV_VECTORS_INL
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace calor::cpu::conv_vectors {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr hn::CappedTag<float, 16> lanes{};
constexpr hn::RebindToUnsigned<decltype(lanes)> words{};
constexpr hn::RebindToSigned<decltype(lanes)> signed_words{};
constexpr hn::Rebind<std::uint16_t, decltype(lanes)> halves{};
using Vector = hn::Vec<decltype(lanes)>;
constexpr std::int64_t vector_size = hn::MaxLanes(lanes);

HWY_INLINE Vector load(const float* from) { return hn::LoadU(lanes, from); }
HWY_INLINE Vector load(const std::uint16_t* from) {
    return hn::BitCast(lanes, hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, from))));
}

HWY_INLINE void store(Vector v, float* to) { hn::StoreU(v, lanes, to); }

/// The upper half is the nearest bf16, but for NaN.
HWY_INLINE auto with_half_added(Vector v) {
    const auto bits = hn::BitCast(words, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1U));
    return hn::Add(hn::Add(bits, hn::Set(words, 0x7fffU)), odd);
}
HWY_INLINE auto rounded(Vector v) { return hn::ShiftRight<16>(with_half_added(v)); }
template <class Bits> HWY_INLINE void store_words(Bits bits, std::uint16_t* to) {
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(signed_words, bits)), halves, to);
}
HWY_INLINE auto rounded_any(Vector v) {
    const auto quiet = hn::Or(hn::ShiftRight<16>(hn::BitCast(words, v)), hn::Set(words, 0x40U));
    return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), quiet, rounded(v));
}
HWY_INLINE void store(Vector v, std::uint16_t* to) { store_words(rounded_any(v), to); }

/// Several vectors, `step` apart. bf16 looks for NaN once: a sum of all has one where any of them has.
template <std::size_t... i>
HWY_INLINE void store_all(const std::array<Vector, sizeof...(i)>& v, float* to, std::int64_t step,
                          std::index_sequence<i...>) {
    (store(v[i], to + static_cast<std::int64_t>(i) * step), ...);
}
template <std::size_t... i>
HWY_INLINE void store_all(const std::array<Vector, sizeof...(i)>& v, std::uint16_t* to, std::int64_t step,
                          std::index_sequence<i...>) {
    Vector sum = v[0];
    ((sum = i == 0 ? sum : hn::Add(sum, v[i])), ...);
    if (HWY_LIKELY(hn::AllFalse(lanes, hn::IsNaN(sum)))) {
        (store_words(rounded(v[i]), to + static_cast<std::int64_t>(i) * step), ...);
    } else {
        (store(v[i], to + static_cast<std::int64_t>(i) * step), ...);
    }
}

/// Two vectors of adjacent bf16 numbers: those with even and those with odd places. That costs an instruction each,
/// where widening in order costs three.
struct Pair {
    Vector even, odd;
};
HWY_INLINE Pair load_pair(const std::uint16_t* from) {
#if HWY_TARGET == HWY_SCALAR
    return {load(from), load(from + 1)};
#else
    constexpr hn::Repartition<std::uint16_t, decltype(lanes)> both{};
    const auto bits = hn::BitCast(words, hn::LoadU(both, from));
    return {hn::BitCast(lanes, hn::ShiftLeft<16>(bits)),
            hn::BitCast(lanes, hn::And(bits, hn::Set(words, 0xffff0000U)))};
#endif
}
/// A NaN must be one that arithmetic made or passed on from bf16 numbers: the lower half of its bits is 0, and rounding
/// leaves it alone.
template <std::size_t... i>
HWY_INLINE void store_pairs(const std::array<Vector, sizeof...(i)>& even, const std::array<Vector, sizeof...(i)>& odd,
                            std::uint16_t* to, std::int64_t step, std::index_sequence<i...>) {
#if HWY_TARGET == HWY_SCALAR
    (store(even[i], to + static_cast<std::int64_t>(i) * step), ...);
    (store(odd[i], to + static_cast<std::int64_t>(i) * step + 1), ...);
#else
    constexpr hn::Repartition<std::uint16_t, decltype(lanes)> both{};
    const auto put = [&](Vector low, Vector high, std::int64_t at) HWY_ATTR {
        const auto bits = hn::OddEven(hn::BitCast(both, with_half_added(high)), hn::BitCast(both, rounded(low)));
        hn::StoreU(bits, both, to + at * step);
    };
    (put(even[i], odd[i], static_cast<std::int64_t>(i)), ...);
#endif
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu::conv_vectors
HWY_AFTER_NAMESPACE();

#endif
