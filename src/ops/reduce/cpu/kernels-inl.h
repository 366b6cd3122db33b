// Loops of the reductions, compiled once an instruction set. A run of elements is summed in vector lanes of the element
// type (at most row_piece elements, so that rounding errors stay small) and then added to a wider state.
#if defined(CALOR_REDUCE_KERNELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_REDUCE_KERNELS_INL_H
#undef CALOR_REDUCE_KERNELS_INL_H
#else
#define CALOR_REDUCE_KERNELS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/reduce/reduction.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T> using Tag = hn::ScalableTag<T>;
template <class T> constexpr std::int64_t lanes_of() { return static_cast<std::int64_t>(hn::MaxLanes(Tag<T>())); }
template <class T> constexpr T lowest() {
    return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}
template <class T> constexpr T highest() {
    return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
}
template <class T> bool is_nan(T x) { return x != x; }

// Steps: an element is mapped, then joined to what came before. `State` is what lanes are gathered into.
template <class T> using SumState = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

template <class T> struct Sum {
    using State = SumState<T>;
    static constexpr T identity = 0;
    template <class D, class V> static HWY_INLINE V map(D, V x) { return x; }
    template <class V> static HWY_INLINE V join(V a, V b) { return hn::Add(a, b); }
    static HWY_INLINE T scalar(T a, T x) { return static_cast<T>(a + x); }
    static HWY_INLINE State merge(State a, State x) { return a + x; }
};
template <class T> struct SumAbs : Sum<T> {
    template <class D, class V> static HWY_INLINE V map(D, V x) { return hn::Abs(x); }
    static HWY_INLINE T scalar(T a, T x) { return a + std::abs(x); }
};
template <class T> struct SumSquares : Sum<T> {
    template <class D, class V> static HWY_INLINE V map(D, V x) { return hn::Mul(x, x); }
    static HWY_INLINE T scalar(T a, T x) { return a + x * x; }
};
/// Bytes other than 0. A lane meets at most 255 of them: a piece has few enough rows and vectors.
struct Count {
    using State = std::uint64_t;
    static constexpr std::uint8_t identity = 0;
    template <class D, class V> static HWY_INLINE V map(D d, V x) { return hn::Min(x, hn::Set(d, std::uint8_t{1})); }
    template <class V> static HWY_INLINE V join(V a, V b) { return hn::Add(a, b); }
    static HWY_INLINE std::uint8_t scalar(std::uint8_t a, std::uint8_t x) {
        return static_cast<std::uint8_t>(a + (x != 0));
    }
    static HWY_INLINE State merge(State a, State x) { return a + x; }
};
/// The larger of two, or the NaN among them. `Flip`: the smaller.
template <class T, bool Flip> struct Extreme {
    using State = T;
    static constexpr T identity = Flip ? highest<T>() : lowest<T>();
    template <class D, class V> static HWY_INLINE V map(D, V x) { return x; }
    template <class V> static HWY_INLINE V join(V a, V b) {
        if constexpr (std::is_floating_point_v<T>) {
            const auto better = Flip ? hn::Lt(b, a) : hn::Gt(b, a);
            return hn::IfThenElse(hn::Or(better, hn::IsNaN(b)), b, a);
        } else {
            return Flip ? hn::Min(a, b) : hn::Max(a, b);
        }
    }
    static HWY_INLINE T scalar(T a, T x) { return (Flip ? x < a : x > a) || is_nan(x) ? x : a; }
    static HWY_INLINE State merge(State a, State x) { return scalar(a, x); }
};
template <class T> struct MaxAbs : Extreme<T, false> {
    static constexpr T identity = 0;
    template <class D, class V> static HWY_INLINE V map(D, V x) { return hn::Abs(x); }
    static HWY_INLINE T scalar(T a, T x) { return Extreme<T, false>::scalar(a, std::abs(x)); }
};
template <class T> struct MinAbs : Extreme<T, true> {
    template <class D, class V> static HWY_INLINE V map(D, V x) { return hn::Abs(x); }
    static HWY_INLINE T scalar(T a, T x) { return Extreme<T, true>::scalar(a, std::abs(x)); }
};

