// Variance and log-sum-exp: states of several numbers. A tile is read twice while it is in the cache: first for its
// mean or maximum, then for the sum around it; tiles merge by exact formulae.
#if defined(CALOR_REDUCE_MOMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_REDUCE_MOMENTS_INL_H
#undef CALOR_REDUCE_MOMENTS_INL_H
#else
#define CALOR_REDUCE_MOMENTS_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>

#include "ops/reduce/cpu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops {
namespace HWY_NAMESPACE {
namespace {

/// State of `n` elements with a first guess of their mean, the sum of deviations from it and of their squares.
inline Moments moments_around(double n, double guess, double deviations, double squares) {
    const double shift = deviations / n;
    if (!std::isfinite(shift)) return {n, guess, squares};
    return {n, guess + shift, std::max(0.0, squares - deviations * shift)};
}

template <class T> struct MomentKernel {
    static void init(void* states, std::int64_t n) { std::fill_n(static_cast<Moments*>(states), n, Moments()); }
    static HWY_INLINE Moments of_row(const T* HWY_RESTRICT x, std::int64_t n) {
        constexpr std::int64_t lanes = lanes_of<T>();
        const Tag<T> d;
        const T guess = static_cast<T>(reduce_row<Sum<T>, T>(x, n) / static_cast<double>(n));
        const auto mean = hn::Set(d, guess);
        auto a = hn::Zero(d), b = a, aa = a, bb = a;
        std::int64_t i = 0;
        for (; i + 2 * lanes <= n; i += 2 * lanes) {
            const auto u = hn::Sub(hn::LoadU(d, x + i), mean), v = hn::Sub(hn::LoadU(d, x + i + lanes), mean);
            a = hn::Add(a, u);
            b = hn::Add(b, v);
            aa = hn::MulAdd(u, u, aa);
            bb = hn::MulAdd(v, v, bb);
        }
        double sum = 0, squares = 0;
        if (i > 0) {
            sum = gather_lanes<Sum<T>, T>(hn::Add(a, b));
            squares = gather_lanes<Sum<T>, T>(hn::Add(aa, bb));
        }
        for (; i < n; ++i) {
            const double u = x[i] - guess;
            sum += u;
            squares += u * u;
        }
        return moments_around(static_cast<double>(n), guess, sum, squares);
    }
    static void rows(const void* x, std::int64_t stride, std::int64_t count, std::int64_t n, void* states,
                     std::int64_t step, std::int64_t) {
        for (std::int64_t r = 0; r < count; ++r) {
            static_cast<Moments*>(states)[r * step].merge(of_row(static_cast<const T*>(x) + r * stride, n));
        }
    }
    static void columns(const void* from, std::int64_t stride, std::int64_t rows, std::int64_t width, void* states,
                        std::int64_t) {
        constexpr std::int64_t lanes = lanes_of<T>();
        const Tag<T> d;
        const auto* x = static_cast<const T*>(from);
        T mean[most_columns], sum[most_columns], squares[most_columns];
        std::fill_n(mean, width, T(0));
        std::fill_n(sum, width, T(0));
        std::fill_n(squares, width, T(0));
        reduce_columns<Sum<T>, T>(x, stride, rows, width, mean);
        for (std::int64_t j = 0; j < width; ++j) mean[j] /= static_cast<T>(rows);
        std::int64_t r = 0;
        const auto take_up = [&]<int Rows>(const T* p, std::integral_constant<int, Rows>) HWY_ATTR {
            std::int64_t j = 0;
            for (; j + lanes <= width; j += lanes) {
                const auto m = hn::LoadU(d, mean + j);
                auto s = hn::LoadU(d, sum + j), q = hn::LoadU(d, squares + j);
                for (int k = 0; k < Rows; ++k) {
                    const auto u = hn::Sub(hn::LoadU(d, p + k * stride + j), m);
                    s = hn::Add(s, u);
                    q = hn::MulAdd(u, u, q);
                }
                hn::StoreU(s, d, sum + j);
                hn::StoreU(q, d, squares + j);
            }
            for (; j < width; ++j) {
                for (int k = 0; k < Rows; ++k) {
                    const T u = p[k * stride + j] - mean[j];
                    sum[j] += u;
                    squares[j] += u * u;
                }
            }
        };
        for (; r + 4 <= rows; r += 4) take_up(x + r * stride, std::integral_constant<int, 4>());
        for (; r < rows; ++r) take_up(x + r * stride, std::integral_constant<int, 1>());
        for (std::int64_t j = 0; j < width; ++j) {
            static_cast<Moments*>(states)[j].merge(
                moments_around(static_cast<double>(rows), mean[j], sum[j], squares[j]));
        }
    }
    static void merge(void* into, const void* from, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) static_cast<Moments*>(into)[i].merge(static_cast<const Moments*>(from)[i]);
    }
    template <bool Root>
    static void finish(const void* states, std::int64_t n, void* out, double count, double correction) {
        for (std::int64_t i = 0; i < n; ++i) {
            const double var = static_cast<const Moments*>(states)[i].squares / std::max(0.0, count - correction);
            static_cast<T*>(out)[i] = static_cast<T>(Root ? std::sqrt(var) : var);
        }
    }
    template <bool Root> static ReduceKernel kernel() {
        return {sizeof(Moments), init, rows, columns, merge, &finish<Root>};
    }
};

/// log(sum exp x) = top + log(sum exp(x - top)).
struct Exponents {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    void merge(const Exponents& other) {
        if (is_nan(top) || other.sum == 0) return;
        if (sum == 0 || is_nan(other.top)) {
            *this = other;
        } else if (top == other.top) {
            sum += other.sum;
        } else if (top > other.top) {
            sum += other.sum * std::exp(other.top - top);
        } else {
            sum = sum * std::exp(top - other.top) + other.sum;
            top = other.top;
        }
    }
};

template <class T> struct LogSumExp {
    using Max = Extreme<T, false>;
    static void init(void* states, std::int64_t n) { std::fill_n(static_cast<Exponents*>(states), n, Exponents()); }
    /// The state of a tile whose maximum is an infinity or NaN; sum > 0 marks it as not empty.
    static Exponents special(T top) { return {static_cast<double>(top), top < T(0) ? 0.0 : 1.0}; }
    static Exponents of_row(const T* HWY_RESTRICT x, std::int64_t n) {
        constexpr std::int64_t lanes = lanes_of<T>();
        const Tag<T> d;
        const T top = reduce_row<Max, T>(x, n);
        if (!std::isfinite(top)) return special(top);
        const auto shift = hn::Set(d, top);
        auto a = hn::Zero(d);
        std::int64_t i = 0;
        for (; i + lanes <= n; i += lanes) a = hn::Add(a, hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), shift)));
        double sum = i > 0 ? gather_lanes<Sum<T>, T>(a) : 0.0;
        for (; i < n; ++i) sum += std::exp(x[i] - top);
        return {static_cast<double>(top), sum};
    }
    static void rows(const void* x, std::int64_t stride, std::int64_t count, std::int64_t n, void* states,
                     std::int64_t step, std::int64_t) {
        for (std::int64_t r = 0; r < count; ++r) {
            static_cast<Exponents*>(states)[r * step].merge(of_row(static_cast<const T*>(x) + r * stride, n));
        }
    }
    static void columns(const void* from, std::int64_t stride, std::int64_t rows, std::int64_t width, void* states,
                        std::int64_t) {
        constexpr std::int64_t lanes = lanes_of<T>();
        const Tag<T> d;
        const auto* x = static_cast<const T*>(from);
        T top[most_columns], shift[most_columns], sum[most_columns];
        std::fill_n(top, width, Max::identity);
        std::fill_n(sum, width, T(0));
        reduce_columns<Max, T>(x, stride, rows, width, top);
        for (std::int64_t j = 0; j < width; ++j) shift[j] = std::isfinite(top[j]) ? top[j] : T(0);
        for (std::int64_t r = 0; r < rows; ++r) {
            const T* p = x + r * stride;
            std::int64_t j = 0;
            for (; j + lanes <= width; j += lanes) {
                const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, p + j), hn::LoadU(d, shift + j)));
                hn::StoreU(hn::Add(hn::LoadU(d, sum + j), e), d, sum + j);
            }
            for (; j < width; ++j) sum[j] += std::exp(p[j] - shift[j]);
        }
        for (std::int64_t j = 0; j < width; ++j) {
            const Exponents tile = std::isfinite(top[j])
                                       ? Exponents{static_cast<double>(top[j]), static_cast<double>(sum[j])}
                                       : special(top[j]);
            static_cast<Exponents*>(states)[j].merge(tile);
        }
    }
    static void merge(void* into, const void* from, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
            static_cast<Exponents*>(into)[i].merge(static_cast<const Exponents*>(from)[i]);
    }
    static void finish(const void* states, std::int64_t n, void* out, double, double) {
        for (std::int64_t i = 0; i < n; ++i) {
            const Exponents& s = static_cast<const Exponents*>(states)[i];
            static_cast<T*>(out)[i] = static_cast<T>(s.top + std::log(s.sum));
        }
    }
    static ReduceKernel kernel() { return {sizeof(Exponents), init, rows, columns, merge, finish}; }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();
#endif
