// The loops of average pooling: bodies for the walk of pool_walk.h, whose inner loops run over lanes and are vectorised
// by the compiler for each instruction set. Halves are widened first (ops/widen.h).
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pool/pool_loops.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/parallel.h"
#include "device/cpu/vectorize.h"
#include "ops/pool/max_geometry.h"
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

template <class T> using Tag = hn::ScalableTag<T>;

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

template <class T> void run_floats(const Job& job) {
    if (job.kind == Kind::average) return run<Average<T>>(job);
    return job.walk.disjoint ? run<Spread<T, true>>(job) : run<Spread<T, false>>(job);
}

void run_rows(const Job& job) { return job.walk.x.dtype == f64 ? run_floats<double>(job) : run_floats<float>(job); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::pool
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::pool {
namespace {

HWY_EXPORT(run_rows);

bool channels_last(const View& v) { return v.stride(1) == 1 && v.size(1) >= 8; }

void clear(const View& v) {
    const std::int64_t bytes = v.count() * size_of(v.dtype);
    cpu::parallel_for(bytes, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
        std::memset(v.as<char>() + begin, 0, static_cast<std::size_t>(end - begin));
    });
}

void run_walk(Kind kind, const graph::Call& call, const View& x, const View& y) {
    const auto& a = call.attrs<Attributes>();
    const bool channels = channels_last(x) && channels_last(y);
    const Walk walk(a, x, y, channels);
    const bool scatters = kind == Kind::average_grad;
    if (scatters && !(walk.disjoint && walk.covers)) clear(x);
    const std::int64_t lanes = channels ? std::min(most_lanes, y.size(1)) : std::min(most_lanes, a.positions.back());
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (lanes * tap_count(a.window)));
    if (scatters && !walk.disjoint) {  // rows of a group add to the same elements
        cpu::parallel_for(walk.groups, std::max<std::int64_t>(1, grain / walk.outer),
                          [&](std::int64_t begin, std::int64_t end) {
                              HWY_DYNAMIC_DISPATCH(run_rows)({kind, walk, begin * walk.outer, end * walk.outer});
                          });
        return;
    }
    cpu::parallel_for(walk.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
        HWY_DYNAMIC_DISPATCH(run_rows)({kind, walk, begin, end});
    });
}

}  // namespace

void run_loops(Kind kind, const graph::Call& call) {
    const View &source = call.inputs[0], &result = call.outputs[0];
    switch (kind) {
        case Kind::max: return max_forward(call);
        case Kind::max_take: return max_take(call);
        case Kind::max_grad: return max_grad(call);
        case Kind::indices: return max_indices(call);
        default: break;
    }
    if (result.count() == 0) return;
    if (source.count() == 0) return run_reference(kind, call);  // every window is empty
    const Widened in(call, source);
    const WidenedResult out(call, result);
    if (kind == Kind::average) {
        run_walk(kind, call, in.view(), out.view());
    } else {
        run_walk(kind, call, out.view(), in.view());
    }
    out.narrow();
}

}  // namespace calor::ops::pool
#endif
