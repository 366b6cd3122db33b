// Deformable convolution: checks, shape rules, the public function.
#include "ops/grid/deform.h"

#include <fmt/format.h>

#include "calor/deform_conv.h"
#include "ops/grid/grid.h"
#include "ops/registry.h"

namespace calor::ops::deform {
namespace {

using graph::Call;
using graph::InferContext;
using graph::Specs;

constexpr std::string_view name = "deform_conv";

Shape joined(std::int64_t n, std::int64_t channels, const Dims& spatial) {
    Shape shape{n, channels};
    for (const std::int64_t s : spatial) shape.push_back(s);
    return shape;
}

std::string describe_three(std::span<const Tensor> t) {
    return fmt::format("input {}, offset {}, weight {}", describe(t[0]), describe(t[1]), describe(t[2]));
}

void check_groups(std::string_view code, std::int64_t groups, std::int64_t channels, std::string_view side,
                  std::span<const Tensor> inputs, const Where& where) {
    if (groups >= 1 && channels % groups == 0) return;
    fail(code, name, where, {{"groups", groups}, {"channels", channels}, {"side", side}}, describe_three(inputs));
}

void check_shape(std::string_view code, const Tensor& t, const Shape& expected, std::span<const Tensor> inputs,
                 const Where& where) {
    if (t.shape() == expected) return;
    fail(code, name, where, {{"got", t.shape()}, {"expected", expected}}, describe_three(inputs));
}

/// Spatial sizes of the result.
Dims positions(const Attributes& a, std::span<const Tensor> inputs, const Where& where) {
    Dims out;
    for (std::int64_t i = 0; i < a.window.rank(); ++i) {
        const Window& w = a.window;
        if (a.sizes[i] == 0) fail("grid/empty", name, where, {{"axis", i + 2}}, describe_three(inputs));
        const std::int64_t count = window_positions(w, i, a.sizes[i], where);
        if (count < 1) {
            fail("conv/kernel-too-large", name, where,
                 {{"extent", window_extent(w, i, where)},
                  {"axis", i},
                  {"padded", a.sizes[i] + w.pad_low[i] + w.pad_high[i]},
                  {"size", a.sizes[i]},
                  {"low", w.pad_low[i]},
                  {"high", w.pad_high[i]}},
                 describe_three(inputs));
        }
        out.push_back(count);
    }
    return out;
}

void check_dtypes(const Attributes& a, std::span<const Tensor> inputs, const Where& where) {
    const DType dtype = inputs[0].dtype();
    if (!is_floating(dtype)) {
        fail("dtype/unsupported", name, where,
             {{"argument", "the input"}, {"got", dtype}, {"expected", "a floating dtype"}}, describe_three(inputs));
    }
    const std::string_view arguments[] = {"the input", "the offset", "the weight", a.mask ? "the mask" : "the bias",
                                          "the bias"};
    for (std::size_t i = 1; i < inputs.size(); ++i) {
        if (inputs[i].dtype() == dtype) continue;
        fail("dtype/mismatch", name, where,
             {{"argument", arguments[i]}, {"got", inputs[i].dtype()}, {"other", "the input"}, {"expected", dtype}},
             describe_three(inputs));
    }
}

void check_ranks(const Tensor& x, const Tensor& offset, const Tensor& w, const Where& where) {
    check_defined(name, x, "the input", where);
    check_defined(name, offset, "the offset", where);
    check_defined(name, w, "the weight", where);
    const Tensor all[] = {x, offset, w};
    if (w.rank() < 3 || w.rank() > grid::most_axes + 2) {
        fail("grid/rank", name, where,
             {{"argument", "the weight"}, {"got", w.rank()}, {"low", 3}, {"high", grid::most_axes + 2}},
             describe_three(all));
    }
    if (x.rank() != w.rank()) {
        fail("conv/rank", name, where,
             {{"got", x.rank()},
              {"expected", w.rank()},
              {"weight_rank", w.rank()},
              {"spatial", w.rank() - 2},
              {"help", "shapes are [N, C, spatial...] and [out, in / groups, kernel...]"}},
             describe_three(all));
    }
}

Specs infer_forward(const InferContext& c) {
    const Shape& x = c.inputs[0].shape();
    return {{joined(x[0], c.inputs[2].shape()[0], c.attrs<Attributes>().positions), c.inputs[0].dtype()}};
}

Specs infer_backward(const InferContext& c) {
    const auto& a = c.attrs<Attributes>();
    const DType dtype = c.inputs[0].dtype();
    const bool wanted[] = {a.wants_x, a.wants_offset, a.wants_weight, a.mask && a.wants_offset};
    const std::size_t like[] = {0, 1, 2, 4};
    Specs specs;
    for (std::size_t i = 0; i < 4; ++i) specs.push_back({wanted[i] ? c.inputs[like[i]].shape() : Shape{0}, dtype});
    return specs;
}

template <bool backward> std::span<const graph::Implementation> implementations(DeviceKind) {
    static const graph::Implementation list[] = {
        {.name = "deform_rows",
         .why_not = [](const Call& call) -> const char* {
             const Operands o = operands(backward, call);
             return o.x.size(1) == 0 || o.weight.size(0) == 0 ? "no channels" : nullptr;
         },
         .run = [](const Call& call) { run_fast(backward, call); }},
        {.name = "reference", .run = [](const Call& call) { run_reference(backward, call); }}};
    return list;
}

template <bool backward> std::span<const graph::Implementation> gpu_implementations() {
    static const graph::Implementation list[] = {
        {.name = "deform_columns", .run = [](const Call& call) { run_on_gpu(backward, call); }}};
    return list;
}

const graph::Operation forward_operation{.name = name,
                                         .traits = graph::contraction | graph::linear,
                                         .infer = infer_forward,
                                         .gradient = gradient,
                                         .implementations = implementations<false>,
                                         .gpu_implementations = gpu_implementations<false>};
const graph::Operation backward_operation{.name = "deform_conv_grad",
                                          .traits = graph::contraction,
                                          .infer = infer_backward,
                                          .implementations = implementations<true>,
                                          .gpu_implementations = gpu_implementations<true>};

}  // namespace

Sizes sizes_of(const Attributes& a, std::int64_t samples, std::int64_t channels, std::int64_t out) {
    Sizes s{samples, channels, 1, out, 1, a.window.rank(), 1, channels / a.groups, channels / a.offset_groups};
    for (std::int64_t i = 0; i < s.axes; ++i) {
        s.elements *= a.sizes[i];
        s.taps *= a.window.kernel[i];
        s.points *= a.positions[i];
    }
    return s;
}

Operands operands(bool backward, const Call& call) {
    const auto& a = call.attrs<Attributes>();
    const auto in = call.inputs, out = call.outputs;
    if (!backward) {
        return {in[0],
                in[1],
                in[2],
                a.mask ? &in[3] : nullptr,
                a.bias ? &in[a.mask ? 4 : 3] : nullptr,
                out[0],
                nullptr,
                nullptr,
                nullptr,
                nullptr};
    }
    return {in[0],
            in[1],
            in[2],
            a.mask ? &in[4] : nullptr,
            nullptr,
            in[3],
            a.wants_x ? &out[0] : nullptr,
            a.wants_offset ? &out[1] : nullptr,
            a.wants_weight ? &out[2] : nullptr,
            a.mask && a.wants_offset ? &out[3] : nullptr};
}

Tensor record_backward(Attributes a, std::span<const Tensor> inputs, const Where& where) {
    return graph::record(backward_operation, std::move(a), inputs, where);
}

}  // namespace calor::ops::deform

