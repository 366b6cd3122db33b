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

#include "device/cpu/element_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
template <class T> using Tag = hn::ScalableTag<T>;
template <class T> constexpr std::int64_t lanes_of() { return static_cast<std::int64_t>(hn::MaxLanes(Tag<T>())); }

// Rows of elements E, of which f16 and bf16 are computed in f32.
using cpu::HWY_NAMESPACE::load_pair;
using cpu::HWY_NAMESPACE::load_some;
using cpu::HWY_NAMESPACE::pair_size;
using cpu::HWY_NAMESPACE::store_pair;
using cpu::HWY_NAMESPACE::store_some;
using cpu::HWY_NAMESPACE::Two;
using cpu::HWY_NAMESPACE::Wide;
using cpu::HWY_NAMESPACE::WideTag;
using cpu::HWY_NAMESPACE::WideVec;

/// The larger one, or the NaN.
template <class V> HWY_INLINE V larger(V a, V b) { return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a); }

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

/// Highway's function takes NaN for something tiny.
template <class V> HWY_INLINE V exp_or_nan(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(hn::DFromV<V>(), x)); }
/// exp(x) for x <= 0 or NaN. Polynomial: minimax fit on |r| <= ln 2 / 2 in the relative error.
HWY_INLINE hn::Vec<Tag<float>> exp_below(hn::Vec<Tag<float>> x) {
    const Tag<float> d;
    const hn::RebindToSigned<Tag<float>> di;
    // Results that may be subnormal, and NaN.
    if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Ge(x, hn::Set(d, -87.0F))))) return exp_or_nan(x);
    const auto shift = hn::Set(d, 12582912.0F);  // 1.5 2^23: adding it rounds to an integer, in the lowest bits
    const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), shift);
    const auto k = hn::Sub(shifted, shift);
    const auto r = hn::MulAdd(k, hn::Set(d, -1.42860682e-6F), hn::MulAdd(k, hn::Set(d, -0.693145751953125F), x));
    const auto r2 = hn::Mul(r, r);
    const auto low = hn::MulAdd(hn::Set(d, 0.16666520179F), r, hn::Set(d, 0.49999993422F));
    const auto high = hn::MulAdd(hn::Set(d, 0.008368773757F), r, hn::Set(d, 0.041668392985F));
    const auto poly = hn::MulAdd(hn::MulAdd(hn::Set(d, 0.0013814499035F), r2, high), r2, low);
    const auto value = hn::Add(hn::MulAdd(r2, poly, r), hn::Set(d, 1.0F));
    return hn::BitCast(d, hn::Add(hn::BitCast(di, value), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}
HWY_INLINE hn::Vec<Tag<double>> exp_below(hn::Vec<Tag<double>> x) { return exp_or_nan(x); }
template <class E> HWY_INLINE Two<E> exp_below(Two<E> x) { return {exp_below(x.a), exp_below(x.b)}; }

template <class E> HWY_INLINE Two<E> both(WideVec<E> v) { return {v, v}; }
template <class E> HWY_INLINE Two<E> add(Two<E> x, Two<E> y) { return {hn::Add(x.a, y.a), hn::Add(x.b, y.b)}; }
template <class E> HWY_INLINE Two<E> sub(Two<E> x, Two<E> y) { return {hn::Sub(x.a, y.a), hn::Sub(x.b, y.b)}; }
template <class E> HWY_INLINE Two<E> mul(Two<E> x, Two<E> y) { return {hn::Mul(x.a, y.a), hn::Mul(x.b, y.b)}; }

template <class E> inline constexpr E no_score = E(-std::numeric_limits<Wide<E>>::infinity());
template <class E> inline constexpr E nought = E(0);

/// The largest element, in every lane, where none is NaN. A NaN makes the sum of exponentials one, whatever this is.
template <class E> HWY_INLINE WideVec<E> row_max(const E* HWY_RESTRICT x, std::int64_t n) {
    using T = Wide<E>;
    auto m = both<E>(hn::Set(WideTag<E>(), -std::numeric_limits<T>::infinity())), m2 = m;
    const auto take = [](Two<E>& to, Two<E> v) HWY_ATTR { to = {hn::Max(to.a, v.a), hn::Max(to.b, v.b)}; };
    std::int64_t i = 0;
    for (; i + 2 * pair_size<E> <= n; i += 2 * pair_size<E>) {
        take(m, load_pair(x + i));
        take(m2, load_pair(x + i + pair_size<E>));
    }
    for (; i + pair_size<E> <= n; i += pair_size<E>) take(m, load_pair(x + i));
    if (i < n) take(m, load_some(x + i, n - i, no_score<E>));
    take(m, m2);
    return join_lanes<T>(hn::Max(m.a, m.b), [](auto u, auto v) HWY_ATTR { return hn::Max(u, v); });
}

/// Sum of pair(i, load) over a row, where load(p) is the pair at p + i, in blocks whose sums are added in f64.
template <class E, class Pair> HWY_INLINE double row_sum(std::int64_t n, E fill, const Pair& pair) {
    constexpr std::int64_t block = 128 * pair_size<E>;
    double sum = 0;
    std::int64_t i = 0;
    while (i + pair_size<E> <= n) {
        auto s = both<E>(hn::Zero(WideTag<E>()));
        for (const std::int64_t end = std::min(n, i + block); i + pair_size<E> <= end; i += pair_size<E>) {
            s = add(s, pair(i, [&](const E* p) HWY_ATTR { return load_pair(p + i); }));
        }
        sum += sum_lanes<Wide<E>>(hn::Add(s.a, s.b));
    }
    if (i == n) return sum;
    const auto s = pair(i, [&](const E* p) HWY_ATTR { return load_some(p + i, n - i, fill); });
    return sum + sum_lanes<Wide<E>>(hn::Add(s.a, s.b));
}
/// out = pair(i, load) along a row.
template <class E, class Pair> HWY_INLINE void row_map(E* out, std::int64_t n, const Pair& pair) {
    std::int64_t i = 0;
    for (; i + pair_size<E> <= n; i += pair_size<E>) {
        store_pair(pair(i, [&](const E* p) HWY_ATTR { return load_pair(p + i); }), out + i);
    }
    if (i == n) return;
    store_some(pair(i, [&](const E* p) HWY_ATTR { return load_some(p + i, n - i, nought<E>); }), out + i, n - i);
}

/// Exponentials stay in y where they are of its type, else in the vectors of `work`.
template <class E> void softmax_row(const void* const* in, void* out, std::int64_t n, void* work) {
    using T = Wide<E>;
    const WideTag<E> d;
    const auto* x = static_cast<const E*>(in[0]);
    auto* y = static_cast<E*>(out);
    const auto shift = both<E>(row_max(x, n));
    if constexpr (std::is_same_v<T, E>) {
        const double sum = row_sum<E>(n, no_score<E>, [&](std::int64_t i, auto load) HWY_ATTR {
            const auto e = exp_below<E>(sub(load(x), shift));
            i + pair_size<E> <= n ? store_pair(e, y + i) : store_some(e, y + i, n - i);
            return e;
        });
        const auto scales = both<E>(hn::Set(d, static_cast<T>(1 / sum)));
        row_map<E>(y, n, [&](std::int64_t, auto load) HWY_ATTR { return mul(load(y), scales); });
    } else {
        auto* wide = static_cast<T*>(work);
        const double sum = row_sum<E>(n, no_score<E>, [&](std::int64_t i, auto load) HWY_ATTR {
            const auto e = exp_below<E>(sub(load(x), shift));
            hn::StoreU(e.a, d, wide + i);
            hn::StoreU(e.b, d, wide + i + lanes_of<T>());
            return e;
        });
        const auto scale = hn::Set(d, static_cast<T>(1 / sum));
        row_map<E>(y, n, [&](std::int64_t i, auto) HWY_ATTR {
            return Two<E>{hn::Mul(hn::LoadU(d, wide + i), scale),
                          hn::Mul(hn::LoadU(d, wide + i + lanes_of<T>()), scale)};
        });
    }
}

/// log(sum exp(x - shift)) of a row.
template <class E> HWY_INLINE double log_sum_above(const E* x, std::int64_t n, Two<E> shift) {
    return std::log(row_sum<E>(n, no_score<E>,
                               [&](std::int64_t, auto load) HWY_ATTR { return exp_below<E>(sub(load(x), shift)); }));
}

template <class E> void log_softmax_row(const void* const* in, void* out, std::int64_t n, void*) {
    const auto* x = static_cast<const E*>(in[0]);
    const auto shift = both<E>(row_max(x, n));
    const auto log_sum = both<E>(hn::Set(WideTag<E>(), static_cast<Wide<E>>(log_sum_above<E>(x, n, shift))));
    row_map<E>(static_cast<E*>(out), n,
               [&](std::int64_t, auto load) HWY_ATTR { return sub(sub(load(x), shift), log_sum); });
}

template <class E> void softmax_grad_row(const void* const* in, void* out, std::int64_t n, void*) {
    const auto* y = static_cast<const E*>(in[0]);
    const auto* g = static_cast<const E*>(in[1]);
    const auto dot = static_cast<Wide<E>>(
        row_sum<E>(n, nought<E>, [&](std::int64_t, auto load) HWY_ATTR { return mul(load(y), load(g)); }));
    const auto dots = both<E>(hn::Set(WideTag<E>(), dot));
    row_map<E>(static_cast<E*>(out), n,
               [&](std::int64_t, auto load) HWY_ATTR { return mul(load(y), sub(load(g), dots)); });
}

template <class E> void log_softmax_grad_row(const void* const* in, void* out, std::int64_t n, void*) {
    const WideTag<E> d;
    const auto* y = static_cast<const E*>(in[0]);
    const auto* g = static_cast<const E*>(in[1]);
    const auto sum =
        static_cast<Wide<E>>(row_sum<E>(n, nought<E>, [&](std::int64_t, auto load) HWY_ATTR { return load(g); }));
    const auto sums = hn::Set(d, sum);
    row_map<E>(static_cast<E*>(out), n, [&](std::int64_t, auto load) HWY_ATTR {
        const Two<E> yv = load(y), gv = load(g);
        return Two<E>{hn::NegMulAdd(hn::Exp(d, yv.a), sums, gv.a), hn::NegMulAdd(hn::Exp(d, yv.b), sums, gv.b)};
    });
}

template <class T> double logsumexp_row(const void* from, std::int64_t n) {
    const auto* x = static_cast<const T*>(from);
    const auto shift = both<T>(row_max(x, n));
    return static_cast<double>(hn::GetLane(shift.a)) + log_sum_above<T>(x, n, shift);
}

template <class T> void scaled_softmax_row(const void* from, void* to, std::int64_t n, double sum, double g) {
    const Tag<T> d;
    const auto* x = static_cast<const T*>(from);
    const auto shift = hn::Set(d, static_cast<T>(sum)), scale = hn::Set(d, static_cast<T>(g));
    row_map<T>(static_cast<T*>(to), n, [&](std::int64_t, auto load) HWY_ATTR {
        const Two<T> v = load(x);
        return Two<T>{hn::Mul(hn::Exp(d, hn::Sub(v.a, shift)), scale), hn::Mul(hn::Exp(d, hn::Sub(v.b, shift)), scale)};
    });
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

template <class E>
constexpr LineKernels kernels[] = {{softmax_row<E>, softmax_columns<Wide<E>, false>, sizeof(E) == 2},
                                   {log_softmax_row<E>, softmax_columns<Wide<E>, true>, false},
                                   {softmax_grad_row<E>, grad_columns<Wide<E>, false>, false},
                                   {log_softmax_grad_row<E>, grad_columns<Wide<E>, true>, false}};

}  // namespace

const CrossEntropyKernels* cross_entropy_table(bool wide) {
    static constexpr CrossEntropyKernels narrow{logsumexp_row<float>, scaled_softmax_row<float>};
    static constexpr CrossEntropyKernels full{logsumexp_row<double>, scaled_softmax_row<double>};
    return wide ? &full : &narrow;
}
const LineKernels* softmax_table(DType dtype) {
    switch (dtype) {
        case f64: return kernels<double>;
        case f16: return kernels<float16>;
        case bf16: return kernels<bfloat16>;
        default: return kernels<float>;
    }
}

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

const LineKernels& find_softmax_kernels(SoftmaxKernel kind, DType dtype) {
    return HWY_DYNAMIC_DISPATCH(softmax_table)(dtype)[static_cast<int>(kind)];
}

}  // namespace calor::ops
#endif
