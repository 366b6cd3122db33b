// f32 functions on Highway vectors, and the loop that runs them over tiles; included once for every instruction set.
// Polynomials are minimax fits (Remez) in the relative error of the function. NaN passes through all of them. Written
// for fused multiply-add; without it the errors grow by about half a unit in the last place.
#if defined(CALOR_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_VECTOR_MATH_INL_H_
#undef CALOR_VECTOR_MATH_INL_H_
#else
#define CALOR_VECTOR_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::Rebind<std::int32_t, F32>;
using V32 = hn::Vec<F32>;
using VI32 = hn::Vec<I32>;

inline V32 constant(float value) { return hn::Set(F32(), value); }

/// c[first] + c[first + 1] x + ..., `count` terms, by Estrin's scheme: its chains of dependent operations are short.
template <std::size_t first, std::size_t count, std::size_t N>
HWY_INLINE V32 estrin(const float (&c)[N], V32 x, V32 x2, V32 x4, V32 x8) {
    if constexpr (count == 1) {
        return constant(c[first]);
    } else if constexpr (count == 2) {
        return hn::MulAdd(constant(c[first + 1]), x, constant(c[first]));
    } else if constexpr (count <= 4) {
        return hn::MulAdd(estrin<first + 2, count - 2>(c, x, x2, x4, x8), x2, estrin<first, 2>(c, x, x2, x4, x8));
    } else if constexpr (count <= 8) {
        return hn::MulAdd(estrin<first + 4, count - 4>(c, x, x2, x4, x8), x4, estrin<first, 4>(c, x, x2, x4, x8));
    } else {
        return hn::MulAdd(estrin<first + 8, count - 8>(c, x, x2, x4, x8), x8, estrin<first, 8>(c, x, x2, x4, x8));
    }
}
template <std::size_t N> HWY_INLINE V32 polynomial(V32 x, const float (&c)[N]) {
    static_assert(N <= 16);
    const V32 x2 = hn::Mul(x, x), x4 = hn::Mul(x2, x2), x8 = hn::Mul(x4, x4);
    return estrin<0, N>(c, x, x2, x4, x8);
}

/// x at most `limit` (at least, for at_least); NaN stays: x86's minimum and maximum return the second operand then.
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_INLINE V32 at_most(V32 x, float limit) { return hn::Min(constant(limit), x); }
HWY_INLINE V32 at_least(V32 x, float limit) { return hn::Max(constant(limit), x); }
#else
HWY_INLINE V32 at_most(V32 x, float limit) { return hn::IfThenElse(hn::Gt(x, constant(limit)), constant(limit), x); }
HWY_INLINE V32 at_least(V32 x, float limit) { return hn::IfThenElse(hn::Lt(x, constant(limit)), constant(limit), x); }
#endif

HWY_INLINE V32 with_sign_of(V32 magnitude, V32 sign) { return hn::CopySign(magnitude, sign); }

/// 2^n for n in [-126, 127].
HWY_INLINE V32 power_of_two(VI32 n) { return hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(I32(), 127)))); }
/// x 2^n for n in [-252, 254]: in two steps, so that subnormal results round once.
HWY_INLINE V32 scale(V32 x, VI32 n) {
    const VI32 half = hn::ShiftRight<1>(n);
    return hn::Mul(hn::Mul(x, power_of_two(half)), power_of_two(hn::Sub(n, half)));
}

