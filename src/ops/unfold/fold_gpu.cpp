// The adjoint of windows on GPUs.
#include "ops/spatial_gpu.h"
#include "ops/unfold/unfold.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile unfold_fold;
}

namespace ops::unfold {

void fold_on_gpu(const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const View &windows = call.inputs[0], &x = call.outputs[0];
    if (x.count() == 0) return;
    const std::int64_t rank = a.sizes.rank();
    Dims sizes, lists[7];
    std::int64_t reach = 0;
    for (std::int64_t d = 0; d < rank; ++d) {
        std::int64_t numbers[7] = {windows.stride(d), 0, a.sizes[d], 1, 1, 1, 0};
        for (std::int64_t i = 0; i < a.axes.rank(); ++i) {
            if (a.axes[i] != d) continue;
            numbers[1] = windows.stride(rank + i);
            numbers[2] = a.positions[i];
            numbers[3] = a.window.kernel[i];
            numbers[4] = a.window.stride[i];
            numbers[5] = a.window.dilation[i];
            numbers[6] = a.window.pad_low[i];
            reach = std::max({reach, numbers[2] * numbers[4], (numbers[3] - 1) * numbers[5] + 1, numbers[4], numbers[5],
                              numbers[6] + a.sizes[d]});
        }
        sizes.push_back(a.sizes[d]);
        for (std::size_t k = 0; k < 7; ++k) lists[k].push_back(numbers[k]);
    }
    launch(call, kernels::unfold_fold, "fold")
        .constant("X", adding(x.dtype))
        .constant("RANK", rank)
        .wide(reach >= std::int64_t{1} << 29)
        .buffer(windows)
        .buffer(x)
        .size(x.count())
        .layout(sizes, {lists[0], lists[1], lists[2], lists[3], lists[4], lists[5], lists[6]})
        .over(x.count());
}

}  // namespace ops::unfold
}  // namespace calor
