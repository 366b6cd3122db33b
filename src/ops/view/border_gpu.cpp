// Padding with entries of the data and its adjoint on GPUs: gathers with sources and readers that are computed.
#include <algorithm>
#include <cstdlib>

#include "ops/spatial_gpu.h"
#include "ops/view/border.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile view_border;
}

namespace ops {
namespace {

/// Axes in the order of the target's memory, joined where nothing is done to them. Sizes are the target's, strides the
/// source's.
struct Axes {
    Dims sizes, strides, low, high;

    Axes(const BorderAttributes& a, const View& source, const View& target) {
        Dims order;
        for (std::int64_t d = 0; d < target.rank(); ++d) {
            if (target.size(d) != 1 || source.size(d) != 1) order.push_back(d);
        }
        std::ranges::stable_sort(order, [&](std::int64_t p, std::int64_t q) {
            return std::abs(target.stride(p)) > std::abs(target.stride(q));
        });
        for (const std::int64_t d : order) {
            const std::int64_t last = sizes.rank() - 1;
            const bool joins = last >= 0 && low[last] + high[last] + a.low[d] + a.high[d] == 0 &&
                               strides[last] == source.stride(d) * source.size(d);
            if (joins) {
                sizes[last] *= target.size(d);
                strides[last] = source.stride(d);
                continue;
            }
            sizes.push_back(target.size(d));
            strides.push_back(source.stride(d));
            low.push_back(a.low[d]);
            high.push_back(a.high[d]);
        }
        if (!sizes.empty()) return;
        for (Dims* list : {&sizes, &strides}) list->push_back(1);
        for (Dims* list : {&low, &high}) list->push_back(0);
    }
};

std::int64_t mode_of(PadMode mode) {
    switch (mode) {
        case PadMode::reflect: return 0;
        case PadMode::symmetric: return 1;
        case PadMode::replicate: return 2;
        default: return 3;
    }
}

}  // namespace

void border_on_gpu(const graph::Call& call) {
    const View &x = call.inputs[0], &y = call.outputs[0];
    if (y.count() == 0) return;
    const auto& a = call.attrs<BorderAttributes>();
    const Axes axes(a, x, y);
    const std::int64_t count = neighbours_of(axes.sizes[axes.sizes.rank() - 1], y.dtype);
    launch(call, kernels::view_border, "pad_border")
        .constant("E", carrier(y.dtype))
        .constant("RANK", axes.sizes.rank())
        .constant("COUNT", count)
        .constant("MODE", mode_of(a.mode))
        .buffer(x)
        .buffer(y)
        .size(y.count() / count)
        .layout(axes.sizes, {axes.strides, axes.low, axes.high})
        .over(y.count() / count);
}

void border_grad_on_gpu(const graph::Call& call) {
    const View &outer = call.inputs[0], &inner = call.outputs[0];
    if (inner.count() == 0) return;
    const auto& a = call.attrs<BorderAttributes>();
    const Axes axes(a, outer, inner);
    launch(call, kernels::view_border, "pad_border_grad")
        .constant("X", inner.dtype)
        .constant("RANK", axes.sizes.rank())
        .constant("MODE", mode_of(a.mode))
        .buffer(outer)
        .buffer(inner)
        .size(inner.count())
        .layout(axes.sizes, {axes.strides, axes.low, axes.high})
        .over(inner.count());
}

}  // namespace ops
}  // namespace calor
