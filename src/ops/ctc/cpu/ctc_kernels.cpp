#include "ops/ctc/cpu/ctc_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/ctc/cpu/ctc_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace calor::ops::ctc {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
template <class T> using Tag = hn::ScalableTag<T>;
template <class T> using V = hn::Vec<Tag<T>>;
template <class T> constexpr std::int64_t lanes_of() { return static_cast<std::int64_t>(hn::MaxLanes(Tag<T>())); }

/// exp(x) for x <= 88; 0 from `least` down, which is -87 or more. Polynomial: minimax fit on |r| <= ln 2 / 2 in the
/// relative error.
HWY_INLINE V<float> exponential(V<float> x, float least = -87.0F) {
    const Tag<float> d;
    const hn::RebindToSigned<Tag<float>> di;
    const auto set = [&](float v) HWY_ATTR { return hn::Set(d, v); };
    const auto shift = set(12582912.0F);  // 1.5 2^23: adding it rounds to an integer
    const auto inside = hn::Min(hn::Max(x, set(-87.0F)), set(88.0F));
    const auto shifted = hn::MulAdd(inside, set(1.44269504F), shift);
    const auto k = hn::Sub(shifted, shift);
    const auto r = hn::MulAdd(k, set(-1.42860682e-6F), hn::MulAdd(k, set(-0.693145751953125F), inside));
    const auto r2 = hn::Mul(r, r);
    const auto low = hn::MulAdd(set(0.16666520179F), r, set(0.49999993422F));
    const auto high = hn::MulAdd(set(0.008368773757F), r, set(0.041668392985F));
    const auto poly = hn::MulAdd(hn::MulAdd(set(0.0013814499035F), r2, high), r2, low);
    const auto value = hn::Add(hn::MulAdd(r2, poly, r), set(1.0F));
    const auto power = hn::ShiftLeft<23>(hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, shift)));
    const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, value), power));
    return hn::IfThenElseZero(hn::Gt(x, set(least)), scaled);
}
HWY_INLINE V<double> exponential(V<double> x, double least = -700.0) {
    const Tag<double> d;
    return hn::IfThenElseZero(hn::Gt(x, hn::Set(d, least)), hn::Exp(d, x));
}
/// Logarithms from which on a summand vanishes beside 1, and a posterior: not so small that powers of it, or products
/// with a cotangent, are subnormal numbers, which take processors a hundred times longer.
template <class T> constexpr T vanishing = sizeof(T) == 4 ? T(-20) : T(-40);
template <class T> constexpr T faint = sizeof(T) == 4 ? T(-60) : T(-600);

/// log(1 + z) for z in [0, 1], to within a unit of 1.0.
HWY_INLINE V<float> log_of_one_and(V<float> z) {
    const Tag<float> d;
    const auto set = [&](float v) HWY_ATTR { return hn::Set(d, v); };
    static constexpr float c[] = {0.9999998747F,  -0.4999934752F, 0.3332148599F,   -0.2489212055F, 0.1942335414F,
                                  -0.1469131192F, 0.09691165318F, -0.04884575557F, 0.01588543705F, -0.002424630917F};
    const auto z2 = hn::Mul(z, z), z4 = hn::Mul(z2, z2);
    const auto p0 = hn::MulAdd(set(c[1]), z, set(c[0])), p1 = hn::MulAdd(set(c[3]), z, set(c[2]));
    const auto p2 = hn::MulAdd(set(c[5]), z, set(c[4])), p3 = hn::MulAdd(set(c[7]), z, set(c[6]));
    const auto low = hn::MulAdd(p1, z2, p0), high = hn::MulAdd(p3, z2, p2);
    const auto top = hn::MulAdd(hn::MulAdd(set(c[9]), z, set(c[8])), z4, high);
    return hn::Mul(z, hn::MulAdd(top, z4, low));
}
HWY_INLINE V<double> log_of_one_and(V<double> z) { return hn::Log1p(Tag<double>(), z); }

/// log(exp a + exp b) of finite numbers.
template <class X> HWY_INLINE X log_add(X a, X b) {
    using T = hn::TFromV<X>;
    return hn::Add(hn::Max(a, b), log_of_one_and(exponential(hn::Neg(hn::Abs(hn::Sub(a, b))), vanishing<T>)));
}

