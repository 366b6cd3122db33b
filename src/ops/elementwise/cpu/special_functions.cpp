// Digamma and trigamma by recurrence, asymptotic series and reflection (Abramowitz & Stegun 6.3 and 6.4); the inverse
// error function by a closed approximation and three Halley steps.
#include "ops/elementwise/cpu/special_functions.h"

#include <math.h>

#include <cmath>
#include <limits>

namespace calor::cpu {
namespace {

constexpr double pi = 3.14159265358979323846;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <int N> double polynomial(double x, const double (&c)[N]) {
    double sum = c[N - 1];
    for (int i = N - 2; i >= 0; --i) sum = sum * x + c[i];
    return sum;
}

/// sin(pi f), |f| <= 1/2, with the rounding error of pi f worked off.
double sine_of_turns(double f) {
    constexpr double pi_low = 1.2246467991473532e-16;
    const double angle = pi * f, low = std::fma(pi, f, -angle) + pi_low * f;
    return std::sin(angle) + low * std::cos(angle);
}
/// pi / tan(pi f), |f| <= 1/2; near its zeros at +-1/2 by the tangent of the complement.
double pi_cotangent(double f) {
    const double size = std::abs(f);
    return std::copysign(size < 0.25 ? pi / std::tan(pi * size) : pi * std::tan(pi * (0.5 - size)), f);
}

/// psi on [1, 2]: (x - root) p(x - 1.5), with its root in two parts. p is a minimax fit.
double digamma_near_root(double x) {
    static constexpr double c[] = {0.9510558760318328885,    -0.4236274212814572189,    0.2405424842407776742,
                                   -0.148404923054873808,    0.09498872445448377959,    -0.06192213318961317968,
                                   0.04076083383589941959,   -0.02697580006506134143,   0.01790725182771020698,
                                   -0.01190814589100781846,  0.007926953798347609002,   -0.00528090942867730344,
                                   0.003518923070819993518,  -0.002337513389573087236,  0.001557101245526786292,
                                   -0.001077830293564881447, 0.0007217283789219705321,  -0.0003544751560960982467,
                                   0.0002302449249575298473, -0.0003786340467042052521, 0.0002572730458299686959};
    const double distance = (x - 1.4616321449683622458) - 9.5499954299656974258e-17;
    return distance * polynomial(x - 1.5, c);
}

double digamma_of_positive(double x) {
    if (x >= 10) {
        static constexpr double c[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                       1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};
        const double y = 1 / (x * x);
        return std::log(x) - 0.5 / x - y * polynomial(y, c);
    }
    if (x < 1) return digamma_near_root(x + 1) - 1 / x;
    double sum = 0;
    for (; x > 2; x -= 1) sum += 1 / (x - 1);
    return sum + digamma_near_root(x);
}

double trigamma_of_positive(double x) {
    double sum = 0;
    for (; x < 12; x += 1) sum += 1 / (x * x);
    static constexpr double c[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
    const double inverse = 1 / x, y = inverse * inverse;
    return sum + (inverse + (0.5 * y + inverse * y * polynomial(y, c)));
}

}  // namespace

double log_gamma(double x) {
    if (std::isinf(x)) return infinity;
    int sign = 0;
    return ::lgamma_r(x, &sign);
}

double digamma(double x) {
    if (std::isnan(x) || x == infinity) return x;
    if (x > 0) return digamma_of_positive(x);
    if (x == 0) return std::signbit(x) ? infinity : -infinity;
    const double fraction = x - std::nearbyint(x);
    if (fraction == 0 || std::isinf(x)) return nan;
    return digamma_of_positive(1 - x) - pi_cotangent(fraction);
}

double trigamma(double x) {
    if (std::isnan(x)) return x;
    if (x == infinity) return 0;
    if (x > 0) return trigamma_of_positive(x);
    if (std::isinf(x)) return nan;
    const double fraction = x - std::nearbyint(x);
    if (fraction == 0) return infinity;
    const double sine = sine_of_turns(fraction);
    return 9.869604401089358619 / (sine * sine) - trigamma_of_positive(1 - x);
}

double inverse_erf(double x) {
    const double size = std::abs(x);
    if (!(size < 1)) return size == 1 ? std::copysign(infinity, x) : nan;
    constexpr double two_over_root_pi = 1.12837916709551257390;
    if (size < 1e-8) return x / two_over_root_pi;
    // Winitzki's approximation, good to 2e-3; then Halley's iteration, whose error falls with the third power.
    constexpr double a = 0.147;
    const double logarithm = std::log1p(-size) + std::log1p(size);
    const double t = 2 / (pi * a) + 0.5 * logarithm, s = -logarithm / a;
    const double root = std::sqrt(t * t + s);
    double y = std::sqrt(t > 0 ? s / (root + t) : root - t);
    for (int step = 0; step < 3; ++step) {
        const double error = size < 0.5 ? std::erf(y) - size : (1 - size) - std::erfc(y);
        const double u = error / (two_over_root_pi * std::exp(-y * y));
        y -= u / (1 + y * u);
    }
    return std::copysign(y, x);
}

}  // namespace calor::cpu
