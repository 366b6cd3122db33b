// Scalar float loops: all f64 functions, and those of f32 that have no vector loop. They call the C library in f64; an
// f32 result is rounded once at the end.
#include <cmath>
#include <limits>

#include "ops/elementwise/cpu/op_rows.h"
#include "ops/elementwise/cpu/special_functions.h"

namespace calor::cpu {
namespace {

using Function = double (*)(double);
using Function2 = double (*)(double, double);

template <class T, Function f> void unary_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* a = static_cast<const T*>(in[0]);
    auto* r = static_cast<T*>(out);
    for (std::int64_t i = 0; i < n; ++i) r[i] = static_cast<T>(f(static_cast<double>(a[i])));
}
template <class T, Function2 f> void binary_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* a = static_cast<const T*>(in[0]);
    const auto* b = static_cast<const T*>(in[1]);
    auto* r = static_cast<T*>(out);
    for (std::int64_t i = 0; i < n; ++i) {
        r[i] = static_cast<T>(f(static_cast<double>(a[i]), static_cast<double>(b[i])));
    }
}
/// f(x, p0, p1), in f64.
template <double (*f)(double, double, double)>
void parameter_loop(const void* const* in, void* out, std::int64_t n, const double* parameters) {
    const auto* a = static_cast<const double*>(in[0]);
    auto* r = static_cast<double*>(out);
    for (std::int64_t i = 0; i < n; ++i) r[i] = f(a[i], parameters[0], parameters[1]);
}
template <class T> void nextafter_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* a = static_cast<const T*>(in[0]);
    const auto* b = static_cast<const T*>(in[1]);
    auto* r = static_cast<T*>(out);
    for (std::int64_t i = 0; i < n; ++i) r[i] = std::nextafter(a[i], b[i]);
}

double sigmoid(double x) {
    const double e = std::exp(-std::abs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
/// x exp(x) for x far below zero, in two steps that don't round as subnormals; -0, the limit, at -inf.
double times_tail(double x) {
    const double root = std::exp(0.5 * x);
    return x < -1000 ? -0.0 : x * root * root;
}
double silu(double x) {
    if (x < -40) return times_tail(x);
    const double e = std::exp(-std::abs(x));
    return x * (x < 0 ? e : 1) / (1 + e);
}
double log_sigmoid(double x) { return (x > 0 ? 0 : x) - std::log1p(std::exp(-std::abs(x))); }
double softplus(double x, double beta, double threshold) {
    const double z = beta * x;
    return z > threshold ? x : ((z < 0 ? 0 : z) + std::log1p(std::exp(-std::abs(z)))) / beta;
}
double mish(double x) {
    if (x < -40) return times_tail(x);
    const double e = std::exp(x > 40 ? 40 : x), w = e * (e + 2);
    return x * (w / (w + 2));
}
double elu(double x, double alpha, double) { return x > 0 ? x : alpha * std::expm1(x); }
double celu(double x, double alpha, double) { return x > 0 ? x : alpha * std::expm1(x / alpha); }
double selu(double x) {
    constexpr double scale = 1.0507009873554804934193349852946, alpha = 1.6732632423543772848170429916717;
    return x > 0 ? scale * x : scale * alpha * std::expm1(x);
}

/// factor F(x) for the normal distribution F. In the left tail the error of x / sqrt(2) is worked off to first order.
double times_normal(double factor, double x) {
    constexpr double root_half = 0.70710678118654752440, root_half_low = -4.8336466567264567e-17;
    if (x > -1) return factor * 0.5 * std::erfc(-x * root_half);
    const double a = -x * root_half;
    const double low = std::fma(-x, root_half, -a) - x * root_half_low;
    const double slope = 1.12837916709551257390 * std::exp(-a * a);
    return factor * 0.5 * (std::erfc(a) - slope * low);
}
double gelu(double x) { return x < -40 ? -0.0 : times_normal(x, x); }
/// Its derivative F(x) + x F'(x).
double gelu_slope(double x) {
    if (x < -40) return -0.0;
    const double a = x > 40 ? 40 : x, square = a * a, low = std::fma(a, a, -square);
    const double root = std::exp(-0.25 * square);  // its square may be subnormal: that comes last
    return times_normal(1, a) + a * (0.39894228040143267794 * (1 - 0.5 * low)) * root * root;
}
/// x / (1 + exp(-z)) with z = 2 sqrt(2 / pi) (x + 0.044715 x^3) in two parts.
double gelu_tanh(double x) {
    constexpr double k0 = 1.5957691216057308115, k0_low = -9.9693088091109202e-17;
    constexpr double k1 = 0.071354816272600249394, k1_low = -6.1751499181553149967e-19;
    const double a = std::abs(x) > 30 ? 30 : std::abs(x);
    const double square = a * a, square_low = std::fma(a, a, -square);
    const double cubic = k1 * square;
    const double cubic_low = std::fma(k1, square, -cubic) + (k1 * square_low + k1_low * square);
    const double slope = k0 + cubic, part = slope - k0;
    const double slope_low = (k0 - (slope - part)) + (cubic - part) + cubic_low + k0_low;
    const double z = a * slope, z_low = std::fma(a, slope, -z) + a * slope_low;
    const double e = std::exp(-z) * (1 - z_low);
    if (std::isnan(x)) return x;
    return (x < -1000 ? -1000 : x) * (x < 0 ? e : 1) / (1 + e);
}

/// x - tanh(x) = x^3 / (x^2 + K), K = 3 + x^2 / (5 + x^2 / (7 + ...)): Lambert's fraction for tanh, without
/// cancellation.
double tanhshrink(double x) {
    if (!(std::abs(x) < 1)) return x - std::tanh(x);
    const double square = x * x;
    double fraction = 21;
    for (int k = 19; k >= 3; k -= 2) fraction = k + square / fraction;
    return x * (square / (square + fraction));
}

/// Python's %: the sign of the divisor. Exact but for the one addition.
double remainder(double a, double b) {
    const double rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}
/// Python's //: (a - a % b) / b, rounded to the whole number that it nearly is.
double floor_divide(double a, double b) {
    if (b == 0) return a / b;
    const double rest = std::fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(0.0, a / b);
    const double whole = std::floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}
double logaddexp(double a, double b) {
    const double largest = a < b ? b : a, distance = a == b ? 0 : std::abs(a - b);
    return std::isnan(distance) ? distance : largest + std::log1p(std::exp(-distance));
}
double xlogy(double x, double y) { return x == 0 && !std::isnan(y) ? 0 : x * std::log(y); }

template <Function f> constexpr OpRow f64_row(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f64, unary_loop<double, f>);
    return row;
}
template <Function f> constexpr OpRow row_of_both(std::string_view name) {
    OpRow row = f64_row<f>(name);
    row.set(DType::f32, unary_loop<float, f>);
    return row;
}
template <Function2 f> constexpr OpRow f64_pair_row(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f64, binary_loop<double, f>);
    return row;
}
template <Function2 f> constexpr OpRow pair_row_of_both(std::string_view name) {
    OpRow row = f64_pair_row<f>(name);
    row.set(DType::f32, binary_loop<float, f>);
    return row;
}
template <double (*f)(double, double, double)> constexpr OpRow f64_parameter_row(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f64, parameter_loop<f>);
    return row;
}
constexpr OpRow nextafter_row() {
    OpRow row{"nextafter", {}};
    row.set(DType::f64, nextafter_loop<double>);
    row.set(DType::f32, nextafter_loop<float>);
    return row;
}

