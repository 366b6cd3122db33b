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
/// The last elements of a row, fewer than a vector; `fill` stands for those that are missing.
template <class T> HWY_INLINE auto load_tail(const T* x, std::int64_t rest, T fill) {
    const Tag<T> d;
    const auto there = hn::FirstN(d, static_cast<std::size_t>(rest));
    return hn::IfThenElse(there, hn::MaskedLoad(there, d, x), hn::Set(d, fill));
}
template <class T, class V> HWY_INLINE void store_tail(V v, T* y, std::int64_t rest) {
    const Tag<T> d;
    hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(rest)), d, y);
}

/// All lanes of v joined, in every lane: f(v, w) for v and its lanes in reverse order, then in halves.
template <class T, class V, class F> HWY_INLINE V join_lanes(V v, const F& f) {
    const Tag<T> d;
    if constexpr (lanes_of<T>() >= 8) v = f(v, hn::Reverse8(d, v));
    if constexpr (lanes_of<T>() >= 4) v = f(v, hn::Reverse4(d, v));
    if constexpr (lanes_of<T>() >= 2) v = f(v, hn::Reverse2(d, v));
    return v;
}
template <class T, class V> HWY_INLINE double sum_lanes(V v) {
    return hn::GetLane(join_lanes<T>(v, [](V a, V b) HWY_ATTR { return hn::Add(a, b); }));
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
    if (i < n) a = larger(a, load_tail(x + i, n - i, -std::numeric_limits<T>::infinity()));
    a = larger(a, b);
    return hn::GetLane(join_lanes<T>(a, [](auto u, auto v) HWY_ATTR { return larger(u, v); }));
}

/// Sum of vector(i) for vectors of a row, and of tail(i, rest) for what is left, in blocks whose sums are added in f64.
template <class T, class Vector, class Tail>
HWY_INLINE double row_sum(std::int64_t n, const Vector& vector, const Tail& tail) {
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
    return i < n ? sum + sum_lanes<T>(tail(i, n - i)) : sum;
}
template <class T, class Vector, class Tail>
HWY_INLINE void row_map(T* out, std::int64_t n, const Vector& vector, const Tail& tail) {
    constexpr std::int64_t lanes = lanes_of<T>();
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(vector(i), Tag<T>(), out + i);
    if (i < n) store_tail(tail(i, n - i), out + i, n - i);
}

template <class T> void softmax_row(const void* const* in, void* out, std::int64_t n) {
    const Tag<T> d;
    const auto* x = static_cast<const T*>(in[0]);
    auto* y = static_cast<T*>(out);
    constexpr T none = -std::numeric_limits<T>::infinity();
    const auto shift = hn::Set(d, row_max(x, n));
    const double sum = row_sum<T>(
        n,
        [&](std::int64_t i) HWY_ATTR {
            const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), shift));
            hn::StoreU(e, d, y + i);
            return e;
        },
        [&](std::int64_t i, std::int64_t rest) HWY_ATTR {
            const auto e = hn::Exp(d, hn::Sub(load_tail(x + i, rest, none), shift));
            store_tail(e, y + i, rest);
            return e;
        });
    const auto scales = hn::Set(d, static_cast<T>(1 / sum));
    row_map(
        y, n, [&](std::int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, y + i), scales); },
        [&](std::int64_t i, std::int64_t rest) HWY_ATTR { return hn::Mul(load_tail(y + i, rest, T(0)), scales); });
}

template <class T> void log_softmax_row(const void* const* in, void* out, std::int64_t n) {
    const Tag<T> d;
    const auto* x = static_cast<const T*>(in[0]);
    constexpr T none = -std::numeric_limits<T>::infinity();
    const auto shift = hn::Set(d, row_max(x, n));
    const double sum = row_sum<T>(
        n, [&](std::int64_t i) HWY_ATTR { return hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), shift)); },
        [&](std::int64_t i, std::int64_t rest)
            HWY_ATTR { return hn::Exp(d, hn::Sub(load_tail(x + i, rest, none), shift)); });
    const auto log_sum = hn::Set(d, static_cast<T>(std::log(sum)));
    row_map(
        static_cast<T*>(out), n,
        [&](std::int64_t i) HWY_ATTR { return hn::Sub(hn::Sub(hn::LoadU(d, x + i), shift), log_sum); },
        [&](std::int64_t i, std::int64_t rest)
            HWY_ATTR { return hn::Sub(hn::Sub(load_tail(x + i, rest, T(0)), shift), log_sum); });
}

