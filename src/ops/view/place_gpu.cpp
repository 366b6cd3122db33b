// pad and slice_grad on GPUs: one pass over the result, whose threads read or fill what is theirs.
#include "ops/spatial_gpu.h"
#include "ops/view/place.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile view_place;
}

namespace ops {
namespace {

/// Axes of x and y side by side. A flipped axis of x is walked the other way, so that steps are positive; whole axes
/// join the one before them.
struct Plan {
    Dims sizes, strides, starts, behind, steps;
    const std::byte* data;
    bool stepped = false;

    Plan(const View& x, const View& y, const Ranges& ranges) : data(x.as<const std::byte>()) {
        for (std::int64_t a = 0; a < x.rank(); ++a) {
            std::int64_t stride = x.stride(a), start = ranges.starts[a], step = ranges.steps[a];
            const std::int64_t n = x.size(a), size = y.size(a);
            if (n <= 1) step = 1;
            if (step < 0) {
                data += (n - 1) * stride * size_of(x.dtype);
                start += (n - 1) * step;
                stride = -stride;
                step = -step;
            }
            const std::int64_t rest = size - start - (n - 1) * step - 1;
            const std::int64_t last = sizes.rank() - 1;
            const bool whole = start == 0 && step == 1 && rest == 0;
            if (last >= 0 && whole && steps[last] == 1 && strides[last] == stride * n) {
                sizes[last] *= size;
                starts[last] *= size;
                behind[last] *= size;
                strides[last] = stride;
                continue;
            }
            sizes.push_back(size);
            strides.push_back(stride);
            starts.push_back(start);
            behind.push_back(rest);
            steps.push_back(step);
            stepped = stepped || step != 1;
        }
        if (!sizes.empty()) return;
        for (Dims* list : {&sizes, &strides, &steps}) list->push_back(1);
        for (Dims* list : {&starts, &behind}) list->push_back(0);
    }
};

}  // namespace

void place_on_gpu(const graph::Call& call) {
    const View &x = call.inputs[0], &y = call.outputs[0];
    if (y.count() == 0) return;
    const auto& attributes = call.attrs<PlaceAttributes>();
    const Plan plan(x, y, attributes.ranges);
    const std::int64_t count = neighbours_of(plan.sizes[plan.sizes.rank() - 1], y.dtype);
    launch(call, kernels::view_place, "place")
        .constant("E", carrier(y.dtype))
        .constant("RANK", plan.sizes.rank())
        .constant("COUNT", count)
        .constant("STEPPED", plan.stepped)
        .wide(reaches_far(x))
        .buffer(plan.data)
        .buffer(y)
        .size(y.count() / count)
        .value(attributes.value)
        .layout(plan.sizes, {plan.strides, plan.starts, plan.behind, plan.steps})
        .over(y.count() / count);
}

}  // namespace ops
}  // namespace calor