template <class T, class F> HWY_INLINE V<T> join_lanes(V<T> v, const F& f) {
    const Tag<T> d;
    if constexpr (lanes_of<T>() >= 8) v = f(v, hn::Reverse8(d, v));
    if constexpr (lanes_of<T>() >= 4) v = f(v, hn::Reverse4(d, v));
    if constexpr (lanes_of<T>() >= 2) v = f(v, hn::Reverse2(d, v));
    return v;
}
template <class T> HWY_INLINE double largest_lane(V<T> v) {
    return static_cast<double>(hn::GetLane(join_lanes<T>(v, [](V<T> a, V<T> b) HWY_ATTR { return hn::Max(a, b); })));
}
template <class T> HWY_INLINE double sum_of_lanes(V<T> v) {
    return static_cast<double>(hn::GetLane(join_lanes<T>(v, [](V<T> a, V<T> b) HWY_ATTR { return hn::Add(a, b); })));
}

/// The last elements of a row, fewer than a vector.
template <class T> HWY_INLINE V<T> load_tail(const T* x, std::int64_t rest, T fill) {
    const Tag<T> d;
    const auto there = hn::FirstN(d, static_cast<std::size_t>(rest));
    return hn::IfThenElse(there, hn::MaskedLoad(there, d, x), hn::Set(d, fill));
}

template <class T> double logsumexp(const void* from, std::int64_t n) {
    const Tag<T> d;
    constexpr std::int64_t lanes = lanes_of<T>(), block = 256 * lanes;
    constexpr T none = -std::numeric_limits<T>::infinity();
    const auto* x = static_cast<const T*>(from);
    auto a = hn::Set(d, none), b = a;
    auto unordered = hn::IsNaN(a);
    std::int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        const auto u = hn::LoadU(d, x + i), v = hn::LoadU(d, x + i + lanes);
        unordered = hn::Or(unordered, hn::IsNaN(hn::Add(u, v)));
        a = hn::Max(a, u);
        b = hn::Max(b, v);
    }
    for (; i < n; i += lanes) {
        const auto v = n - i >= lanes ? hn::LoadU(d, x + i) : load_tail(x + i, n - i, none);
        unordered = hn::Or(unordered, hn::IsNaN(v));
        a = hn::Max(a, v);
    }
    const double top = largest_lane<T>(hn::Max(a, b));
    // A pair of opposite infinities is unordered too, and no distribution either.
    if (!hn::AllFalse(d, unordered) || !std::isfinite(top)) return std::numeric_limits<double>::quiet_NaN();
    const auto shift = hn::Set(d, static_cast<T>(top));
    double sum = 0;
    for (i = 0; i + lanes <= n;) {
        auto s = hn::Zero(d), t = s;
        const std::int64_t end = std::min(n, i + block);
        for (; i + 2 * lanes <= end; i += 2 * lanes) {
            s = hn::Add(s, exponential(hn::Sub(hn::LoadU(d, x + i), shift)));
            t = hn::Add(t, exponential(hn::Sub(hn::LoadU(d, x + i + lanes), shift)));
        }
        for (; i + lanes <= end; i += lanes) s = hn::Add(s, exponential(hn::Sub(hn::LoadU(d, x + i), shift)));
        sum += sum_of_lanes<T>(hn::Add(s, t));
    }
    if (i < n) sum += sum_of_lanes<T>(exponential(hn::Sub(load_tail(x + i, n - i, none), shift)));
    return top + std::log(sum);
}

template <class T> void softmax(const void* from, void* to, std::int64_t n, double sum, double g) {
    const Tag<T> d;
    constexpr std::int64_t lanes = lanes_of<T>();
    const auto* x = static_cast<const T*>(from);
    auto* y = static_cast<T*>(to);
    const auto shift = hn::Set(d, static_cast<T>(sum)), scale = hn::Set(d, static_cast<T>(g));
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        hn::StoreU(hn::Mul(exponential(hn::Sub(hn::LoadU(d, x + i), shift)), scale), d, y + i);
    if (i < n) {
        const auto v = hn::Mul(exponential(hn::Sub(load_tail(x + i, n - i, T(0)), shift)), scale);
        hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(n - i)), d, y + i);
    }
}

