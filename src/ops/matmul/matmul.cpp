// Matrix products: checks, shape and gradient rules, public functions.
#include "calor/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "calor/reduce.h"
#include "calor/view.h"
#include "ops/matmul/matmul.h"
#include "ops/registry.h"

namespace calor::ops::matmul {

Operands::Operands(const graph::Call& call)
    : b_shape(*call.inputs[1].shape),
      b_strides(*call.inputs[1].strides),
      a(call.inputs[0]),
      b{call.inputs[1].data, call.inputs[1].dtype, &b_shape, &b_strides},
      c(call.outputs[0]) {
    const auto& attributes = call.attrs<Attributes>();
    const std::int64_t rank = a.rank();
    if (attributes.transposed) {
        std::swap(b_shape[rank - 2], b_shape[rank - 1]);
        std::swap(b_strides[rank - 2], b_strides[rank - 1]);
    }
    if (attributes.bias) bias = &call.inputs[2];
    m = a.size(rank - 2);
    k = a.size(rank - 1);
    n = b_shape[rank - 1];
}

namespace {

using graph::GradContext;
using graph::InferContext;
using graph::Specs;

Specs infer(const InferContext& c) {
    const Tensor &a = c.inputs[0], &b = c.inputs[1];
    const auto& attributes = c.attrs<Attributes>();
    const auto both = [&] { return fmt::format("a {}, b {}", describe(a), describe(b)); };
    if (a.dtype() == boolean) {
        fail("dtype/unsupported", c.operation, c.where,
             {{"argument", "the left operand"}, {"got", a.dtype()}, {"expected", "a float or an integer"}}, both());
    }
    for (std::size_t i = 1; i < c.inputs.size(); ++i) {
        if (c.inputs[i].dtype() == a.dtype()) continue;
        fail("dtype/mismatch", c.operation, c.where,
             {{"argument", i == 1 ? "the right operand" : "the bias"},
              {"got", c.inputs[i].dtype()},
              {"other", "the left operand"},
              {"expected", a.dtype()}},
             both());
    }
    const std::int64_t rank = a.rank();
    Shape right = b.shape(), shape = a.shape();
    if (attributes.transposed) std::swap(right[rank - 2], right[rank - 1]);
    if (shape[rank - 1] != right[rank - 2]) {
        fail("matmul/inner", c.operation, c.where,
             {{"a", shape}, {"b", right}, {"inner_a", shape[rank - 1]}, {"inner_b", right[rank - 2]}}, both());
    }
    for (std::int64_t i = 0; i < rank - 2; ++i) {
        if (shape[i] != right[i] && shape[i] != 1 && right[i] != 1) {
            fail("shape/broadcast", c.operation, c.where,
                 {{"a", shape}, {"b", right}, {"axis", i - rank}, {"size_a", shape[i]}, {"size_b", right[i]}}, both());
        }
        if (shape[i] == 1) shape[i] = right[i];
    }
    shape[rank - 1] = right[rank - 1];
    return {{shape, a.dtype()}};
}

Tensor product(const Tensor& a, const Tensor& b, bool transposed, const Where& where);

Tensor transpose(const Tensor& t, const Where& where) {
    Axes axes;
    for (std::int64_t a = 0; a < t.rank(); ++a) axes.push_back(a);
    std::swap(axes[t.rank() - 2], axes[t.rank() - 1]);
    return permute(t, axes, where);
}

/// Whether its batch axes have size 1.
bool one_matrix(const Tensor& t) {
    return std::all_of(t.shape().begin(), t.shape().end() - 2, [](std::int64_t s) { return s == 1; });
}

/// [..., R, C] -> [rows, C].
Tensor as_rows(const Tensor& t, const Where& where) {
    const std::int64_t columns = t.shape().back();
    std::int64_t rows = 1;
    for (std::int64_t i = 0; i + 1 < t.rank(); ++i) rows *= t.shape()[i];
    return reshape(t, {rows, columns}, where);
}

void gradient(const GradContext& c) {
    const auto& attributes = c.attrs<Attributes>();
    const Tensor &a = c.inputs[0], &b = c.inputs[1];
    const Tensor g = c.cotangent();
    if (c.needs[0]) c.grads[0] = product(g, b, !attributes.transposed, c.where);
    if (c.needs[1]) {
        Tensor left = a, right = g;
        if (g.rank() > 2 && one_matrix(b)) {  // sums over the batch inside the product
            left = as_rows(a, c.where);
            right = as_rows(g, c.where);
        }
        if (attributes.transposed) std::swap(left, right);
        const Tensor gb = product(transpose(left, c.where), right, false, c.where);
        c.grads[1] = gb.rank() == b.rank() ? gb : reshape(gb, b.shape(), c.where);
    }
    if (attributes.bias && c.needs[2]) {
        Axes axes;
        for (std::int64_t i = 0; i + 1 < g.rank(); ++i) axes.push_back(i);
        c.grads[2] = sum(g, axes, false, c.where);
    }
}

const graph::Implementation list[] = {{.name = "small", .why_not = small_why_not, .run = run_small},
                                      {.name = "onednn", .why_not = onednn_why_not, .run = run_onednn},
                                      {.name = "gemm", .run = run_gemm},
                                      {.name = "reference", .run = run_reference}};

const graph::Operation matmul_operation{
    .name = "matmul",
    .traits = graph::contraction | graph::linear,
    .infer = infer,
    .gradient = gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(list); },
    .gpu_implementations = gpu_implementations};

const graph::Operation linear_operation{
    .name = "linear",
    .traits = graph::contraction | graph::linear,
    .infer = infer,
    .gradient = gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(list); },
    .gpu_implementations = gpu_implementations};

