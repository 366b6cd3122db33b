// Special functions of one double that the C library lacks (or has only with a data race).
#pragma once

namespace calor::cpu {

/// log|gamma(x)|; +inf at the poles 0, -1, -2, ... and at both infinities. Unlike std::lgamma it writes no global.
double log_gamma(double x);
/// psi(x) = d/dx log gamma(x); -inf at +0, +inf at -0, NaN at the other poles and at -inf.
double digamma(double x);
/// psi'(x); +inf at the poles, NaN at -inf.
double trigamma(double x);
/// The y with erf(y) = x; +-inf at +-1, NaN beyond.
double inverse_erf(double x);

}  // namespace calor::cpu