template <class T> double forward(const Frame& frame, const void* before, void* after) {
    const Tag<T> d;
    constexpr std::int64_t lanes = lanes_of<T>();
    const T* b = static_cast<const T*>(before) + margin;
    const T* l = b + frame.slots + margin;
    T* next_b = static_cast<T*>(after) + margin;
    T* next_l = next_b + frame.slots + margin;
    T* u = static_cast<T*>(frame.work) + margin;
    const auto* e = static_cast<const T*>(frame.emissions);
    const auto* skip = static_cast<const T*>(frame.skip);
    const auto least = hn::Set(d, never<T>), offset = hn::Set(d, static_cast<T>(frame.offset));
    const auto blank = hn::Set(d, static_cast<T>(frame.blank + frame.offset));
    auto top = least;
    for (std::int64_t i = 0; i < frame.slots; i += lanes) {
        const auto both = log_add(hn::LoadU(d, b + i), hn::LoadU(d, l + i));
        const auto next = hn::Max(hn::Add(both, blank), least);
        hn::StoreU(both, d, u + i);
        hn::StoreU(next, d, next_b + i);
        top = hn::Max(top, next);
    }
    u[-1] = never<T>;
    for (std::int64_t i = 0; i < frame.slots; i += lanes) {
        const auto skips = hn::Gt(hn::LoadU(d, skip + i), hn::Zero(d));
        const auto from = hn::IfThenElse(skips, hn::LoadU(d, u + i - 1), hn::LoadU(d, b + i - 1));
        const auto score = hn::Add(hn::LoadU(d, e + i), offset);
        const auto next = hn::Max(hn::Add(log_add(hn::LoadU(d, l + i), from), score), least);
        hn::StoreU(next, d, next_l + i);
        top = hn::Max(top, next);
    }
    return largest_lane<T>(top);
}

template <class T>
Posteriors backward(const Frame& frame, const void* alpha, double scale, void* column, void* labels) {
    const Tag<T> d;
    constexpr std::int64_t lanes = lanes_of<T>();
    T* b = static_cast<T*>(column) + margin;
    T* l = b + frame.slots + margin;
    const T* alpha_b = static_cast<const T*>(alpha) + margin;
    const T* alpha_l = alpha_b + frame.slots + margin;
    auto* posterior = static_cast<T*>(labels);
    const auto* e = static_cast<const T*>(frame.emissions);
    const auto* skip = static_cast<const T*>(frame.skip);
    const auto least = hn::Set(d, never<T>), offset = hn::Set(d, static_cast<T>(frame.offset));
    const auto blank = hn::Set(d, static_cast<T>(frame.blank + frame.offset)), add = hn::Set(d, static_cast<T>(scale));
    auto top = least, blanks = hn::Zero(d), others = blanks;
    for (std::int64_t i = 0; i < frame.slots; i += lanes) {
        const auto own_b = hn::LoadU(d, b + i), own_l = hn::LoadU(d, l + i);
        const auto beta_b = log_add(own_b, hn::LoadU(d, l + i + 1));
        const auto skips = hn::Gt(hn::LoadU(d, skip + i + 1), hn::Zero(d));
        const auto beta_l = log_add(own_l, hn::IfThenElse(skips, beta_b, own_b));
        const auto p = exponential(hn::Add(hn::Add(hn::LoadU(d, alpha_l + i), beta_l), add), faint<T>);
        blanks = hn::Add(blanks, exponential(hn::Add(hn::Add(hn::LoadU(d, alpha_b + i), beta_b), add), faint<T>));
        others = hn::Add(others, p);
        hn::StoreU(p, d, posterior + i);
        const auto next_b = hn::Max(hn::Add(beta_b, blank), least);
        const auto next_l = hn::Max(hn::Add(beta_l, hn::Add(hn::LoadU(d, e + i), offset)), least);
        hn::StoreU(next_b, d, b + i);
        hn::StoreU(next_l, d, l + i);
        top = hn::Max(top, hn::Max(next_b, next_l));
    }
    return {sum_of_lanes<T>(blanks), sum_of_lanes<T>(others), largest_lane<T>(top)};
}

double add(double a, double b) {
    const double top = std::max(a, b);
    return top + std::log1p(std::exp(std::min(a, b) - top));
}

template <class T> constexpr Kernels kernels{logsumexp<T>, softmax<T>, forward<T>, backward<T>, add};

}  // namespace

const Kernels* ctc_table(bool wide) { return wide ? &kernels<double> : &kernels<float>; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::ctc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::ctc {

HWY_EXPORT(ctc_table);

const Kernels& find_kernels(bool wide) { return *HWY_DYNAMIC_DISPATCH(ctc_table)(wide); }

}  // namespace calor::ops::ctc
#endif