/// Adds leading axes of size 1 to the operand of lower rank.
Tensor product(const Tensor& a, const Tensor& b, bool transposed, const Where& where) {
    const std::int64_t rank = std::max(a.rank(), b.rank());
    const auto widened = [&](const Tensor& t) {
        if (t.rank() == rank) return t;
        Shape shape(rank - t.rank(), 1);
        for (const std::int64_t s : t.shape()) shape.push_back(s);
        return reshape(t, shape, where);
    };
    return graph::record(matmul_operation, Attributes{transposed, false}, {widened(a), widened(b)}, where);
}

/// Rows [M, in] through a weight [out, in].
Tensor linear_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, const Where& where) {
    const Attributes attributes{true, bias.defined()};
    if (bias.defined()) return graph::record(linear_operation, attributes, {x, weight, bias}, where);
    return graph::record(linear_operation, attributes, {x, weight}, where);
}

void check_rank(std::string_view operation, const Tensor& t, std::string_view argument, std::int64_t least,
                std::int64_t most, const char* help, const Where& where) {
    check_defined(operation, t, argument, where);
    if (t.rank() >= least && t.rank() <= most) return;
    fail("shape/rank", operation, where,
         {{"argument", argument},
          {"got", t.rank()},
          {"expected", least == most ? std::to_string(least) : fmt::format("{} or more", least)},
          {"help", help}},
         describe(t));
}

constexpr std::int64_t any_rank = INT64_MAX;

}  // namespace

}  // namespace calor::ops::matmul

namespace calor {

using namespace ops::matmul;  // NOLINT: the file implements this family

Tensor matmul(const Tensor& a, const Tensor& b, const Where& where) {
    const Naming naming("matmul");
    constexpr const char* help = "operands are vectors [K], matrices [M, K], or batches of matrices";
    check_rank("matmul", a, "the left operand", 1, any_rank, help, where);
    check_rank("matmul", b, "the right operand", 1, any_rank, help, where);
    const Tensor left = a.rank() == 1 ? reshape(a, {1, a.shape()[0]}, where) : a;
    const Tensor right = b.rank() == 1 ? reshape(b, {b.shape()[0], 1}, where) : b;
    const Tensor c = product(left, right, false, where);
    if (a.rank() > 1 && b.rank() > 1) return c;
    Shape shape = c.shape();
    if (b.rank() == 1) shape.resize(shape.rank() - 1);
    if (a.rank() == 1) shape.erase(shape.rank() - (b.rank() == 1 ? 1 : 2));
    return reshape(c, shape, where);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Where& where) {
    const Naming naming("linear");
    check_rank("linear", x, "the input", 1, any_rank, "the input is [..., in]", where);
    check_rank("linear", weight, "the weight", 2, 2, "a weight is [out, in]", where);
    const std::int64_t in = weight.shape()[1], out = weight.shape()[0];
    if (x.shape().back() != in) {
        fail("matmul/inner", "linear", where,
             {{"a", x.shape()}, {"b", Dims{in, out}}, {"inner_a", x.shape().back()}, {"inner_b", in}},
             fmt::format("input {}, weight {}", describe(x), describe(weight)));
    }
    if (bias.defined() && (bias.rank() != 1 || bias.shape()[0] != out)) {
        fail("shape/mismatch", "linear", where,
             {{"argument", "the bias"}, {"got", bias.shape()}, {"expected", Dims{out}}, {"help", "a bias is [out]"}},
             fmt::format("weight {}, bias {}", describe(weight), describe(bias)));
    }
    if (x.rank() == 2) return linear_rows(x, weight, bias, where);
    Shape shape = x.shape();
    std::int64_t rows = 1;
    for (std::int64_t i = 0; i + 1 < x.rank(); ++i) rows = checked_multiply(rows, shape[i], where);
    shape[x.rank() - 1] = out;
    return reshape(linear_rows(reshape(x, {rows, in}, where), weight, bias, where), shape, where);
}

Tensor dot(const Tensor& a, const Tensor& b, const Where& where) {
    const Naming naming("dot");
    check_rank("dot", a, "the left operand", 1, 1, "dot() takes two vectors", where);
    check_rank("dot", b, "the right operand", 1, 1, "dot() takes two vectors", where);
    return matmul(a, b, where);
}

Tensor outer(const Tensor& a, const Tensor& b, const Where& where) {
    const Naming naming("outer");
    check_rank("outer", a, "the left operand", 1, 1, "outer() takes two vectors", where);
    check_rank("outer", b, "the right operand", 1, 1, "outer() takes two vectors", where);
    return matmul(reshape(a, {a.shape()[0], 1}, where), reshape(b, {1, b.shape()[0]}, where), where);
}

ops::Descriptors ops::matmul_descriptors() { return {&ops::matmul::matmul_operation, &ops::matmul::linear_operation}; }

}  // namespace calor
