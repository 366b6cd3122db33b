// The public activation functions: their options are checked here.
#include "calor/activations.h"

#include <fmt/format.h>

#include <cmath>

#include "calor/elementwise.h"
#include "calor/view.h"
#include "core/fail.h"
#include "ops/elementwise/row.h"

namespace calor {
namespace {

using ops::apply;
using ops::operation_of;

void check(bool good, std::string_view operation, const char* option, double got, const char* expected,
           const char* help, const Where& where) {
    if (good) return;
    fail("value/option", operation, where, {{"option", option}, {"got", got}, {"expected", expected}, {"help", help}});
}

}  // namespace

Tensor relu(const Tensor& x, const Where& where) {
    const Naming naming("relu");
    if (x.defined() && is_integer(x.dtype())) return maximum(x, 0, where);
    return apply(operation_of<"relu">(), x, where);
}
Tensor leaky_relu(const Tensor& x, double slope, const Where& where) {
    check(std::isfinite(slope), "leaky_relu", "slope", slope, "a finite number", "the slope multiplies x where x <= 0",
          where);
    return apply(operation_of<"leaky_relu">(), x, where, {{slope}});
}
Tensor prelu(const Tensor& x, const Tensor& slope, const Where& where) {
    const Naming naming("prelu");
    const auto& op = operation_of<"prelu">();
    if (!x.defined() || !slope.defined() || slope.rank() != 1 || x.rank() < 2 || slope.size(0) == 1) {
        return apply(op, x, slope, where);
    }
    if (slope.size(0) != x.size(1)) {
        fail("shape/broadcast", "prelu", where,
             {{"a", x.shape()}, {"b", slope.shape()}, {"axis", 1}, {"size_a", x.size(1)}, {"size_b", slope.size(0)}},
             "input " + describe(x) + ", slope " + describe(slope));
    }
    Shape shape(x.rank() - 1, 1);
    shape[0] = slope.size(0);
    return apply(op, x, reshape(slope, shape, where), where);
}
Tensor elu(const Tensor& x, double alpha, const Where& where) {
    check(std::isfinite(alpha), "elu", "alpha", alpha, "a finite number", "for x far below 0 the result goes to -alpha",
          where);
    return apply(operation_of<"elu">(), x, where, {{alpha}});
}
Tensor celu(const Tensor& x, double alpha, const Where& where) {
    check(std::isfinite(alpha) && alpha != 0, "celu", "alpha", alpha, "a finite number other than 0",
          "for x far below 0 the result goes to -alpha; x is divided by alpha", where);
    return apply(operation_of<"celu">(), x, where, {{alpha}});
}
Tensor gelu(const Tensor& x, Gelu form, const Where& where) {
    const Naming naming("gelu");
    return apply(form == Gelu::exact ? operation_of<"gelu">() : operation_of<"gelu_tanh">(), x, where);
}
Tensor softplus(const Tensor& x, double beta, double threshold, const Where& where) {
    check(std::isfinite(beta) && beta > 0, "softplus", "beta", beta, "a finite number above 0",
          "the result is divided by beta", where);
    check(!std::isnan(threshold), "softplus", "threshold", threshold, "a number",
          "beyond the threshold the result is x; the default is 20", where);
    return apply(operation_of<"softplus">(), x, where, {{beta, threshold}});
}
Tensor hardtanh(const Tensor& x, double low, double high, const Where& where) {
    if (!(low <= high)) {
        check(false, "hardtanh", "low", low, fmt::format("at most high, {}", high).c_str(),
              "the result lies between low and high", where);
    }
    return apply(operation_of<"hardtanh">(), x, where, {{low, high}});
}
Tensor softshrink(const Tensor& x, double lambda, const Where& where) {
    check(std::isfinite(lambda) && lambda >= 0, "softshrink", "lambda", lambda, "a finite number >= 0",
          "values of at most lambda in size become 0", where);
    return apply(operation_of<"softshrink">(), x, where, {{lambda}});
}
Tensor hardshrink(const Tensor& x, double lambda, const Where& where) {
    check(std::isfinite(lambda) && lambda >= 0, "hardshrink", "lambda", lambda, "a finite number >= 0",
          "values of at most lambda in size become 0", where);
    return apply(operation_of<"hardshrink">(), x, where, {{lambda}});
}
Tensor threshold(const Tensor& x, double threshold, double value, const Where& where) {
    check(!std::isnan(threshold), "threshold", "threshold", threshold, "a number",
          "x above the threshold stays, the rest becomes the value", where);
    return apply(operation_of<"threshold">(), x, where, {{threshold, value}});
}

Tensor glu(const Tensor& x, std::int64_t axis, const Where& where) {
    const Naming naming("glu");
    if (!x.defined()) fail("tensor/undefined", "glu", where, {{"argument", "the operand"}});
    const std::int64_t size = x.size(axis, where), half = size / 2;
    if (size % 2 != 0) {
        fail("shape/mismatch", "glu", where,
             {{"argument", "the axis to halve"},
              {"got", Dims{size}},
              {"expected", Dims{2 * half}},
              {"help", "the first half is the value, the second half its gate"}},
             describe(x));
    }
    return mul(narrow(x, axis, 0, half, where), sigmoid(narrow(x, axis, half, half, where), where), where);
}

Tensor relu6(const Tensor& x, const Where& where) { return apply(operation_of<"relu6">(), x, where); }
Tensor selu(const Tensor& x, const Where& where) { return apply(operation_of<"selu">(), x, where); }
Tensor silu(const Tensor& x, const Where& where) { return apply(operation_of<"silu">(), x, where); }
Tensor mish(const Tensor& x, const Where& where) { return apply(operation_of<"mish">(), x, where); }
Tensor softsign(const Tensor& x, const Where& where) { return apply(operation_of<"softsign">(), x, where); }
Tensor sigmoid(const Tensor& x, const Where& where) { return apply(operation_of<"sigmoid">(), x, where); }
Tensor hard_sigmoid(const Tensor& x, const Where& where) { return apply(operation_of<"hard_sigmoid">(), x, where); }
Tensor log_sigmoid(const Tensor& x, const Where& where) { return apply(operation_of<"log_sigmoid">(), x, where); }
Tensor hard_swish(const Tensor& x, const Where& where) { return apply(operation_of<"hard_swish">(), x, where); }
Tensor tanhshrink(const Tensor& x, const Where& where) { return apply(operation_of<"tanhshrink">(), x, where); }

}  // namespace calor
