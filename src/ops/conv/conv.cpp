// Convolution: checks, shape rules, descriptors. The public functions are in conv_options.cpp.
#include "calor/conv.h"

#include <fmt/format.h>

#include <cstring>

#include "ops/conv/conv_gpu.h"
#include "ops/registry.h"

namespace calor::ops::conv {
namespace {

using graph::Call;
using graph::InferContext;
using graph::Specs;

std::string describe_two(std::string_view a_name, const Tensor& a, std::string_view b_name, const Tensor& b) {
    return fmt::format("{} {}, {} {}", a_name, describe(a), b_name, describe(b));
}

/// The result's dtype: 8-bit integers of either sign give i32, everything else stays as it is.
DType check_dtypes(const InferContext& c, std::string_view a_name, std::string_view b_name) {
    const Tensor &a = c.inputs[0], &b = c.inputs[1];
    if (a.dtype() == boolean) {
        fail("dtype/unsupported", c.operation, c.where,
             {{"argument", a_name}, {"got", a.dtype()}, {"expected", "a float or an integer"}}, describe(a));
    }
    const auto is_byte = [](DType d) { return d == i8 || d == u8; };
    if (is_byte(a.dtype()) && is_byte(b.dtype())) return i32;
    if (a.dtype() != b.dtype()) {
        fail("dtype/mismatch", c.operation, c.where,
             {{"argument", b_name}, {"got", b.dtype()}, {"other", a_name}, {"expected", a.dtype()}},
             describe_two(a_name, a, b_name, b));
    }
    return a.dtype();
}

void check_bias(const InferContext& c, std::int64_t channels, DType dtype) {
    if (!c.attrs<Attributes>().bias) return;
    const Tensor &w = c.inputs[1], &bias = c.inputs[2];
    if (bias.rank() != 1 || bias.shape()[0] != channels) {
        fail("conv/bias", c.operation, c.where, {{"got", bias.shape()}, {"channels", channels}},
             describe_two("weight", w, "bias", bias));
    }
    if (bias.dtype() != dtype) {
        fail("dtype/mismatch", c.operation, c.where,
             {{"argument", "the bias"}, {"got", bias.dtype()}, {"other", "the result"}, {"expected", dtype}});
    }
}

void check_groups(const InferContext& c, std::int64_t channels, std::string_view side) {
    const std::int64_t groups = c.attrs<Attributes>().groups;
    if (groups >= 1 && channels % groups == 0) return;
    fail("conv/groups", c.operation, c.where, {{"groups", groups}, {"channels", channels}, {"side", side}},
         c.inputs.size() > 1 ? fmt::format("{}, {}", describe(c.inputs[0]), describe(c.inputs[1])) : std::string());
}

/// The spatial sizes of y. Throws [conv/empty], [conv/kernel-too-large].
Dims positions(const InferContext& c) {
    const auto& [window, groups, sizes, bias] = c.attrs<Attributes>();
    Dims out;
    for (std::int64_t a = 0; a < window.rank(); ++a) {
        check_not_empty(c.operation, "input", sizes, a, c.where);
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
    const DType dtype = check_dtypes(c, "the input", "the weight");
    check_groups(c, w.shape()[0], "output");
    const std::int64_t expected = checked_multiply(w.shape()[1], a.groups, c.where);
    if (x.shape()[1] != expected) {
        fail("conv/channels", c.operation, c.where,
             {{"got", x.shape()[1]},
              {"expected", expected},
              {"per_group", w.shape()[1]},
              {"groups", a.groups},
              {"weight", "a weight is [out, in / groups, kernel...]"}},
             describe_two("input", x, "weight", w));
    }
    check_bias(c, w.shape()[0], dtype);
    return {{joined(x.shape()[0], w.shape()[0], positions(c)), dtype}};
}

Specs infer_transpose(const InferContext& c) {
    const Tensor &x = c.inputs[0], &w = c.inputs[1];
    const auto& a = c.attrs<Attributes>();
    const DType dtype = check_dtypes(c, "the input", "the weight");
    check_groups(c, w.shape()[0], "input");
    if (x.shape()[1] != w.shape()[0]) {
        fail("conv/channels", c.operation, c.where,
             {{"got", x.shape()[1]},
              {"expected", w.shape()[0]},
              {"per_group", w.shape()[0] / a.groups},
              {"groups", a.groups},
              {"weight", "a transposed convolution's weight is [in, out / groups, kernel...]"}},
             describe_two("input", x, "weight", w));
    }
    const std::int64_t channels = checked_multiply(w.shape()[1], a.groups, c.where);
    check_bias(c, channels, dtype);
    return {{joined(x.shape()[0], channels, a.sizes), dtype}};
}

Specs infer_input_grad(const InferContext& c) {
    const Tensor &gy = c.inputs[0], &w = c.inputs[1];
    const auto& a = c.attrs<Attributes>();
    const DType dtype = check_dtypes(c, "the output gradient", "the weight");
    check_groups(c, w.shape()[0], "output");
    check_gy(c, gy, joined(gy.shape()[0], w.shape()[0], positions(c)));
    return {{joined(gy.shape()[0], checked_multiply(w.shape()[1], a.groups, c.where), a.sizes), dtype}};
}

Specs infer_weight_grad(const InferContext& c) {
    const Tensor &x = c.inputs[0], &gy = c.inputs[1];
    const auto& a = c.attrs<Attributes>();
    const DType dtype = check_dtypes(c, "the input", "the output gradient");
    check_groups(c, x.shape()[1], "input");
    check_groups(c, gy.shape()[1], "output");
    check_gy(c, gy, joined(x.shape()[0], gy.shape()[1], positions(c)));
    Specs specs{{joined(gy.shape()[1], x.shape()[1] / a.groups, a.window.kernel), dtype}};
    if (a.bias) specs.push_back({Shape{gy.shape()[1]}, dtype});
    return specs;
}

template <Role role> std::span<const graph::Implementation> implementations(DeviceKind) {
    static const graph::Implementation list[] = {
        {.name = "implicit_gemm",
         .why_not = [](const Call& c) { return gemm_first_why_not(role, c); },
         .run = [](const Call& c) { run_gemm(role, c); }},
        {.name = "planar",
         .why_not = [](const Call& c) { return planar_why_not(role, c); },
         .run = [](const Call& c) { run_planar(role, c); }},
        {.name = "winograd",
         .why_not = [](const Call& c) { return winograd_why_not(role, c); },
         .run = [](const Call& c) { run_winograd(role, c); }},
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

/// On CUDA and OpenCL devices.
template <Role role> std::span<const graph::Implementation> gpu_implementations() {
    static const graph::Implementation list[] = {
        {.name = "depthwise",
         .why_not = [](const Call& c) { return depthwise_gpu_why_not(role, c); },
         .run = [](const Call& c) { run_depthwise_gpu(role, c); }},
        {.name = "cudnn",
         .why_not = [](const Call& c) { return vendor_gpu_why_not(role, c); },
         .run = [](const Call& c) { run_vendor_gpu(role, c); }},
        {.name = "direct",
         .why_not = [](const Call& c) { return direct_gpu_why_not(role, c); },
         .run = [](const Call& c) { run_direct_gpu(role, c); }},
        {.name = "implicit_gemm",
         .why_not = [](const Call& c) { return tiles_gpu_why_not(role, c); },
         .run = [](const Call& c) { run_tiles_gpu(role, c); }},
        {.name = "reference", .run = [](const Call& c) { run_reference_gpu(role, c); }}};
    return list;
}

template <Role role> graph::Format format(const Call& call) { return result_format(role, call); }

const graph::Operation forward_operation{.name = "conv",
                                         .traits = graph::contraction | graph::linear,
                                         .infer = infer_forward,
                                         .gradient = forward_gradient,
                                         .implementations = implementations<Role::forward>,
                                         .gpu_implementations = gpu_implementations<Role::forward>,
                                         .format = format<Role::forward>};
const graph::Operation input_grad_operation{.name = "conv_input_grad",
                                            .traits = graph::contraction | graph::linear,
                                            .infer = infer_input_grad,
                                            .gradient = input_grad_gradient,
                                            .implementations = implementations<Role::input_grad>,
                                            .gpu_implementations = gpu_implementations<Role::input_grad>,
                                            .format = format<Role::input_grad>};
const graph::Operation transpose_operation{.name = "conv_transpose",
                                           .traits = graph::contraction | graph::linear,
                                           .infer = infer_transpose,
                                           .gradient = input_grad_gradient,
                                           .implementations = implementations<Role::input_grad>,
                                           .gpu_implementations = gpu_implementations<Role::input_grad>,
                                           .format = format<Role::input_grad>};
const graph::Operation weight_grad_operation{.name = "conv_weight_grad",
                                             .traits = graph::contraction | graph::linear,
                                             .infer = infer_weight_grad,
                                             .gradient = weight_grad_gradient,
                                             .implementations = implementations<Role::weight_grad>,
                                             .gpu_implementations = gpu_implementations<Role::weight_grad>};

}  // namespace

bool without_products(Role role, const Call& call) {
    if (role != Role::weight_grad) return call.outputs[0].count() == 0;
    if (call.inputs[0].size(0) > 0) return false;
    for (const View& y : call.outputs) {
        std::memset(y.as<std::byte>(), 0, static_cast<std::size_t>(y.count() * size_of(y.dtype)));
    }
    return true;
}

Operands operands(Role role, const Call& call) {
    const bool bias = call.attrs<Attributes>().bias;
    switch (role) {
        case Role::forward: return {call.inputs[0], call.inputs[1], call.outputs[0], bias ? &call.inputs[2] : nullptr};
        case Role::input_grad:
            return {call.outputs[0], call.inputs[1], call.inputs[0], bias ? &call.inputs[2] : nullptr};
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

Tensor transposed(const Tensor& x, const Tensor& w, const Tensor& bias, Attributes attributes, const Where& where) {
    attributes.bias = bias.defined();
    if (attributes.bias) return graph::record(transpose_operation, std::move(attributes), {x, w, bias}, where);
    return graph::record(transpose_operation, std::move(attributes), {x, w}, where);
}

Tensor weight_grad(const Tensor& x, const Tensor& gy, Attributes attributes, bool with_bias, const Where& where) {
    attributes.bias = with_bias;
    return graph::record(weight_grad_operation, std::move(attributes), {x, gy}, where);
}

}  // namespace calor::ops::conv

namespace calor::ops {

Descriptors conv_descriptors() {
    return {&conv::forward_operation, &conv::input_grad_operation, &conv::transpose_operation,
            &conv::weight_grad_operation};
}

}  // namespace calor::ops
