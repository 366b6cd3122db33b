// The table of float functions with their references and error bounds.
#include "tile_kernels_reference.h"

#include <math.h>

#include <cmath>
#include <limits>

namespace calor::reference {
namespace {

constexpr Real pi = 3.14159265358979323846264338327950288L;
constexpr Real infinity = std::numeric_limits<Real>::infinity();
constexpr Real nan = std::numeric_limits<Real>::quiet_NaN();

Real log_gamma(Real x) {
    int sign = 0;
    return std::isinf(x) ? infinity : ::lgammal_r(x, &sign);
}

/// Sum of c[k] / x^(2 k + 2), the tail of the asymptotic series.
Real tail(Real x, std::span<const Real> c) {
    Real sum = 0;
    for (std::size_t k = c.size(); k-- > 0;) sum = (sum + c[k]) / (x * x);
    return sum;
}

Real digamma(Real x) {
    if (std::isnan(x) || x == infinity) return x;
    if (x == 0) return std::signbit(x) ? infinity : -infinity;
    if (x < 0) {
        const Real fraction = x - std::nearbyint(x);
        return fraction == 0 || std::isinf(x) ? nan : digamma(1 - x) - pi / std::tan(pi * fraction);
    }
    static constexpr Real c[] = {1.0L / 12,  -1.0L / 120,     1.0L / 252, -1.0L / 240,
                                 1.0L / 132, -691.0L / 32760, 1.0L / 12,  -3617.0L / 8160};
    Real sum = 0;
    for (; x < 40; x += 1) sum += 1 / x;
    return std::log(x) - 0.5L / x - tail(x, c) - sum;
}
Real digamma_scale(Real x) {
    if (x > 1.4L && x < 1.52L) return 0.02L;  // near its root the reference itself cancels
    if (x > 0 || std::isnan(x) || std::isinf(x)) return 0;
    return 1 + std::abs(digamma(1 - x)) + std::abs(pi / std::tan(pi * (x - std::nearbyint(x))));
}

Real trigamma(Real x) {
    if (std::isnan(x)) return x;
    if (x == infinity) return 0;
    if (x <= 0) {
        const Real fraction = x - std::nearbyint(x);
        if (std::isinf(x)) return nan;
        if (fraction == 0) return infinity;
        const Real ratio = pi / std::sin(pi * fraction);
        return ratio * ratio - trigamma(1 - x);
    }
    static constexpr Real c[] = {1.0L / 6, -1.0L / 30, 1.0L / 42, -1.0L / 30, 5.0L / 66, -691.0L / 2730, 7.0L / 6};
    Real sum = 0;
    for (; x < 40; x += 1) sum += 1 / (x * x);
    return sum + (1 / x + 0.5L / (x * x) + tail(x, c) / x);
}

/// Newton's method on erfc from a bisected start.
Real inverse_erf(Real x) {
    const Real size = std::abs(x);
    if (!(size < 1)) return size == 1 ? std::copysign(infinity, x) : nan;
    if (size < 1e-9L) return x * std::sqrt(pi) / 2;
    Real low = 0, high = 7;
    for (int i = 0; i < 20; ++i) {
        const Real middle = (low + high) / 2;
        (std::erf(middle) < size && std::erfc(middle) > 1 - size ? low : high) = middle;
    }
    Real y = low;
    for (int i = 0; i < 6; ++i) {
        const Real error = size < 0.5L ? std::erf(y) - size : (1 - size) - std::erfc(y);
        y -= error * std::sqrt(pi) / 2 * std::exp(y * y);
    }
    return std::copysign(y, x);
}

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
Real softplus(Real x) { return x > 100 ? x : std::log1p(std::exp(x)); }

/// f(x), or `limit` at -infinity where the formula is infinity times 0.
template <Real (*f)(Real)> Real times(Real x) { return x == -infinity || (x < -11400) ? -0.0L : x * f(x); }

Real normal(Real x) { return 0.5L * std::erfc(-x * std::sqrt(0.5L)); }
Real times_density(Real x) { return std::abs(x) > 150 ? 0 : x * std::exp(-x * x / 2) / std::sqrt(2 * pi); }
Real gelu_slope(Real x) { return x < -150 ? -0.0L : normal(x) + times_density(x); }
Real gelu_slope_scale(Real x) { return normal(x) + std::abs(times_density(x)); }
Real tanh_normal(Real x) { return sigmoid(2 * std::sqrt(2 / pi) * (x + 0.044715L * x * x * x)); }
Real tanh_softplus(Real x) {
    const Real e = std::exp(x);
    return x > 40 ? 1 : e * (e + 2) / (e * (e + 2) + 2);
}

Real tanhshrink(Real x) {
    if (std::abs(x) >= 0.5L) return x - std::tanh(x);
    const Real y = x * x;  // Lambert's fraction: exact to far beyond long double here
    Real fraction = 31;
    for (int k = 29; k >= 3; k -= 2) fraction = k + y / fraction;
    return x * (y / (y + fraction));
}

Real round_even(Real x) { return std::nearbyint(x); }
Real keep_nan(Real x, Real value) { return std::isnan(x) ? x : value; }
Real between(Real low, Real x, Real high) {
    if (x <= low) return low;
    return x >= high ? high : x;
}
Real hard_swish(Real x) {
    if (x <= -3) return 0;
    return x >= 3 ? x : x * (x + 3) / 6;
}
Real soft_shrink(Real x, Real lambda) {
    if (std::abs(x) <= lambda) return 0;
    return x > 0 ? x - lambda : x + lambda;
}
Real sign(Real x) {
    if (x == 0 || std::isnan(x)) return std::abs(x);
    return x > 0 ? 1 : -1;
}

constexpr double rounded = 0.501;  // the nearest value, with room for the rounding of the reference

constexpr Unary unary_table[] = {
    {"exp", [](Real x, const double*) { return std::exp(x); }, 1.05, 0.55},
    {"expm1", [](Real x, const double*) { return std::expm1(x); }, 1.5, 0.85},
    {"exp2", [](Real x, const double*) { return std::exp2(x); }, 1.45, 0.55},
    {"log", [](Real x, const double*) { return std::log(x); }, 0.9, 0.6},
    {"log1p", [](Real x, const double*) { return std::log1p(x); }, 0.9, 0.8},
    {"log2", [](Real x, const double*) { return std::log2(x); }, rounded, 0.6},
    {"log10", [](Real x, const double*) { return std::log10(x); }, rounded, 1.65},
    {"sqrt", [](Real x, const double*) { return std::sqrt(x); }, rounded, rounded},
    {"rsqrt", [](Real x, const double*) { return 1 / std::sqrt(x); }, 1.6, 1.6},
    {"reciprocal", [](Real x, const double*) { return 1 / x; }, rounded, rounded},
    {"cbrt", [](Real x, const double*) { return std::cbrt(x); }, rounded, 3.35},
    {"sin", [](Real x, const double*) { return std::sin(x); }, rounded, 0.6},
    {"cos", [](Real x, const double*) { return std::cos(x); }, rounded, 0.6},
    {"tan", [](Real x, const double*) { return std::tan(x); }, rounded, 0.6},
    {"asin", [](Real x, const double*) { return std::asin(x); }, rounded, 0.55},
    {"acos", [](Real x, const double*) { return std::acos(x); }, rounded, rounded},
    {"atan", [](Real x, const double*) { return std::atan(x); }, rounded, 0.55},
    {"sinh", [](Real x, const double*) { return std::sinh(x); }, rounded, 1.4},
    {"cosh", [](Real x, const double*) { return std::cosh(x); }, rounded, 1.1},
    {"tanh", [](Real x, const double*) { return std::tanh(x); }, 2.25, 2.1},
    {"asinh", [](Real x, const double*) { return std::asinh(x); }, rounded, 1.5},
    {"acosh", [](Real x, const double*) { return std::acosh(x); }, rounded, 1.35},
    {"atanh", [](Real x, const double*) { return std::atanh(x); }, rounded, 1.65},
    {"erf", [](Real x, const double*) { return std::erf(x); }, 1.25, 1},
    {"erfc", [](Real x, const double*) { return std::erfc(x); }, 3.4, 2.9},
    {"erfinv", [](Real x, const double*) { return inverse_erf(x); }, rounded, 1.4},
    {"lgamma", [](Real x, const double*) { return log_gamma(x); }, rounded, 3.65},
    {"digamma", [](Real x, const double*) { return digamma(x); }, rounded, 3.3, {}, digamma_scale},
    {"trigamma", [](Real x, const double*) { return trigamma(x); }, rounded, 4.55},
    {"floor", [](Real x, const double*) { return std::floor(x); }, rounded, rounded},
    {"ceil", [](Real x, const double*) { return std::ceil(x); }, rounded, rounded},
    {"round", [](Real x, const double*) { return round_even(x); }, rounded, rounded},
    {"trunc", [](Real x, const double*) { return std::trunc(x); }, rounded, rounded},
    {"sigmoid", [](Real x, const double*) { return sigmoid(x); }, 2.15, 2.05},
    {"log_sigmoid",
     [](Real x, const double*) { return keep_nan(x, std::fmin(x, 0) - std::log1p(std::exp(-std::abs(x)))); }, 1.8, 1.4},
    {"softplus", [](Real x, const double*) { return x > 20 ? x : softplus(x); }, 1.8, 1.4, {1, 20}},
    {"softplus", [](Real x, const double*) { return 2 * x > 20 ? x : softplus(2 * x) / 2; }, 1.8, 1.4, {2, 20}},
    {"softsign", [](Real x, const double*) { return std::isinf(x) ? std::copysign(1.0L, x) : x / (1 + std::abs(x)); },
     1.6, 1.55},
    {"silu", [](Real x, const double*) { return times<sigmoid>(x); }, 2.9, 2.9},
    {"mish", [](Real x, const double*) { return times<tanh_softplus>(x); }, 3.9, 4.2},
    {"gelu", [](Real x, const double*) { return times<normal>(x); }, 3.9, 4.3},
    {"gelu_slope", [](Real x, const double*) { return gelu_slope(x); }, 4.5, 4.5, {}, gelu_slope_scale},
    {"gelu_tanh", [](Real x, const double*) { return x < -100 ? -0.0L : times<tanh_normal>(x); }, 3.05, 3.55},
    {"relu", [](Real x, const double*) { return x <= 0 ? 0 : x; }, rounded, rounded},
    {"relu6", [](Real x, const double*) { return between(0, x, 6); }, rounded, rounded},
    {"leaky_relu", [](Real x, const double* p) { return x > 0 ? x : x * p[0]; }, rounded, rounded, {0.25}},
    {"elu", [](Real x, const double* p) { return x > 0 ? x : p[0] * std::expm1(x); }, 1.65, 1.35, {1.5}},
    {"selu",
     [](Real x, const double*) {
         return 1.0507009873554804934193349852946L * (x > 0 ? x : 1.6732632423543772848170429916717L * std::expm1(x));
     },
     2.65, 2.65},
    {"celu", [](Real x, const double* p) { return x > 0 ? x : p[0] * std::expm1(x / p[0]); }, 2.2, 1.1, {2}},
    {"hard_sigmoid", [](Real x, const double*) { return between(0, (x + 3) / 6, 1); }, 1.1, 1.1},
    {"hard_swish", [](Real x, const double*) { return hard_swish(x); }, 2, 1.9},
    {"hardtanh", [](Real x, const double*) { return between(-1, x, 2); }, rounded, rounded, {-1, 2}},
    {"clamp", [](Real x, const double*) { return between(-1, x, 2); }, rounded, rounded, {-1, 2}},
    {"tanhshrink", [](Real x, const double*) { return tanhshrink(x); }, rounded, 3.8},
    {"softshrink", [](Real x, const double*) { return soft_shrink(x, 0.5L); }, rounded, rounded, {0.5}},
    {"hardshrink", [](Real x, const double*) { return std::abs(x) <= 0.5L ? 0 : x; }, rounded, rounded, {0.5}},
    {"threshold", [](Real x, const double*) { return x <= 0.25L ? -7 : x; }, rounded, rounded, {0.25, -7}},
    {"neg", [](Real x, const double*) { return -x; }, rounded, rounded},
    {"abs", [](Real x, const double*) { return std::abs(x); }, rounded, rounded},
    {"sign", [](Real x, const double*) { return sign(x); }, rounded, rounded},
    {"square", [](Real x, const double*) { return x * x; }, rounded, rounded},
};

Real remainder(Real a, Real b) {
    const Real rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(0.0L, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}
Real xlogy(Real x, Real y) { return x == 0 && !std::isnan(y) ? 0 : x * std::log(y); }
Real logaddexp(Real a, Real b) {
    if (std::isnan(a) || std::isnan(b)) return nan;
    const Real largest = std::fmax(a, b), distance = a == b ? 0 : std::abs(a - b);
    return largest + std::log1p(std::exp(-distance));
}

constexpr Binary binary_table[] = {
    {"add", [](Real a, Real b) { return a + b; }, rounded, rounded},
    {"sub", [](Real a, Real b) { return a - b; }, rounded, rounded},
    {"mul", [](Real a, Real b) { return a * b; }, rounded, rounded},
    {"div", [](Real a, Real b) { return a / b; }, rounded, rounded},
    {"remainder", remainder, rounded, rounded},
    {"fmod", [](Real a, Real b) { return std::fmod(a, b); }, rounded, rounded},
    {"minimum", [](Real a, Real b) { return a < b || std::isnan(a) ? a : b; }, rounded, rounded},
    {"maximum", [](Real a, Real b) { return a > b || std::isnan(a) ? a : b; }, rounded, rounded},
    {"pow", [](Real a, Real b) { return std::pow(a, b); }, rounded, 0.55},
    {"atan2", [](Real a, Real b) { return std::atan2(a, b); }, rounded, 0.6},
    {"hypot", [](Real a, Real b) { return std::hypot(a, b); }, rounded, 0.6},
    {"copysign", [](Real a, Real b) { return std::copysign(a, b); }, rounded, rounded},
    {"logaddexp", logaddexp, rounded, 1.4, [](Real a, Real b) { return std::fmax(std::abs(a), std::abs(b)); }},
    {"xlogy", xlogy, rounded, 1.55},
    {"prelu", [](Real a, Real b) { return a > 0 ? a : a * b; }, rounded, rounded},
};

}  // namespace

std::span<const Unary> unary() { return unary_table; }
std::span<const Binary> binary() { return binary_table; }

}  // namespace calor::reference