/// x = k ln 2 + r with |r| <= ln 2 / 2.
struct ExpReduction {
    V32 r;
    VI32 k;
};
HWY_INLINE ExpReduction reduce_exp(V32 x) {
    const V32 shift = constant(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer, in the low mantissa bits
    const V32 shifted = hn::MulAdd(x, constant(1.44269504f), shift);
    const V32 k = hn::Sub(shifted, shift);
    // ln 2 in two parts; the first has 16 bits, so that its product with k is exact.
    V32 r = hn::MulAdd(k, constant(-0.693145751953125f), x);
    r = hn::MulAdd(k, constant(-1.42860682e-6f), r);
    return {r, hn::Sub(hn::BitCast(I32(), shifted), hn::BitCast(I32(), shift))};
}

/// exp(x + low) = value 2^k, |low| tiny: an argument in two parts and a result whose scaling is still to come.
struct Exponential {
    V32 value;
    VI32 k;
};
HWY_INLINE Exponential exp_parts(V32 x, V32 low) {
    static constexpr float c[] = {0.49999993422f, 0.16666520179f, 0.041668392985f, 0.008368773757f, 0.0013814499035f};
    const ExpReduction e = reduce_exp(at_least(at_most(x, 89.0f), -110.0f));
    const V32 r = hn::Add(e.r, low);
    return {hn::Add(hn::MulAdd(hn::Mul(r, r), polynomial(r, c), r), constant(1.0f)), e.k};
}
HWY_INLINE Exponential exp_parts(V32 x) {
    static constexpr float c[] = {0.49999993422f, 0.16666520179f, 0.041668392985f, 0.008368773757f, 0.0013814499035f};
    const ExpReduction e = reduce_exp(at_least(at_most(x, 89.0f), -110.0f));
    return {hn::Add(hn::MulAdd(hn::Mul(e.r, e.r), polynomial(e.r, c), e.r), constant(1.0f)), e.k};
}
HWY_INLINE V32 exp(V32 x) {
    const Exponential e = exp_parts(x);
    return scale(e.value, e.k);
}
/// The exponential of an argument that is at most 0, where it is added to 1: what lies below 2^-126 may be anything
/// tiny.
HWY_INLINE V32 beside_one(Exponential e) { return hn::Mul(e.value, power_of_two(hn::Max(e.k, hn::Set(I32(), -126)))); }
/// x 2^k where `where` holds, else x. Results that are tiny are scaled last, so that they are rounded as subnormals
/// once.
HWY_INLINE V32 scale_where(hn::Mask<F32> where, V32 x, VI32 k) {
    return scale(x, hn::IfThenElseZero(hn::RebindMask(I32(), where), k));
}

/// exp(x) - 1 without cancellation: 2^k expm1(r) + (2^k - 1), computed at half size so that 2^128 doesn't overflow
/// early.
HWY_INLINE V32 expm1(V32 x) {
    static constexpr float c[] = {0.50000000467f,   0.16666666818f,   0.041666353542f,
                                  0.0083332728265f, 0.0013941102179f, 0.00019914298775f};
    const ExpReduction e = reduce_exp(at_least(at_most(x, 89.0f), -20.0f));
    const V32 small = hn::MulAdd(hn::Mul(e.r, e.r), polynomial(e.r, c), e.r);
    const V32 half_power = power_of_two(hn::Sub(e.k, hn::Set(I32(), 1)));
    const V32 half = hn::MulAdd(half_power, small, hn::Sub(half_power, constant(0.5f)));
    return with_sign_of(hn::Add(half, half), x);
}

HWY_INLINE V32 exp2(V32 x) {
    static constexpr float c[] = {0.69314718054f,   0.24022651078f,    0.055504109633f, 0.0096180365403f,
                                  0.0013333430167f, 0.00015467238077f, 1.5315093023e-5f};
    const V32 inside = at_least(at_most(x, 129.0f), -151.0f);
    const V32 shift = constant(12582912.0f);
    const V32 shifted = hn::Add(inside, shift);
    const VI32 k = hn::Sub(hn::BitCast(I32(), shifted), hn::BitCast(I32(), shift));
    const V32 r = hn::Sub(inside, hn::Sub(shifted, shift));
    return scale(hn::MulAdd(r, polynomial(r, c), constant(1.0f)), k);
}

/// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); x is positive and normal.
struct LogReduction {
    V32 f, k;
};
HWY_INLINE LogReduction reduce_log(V32 x) {
    const VI32 bits = hn::BitCast(I32(), x);
    const VI32 k = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(I32(), 0x3f3504f3)));
    const V32 mantissa = hn::BitCast(F32(), hn::Sub(bits, hn::ShiftLeft<23>(k)));
    return {hn::Sub(mantissa, constant(1.0f)), hn::ConvertTo(F32(), k)};
}
/// k ln 2 + log(1 + f) + low.
HWY_INLINE V32 log_of_parts(LogReduction x, V32 low) {
    static constexpr float c[] = {0.33333316561f, -0.25000815971f, 0.2000230301f,  -0.16624351028f,
                                  0.14180694362f, -0.13130422782f, 0.12885885025f, -0.078600540154f};
    const V32 f2 = hn::Mul(x.f, x.f);
    V32 rest = hn::MulAdd(hn::Mul(f2, x.f), polynomial(x.f, c), low);
    rest = hn::MulAdd(x.k, constant(-2.12194440e-4f), rest);
    rest = hn::MulAdd(f2, constant(-0.5f), rest);
    return hn::MulAdd(x.k, constant(0.693359375f), hn::Add(x.f, rest));  // ln 2 = 0.693359375 - 2.1219444e-4
}
HWY_INLINE V32 log(V32 x) {
    const V32 infinity = constant(std::numeric_limits<float>::infinity());
    const auto subnormal = hn::Lt(x, constant(std::numeric_limits<float>::min()));
    const V32 normal = hn::IfThenElse(subnormal, hn::Mul(x, constant(8388608.0f)), x);
    LogReduction parts = reduce_log(normal);
    parts.k = hn::Sub(parts.k, hn::IfThenElseZero(subnormal, constant(23.0f)));
    V32 value = log_of_parts(parts, hn::Zero(F32()));
    value = hn::IfThenElse(hn::Lt(x, infinity), value, x);  // infinity and NaN
    value = hn::IfThenElse(hn::Eq(x, hn::Zero(F32())), hn::Neg(infinity), value);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), constant(std::numeric_limits<float>::quiet_NaN()), value);
}

