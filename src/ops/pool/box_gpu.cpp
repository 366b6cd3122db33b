// Max pooling over boxes on GPUs.
#include "ops/pool/box_pool.h"
#include "ops/spatial_gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile pool_boxes;
}

namespace ops::pool {

void box_on_gpu(const graph::Call& call) {
    const auto& a = call.attrs<BoxAttributes>();
    const View &x = call.inputs[0], &y = call.outputs[0], &indices = call.outputs[1];
    if (y.count() == 0) return;
    const bool inside = channels_inside(y), drawn = !a.kernel.empty();
    const Dense samples(call, call.inputs.back());
    const auto ordered = [&](std::span<const std::int64_t> all) {
        Dims list(all);
        if (inside) {
            const std::int64_t channel = list[1];
            list.erase(1);
            list.push_back(channel);
        }
        return list;
    };
    launch(call, kernels::pool_boxes, "boxes")
        .constant("AXES", a.sizes.rank())
        .constant("FIRST", inside ? 1 : 2)
        .constant("X", x.dtype)
        .constant("S", drawn ? call.inputs[1].dtype : f32)
        .constant("DRAWN", drawn)
        .buffer(x)
        .buffer(samples.view())
        .buffer(y)
        .buffer(indices)
        .size(y.count())
        .layout(ordered(*y.shape), {ordered(*x.strides), ordered(*y.strides), ordered(*indices.strides)})
        .layout(a.sizes, {drawn ? a.kernel : Dims(a.sizes.rank(), 0)})
        .over(y.count());
}

}  // namespace ops::pool
}  // namespace calor
