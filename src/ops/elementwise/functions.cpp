// The public functions of the elementwise table.
#include "calor/elementwise.h"

#include <cmath>

#include "core/fail.h"
#include "graph/node.h"
#include "ops/elementwise/row.h"

namespace calor {
namespace {

using ops::apply;
using ops::operation_of;

DType common(std::string_view operation, const Operand& a, const Operand& b, const Where& where) {
    const Operand* const operands[] = {&a, &b};
    return ops::common_dtype(operation, operands, where);
}

/// Whether an operand is a bool tensor or number.
bool is_truth(const Operand& o) {
    if (!o.is_tensor()) return o.scalar().kind() == Scalar::Kind::boolean;
    return o.tensor().defined() && graph::value_of(o.tensor()).dtype == boolean;
}

/// Whether the exponent is the number 2 and the square has the dtype of the power.
bool squares(const Operand& a, const Operand& b) {
    if (!a.is_tensor() || b.is_tensor() || !a.tensor().defined() || b.scalar().floating() != 2) return false;
    const DType dtype = graph::value_of(a.tensor()).dtype;
    return is_floating(dtype) || (is_integer(dtype) && b.scalar().kind() == Scalar::Kind::integer);
}

/// Integers as doubles are exact up to 2^53.
bool exact(const std::optional<Scalar>& bound) { return !bound || std::abs(bound->floating()) <= 9007199254740992.0; }

}  // namespace

Tensor add(const Operand& a, const Operand& b, const Where& where) {
    if (is_truth(a) && is_truth(b)) return logical_or(a, b, where);
    return apply(operation_of<"add">(), a, b, where);
}
Tensor mul(const Operand& a, const Operand& b, const Where& where) {
    if (is_truth(a) && is_truth(b)) return logical_and(a, b, where);
    return apply(operation_of<"mul">(), a, b, where);
}
Tensor pow(const Operand& a, const Operand& b, const Where& where) {
    return squares(a, b) ? square(a.tensor(), where) : apply(operation_of<"pow">(), a, b, where);
}
Tensor lerp(const Operand& a, const Operand& b, const Operand& weight, const Where& where) {
    return apply(operation_of<"lerp">(), a, b, weight, where);
}
Tensor where(const Tensor& condition, const Operand& a, const Operand& b, const Where& at) {
    return ops::apply_where(condition, a, b, at);
}

Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high, const Where& where) {
    const Naming naming("clamp");
    for (const auto& bound : {low, high}) {
        if (bound && std::isnan(bound->floating())) {
            fail("value/option", "clamp", where,
                 {{"option", "a bound"},
                  {"got", "NaN"},
                  {"expected", "a number"},
                  {"help", "leave a bound out when there is none"}});
        }
    }
    const bool lifts =
        (low && low->kind() == Scalar::Kind::floating) || (high && high->kind() == Scalar::Kind::floating);
    const DType dtype = common("clamp", Operand(x, where), lifts ? Operand(0.0) : Operand(0), where);
    const bool integral = !is_floating(dtype);
    Tensor lowest, highest;  // of integers: also a check that they fit
    if (integral && low) lowest = scalar(*low, dtype, where);
    if (integral && high) highest = scalar(*high, dtype, where);
    if (integral && !(exact(low) && exact(high))) {
        const Tensor raised = low ? maximum(x, lowest, where) : x;
        return high ? minimum(raised, highest, where) : raised;
    }
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return apply(operation_of<"clamp">(), x.to(dtype, where), where,
                 {{low ? low->floating() : -infinity, high ? high->floating() : infinity}});
}

Tensor polygamma(std::int64_t n, const Tensor& x, const Where& where) {
    const Naming naming("polygamma");
    if (n < 0) {
        fail("value/option", "polygamma", where,
             {{"option", "n"}, {"got", n}, {"expected", "at least 0"}, {"help", "n counts derivatives of digamma"}});
    }
    if (n == 0) return digamma(x, where);
    if (n == 1) return trigamma(x, where);
    return apply(operation_of<"polygamma">(), x, where, {{static_cast<double>(n)}});
}

