// CPU loops that the table brings itself: derivatives of digamma, and neighbours of the 16-bit floats.
#include <bit>
#include <cmath>
#include <limits>

#include "ops/elementwise/row.h"

namespace calor::ops {
namespace {

/// Hurwitz' zeta function, the sum of (x + k)^-s over k >= 0, for s >= 2 and x > 0: terms up to x + k >= 12 + s, then
/// the Euler-Maclaurin formula (NIST DLMF 25.11.5).
double hurwitz_zeta(double s, double x) {
    constexpr double bernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                    5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
    double sum = 0, y = x;
    for (; y < 12 + s; y += 1) {
        const double term = std::pow(y, -s);
        sum += term;
        if (term < 1e-18 * sum) return sum;
    }
    const double power = std::pow(y, -s);
    sum += power * (y / (s - 1) + 0.5);
    double factor = s / y;  // s (s + 1) ... (s + 2 j) / (y^(2 j + 1)), the factorials apart
    double factorial = 2;
    for (int j = 0; j < 8; ++j) {
        sum += power * factor * bernoulli[j] / factorial;
        const double k = 2 * j + 1;
        factor *= (s + k) / y * ((s + k + 1) / y);
        factorial *= (k + 2) * (k + 3);
    }
    return sum;
}

/// (-1)^(n + 1) n! zeta(n + 1, x). At poles where the two sides differ: the limit from the sign's side at 0, else NaN.
/// Left of 0 the sum over all integers is periodic, and what lies beyond is a sum from 1 - x.
double polygamma(double n, double x) {
    const double s = n + 1, sign = std::fmod(n, 2) == 0 ? -1 : 1;
    if (std::isnan(x)) return x;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (x == 0) return sign > 0 ? infinity : std::copysign(infinity, -x);
    if (x < 0 && x == std::floor(x)) return sign > 0 ? infinity : std::nan("");
    if (std::isinf(x)) return x > 0 ? sign * 0.0 : std::nan("");
    const double scale = sign * std::tgamma(s);
    if (x > 0) return scale * hurwitz_zeta(s, x);
    const double f = x - std::floor(x), mirror = std::fmod(n, 2) == 0 ? -1 : 1;
    return scale * (hurwitz_zeta(s, f) + mirror * (hurwitz_zeta(s, 1 - f) - hurwitz_zeta(s, 1 - x)));
}

template <class T> void polygamma_loop(const void* const* in, void* out, std::int64_t n, const double* params) {
    const auto* x = static_cast<const T*>(in[0]);
    auto* y = static_cast<T*>(out);
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(polygamma(params[0], static_cast<double>(x[i])));
}

/// Among numbers of one sign, neighbours in value are neighbours in bits.
template <class Half> float next_half(float from, float to) {
    if (std::isnan(from) || std::isnan(to)) return from + to;
    Half h(from);
    to = Half(to);
    if (static_cast<float>(h) == to) return to;
    if (static_cast<float>(h) == 0) {
        h.bits = static_cast<std::uint16_t>(to < 0 ? 0x8001 : 0x0001);
    } else {
        const bool away = (static_cast<float>(h) < to) == (static_cast<float>(h) > 0);
        h.bits = static_cast<std::uint16_t>(h.bits + (away ? 1 : -1));
    }
    return h;
}

template <class Half> void next_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
    auto* y = static_cast<float*>(out);
    for (std::int64_t i = 0; i < n; ++i) y[i] = next_half<Half>(a[i], b[i]);
}

}  // namespace

TileKernel find_special_kernel(std::string_view name, DType compute) {
    if (name == "polygamma") {
        if (compute == f64) return polygamma_loop<double>;
        return compute == f32 ? polygamma_loop<float> : nullptr;
    }
    if (compute != f32) return nullptr;
    if (name == "nextafter_f16") return next_loop<float16>;
    return name == "nextafter_bf16" ? next_loop<bfloat16> : nullptr;
}

}  // namespace calor::ops
