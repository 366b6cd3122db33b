// The kernels over lanes; see max_kernels.h.
#include "ops/pool/max_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pool/max_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/element_pairs-inl.h"
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

/// Calls body(offset, number) for the taps with k in [begin, end) in order, but for the first `skip` of them.
template <class F>
inline void each_tap(const MaxLanes& j, std::int64_t begin, std::int64_t end, std::int64_t skip, const F& body) {
    std::int64_t from = begin + skip;
    for (std::int64_t o = 0; o < j.outer; ++o, from = begin) {
        for (std::int64_t k = from; k < end; ++k) {
            body(j.offsets[o] + k * j.k_step, static_cast<std::int64_t>(j.ids[o]) + k, k);
        }
    }
}

template <class S, bool keep> struct MaxPass {
    const MaxLanes& j;
    const S* x = static_cast<const S*>(j.x);
    S* y = static_cast<S*>(j.y);
    std::int64_t first = j.offsets[0] + j.k_begin * j.k_step;
    std::int64_t first_id = static_cast<std::int64_t>(j.ids[0]) + j.k_begin;
    std::int64_t n = static_cast<std::int64_t>(hn::Lanes(Tag<S>()));

    static IdVec<S> number(std::int64_t id) { return hn::Set(IdTag<S>(), static_cast<LaneId<S>>(id)); }

    /// A vector of lanes that have all taps.
    template <std::int64_t step> Best<S, keep> one(std::int64_t i) const {
        const S* from = x + i * j.step;
        auto best = Best<S, keep>::first(load_lanes<S, step>(from + first, j.step), number(first_id));
        each_tap(j, j.k_begin, j.k_end, 1, [&](std::int64_t offset, std::int64_t id, std::int64_t) {
            best.meet(load_lanes<S, step>(from + offset, j.step), number(id));
        });
        return best;
    }
    /// Four vectors at a time: each one's comparisons wait for each other.
    template <std::int64_t step> void four(std::int64_t i) const {
        const S* from = x + i * j.step;
        const std::int64_t s = n * j.step;
        const auto none = number(first_id);
        auto a = Best<S, keep>::first(load_lanes<S, step>(from + first, j.step), none);
        auto b = Best<S, keep>::first(load_lanes<S, step>(from + first + s, j.step), none);
        auto c = Best<S, keep>::first(load_lanes<S, step>(from + first + 2 * s, j.step), none);
        auto e = Best<S, keep>::first(load_lanes<S, step>(from + first + 3 * s, j.step), none);
        each_tap(j, j.k_begin, j.k_end, 1, [&](std::int64_t offset, std::int64_t id, std::int64_t) {
            const auto which = number(id);
            a.meet(load_lanes<S, step>(from + offset, j.step), which);
            b.meet(load_lanes<S, step>(from + offset + s, j.step), which);
            c.meet(load_lanes<S, step>(from + offset + 2 * s, j.step), which);
            e.meet(load_lanes<S, step>(from + offset + 3 * s, j.step), which);
        });
        store(a, i);
        store(b, i + n);
        store(c, i + 2 * n);
        store(e, i + 3 * n);
    }
    /// A vector some of whose lanes lack taps: those are read, and not looked at.
    template <std::int64_t step> Best<S, keep> edge(std::int64_t i) const {
        const Tag<S> d;
        const IdTag<S> di;
        const S* from = x + i * j.step;
        const auto none = number(j.wide_taps ? INT32_MAX : 255), before = number(-1), size = number(j.size);
        LaneId<S> starts[HWY_MAX_BYTES / sizeof(LaneId<S>)] = {};
        for (std::int64_t l = 0; l < n; ++l) starts[l] = static_cast<LaneId<S>>(j.first + (i + l) * j.stride);
        const auto start = hn::LoadU(di, starts);
        auto most = hn::Set(d, lowest_lane<S>());
        auto which = none;
        each_tap(j, j.k_begin, j.k_end, 0, [&](std::int64_t offset, std::int64_t id, std::int64_t k) {
            const auto v = load_lanes<S, step>(from + offset, j.step);
            const auto at = hn::Add(start, number(k * j.dilation));
            auto take = hn::Or(hn::Gt(v, most), hn::RebindMask(d, hn::Eq(which, none)));
            if constexpr (std::is_floating_point_v<Lane<S>>) take = hn::Or(take, hn::IsNaN(v));
            const auto inside = hn::And(hn::Gt(at, before), hn::Lt(at, size));
            take = hn::And(take, hn::RebindMask(d, inside));
            most = hn::IfThenElse(take, v, most);
            which = hn::IfThenElse(hn::RebindMask(di, take), number(id), which);
        });
        return {most, which};
    }
    void store(const Best<S, keep>& best, std::int64_t i) const {
        store_lanes<S>(best.most, y + i);
        if constexpr (keep) store_ids<S>(best.id, j.taps, j.wide_taps, i);
    }
    /// The first `count` lanes of a vector.
    void store_some(const Best<S, keep>& best, std::int64_t i, std::int64_t count) const {
        if (count >= n) return store(best, i);
        S values[HWY_MAX_BYTES / sizeof(Lane<S>)];
        store_lanes<S>(best.most, values);
        std::memcpy(y + i, values, static_cast<std::size_t>(count) * sizeof(S));
        if constexpr (keep) {
            std::int32_t ids[HWY_MAX_BYTES / sizeof(Lane<S>)] = {};
            store_ids<S>(best.id, ids, true, 0);
            for (std::int64_t l = 0; l < count; ++l) write_tap(i + l, ids[l]);
        }
    }
    void write_tap(std::int64_t at, std::int32_t id) const {
        if (j.wide_taps) {
            static_cast<std::int32_t*>(j.taps)[at] = id;
        } else {
            static_cast<std::uint8_t*>(j.taps)[at] = static_cast<std::uint8_t>(id & 255);
        }
    }
    template <std::int64_t step> void vectors() const {
        const std::int64_t low = j.begin ? j.inner_low : 0, high = j.begin ? j.inner_high : j.lanes;
        // Lanes 2 apart are read as pairs; lanes past the last one are read, too.
        const auto readable = [&](std::int64_t from, std::int64_t to) {
            return j.lowest + from * j.step >= j.readable_begin && j.highest + to * j.step <= j.readable_end;
        };
        std::int64_t i = 0;
        while (i < j.lanes) {
            const std::int64_t rest = std::min(n, j.lanes - i);
            if (i >= low && i + 4 * n <= high && readable(i, i + 4 * n)) {
                four<step>(i);
                i += 4 * n;
            } else if (!readable(i, i + n)) {
                scalar(i++);
            } else if (i >= low && i + rest <= high) {
                store_some(one<step>(i), i, rest);
                i += rest;
            } else {
                store_some(edge<step>(i), i, rest);
                i += rest;
            }
        }
    }
    void scalar(std::int64_t i) const {
        const std::int64_t begin = j.begin ? j.begin[i] : j.k_begin, end = j.begin ? j.end[i] : j.k_end;
        if (begin >= end) {
            y[i * j.y_step] = static_cast<S>(lowest_lane<S>());
            if constexpr (keep) write_tap(i * j.y_step, INT32_MAX);
            return;
        }
        S most = x[j.offsets[0] + begin * j.k_step + i * j.step];
        auto value = static_cast<Lane<S>>(most);
        std::int64_t which = static_cast<std::int64_t>(j.ids[0]) + begin;
        each_tap(j, begin, end, 1, [&](std::int64_t offset, std::int64_t id, std::int64_t) {
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
    if (j.outer == 0) {
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
#if HWY_TARGET != HWY_SCALAR
    const bool small = j.size <= (std::int64_t{1} << 30);  // coordinates fit the lanes
    if (j.y_step == 1 && j.lanes > 1 && j.step > 0 && j.k_begin < j.k_end && small) {
        if (j.step == 1) return pass.template vectors<1>();
        if (j.step == 2) return pass.template vectors<2>();
        return pass.template vectors<0>();
    }
#endif
    for (std::int64_t i = 0; i < j.lanes; ++i) pass.scalar(i);
}

/// Calls body(offset, number) for the windows that hold position p.
template <class F> inline void each_holder(const PutLanes& j, std::int64_t p, const F& body) {
    const std::int64_t begin = j.inner_first[p], count = j.inner_first[p + 1] - begin, outer = j.outer;
    const std::int64_t* inner_offsets = j.inner_offsets + begin;
    const std::int32_t* inner_taps = j.inner_taps + begin;
    for (std::int64_t o = 0; o < outer; ++o) {
        const std::int64_t offset = j.offsets[o];
        const std::int32_t id = j.ids[o];
        for (std::int64_t h = 0; h < count; ++h) body(offset + inner_offsets[h], id + inner_taps[h]);
    }
}

template <class S, bool wide> struct PutPass {
    const PutLanes& j;
    const S* y = static_cast<const S*>(j.y);
    const void* taps = j.taps;

    LaneVec<S> chosen(std::int64_t at, IdVec<S> id) const {
        const Tag<S> d;
        const auto here = hn::RebindMask(d, hn::Eq(load_ids<S>(taps, wide, at), id));
        return hn::IfThenElseZero(here, load_side(y + at));
    }
    void four(std::int64_t p, std::int64_t i, S* x) const {
        const Tag<S> d;
        const auto n = static_cast<std::int64_t>(hn::Lanes(d));
        auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
        each_holder(j, p, [&](std::int64_t offset, std::int32_t number) {
            const auto id = hn::Set(IdTag<S>(), static_cast<LaneId<S>>(number));
            a = hn::Add(a, chosen(offset + i, id));
            b = hn::Add(b, chosen(offset + i + n, id));
            c = hn::Add(c, chosen(offset + i + 2 * n, id));
            e = hn::Add(e, chosen(offset + i + 3 * n, id));
        });
        store_lanes<S>(a, x + i);
        store_lanes<S>(b, x + i + n);
        store_lanes<S>(c, x + i + 2 * n);
        store_lanes<S>(e, x + i + 3 * n);
    }
    void one(std::int64_t p, std::int64_t i, S* x) const {
        auto sum = hn::Zero(Tag<S>());
        each_holder(j, p, [&](std::int64_t offset, std::int32_t number) {
            sum = hn::Add(sum, chosen(offset + i, hn::Set(IdTag<S>(), static_cast<LaneId<S>>(number))));
        });
        store_lanes<S>(sum, x + i);
    }
    void scalar(std::int64_t p, std::int64_t i, S* x) const {
        Lane<S> sum = 0;
        each_holder(j, p, [&](std::int64_t offset, std::int32_t number) {
            const std::int64_t at = offset + i;
            const std::int32_t id =
                wide ? static_cast<const std::int32_t*>(taps)[at] : static_cast<const std::uint8_t*>(taps)[at];
            if (id == number) sum += static_cast<Lane<S>>(y[at]);
        });
        x[i] = static_cast<S>(sum);
    }
};

template <class S, bool wide> void put_rows(const PutLanes& j) {
    const auto n = static_cast<std::int64_t>(hn::Lanes(Tag<S>()));
    const PutPass<S, wide> pass{j};
    for (std::int64_t p = 0; p < j.positions; ++p) {
        S* x = static_cast<S*>(j.x) + p * j.x_step;
        std::int64_t i = 0;
        for (; i + 4 * n <= j.lanes; i += 4 * n) pass.four(p, i, x);
        for (; i + n <= j.lanes; i += n) pass.one(p, i, x);
        for (; i < j.lanes; ++i) pass.scalar(p, i, x);
    }
}

template <class S> void put_lanes(const PutLanes& j) {
    return j.wide_taps ? put_rows<S, true>(j) : put_rows<S, false>(j);
}

template <class S> void flush_sums(Lane<S>* sums, void* to, std::int64_t count) {
    const Tag<S> d;
    const auto n = static_cast<std::int64_t>(hn::Lanes(d));
    S* out = static_cast<S*>(to);
    std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX2
    if constexpr (std::is_same_v<S, bfloat16>) {  // sums of bf16: a NaN needs no care
        for (; i + 2 * n <= count; i += 2 * n) {
            cpu::HWY_NAMESPACE::store_bf16(hn::LoadU(d, sums + i), hn::LoadU(d, sums + i + n), out + i);
            hn::StoreU(hn::Zero(d), d, sums + i);
            hn::StoreU(hn::Zero(d), d, sums + i + n);
        }
    }
#endif
    for (; i + n <= count; i += n) {
        store_lanes<S>(hn::LoadU(d, sums + i), out + i);
        hn::StoreU(hn::Zero(d), d, sums + i);
    }
    for (; i < count; ++i) {
        out[i] = static_cast<S>(sums[i]);
        sums[i] = 0;
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

FlushKernel flush_kernel(DType dtype) { return dtype == f16 ? flush_sums<float16> : flush_sums<bfloat16>; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::pool
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::pool {

HWY_EXPORT(max_kernel);
HWY_EXPORT(put_kernel);
HWY_EXPORT(flush_kernel);

MaxKernel find_max_kernel(DType dtype, bool keep) { return HWY_DYNAMIC_DISPATCH(max_kernel)(dtype, keep); }
PutKernel find_put_kernel(DType dtype) { return HWY_DYNAMIC_DISPATCH(put_kernel)(dtype); }
FlushKernel find_flush_kernel(DType dtype) { return HWY_DYNAMIC_DISPATCH(flush_kernel)(dtype); }

}  // namespace calor::ops::pool
#endif