/// log(1 + x) for x in [0, 1], or NaN: log(u) of the rounded sum u, corrected by what the rounding lost, over u. That
/// is so small that 1 - x + x^2 / 2 will do for 1 / u.
HWY_INLINE V32 log1p_of_fraction(V32 x) {
    const V32 one = constant(1.0f);
    const V32 u = hn::Add(x, one);
    const V32 lost = hn::Sub(x, hn::Sub(u, one));
    const V32 inverse = hn::MulAdd(hn::MulAdd(x, constant(0.5f), constant(-1.0f)), x, one);
    return log_of_parts(reduce_log(u), hn::Mul(lost, inverse));
}
HWY_INLINE V32 log1p(V32 x) {
    const V32 infinity = constant(std::numeric_limits<float>::infinity());
    const V32 u = hn::Add(x, constant(1.0f));
    const V32 lost = hn::Sub(x, hn::Sub(u, constant(1.0f)));
    V32 value = with_sign_of(log_of_parts(reduce_log(u), hn::Div(lost, u)), x);
    value = hn::IfThenElse(hn::Lt(x, infinity), value, x);
    value = hn::IfThenElse(hn::Eq(x, constant(-1.0f)), hn::Neg(infinity), value);
    return hn::IfThenElse(hn::Lt(x, constant(-1.0f)), constant(std::numeric_limits<float>::quiet_NaN()), value);
}

/// tanh(x) = t / (t + 2), t = exp(2 |x|) - 1.
HWY_INLINE V32 tanh(V32 x) {
    const V32 size = at_most(hn::Abs(x), 10.0f);
    const V32 t = expm1(hn::Add(size, size));
    return with_sign_of(hn::Div(t, hn::Add(t, constant(2.0f))), x);
}

/// x / (1 + exp(-z)), where e = exp(-|z|) and z has the sign of x: x e / (1 + e) for negative x. -inf gives -0, the
/// limit.
HWY_INLINE V32 times_sigmoid(V32 x, Exponential e) {
    const auto negative = hn::Lt(x, hn::Zero(F32()));
    const V32 numerator = hn::IfThenElse(negative, hn::Mul(at_least(x, -200.0f), e.value), x);
    return scale_where(negative, hn::Div(numerator, hn::Add(beside_one(e), constant(1.0f))), e.k);
}

/// The exact product of two floats in two parts.
struct TwoParts {
    V32 high, low;
};
HWY_INLINE TwoParts product(V32 a, V32 b) {
    const V32 high = hn::Mul(a, b);
#if HWY_NATIVE_FMA
    return {high, hn::MulSub(a, b, high)};
#else
    const V32 mask = hn::BitCast(F32(), hn::Set(I32(), static_cast<std::int32_t>(0xfffff000u)));
    const V32 a1 = hn::And(a, mask), b1 = hn::And(b, mask);
    const V32 a2 = hn::Sub(a, a1), b2 = hn::Sub(b, b1);
    V32 low = hn::Sub(hn::Mul(a1, b1), high);
    low = hn::Add(low, hn::Add(hn::Mul(a1, b2), hn::Mul(a2, b1)));
    return {high, hn::Add(low, hn::Mul(a2, b2))};
#endif
}

/// Runs Op over a tile. The tail goes through the same vector code, from a padded buffer.
template <class Op> void vector_loop(const void* const* in, void* out, std::int64_t n, const double* parameters) {
    const F32 d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto* a = static_cast<const float*>(in[0]);
    auto* r = static_cast<float*>(out);
    const Op op(parameters);
    alignas(64) float spare[hn::MaxLanes(d)] = {};
    for (std::int64_t i = 0; i < n; i += lanes) {
        const bool whole = n - i >= lanes;
        const float* from = a + i;
        float* to = r + i;
        if (!whole) {
            std::memcpy(spare, from, static_cast<std::size_t>(n - i) * sizeof(float));
            from = to = spare;
        }
        hn::StoreU(op(hn::LoadU(d, from)), d, to);
        if (!whole) std::memcpy(r + i, spare, static_cast<std::size_t>(n - i) * sizeof(float));
    }
}

template <class Op> constexpr OpRow vector_row(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f32, vector_loop<Op>);
    return row;
}

/// An operation without parameters.
struct NoParameters {
    explicit NoParameters(const double*) {}
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