/// Tiles of f16 and bf16 hold f32, so the neighbour needs a loop that knows the storage.
Tensor nextafter(const Operand& a, const Operand& b, const Where& where) {
    const Naming naming("nextafter");
    const DType dtype = common("nextafter", a, b, where);
    const auto& op = dtype == f16    ? operation_of<"nextafter_f16">()
                     : dtype == bf16 ? operation_of<"nextafter_bf16">()
                                     : operation_of<"nextafter">();
    return apply(op, a, b, where);
}

Tensor sub(const Operand& a, const Operand& b, const Where& where) { return apply(operation_of<"sub">(), a, b, where); }
Tensor div(const Operand& a, const Operand& b, const Where& where) { return apply(operation_of<"div">(), a, b, where); }
Tensor floor_divide(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"floor_divide">(), a, b, where);
}
Tensor remainder(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"remainder">(), a, b, where);
}
Tensor fmod(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"fmod">(), a, b, where);
}
Tensor minimum(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"minimum">(), a, b, where);
}
Tensor maximum(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"maximum">(), a, b, where);
}
Tensor hypot(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"hypot">(), a, b, where);
}
Tensor logaddexp(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"logaddexp">(), a, b, where);
}
Tensor xlogy(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"xlogy">(), a, b, where);
}
Tensor atan2(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"atan2">(), a, b, where);
}
Tensor copysign(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"copysign">(), a, b, where);
}
Tensor eq(const Operand& a, const Operand& b, const Where& where) { return apply(operation_of<"eq">(), a, b, where); }
Tensor ne(const Operand& a, const Operand& b, const Where& where) { return apply(operation_of<"ne">(), a, b, where); }
Tensor lt(const Operand& a, const Operand& b, const Where& where) { return apply(operation_of<"lt">(), a, b, where); }
Tensor le(const Operand& a, const Operand& b, const Where& where) { return apply(operation_of<"le">(), a, b, where); }
Tensor gt(const Operand& a, const Operand& b, const Where& where) { return apply(operation_of<"gt">(), a, b, where); }
Tensor ge(const Operand& a, const Operand& b, const Where& where) { return apply(operation_of<"ge">(), a, b, where); }
Tensor logical_and(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"logical_and">(), a, b, where);
}
Tensor logical_or(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"logical_or">(), a, b, where);
}
Tensor logical_xor(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"logical_xor">(), a, b, where);
}
Tensor bitwise_and(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"bitwise_and">(), a, b, where);
}
Tensor bitwise_or(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"bitwise_or">(), a, b, where);
}
Tensor bitwise_xor(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"bitwise_xor">(), a, b, where);
}
Tensor shift_left(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"shift_left">(), a, b, where);
}
Tensor shift_right(const Operand& a, const Operand& b, const Where& where) {
    return apply(operation_of<"shift_right">(), a, b, where);
}

