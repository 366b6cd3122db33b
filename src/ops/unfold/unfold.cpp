// Checks, shape and gradient rules, public functions. unfold is windows with its axes in another order; fold is the
// adjoint.
#include "calor/unfold.h"

#include "calor/view.h"
#include "ops/registry.h"
#include "ops/unfold/unfold.h"

namespace calor::ops::unfold {
namespace {

using graph::GradContext;
using graph::InferContext;
using graph::Specs;

Tensor padded(const Tensor& x, const Attributes& a, const Where& where) {
    std::vector<Padding> sides;
    for (std::int64_t i = 0; i < a.axes.rank(); ++i) sides.push_back({a.window.pad_low[i], a.window.pad_high[i]});
    return pad(x, sides, {.axes = a.axes}, where);
}

bool alias_windows(const graph::Attributes& attributes, std::size_t, const Shape&, const Layout& from, const Shape& to,
                   Layout& result) {
    const auto& a = attributes.get<Attributes>();
    result = from;
    for (std::int64_t i = 0; i < a.axes.rank(); ++i) {
        const std::int64_t stride = from.strides[a.axes[i]];
        // A step that is never taken must not overflow.
        result.strides[a.axes[i]] = to[a.axes[i]] > 1 ? stride * a.window.stride[i] : stride;
        result.strides.push_back(a.window.kernel[i] > 1 ? stride * a.window.dilation[i] : stride);
    }
    return true;
}

void windows_gradient(const GradContext& c);
void fold_gradient(const GradContext& c);

const graph::Implementation fold_implementations[] = {{.name = "fold_rows", .run = fold_rows},
                                                      {.name = "reference", .run = fold_reference}};
const graph::Implementation fold_gpu_implementations[] = {{.name = "fold_gather", .run = fold_on_gpu}};

const graph::Operation windows_operation{
    .name = "windows",
    .traits = graph::view | graph::linear,
    .infer =
        [](const InferContext& c) {
            return Specs{{c.attrs<Attributes>().windows_shape(), c.inputs[0].dtype()}};
        },
    .gradient = windows_gradient,
    .alias = alias_windows};
const graph::Operation fold_operation{
    .name = "windows_fold",
    .traits = graph::linear,
    .infer =
        [](const InferContext& c) {
            return Specs{{c.attrs<Attributes>().sizes, c.inputs[0].dtype()}};
        },
    .gradient = fold_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(fold_implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(fold_gpu_implementations); }};

void windows_gradient(const GradContext& c) {
    c.grads[0] = graph::record(fold_operation, c.attributes, {c.cotangent()}, c.where);
}
void fold_gradient(const GradContext& c) {
    Attributes a = c.attrs<Attributes>();
    const Tensor around = padded(c.cotangent(), a, c.where);
    a.sizes = around.shape();
    a.window.pad_low = a.window.pad_high = Dims(a.axes.rank(), 0);
    c.grads[0] = graph::record(windows_operation, std::move(a), {around}, c.where);
}

/// Windows over `axes` of data of shape `sizes`, checked.
Attributes resolve(std::string_view operation, const Shape& sizes, const Axes& axes, const UnfoldOptions& o,
                   const Where& where) {
    Attributes a{axes, {}, sizes, {}};
    Dims along;
    for (const std::int64_t axis : axes) along.push_back(sizes[axis]);
    const Dims kernel = per_axis(operation, "kernel", o.kernel, axes.rank(), 0, where);
    a.window = resolve_window(operation, kernel, {o.stride, o.dilation, o.padding}, along, where);
    cut_strides(a.window, along);
    for (std::int64_t i = 0; i < axes.rank(); ++i) {
        a.positions.push_back(window_positions(a.window, i, along[i], where));
        if (a.positions[i] > 0) continue;
        fail("unfold/kernel-too-large", operation, where,
             {{"extent", window_extent(a.window, i, where)},
              {"axis", axes[i]},
              {"padded", along[i] + a.window.pad_low[i] + a.window.pad_high[i]},
              {"size", along[i]},
              {"low", a.window.pad_low[i]},
              {"high", a.window.pad_high[i]}});
    }
    (void)numel(a.windows_shape(), where);
    return a;
}

Axes spatial_axes(std::string_view operation, const Tensor& x, const Where& where) {
    if (x.rank() < 3) {
        fail("shape/rank", operation, where,
             {{"argument", "the input"},
              {"got", x.rank()},
              {"expected", "3 or more: [N, C, spatial...]"},
              {"help", "insert a missing batch or channel axis with unsqueeze(); windows() takes any axes"}},
             describe(x));
    }
    Axes axes;
    for (std::int64_t a = 2; a < x.rank(); ++a) axes.push_back(a);
    return axes;
}

/// The windows of x, which is padded first.
Tensor take(const Tensor& x, Attributes a, const Where& where) {
    const Tensor around = padded(x, a, where);
    a.sizes = around.shape();
    a.window.pad_low = a.window.pad_high = Dims(a.axes.rank(), 0);
    return graph::record(windows_operation, std::move(a), {around}, where);
}

std::int64_t product(const Dims& dims, const Where& where) {
    std::int64_t all = 1;
    for (const std::int64_t d : dims) all = checked_multiply(all, d, where);
    return all;
}

}  // namespace
}  // namespace calor::ops::unfold