namespace calor {

Tensor deform_conv(const Tensor& x, const Tensor& offset, const Tensor& weight, const DeformConvOptions& o,
                   const Where& where) {
    const Naming naming("deform_conv");
    using namespace ops::deform;  // NOLINT: the file implements this family
    check_ranks(x, offset, weight, where);
    InlineVector<Tensor, 3> inputs{x, offset, weight};
    Attributes a;
    a.groups = o.groups;
    a.offset_groups = o.offset_groups;
    a.mask = o.mask.defined();
    a.bias = o.bias.defined();
    if (a.mask) inputs.push_back(o.mask);
    if (a.bias) inputs.push_back(o.bias);
    const std::span<const Tensor> all(inputs.begin(), inputs.size());
    a.sizes = Dims(std::span(x.shape().data() + 2, x.shape().size() - 2));
    const Dims kernel(std::span(weight.shape().data() + 2, weight.shape().size() - 2));
    a.window = ops::resolve_window(name, kernel, {o.stride, o.dilation, o.padding}, a.sizes, where);
    ops::cut_strides(a.window, a.sizes);
    check_dtypes(a, all, where);
    check_groups("conv/groups", a.groups, weight.shape()[0], "output", all, where);
    check_groups("deform/groups", a.offset_groups, x.shape()[1], "input", all, where);
    const std::int64_t expected = checked_multiply(weight.shape()[1], a.groups, where);
    if (x.shape()[1] != expected) {
        fail("conv/channels", name, where,
             {{"got", x.shape()[1]},
              {"expected", expected},
              {"per_group", weight.shape()[1]},
              {"groups", a.groups},
              {"weight", "a weight is [out, in / groups, kernel...]"}},
             describe_three(all));
    }
    a.positions = positions(a, all, where);
    std::int64_t taps = a.offset_groups;
    for (const std::int64_t k : kernel) taps = checked_multiply(taps, k, where);
    const std::int64_t n = x.shape()[0];
    check_shape("deform/offset", offset, joined(n, checked_multiply(taps, kernel.rank(), where), a.positions), all,
                where);
    if (a.mask) check_shape("deform/mask", o.mask, joined(n, taps, a.positions), all, where);
    if (a.bias && o.bias.shape() != Shape{weight.shape()[0]}) {
        fail("conv/bias", name, where, {{"got", o.bias.shape()}, {"channels", weight.shape()[0]}}, describe_three(all));
    }
    return graph::record(forward_operation, std::move(a), all, where);
}

ops::Descriptors ops::deform_descriptors() {
    return {&ops::deform::forward_operation, &ops::deform::backward_operation};
}

}  // namespace calor