Tensor neg(const Tensor& x, const Where& where) { return apply(operation_of<"neg">(), x, where); }
Tensor abs(const Tensor& x, const Where& where) { return apply(operation_of<"abs">(), x, where); }
Tensor sign(const Tensor& x, const Where& where) { return apply(operation_of<"sign">(), x, where); }
Tensor square(const Tensor& x, const Where& where) { return apply(operation_of<"square">(), x, where); }
Tensor reciprocal(const Tensor& x, const Where& where) { return apply(operation_of<"reciprocal">(), x, where); }
Tensor floor(const Tensor& x, const Where& where) { return apply(operation_of<"floor">(), x, where); }
Tensor ceil(const Tensor& x, const Where& where) { return apply(operation_of<"ceil">(), x, where); }
Tensor round(const Tensor& x, const Where& where) { return apply(operation_of<"round">(), x, where); }
Tensor trunc(const Tensor& x, const Where& where) { return apply(operation_of<"trunc">(), x, where); }
Tensor exp(const Tensor& x, const Where& where) { return apply(operation_of<"exp">(), x, where); }
Tensor expm1(const Tensor& x, const Where& where) { return apply(operation_of<"expm1">(), x, where); }
Tensor exp2(const Tensor& x, const Where& where) { return apply(operation_of<"exp2">(), x, where); }
Tensor log(const Tensor& x, const Where& where) { return apply(operation_of<"log">(), x, where); }
Tensor log1p(const Tensor& x, const Where& where) { return apply(operation_of<"log1p">(), x, where); }
Tensor log2(const Tensor& x, const Where& where) { return apply(operation_of<"log2">(), x, where); }
Tensor log10(const Tensor& x, const Where& where) { return apply(operation_of<"log10">(), x, where); }
Tensor sqrt(const Tensor& x, const Where& where) { return apply(operation_of<"sqrt">(), x, where); }
Tensor rsqrt(const Tensor& x, const Where& where) { return apply(operation_of<"rsqrt">(), x, where); }
Tensor cbrt(const Tensor& x, const Where& where) { return apply(operation_of<"cbrt">(), x, where); }
Tensor sin(const Tensor& x, const Where& where) { return apply(operation_of<"sin">(), x, where); }
Tensor cos(const Tensor& x, const Where& where) { return apply(operation_of<"cos">(), x, where); }
Tensor tan(const Tensor& x, const Where& where) { return apply(operation_of<"tan">(), x, where); }
Tensor asin(const Tensor& x, const Where& where) { return apply(operation_of<"asin">(), x, where); }
Tensor acos(const Tensor& x, const Where& where) { return apply(operation_of<"acos">(), x, where); }
Tensor atan(const Tensor& x, const Where& where) { return apply(operation_of<"atan">(), x, where); }
Tensor sinh(const Tensor& x, const Where& where) { return apply(operation_of<"sinh">(), x, where); }
Tensor cosh(const Tensor& x, const Where& where) { return apply(operation_of<"cosh">(), x, where); }
Tensor tanh(const Tensor& x, const Where& where) { return apply(operation_of<"tanh">(), x, where); }
Tensor asinh(const Tensor& x, const Where& where) { return apply(operation_of<"asinh">(), x, where); }
Tensor acosh(const Tensor& x, const Where& where) { return apply(operation_of<"acosh">(), x, where); }
Tensor atanh(const Tensor& x, const Where& where) { return apply(operation_of<"atanh">(), x, where); }
Tensor erf(const Tensor& x, const Where& where) { return apply(operation_of<"erf">(), x, where); }
Tensor erfc(const Tensor& x, const Where& where) { return apply(operation_of<"erfc">(), x, where); }
Tensor erfinv(const Tensor& x, const Where& where) { return apply(operation_of<"erfinv">(), x, where); }
Tensor lgamma(const Tensor& x, const Where& where) { return apply(operation_of<"lgamma">(), x, where); }
Tensor digamma(const Tensor& x, const Where& where) { return apply(operation_of<"digamma">(), x, where); }
Tensor trigamma(const Tensor& x, const Where& where) { return apply(operation_of<"trigamma">(), x, where); }
Tensor isnan(const Tensor& x, const Where& where) { return apply(operation_of<"isnan">(), x, where); }
Tensor isinf(const Tensor& x, const Where& where) { return apply(operation_of<"isinf">(), x, where); }
Tensor isfinite(const Tensor& x, const Where& where) { return apply(operation_of<"isfinite">(), x, where); }
Tensor logical_not(const Tensor& x, const Where& where) { return apply(operation_of<"logical_not">(), x, where); }
Tensor bitwise_not(const Tensor& x, const Where& where) { return apply(operation_of<"bitwise_not">(), x, where); }

}  // namespace calor
