// Convolution: the public functions. They check ranks, resolve options to one number an axis, and record.
#include <fmt/format.h>

#include <algorithm>

#include "calor/conv.h"
#include "calor/creation.h"
#include "graph/node.h"
#include "ops/conv/conv.h"

namespace calor::ops::conv {
namespace {

std::string describe_two(std::string_view a_name, const Tensor& a, std::string_view b_name, const Tensor& b) {
    return fmt::format("{} {}, {} {}", a_name, describe(a), b_name, describe(b));
}

Dims spatial_of(const Tensor& t) { return Dims(std::span(t.shape().data() + 2, t.shape().size() - 2)); }

/// Both ranks are those of a convolution, and equal.
void check_ranks(std::string_view operation, const Tensor& x, const Tensor& w, const Where& where) {
    check_defined(operation, x, "the input", where);
    check_defined(operation, w, "the weight", where);
    const auto both = [&] { return describe_two("input", x, "weight", w); };
    if (w.rank() < 3) {
        fail("shape/rank", operation, where,
             {{"argument", "the weight"},
              {"got", w.rank()},
              {"expected", "3 or more"},
              {"help", "a weight is [out, in / groups, kernel...] with at least one spatial axis"}},
             both());
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
         both());
}

Attributes resolve(std::string_view operation, const Dims& kernel, const Dims& sizes, const ConvOptions& o,
                   const Where& where) {
    Window window = resolve_window(operation, kernel, {o.stride, o.dilation, o.padding}, sizes, where);
    cut_strides(window, sizes);
    return {std::move(window), o.groups, sizes, false};
}

/// Padding with entries of the input: the input is padded first, and the convolution then has no padding.
bool has_border(const Attributes& a, PadMode mode) {
    const auto some = [](const Dims& list) {
        return std::any_of(list.begin(), list.end(), [](auto p) { return p > 0; });
    };
    return mode != PadMode::constant && (some(a.window.pad_low) || some(a.window.pad_high));
}

std::vector<Padding> border_of(const Attributes& a) {
    std::vector<Padding> border;
    for (std::int64_t i = 0; i < a.window.rank(); ++i) border.push_back({a.window.pad_low[i], a.window.pad_high[i]});
    return border;
}

/// The attributes of the convolution of the padded input.
Attributes inside_border(Attributes a, const Where& where) {
    for (std::int64_t i = 0; i < a.window.rank(); ++i) {
        a.sizes[i] = checked_add(a.sizes[i], checked_add(a.window.pad_low[i], a.window.pad_high[i], where), where);
        a.window.pad_low[i] = a.window.pad_high[i] = 0;
    }
    return a;
}

/// The adjoint of padding: every entry of a [N, C, sizes...] gets the sum of the gradients of its copies. The gradient
/// rule of pad() records it; the zeros that it is asked about are never computed.
Tensor fold_border(const Tensor& g, const Dims& sizes, const std::vector<Padding>& border, PadMode mode,
                   const Where& where) {
    Shape shape{g.shape()[0], g.shape()[1]};
    for (const std::int64_t s : sizes) shape.push_back(s);
    const OnDevice scope(g.device());
    const Tensor padded =
        pad(expand(zeros(Shape(shape.rank(), 1), g.dtype(), where), shape, where), border, mode, where);
    const graph::Node& node = *padded.node();
    Tensor folded;
    const bool needed = true;
    const graph::GradContext context{node.attributes, node.inputs,  {&padded, 1}, {&g, 1},
                                     {&needed, 1},    {&folded, 1}, where};
    node.operation->gradient(context);
    return folded;
}

void check_count(std::string_view operation, std::string_view option, const Dims& list, std::int64_t expected,
                 const Where& where) {
    if (list.rank() != expected) {
        fail("value/count", operation, where, {{"option", option}, {"got", list.rank()}, {"expected", expected}});
    }
    for (const std::int64_t s : list) check_option(operation, option, s, 0, where);
}

constexpr std::string_view transpose_name = "conv_transpose";

/// How many positions past the least size a transposed convolution may have along an axis: beyond the stride or the
/// dilation, whichever is larger, there would be rows that no tap could ever reach.
std::int64_t most_extra(const Window& w, std::int64_t a) { return std::max(w.stride[a], w.dilation[a]) - 1; }

[[noreturn]] void fail_size(const ConvTransposeOptions& o, std::int64_t got, std::int64_t least, std::int64_t most,
                            const Where& where) {
    const bool size = o.output_size.given();
    fail("value/option", transpose_name, where,
         {{"option", size ? "output_size" : "output_padding"},
          {"got", got},
          {"expected", size ? fmt::format("{} or up to {} more", least, most) : fmt::format("0 to {}", most)},
          {"help", "less padding or a larger output_padding gives a larger result"}});
}

/// Spatial sizes of the result of a transposed convolution, and its padding.
Attributes resolve_transpose(const Dims& in, const Dims& kernel, const ConvTransposeOptions& o, const Where& where) {
    const std::int64_t n = kernel.rank();
    Dims sizes(n, 0);
    const Dims stride = per_axis(transpose_name, "stride", o.stride, n, 1, where);
    for (std::int64_t a = 0; a < n; ++a) {
        check_not_empty(transpose_name, "input", in, a, where);
        if (o.padding.is_same()) sizes[a] = checked_multiply(in[a], std::max<std::int64_t>(stride[a], 1), where);
    }
    Attributes out{resolve_window(transpose_name, kernel, {o.stride, o.dilation, o.padding}, sizes, where), o.groups,
                   sizes, false};
    const Dims extra = per_axis(transpose_name, "output_padding", o.output_padding, n, 0, where);
    const Dims asked = per_axis(transpose_name, "output_size", o.output_size, n, -1, where);
    for (std::int64_t a = 0; a < n; ++a) {
        Window& w = out.window;
        check_option(transpose_name, "output_padding", extra[a], 0, where);
        const std::int64_t reach =
            checked_add(checked_multiply(in[a] - 1, w.stride[a], where), window_extent(w, a, where), where);
        const std::int64_t least = reach - checked_add(w.pad_low[a], w.pad_high[a], where);
        out.sizes[a] = o.padding.is_same() ? sizes[a] : checked_add(least, extra[a], where);
        if (o.output_size.given()) out.sizes[a] = asked[a];
        std::int64_t more = 0;
        if (__builtin_sub_overflow(out.sizes[a], least, &more) || more < 0 || more > most_extra(w, a)) {
            fail_size(o, o.output_size.given() ? asked[a] : extra[a], least, most_extra(w, a), where);
        }
        if (out.sizes[a] < 1) {
            fail("value/option", transpose_name, where,
                 {{"option", "padding"},
                  {"got", reach - least},
                  {"expected", fmt::format("both sides together less than {}", reach)},
                  {"help", "padding is cut off the result, of which nothing would be left"}});
        }
        // A convolution of the result has the input's size: a whole stride more at the end is cut off again.
        w.pad_high[a] -= more / w.stride[a] * w.stride[a];
    }
    cut_strides(out.window, out.sizes);
    return out;
}

}  // namespace

void check_not_empty(std::string_view operation, std::string_view what, const Dims& sizes, std::int64_t axis,
                     const Where& where) {
    if (sizes[axis] > 0) return;
    fail("conv/empty", operation, where, {{"what", what}, {"axis", axis}, {"sizes", sizes}});
}

}  // namespace calor::ops::conv