/// Eight vectors `step` elements apart, joined as a tree: short chains keep rounding errors of sums small.
template <class Op, class T> HWY_INLINE auto join_eight(const T* HWY_RESTRICT x, std::int64_t step) {
    const Tag<T> d;
    const auto at = [&](std::int64_t k) HWY_ATTR { return Op::map(d, hn::LoadU(d, x + k * step)); };
    return Op::join(Op::join(Op::join(at(0), at(1)), Op::join(at(2), at(3))),
                    Op::join(Op::join(at(4), at(5)), Op::join(at(6), at(7))));
}

/// Lanes into one state.
template <class Op, class T, class V> HWY_INLINE typename Op::State gather_lanes(V v) {
    constexpr std::int64_t lanes = lanes_of<T>();
    HWY_ALIGN T values[lanes];
    hn::Store(v, Tag<T>(), values);
    typename Op::State state = static_cast<typename Op::State>(Op::identity);
    for (std::int64_t i = 0; i < lanes; ++i) state = Op::merge(state, static_cast<typename Op::State>(values[i]));
    return state;
}

/// One run of n <= row_piece elements.
template <class Op, class T> HWY_INLINE typename Op::State reduce_row(const T* HWY_RESTRICT x, std::int64_t n) {
    constexpr std::int64_t lanes = lanes_of<T>();
    const Tag<T> d;
    T rest = Op::identity;
    std::int64_t i = 0;
    typename Op::State state = static_cast<typename Op::State>(Op::identity);
    if (n >= lanes) {
        auto a = hn::Set(d, Op::identity);
        if (n >= 32 * lanes) {
            auto b = a, c = a, e = a;
            for (; i + 32 * lanes <= n; i += 32 * lanes) {
                a = Op::join(a, join_eight<Op, T>(x + i, lanes));
                b = Op::join(b, join_eight<Op, T>(x + i + 8 * lanes, lanes));
                c = Op::join(c, join_eight<Op, T>(x + i + 16 * lanes, lanes));
                e = Op::join(e, join_eight<Op, T>(x + i + 24 * lanes, lanes));
            }
            a = Op::join(Op::join(a, b), Op::join(c, e));
        }
        for (; i + 8 * lanes <= n; i += 8 * lanes) a = Op::join(a, join_eight<Op, T>(x + i, lanes));
        for (; i + lanes <= n; i += lanes) a = Op::join(a, Op::map(d, hn::LoadU(d, x + i)));
        state = gather_lanes<Op, T>(a);
    }
    for (; i < n; ++i) rest = Op::scalar(rest, x[i]);
    return Op::merge(state, static_cast<typename Op::State>(rest));
}

/// out[j] takes up column j.
template <class Op, class T>
HWY_INLINE void reduce_columns(const T* HWY_RESTRICT x, std::int64_t stride, std::int64_t rows, std::int64_t width,
                               T* HWY_RESTRICT out) {
    constexpr std::int64_t lanes = lanes_of<T>();
    const Tag<T> d;
    std::int64_t r = 0;
    for (; r + 8 <= rows; r += 8) {
        const T* p = x + r * stride;
        std::int64_t j = 0;
        for (; j + lanes <= width; j += lanes) {
            hn::StoreU(Op::join(hn::LoadU(d, out + j), join_eight<Op, T>(p + j, stride)), d, out + j);
        }
        for (; j < width; ++j) {
            for (std::int64_t k = 0; k < 8; ++k) out[j] = Op::scalar(out[j], p[k * stride + j]);
        }
    }
    for (; r < rows; ++r) {
        const T* p = x + r * stride;
        std::int64_t j = 0;
        for (; j + lanes <= width; j += lanes)
            hn::StoreU(Op::join(hn::LoadU(d, out + j), Op::map(d, hn::LoadU(d, p + j))), d, out + j);
        for (; j < width; ++j) out[j] = Op::scalar(out[j], p[j]);
    }
}

