// The elementwise table: activation functions. Rules read the result where they can: it is in memory anyway, while the
// argument may be inside a fused chain.
#include <numbers>

#include "ops/elementwise/row.h"
#include "ops/elementwise/term_functions.h"

namespace calor::ops {
namespace {

constexpr auto floating = Accepts::floating;
constexpr auto same = Gives::same;
constexpr double selu_scale = 1.0507009873554804934193349852946, selu_alpha = 1.6732632423543772848170429916717;

Term open_interval(const Term& x, double low, double high) { return both(gt(x, low), lt(x, high)); }

/// Phi(x) + x phi(x) shares an exponential: an operation of its own.
Tensor gelu_slope(const Tensor& x, const Where& where) { return apply(operation_of<"gelu_slope">(), x, where); }
Term gelu_partial(const Terms& t) { return t.g * call(gelu_slope, t.a); }
/// phi(x) (2 - x^2). Beyond +-40 it is 0 in f64, and x^2 must not become infinite.
Term gelu_slope_partial(const Terms& t) {
    const Term x = clamp(t.a, -40, 40), xx = x * x;
    return t.g * (exp(xx * -0.5) * (0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2) * (2.0 - xx));
}

/// y = x (1 + t) / 2, t = tanh(u), u = k (x + q x^3). Beyond +-10, t is +-1 in f64.
Term gelu_tanh_partial(const Terms& t) {
    constexpr double k = 0.79788456080286535588, q = 0.044715;
    const Term x = clamp(t.a, -10, 10), xx = x * x;
    const Term inner = tanh((x + x * xx * q) * k);
    return t.g * ((1.0 + inner) * 0.5 + x * (1.0 - inner * inner) * ((1.0 + xx * (3 * q)) * (0.5 * k)));
}

Term silu_partial(const Terms& t) {
    const Term s = sigmoid(t.a);
    return t.g * (s + t.y * (1.0 - s));
}

Term mish_partial(const Terms& t) {
    const Term squashed = tanh(Term{softplus(t.a.tensor, 1, 20, *t.a.place), t.a.place});
    return t.g * (squashed + t.a * sigmoid(t.a) * (1.0 - squashed * squashed));
}

Term softplus_partial(const Terms& t) {
    const Term z = t.a * t.p.value[0];
    return choose(gt(z, t.p.value[1]), t.g, t.g * sigmoid(z));
}

Term softsign_partial(const Terms& t) {
    const Term r = 1.0 / (1.0 + abs(t.a));
    return t.g * r * r;
}

Term hard_swish_partial(const Terms& t) {
    const Term inside = choose(lt(t.a, -3.0), 0.0, t.g * (t.a * (1.0 / 3) + 0.5));
    return choose(gt(t.a, 3.0), t.g, inside);
}

const Row rows[] = {
    {"relu",
     1,
     floating,
     same,
     "calor_relu(a)",
     {[](const Terms& t) { return choose(gt(t.y, 0.0), t.g, 0.0); }},
     -3,
     3,
     "max(x, 0)"},
    {"relu6",
     1,
     floating,
     same,
     "calor_relu6(a)",
     {[](const Terms& t) { return choose(open_interval(t.y, 0, 6), t.g, 0.0); }},
     -3,
     9,
     "min(max(x, 0), 6)"},
    {"leaky_relu",
     1,
     floating,
     same,
     "a > 0 ? a : a * p0",
     {[](const Terms& t) { return choose(gt(t.a, 0.0), t.g, t.g * t.p.value[0]); }},
     -3,
     3,
     "x > 0 ? x : slope x",
     {{"slope", 0.1}}},
    {"prelu",
     2,
     floating,
     same,
     "a > 0 ? a : a * b",
     {[](const Terms& t) { return choose(gt(t.a, 0.0), t.g, t.g * t.b); },
      [](const Terms& t) { return choose(gt(t.a, 0.0), 0.0, t.g * t.a); }},
     -3,
     3,
     "a > 0 ? a : b a"},
    {"elu",
     1,
     floating,
     same,
     "a > 0 ? a : p0 * expm1(a)",
     {[](const Terms& t) { return choose(gt(t.a, 0.0), t.g, t.g * (t.y + t.p.value[0])); }},
     -3,
     3,
     "x > 0 ? x : alpha (e^x - 1)",
     {{"alpha", 0.7}}},
    {"selu",
     1,
     floating,
     same,
     "calor_selu(a)",
     {[](const Terms& t) { return choose(gt(t.y, 0.0), t.g * selu_scale, t.g * (t.y + selu_scale * selu_alpha)); }},
     -3,
     3,
     "1.0507 (x > 0 ? x : 1.67326 (e^x - 1))"},
    {"celu",
     1,
     floating,
     same,
     "a > 0 ? a : p0 * expm1(a / p0)",
     {[](const Terms& t) { return choose(gt(t.a, 0.0), t.g, t.g * (t.y * (1 / t.p.value[0]) + 1.0)); }},
     -3,
     3,
     "x > 0 ? x : alpha (e^(x / alpha) - 1)",
     {{"alpha", 0.7}}},
    {"gelu", 1, floating, same, "calor_gelu(a)", {gelu_partial}, -3, 3, "x (1 + erf(x / sqrt(2))) / 2"},
    {"gelu_slope",
     1,
     floating,
     same,
     "calor_gelu_slope(a)",
     {gelu_slope_partial},
     -3,
     3,
     "the derivative of gelu: F(x) + x F'(x), F the normal distribution"},
    {"gelu_tanh",
     1,
     floating,
     same,
     "calor_gelu_tanh(a)",
     {gelu_tanh_partial},
     -3,
     3,
     "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2"},
    {"silu", 1, floating, same, "calor_silu(a)", {silu_partial}, -3, 3, "x / (1 + e^-x)"},
    {"mish", 1, floating, same, "calor_mish(a)", {mish_partial}, -3, 3, "x tanh(ln(1 + e^x))"},
    {"softplus",
     1,
     floating,
     same,
     "calor_softplus(a, p0, p1)",
     {softplus_partial},
     -3,
     3,
     "ln(1 + e^(beta x)) / beta; x for beta x > threshold",
     {{"beta", 1.5}, {"threshold", 20}}},
    {"softsign", 1, floating, same, "calor_softsign(a)", {softsign_partial}, -3, 3, "x / (1 + |x|)"},
    {"sigmoid",
     1,
     floating,
     same,
     "calor_sigmoid(a)",
     {[](const Terms& t) { return t.g * t.y * (1.0 - t.y); }},
     -3,
     3,
     "1 / (1 + e^-x)"},
    {"hard_sigmoid",
     1,
     floating,
     same,
     "calor_hard_sigmoid(a)",
     {[](const Terms& t) { return choose(open_interval(t.a, -3, 3), t.g * (1.0 / 6), 0.0); }},
     -5,
     5,
     "min(max(x / 6 + 1 / 2, 0), 1)"},
    {"log_sigmoid",
     1,
     floating,
     same,
     "calor_log_sigmoid(a)",
     {[](const Terms& t) { return t.g * sigmoid(-t.a); }},
     -3,
     3,
     "-ln(1 + e^-x)"},
    {"hard_swish",
     1,
     floating,
     same,
     "calor_hard_swish(a)",
     {hard_swish_partial},
     -5,
     5,
     "x min(max(x / 6 + 1 / 2, 0), 1)"},
    {"hardtanh",
     1,
     floating,
     same,
     "calor_clamp(a, p0, p1)",
     {[](const Terms& t) { return choose(open_interval(t.a, t.p.value[0], t.p.value[1]), t.g, 0.0); }},
     -3,
     3,
     "min(max(x, low), high)",
     {{"low", -1}, {"high", 2}}},
    {"tanhshrink",
     1,
     floating,
     same,
     "calor_tanhshrink(a)",
     {[](const Terms& t) { return t.g * square(tanh(t.a)); }},
     -3,
     3,
     "x - tanh(x)"},
    {"softshrink",
     1,
     floating,
     same,
     "calor_softshrink(a, p0)",
     {[](const Terms& t) { return choose(ne(t.y, 0.0), t.g, 0.0); }},
     -3,
     3,
     "x - lambda for x > lambda, x + lambda for x < -lambda, else 0",
     {{"lambda", 0.4}}},
    {"hardshrink",
     1,
     floating,
     same,
     "calor_hardshrink(a, p0)",
     {[](const Terms& t) { return choose(ne(t.y, 0.0), t.g, 0.0); }},
     -3,
     3,
     "|x| > lambda ? x : 0",
     {{"lambda", 0.4}}},
    {"threshold",
     1,
     floating,
     same,
     "calor_threshold(a, p0, p1)",
     {[](const Terms& t) { return choose(gt(t.a, t.p.value[0]), t.g, 0.0); }},
     -3,
     3,
     "x > threshold ? x : value",
     {{"threshold", 0.5}, {"value", -2}}},
};

}  // namespace

std::span<const Row> activation_rows() { return rows; }

}  // namespace calor::ops
