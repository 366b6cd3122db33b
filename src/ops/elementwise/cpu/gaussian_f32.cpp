// f32 vector loops around the error function: erf, erfc, gelu and its derivative, and gelu by tanh.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/cpu/gaussian_f32.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/elementwise/cpu/op_rows.h"
#include "ops/elementwise/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

/// erf near zero, |x| <= 1: x + x p(x^2).
HWY_INLINE V32 erf_near_zero(V32 x) {
    static constexpr float p[] = {0.1283791657f,    -0.37612625825f,    0.11283585151f,  -0.02685381199f,
                                  0.0051883277294f, -0.00080101936585f, 7.8538606316e-5f};
    return hn::MulAdd(x, polynomial(hn::Mul(x, x), p), x);
}
/// Farther out 1 - exp(q(|x|)), where q fits log(erfc).
HWY_INLINE V32 erf(V32 x) {
    static constexpr float q[] = {0.00017197374813f, -1.1295018485f,   -0.63337343677f,   -0.10825080306f,
                                  0.025100436078f,   -0.004163832879f, 0.00043296708082f, -2.0965444757e-5f};
    const V32 size = at_most(hn::Abs(x), 4.05f);
    const V32 far = hn::Sub(constant(1.0f), beside_one(exp_parts(polynomial(size, q))));
    return hn::IfThenElse(hn::Lt(size, constant(1.0f)), erf_near_zero(x), with_sign_of(far, x));
}

/// (1 + a) f(a) as a polynomial in t = (a - k) / (a + k), divided by 1 + a. Its last step is Horner's, the exactest.
template <std::size_t N> HWY_INLINE V32 tail_fit(V32 a, float k, float first, const float (&rest)[N]) {
    const V32 inverse = hn::Div(constant(1.0f), hn::Add(a, constant(k)));
    V32 t = hn::Mul(hn::Sub(a, constant(k)), inverse);
    const V32 residue = hn::NegMulAdd(t, a, hn::MulAdd(hn::Add(t, constant(1.0f)), constant(-k), a));
    t = hn::MulAdd(inverse, residue, t);  // the functions are steep near t = -1: one step of refinement
    return hn::Div(hn::MulAdd(polynomial(t, rest), t, constant(first)), hn::Add(a, constant(1.0f)));
}
/// exp(a^2) erfc(a) for a in [0, 10.5].
HWY_INLINE V32 scaled_erfc(V32 a) {
    static constexpr float first = 0.71600460548f;
    static constexpr float rest[] = {-0.2309273524f,     0.099020668098f,   -0.010234674393f, -0.023802043968f,
                                     0.021951058319f,    -0.0097669700777f, 0.0016384749903f, 0.00070714816449f,
                                     -0.00036726730959f, -0.00010316644756f};
    return tail_fit(a, 3.0f, first, rest);
}
/// exp(a^2 / 2) F(-a) for a in [0, 14.9], F the normal distribution.
HWY_INLINE V32 scaled_normal(V32 a) {
    static constexpr float first = 0.47205320683f;
    static constexpr float rest[] = {-0.096703466449f,  0.013999599959f,  0.028599969899f,    -0.03219733998f,
                                     0.017940225824f,   -0.005003986892f, -0.00030347167138f, 0.00069227230523f,
                                     -6.1452637479e-5f, -7.1948109901e-5f};
    return tail_fit(a, 4.0f, first, rest);
}

/// 1 - erf near zero; for other negative x 2 - erfc(|x|).
HWY_INLINE V32 erfc(V32 x) {
    const V32 size = at_most(hn::Abs(x), 10.5f);
    const TwoParts square = product(size, size);
    const Exponential e = exp_parts(hn::Neg(square.high), hn::Neg(square.low));
    const V32 tail = scale(hn::Mul(e.value, scaled_erfc(size)), e.k);
    const V32 far = hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), hn::Sub(constant(2.0f), tail), tail);
    const V32 near = hn::Sub(constant(1.0f), erf_near_zero(x));
    return hn::IfThenElse(hn::Lt(size, constant(0.5f)), near, far);
}

