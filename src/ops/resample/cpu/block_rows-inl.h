// Four rows at a time by blocks of eight outputs whose inputs lie within a window of one or two vectors: what is read
// is the window, and each tap is a permutation of it.
#if defined(CALOR_RESAMPLE_BLOCK_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_RESAMPLE_BLOCK_ROWS_INL
#undef CALOR_RESAMPLE_BLOCK_ROWS_INL
#else
#define CALOR_RESAMPLE_BLOCK_ROWS_INL
#endif

#include <hwy/highway.h>

#include "ops/resample/cpu/lanes-inl.h"
#include "ops/resample/cpu/pass_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops::resample {
namespace HWY_NAMESPACE {
namespace {

/// Divides the sums of one output.
template <class W> struct Divide {
    Vec<W> by;
    bool needed;
    HWY_INLINE Vec<W> operator()(Vec<W> sum) const {
        if constexpr (!std::is_same_v<W, std::int32_t>) {
            if (needed) return hn::Div(sum, by);
        }
        return sum;
    }
};
template <class W> HWY_INLINE Divide<W> divide_of(const Pass& p, std::int64_t j) {
    double by = p.divisor;
    if (p.divides_each) by *= p.table->divisors[static_cast<std::size_t>(j)];
    return {hn::Set(Tag<W>(), static_cast<W>(by)), by != 1};
}

#if HWY_TARGET != HWY_SCALAR
/// Lanes of a window of one or two vectors.
template <class V, class I> HWY_INLINE V pick(V first, V second, I lane, bool wide) {
    const hn::DFromV<I> di;
    const hn::DFromV<V> d;
    const auto low = hn::TableLookupLanes(first, hn::IndicesFromVec(d, hn::And(lane, hn::Set(di, 7))));
    if (!wide) return low;
    const auto high = hn::TableLookupLanes(second, hn::IndicesFromVec(d, hn::And(lane, hn::Set(di, 7))));
    return hn::IfThenElse(hn::RebindMask(d, hn::Gt(lane, hn::Set(di, 7))), high, low);
}

/// Outputs [from, to) of one row, one at a time.
template <class In, class Out>
HWY_INLINE void single_outputs(const Pass& p, std::int64_t from, std::int64_t to, const In* x, Out* y) {
    const hn::CappedTag<float, 1> one;
    const Table& t = *p.table;
    for (std::int64_t j = from; j < to; ++j) {
        auto sum = hn::Zero(one);
        for (std::int32_t k = t.start[static_cast<std::size_t>(j)]; k < t.start[static_cast<std::size_t>(j) + 1]; ++k) {
            const auto at = static_cast<std::size_t>(k);
            sum = hn::MulAdd(hn::Set(one, t.weight_f32[at]), hn::Set(one, static_cast<float>(x[t.index[at]])), sum);
        }
        const auto result = divide_of<float>(p, j)(hn::Set(Tag<float>(), hn::GetLane(sum)));
        if constexpr (std::is_same_v<Out, float> || std::is_same_v<Out, bfloat16>) {
            y[j] = static_cast<Out>(hn::GetLane(result));
        } else {
            store_some<float>(result, y + j, 1);
        }
    }
}

/// Divides the sums of eight outputs of four rows.
HWY_INLINE void divide_four(const Pass& p, std::int64_t j, Vec<float>& a, Vec<float>& b, Vec<float>& c, Vec<float>& e) {
    if (!p.divides_each && p.divisor == 1) return;
    const Tag<float> d;
    const auto by =
        p.divides_each ? hn::LoadU(d, p.table->divisors_f32.data() + j) : hn::Set(d, static_cast<float>(p.divisor));
    a = hn::Div(a, by);
    b = hn::Div(b, by);
    c = hn::Div(c, by);
    e = hn::Div(e, by);
}

#if HWY_TARGET == HWY_AVX2
/// Rows of bf16 by blocks of sixteen outputs. One shuffle of bytes brings the inputs of two taps of eight outputs side
/// by side in 32 bits, from where they widen by a shift and a mask. Sums of even and of odd outputs lie apart, so that
/// rounding brings them together without a shuffle.
template <bool wide, class Out> class PairRows {
public:
    explicit PairRows(const Pass& p) : p_(p), b_(p.table->pairs) {}

    void run(const bfloat16* const* x, Out* const* y) const {
        for (std::size_t i = 0; i < b_.first.size(); ++i) {
            const auto from = static_cast<std::size_t>(b_.start[i]), to = static_cast<std::size_t>(b_.start[i + 1]);
            if (to == from + 1) {  // one pair of taps: its tables stay in registers
                const Taps taps(b_, from);
                for (int r = 0; r < 4; ++r) {
                    Two sums = none();
                    add(taps, window(x[r], i), sums);
                    put(i, sums, y[r]);
                }
                continue;
            }
            for (int r = 0; r < 4; r += 2) {
                Two first = none(), second = none();
                const Window u = window(x[r], i), v = window(x[r + 1], i);
                for (std::size_t k = from; k < to; ++k) {
                    const Taps taps(b_, k);
                    add(taps, u, first);
                    add(taps, v, second);
                }
                put(i, first, y[r]);
                put(i, second, y[r + 1]);
            }
        }
    }

private:
    using Two = cpu::HWY_NAMESPACE::Two<bfloat16>;
    using Bytes = hn::Repartition<std::uint8_t, Tag<float>>;
    using ByteVec = hn::Vec<Bytes>;
    struct Window {
        ByteVec low, high;
    };
    struct Taps {
        ByteVec even, odd;
        Vec<float> even0, even1, odd0, odd1;
        HWY_INLINE Taps(const PairBlocks& b, std::size_t k)
            : even(hn::LoadU(Bytes(), b.places.data() + k * 64)),
              odd(hn::LoadU(Bytes(), b.places.data() + k * 64 + 32)),
              even0(hn::LoadU(Tag<float>(), b.weight.data() + k * 32)),
              even1(hn::LoadU(Tag<float>(), b.weight.data() + k * 32 + 8)),
              odd0(hn::LoadU(Tag<float>(), b.weight.data() + k * 32 + 16)),
              odd1(hn::LoadU(Tag<float>(), b.weight.data() + k * 32 + 24)) {}
    };

    static HWY_INLINE Two none() { return {hn::Zero(Tag<float>()), hn::Zero(Tag<float>())}; }
    /// The windows of both halves of block i.
    HWY_INLINE Window window(const bfloat16* row, std::size_t i) const {
        const hn::Half<Bytes> half;
        const auto* first = reinterpret_cast<const std::uint8_t*>(row + b_.base[2 * i]);
        const auto* second = reinterpret_cast<const std::uint8_t*>(row + b_.base[2 * i + 1]);
        const auto low = hn::Combine(Bytes(), hn::LoadU(half, second), hn::LoadU(half, first));
        if constexpr (!wide) return {low, low};
        return {low, hn::Combine(Bytes(), hn::LoadU(half, second + 16), hn::LoadU(half, first + 16))};
    }
    static HWY_INLINE hn::Vec<hn::RebindToUnsigned<Tag<float>>> inputs(const Window& w, ByteVec places) {
        const hn::RebindToUnsigned<Tag<float>> words;
        if constexpr (!wide) return hn::BitCast(words, hn::TableLookupBytesOr0(w.low, places));
        // Of bytes beyond 15 the first shuffle makes 0, and the second of those below 16.
        const auto low = hn::SaturatedAdd(places, hn::Set(Bytes(), std::uint8_t{0x70}));
        const auto high = hn::Sub(places, hn::Set(Bytes(), std::uint8_t{0x10}));
        return hn::BitCast(words, hn::Or(hn::TableLookupBytesOr0(w.low, low), hn::TableLookupBytesOr0(w.high, high)));
    }
    static HWY_INLINE void add(const Taps& taps, const Window& w, Two& sums) {
        const Tag<float> d;
        const hn::RebindToUnsigned<Tag<float>> words;
        const auto mask = hn::Set(words, 0xffff0000U);
        const auto even = inputs(w, taps.even), odd = inputs(w, taps.odd);
        sums.a = hn::MulAdd(taps.even0, hn::BitCast(d, hn::ShiftLeft<16>(even)), sums.a);
        sums.b = hn::MulAdd(taps.odd0, hn::BitCast(d, hn::ShiftLeft<16>(odd)), sums.b);
        sums.a = hn::MulAdd(taps.even1, hn::BitCast(d, hn::And(even, mask)), sums.a);
        sums.b = hn::MulAdd(taps.odd1, hn::BitCast(d, hn::And(odd, mask)), sums.b);
    }
    HWY_INLINE void put(std::size_t i, Two sums, Out* y) const {
        const Tag<float> d;
        const std::int32_t first = b_.first[i];
        if (p_.divides_each) {
            const float* by = p_.table->divisors_f32.data() + first;
            const auto low = hn::LoadU(d, by), high = hn::LoadU(d, by + 8);
            sums = {hn::Div(sums.a, hn::ConcatEven(d, high, low)), hn::Div(sums.b, hn::ConcatOdd(d, high, low))};
        } else if (p_.divisor != 1) {
            const auto by = hn::Set(d, static_cast<float>(p_.divisor));
            sums = {hn::Div(sums.a, by), hn::Div(sums.b, by)};
        }
        if constexpr (std::is_same_v<Out, bfloat16>) {
            cpu::HWY_NAMESPACE::store_pair(sums, y + first);
        } else {
            const auto low = hn::InterleaveLower(d, sums.a, sums.b), high = hn::InterleaveUpper(d, sums.a, sums.b);
            hn::StoreU(hn::ConcatLowerLower(d, high, low), d, y + first);
            hn::StoreU(hn::ConcatUpperUpper(d, high, low), d, y + first + 8);
        }
    }

    const Pass& p_;
    const PairBlocks& b_;
};
#endif

/// Four rows by blocks of eight outputs.
template <bool wide, class In, class Out> HWY_INLINE void four_rows(const Pass& p, const In* const* x, Out* const* y) {
    const Tag<float> d;
    const hn::RebindToSigned<Tag<float>> di;
    const Table& t = *p.table;
    const LaneBlocks& b = t.blocks;
    for (std::size_t i = 0; i < b.base.size(); ++i) {
        const std::int64_t j = b.first[i];
        const std::int32_t base = b.base[i];
        if (base < 0) {
            for (int r = 0; r < 4; ++r) single_outputs(p, j, j + 8, x[r], y[r]);
            continue;
        }
        const auto v0 = load<float>(x[0] + base), v1 = load<float>(x[1] + base), v2 = load<float>(x[2] + base),
                   v3 = load<float>(x[3] + base);
        auto u0 = v0, u1 = v1, u2 = v2, u3 = v3;
        if constexpr (wide) {
            u0 = load<float>(x[0] + base + 8);
            u1 = load<float>(x[1] + base + 8);
            u2 = load<float>(x[2] + base + 8);
            u3 = load<float>(x[3] + base + 8);
        }
        auto a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0;
        const auto add = [&](std::int32_t k, const auto& input) HWY_ATTR {
            const auto lane = hn::LoadU(di, b.lane.data() + k);
            const auto w = hn::LoadU(d, b.weight.data() + k);
            a0 = hn::MulAdd(w, input(v0, u0, lane), a0);
            a1 = hn::MulAdd(w, input(v1, u1, lane), a1);
            a2 = hn::MulAdd(w, input(v2, u2, lane), a2);
            a3 = hn::MulAdd(w, input(v3, u3, lane), a3);
        };
        for (std::int32_t k = b.start[i]; k < b.start[i + 1]; k += 8) {
            if (b.uneven[i] == 0) {
                add(k, [&](auto v, auto u, auto lane) HWY_ATTR { return pick(v, u, lane, wide); });
                continue;
            }
            add(k, [&](auto v, auto u, auto lane) HWY_ATTR {  // 0 where there is no tap
                const auto missing = hn::RebindMask(d, hn::Lt(lane, hn::Zero(di)));
                return hn::IfThenZeroElse(missing, pick(v, u, lane, wide));
            });
        }
        divide_four(p, j, a0, a1, a2, a3);
        store_four<float>(a0, a1, a2, a3, y[0] + j, y[1] + j, y[2] + j, y[3] + j);
    }
}

template <class In, class Out>
HWY_INLINE void block_rows(const Pass& p, const void* const* in, void* const* out, std::int64_t count) {
    for (std::int64_t r = 0; r < count; r += 4) {
        const In* x[4];
        Out* y[4];
        for (std::int64_t i = 0; i < 4; ++i) {  // missing rows are the first one again
            const std::int64_t row = r + i < count ? r + i : r;
            x[i] = static_cast<const In*>(in[row]);
            y[i] = static_cast<Out*>(out[row]);
        }
        const bool wide = p.table->blocks.window > 8;
#if HWY_TARGET == HWY_AVX2
        if constexpr (std::is_same_v<In, bfloat16> && (std::is_same_v<Out, bfloat16> || std::is_same_v<Out, float>)) {
            if (!p.table->pairs.first.empty()) {
                wide ? PairRows<true, Out>(p).run(x, y) : PairRows<false, Out>(p).run(x, y);
                continue;
            }
        }
#endif
        wide ? four_rows<true>(p, x, y) : four_rows<false>(p, x, y);
    }
}
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::resample
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
