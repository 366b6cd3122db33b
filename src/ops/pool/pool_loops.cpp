// The loops of pooling: bodies for the walk of pool_walk.h, whose inner loops run over lanes and are vectorised by the
// compiler for each instruction set. Halves and narrow integers are widened first (ops/widen.h).
#include <cstring>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pool/pool_loops.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/parallel.h"
#include "device/cpu/vectorize.h"
#include "ops/pool/pool_walk.h"
#include "ops/widen.h"

#ifndef CALOR_POOL_JOB
#define CALOR_POOL_JOB
namespace calor::ops::pool {

/// Rows [begin, end) of a walk. `x` has the data's sizes and `y` the positions'; which one is written depends on the
/// kind.
struct Job {
    Kind kind;
    const Walk& walk;
    const View* taps;  ///< written by max (or null), read by max_grad and max_take
    std::int64_t begin, end;
};

}  // namespace calor::ops::pool
#endif

HWY_BEFORE_NAMESPACE();
namespace calor::ops::pool {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls f(std::integral_constant) with a step that is known to the compiler where that helps.
template <class F> inline void with_step(std::int64_t step, const F& f) {
    if (step == 1) {
        f(std::integral_constant<std::int64_t, 1>());
    } else if (step == 2) {
        f(std::integral_constant<std::int64_t, 2>());
    } else {
        f(step);
    }
}

/// Lane buffers have elements as wide as T, so that loops over both vectorise.
template <class T> using LaneId = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

template <class T>
inline void load_taps(const View& taps, std::int64_t at, std::int64_t step, std::int64_t lanes, LaneId<T>* out) {
    if (taps.dtype == u8) {
        const auto* from = taps.as<const std::uint8_t>() + at;
        with_step(step, [&](auto s) {
            for (std::int64_t i = 0; i < lanes; ++i) out[i] = from[i * s];
        });
    } else {
        const auto* from = taps.as<const std::int32_t>() + at;
        for (std::int64_t i = 0; i < lanes; ++i) out[i] = from[i * step];
    }
}

template <class T>
inline void store_taps(const View& taps, std::int64_t at, std::int64_t step, std::int64_t lanes, const LaneId<T>* ids) {
    if (taps.dtype == u8) {
        auto* to = taps.as<std::uint8_t>() + at;
        with_step(step, [&](auto s) {
            for (std::int64_t i = 0; i < lanes; ++i)
                to[i * s] = static_cast<std::uint8_t>(ids[i] & 255);  // no_tap: 255
        });
    } else {
        auto* to = taps.as<std::int32_t>() + at;
        for (std::int64_t i = 0; i < lanes; ++i) to[i * step] = static_cast<std::int32_t>(ids[i]);
    }
}

/// Every other element of the vector `first` and of the one at `next`.
template <class D, class V, class T> inline V every_other(D d, V first, const T* next) {
#if HWY_TARGET == HWY_SCALAR
    (void)d, (void)next;
    return first;
#else
    return hn::ConcatEven(d, hn::LoadU(d, next), first);
#endif
}

template <class T> using Tag = hn::ScalableTag<T>;
template <class T> using IdTag = hn::RebindToSigned<Tag<T>>;

/// One vector of tap numbers from or to saved taps, which lie side by side.
template <class T> inline hn::Vec<IdTag<T>> load_ids(const View& taps, std::int64_t at) {
    const IdTag<T> di;
    if constexpr (sizeof(T) == 4) {
        const hn::Rebind<std::uint8_t, IdTag<T>> bytes;
        if (taps.dtype == u8) return hn::PromoteTo(di, hn::LoadU(bytes, taps.as<const std::uint8_t>() + at));
        return hn::LoadU(di, taps.as<const std::int32_t>() + at);
    } else {
        LaneId<T> ids[HWY_MAX_BYTES / sizeof(T)];
        load_taps<T>(taps, at, 1, static_cast<std::int64_t>(hn::Lanes(di)), ids);
        return hn::LoadU(di, ids);
    }
}
template <class T> inline void store_ids(const View& taps, std::int64_t at, hn::Vec<IdTag<T>> v) {
    const IdTag<T> di;
    if constexpr (sizeof(T) == 4) {
        const hn::Rebind<std::uint8_t, IdTag<T>> bytes;
        if (taps.dtype == u8) return hn::StoreU(hn::DemoteTo(bytes, v), bytes, taps.as<std::uint8_t>() + at);
        hn::StoreU(v, di, taps.as<std::int32_t>() + at);
    } else {
        LaneId<T> ids[HWY_MAX_BYTES / sizeof(T)];
        hn::StoreU(v, di, ids);
        store_taps<T>(taps, at, 1, static_cast<std::int64_t>(hn::Lanes(di)), ids);
    }
}

template <class T, bool keep> struct Maximum {
    const Job& job;
    T best[most_lanes] = {};
    LaneId<T> ids[most_lanes] = {};
    std::int64_t at = 0, lanes = 0;

    void begin(std::int64_t y_offset, std::int64_t count, const Dims&) {
        at = y_offset;
        lanes = count;
        constexpr T low =
            std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
        for (std::int64_t i = 0; i < lanes; ++i) best[i] = low;
        if constexpr (keep) {
            for (std::int64_t i = 0; i < lanes; ++i) ids[i] = no_tap;
        }
    }
    /// The vector part of tap(): elements 1 or 2 apart. Returns how many lanes are done.
    std::int64_t tap_vectors(const T* from, std::int64_t step, std::int64_t count, T* to, LaneId<T>* which,
                             std::int64_t id) {
        const Tag<T> d;
        const IdTag<T> di;
        const auto n = static_cast<std::int64_t>(hn::Lanes(d));
        std::int64_t i = 0;
        for (; i + n < count; i += n) {  // not the last one: elements 2 apart are read as pairs
            const auto first = hn::LoadU(d, from + i * step);
            const auto v = step == 1 ? first : every_other(d, first, from + 2 * i + n);
            const auto old = hn::LoadU(d, to + i);
            auto take = hn::Or(hn::Gt(v, old), hn::Ne(v, v));
            if constexpr (keep) {
                const auto ids_before = hn::LoadU(di, which + i);
                take = hn::Or(take, hn::RebindMask(d, hn::Eq(ids_before, hn::Set(di, no_tap))));
                const auto number = hn::Set(di, static_cast<LaneId<T>>(id));
                hn::StoreU(hn::IfThenElse(hn::RebindMask(di, take), number, ids_before), di, which + i);
            }
            hn::StoreU(hn::IfThenElse(take, v, old), d, to + i);
        }
        return i;
    }
    void tap(std::int64_t low, std::int64_t high, std::int64_t x_offset, std::int64_t id) {
        const T* from = job.walk.x.as<const T>() + x_offset;
        const std::int64_t step = job.walk.x_step, count = high - low;
        T* to = best + low;
        LaneId<T>* which = ids + low;
        std::int64_t i = 0;
        if constexpr (std::is_floating_point_v<T>) {
            if (step == 1 || step == 2) i = tap_vectors(from, step, count, to, which, id);
        }
        for (; i < count; ++i) {
            const T v = from[i * step];
            const bool take = v > to[i] || v != v || (keep && which[i] == no_tap);
            to[i] = take ? v : to[i];
            which[i] = take ? static_cast<LaneId<T>>(id) : which[i];
        }
    }
    bool row(const Row& r, bool whole) {
        if constexpr (!std::is_floating_point_v<T>) {
            return false;
        } else {
            const std::int64_t y_offset = r.y_at, x_offset = r.x_at, count = r.lanes;
            const Tag<T> d;
            const IdTag<T> di;
            const auto n = static_cast<std::int64_t>(hn::Lanes(d)), taps = std::ssize(job.walk.tap_offset);
            if (!whole || count % n != 0) return false;
            const std::int64_t* offsets = job.walk.tap_offset.data();
            const T* x = job.walk.x.as<const T>() + x_offset;
            T* y = job.walk.y.as<T>() + y_offset;
            for (std::int64_t i = 0; i < count; i += n) {
                auto most = hn::LoadU(d, x + i);
                auto which = hn::Zero(di);
                for (std::int64_t t = 1; t < taps; ++t) {
                    const auto v = hn::LoadU(d, x + offsets[t] + i);
                    const auto take = hn::Or(hn::Gt(v, most), hn::Ne(v, v));
                    most = hn::IfThenElse(take, v, most);
                    if constexpr (keep) {
                        which = hn::IfThenElse(hn::RebindMask(di, take), hn::Set(di, static_cast<LaneId<T>>(t)), which);
                    }
                }
                hn::StoreU(most, d, y + i);
                if constexpr (keep) store_ids<T>(*job.taps, y_offset + i, which);
            }
            return true;
        }
    }
    void finish() {
        T* to = job.walk.y.as<T>() + at;
        with_step(job.walk.y_step, [&](auto step) {
            for (std::int64_t i = 0; i < lanes; ++i) to[i * step] = best[i];
        });
        if constexpr (keep) store_taps<T>(*job.taps, at, job.walk.y_step, lanes, ids);
    }
};

inline constexpr std::int64_t nowhere = INT64_MIN;

/// Calls f(lane, offset of the element of x that the lane's saved tap names, or nowhere) for positions along the last
/// axis.
template <class F> inline void each_named(const Job& job, const Row& r, const F& f) {
    const Walk& w = job.walk;
    const std::int64_t last = w.a.window.rank() - 1, step = w.y_step, x_step = w.x_step;
    const std::int64_t base =
        r.x_at + (r.position[last] * w.a.window.stride[last] - w.a.window.pad_low[last]) * w.x.stride(last + 2);
    const std::int64_t* offsets = w.tap_offset.data();
    const auto walk = [&](const auto* taps, std::int64_t none) {
        for (std::int64_t i = 0; i < r.lanes; ++i) {
            const std::int64_t id = taps[i * step];
            f(i, id == none ? nowhere : base + i * x_step + offsets[id]);
        }
    };
    if (job.taps->dtype == u8) {
        walk(job.taps->as<const std::uint8_t>() + r.y_at, 255);
    } else {
        walk(job.taps->as<const std::int32_t>() + r.y_at, no_tap);
    }
}

/// y = the element of x that the saved tap names; 0 for none.
template <class T> struct Take {
    const Job& job;
    T values[most_lanes] = {};
    LaneId<T> ids[most_lanes] = {};
    std::int64_t at = 0, lanes = 0;

    void begin(std::int64_t y_offset, std::int64_t count, const Dims&) {
        at = y_offset;
        lanes = count;
        for (std::int64_t i = 0; i < lanes; ++i) values[i] = T(0);
        load_taps<T>(*job.taps, at, job.walk.y_step, lanes, ids);
    }
    void tap(std::int64_t low, std::int64_t high, std::int64_t x_offset, std::int64_t id) {
        const T* from = job.walk.x.as<const T>() + x_offset;
        T* to = values + low;
        const LaneId<T>* which = ids + low;
        const auto number = static_cast<LaneId<T>>(id);
        with_step(job.walk.x_step, [&](auto step) {
            for (std::int64_t i = 0; i < high - low; ++i) {
                const T v = from[i * step];
                to[i] = which[i] == number ? v : to[i];
            }
        });
    }
    bool row(const Row& r, bool) {
        if (job.walk.channels) return false;
        each_named(job, r, [&](std::int64_t lane, std::int64_t x_offset) {
            job.walk.y.as<T>()[r.y_at + lane * job.walk.y_step] =
                x_offset == nowhere ? T(0) : job.walk.x.as<const T>()[x_offset];
        });
        return true;
    }
    void finish() {
        T* to = job.walk.y.as<T>() + at;
        for (std::int64_t i = 0; i < lanes; ++i) to[i * job.walk.y_step] = values[i];
    }
};

/// x += y where the saved tap is this one; windows that share nothing write instead of adding.
template <class T, bool write> struct Put {
    const Job& job;
    T values[most_lanes] = {};
    LaneId<T> ids[most_lanes] = {};

    void begin(std::int64_t y_offset, std::int64_t lanes, const Dims&) {
        const T* from = job.walk.y.as<const T>() + y_offset;
        with_step(job.walk.y_step, [&](auto step) {
            for (std::int64_t i = 0; i < lanes; ++i) values[i] = from[i * step];
        });
        load_taps<T>(*job.taps, y_offset, job.walk.y_step, lanes, ids);
    }
    void tap(std::int64_t low, std::int64_t high, std::int64_t x_offset, std::int64_t id) {
        T* to = job.walk.x.as<T>() + x_offset;
        const T* from = values + low;
        const LaneId<T>* which = ids + low;
        const auto number = static_cast<LaneId<T>>(id);
        with_step(job.walk.x_step, [&](auto step) {
            CALOR_VECTORIZE
            for (std::int64_t i = 0; i < high - low; ++i) {
                const T v = which[i] == number ? from[i] : T(0);
                if constexpr (write) {
                    to[i * step] = v;
                } else {
                    to[i * step] += v;
                }
            }
        });
    }
    bool row(const Row& r, bool whole) {
        if (!job.walk.channels) {  // straight to the element that the tap names; the rest is zero already
            each_named(job, r, [&](std::int64_t lane, std::int64_t x_offset) {
                const T g = job.walk.y.as<const T>()[r.y_at + lane * job.walk.y_step];
                if (x_offset != nowhere) job.walk.x.as<T>()[x_offset] += g;
            });
            return true;
        }
        const std::int64_t y_offset = r.y_at, x_offset = r.x_at, count = r.lanes;
        const Tag<T> d;
        const IdTag<T> di;
        const auto n = static_cast<std::int64_t>(hn::Lanes(d)), taps = std::ssize(job.walk.tap_offset);
        if (!whole || count % n != 0) return false;
        const std::int64_t* offsets = job.walk.tap_offset.data();
        T* x = job.walk.x.as<T>() + x_offset;
        const T* y = job.walk.y.as<const T>() + y_offset;
        for (std::int64_t i = 0; i < count; i += n) {
            const auto g = hn::LoadU(d, y + i);
            const auto which = load_ids<T>(*job.taps, y_offset + i);
            for (std::int64_t t = 0; t < taps; ++t) {
                const auto here = hn::RebindMask(d, hn::Eq(which, hn::Set(di, static_cast<LaneId<T>>(t))));
                auto v = hn::IfThenElseZero(here, g);
                if constexpr (!write) v = hn::Add(v, hn::LoadU(d, x + offsets[t] + i));
                hn::StoreU(v, d, x + offsets[t] + i);
            }
        }
        return true;
    }
    void finish() {}
};

/// The divisor of each lane's window; 1 for a window without elements, whose sum is 0.
template <class T> inline void load_divisors(const Walk& w, const Dims& position, std::int64_t lanes, T* divisors) {
    const double outer = w.divisor(position);
    const std::int64_t from = position.back();
    for (std::int64_t i = 0; i < lanes; ++i) {
        const double divisor =
            w.channels || w.a.divisor > 0 ? outer : outer * w.last_count[static_cast<std::size_t>(from + i)];
        divisors[i] = divisor > 0 ? static_cast<T>(divisor) : T(1);
    }
}

template <class T> struct Average {
    const Job& job;
    T sums[most_lanes] = {}, divisors[most_lanes] = {};
    std::int64_t at = 0, lanes = 0;

    void begin(std::int64_t y_offset, std::int64_t count, const Dims& position) {
        at = y_offset;
        lanes = count;
        for (std::int64_t i = 0; i < lanes; ++i) sums[i] = T(0);
        load_divisors(job.walk, position, lanes, divisors);
    }
    void tap(std::int64_t low, std::int64_t high, std::int64_t x_offset, std::int64_t) {
        const T* from = job.walk.x.as<const T>() + x_offset;
        T* to = sums + low;
        with_step(job.walk.x_step, [&](auto step) {
            CALOR_VECTORIZE
            for (std::int64_t i = 0; i < high - low; ++i) to[i] += from[i * step];
        });
    }
    bool row(const Row& r, bool whole) {
        const std::int64_t y_offset = r.y_at, x_offset = r.x_at, count = r.lanes;
        const Tag<T> d;
        const auto n = static_cast<std::int64_t>(hn::Lanes(d)), taps = std::ssize(job.walk.tap_offset);
        if (!whole || count % n != 0) return false;
        const std::int64_t* offsets = job.walk.tap_offset.data();
        const T* x = job.walk.x.as<const T>() + x_offset;
        const auto divisor = hn::Set(d, static_cast<T>(job.walk.whole_divisor()));
        for (std::int64_t i = 0; i < count; i += n) {
            auto sum = hn::LoadU(d, x + i);
            for (std::int64_t t = 1; t < taps; ++t) sum = hn::Add(sum, hn::LoadU(d, x + offsets[t] + i));
            hn::StoreU(hn::Div(sum, divisor), d, job.walk.y.as<T>() + y_offset + i);
        }
        return true;
    }
    void finish() {
        T* to = job.walk.y.as<T>() + at;
        with_step(job.walk.y_step, [&](auto step) {
            for (std::int64_t i = 0; i < lanes; ++i) to[i * step] = sums[i] / divisors[i];
        });
    }
};

template <class T, bool write> struct Spread {
    const Job& job;
    T values[most_lanes] = {}, divisors[most_lanes] = {};

    void begin(std::int64_t y_offset, std::int64_t lanes, const Dims& position) {
        const T* from = job.walk.y.as<const T>() + y_offset;
        load_divisors(job.walk, position, lanes, divisors);
        with_step(job.walk.y_step, [&](auto step) {
            for (std::int64_t i = 0; i < lanes; ++i) values[i] = from[i * step] / divisors[i];
        });
    }
    void tap(std::int64_t low, std::int64_t high, std::int64_t x_offset, std::int64_t) {
        T* to = job.walk.x.as<T>() + x_offset;
        const T* from = values + low;
        with_step(job.walk.x_step, [&](auto step) {
            CALOR_VECTORIZE
            for (std::int64_t i = 0; i < high - low; ++i) {
                if constexpr (write) {
                    to[i * step] = from[i];
                } else {
                    to[i * step] += from[i];
                }
            }
        });
    }
    bool row(const Row& r, bool whole) {
        const std::int64_t y_offset = r.y_at, x_offset = r.x_at, count = r.lanes;
        const Tag<T> d;
        const auto n = static_cast<std::int64_t>(hn::Lanes(d)), taps = std::ssize(job.walk.tap_offset);
        if (!whole || count % n != 0) return false;
        const std::int64_t* offsets = job.walk.tap_offset.data();
        T* x = job.walk.x.as<T>() + x_offset;
        const auto divisor = hn::Set(d, static_cast<T>(job.walk.whole_divisor()));
        for (std::int64_t i = 0; i < count; i += n) {
            const auto g = hn::Div(hn::LoadU(d, job.walk.y.as<const T>() + y_offset + i), divisor);
            for (std::int64_t t = 0; t < taps; ++t) {
                T* to = x + offsets[t] + i;
                hn::StoreU(write ? g : hn::Add(g, hn::LoadU(d, to)), d, to);
            }
        }
        return true;
    }
    void finish() {}
};

template <class Body> void run(const Job& job) {
    Body body{job};
    walk_rows(job.walk, job.begin, job.end, body);
}

template <class T> void run_maximum(const Job& job) {
    return job.taps ? run<Maximum<T, true>>(job) : run<Maximum<T, false>>(job);
}

template <class T> void run_floats(const Job& job) {
    const bool write = job.walk.disjoint;
    switch (job.kind) {
        case Kind::max: return run_maximum<T>(job);
        case Kind::max_take: return run<Take<T>>(job);
        case Kind::max_grad: return write ? run<Put<T, true>>(job) : run<Put<T, false>>(job);
        case Kind::average: return run<Average<T>>(job);
        case Kind::average_grad: return write ? run<Spread<T, true>>(job) : run<Spread<T, false>>(job);
        case Kind::indices: break;
    }
}

void run_rows(const Job& job) {
    switch (job.walk.x.dtype) {
        case f64: return run_floats<double>(job);
        case f32: return run_floats<float>(job);
        case i64: return run_maximum<std::int64_t>(job);
        case i32: return run_maximum<std::int32_t>(job);
        case u64: return run_maximum<std::uint64_t>(job);
        default: return run_maximum<std::uint32_t>(job);
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::pool
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::pool {
namespace {

HWY_EXPORT(run_rows);

/// The dtype that the loops take: its order is that of the narrow one.
DType lane_type(DType dtype) {
    if (is_half(dtype)) return f32;
    if (dtype == i16 || dtype == i8) return i32;
    if (dtype == u16 || dtype == u8 || dtype == boolean) return u32;
    return dtype;
}

bool channels_last(const View& v) { return v.stride(1) == 1 && v.size(1) >= 8; }

/// A view with the strides asked for: itself, or a copy.
struct Laid {
    Laid(const graph::Call& call, const View& v, const Strides& strides) : view(v) {
        if (*v.strides == strides || v.count() == 0) return;
        copy = graph::scratch(call, v.count() * size_of(v.dtype));
        view.data = copy->data;
        view.strides = &strides;
        convert_view(v, view);
    }
    Ref<Storage> copy;
    View view;
};

void clear(const View& v) {
    const std::int64_t bytes = v.count() * size_of(v.dtype);
    cpu::parallel_for(bytes, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
        std::memset(v.as<char>() + begin, 0, static_cast<std::size_t>(end - begin));
    });
}

void run_walk(Kind kind, const graph::Call& call, const View& x, const View& y, const View* taps) {
    const auto& a = call.attrs<Attributes>();
    const bool channels = channels_last(x) && channels_last(y);
    const Walk walk(a, x, y, channels);
    const bool scatters = kind == Kind::max_grad || kind == Kind::average_grad;
    const bool writes_all = walk.disjoint && walk.covers && (channels || kind != Kind::max_grad);
    if (scatters && !writes_all) clear(x);
    const std::int64_t lanes = channels ? std::min(most_lanes, y.size(1)) : std::min(most_lanes, a.positions.back());
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (lanes * tap_count(a.window)));
    if (scatters && !walk.disjoint) {  // rows of a group add to the same elements
        cpu::parallel_for(walk.groups, std::max<std::int64_t>(1, grain / walk.outer),
                          [&](std::int64_t begin, std::int64_t end) {
                              HWY_DYNAMIC_DISPATCH(run_rows)({kind, walk, taps, begin * walk.outer, end * walk.outer});
                          });
        return;
    }
    cpu::parallel_for(walk.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
        HWY_DYNAMIC_DISPATCH(run_rows)({kind, walk, taps, begin, end});
    });
}

}  // namespace

void run_loops(Kind kind, const graph::Call& call) {
    const View &source = call.inputs[0], &result = call.outputs[0];
    if (kind == Kind::indices) return run_reference(kind, call);
    if (result.count() == 0) return;
    if (source.count() == 0) return run_reference(kind, call);  // every window is empty
    const DType lane = lane_type(source.dtype);
    const Widened in(call, source, lane);
    const WidenedResult out(call, result, lane);
    if (kind == Kind::max) {
        run_walk(kind, call, in.view(), out.view(), call.attrs<Attributes>().taps ? &call.outputs[1] : nullptr);
    } else if (kind == Kind::average) {
        run_walk(kind, call, in.view(), out.view(), nullptr);
    } else if (kind == Kind::average_grad) {
        run_walk(kind, call, out.view(), in.view(), nullptr);
    } else {
        // The taps' strides are those of y: what comes in otherwise is copied.
        const View& taps = call.inputs[1];
        if (kind == Kind::max_take) {
            const Laid dense_taps(call, taps, *result.strides);
            run_walk(kind, call, in.view(), out.view(), &dense_taps.view);
        } else {
            const Laid y(call, in.view(), *taps.strides);
            run_walk(kind, call, out.view(), y.view, &taps);
        }
    }
    out.narrow();
}

}  // namespace calor::ops::pool
#endif
