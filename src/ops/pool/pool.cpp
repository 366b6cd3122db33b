// Max pooling: checks, shape and gradient rules, public functions.
#include "calor/pool.h"

#include "ops/pool/max_geometry.h"
#include "ops/registry.h"

namespace calor::ops::pool {
namespace {

using graph::Call;
using graph::GradContext;
using graph::InferContext;
using graph::Specs;

Shape joined(const Shape& outer, const Dims& spatial) {
    Shape shape{outer[0], outer[1]};
    for (const std::int64_t s : spatial) shape.push_back(s);
    return shape;
}

/// Shapes follow from the attributes, which the public functions have checked; gradients come from the rules below.
Specs infer_to_positions(const InferContext& c) {
    const auto& a = c.attrs<Attributes>();
    Specs specs{{joined(c.inputs[0].shape(), a.positions), c.inputs[0].dtype()}};
    if (a.taps) specs.push_back({specs[0].shape, tap_dtype(a.window)});
    return specs;
}
Specs infer_to_sizes(const InferContext& c) {
    return {{joined(c.inputs[0].shape(), c.attrs<Attributes>().sizes), c.inputs[0].dtype()}};
}
Specs infer_indices(const InferContext& c) { return {{c.inputs[0].shape(), i64}}; }

bool channels_last(const View& v) { return v.size(1) > 1 && v.stride(1) == 1 && v.count() > 0; }
/// Results lie as the saved taps do, else as the input.
graph::Format format(const Call& call) {
    return channels_last(call.inputs.back()) ? graph::Format::channels_last : graph::Format::plain;
}

template <void (*fast)(const Call&), Kind kind> std::span<const graph::Implementation> implementations(DeviceKind) {
    static const graph::Implementation list[] = {
        {.name = "pool_loops", .run = fast},
        {.name = "reference", .run = [](const Call& call) { run_reference(kind, call); }}};
    return list;
}

template <void (*run)(const Call&)> std::span<const graph::Implementation> gpu_implementations() {
    static const graph::Implementation list[] = {{.name = "pool_gather", .run = run}};
    return list;
}

void max_gradient(const GradContext& c);
void max_grad_gradient(const GradContext& c);
void max_take_gradient(const GradContext& c);

const graph::Operation max_operation{.name = "max_pool",
                                     .infer = infer_to_positions,
                                     .gradient = max_gradient,
                                     .implementations = implementations<max_forward, Kind::max>,
                                     .gpu_implementations = gpu_implementations<max_on_gpu>,
                                     .format = format};
const graph::Operation max_grad_operation{.name = "max_pool_grad",
                                          .traits = graph::linear,
                                          .infer = infer_to_sizes,
                                          .gradient = max_grad_gradient,
                                          .implementations = implementations<max_grad, Kind::max_grad>,
                                          .gpu_implementations = gpu_implementations<max_grad_on_gpu>,
                                          .format = format};
const graph::Operation max_take_operation{.name = "max_pool_take",
                                          .traits = graph::linear,
                                          .infer = infer_to_positions,
                                          .gradient = max_take_gradient,
                                          .implementations = implementations<max_take, Kind::max_take>,
                                          .gpu_implementations = gpu_implementations<max_take_on_gpu>,
                                          .format = format};
const graph::Operation indices_operation{.name = "pool_indices",
                                         .infer = infer_indices,
                                         .implementations = implementations<max_indices, Kind::indices>,
                                         .gpu_implementations = gpu_implementations<max_indices_on_gpu>,
                                         .format = format};

void max_gradient(const GradContext& c) {
    Attributes a = c.attrs<Attributes>();
    a.taps = false;
    c.grads[0] = graph::record(max_grad_operation, a, {c.cotangent(), c.outputs[1]}, c.where);
}
void max_grad_gradient(const GradContext& c) {
    c.grads[0] = graph::record(max_take_operation, c.attributes, {c.cotangent(), c.inputs[1]}, c.where);
}
void max_take_gradient(const GradContext& c) {
    c.grads[0] = graph::record(max_grad_operation, c.attributes, {c.cotangent(), c.inputs[1]}, c.where);
}

/// Taps of windows larger than the data that lie in the padding at every position are left out: work and tables follow
/// the data, not the kernel.
void cut_kernels(Attributes& a) {
    Window& w = a.window;
    for (std::int64_t i = 0; i < w.rank(); ++i) {
        if (w.kernel[i] <= a.sizes[i]) continue;
        if (a.sizes[i] == 0) w.kernel[i] = 1;
        if (w.kernel[i] == 1) continue;
        const std::int64_t before = std::max<std::int64_t>(0, w.pad_low[i] - (a.positions[i] - 1) * w.stride[i]);
        const std::int64_t first = before / w.dilation[i];
        const std::int64_t last = (a.sizes[i] - 1 + w.pad_low[i]) / w.dilation[i];
        w.kernel[i] = std::min(w.kernel[i] - 1, last) - first + 1;
        w.pad_low[i] -= first * w.dilation[i];
    }
}

Attributes resolve(std::string_view operation, const Tensor& x, const MaxPoolOptions& o, const Where& where) {
    check_defined(operation, x, "the input", where);
    if (x.rank() < 3) fail("pool/rank", operation, where, {{"got", x.rank()}}, describe(x));
    Attributes a;
    a.sizes = Dims(std::span(x.shape().data() + 2, x.shape().size() - 2));
    const Dims kernel = per_axis(operation, "kernel", o.kernel, a.sizes.rank(), 0, where);
    const PerAxis stride = o.stride.given() ? o.stride : PerAxis(kernel);
    a.window = resolve_window(operation, kernel, {stride, o.dilation, o.padding}, a.sizes, where);
    cut_strides(a.window, a.sizes);
    for (std::int64_t i = 0; i < kernel.rank(); ++i) {
        a.positions.push_back(pool_positions(operation, a.window, i, a.sizes[i], o.ceil_mode, x, where));
    }
    cut_kernels(a);
    std::int64_t taps = 1;
    for (const std::int64_t k : a.window.kernel) taps = checked_multiply(taps, k, where);
    if (taps >= INT32_MAX) {
        fail("value/option", operation, where,
             {{"option", "kernel"},
              {"got", kernel},
              {"expected", "fewer than 2^31 - 1 taps"},
              {"help", "use a reduction such as max()"}});
    }
    return a;
}

}  // namespace

std::int64_t tap_count(const Window& window) {
    std::int64_t taps = 1;
    for (const std::int64_t k : window.kernel) taps *= k;
    return taps;
}

DType tap_dtype(const Window& window) { return tap_count(window) <= 255 ? u8 : i32; }

}  // namespace calor::ops::pool

namespace calor {

using namespace ops::pool;  // NOLINT: the file implements this family

Tensor max_pool(const Tensor& x, const MaxPoolOptions& options, const Where& where) {
    const Naming naming("max_pool");
    Attributes a = resolve("max_pool", x, options, where);
    a.taps = x.tracked() && grad_enabled();
    return graph::record(max_operation, std::move(a), {x}, where);
}

MaxPoolResult max_pool_with_indices(const Tensor& x, const MaxPoolOptions& options, const Where& where) {
    const Naming naming("max_pool_with_indices");
    Attributes a = resolve("max_pool_with_indices", x, options, where);
    a.taps = true;
    const Tensor values = graph::record(max_operation, a, {x}, where);
    return {values, graph::record(indices_operation, a, {graph::result(values, 1)}, where)};
}

ops::Descriptors ops::pool_descriptors() {
    return {&ops::pool::max_operation, &ops::pool::max_grad_operation, &ops::pool::max_take_operation,
            &ops::pool::indices_operation};
}

}  // namespace calor