template <class T> void softmax_grad_row(const void* const* in, void* out, std::int64_t n) {
    const Tag<T> d;
    const auto* y = static_cast<const T*>(in[0]);
    const auto* g = static_cast<const T*>(in[1]);
    const T dot = static_cast<T>(row_sum<T>(
        n, [&](std::int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, y + i), hn::LoadU(d, g + i)); },
        [&](std::int64_t i, std::int64_t rest)
            HWY_ATTR { return hn::Mul(load_tail(y + i, rest, T(0)), load_tail(g + i, rest, T(0))); }));
    const auto dots = hn::Set(d, dot);
    row_map(
        static_cast<T*>(out), n,
        [&](std::int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, y + i), hn::Sub(hn::LoadU(d, g + i), dots)); },
        [&](std::int64_t i, std::int64_t rest)
            HWY_ATTR { return hn::Mul(load_tail(y + i, rest, T(0)), hn::Sub(load_tail(g + i, rest, T(0)), dots)); });
}

template <class T> void log_softmax_grad_row(const void* const* in, void* out, std::int64_t n) {
    const Tag<T> d;
    const auto* y = static_cast<const T*>(in[0]);
    const auto* g = static_cast<const T*>(in[1]);
    const T sum = static_cast<T>(row_sum<T>(
        n, [&](std::int64_t i) HWY_ATTR { return hn::LoadU(d, g + i); },
        [&](std::int64_t i, std::int64_t rest) HWY_ATTR { return load_tail(g + i, rest, T(0)); }));
    const auto sums = hn::Set(d, sum);
    row_map(
        static_cast<T*>(out), n,
        [&](std::int64_t i)
            HWY_ATTR { return hn::NegMulAdd(hn::Exp(d, hn::LoadU(d, y + i)), sums, hn::LoadU(d, g + i)); },
        [&](std::int64_t i, std::int64_t rest) HWY_ATTR {
            return hn::NegMulAdd(hn::Exp(d, load_tail(y + i, rest, T(0))), sums, load_tail(g + i, rest, T(0)));
        });
}

template <class T> double logsumexp_row(const void* from, std::int64_t n) {
    const Tag<T> d;
    const auto* x = static_cast<const T*>(from);
    const T top = row_max(x, n);
    const auto shift = hn::Set(d, top);
    constexpr T none = -std::numeric_limits<T>::infinity();
    const double sum = row_sum<T>(
        n, [&](std::int64_t i) HWY_ATTR { return hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), shift)); },
        [&](std::int64_t i, std::int64_t rest)
            HWY_ATTR { return hn::Exp(d, hn::Sub(load_tail(x + i, rest, none), shift)); });
    return static_cast<double>(top) + std::log(sum);
}

template <class T> void scaled_softmax_row(const void* from, void* to, std::int64_t n, double sum, double g) {
    const Tag<T> d;
    const auto* x = static_cast<const T*>(from);
    const auto shift = hn::Set(d, static_cast<T>(sum)), scale = hn::Set(d, static_cast<T>(g));
    row_map(
        static_cast<T*>(to), n,
        [&](std::int64_t i) HWY_ATTR { return hn::Mul(hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), shift)), scale); },
        [&](std::int64_t i, std::int64_t rest)
            HWY_ATTR { return hn::Mul(hn::Exp(d, hn::Sub(load_tail(x + i, rest, T(0)), shift)), scale); });
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

const CrossEntropyKernels* cross_entropy_table(bool wide) {
    static constexpr CrossEntropyKernels narrow{logsumexp_row<float>, scaled_softmax_row<float>};
    static constexpr CrossEntropyKernels full{logsumexp_row<double>, scaled_softmax_row<double>};
    return wide ? &full : &narrow;
}
const LineKernels* softmax_table(bool wide) { return wide ? kernels<double> : kernels<float>; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops {

HWY_EXPORT(softmax_table);
HWY_EXPORT(cross_entropy_table);

const CrossEntropyKernels& find_cross_entropy_kernels(bool wide) {
    return *HWY_DYNAMIC_DISPATCH(cross_entropy_table)(wide);
}

const LineKernels& find_softmax_kernels(SoftmaxKernel kind, bool wide) {
    return HWY_DYNAMIC_DISPATCH(softmax_table)(wide)[static_cast<int>(kind)];
}

}  // namespace calor::ops
#endif