namespace calor {

using namespace ops::conv;  // NOLINT: the file implements this family

Tensor conv(const Tensor& x, const Tensor& weight, const ConvOptions& options, const Where& where) {
    const Naming naming("conv");
    return conv(x, weight, Tensor(), options, where);
}

Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options, const Where& where) {
    const Naming naming("conv");
    check_ranks("conv", x, weight, where);
    const Attributes a = resolve("conv", spatial_of(weight), spatial_of(x), options, where);
    if (!has_border(a, options.padding_mode)) return forward(x, weight, bias, a, where);
    return forward(pad(x, border_of(a), options.padding_mode, where), weight, bias, inside_border(a, where), where);
}

Tensor conv_input_grad(const Tensor& gy, const Tensor& weight, const Dims& sizes, const ConvOptions& options,
                       const Where& where) {
    const Naming naming("conv_input_grad");
    constexpr std::string_view name = "conv_input_grad";
    check_ranks(name, gy, weight, where);
    check_count(name, "sizes", sizes, weight.rank() - 2, where);
    const Attributes a = resolve(name, spatial_of(weight), sizes, options, where);
    if (!has_border(a, options.padding_mode)) return input_grad(gy, weight, a, where);
    for (std::int64_t i = 0; i < sizes.rank(); ++i) check_not_empty(name, "input", sizes, i, where);
    const Tensor gx = input_grad(gy, weight, inside_border(a, where), where);
    return fold_border(gx, sizes, border_of(a), options.padding_mode, where);
}

Tensor conv_weight_grad(const Tensor& x, const Tensor& gy, const Dims& kernel, const ConvOptions& options,
                        const Where& where) {
    const Naming naming("conv_weight_grad");
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
    const Attributes a = resolve(name, kernel, spatial_of(x), options, where);
    if (!has_border(a, options.padding_mode)) return weight_grad(x, gy, a, false, where);
    const Tensor padded = pad(x, border_of(a), options.padding_mode, where);
    return weight_grad(padded, gy, inside_border(a, where), false, where);
}

Tensor conv_transpose(const Tensor& x, const Tensor& weight, const ConvTransposeOptions& options, const Where& where) {
    const Naming naming("conv_transpose");
    return conv_transpose(x, weight, Tensor(), options, where);
}

Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& options,
                      const Where& where) {
    const Naming naming("conv_transpose");
    check_ranks(transpose_name, x, weight, where);
    return transposed(x, weight, bias, resolve_transpose(spatial_of(x), spatial_of(weight), options, where), where);
}

}  // namespace calor
