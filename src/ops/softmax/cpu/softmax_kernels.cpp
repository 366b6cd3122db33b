// softmax:      y = exp(x - max) / sum exp(x - max)      its gradient: y (g - sum(g y))
// log_softmax:  y = x - max - log(sum exp(x - max))      its gradient: g - exp(y) sum(g)
#include "ops/softmax/cpu/softmax_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax/cpu/softmax_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace calor::ops {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
template <class T> using Tag = hn::ScalableTag<T>;
template <class T> constexpr std::int64_t lanes_of() { return static_cast<std::int64_t>(hn::MaxLanes(Tag<T>())); }

/// The larger one, or the NaN.
template <class V> HWY_INLINE V larger(V a, V b) { return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a); }
template <class T> HWY_INLINE T larger_of(T a, T b) { return b > a || b != b ? b : a; }
template <class T> HWY_INLINE T exponential(T x) {
    const hn::CappedTag<T, 1> one;
    return hn::GetLane(hn::Exp(one, hn::Set(one, x)));
}

template <class T, class V> HWY_INLINE double sum_lanes(V v) {
    HWY_ALIGN T lanes[lanes_of<T>()];
    hn::Store(v, Tag<T>(), lanes);
    double s = 0;
    for (const T lane : lanes) s += lane;
    return s;
}

template <class T> HWY_INLINE T row_max(const T* HWY_RESTRICT x, std::int64_t n) {
    constexpr std::int64_t lanes = lanes_of<T>();
    const Tag<T> d;
    auto a = hn::Set(d, -std::numeric_limits<T>::infinity()), b = a;
    std::int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        a = larger(a, hn::LoadU(d, x + i));
        b = larger(b, hn::LoadU(d, x + i + lanes));
    }
    for (; i + lanes <= n; i += lanes) a = larger(a, hn::LoadU(d, x + i));
    HWY_ALIGN T rest[lanes];
    hn::Store(larger(a, b), d, rest);
    T top = rest[0];
    for (std::int64_t k = 1; k < lanes; ++k) top = larger_of(top, rest[k]);
    for (; i < n; ++i) top = larger_of(top, x[i]);
    return top;
}

/// Sum of f(i-th vector) in lanes, in blocks whose sums are added in f64.
template <class T, class Vector, class Scalar>
HWY_INLINE double row_sum(std::int64_t n, const Vector& vector, const Scalar& scalar) {
    constexpr std::int64_t lanes = lanes_of<T>(), block = 256 * lanes;
    double sum = 0;
    std::int64_t i = 0;
    for (; i + lanes <= n;) {
        auto a = hn::Zero(Tag<T>()), b = a;
        const std::int64_t end = std::min(n, i + block);
        for (; i + 2 * lanes <= end; i += 2 * lanes) {
            a = hn::Add(a, vector(i));
            b = hn::Add(b, vector(i + lanes));
        }
        for (; i + lanes <= end; i += lanes) a = hn::Add(a, vector(i));
        sum += sum_lanes<T>(hn::Add(a, b));
    }
    for (; i < n; ++i) sum += scalar(i);
    return sum;
}
template <class T, class Vector, class Scalar>
HWY_INLINE void row_map(T* out, std::int64_t n, const Vector& vector, const Scalar& scalar) {
    constexpr std::int64_t lanes = lanes_of<T>();
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(vector(i), Tag<T>(), out + i);
    for (; i < n; ++i) out[i] = scalar(i);
}

template <class T> void softmax_row(const void* const* in, void* out, std::int64_t n) {
    const Tag<T> d;
    const auto* x = static_cast<const T*>(in[0]);
    auto* y = static_cast<T*>(out);
    const T top = row_max(x, n);
    const auto shift = hn::Set(d, top);
    const double sum = row_sum<T>(
        n,
        [&](std::int64_t i) HWY_ATTR {
            const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), shift));
            hn::StoreU(e, d, y + i);
            return e;
        },
        [&](std::int64_t i) HWY_ATTR { return y[i] = exponential(x[i] - top); });
    const T scale = static_cast<T>(1 / sum);
    const auto scales = hn::Set(d, scale);
    row_map(
        y, n, [&](std::int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, y + i), scales); },
        [&](std::int64_t i) HWY_ATTR { return y[i] * scale; });
}

template <class T> void log_softmax_row(const void* const* in, void* out, std::int64_t n) {
    const Tag<T> d;
    const auto* x = static_cast<const T*>(in[0]);
    const T top = row_max(x, n);
    const auto shift = hn::Set(d, top);
    const double sum = row_sum<T>(
        n, [&](std::int64_t i) HWY_ATTR { return hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), shift)); },
        [&](std::int64_t i) HWY_ATTR { return exponential(x[i] - top); });
    const T rest = static_cast<T>(std::log(sum));
    const auto rests = hn::Set(d, rest);
    row_map(
        static_cast<T*>(out), n,
        [&](std::int64_t i) HWY_ATTR { return hn::Sub(hn::Sub(hn::LoadU(d, x + i), shift), rests); },
        [&](std::int64_t i) HWY_ATTR { return x[i] - top - rest; });
}

template <class T> void softmax_grad_row(const void* const* in, void* out, std::int64_t n) {
    const Tag<T> d;
    const auto* y = static_cast<const T*>(in[0]);
    const auto* g = static_cast<const T*>(in[1]);
    const T dot = static_cast<T>(row_sum<T>(
        n, [&](std::int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, y + i), hn::LoadU(d, g + i)); },
        [&](std::int64_t i) HWY_ATTR { return y[i] * g[i]; }));
    const auto dots = hn::Set(d, dot);
    row_map(
        static_cast<T*>(out), n,
        [&](std::int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, y + i), hn::Sub(hn::LoadU(d, g + i), dots)); },
        [&](std::int64_t i) HWY_ATTR { return y[i] * (g[i] - dot); });
}

