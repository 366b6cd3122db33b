// The public norms: checks, and which axes each normalises over.
#include "calor/norm.h"

#include <cmath>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/view.h"
#include "ops/norm/normalize.h"
#include "ops/support.h"

namespace calor {
namespace {

/// x as floating, after checks of everything but shapes.
Tensor checked(std::string_view operation, const Tensor& x, double epsilon, const Where& where) {
    ops::check_defined(operation, x, "the tensor", where);
    if (!(epsilon >= 0) || std::isinf(epsilon)) {
        fail("value/option", operation, where,
             {{"option", "epsilon"},
              {"got", epsilon},
              {"expected", "a finite number of 0 or more"},
              {"help", "1e-5 is usual"}});
    }
    return is_floating(x.dtype()) ? x : x.to(f32, where);
}

void check_rank(std::string_view operation, const Tensor& x, std::int64_t least, const char* help, const Where& where) {
    if (x.rank() >= least) return;
    fail("shape/rank", operation, where,
         {{"argument", "the input"},
          {"got", x.rank()},
          {"expected", std::to_string(least) + " or more"},
          {"help", help}},
         describe(x));
}

/// One of weight, bias, mean, variance: defined ones have the shape `expected` and the dtype of x or its compute type.
void check_parameter(std::string_view operation, const Tensor& t, std::string_view name, const Tensor& x,
                     const Shape& expected, const Where& where) {
    if (!t.defined()) return;
    const std::string operands = "input " + describe(x) + ", " + std::string(name) + " " + describe(t);
    if (t.dtype() != x.dtype() && t.dtype() != compute_type(x.dtype())) {
        fail("dtype/mismatch", operation, where,
             {{"argument", name}, {"got", t.dtype()}, {"other", "the input"}, {"expected", x.dtype()}}, operands);
    }
    if (!(t.shape() == expected)) {
        fail("shape/mismatch", operation, where,
             {{"argument", name},
              {"got", t.shape()},
              {"expected", expected},
              {"help", "one value for each channel, or for each element of the normalised axes"}},
             operands);
    }
}

/// [C] as [1, C, 1...] for an input of the given rank.
Tensor along_channels(const Tensor& t, std::int64_t rank, const Where& where) {
    if (!t.defined()) return t;
    Shape shape(rank, 1);
    shape[1] = t.shape()[0];
    return reshape(t, shape, where);
}

Axes range(std::int64_t first, std::int64_t last) {
    Axes axes;
    for (std::int64_t a = first; a < last; ++a) axes.push_back(a);
    return axes;
}

std::int64_t group_size(const Shape& shape, const Axes& axes) {
    std::int64_t n = 1;
    for (const std::int64_t a : axes) n *= shape[a];
    return n;
}

void check_several(std::string_view operation, const Tensor& x, const Axes& axes, const Where& where) {
    if (group_size(x.shape(), axes) != 1 || x.shape()[1] == 0) return;
    fail("value/option", operation, where,
         {{"option", "the number of values a channel"},
          {"got", 1},
          {"expected", "2 or more"},
          {"help", "a single value has no spread: use a larger batch, or batch_norm_inference"}},
         describe(x));
}

/// Normalises over the last axes.
Tensor normalize_last(std::string_view operation, const Tensor& x, std::int64_t axes, const Tensor& weight,
                      const Tensor& bias, ops::NormAttributes attributes, const Where& where) {
    if (axes < 1 || axes > x.rank()) {
        fail("value/option", operation, where,
             {{"option", "axes"},
              {"got", axes},
              {"expected", "1 to " + std::to_string(x.rank())},
              {"help", "it counts the axes at the end that are normalised"}},
             describe(x));
    }
    attributes.axes = range(x.rank() - axes, x.rank());
    Shape expected, full(x.rank(), 1);
    for (const std::int64_t a : attributes.axes) {
        expected.push_back(x.shape()[a]);
        full[a] = x.shape()[a];
    }
    check_parameter(operation, weight, "the weight", x, expected, where);
    check_parameter(operation, bias, "the bias", x, expected, where);
    const Tensor w = weight.defined() ? reshape(weight, full, where) : weight,
                 b = bias.defined() ? reshape(bias, full, where) : bias;
    return ops::normalize(x, w, b, attributes, where);
}

}  // namespace

BatchNormResult batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double epsilon,
                           const Where& where) {
    const Naming naming("batch_norm");
    const Tensor x = checked("batch_norm", input, epsilon, where);
    check_rank("batch_norm", x, 2, "the input is [N, C, spatial...]", where);
    const Shape channels{x.shape()[1]};
    check_parameter("batch_norm", weight, "the weight", x, channels, where);
    check_parameter("batch_norm", bias, "the bias", x, channels, where);
    Axes axes{0};
    for (std::int64_t a = 2; a < x.rank(); ++a) axes.push_back(a);
    check_several("batch_norm", x, axes, where);
    const Tensor y = ops::normalize(x, along_channels(weight, x.rank(), where), along_channels(bias, x.rank(), where),
                                    {.axes = axes, .epsilon = epsilon}, where);
    return {y, reshape(graph::result(y, 1), channels, where), reshape(graph::result(y, 2), channels, where)};
}