/// The functions of a ReduceKernel for a step whose state is a number.
template <class Op, class T> struct Lanes {
    using State = typename Op::State;
    static void init(void* states, std::int64_t n) {
        std::fill_n(static_cast<State*>(states), n, static_cast<State>(Op::identity));
    }
    static void rows(const void* x, std::int64_t stride, std::int64_t count, std::int64_t n, void* states,
                     std::int64_t step, std::int64_t) {
        auto* s = static_cast<State*>(states);
        for (std::int64_t r = 0; r < count; ++r) {
            s[r * step] = Op::merge(s[r * step], reduce_row<Op, T>(static_cast<const T*>(x) + r * stride, n));
        }
    }
    static void columns(const void* x, std::int64_t stride, std::int64_t rows, std::int64_t width, void* states,
                        std::int64_t) {
        if constexpr (std::is_same_v<State, T> && !std::is_same_v<T, double>) {
            reduce_columns<Op, T>(static_cast<const T*>(x), stride, rows, width, static_cast<T*>(states));
        } else {
            T part[most_columns];
            std::fill_n(part, width, Op::identity);
            reduce_columns<Op, T>(static_cast<const T*>(x), stride, rows, width, part);
            auto* s = static_cast<State*>(states);
            for (std::int64_t j = 0; j < width; ++j) s[j] = Op::merge(s[j], static_cast<State>(part[j]));
        }
    }
    static void merge(void* into, const void* from, std::int64_t n) {
        auto* s = static_cast<State*>(into);
        for (std::int64_t i = 0; i < n; ++i) s[i] = Op::merge(s[i], static_cast<const State*>(from)[i]);
    }
    template <class Finish> static ReduceKernel kernel() {
        return {sizeof(State), init, rows, columns, merge, &finish<Finish>};
    }
    template <class Finish> static void finish(const void* states, std::int64_t n, void* out, double count, double) {
        for (std::int64_t i = 0; i < n; ++i) {
            static_cast<typename Finish::Out*>(out)[i] = Finish::make(static_cast<const State*>(states)[i], count);
        }
    }
};

template <class O> struct Same {
    using Out = O;
    template <class S> static O make(S s, double) { return static_cast<O>(s); }
};
template <class O> struct Divided : Same<O> {
    static O make(double s, double count) { return static_cast<O>(s / count); }
};
template <class O> struct Rooted : Same<O> {
    static O make(double s, double) { return static_cast<O>(std::sqrt(s)); }
};
struct Truth : Same<std::uint8_t> {
    static std::uint8_t make(std::uint8_t s, double) { return s != 0; }
};

/// The best value and where it first stands. `Flip`: the smallest.
template <class T, bool Flip> struct Argument {
    using Op = Extreme<T, Flip>;
    struct State {
        T best;
        std::int64_t index;  ///< -1: nothing yet
    };
    static HWY_INLINE bool better(T x, const State& s) {
        const int first = s.index < 0, beyond = Flip ? x < s.best : x > s.best, nan = is_nan(x), known = is_nan(s.best);
        return (first | beyond | (nan & ~known)) != 0;  // without branches
    }
    /// A few elements, one by one without branches.
    static HWY_INLINE void short_row(const T* HWY_RESTRICT x, std::int64_t n, std::int64_t position, State& s) {
        State best = s;
        for (std::int64_t i = 0; i < n; ++i) {
            const bool win = better(x[i], best);
            best.best = win ? x[i] : best.best;
            best.index = win ? position + i : best.index;
        }
        s = best;
    }
    /// The first of n elements that equals `value`, which is among them.
    static HWY_INLINE std::int64_t first_equal(const T* HWY_RESTRICT x, std::int64_t n, T value) {
        const Tag<T> d;
        const bool nan = is_nan(value);
        const auto wanted = hn::Set(d, value);
        std::int64_t i = 0;
        for (; i + lanes_of<T>() <= n; i += lanes_of<T>()) {
            const auto v = hn::LoadU(d, x + i);
            auto found = hn::Eq(v, wanted);
            if constexpr (std::is_floating_point_v<T>) {
                if (nan) found = hn::IsNaN(v);
            }
            if (!hn::AllFalse(d, found)) break;
        }
        while (nan ? !is_nan(x[i]) : x[i] != value) ++i;
        return i;
    }
    static void init(void* states, std::int64_t n) {
        std::fill_n(static_cast<State*>(states), n, State{Op::identity, -1});
    }
    static void rows(const void* x, std::int64_t stride, std::int64_t count, std::int64_t n, void* states,
                     std::int64_t step, std::int64_t position) {
        for (std::int64_t r = 0; r < count; ++r) {
            State& s = static_cast<State*>(states)[r * step];
            const T* row = static_cast<const T*>(x) + r * stride;
            if (n < 4 * lanes_of<T>()) {
                short_row(row, n, position + (step == 0 ? r * n : 0), s);
                continue;
            }
            const T best = reduce_row<Op, T>(row, n);
            if (!better(best, s)) continue;
            const std::int64_t i = first_equal(row, n, best);
            s = {best, position + (step == 0 ? r * n : 0) + i};
        }
    }
    static void columns(const void* x, std::int64_t stride, std::int64_t rows, std::int64_t width, void* states,
                        std::int64_t position) {
        using Index = hwy::MakeSigned<T>;  // rows_piece fits in 8 bits
        constexpr std::int64_t lanes = lanes_of<T>();
        const Tag<T> d;
        const Tag<Index> di;
        T best[most_columns];
        Index where[most_columns];
        const auto* from = static_cast<const T*>(x);
        std::copy_n(from, width, best);
        std::fill_n(where, width, Index{0});
        for (std::int64_t r = 1; r < rows; ++r) {
            const T* row = from + r * stride;
            const auto index = hn::Set(di, static_cast<Index>(r));
            std::int64_t j = 0;
            for (; j + lanes <= width; j += lanes) {
                const auto v = hn::LoadU(d, row + j), b = hn::LoadU(d, best + j);
                auto win = Flip ? hn::Lt(v, b) : hn::Gt(v, b);
                if constexpr (std::is_floating_point_v<T>) win = hn::Or(win, hn::AndNot(hn::IsNaN(b), hn::IsNaN(v)));
                hn::StoreU(hn::IfThenElse(win, v, b), d, best + j);
                hn::StoreU(hn::IfThenElse(hn::RebindMask(di, win), index, hn::LoadU(di, where + j)), di, where + j);
            }
            for (; j < width; ++j) {
                if (!better(row[j], {best[j], 0})) continue;
                best[j] = row[j];
                where[j] = static_cast<Index>(r);
            }
        }
        auto* s = static_cast<State*>(states);
        for (std::int64_t j = 0; j < width; ++j) {
            if (better(best[j], s[j])) s[j] = {best[j], position + where[j]};
        }
    }
    static void merge(void* into, const void* from, std::int64_t n) {
        auto* s = static_cast<State*>(into);
        const auto* other = static_cast<const State*>(from);
        for (std::int64_t i = 0; i < n; ++i) {
            if (other[i].index >= 0 && better(other[i].best, s[i])) s[i] = other[i];
        }
    }
    static void finish(const void* states, std::int64_t n, void* out, double, double) {
        for (std::int64_t i = 0; i < n; ++i)
            static_cast<std::int64_t*>(out)[i] = static_cast<const State*>(states)[i].index;
    }
    static ReduceKernel kernel() { return {sizeof(State), init, rows, columns, merge, finish}; }
};

