// The elementwise table: arithmetic, choice and rounding.
#include "ops/elementwise/row.h"
#include "ops/elementwise/term_functions.h"

namespace calor::ops {
namespace {

constexpr auto floating = Accepts::floating;
constexpr auto numeric = Accepts::numeric;
constexpr auto any = Accepts::any;
constexpr auto same = Gives::same;

Term pass(const Terms& t) { return t.g; }

/// Of min and max: the winner takes the cotangent, ties take half each.
Term winner(const Terms& t, const Term& mine, const Term& other, bool smallest) {
    const Term wins = smallest ? lt(mine, other) : gt(mine, other);
    return choose(eq(mine, other), t.g * 0.5, choose(wins, t.g, 0.0));
}

/// The whole number k with y = a - b k.
Term quotient(const Terms& t) { return round((t.a - t.y) / t.b); }

/// d/da a^b = b a^(b - 1), which is 0 for b = 0 also where a^-1 is infinite.
Term pow_by_base(const Terms& t) { return t.g * (t.b * pow(t.a, choose(eq(t.b, 0.0), 1.0, t.b) - 1.0)); }
/// d/db a^b = a^b log(a), and 0 where a = 0 and b >= 0.
Term pow_by_exponent(const Terms& t) {
    const Term at_zero = both(eq(t.a, 0.0), ge(t.b, 0.0));
    return t.g * (t.y * log(choose(at_zero, 1.0, t.a)));
}

const Row rows[] = {
    {"add", 2, numeric, same, "calor_add(a, b)", {pass, pass}, -3, 3, "a + b"},
    {"sub", 2, numeric, same, "calor_sub(a, b)", {pass, [](const Terms& t) { return -t.g; }}, -3, 3, "a - b"},
    {"mul",
     2,
     numeric,
     same,
     "calor_mul(a, b)",
     {[](const Terms& t) { return t.g * t.b; }, [](const Terms& t) { return t.g * t.a; }},
     -3,
     3,
     "a b"},
    {"div",
     2,
     floating,
     same,
     "a / b",
     {[](const Terms& t) { return t.g / t.b; }, [](const Terms& t) { return -(t.g * t.y / t.b); }},
     0.5,
     3,
     "a / b"},
    {"floor_divide",
     2,
     numeric,
     same,
     "calor_floor_divide(a, b)",
     {zero_partial, zero_partial},
     0.5,
     3,
     "floor(a / b)"},
    {"remainder",
     2,
     numeric,
     same,
     "calor_remainder(a, b)",
     {pass, [](const Terms& t) { return -(t.g * quotient(t)); }},
     0.5,
     3,
     "a - b floor(a / b)"},
    {"fmod",
     2,
     numeric,
     same,
     "calor_fmod(a, b)",
     {pass, [](const Terms& t) { return -(t.g * quotient(t)); }},
     0.5,
     3,
     "a - b trunc(a / b)"},
    {"pow", 2, numeric, same, "calor_pow(a, b)", {pow_by_base, pow_by_exponent}, 0.3, 3, "a^b"},
    {"minimum",
     2,
     any,
     same,
     "calor_minimum(a, b)",
     {[](const Terms& t) { return winner(t, t.a, t.b, true); },
      [](const Terms& t) { return winner(t, t.b, t.a, true); }},
     -3,
     3,
     "min(a, b)"},
    {"maximum",
     2,
     any,
     same,
     "calor_maximum(a, b)",
     {[](const Terms& t) { return winner(t, t.a, t.b, false); },
      [](const Terms& t) { return winner(t, t.b, t.a, false); }},
     -3,
     3,
     "max(a, b)"},
    {"clamp",
     1,
     numeric,
     same,
     "calor_clamp(a, p0, p1)",
     {[](const Terms& t) { return choose(both(ge(t.a, t.p.value[0]), le(t.a, t.p.value[1])), t.g, 0.0); }},
     -3,
     3,
     "min(max(x, low), high)",
     {{"low", -1}, {"high", 2}}},
    {"lerp",
     3,
     floating,
     same,
     "calor_lerp(a, b, c)",
     {[](const Terms& t) { return t.g * (1.0 - t.c); }, [](const Terms& t) { return t.g * t.c; },
      [](const Terms& t) { return t.g * (t.b - t.a); }},
     -3,
     3,
     "a + c (b - a)"},
    {"where",
     3,
     any,
     same,
     "a ? b : c",
     {nullptr, [](const Terms& t) { return choose(t.a, t.g, 0.0); },
      [](const Terms& t) { return choose(t.a, 0.0, t.g); }},
     -3,
     3,
     "a ? b : c"},
    {"neg", 1, numeric, same, "calor_neg(a)", {[](const Terms& t) { return -t.g; }}, -3, 3, "-x"},
    {"abs", 1, numeric, same, "calor_abs(a)", {[](const Terms& t) { return t.g * sign(t.a); }}, -3, 3, "|x|"},
    {"sign", 1, numeric, same, "calor_sign(a)", {zero_partial}, -3, 3, "x / |x|, 0 at 0"},
    {"square", 1, numeric, same, "calor_square(a)", {[](const Terms& t) { return t.g * t.a * 2.0; }}, -3, 3, "x^2"},
    {"reciprocal", 1, floating, same, "1 / a", {[](const Terms& t) { return -(t.g * t.y * t.y); }}, 0.5, 3, "1 / x"},
    {"floor", 1, numeric, same, "calor_floor(a)", {zero_partial}, -3, 3, "the next whole number <= x"},
    {"ceil", 1, numeric, same, "calor_ceil(a)", {zero_partial}, -3, 3, "the next whole number >= x"},
    {"round", 1, numeric, same, "calor_round(a)", {zero_partial}, -3, 3, "the nearest whole number, ties to even"},
    {"trunc", 1, numeric, same, "calor_trunc(a)", {zero_partial}, -3, 3, "the next whole number toward 0"},
};

}  // namespace

std::span<const Row> arithmetic_rows() { return rows; }

}  // namespace calor::ops
