// Elementwise operations: arithmetic, functions of real numbers, comparisons, logic and bits.
//
// Operands broadcast against each other: shapes are aligned at the last axis, and an axis of size 1 (or a missing one)
// repeats. Tensors promote to a common dtype (docs/promotion.md); a number never widens a tensor, only a floating
// number with integer or bool tensors gives f32 and an integer number with bool tensors gives i64. Functions of real
// numbers convert integers and bool to f32. f16 and bf16 compute in f32 and round once. Integers wrap.
//
// Every function throws ValueError [tensor/undefined], ShapeError [shape/broadcast], DTypeError [dtype/unsupported]
// where its dtypes are restricted, and ValueError [value/scalar] for a number that the operands' integer dtype cannot
// hold.
#pragma once

#include <optional>

#include "calor/tensor.h"

namespace calor {

// Arithmetic. add and mul of bool are logical_or and logical_and; the others refuse bool.

/// a + b.
Tensor add(const Operand& a, const Operand& b, const Where& where = Where::current());
/// a - b.
Tensor sub(const Operand& a, const Operand& b, const Where& where = Where::current());
/// a b.
Tensor mul(const Operand& a, const Operand& b, const Where& where = Where::current());
/// a / b; integers divide as f32.
Tensor div(const Operand& a, const Operand& b, const Where& where = Where::current());
/// The quotient rounded toward minus infinity, in the operands' dtype; an integer divided by 0 gives 0. Its derivative
/// is 0.
Tensor floor_divide(const Operand& a, const Operand& b, const Where& where = Where::current());
/// a - b floor(a / b): it has the sign of b; an integer modulo 0 gives 0.
Tensor remainder(const Operand& a, const Operand& b, const Where& where = Where::current());
/// a - b trunc(a / b): it has the sign of a; an integer modulo 0 gives 0.
Tensor fmod(const Operand& a, const Operand& b, const Where& where = Where::current());
/// a to the power of b. Integers: a negative power is the exact value cut to 0 where it is no integer. The derivative
/// by b is 0 where a = 0 and b >= 0.
Tensor pow(const Operand& a, const Operand& b, const Where& where = Where::current());
/// The smaller one; NaN wins. Ties share the gradient half and half.
Tensor minimum(const Operand& a, const Operand& b, const Where& where = Where::current());
/// The larger one; NaN wins. Ties share the gradient half and half.
Tensor maximum(const Operand& a, const Operand& b, const Where& where = Where::current());
/// min(max(x, low), high); a missing bound does not bind. The bounds are numbers of x's dtype, a floating bound makes
/// integers f32. The gradient passes where low <= x <= high, the borders included. Throws ValueError [value/option] for
/// a bound NaN.
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt,
             const Where& where = Where::current());
/// a + weight (b - a): exactly a for weight 0 and b for weight 1. Floating.
Tensor lerp(const Operand& a, const Operand& b, const Operand& weight, const Where& where = Where::current());
/// condition ? a : b, element by element; the condition is converted to bool (x != 0).
Tensor where(const Tensor& condition, const Operand& a, const Operand& b, const Where& at = Where::current());
/// -x; unsigned integers wrap.
Tensor neg(const Tensor& x, const Where& where = Where::current());
/// |x|. Its derivative at 0 is 0.
Tensor abs(const Tensor& x, const Where& where = Where::current());
/// -1, 0 or 1; NaN stays. Its derivative is 0.
Tensor sign(const Tensor& x, const Where& where = Where::current());
/// x^2.
Tensor square(const Tensor& x, const Where& where = Where::current());
/// 1 / x.
Tensor reciprocal(const Tensor& x, const Where& where = Where::current());

// Rounding to whole numbers; integers stay as they are. The derivatives are 0.

Tensor floor(const Tensor& x, const Where& where = Where::current());
Tensor ceil(const Tensor& x, const Where& where = Where::current());
/// Ties go to the even number.
Tensor round(const Tensor& x, const Where& where = Where::current());
Tensor trunc(const Tensor& x, const Where& where = Where::current());

// Exponentials, logarithms, powers and roots.