template <class T> void log_softmax_grad_row(const void* const* in, void* out, std::int64_t n) {
    const Tag<T> d;
    const auto* y = static_cast<const T*>(in[0]);
    const auto* g = static_cast<const T*>(in[1]);
    const T sum = static_cast<T>(row_sum<T>(
        n, [&](std::int64_t i) HWY_ATTR { return hn::LoadU(d, g + i); },
        [&](std::int64_t i) HWY_ATTR { return g[i]; }));
    const auto sums = hn::Set(d, sum);
    row_map(
        static_cast<T*>(out), n,
        [&](std::int64_t i)
            HWY_ATTR { return hn::NegMulAdd(hn::Exp(d, hn::LoadU(d, y + i)), sums, hn::LoadU(d, g + i)); },
        [&](std::int64_t i) HWY_ATTR { return g[i] - exponential(y[i]) * sum; });
}

/// Calls body(d, j) for vectors of columns from j on, and one at a time at the end.
template <class T, class Body> HWY_INLINE void each_column(std::int64_t width, const Body& body) {
    constexpr std::int64_t lanes = lanes_of<T>();
    std::int64_t j = 0;
    for (; j + lanes <= width; j += lanes) body(Tag<T>(), j);
    for (; j < width; ++j) body(hn::CappedTag<T, 1>(), j);
}

template <class T, bool Log>
void softmax_columns(const void* const* in, const std::int64_t* strides, void* out, std::int64_t out_stride,
                     std::int64_t n, std::int64_t width) {
    const auto* x = static_cast<const T*>(in[0]);
    auto* y = static_cast<T*>(out);
    HWY_ALIGN T top[most_lines], sum[most_lines];
    std::fill_n(top, width, -std::numeric_limits<T>::infinity());
    std::fill_n(sum, width, T(0));
    for (std::int64_t k = 0; k < n; ++k) {
        each_column<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
            hn::StoreU(larger(hn::LoadU(d, top + j), hn::LoadU(d, x + k * strides[0] + j)), d, top + j);
        });
    }
    for (std::int64_t k = 0; k < n; ++k) {
        each_column<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
            const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, x + k * strides[0] + j), hn::LoadU(d, top + j)));
            if constexpr (!Log) hn::StoreU(e, d, y + k * out_stride + j);
            hn::StoreU(hn::Add(hn::LoadU(d, sum + j), e), d, sum + j);
        });
    }
    for (std::int64_t j = 0; j < width; ++j) sum[j] = Log ? std::log(sum[j]) : 1 / sum[j];
    for (std::int64_t k = 0; k < n; ++k) {
        each_column<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
            T* to = y + k * out_stride + j;
            if constexpr (Log) {
                const auto shifted = hn::Sub(hn::LoadU(d, x + k * strides[0] + j), hn::LoadU(d, top + j));
                hn::StoreU(hn::Sub(shifted, hn::LoadU(d, sum + j)), d, to);
            } else {
                hn::StoreU(hn::Mul(hn::LoadU(d, to), hn::LoadU(d, sum + j)), d, to);
            }
        });
    }
}

template <class T, bool Log>
void grad_columns(const void* const* in, const std::int64_t* strides, void* out, std::int64_t out_stride,
                  std::int64_t n, std::int64_t width) {
    const auto* y = static_cast<const T*>(in[0]);
    const auto* g = static_cast<const T*>(in[1]);
    HWY_ALIGN T sum[most_lines];
    std::fill_n(sum, width, T(0));
    for (std::int64_t k = 0; k < n; ++k) {
        each_column<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
            auto term = hn::LoadU(d, g + k * strides[1] + j);
            if constexpr (!Log) term = hn::Mul(term, hn::LoadU(d, y + k * strides[0] + j));
            hn::StoreU(hn::Add(hn::LoadU(d, sum + j), term), d, sum + j);
        });
    }
    for (std::int64_t k = 0; k < n; ++k) {
        each_column<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
            const auto yv = hn::LoadU(d, y + k * strides[0] + j), gv = hn::LoadU(d, g + k * strides[1] + j);
            const auto s = hn::LoadU(d, sum + j);
            T* to = static_cast<T*>(out) + k * out_stride + j;
            if constexpr (Log) {
                hn::StoreU(hn::NegMulAdd(hn::Exp(d, yv), s, gv), d, to);
            } else {
                hn::StoreU(hn::Mul(yv, hn::Sub(gv, s)), d, to);
            }
        });
    }
}

template <class T>
constexpr LineKernels kernels[] = {{softmax_row<T>, softmax_columns<T, false>},
                                   {log_softmax_row<T>, softmax_columns<T, true>},
                                   {softmax_grad_row<T>, grad_columns<T, false>},
                                   {log_softmax_grad_row<T>, grad_columns<T, true>}};

}  // namespace

const LineKernels* softmax_table(bool wide) { return wide ? kernels<double> : kernels<float>; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops {

HWY_EXPORT(softmax_table);

const LineKernels& find_softmax_kernels(SoftmaxKernel kind, bool wide) {
    return HWY_DYNAMIC_DISPATCH(softmax_table)(wide)[static_cast<int>(kind)];
}

}  // namespace calor::ops
#endif
