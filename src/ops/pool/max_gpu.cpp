// Max pooling on GPUs: layouts and launches of max.kernel.
#include <cmath>
#include <limits>

#include "ops/pool/max_geometry.h"
#include "ops/spatial_gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile pool_max;
}

namespace ops::pool {
namespace {

/// How the result is walked: the axes of [N, C, spatial...] in the order of its memory.
struct Order {
    Dims axes;
    std::int64_t first = 2;  ///< spatial axis

    explicit Order(const View& result) {
        const bool inside = channels_inside(result);
        axes.push_back(0);
        if (!inside) axes.push_back(1);
        for (std::int64_t a = 2; a < result.rank(); ++a) axes.push_back(a);
        if (inside) axes.push_back(1);
        first = inside ? 1 : 2;
    }
    Dims of(std::span<const std::int64_t> all) const {
        Dims ordered;
        for (const std::int64_t a : axes) ordered.push_back(all[static_cast<std::size_t>(a)]);
        return ordered;
    }
};

/// The launch of an entry with everything that all have in common but buffers. Where there is much to do the window is
/// constant.
gpu::Launch start(const graph::Call& call, const char* entry, const Order& order, DType taps) {
    const Shape& result = *call.outputs[0].shape;
    const auto& a = call.attrs<Attributes>();
    bool dilated = false;
    std::int64_t reach = 0;
    for (std::int64_t i = 0; i < a.window.rank(); ++i) {
        const Window& w = a.window;
        dilated = dilated || (w.dilation[i] != 1 && w.kernel[i] != 1);
        reach = std::max({reach, w.pad_low[i] + w.pad_high[i] + a.sizes[i], (w.kernel[i] - 1) * w.dilation[i],
                          a.positions[i] * w.stride[i], w.stride[i], w.dilation[i]});
    }
    gpu::Launch l = launch(call, kernels::pool_max, entry);
    l.constant("AXES", a.window.rank()).constant("FIRST", order.first).constant("TAP", taps);
    l.constant("NONE", no_tap_of(taps)).constant("DILATED", dilated).wide(reach >= std::int64_t{1} << 29);
    constexpr std::int64_t much = 1 << 18;
    if (numel(result) < much || reach >= std::int64_t{1} << 29) return l;
    const auto listed = [](const Dims& values) {
        std::string text = "{";
        for (const std::int64_t v : values) text += (text.size() > 1 ? ", " : "") + std::to_string(v);
        return text + "}";
    };
    l.constant("KERNELS", listed(a.window.kernel)).constant("STRIDES", listed(a.window.stride));
    return l.constant("DILATIONS", listed(a.window.dilation)).constant("PADDINGS", listed(a.window.pad_low));
}

/// Of a window that is as large as it may get, the kernel only looks at what lies in the data.
void add_window(gpu::Launch& l, const Attributes& a, const Dims& sizes) {
    const Window& w = a.window;
    l.layout(sizes, {w.kernel, w.stride, w.dilation, w.pad_low});
}

double lowest_of(DType dtype) {
    if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
    return is_signed_integer(dtype) ? -std::ldexp(1.0, static_cast<int>(8 * size_of(dtype)) - 1) : 0;
}

}  // namespace

void max_on_gpu(const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const View &x = call.inputs[0], &y = call.outputs[0];
    if (y.count() == 0) return;
    const View& taps = a.taps ? call.outputs[1] : y;
    const Order order(y);
    gpu::Launch l = start(call, "max_pool", order, tap_dtype(a.window));
    l.constant("X", x.dtype).constant("KEEP", a.taps);
    l.buffer(x).buffer(y).buffer(taps).size(y.count()).number(lowest_of(x.dtype), x.dtype);
    l.layout(order.of(*y.shape), {order.of(*x.strides), order.of(*y.strides), order.of(*taps.strides)});
    add_window(l, a, a.sizes);
    l.over(y.count());
}

void max_grad_on_gpu(const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const View &gy = call.inputs[0], &taps = call.inputs[1], &gx = call.outputs[0];
    const Order order(gx);
    gpu::Launch l = start(call, "max_pool_grad", order, taps.dtype);
    const std::int64_t n =
        order.first == 2 ? std::min<std::int64_t>(4, neighbours_of(gx.size(gx.rank() - 1), gx.dtype)) : 1;
    l.constant("X", adding(gx.dtype)).constant("V", n);
    l.buffer(gy).buffer(taps).buffer(gx).size(gx.count());
    l.layout(order.of(*gx.shape), {order.of(*gy.strides), order.of(*taps.strides), order.of(*gx.strides)});
    add_window(l, a, a.positions);
    l.over(gx.count(), n);
}

void max_take_on_gpu(const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const View &x = call.inputs[0], &taps = call.inputs[1], &y = call.outputs[0];
    const Order order(y);
    gpu::Launch l = start(call, "max_pool_take", order, taps.dtype);
    l.constant("X", adding(y.dtype)).constant("Y", adding(y.dtype)).constant("INDICES", false);
    l.buffer(x).buffer(taps).buffer(y).size(y.count());
    l.layout(order.of(*y.shape), {order.of(*taps.strides), order.of(*x.strides), order.of(*y.strides)});
    add_window(l, a, a.sizes);
    l.over(y.count());
}

void max_indices_on_gpu(const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const View &taps = call.inputs[0], &y = call.outputs[0];
    const Order order(y);
    gpu::Launch l = start(call, "max_pool_take", order, taps.dtype);
    l.constant("X", u8).constant("Y", i64).constant("INDICES", true);
    l.buffer(taps).buffer(taps).buffer(y).size(y.count());
    const Dims strides = order.of(*taps.strides);
    l.layout(order.of(*y.shape), {strides, strides, order.of(*y.strides)});
    add_window(l, a, a.sizes);
    l.over(y.count());
}

}  // namespace ops::pool
}  // namespace calor
