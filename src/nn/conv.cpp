// Convolution layers.
#include "calor/nn/conv.h"

#include "core/fail.h"
#include "nn/layer_support.h"

namespace calor::nn {
namespace {

constexpr std::int64_t most_axes = 64;

/// What both layers have in common.
struct Geometry {
    Dims kernel;
    std::int64_t elements = 1;  ///< of the kernel
};

Geometry check_geometry(std::string_view layer, std::int64_t in, std::int64_t out, std::int64_t groups,
                        const PerAxis& kernel, const PerAxis& stride, const PerAxis& dilation, std::int64_t axes,
                        const Where& where) {
    check_at_least(layer, "in", in, 1, where);
    check_at_least(layer, "out", out, 1, where);
    check_at_least(layer, "groups", groups, 1, where);
    for (const auto& [name, channels] : {std::pair{"in", in}, std::pair{"out", out}}) {
        if (channels % groups == 0) continue;
        fail("value/option", layer, where,
             {{"option", name},
              {"got", channels},
              {"expected", "a multiple of groups, " + std::to_string(groups)},
              {"help", "channels are split in equal groups"}});
    }
    check_at_least(layer, "axes", axes, 0, where);
    if (axes > most_axes) {
        fail("value/option", layer, where,
             {{"option", "axes"},
              {"got", axes},
              {"expected", "at most " + std::to_string(most_axes)},
              {"help", "it is the number of spatial axes, not a size"}});
    }
    if (axes == 0) axes = kernel.scalar() ? 0 : kernel.values().rank();
    if (axes == 0) {
        fail("value/count", layer, where,
             {{"option", "kernel"},
              {"got", kernel.given() ? 1 : 0},
              {"expected", "one number a spatial axis, or .axes beside it"}});
    }
    Geometry g{check_per_axis(layer, "kernel", kernel, axes, 1, where), 1};
    (void)check_per_axis(layer, "stride", stride, axes, 1, where);
    (void)check_per_axis(layer, "dilation", dilation, axes, 1, where);
    for (const std::int64_t size : g.kernel) g.elements = checked_multiply(g.elements, size, where);
    return g;
}

Shape weight_shape(std::int64_t first, std::int64_t second, const Dims& kernel) {
    Shape shape{first, second};
    for (const std::int64_t size : kernel) shape.push_back(size);
    return shape;
}

}  // namespace

Conv::Conv(const Options& o, const Where& where)
    : options_{.stride = o.stride,
               .padding = o.padding,
               .padding_mode = o.padding_mode,
               .dilation = o.dilation,
               .groups = o.groups} {
    const Naming naming("Conv");
    const Geometry g = check_geometry("Conv", o.in, o.out, o.groups, o.kernel, o.stride, o.dilation, o.axes, where);
    const std::int64_t fan = checked_multiply(o.in / o.groups, g.elements, where);
    weight = default_parameter(weight_shape(o.out, o.in / o.groups, g.kernel), fan, o.dtype, where);
    if (o.bias) bias = default_parameter({o.out}, fan, o.dtype, where);
}

Tensor Conv::operator()(const Tensor& x, const Where& where) const {
    return conv(x, weight, bias.optional(), options_, where);
}

ConvTranspose::ConvTranspose(const Options& o, const Where& where)
    : options_{.stride = o.stride,
               .padding = o.padding,
               .output_padding = o.output_padding,
               .output_size = o.output_size,
               .dilation = o.dilation,
               .groups = o.groups} {
    const Naming naming("ConvTranspose");
    const Geometry g =
        check_geometry("ConvTranspose", o.in, o.out, o.groups, o.kernel, o.stride, o.dilation, o.axes, where);
    const std::int64_t fan = checked_multiply(o.out / o.groups, g.elements, where);
    weight = default_parameter(weight_shape(o.in, o.out / o.groups, g.kernel), fan, o.dtype, where);
    if (o.bias) bias = default_parameter({o.out}, fan, o.dtype, where);
}

Tensor ConvTranspose::operator()(const Tensor& x, const Where& where) const {
    return conv_transpose(x, weight, bias.optional(), options_, where);
}

Tensor ConvTranspose::operator()(const Tensor& x, const PerAxis& output_size, const Where& where) const {
    calor::ConvTransposeOptions options = options_;
    options.output_size = output_size;
    return conv_transpose(x, weight, bias.optional(), options, where);
}

}  // namespace calor::nn
