#include "elementwise_calls.h"

#include <cmath>
#include <cstdint>

#include "calor/calor.h"
#include "tile_kernels_reference.h"

namespace calor::testing {
namespace {

PublicCall one(Tensor (*f)(const Tensor&, const Where&)) {
    return [f](const std::vector<Tensor>& x, const double*) { return f(x[0], Where::current()); };
}
PublicCall two(Tensor (*f)(const Operand&, const Operand&, const Where&)) {
    return [f](const std::vector<Tensor>& x, const double*) { return f(x[0], x[1], Where::current()); };
}
PublicCall with_one(Tensor (*f)(const Tensor&, double, const Where&)) {
    return [f](const std::vector<Tensor>& x, const double* p) { return f(x[0], p[0], Where::current()); };
}
PublicCall with_two(Tensor (*f)(const Tensor&, double, double, const Where&)) {
    return [f](const std::vector<Tensor>& x, const double* p) { return f(x[0], p[0], p[1], Where::current()); };
}

Tensor clamp_like(const std::vector<Tensor>& x, const double* p) {
    if (is_floating(x[0].dtype())) return clamp(x[0], p[0], p[1]);
    const std::int64_t low = is_unsigned_integer(x[0].dtype()) ? 0 : static_cast<std::int64_t>(p[0]);
    return clamp(x[0], low, static_cast<std::int64_t>(p[1]));
}

using Definitions = std::map<std::string_view, Definition>;

Definition truth(bool (*f)(Real a, Real b)) {
    return [f](const Real* x, const double*) { return f(x[0], x[1]) ? Real{1} : Real{0}; };
}
Definition bits(std::int64_t (*f)(std::int64_t a, std::int64_t b)) {
    return [f](const Real* x, const double*) {
        return static_cast<Real>(f(static_cast<std::int64_t>(x[0]), static_cast<std::int64_t>(x[1])));
    };
}

/// Sum over k of 1 / (x + k)^(n + 1) with the tail by the midpoint rule, times (-1)^(n + 1) n!.
Real polygamma_by_sum(Real n, Real x) {
    Real sum = 0;
    for (int k = 4000; k-- > 0;) sum += std::pow(x + static_cast<Real>(k), -(n + 1));
    sum += std::pow(x + 3999.5L, -n) / n;
    return (std::fmod(n, 2.0L) == 0 ? -1 : 1) * std::tgamma(n + 1) * sum;
}

void add_activations(Definitions& d) {
    d["softplus"] = [](const Real* x, const double* p) { return std::log1p(std::exp(p[0] * x[0])) / p[0]; };
    d["leaky_relu"] = [](const Real* x, const double* p) { return x[0] > 0 ? x[0] : p[0] * x[0]; };
    d["elu"] = [](const Real* x, const double* p) { return x[0] > 0 ? x[0] : p[0] * (std::exp(x[0]) - 1); };
    d["celu"] = [](const Real* x, const double* p) { return x[0] > 0 ? x[0] : p[0] * (std::exp(x[0] / p[0]) - 1); };
    d["hardtanh"] =
        d["clamp"] = [](const Real* x, const double* p) { return std::min(std::max(x[0], Real{p[0]}), Real{p[1]}); };
    d["softshrink"] = [](const Real* x, const double* p) {
        return x[0] > p[0] ? x[0] - p[0] : (x[0] < -p[0] ? x[0] + p[0] : 0);
    };
    d["hardshrink"] = [](const Real* x, const double* p) { return std::abs(x[0]) > p[0] ? x[0] : 0; };
    d["threshold"] = [](const Real* x, const double* p) { return x[0] > p[0] ? x[0] : Real{p[1]}; };
}

const Definitions& definitions() {
    static const Definitions all = [] {
        Definitions d;
        for (const auto& op : reference::unary()) {
            d.emplace(op.name, [f = op.function](const Real* x, const double* p) { return f(x[0], p); });
        }
        for (const auto& op : reference::binary()) {
            d.emplace(op.name, [f = op.function](const Real* x, const double*) { return f(x[0], x[1]); });
        }
        add_activations(d);
        d["floor_divide"] = [](const Real* x, const double*) { return std::floor(x[0] / x[1]); };
        d["lerp"] = [](const Real* x, const double*) { return x[0] + x[2] * (x[1] - x[0]); };
        d["where"] = [](const Real* x, const double*) { return x[0] != 0 ? x[1] : x[2]; };
        d["polygamma"] = [](const Real* x, const double* p) { return polygamma_by_sum(p[0], x[0]); };
        d["isnan"] = truth([](Real a, Real) { return std::isnan(a); });
        d["isinf"] = truth([](Real a, Real) { return std::isinf(a); });
        d["isfinite"] = truth([](Real a, Real) { return std::isfinite(a); });
        d["eq"] = truth([](Real a, Real b) { return a == b; });
        d["ne"] = truth([](Real a, Real b) { return a != b; });
        d["lt"] = truth([](Real a, Real b) { return a < b; });
        d["le"] = truth([](Real a, Real b) { return a <= b; });
        d["gt"] = truth([](Real a, Real b) { return a > b; });
        d["ge"] = truth([](Real a, Real b) { return a >= b; });
        d["logical_and"] = truth([](Real a, Real b) { return a != 0 && b != 0; });
        d["logical_or"] = truth([](Real a, Real b) { return a != 0 || b != 0; });
        d["logical_xor"] = truth([](Real a, Real b) { return (a != 0) != (b != 0); });
        d["logical_not"] = truth([](Real a, Real) { return a == 0; });
        d["bitwise_and"] = bits([](std::int64_t a, std::int64_t b) { return a & b; });
        d["bitwise_or"] = bits([](std::int64_t a, std::int64_t b) { return a | b; });
        d["bitwise_xor"] = bits([](std::int64_t a, std::int64_t b) { return a ^ b; });
        d["bitwise_not"] = bits([](std::int64_t a, std::int64_t) { return ~a; });
        d["shift_left"] = bits([](std::int64_t a, std::int64_t b) { return a << b; });
        d["shift_right"] = bits([](std::int64_t a, std::int64_t b) { return a >> b; });
        return d;
    }();
    return all;
}

std::map<std::string_view, PublicCall> make_calls() {
    std::map<std::string_view, PublicCall> m{
        {"neg", one(neg)},
        {"abs", one(abs)},
        {"sign", one(sign)},
        {"square", one(square)},
        {"reciprocal", one(reciprocal)},
        {"floor", one(floor)},
        {"ceil", one(ceil)},
        {"round", one(round)},
        {"trunc", one(trunc)},
        {"exp", one(exp)},
        {"expm1", one(expm1)},
        {"exp2", one(exp2)},
        {"log", one(log)},
        {"log1p", one(log1p)},
        {"log2", one(log2)},
        {"log10", one(log10)},
        {"sqrt", one(sqrt)},
        {"rsqrt", one(rsqrt)},
        {"cbrt", one(cbrt)},
        {"sin", one(sin)},
        {"cos", one(cos)},
        {"tan", one(tan)},
        {"asin", one(asin)},
        {"acos", one(acos)},
        {"atan", one(atan)},
        {"sinh", one(sinh)},
        {"cosh", one(cosh)},
        {"tanh", one(tanh)},
        {"asinh", one(asinh)},
        {"acosh", one(acosh)},
        {"atanh", one(atanh)},
        {"erf", one(erf)},
        {"erfc", one(erfc)},
        {"erfinv", one(erfinv)},
        {"lgamma", one(lgamma)},
        {"digamma", one(digamma)},
        {"trigamma", one(trigamma)},
        {"isnan", one(isnan)},
        {"isinf", one(isinf)},
        {"isfinite", one(isfinite)},
        {"logical_not", one(logical_not)},
        {"bitwise_not", one(bitwise_not)},
        {"relu", one(relu)},
        {"relu6", one(relu6)},
        {"selu", one(selu)},
        {"silu", one(silu)},
        {"mish", one(mish)},
        {"softsign", one(softsign)},
        {"sigmoid", one(sigmoid)},
        {"hard_sigmoid", one(hard_sigmoid)},
        {"log_sigmoid", one(log_sigmoid)},
        {"hard_swish", one(hard_swish)},
        {"tanhshrink", one(tanhshrink)},
        {"add", two(add)},
        {"sub", two(sub)},
        {"mul", two(mul)},
        {"div", two(div)},
        {"pow", two(pow)},
        {"floor_divide", two(floor_divide)},
        {"remainder", two(remainder)},
        {"fmod", two(fmod)},
        {"minimum", two(minimum)},
        {"maximum", two(maximum)},
        {"hypot", two(hypot)},
        {"logaddexp", two(logaddexp)},
        {"xlogy", two(xlogy)},
        {"atan2", two(atan2)},
        {"copysign", two(copysign)},
        {"eq", two(eq)},
        {"ne", two(ne)},
        {"lt", two(lt)},
        {"le", two(le)},
        {"gt", two(gt)},
        {"ge", two(ge)},
        {"logical_and", two(logical_and)},
        {"logical_or", two(logical_or)},
        {"logical_xor", two(logical_xor)},
        {"bitwise_and", two(bitwise_and)},
        {"bitwise_or", two(bitwise_or)},
        {"bitwise_xor", two(bitwise_xor)},
        {"shift_left", two(shift_left)},
        {"shift_right", two(shift_right)},
        {"leaky_relu", with_one(leaky_relu)},
        {"elu", with_one(elu)},
        {"celu", with_one(celu)},
        {"softshrink", with_one(softshrink)},
        {"hardshrink", with_one(hardshrink)},
        {"softplus", with_two(softplus)},
        {"hardtanh", with_two(hardtanh)},
        {"threshold", with_two(threshold)},
        {"clamp", clamp_like},
    };
    m["prelu"] = [](const std::vector<Tensor>& x, const double*) { return prelu(x[0], x[1]); };
    m["gelu"] = [](const std::vector<Tensor>& x, const double*) { return gelu(x[0]); };
    m["gelu_slope"] = [](const std::vector<Tensor>& x, const double*) {
        return ops::apply(ops::operation_of<"gelu_slope">(), x[0], Where::current());
    };
    m["gelu_tanh"] = [](const std::vector<Tensor>& x, const double*) { return gelu(x[0], Gelu::tanh); };
    m["where"] = [](const std::vector<Tensor>& x, const double*) { return where(x[0], x[1], x[2]); };
    m["lerp"] = [](const std::vector<Tensor>& x, const double*) { return lerp(x[0], x[1], x[2]); };
    m["polygamma"] = [](const std::vector<Tensor>& x, const double* p) {
        return polygamma(static_cast<std::int64_t>(p[0]), x[0]);
    };
    m["nextafter"] = two(nextafter);
    m["nextafter_f16"] = [](const std::vector<Tensor>& x, const double*) {
        return nextafter(x[0].to(f16), x[1].to(f16));
    };
    m["nextafter_bf16"] = [](const std::vector<Tensor>& x, const double*) {
        return nextafter(x[0].to(bf16), x[1].to(bf16));
    };
    return m;
}

}  // namespace

const std::map<std::string_view, PublicCall>& elementwise_calls() {
    static const auto* calls = new std::map<std::string_view, PublicCall>(make_calls());
    return *calls;
}

Definition elementwise_definition(std::string_view name) {
    const auto at = definitions().find(name);
    return at == definitions().end() ? nullptr : at->second;
}

}  // namespace calor::testing
