// Convolution: checks, shape rules, descriptors, public functions.
#include "calor/conv.h"

#include <fmt/format.h>

#include "calor/elementwise.h"
#include "calor/view.h"
#include "ops/conv/conv.h"

namespace calor::ops::conv {
namespace {

using graph::Call;
using graph::InferContext;
using graph::Specs;

std::string describe_two(std::string_view a_name, const Tensor& a, std::string_view b_name, const Tensor& b) {
    return fmt::format("{} {}, {} {}", a_name, describe(a), b_name, describe(b));
}

void check_dtypes(const InferContext& c, std::string_view a_name, std::string_view b_name) {
    const Tensor &a = c.inputs[0], &b = c.inputs[1];
    if (a.dtype() == boolean) {
        fail("dtype/unsupported", c.operation, c.where,
             {{"argument", a_name}, {"got", a.dtype()}, {"expected", "a float or an integer"}}, describe(a));
    }
    if (a.dtype() != b.dtype()) {
        fail("dtype/mismatch", c.operation, c.where,
             {{"argument", b_name}, {"got", b.dtype()}, {"other", a_name}, {"expected", a.dtype()}},
             describe_two(a_name, a, b_name, b));
    }
}

void check_groups(const InferContext& c, std::int64_t channels, std::string_view side) {
    const std::int64_t groups = c.attrs<Attributes>().groups;
    if (groups >= 1 && channels % groups == 0) return;
    fail("conv/groups", c.operation, c.where, {{"groups", groups}, {"channels", channels}, {"side", side}},
         c.inputs.size() > 1 ? fmt::format("{}, {}", describe(c.inputs[0]), describe(c.inputs[1])) : std::string());
}

/// The spatial sizes of y. Throws [conv/kernel-too-large].
Dims positions(const InferContext& c) {
    const auto& [window, groups, sizes, bias] = c.attrs<Attributes>();
    Dims out;
    for (std::int64_t a = 0; a < window.rank(); ++a) {
        const std::int64_t count = window_positions(window, a, sizes[a], c.where);
        if (count < 1) {
            fail("conv/kernel-too-large", c.operation, c.where,
                 {{"extent", window_extent(window, a, c.where)},
                  {"axis", a},
                  {"padded", sizes[a] + window.pad_low[a] + window.pad_high[a]},
                  {"size", sizes[a]},
                  {"low", window.pad_low[a]},
                  {"high", window.pad_high[a]}},
                 fmt::format("{}, {}", describe(c.inputs[0]), describe(c.inputs[1])));
        }
        out.push_back(count);
    }
    return out;
}

Shape joined(std::int64_t n, std::int64_t channels, const Dims& spatial) {
    Shape shape{n, channels};
    for (const std::int64_t s : spatial) shape.push_back(s);
    return shape;
}

void check_gy(const InferContext& c, const Tensor& gy, const Shape& expected) {
    if (gy.shape() == expected) return;
    fail("shape/mismatch", c.operation, c.where,
         {{"argument", "the output gradient"},
          {"got", gy.shape()},
          {"expected", expected},
          {"help", "it has the shape of the convolution's result for these sizes and options"}},
         fmt::format("{}, {}", describe(c.inputs[0]), describe(c.inputs[1])));
}

Specs infer_forward(const InferContext& c) {
    const Tensor &x = c.inputs[0], &w = c.inputs[1];
    const auto& a = c.attrs<Attributes>();
    check_dtypes(c, "the input", "the weight");
    check_groups(c, w.shape()[0], "output");
    const std::int64_t expected = checked_multiply(w.shape()[1], a.groups, c.where);
    if (x.shape()[1] != expected) {
        fail("conv/channels", c.operation, c.where,
             {{"got", x.shape()[1]}, {"expected", expected}, {"per_group", w.shape()[1]}, {"groups", a.groups}},
             describe_two("input", x, "weight", w));
    }
    if (a.bias) {
        const Tensor& bias = c.inputs[2];
        if (bias.rank() != 1 || bias.shape()[0] != w.shape()[0]) {
            fail("conv/bias", c.operation, c.where, {{"got", bias.shape()}, {"channels", w.shape()[0]}},
                 describe_two("weight", w, "bias", bias));
        }
        if (bias.dtype() != x.dtype()) {
            fail("dtype/mismatch", c.operation, c.where,
                 {{"argument", "the bias"}, {"got", bias.dtype()}, {"other", "the input"}, {"expected", x.dtype()}});
        }
    }
    return {{joined(x.shape()[0], w.shape()[0], positions(c)), x.dtype()}};
}

Specs infer_input_grad(const InferContext& c) {
    const Tensor &gy = c.inputs[0], &w = c.inputs[1];
    const auto& a = c.attrs<Attributes>();
    check_dtypes(c, "the output gradient", "the weight");
    check_groups(c, w.shape()[0], "output");
    check_gy(c, gy, joined(gy.shape()[0], w.shape()[0], positions(c)));
    return {{joined(gy.shape()[0], checked_multiply(w.shape()[1], a.groups, c.where), a.sizes), gy.dtype()}};
}

Specs infer_weight_grad(const InferContext& c) {
    const Tensor &x = c.inputs[0], &gy = c.inputs[1];
    const auto& a = c.attrs<Attributes>();
    check_dtypes(c, "the input", "the output gradient");
    check_groups(c, x.shape()[1], "input");
    check_groups(c, gy.shape()[1], "output");
    check_gy(c, gy, joined(x.shape()[0], gy.shape()[1], positions(c)));
    Specs specs{{joined(gy.shape()[1], x.shape()[1] / a.groups, a.window.kernel), x.dtype()}};
    if (a.bias) specs.push_back({Shape{gy.shape()[1]}, x.dtype()});
    return specs;
}

template <Role role> std::span<const graph::Implementation> implementations(DeviceKind) {
    static const graph::Implementation list[] = {
        {.name = "planar",
         .why_not = [](const Call& c) { return planar_why_not(role, c); },
         .run = [](const Call& c) { run_planar(role, c); }},
        {.name = "direct",
         .why_not = [](const Call& c) { return direct_first_why_not(role, c); },
         .run = [](const Call& c) { run_direct(role, c); }},
        {.name = "onednn",
         .why_not = [](const Call& c) { return onednn_why_not(role, c); },
         .run = [](const Call& c) { run_onednn(role, c); }},
        {.name = "direct",
         .why_not = [](const Call& c) { return direct_why_not(role, c); },
         .run = [](const Call& c) { run_direct(role, c); }},
        {.name = "implicit_gemm", .run = [](const Call& c) { run_gemm(role, c); }},
        {.name = "reference", .run = [](const Call& c) { run_reference(role, c); }}};
    return list;
}

template <Role role> graph::Format format(const Call& call) { return result_format(role, call); }

const graph::Operation forward_operation{.name = "conv",
                                         .traits = graph::contraction | graph::linear,
                                         .infer = infer_forward,
                                         .gradient = forward_gradient,
                                         .implementations = implementations<Role::forward>,
                                         .format = format<Role::forward>};
const graph::Operation input_grad_operation{.name = "conv_input_grad",
                                            .traits = graph::contraction | graph::linear,
                                            .infer = infer_input_grad,
                                            .gradient = input_grad_gradient,
                                            .implementations = implementations<Role::input_grad>,
                                            .format = format<Role::input_grad>};
const graph::Operation weight_grad_operation{.name = "conv_weight_grad",
                                             .traits = graph::contraction | graph::linear,
                                             .infer = infer_weight_grad,
                                             .gradient = weight_grad_gradient,
                                             .implementations = implementations<Role::weight_grad>};

}  // namespace

Operands operands(Role role, const Call& call) {
    const bool bias = call.attrs<Attributes>().bias;
    switch (role) {
        case Role::forward: return {call.inputs[0], call.inputs[1], call.outputs[0], bias ? &call.inputs[2] : nullptr};
        case Role::input_grad: return {call.outputs[0], call.inputs[1], call.inputs[0], nullptr};
        case Role::weight_grad: break;
    }
    return {call.inputs[0], call.outputs[0], call.inputs[1], bias ? &call.outputs[1] : nullptr};
}

Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias, Attributes attributes, const Where& where) {
    attributes.bias = bias.defined();
    if (attributes.bias) return graph::record(forward_operation, std::move(attributes), {x, w, bias}, where);
    return graph::record(forward_operation, std::move(attributes), {x, w}, where);
}