Tensor batch_norm_inference(const Tensor& input, const Tensor& mean, const Tensor& variance, const Tensor& weight,
                            const Tensor& bias, double epsilon, const Where& where) {
    const Naming naming("batch_norm_inference");
    constexpr std::string_view name = "batch_norm_inference";
    const Tensor x = checked(name, input, epsilon, where);
    check_rank(name, x, 2, "the input is [N, C, spatial...]", where);
    ops::check_defined(name, mean, "the mean", where);
    ops::check_defined(name, variance, "the variance", where);
    const Shape channels{x.shape()[1]};
    const std::pair<const Tensor*, std::string_view> parameters[] = {
        {&mean, "the mean"}, {&variance, "the variance"}, {&weight, "the weight"}, {&bias, "the bias"}};
    for (const auto& [t, what] : parameters) check_parameter(name, *t, what, x, channels, where);
    Axes axes{0};
    for (std::int64_t a = 2; a < x.rank(); ++a) axes.push_back(a);
    const auto spread = [&](const Tensor& t) { return along_channels(t, x.rank(), where); };
    return ops::normalize_given(x, spread(mean), spread(variance), spread(weight), spread(bias),
                                {.axes = axes, .epsilon = epsilon}, where);
}

Tensor layer_norm(const Tensor& input, std::int64_t axes, const Tensor& weight, const Tensor& bias, double epsilon,
                  const Where& where) {
    const Naming naming("layer_norm");
    const Tensor x = checked("layer_norm", input, epsilon, where);
    return normalize_last("layer_norm", x, axes, weight, bias, {.epsilon = epsilon}, where);
}

Tensor rms_norm(const Tensor& input, std::int64_t axes, const Tensor& weight, double epsilon, const Where& where) {
    const Naming naming("rms_norm");
    const Tensor x = checked("rms_norm", input, epsilon, where);
    return normalize_last("rms_norm", x, axes, weight, {}, {.epsilon = epsilon, .centred = false}, where);
}

Tensor group_norm(const Tensor& input, std::int64_t groups, const Tensor& weight, const Tensor& bias, double epsilon,
                  const Where& where) {
    const Naming naming("group_norm");
    const Tensor x = checked("group_norm", input, epsilon, where);
    check_rank("group_norm", x, 2, "the input is [N, C, spatial...]", where);
    const std::int64_t channels = x.shape()[1];
    if (groups < 1 || channels % groups != 0) {
        fail("value/option", "group_norm", where,
             {{"option", "groups"},
              {"got", groups},
              {"expected", "a divisor of the " + std::to_string(channels) + " channels"},
              {"help", "1 normalises over all channels, C over each alone"}},
             describe(x));
    }
    check_parameter("group_norm", weight, "the weight", x, {channels}, where);
    check_parameter("group_norm", bias, "the bias", x, {channels}, where);
    Shape affine(x.rank(), 1);
    affine[1] = channels;
    affine = ops::grouped_shape(affine, groups);
    const auto parameter = [&](const Tensor& t) { return t.defined() ? reshape(t, affine, where) : t; };
    return ops::normalize(x, parameter(weight), parameter(bias),
                          {.axes = range(2, x.rank() + 1), .epsilon = epsilon, .channel_groups = groups}, where);
}

Tensor instance_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double epsilon,
                     const Where& where) {
    const Naming naming("instance_norm");
    const Tensor x = checked("instance_norm", input, epsilon, where);
    check_rank("instance_norm", x, 3, "the input is [N, C, spatial...] with at least one spatial axis", where);
    check_parameter("instance_norm", weight, "the weight", x, {x.shape()[1]}, where);
    check_parameter("instance_norm", bias, "the bias", x, {x.shape()[1]}, where);
    const Axes axes = range(2, x.rank());
    if (x.shape()[0] != 0) check_several("instance_norm", x, axes, where);
    return ops::normalize(x, along_channels(weight, x.rank(), where), along_channels(bias, x.rank(), where),
                          {.axes = axes, .epsilon = epsilon}, where);
}

}  // namespace calor
