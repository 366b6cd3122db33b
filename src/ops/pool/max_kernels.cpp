// The kernels over lanes; see max_kernels.h.
#include "ops/pool/max_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pool/max_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/pool/max_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops::pool {
namespace HWY_NAMESPACE {
namespace {

/// The running maximum of one vector of lanes.
template <class S, bool keep> struct Best {
    LaneVec<S> most;
    IdVec<S> id;

    static Best first(LaneVec<S> v, IdVec<S> number) { return {v, number}; }
    void meet(LaneVec<S> v, IdVec<S> number) {
        auto take = hn::Gt(v, most);
        if constexpr (std::is_floating_point_v<Lane<S>>) take = hn::Or(take, hn::IsNaN(v));
        most = hn::IfThenElse(take, v, most);
        if constexpr (keep) id = hn::IfThenElse(hn::RebindMask(IdTag<S>(), take), number, id);
    }
};

/// Calls body(offset, number) for all taps in order but the first.
template <class F> inline void each_tap(const MaxLanes& j, const F& body) {
    std::int64_t from = j.k_begin + 1;
    for (std::int64_t o = 0; o < j.outer; ++o, from = j.k_begin) {
        for (std::int64_t k = from; k < j.k_end; ++k) {
            body(j.offsets[o] + k * j.k_step, static_cast<std::int64_t>(j.ids[o]) + k);
        }
    }
}

template <class S, bool keep> struct MaxPass {
    const MaxLanes& j;
    const S* x = static_cast<const S*>(j.x);
    S* y = static_cast<S*>(j.y);
    std::int64_t first = j.offsets[0] + j.k_begin * j.k_step;
    std::int64_t first_id = static_cast<std::int64_t>(j.ids[0]) + j.k_begin;

    static IdVec<S> number(std::int64_t id) { return hn::Set(IdTag<S>(), static_cast<LaneId<S>>(id)); }

    template <std::int64_t step> Best<S, keep> one(std::int64_t i) const {
        auto best = Best<S, keep>::first(load_lanes<S, step>(x + first + i * step), number(first_id));
        each_tap(j, [&](std::int64_t offset, std::int64_t id) {
            best.meet(load_lanes<S, step>(x + offset + i * step), number(id));
        });
        return best;
    }
    /// Four vectors at a time: each one's comparisons wait for each other.
    template <std::int64_t step> void four(std::int64_t i) const {
        const auto n = static_cast<std::int64_t>(hn::Lanes(Tag<S>()));
        const S* from = x + i * step;
        const std::int64_t s = n * step;
        const auto none = number(first_id);
        auto a = Best<S, keep>::first(load_lanes<S, step>(from + first), none);
        auto b = Best<S, keep>::first(load_lanes<S, step>(from + first + s), none);
        auto c = Best<S, keep>::first(load_lanes<S, step>(from + first + 2 * s), none);
        auto e = Best<S, keep>::first(load_lanes<S, step>(from + first + 3 * s), none);
        each_tap(j, [&](std::int64_t offset, std::int64_t id) {
            const auto which = number(id);
            a.meet(load_lanes<S, step>(from + offset), which);
            b.meet(load_lanes<S, step>(from + offset + s), which);
            c.meet(load_lanes<S, step>(from + offset + 2 * s), which);
            e.meet(load_lanes<S, step>(from + offset + 3 * s), which);
        });
        store(a, i);
        store(b, i + n);
        store(c, i + 2 * n);
        store(e, i + 3 * n);
    }
    void store(const Best<S, keep>& best, std::int64_t i) const {
        store_lanes<S>(best.most, y + i);
        if constexpr (keep) store_ids<S>(best.id, j.taps, j.wide_taps, i);
    }
    /// The first `count` lanes of a vector.
    void store_some(const Best<S, keep>& best, std::int64_t i, std::int64_t count) const {
        S values[HWY_MAX_BYTES / sizeof(Lane<S>)];
        store_lanes<S>(best.most, values);
        std::memcpy(y + i, values, static_cast<std::size_t>(count) * sizeof(S));
        if constexpr (keep) {
            std::int32_t ids[HWY_MAX_BYTES / sizeof(Lane<S>)];
            store_ids<S>(best.id, ids, true, 0);
            for (std::int64_t l = 0; l < count; ++l) write_tap(i + l, ids[l]);
        }
    }
    void write_tap(std::int64_t at, std::int32_t id) const {
        if (j.wide_taps) {
            static_cast<std::int32_t*>(j.taps)[at] = id;
        } else {
            static_cast<std::uint8_t*>(j.taps)[at] = static_cast<std::uint8_t>(id);
        }
    }
    template <std::int64_t step> std::int64_t vectors() const {
        const auto n = static_cast<std::int64_t>(hn::Lanes(Tag<S>()));
        // Vectors of neighbours 2 apart read one element more than they use.
        const auto readable = [&](std::int64_t end) { return j.last_offset + end * step <= j.readable; };
        std::int64_t i = 0;
        for (; i + 4 * n <= j.lanes && readable(i + 4 * n); i += 4 * n) four<step>(i);
        for (; i + n <= j.lanes && readable(i + n); i += n) store(one<step>(i), i);
        if (i < j.lanes && i + n > j.lanes && readable(i + n)) {
            store_some(one<step>(i), i, j.lanes - i);
            i = j.lanes;
        }
        return i;
    }
    void scalar(std::int64_t i) const {
        S most = x[first + i * j.step];
        auto value = static_cast<Lane<S>>(most);
        std::int64_t which = first_id;
        each_tap(j, [&](std::int64_t offset, std::int64_t id) {
            const S candidate = x[offset + i * j.step];
            const auto v = static_cast<Lane<S>>(candidate);
            if (!(v > value) && v == v) return;
            most = candidate;
            value = v;
            which = id;
        });
        y[i * j.y_step] = most;
        if constexpr (keep) write_tap(i * j.y_step, static_cast<std::int32_t>(which));
    }
};

template <class S, bool keep> void max_lanes(const MaxLanes& j) {
    if (j.outer == 0 || j.k_begin >= j.k_end) {
        for (std::int64_t i = 0; i < j.lanes; ++i) {
            static_cast<S*>(j.y)[i * j.y_step] = static_cast<S>(lowest_lane<S>());
            if constexpr (keep) {
                if (j.wide_taps) {
                    static_cast<std::int32_t*>(j.taps)[i * j.y_step] = INT32_MAX;
                } else {
                    static_cast<std::uint8_t*>(j.taps)[i * j.y_step] = 255;
                }
            }
        }
        return;
    }
    const MaxPass<S, keep> pass{j};
    std::int64_t i = 0;
    if (j.y_step == 1 && j.lanes > 1) {
        if (j.step == 1) i = pass.template vectors<1>();
        if (j.step == 2) i = pass.template vectors<2>();
    }
    for (; i < j.lanes; ++i) pass.scalar(i);
}

template <class S> void put_lanes(const PutLanes& j) {
    using T = Lane<S>;
    const Tag<S> d;
    const IdTag<S> di;
    const auto n = static_cast<std::int64_t>(hn::Lanes(d));
    const S* y = static_cast<const S*>(j.y);
    S* x = static_cast<S*>(j.x);
    std::int64_t i = 0;
    for (; i + n <= j.lanes; i += n) {
        auto sum = hn::Zero(d);
        for (std::int64_t t = 0; t < j.count; ++t) {
            const std::int64_t at = j.offsets[t] + i;
            const auto here =
                hn::Eq(load_ids<S>(j.taps, j.wide_taps, at), hn::Set(di, static_cast<LaneId<S>>(j.ids[t])));
            sum = hn::Add(sum, hn::IfThenElseZero(hn::RebindMask(d, here), load_side(y + at)));
        }
        store_lanes<S>(sum, x + i);
    }
    for (; i < j.lanes; ++i) {
        T sum = 0;
        for (std::int64_t t = 0; t < j.count; ++t) {
            const std::int64_t at = j.offsets[t] + i;
            const std::int32_t id = j.wide_taps ? static_cast<const std::int32_t*>(j.taps)[at]
                                                : static_cast<const std::uint8_t*>(j.taps)[at];
            if (id == j.ids[t]) sum += static_cast<T>(y[at]);
        }
        x[i] = static_cast<S>(sum);
    }
}

template <class S> MaxKernel either(bool keep) { return keep ? max_lanes<S, true> : max_lanes<S, false>; }

MaxKernel max_kernel(DType dtype, bool keep) {
    switch (dtype) {
        case f64: return either<double>(keep);
        case f32: return either<float>(keep);
        case f16: return either<float16>(keep);
        case bf16: return either<bfloat16>(keep);
        case i64: return either<std::int64_t>(keep);
        case i32: return either<std::int32_t>(keep);
        case i16: return either<std::int16_t>(keep);
        case i8: return either<std::int8_t>(keep);
        case u64: return either<std::uint64_t>(keep);
        case u32: return either<std::uint32_t>(keep);
        case u16: return either<std::uint16_t>(keep);
        default: return either<std::uint8_t>(keep);
    }
}

PutKernel put_kernel(DType dtype) {
    switch (dtype) {
        case f64: return put_lanes<double>;
        case f32: return put_lanes<float>;
        case f16: return put_lanes<float16>;
        default: return put_lanes<bfloat16>;
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::pool
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::pool {

HWY_EXPORT(max_kernel);
HWY_EXPORT(put_kernel);

MaxKernel find_max_kernel(DType dtype, bool keep) { return HWY_DYNAMIC_DISPATCH(max_kernel)(dtype, keep); }
PutKernel find_put_kernel(DType dtype) { return HWY_DYNAMIC_DISPATCH(put_kernel)(dtype); }

}  // namespace calor::ops::pool
#endif
