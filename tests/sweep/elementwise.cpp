// elementwise.h and activations.h.
#include "sweep.h"

namespace calor::testing::sweep {
namespace {

using A = const Arguments&;
using R = std::vector<Tensor>;
const std::vector<Must> one_undefined = {{"t0 undefined", "tensor/undefined"}};

Row unary(const std::string& name, Tensor (*f)(const Tensor&, const Where&)) {
    return {name,         "", {{"NCH"}}, {}, {}, {}, [f](A a) -> R { return {f(a.tensors[0], Where::current())}; },
            one_undefined};
}
/// Of integers and bool: bits.
Row whole_unary(const std::string& name, Tensor (*f)(const Tensor&, const Where&)) {
    Row row = unary(name, f);
    row.tensors[0].dtype = i32;
    row.must.push_back({"t0 dtype f", "dtype/unsupported"});
    row.must.push_back({"t0 dtype bf16", "dtype/unsupported"});
    return row;
}
using Binary = Tensor (*)(const Operand&, const Operand&, const Where&);
Row binary(const std::string& name, Binary f, DType dtype = f32) {
    return {name,
            "",
            {{"NCH", dtype}, {"C1", dtype}},
            {},
            {},
            {},
            [f](A a) -> R { return {f(a.tensors[0], a.tensors[1], Where::current())}; },
            {{"t0 undefined", "tensor/undefined"},
             {"t1 undefined", "tensor/undefined"},
             {"t0 axis 1 longer", "shape/broadcast"},
             {"t1 axis 0 longer", "shape/broadcast"},
             {"t1 axis 0 empty", "shape/broadcast"}}};
}
Row whole_binary(const std::string& name, Binary f) {
    Row row = binary(name, f, i32);
    row.must.push_back({"t0 dtype f", "dtype/unsupported"});
    row.must.push_back({"t1 dtype f", "dtype/unsupported"});
    return row;
}
/// The second operand a number.
Row with_integer(const std::string& name, Binary f) {
    return {name,
            "integer",
            {{"NCH", i32}},
            {3},
            {},
            {},
            [f](A a) -> R { return {f(a.tensors[0], a.integers[0], Where::current())}; },
            {{"t0 undefined", "tensor/undefined"}}};
}
Row with_real(const std::string& name, Binary f) {
    return {name,
            "real",
            {{"NCH"}},
            {},
            {0.5},
            {},
            [f](A a) -> R { return {f(a.reals[0], a.tensors[0], Where::current())}; },
            {{"t0 undefined", "tensor/undefined"}}};
}
using OneOption = Tensor (*)(const Tensor&, double, const Where&);
Row option(const std::string& name, OneOption f, double value, std::vector<Must> must) {
    must.push_back({"t0 undefined", "tensor/undefined"});
    return {name,
            "",
            {{"NCH"}},
            {},
            {value},
            {},
            [f](A a) -> R { return {f(a.tensors[0], a.reals[0], Where::current())}; },
            std::move(must)};
}
using TwoOptions = Tensor (*)(const Tensor&, double, double, const Where&);
Row options(const std::string& name, TwoOptions f, double first, double second, std::vector<Must> must) {
    must.push_back({"t0 undefined", "tensor/undefined"});
    return {name,
            "",
            {{"NCH"}},
            {},
            {first, second},
            {},
            [f](A a) -> R { return {f(a.tensors[0], a.reals[0], a.reals[1], Where::current())}; },
            std::move(must)};
}

}  // namespace

Table elementwise_rows() {
    Table rows;
    const std::pair<const char*, Tensor (*)(const Tensor&, const Where&)> functions[] = {{"neg", neg},
                                                                                         {"abs", abs},
                                                                                         {"sign", sign},
                                                                                         {"square", square},
                                                                                         {"reciprocal", reciprocal},
                                                                                         {"floor", floor},
                                                                                         {"ceil", ceil},
                                                                                         {"round", round},
                                                                                         {"trunc", trunc},
                                                                                         {"exp", exp},
                                                                                         {"expm1", expm1},
                                                                                         {"exp2", exp2},
                                                                                         {"log", log},
                                                                                         {"log1p", log1p},
                                                                                         {"log2", log2},
                                                                                         {"log10", log10},
                                                                                         {"sqrt", sqrt},
                                                                                         {"rsqrt", rsqrt},
                                                                                         {"cbrt", cbrt},
                                                                                         {"sin", sin},
                                                                                         {"cos", cos},
                                                                                         {"tan", tan},
                                                                                         {"asin", asin},
                                                                                         {"acos", acos},
                                                                                         {"atan", atan},
                                                                                         {"sinh", sinh},
                                                                                         {"cosh", cosh},
                                                                                         {"tanh", tanh},
                                                                                         {"asinh", asinh},
                                                                                         {"acosh", acosh},
                                                                                         {"atanh", atanh},
                                                                                         {"erf", erf},
                                                                                         {"erfc", erfc},
                                                                                         {"erfinv", erfinv},
                                                                                         {"lgamma", lgamma},
                                                                                         {"digamma", digamma},
                                                                                         {"trigamma", trigamma},
                                                                                         {"isnan", isnan},
                                                                                         {"isinf", isinf},
                                                                                         {"isfinite", isfinite},
                                                                                         {"logical_not", logical_not}};
    for (const auto& [name, f] : functions) rows.push_back(unary(name, f));
    rows.push_back(whole_unary("bitwise_not", bitwise_not));

    const std::pair<const char*, Binary> pairs[] = {{"add", add},
                                                    {"sub", sub},
                                                    {"mul", mul},
                                                    {"div", div},
                                                    {"floor_divide", floor_divide},
                                                    {"remainder", remainder},
                                                    {"fmod", fmod},
                                                    {"pow", pow},
                                                    {"minimum", minimum},
                                                    {"maximum", maximum},
                                                    {"hypot", hypot},
                                                    {"logaddexp", logaddexp},
                                                    {"xlogy", xlogy},
                                                    {"atan2", atan2},
                                                    {"copysign", copysign},
                                                    {"nextafter", nextafter},
                                                    {"eq", eq},
                                                    {"ne", ne},
                                                    {"lt", lt},
                                                    {"le", le},
                                                    {"gt", gt},
                                                    {"ge", ge},
                                                    {"logical_and", logical_and},
                                                    {"logical_or", logical_or},
                                                    {"logical_xor", logical_xor}};
    for (const auto& [name, f] : pairs) {
        rows.push_back(binary(name, f));
        rows.push_back(with_integer(name, f));
        rows.push_back(with_real(name, f));
    }
    const std::pair<const char*, Binary> bits[] = {{"bitwise_and", bitwise_and},
                                                   {"bitwise_or", bitwise_or},
                                                   {"bitwise_xor", bitwise_xor},
                                                   {"shift_left", shift_left},
                                                   {"shift_right", shift_right}};
    for (const auto& [name, f] : bits) {
        rows.push_back(whole_binary(name, f));
        rows.push_back(with_integer(name, f));
    }
    rows.push_back(
        {"clamp",
         "",
         {{"NCH"}},
         {},
         {-1, 1},
         {},
         [](A a) -> R { return {clamp(a.tensors[0], a.reals[0], a.reals[1])}; },
         {{"t0 undefined", "tensor/undefined"}, {"r0 = nan", "value/option"}, {"r1 = nan", "value/option"}}});
    rows.push_back({"clamp",
                    "integers",
                    {{"NCH", i16}},
                    {-1, 1},
                    {},
                    {},
                    [](A a) -> R { return {clamp(a.tensors[0], a.integers[0], a.integers[1])}; },
                    {{"i0 = 2", "value/scalar"}, {"i1 = m", "value/scalar"}}});
    rows.push_back({"lerp",
                    "",
                    {{"NCH"}, {"C1"}, {"H"}},
                    {},
                    {},
                    {},
                    [](A a) -> R { return {lerp(a.tensors[0], a.tensors[1], a.tensors[2])}; },
                    {{"t0 undefined", "tensor/undefined"},
                     {"t1 undefined", "tensor/undefined"},
                     {"t2 undefined", "tensor/undefined"},
                     {"t1 axis 0 longer", "shape/broadcast"},
                     {"t2 axis 0 longer", "shape/broadcast"}}});
    rows.push_back({"where",
                    "",
                    {{"NC1", boolean}, {"NCH"}, {"H"}},
                    {},
                    {},
                    {},
                    [](A a) -> R { return {where(a.tensors[0], a.tensors[1], a.tensors[2])}; },
                    {{"t0 undefined", "tensor/undefined"},
                     {"t1 undefined", "tensor/undefined"},
                     {"t2 undefined", "tensor/undefined"},
                     {"t0 axis 1 longer", "shape/broadcast"},
                     {"t2 axis 0 longer", "shape/broadcast"}}});
    rows.push_back({"where", "numbers", {{"NC1", boolean}}, {3}, {0.5}, {}, [](A a) -> R {
                        return {where(a.tensors[0], a.integers[0], a.reals[0])};
                    }});
    rows.push_back({"polygamma",
                    "",
                    {{"NC"}},
                    {2},
                    {},
                    {},
                    [](A a) -> R { return {polygamma(a.integers[0], a.tensors[0])}; },
                    {{"t0 undefined", "tensor/undefined"}, {"i0 = -", "value/option"}, {"i0 = min", "value/option"}}});
    return rows;
}

Table activation_rows() {
    Table rows;
    const std::pair<const char*, Tensor (*)(const Tensor&, const Where&)> functions[] = {{"relu", relu},
                                                                                         {"relu6", relu6},
                                                                                         {"selu", selu},
                                                                                         {"silu", silu},
                                                                                         {"mish", mish},
                                                                                         {"softsign", softsign},
                                                                                         {"sigmoid", sigmoid},
                                                                                         {"hard_sigmoid", hard_sigmoid},
                                                                                         {"log_sigmoid", log_sigmoid},
                                                                                         {"hard_swish", hard_swish},
                                                                                         {"tanhshrink", tanhshrink}};
    for (const auto& [name, f] : functions) rows.push_back(unary(name, f));
    const std::vector<Must> finite = {
        {"r0 = nan", "value/option"}, {"r0 = inf", "value/option"}, {"r0 = -inf", "value/option"}};
    const auto with = [&](Must more) {
        std::vector<Must> all = finite;
        all.push_back(std::move(more));
        return all;
    };
    rows.push_back(option("leaky_relu", leaky_relu, 0.1, finite));
    rows.push_back(option("elu", elu, 1, finite));
    rows.push_back(option("celu", celu, 1, with({"r0 = 0", "value/option"})));
    rows.push_back(option("softshrink", softshrink, 0.5, with({"r0 = -1", "value/option"})));
    rows.push_back(option("hardshrink", hardshrink, 0.5, with({"r0 = -1", "value/option"})));
    rows.push_back(options("softplus", softplus, 1, 20,
                           {{"r0 = nan", "value/option"},
                            {"r0 = inf", "value/option"},
                            {"r0 = -1", "value/option"},
                            {"r0 = 0", "value/option"},
                            {"r1 = nan", "value/option"}}));
    rows.push_back(options("hardtanh", hardtanh, -1, 1,
                           {{"r0 = nan", "value/option"},
                            {"r0 = inf", "value/option"},
                            {"r1 = nan", "value/option"},
                            {"r1 = -inf", "value/option"}}));
    rows.push_back(options("threshold", threshold, 0.5, 2, {{"r0 = nan", "value/option"}}));
    rows.push_back({"gelu", "", {{"NCH"}}, {}, {}, {}, [](A a) -> R { return {gelu(a.tensors[0])}; }, one_undefined});
    rows.push_back({"gelu",
                    "tanh",
                    {{"NCH"}},
                    {},
                    {},
                    {},
                    [](A a) -> R { return {gelu(a.tensors[0], Gelu::tanh)}; },
                    one_undefined});
    rows.push_back({"prelu",
                    "",
                    {{"NCH"}, {"C"}},
                    {},
                    {},
                    {},
                    [](A a) -> R { return {prelu(a.tensors[0], a.tensors[1])}; },
                    {{"t0 undefined", "tensor/undefined"},
                     {"t1 undefined", "tensor/undefined"},
                     {"t1 axis 0 longer", "shape/broadcast"},
                     {"t1 rank 2", "shape/broadcast"}}});
    rows.push_back({"glu",
                    "",
                    {{"NCH"}},
                    {1},
                    {},
                    {},
                    [](A a) -> R { return {glu(a.tensors[0], a.integers[0])}; },
                    {{"t0 undefined", "tensor/undefined"},
                     {"i0 = 2", "axis/range"},
                     {"i0 = m", "axis/range"},
                     {"i0 = -7", "axis/range"},
                     {"t0 axis 1 longer", "shape/mismatch"},
                     {"t0 rank 0", "axis/range"}}});
    return rows;
}

}  // namespace calor::testing::sweep