Tensor exp(const Tensor& x, const Where& where = Where::current());
/// e^x - 1, exact for small x.
Tensor expm1(const Tensor& x, const Where& where = Where::current());
/// 2^x.
Tensor exp2(const Tensor& x, const Where& where = Where::current());
/// Natural logarithm: -inf at 0, NaN below.
Tensor log(const Tensor& x, const Where& where = Where::current());
/// log(1 + x), exact for small x.
Tensor log1p(const Tensor& x, const Where& where = Where::current());
Tensor log2(const Tensor& x, const Where& where = Where::current());
Tensor log10(const Tensor& x, const Where& where = Where::current());
Tensor sqrt(const Tensor& x, const Where& where = Where::current());
/// 1 / sqrt(x).
Tensor rsqrt(const Tensor& x, const Where& where = Where::current());
/// Cube root, of negative numbers too.
Tensor cbrt(const Tensor& x, const Where& where = Where::current());
/// sqrt(a^2 + b^2) without overflow on the way. Its gradient at the origin is 0.
Tensor hypot(const Operand& a, const Operand& b, const Where& where = Where::current());
/// log(e^a + e^b) without overflow on the way.
Tensor logaddexp(const Operand& a, const Operand& b, const Where& where = Where::current());
/// a log(b), 0 where a = 0 and b is not NaN.
Tensor xlogy(const Operand& a, const Operand& b, const Where& where = Where::current());

// Trigonometric and hyperbolic functions, in radians.

Tensor sin(const Tensor& x, const Where& where = Where::current());
Tensor cos(const Tensor& x, const Where& where = Where::current());
Tensor tan(const Tensor& x, const Where& where = Where::current());
Tensor asin(const Tensor& x, const Where& where = Where::current());
Tensor acos(const Tensor& x, const Where& where = Where::current());
Tensor atan(const Tensor& x, const Where& where = Where::current());
/// The angle of the point (x = b, y = a), in [-pi, pi]. Its gradient at the origin is 0.
Tensor atan2(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor sinh(const Tensor& x, const Where& where = Where::current());
Tensor cosh(const Tensor& x, const Where& where = Where::current());
Tensor tanh(const Tensor& x, const Where& where = Where::current());
Tensor asinh(const Tensor& x, const Where& where = Where::current());
Tensor acosh(const Tensor& x, const Where& where = Where::current());
Tensor atanh(const Tensor& x, const Where& where = Where::current());

// Special functions (NIST Digital Library of Mathematical Functions, chapters 5 and 7).

/// 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
Tensor erf(const Tensor& x, const Where& where = Where::current());
/// 1 - erf(x), exact for large x.
Tensor erfc(const Tensor& x, const Where& where = Where::current());
/// The y with erf(y) = x.
Tensor erfinv(const Tensor& x, const Where& where = Where::current());
/// log |gamma(x)|.
Tensor lgamma(const Tensor& x, const Where& where = Where::current());
/// The derivative of lgamma.
Tensor digamma(const Tensor& x, const Where& where = Where::current());
/// The derivative of digamma.
Tensor trigamma(const Tensor& x, const Where& where = Where::current());
/// The n-th derivative of digamma. Throws ValueError [value/option] for n < 0.
Tensor polygamma(std::int64_t n, const Tensor& x, const Where& where = Where::current());

// Parts of floating numbers.

/// |a| with the sign of b.
Tensor copysign(const Operand& a, const Operand& b, const Where& where = Where::current());
/// The number of the operands' dtype that follows a toward b. Not differentiable.
Tensor nextafter(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor isnan(const Tensor& x, const Where& where = Where::current());
Tensor isinf(const Tensor& x, const Where& where = Where::current());
Tensor isfinite(const Tensor& x, const Where& where = Where::current());

// Comparisons give bool. Operands promote first, halves compare as they are stored. (The operators == and < are not
// overloaded.)

Tensor eq(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor ne(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor lt(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor le(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor gt(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor ge(const Operand& a, const Operand& b, const Where& where = Where::current());

// Logic gives bool; every value other than 0, NaN included, is true.

Tensor logical_and(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor logical_or(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor logical_xor(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor logical_not(const Tensor& x, const Where& where = Where::current());

// Bits of integers and bool; shifts take integers only. A count that is negative or reaches the width shifts everything
// out.

Tensor bitwise_and(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor bitwise_or(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor bitwise_xor(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor bitwise_not(const Tensor& x, const Where& where = Where::current());
/// a 2^b, wrapping.
Tensor shift_left(const Operand& a, const Operand& b, const Where& where = Where::current());
/// floor(a / 2^b): signed integers keep their sign.
Tensor shift_right(const Operand& a, const Operand& b, const Where& where = Where::current());

inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b, a.where()); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b, a.where()); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b, a.where()); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b, a.where()); }
inline Tensor operator-(const Operand& a) { return a.is_tensor() ? neg(a.tensor(), a.where()) : sub(0, a, a.where()); }

}  // namespace calor