constexpr std::array rows = {
    f64_row<std::exp>("exp"),
    f64_row<std::expm1>("expm1"),
    f64_row<std::exp2>("exp2"),
    f64_row<std::log>("log"),
    f64_row<std::log1p>("log1p"),
    f64_row<std::log2>("log2"),
    f64_row<std::log10>("log10"),
    f64_row<std::cbrt>("cbrt"),
    f64_row<std::sin>("sin"),
    f64_row<std::cos>("cos"),
    f64_row<std::tan>("tan"),
    f64_row<std::asin>("asin"),
    f64_row<std::acos>("acos"),
    f64_row<std::atan>("atan"),
    f64_row<std::sinh>("sinh"),
    f64_row<std::cosh>("cosh"),
    f64_row<std::tanh>("tanh"),
    f64_row<std::asinh>("asinh"),
    f64_row<std::acosh>("acosh"),
    f64_row<std::atanh>("atanh"),
    f64_row<std::erf>("erf"),
    f64_row<std::erfc>("erfc"),
    row_of_both<inverse_erf>("erfinv"),
    row_of_both<log_gamma>("lgamma"),
    row_of_both<digamma>("digamma"),
    row_of_both<trigamma>("trigamma"),
    f64_row<sigmoid>("sigmoid"),
    f64_row<silu>("silu"),
    f64_row<log_sigmoid>("log_sigmoid"),
    f64_parameter_row<softplus>("softplus"),
    f64_row<mish>("mish"),
    f64_parameter_row<elu>("elu"),
    f64_parameter_row<celu>("celu"),
    f64_row<selu>("selu"),
    f64_row<gelu>("gelu"),
    f64_row<gelu_slope>("gelu_slope"),
    f64_row<gelu_tanh>("gelu_tanh"),
    row_of_both<tanhshrink>("tanhshrink"),
    pair_row_of_both<remainder>("remainder"),
    pair_row_of_both<floor_divide>("floor_divide"),
    pair_row_of_both<std::fmod>("fmod"),
    f64_pair_row<std::pow>("pow"),
    f64_pair_row<std::atan2>("atan2"),
    f64_pair_row<std::hypot>("hypot"),
    f64_pair_row<logaddexp>("logaddexp"),
    f64_pair_row<xlogy>("xlogy"),
    nextafter_row(),
};

}  // namespace

OpRows scalar_rows() { return rows; }

}  // namespace calor::cpu
