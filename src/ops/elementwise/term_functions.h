// The public functions on terms, for gradient rules.
#pragma once

#include "ops/elementwise/term.h"

namespace calor::ops {

inline Term abs(const Term& x) { return call(calor::abs, x); }
inline Term sign(const Term& x) { return call(calor::sign, x); }
inline Term square(const Term& x) { return call(calor::square, x); }
inline Term round(const Term& x) { return call(calor::round, x); }
inline Term exp(const Term& x) { return call(calor::exp, x); }
inline Term log(const Term& x) { return call(calor::log, x); }
inline Term rsqrt(const Term& x) { return call(calor::rsqrt, x); }
inline Term sin(const Term& x) { return call(calor::sin, x); }
inline Term cos(const Term& x) { return call(calor::cos, x); }
inline Term sinh(const Term& x) { return call(calor::sinh, x); }
inline Term cosh(const Term& x) { return call(calor::cosh, x); }
inline Term tanh(const Term& x) { return call(calor::tanh, x); }
inline Term erfc(const Term& x) { return call(calor::erfc, x); }
inline Term digamma(const Term& x) { return call(calor::digamma, x); }
inline Term trigamma(const Term& x) { return call(calor::trigamma, x); }
inline Term isinf(const Term& x) { return call(calor::isinf, x); }
inline Term sigmoid(const Term& x) { return call(calor::sigmoid, x); }

template <TermOrNumber B> Term pow(const Term& a, const B& b) { return call(calor::pow, a, b); }
template <TermOrNumber B> Term hypot(const Term& a, const B& b) { return call(calor::hypot, a, b); }
template <TermOrNumber B> Term eq(const Term& a, const B& b) { return call(calor::eq, a, b); }
template <TermOrNumber B> Term ne(const Term& a, const B& b) { return call(calor::ne, a, b); }
template <TermOrNumber B> Term lt(const Term& a, const B& b) { return call(calor::lt, a, b); }
template <TermOrNumber B> Term le(const Term& a, const B& b) { return call(calor::le, a, b); }
template <TermOrNumber B> Term gt(const Term& a, const B& b) { return call(calor::gt, a, b); }
template <TermOrNumber B> Term ge(const Term& a, const B& b) { return call(calor::ge, a, b); }
inline Term both(const Term& a, const Term& b) { return call(calor::logical_and, a, b); }

inline Term polygamma(std::int64_t n, const Term& x) { return {calor::polygamma(n, x.tensor, *x.place), x.place}; }
inline Term clamp(const Term& x, double low, double high) {
    return {calor::clamp(x.tensor, low, high, *x.place), x.place};
}

}  // namespace calor::ops