Tensor input_grad(const Tensor& gy, const Tensor& w, const Attributes& attributes, const Where& where) {
    Attributes plain = attributes;
    plain.bias = false;
    return graph::record(input_grad_operation, std::move(plain), {gy, w}, where);
}

Tensor weight_grad(const Tensor& x, const Tensor& gy, Attributes attributes, bool with_bias, const Where& where) {
    attributes.bias = with_bias;
    return graph::record(weight_grad_operation, std::move(attributes), {x, gy}, where);
}

namespace {

Dims spatial_of(const Tensor& t) { return Dims(std::span(t.shape().data() + 2, t.shape().size() - 2)); }

/// Both ranks are those of a convolution, and equal.
void check_ranks(std::string_view operation, const Tensor& x, const Tensor& w, const Where& where) {
    check_defined(operation, x, "the input", where);
    check_defined(operation, w, "the weight", where);
    const std::string both = describe_two("input", x, "weight", w);
    if (w.rank() < 3) {
        fail("shape/rank", operation, where,
             {{"argument", "the weight"},
              {"got", w.rank()},
              {"expected", "3 or more"},
              {"help", "a weight is [out, in / groups, kernel...] with at least one spatial axis"}},
             both);
    }
    if (x.rank() == w.rank()) return;
    std::string help = "shapes are [N, C, spatial...] and [out, in / groups, kernel...]";
    if (x.rank() == w.rank() + 1) {
        help =
            "merge the extra axis into the batch with reshape ([B, T, C, ...] -> [B * T, C, ...]), or give the kernel "
            "one more axis";
    } else if (x.rank() == w.rank() - 1) {
        help = "add the missing batch axis with unsqueeze(x, 0)";
    }
    fail("conv/rank", operation, where,
         {{"got", x.rank()},
          {"expected", w.rank()},
          {"weight_rank", w.rank()},
          {"spatial", w.rank() - 2},
          {"help", help}},
         both);
}

Attributes resolve(std::string_view operation, const Dims& kernel, const Dims& sizes, const ConvOptions& o,
                   const Where& where) {
    return {resolve_window(operation, kernel, {o.stride, o.dilation, o.padding}, sizes, where), o.groups, sizes, false};
}

void check_count(std::string_view operation, std::string_view option, const Dims& list, std::int64_t expected,
                 const Where& where) {
    if (list.rank() != expected) {
        fail("value/count", operation, where, {{"option", option}, {"got", list.rank()}, {"expected", expected}});
    }
    for (const std::int64_t s : list) check_option(operation, option, s, 0, where);
}

constexpr std::string_view transpose_name = "conv_transpose";

/// Spatial sizes of the result of a transposed convolution, and its padding.
Attributes resolve_transpose(const Dims& in, const Dims& kernel, const ConvTransposeOptions& o, const Where& where) {
    const std::int64_t n = kernel.rank();
    Dims sizes(n, 0);
    const Dims stride = per_axis(transpose_name, "stride", o.stride, n, 1, where);
    if (o.padding.is_same()) {
        for (std::int64_t a = 0; a < n; ++a)
            sizes[a] = checked_multiply(in[a], std::max<std::int64_t>(stride[a], 1), where);
    }
    Attributes out{resolve_window(transpose_name, kernel, {o.stride, o.dilation, o.padding}, sizes, where), o.groups,
                   sizes, false};
    const Dims extra = per_axis(transpose_name, "output_padding", o.output_padding, n, 0, where);
    const Dims asked = per_axis(transpose_name, "output_size", o.output_size, n, -1, where);
    for (std::int64_t a = 0; a < n; ++a) {
        const Window& w = out.window;
        check_option(transpose_name, "output_padding", extra[a], 0, where);
        const std::int64_t reach =
            checked_add(checked_multiply(std::max<std::int64_t>(in[a] - 1, 0), w.stride[a], where),
                        window_extent(w, a, where), where);
        const std::int64_t least = reach - checked_add(w.pad_low[a], w.pad_high[a], where);
        out.sizes[a] = o.padding.is_same() ? sizes[a] : checked_add(least, extra[a], where);
        if (o.output_size.given()) out.sizes[a] = asked[a];
        if (out.sizes[a] < std::max<std::int64_t>(least, 0) || (in[a] > 0 && out.sizes[a] - w.stride[a] >= least)) {
            fail("value/option", transpose_name, where,
                 {{"option", o.output_size.given() ? "output_size" : "output_padding"},
                  {"got", o.output_size.given() ? asked[a] : extra[a]},
                  {"expected", o.output_size.given() ? fmt::format("{} or up to {} more", least, w.stride[a] - 1)
                                                     : fmt::format("0 to {}", w.stride[a] - 1)},
                  {"help",
                   "a convolution of the result with the same options must have the input's size; less padding gives "
                   "more"}});
        }
    }
    return out;
}

}  // namespace
}  // namespace calor::ops::conv