namespace calor {

using namespace ops::unfold;  // NOLINT: the file implements this family

Tensor windows(const Tensor& x, const WindowsOptions& options, const Where& where) {
    const Naming naming("windows");
    ops::check_defined("windows", x, "the input", where);
    Axes axes;
    if (options.axes.empty()) {
        axes = spatial_axes("windows", x, where);
    } else {
        (void)ops::normalize_axes("windows", options.axes, x.rank(), where);
        for (const std::int64_t a : options.axes) axes.push_back(ops::normalize_axis("windows", a, x.rank(), where));
    }
    const UnfoldOptions o{options.kernel, options.stride, options.padding, options.dilation};
    return take(x, resolve("windows", x.shape(), axes, o, where), where);
}

Tensor unfold(const Tensor& x, const UnfoldOptions& options, const Where& where) {
    const Naming naming("unfold");
    ops::check_defined("unfold", x, "the input", where);
    const Axes axes = spatial_axes("unfold", x, where);
    const Attributes a = resolve("unfold", x.shape(), axes, options, where);
    const std::int64_t rank = axes.rank();
    Axes order{0, 1};
    for (std::int64_t i = 0; i < rank; ++i) order.push_back(2 + rank + i);
    for (std::int64_t i = 0; i < rank; ++i) order.push_back(2 + i);
    const Shape columns{x.shape()[0], x.shape()[1] * product(a.window.kernel, where), product(a.positions, where)};
    return reshape(permute(take(x, a, where), order, where), columns, where);
}

Tensor fold(const Tensor& columns, const Dims& sizes, const UnfoldOptions& options, const Where& where) {
    const Naming naming("fold");
    ops::check_defined("fold", columns, "the columns", where);
    if (columns.rank() != 3) {
        fail("shape/rank", "fold", where,
             {{"argument", "the columns"},
              {"got", columns.rank()},
              {"expected", "3: [N, C * taps, positions]"},
              {"help", "as unfold() gives them"}},
             describe(columns));
    }
    if (columns.dtype() == boolean) {
        fail("dtype/unsupported", "fold", where,
             {{"argument", "the columns"}, {"got", columns.dtype()}, {"expected", "a dtype with a sum"}});
    }
    if (sizes.empty()) {
        fail("value/count", "fold", where, {{"option", "sizes"}, {"got", 0}, {"expected", "one a spatial axis"}});
    }
    Shape shape{columns.shape()[0], 0};
    Axes axes;
    for (const std::int64_t size : sizes) {
        if (size < 0) fail("shape/negative", "fold", where, {{"size", size}, {"shape", sizes}}, describe(columns));
        axes.push_back(shape.rank());
        shape.push_back(size);
    }
    Attributes a = resolve("fold", shape, axes, options, where);
    const std::int64_t taps = product(a.window.kernel, where), positions = product(a.positions, where);
    if (columns.shape()[1] % taps != 0 || columns.shape()[2] != positions) {
        fail("fold/columns", "fold", where,
             {{"got", columns.shape()}, {"taps", taps}, {"positions", positions}, {"sizes", sizes}}, describe(columns));
    }
    a.sizes[1] = columns.shape()[1] / taps;
    (void)checked_bytes(a.sizes, columns.dtype(), where);
    const std::int64_t rank = axes.rank();
    Shape split{a.sizes[0], a.sizes[1]};
    Axes order{0, 1};
    for (const std::int64_t k : a.window.kernel) split.push_back(k);
    for (const std::int64_t p : a.positions) split.push_back(p);
    for (std::int64_t i = 0; i < rank; ++i) order.push_back(2 + rank + i);
    for (std::int64_t i = 0; i < rank; ++i) order.push_back(2 + i);
    return graph::record(fold_operation, std::move(a), {permute(reshape(columns, split, where), order, where)}, where);
}

ops::Descriptors ops::unfold_descriptors() { return {&ops::unfold::windows_operation, &ops::unfold::fold_operation}; }

}  // namespace calor