/// x F(x), F(-a) = exp(-a^2 / 2) scaled_normal(a): the tail keeps its relative accuracy.
HWY_INLINE V32 gelu(V32 x) {
    const V32 size = at_most(hn::Abs(x), 14.8f);
    const auto negative = hn::Lt(x, hn::Zero(F32()));
    const TwoParts square = product(size, size);
    const V32 half = constant(-0.5f);
    const Exponential e = exp_parts(hn::Mul(square.high, half), hn::Mul(square.low, half));
    const V32 factor = scaled_normal(size);
    const V32 tail = hn::Mul(e.value, factor);
    const V32 rest = hn::NegMulAdd(beside_one(e), factor, constant(1.0f));
    return scale_where(negative, hn::Mul(at_least(x, -200.0f), hn::IfThenElse(negative, tail, rest)), e.k);
}

/// F(x) + x F'(x); for x = -a it is exp(-a^2 / 2) (scaled_normal(a) - a / sqrt(2 pi)), and 1 less that for x = a.
HWY_INLINE V32 gelu_slope(V32 x) {
    const V32 size = at_most(hn::Abs(x), 14.8f);
    const auto negative = hn::Lt(x, hn::Zero(F32()));
    const TwoParts square = product(size, size);
    const V32 half = constant(-0.5f);
    const Exponential e = exp_parts(hn::Mul(square.high, half), hn::Mul(square.low, half));
    const V32 factor = hn::NegMulAdd(size, constant(0.39894228f), scaled_normal(size));
    const V32 rest = hn::NegMulAdd(beside_one(e), factor, constant(1.0f));
    return scale_where(negative, hn::IfThenElse(negative, hn::Mul(e.value, factor), rest), e.k);
}

/// x / (1 + exp(-z)), z = 2 sqrt(2 / pi) (x + 0.044715 x^3) in two parts: an error of z is a relative error of the
/// result.
HWY_INLINE V32 gelu_tanh(V32 x) {
    const V32 size = at_most(hn::Abs(x), 16.0f);
    const V32 k0 = constant(1.595769167f), k0_low = constant(-4.534068054e-08f);
    const V32 k1 = constant(0.07135481387f), k1_low = constant(2.398832466e-09f);
    const TwoParts square = product(size, size);
    const TwoParts cubic = product(k1, square.high);
    const V32 cubic_low = hn::MulAdd(k1_low, square.high, hn::MulAdd(k1, square.low, cubic.low));
    const V32 slope = hn::Add(k0, cubic.high);
    const V32 part = hn::Sub(slope, k0);
    const V32 rounding = hn::Add(hn::Sub(k0, hn::Sub(slope, part)), hn::Sub(cubic.high, part));
    const V32 slope_low = hn::Add(rounding, hn::Add(cubic_low, k0_low));
    const TwoParts z = product(size, slope);
    const V32 z_low = hn::MulAdd(size, slope_low, z.low);
    return times_sigmoid(x, exp_parts(hn::Neg(z.high), hn::Neg(z_low)));
}

struct Erf : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return erf(x); }
};
struct Erfc : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return erfc(x); }
};
struct Gelu : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return gelu(x); }
};
struct GeluSlope : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return gelu_slope(x); }
};
struct GeluTanh : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return gelu_tanh(x); }
};

constexpr std::array rows_of_target = {
    vector_row<Erf>("erf"),
    vector_row<Erfc>("erfc"),
    vector_row<Gelu>("gelu"),
    vector_row<GeluSlope>("gelu_slope"),
    vector_row<GeluTanh>("gelu_tanh"),
};

}  // namespace

OpRows gaussian_rows() { return rows_of_target; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/elementwise/cpu/choose_rows.h"
namespace calor::cpu {
OpRows gaussian_rows(std::int64_t targets) { CALOR_CHOOSE_ROWS(gaussian_rows, targets) }
}  // namespace calor::cpu
#endif
