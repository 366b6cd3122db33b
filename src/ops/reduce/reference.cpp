// The reference of every reduction: for each result, a plain loop over the elements that are reduced, in row-major
// order.
#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "ops/reduce/operations.h"

namespace calor::ops {
namespace {

/// Calls visit(element) for every element with the given index on kept axes, in row-major order.
template <class T, class F> void each(const View& x, const Dims& kept, const Axes& reduced, const F& visit) {
    Dims index = kept;
    for (const std::int64_t a : reduced) {
        if (x.size(a) == 0) return;
        index[a] = 0;
    }
    while (true) {
        std::int64_t offset = 0;
        for (std::int64_t a = 0; a < x.rank(); ++a) offset += index[a] * x.stride(a);
        visit(x.as<T>()[offset]);
        std::int64_t i = reduced.rank() - 1;
        for (; i >= 0; --i) {
            if (++index[reduced[i]] < x.size(reduced[i])) break;
            index[reduced[i]] = 0;
        }
        if (i < 0) return;
    }
}

/// Sums of floats in f64, of integers modulo 2^64.
template <class T> using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

template <class T> struct Loops {
    const View& x;
    const ReduceAttributes& a;
    const Dims& kept;
    template <class F> void visit(const F& f) const { each<T>(x, kept, a.axes, f); }

    Wide<T> sum() const {
        Wide<T> s = 0;
        visit([&](T v) { s += static_cast<Wide<T>>(v); });
        return s;
    }
    Wide<T> prod() const {
        Wide<T> s = 1;
        visit([&](T v) { s *= static_cast<Wide<T>>(v); });
        return s;
    }
    /// Value and position of the extreme.
    std::pair<T, std::int64_t> extreme(bool smallest) const {
        std::pair<T, std::int64_t> best{T(), -1};
        std::int64_t position = 0;
        visit([&](T v) {
            const bool better = best.second < 0 ||
                                (best.first == best.first && (smallest ? v < best.first : v > best.first)) ||
                                (v != v && best.first == best.first);
            if (better) best = {v, position};
            ++position;
        });
        return best;
    }
    bool truth(bool all) const {
        bool result = all;
        visit([&](T v) { result = all ? result && v != T(0) : result || v != T(0); });
        return result;
    }
    double logsumexp() const {
        double top = -HUGE_VAL, s = 0;
        visit([&](T v) { top = v != v || top != top ? NAN : std::max(top, static_cast<double>(v)); });
        if (!std::isfinite(top)) return top;
        visit([&](T v) { s += std::exp(static_cast<double>(v) - top); });
        return top + std::log(s);
    }
    double var() const {
        const double n = reduced_count(*x.shape, a.axes), mean = static_cast<double>(sum()) / n;
        double s = 0;
        visit([&](T v) { s += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean); });
        return s / std::max(0.0, n - a.parameter);
    }
    double norm() const {
        const double p = a.parameter;
        double s = p < 0 ? HUGE_VAL : 0;
        visit([&](T v) {
            const double size = std::abs(static_cast<double>(v));
            if (p == 1) s += size;
            if (p == 2) s += size * size;
            if (std::isinf(p)) s = size != size || s != s ? NAN : (p > 0 ? std::max(s, size) : std::min(s, size));
        });
        return p == 2 ? std::sqrt(s) : s;
    }
};

template <class T> T rounded(double v) {
    if constexpr (std::is_same_v<T, double> || std::is_integral_v<T>) return static_cast<T>(v);
    return static_cast<T>(static_cast<float>(v));
}

template <class T, bool Bool> void one(const Loops<T>& loops, const View& y, std::int64_t at) {
    switch (loops.a.kind) {
        case Reduction::sum:
            if constexpr (Bool) {
                std::int64_t count = 0;
                loops.visit([&](T v) { count += v != 0; });
                y.as<std::int64_t>()[at] = count;
            } else if constexpr (std::is_integral_v<T>) {
                y.as<T>()[at] = static_cast<T>(loops.sum());
            } else {
                y.as<T>()[at] = rounded<T>(loops.sum());
            }
            return;
        case Reduction::prod:
            if constexpr (std::is_integral_v<T>) {
                y.as<T>()[at] = static_cast<T>(loops.prod());
            } else {
                y.as<T>()[at] = rounded<T>(loops.prod());
            }
            return;
        case Reduction::mean:
            y.as<T>()[at] = rounded<T>(static_cast<double>(loops.sum()) / reduced_count(*loops.x.shape, loops.a.axes));
            return;
        case Reduction::max:
        case Reduction::min: y.as<T>()[at] = loops.extreme(loops.a.kind == Reduction::min).first; return;
        case Reduction::argmax:
        case Reduction::argmin:
            y.as<std::int64_t>()[at] = loops.extreme(loops.a.kind == Reduction::argmin).second;
            return;
        case Reduction::any:
        case Reduction::all: y.as<std::uint8_t>()[at] = loops.truth(loops.a.kind == Reduction::all); return;
        case Reduction::logsumexp: y.as<T>()[at] = rounded<T>(loops.logsumexp()); return;
        case Reduction::var: y.as<T>()[at] = rounded<T>(loops.var()); return;
        case Reduction::std: y.as<T>()[at] = rounded<T>(std::sqrt(loops.var())); return;
        case Reduction::norm: y.as<T>()[at] = rounded<T>(loops.norm()); return;
    }
}

template <class T, bool Bool = false> void run(const graph::Call& c) {
    const View &x = c.inputs[0], &y = c.outputs[0];
    Dims index(y.rank(), 0);
    for (std::int64_t i = 0, n = y.count(); i < n; ++i) {
        std::int64_t at = 0;
        for (std::int64_t a = 0; a < y.rank(); ++a) at += index[a] * y.stride(a);
        one<T, Bool>({x, c.attrs<ReduceAttributes>(), index}, y, at);
        for (std::int64_t a = y.rank() - 1; a >= 0 && ++index[a] == y.size(a); --a) index[a] = 0;
    }
}

}  // namespace

void reference_reduction(const graph::Call& c) {
    switch (c.inputs[0].dtype) {
        case f64: return run<double>(c);
        case f32: return run<float>(c);
        case f16: return run<float16>(c);
        case bf16: return run<bfloat16>(c);
        case i64: return run<std::int64_t>(c);
        case i32: return run<std::int32_t>(c);
        case i16: return run<std::int16_t>(c);
        case i8: return run<std::int8_t>(c);
        case u64: return run<std::uint64_t>(c);
        case u32: return run<std::uint32_t>(c);
        case u16: return run<std::uint16_t>(c);
        case u8: return run<std::uint8_t>(c);
        case boolean: return run<std::uint8_t, true>(c);
    }
}

}  // namespace calor::ops