/// Products: plain loops; floats multiply in f64, integers wrap.
template <class T> struct Product {
    using State = SumState<T>;
    static void init(void* states, std::int64_t n) { std::fill_n(static_cast<State*>(states), n, State{1}); }
    static void rows(const void* x, std::int64_t stride, std::int64_t count, std::int64_t n, void* states,
                     std::int64_t step, std::int64_t) {
        for (std::int64_t r = 0; r < count; ++r) {
            const T* row = static_cast<const T*>(x) + r * stride;
            State a = 1, b = 1, c = 1, e = 1;
            std::int64_t i = 0;
            for (; i + 4 <= n; i += 4) {
                a *= static_cast<State>(row[i]);
                b *= static_cast<State>(row[i + 1]);
                c *= static_cast<State>(row[i + 2]);
                e *= static_cast<State>(row[i + 3]);
            }
            for (; i < n; ++i) a *= static_cast<State>(row[i]);
            static_cast<State*>(states)[r * step] *= (a * b) * (c * e);
        }
    }
    static void columns(const void* x, std::int64_t stride, std::int64_t rows, std::int64_t width, void* states,
                        std::int64_t) {
        auto* s = static_cast<State*>(states);
        for (std::int64_t r = 0; r < rows; ++r) {
            const T* row = static_cast<const T*>(x) + r * stride;
            for (std::int64_t j = 0; j < width; ++j) s[j] *= static_cast<State>(row[j]);
        }
    }
    static void merge(void* into, const void* from, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) static_cast<State*>(into)[i] *= static_cast<const State*>(from)[i];
    }
    static void finish(const void* states, std::int64_t n, void* out, double, double) {
        for (std::int64_t i = 0; i < n; ++i)
            static_cast<T*>(out)[i] = static_cast<T>(static_cast<const State*>(states)[i]);
    }
    static ReduceKernel kernel() { return {sizeof(State), init, rows, columns, merge, finish}; }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();
#endif