namespace calor {

using namespace ops::conv;  // NOLINT: the file implements this family

Tensor conv(const Tensor& x, const Tensor& weight, const ConvOptions& options, const Where& where) {
    return conv(x, weight, Tensor(), options, where);
}

Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options, const Where& where) {
    check_ranks("conv", x, weight, where);
    return forward(x, weight, bias, resolve("conv", spatial_of(weight), spatial_of(x), options, where), where);
}

Tensor conv_input_grad(const Tensor& gy, const Tensor& weight, const Dims& sizes, const ConvOptions& options,
                       const Where& where) {
    constexpr std::string_view name = "conv_input_grad";
    check_ranks(name, gy, weight, where);
    check_count(name, "sizes", sizes, weight.rank() - 2, where);
    return input_grad(gy, weight, resolve(name, spatial_of(weight), sizes, options, where), where);
}

Tensor conv_weight_grad(const Tensor& x, const Tensor& gy, const Dims& kernel, const ConvOptions& options,
                        const Where& where) {
    constexpr std::string_view name = "conv_weight_grad";
    ops::check_defined(name, x, "the input", where);
    ops::check_defined(name, gy, "the output gradient", where);
    if (x.rank() < 3 || gy.rank() != x.rank()) {
        const bool input = x.rank() < 3;
        fail("shape/rank", name, where,
             {{"argument", input ? "the input" : "the output gradient"},
              {"got", input ? x.rank() : gy.rank()},
              {"expected", input ? std::string("3 or more") : std::to_string(x.rank())},
              {"help", "both are [N, channels, spatial...]"}},
             describe_two("input", x, "output gradient", gy));
    }
    check_count(name, "kernel", kernel, x.rank() - 2, where);
    return weight_grad(x, gy, resolve(name, kernel, spatial_of(x), options, where), false, where);
}

