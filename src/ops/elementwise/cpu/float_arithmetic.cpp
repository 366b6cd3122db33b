// Float loops of a few exactly rounded operations each, f32 and f64, for the compiler to vectorise: arithmetic,
// rounding, and the activations that are pieces of straight lines. Compiled for the baseline and for AVX2.
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/cpu/float_arithmetic.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/elementwise/cpu/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

struct Add {
    template <class T> static T run(T a, T b) { return a + b; }
};
struct Subtract {
    template <class T> static T run(T a, T b) { return a - b; }
};
struct Multiply {
    template <class T> static T run(T a, T b) { return a * b; }
};
struct Divide {
    template <class T> static T run(T a, T b) { return a / b; }
};
struct Minimum {
    template <class T> static T run(T a, T b) { return a < b || a != a ? a : b; }
};
struct Maximum {
    template <class T> static T run(T a, T b) { return a > b || a != a ? a : b; }
};
struct CopySign {
    template <class T> static T run(T a, T b) { return std::copysign(a, b); }
};
struct PRelu {
    template <class T> static T run(T a, T slope) { return a > T{0} ? a : a * slope; }
};
struct Negate {
    template <class T> static T run(T a) { return -a; }
};
struct Absolute {
    template <class T> static T run(T a) { return std::abs(a); }
};
struct Sign {  // of either zero: +0
    template <class T> static T run(T a) {
        const T sign = static_cast<T>(a > T{0} ? 1 : 0) - static_cast<T>(a < T{0} ? 1 : 0);
        return a != a ? a : sign;
    }
};
struct Square {
    template <class T> static T run(T a) { return a * a; }
};
struct SquareRoot {
    template <class T> static T run(T a) { return std::sqrt(a); }
};
struct ReciprocalSquareRoot {
    template <class T> static T run(T a) { return T{1} / std::sqrt(a); }
};
struct Reciprocal {
    template <class T> static T run(T a) { return T{1} / a; }
};
struct Floor {
    template <class T> static T run(T a) { return std::floor(a); }
};
struct Ceil {
    template <class T> static T run(T a) { return std::ceil(a); }
};
struct Round {  // ties to even: the default rounding mode
    template <class T> static T run(T a) { return std::nearbyint(a); }
};
struct Truncate {
    template <class T> static T run(T a) { return std::trunc(a); }
};
struct Relu {
    template <class T> static T run(T a) { return a <= T{0} ? T{0} : a; }
};
struct Relu6 {
    template <class T> static T run(T a) { return a <= T{0} ? T{0} : (a >= T{6} ? T{6} : a); }
};
struct SoftSign {
    template <class T> static T run(T a) {
        const T size = std::abs(a);
        const T ratio = a / (T{1} + size);
        return size == std::numeric_limits<T>::infinity() ? std::copysign(T{1}, a) : ratio;
    }
};
struct HardSigmoid {
    template <class T> static T run(T a) { return a <= T{-3} ? T{0} : (a >= T{3} ? T{1} : (a + T{3}) / T{6}); }
};
struct HardSwish {
    template <class T> static T run(T a) { return a <= T{-3} ? T{0} : (a >= T{3} ? a : a * (a + T{3}) / T{6}); }
};
struct Lerp {  // exact at both ends: a at w = 0, b at w = 1
    template <class T> static T run(T a, T b, T w) {
        const T step = b - a;
        return w < T{0.5} ? a + w * step : b - step * (T{1} - w);
    }
};

struct FloatParameter {
    template <class T> static T parameter(double value, int) { return static_cast<T>(value); }
};
struct LeakyRelu : FloatParameter {
    template <class T> static T run(T a, T slope, T) { return a > T{0} ? a : a * slope; }
};
struct Clamp : FloatParameter {  // hardtanh is the same; with low > high the result is high
    template <class T> static T run(T a, T low, T high) {
        const T above = a < low ? low : a;
        return above > high ? high : above;
    }
};
struct SoftShrink : FloatParameter {
    template <class T> static T run(T a, T lambda, T) {
        const T inside = a != a ? a : T{0};
        return a > lambda ? a - lambda : (a < -lambda ? a + lambda : inside);
    }
};
struct HardShrink : FloatParameter {
    template <class T> static T run(T a, T lambda, T) { return a <= lambda && a >= -lambda ? T{0} : a; }
};
struct Threshold : FloatParameter {
    template <class T> static T run(T a, T threshold, T value) { return a <= threshold ? value : a; }
};

template <class Op> constexpr OpRow unary(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f32, unary_loop<Op, float, float>);
    row.set(DType::f64, unary_loop<Op, double, double>);
    return row;
}
template <class Op> constexpr OpRow binary(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f32, binary_loop<Op, float, float>);
    row.set(DType::f64, binary_loop<Op, double, double>);
    return row;
}
template <class Op> constexpr OpRow ternary(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f32, ternary_loop<Op, float>);
    row.set(DType::f64, ternary_loop<Op, double>);
    return row;
}
template <class Op> constexpr OpRow with_parameters(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f32, parameter_loop<Op, float>);
    row.set(DType::f64, parameter_loop<Op, double>);
    return row;
}

constexpr std::array rows_of_target = {
    binary<Add>("add"),
    binary<Subtract>("sub"),
    binary<Multiply>("mul"),
    binary<Divide>("div"),
    binary<Minimum>("minimum"),
    binary<Maximum>("maximum"),
    binary<CopySign>("copysign"),
    binary<PRelu>("prelu"),
    unary<Negate>("neg"),
    unary<Absolute>("abs"),
    unary<Sign>("sign"),
    unary<Square>("square"),
    unary<SquareRoot>("sqrt"),
    unary<ReciprocalSquareRoot>("rsqrt"),
    unary<Reciprocal>("reciprocal"),
    unary<Floor>("floor"),
    unary<Ceil>("ceil"),
    unary<Round>("round"),
    unary<Truncate>("trunc"),
    unary<Relu>("relu"),
    unary<Relu6>("relu6"),
    unary<SoftSign>("softsign"),
    unary<HardSigmoid>("hard_sigmoid"),
    unary<HardSwish>("hard_swish"),
    ternary<Lerp>("lerp"),
    with_parameters<LeakyRelu>("leaky_relu"),
    with_parameters<Clamp>("clamp"),
    with_parameters<Clamp>("hardtanh"),
    with_parameters<SoftShrink>("softshrink"),
    with_parameters<HardShrink>("hardshrink"),
    with_parameters<Threshold>("threshold"),
};

}  // namespace

OpRows float_rows() { return rows_of_target; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/elementwise/cpu/choose_rows.h"
namespace calor::cpu {
OpRows float_rows(std::int64_t targets) { CALOR_CHOOSE_ROWS(float_rows, targets) }
}  // namespace calor::cpu
#endif
