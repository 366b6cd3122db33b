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
/// Four rows of bf16 by blocks of eight outputs. One shuffle of bytes brings the inputs of two taps of every output
/// side by side in 32 bits, from where they widen by a shift and a mask.
template <bool wide, class Out>
HWY_INLINE void four_rows_of_pairs(const Pass& p, const bfloat16* const* x, Out* const* y) {
    const Tag<float> d;
    const hn::RebindToSigned<Tag<float>> di;
    const hn::Repartition<std::uint16_t, Tag<float>> halves;
    const hn::Repartition<std::uint8_t, Tag<float>> bytes;
    const Table& t = *p.table;
    const LaneBlocks& b = t.blocks;
    for (std::size_t i = 0; i < b.base.size(); ++i) {
        const auto j = static_cast<std::int64_t>(i) * 8;
        const std::int32_t base = b.base[i];
        if (base < 0) {
            for (int r = 0; r < 4; ++r) single_outputs(p, j, j + 8, x[r], y[r]);
            continue;
        }
        auto a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0;
        for (std::int32_t k = b.start[i]; k < b.start[i + 1]; k += 16) {
            const bool two = k + 8 < b.start[i + 1];
            const auto first = hn::LoadU(di, b.lane.data() + k);
            const auto second = two ? hn::LoadU(di, b.lane.data() + k + 8) : first;
            const auto w0 = hn::LoadU(d, b.weight.data() + k);
            const auto w1 = two ? hn::LoadU(d, b.weight.data() + k + 8) : w0;
            // Of lane l the bytes 2 l and 2 l + 1, as l 0x0202 + 0x0100.
            const auto lanes = hn::BitCast(halves, hn::Or(first, hn::ShiftLeft<16>(second)));
            const auto places =
                hn::Add(hn::Mul(lanes, hn::Set(halves, std::uint16_t{0x0202})), hn::Set(halves, std::uint16_t{0x0100}));
            // Bytes of the other half of a wide window get an index beyond 127, which gives 0.
            const auto low = wide ? hn::Add(hn::BitCast(bytes, places), hn::Set(bytes, std::uint8_t{0x70}))
                                  : hn::BitCast(bytes, places);
            const auto high = hn::Sub(hn::BitCast(bytes, places), hn::Set(bytes, std::uint8_t{0x10}));
            const auto add = [&](const bfloat16* row, Vec<float>& sum) HWY_ATTR {
                const auto* from = reinterpret_cast<const std::uint8_t*>(row + base);
                auto both = hn::TableLookupBytesOr0(hn::LoadDup128(bytes, from), low);
                if (wide) both = hn::Or(both, hn::TableLookupBytesOr0(hn::LoadDup128(bytes, from + 16), high));
                const auto words = hn::BitCast(hn::RebindToUnsigned<Tag<float>>(), both);
                sum = hn::MulAdd(w0, hn::BitCast(d, hn::ShiftLeft<16>(words)), sum);
                if (!two) return;
                const auto upper = hn::And(words, hn::Set(hn::RebindToUnsigned<Tag<float>>(), 0xffff0000U));
                sum = hn::MulAdd(w1, hn::BitCast(d, upper), sum);
            };
            add(x[0], a0);
            add(x[1], a1);
            add(x[2], a2);
            add(x[3], a3);
        }
        divide_four(p, j, a0, a1, a2, a3);
        store_four<float>(a0, a1, a2, a3, y[0] + j, y[1] + j, y[2] + j, y[3] + j);
    }
    const std::int64_t done = std::ssize(b.base) * 8;
    for (int r = 0; r < 4; ++r) single_outputs(p, done, t.outputs, x[r], y[r]);
}
#endif

/// Four rows by blocks of eight outputs.
template <bool wide, class In, class Out> HWY_INLINE void four_rows(const Pass& p, const In* const* x, Out* const* y) {
    const Tag<float> d;
    const hn::RebindToSigned<Tag<float>> di;
    const Table& t = *p.table;
    const LaneBlocks& b = t.blocks;
    for (std::size_t i = 0; i < b.base.size(); ++i) {
        const auto j = static_cast<std::int64_t>(i) * 8;
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
        for (std::int32_t k = b.start[i]; k < b.start[i + 1]; k += 8) {
            const auto lane = hn::LoadU(di, b.lane.data() + k);
            const auto w = hn::LoadU(d, b.weight.data() + k);
            a0 = hn::MulAdd(w, pick(v0, u0, lane, wide), a0);
            a1 = hn::MulAdd(w, pick(v1, u1, lane, wide), a1);
            a2 = hn::MulAdd(w, pick(v2, u2, lane, wide), a2);
            a3 = hn::MulAdd(w, pick(v3, u3, lane, wide), a3);
        }
        divide_four(p, j, a0, a1, a2, a3);
        store_four<float>(a0, a1, a2, a3, y[0] + j, y[1] + j, y[2] + j, y[3] + j);
    }
    const std::int64_t done = std::ssize(b.base) * 8;
    for (int r = 0; r < 4; ++r) single_outputs(p, done, t.outputs, x[r], y[r]);
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
        if constexpr (std::is_same_v<In, bfloat16>) {
            wide ? four_rows_of_pairs<true>(p, x, y) : four_rows_of_pairs<false>(p, x, y);
            continue;
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