Tensor conv_transpose(const Tensor& x, const Tensor& weight, const ConvTransposeOptions& options, const Where& where) {
    return conv_transpose(x, weight, Tensor(), options, where);
}

Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& options,
                      const Where& where) {
    check_ranks(transpose_name, x, weight, where);
    const Attributes attributes = resolve_transpose(spatial_of(x), spatial_of(weight), options, where);
    if (x.shape()[1] != weight.shape()[0]) {
        fail("conv/channels", transpose_name, where,
             {{"got", x.shape()[1]},
              {"expected", weight.shape()[0]},
              {"per_group", weight.shape()[0] / std::max<std::int64_t>(options.groups, 1)},
              {"groups", options.groups}},
             describe_two("input", x, "weight", weight));
    }
    const Tensor y = input_grad(x, weight, attributes, where);
    if (!bias.defined()) return y;
    if (bias.rank() != 1 || bias.shape()[0] != y.shape()[1]) {
        fail("conv/bias", transpose_name, where, {{"got", bias.shape()}, {"channels", y.shape()[1]}},
             describe_two("weight", weight, "bias", bias));
    }
    if (bias.dtype() != y.dtype()) {
        fail("dtype/mismatch", transpose_name, where,
             {{"argument", "the bias"}, {"got", bias.dtype()}, {"other", "the input"}, {"expected", y.dtype()}});
    }
    Shape column(y.rank(), 1);
    column[1] = y.shape()[1];
    return add(y, reshape(bias, column, where), where);
}

}  // namespace calor
