// place: a tensor put into a larger one that is filled with a constant. It is pad, and the gradient of slice.
//   y[start + i * step] = x[i], y = value elsewhere; entries of x that fall outside y are dropped.
#include "ops/view/place.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"

namespace calor {
namespace {

using graph::GradContext;
using graph::InferContext;
using graph::Specs;
using ops::Ranges;

struct PlaceAttributes {
    Ranges ranges;
    std::uint64_t value = 0;  ///< the bytes of one element
    friend bool operator==(const PlaceAttributes&, const PlaceAttributes&) = default;
};

Specs infer_place(const InferContext& c) { return {{c.attrs<PlaceAttributes>().ranges.shape, c.inputs[0].dtype()}}; }

void place_gradient(const GradContext& c) {
    Ranges ranges = c.attrs<PlaceAttributes>().ranges;
    ranges.shape = c.inputs[0].shape();
    c.grads[0] = ops::take_ranges(c.cotangent(), ranges, c.where);
}

/// Axes of x and y side by side, trailing whole axes joined to the one before them.
struct Plan {
    Dims in, out, starts, steps, strides;

    Plan(const View& x, const View& y, const Ranges& ranges) {
        for (std::int64_t a = 0; a < x.rank(); ++a) {
            const std::int64_t last = in.rank() - 1;
            const bool is_whole = ranges.starts[a] == 0 && ranges.steps[a] == 1 && x.size(a) == y.size(a);
            if (last >= 0 && is_whole && steps[last] == 1 && strides[last] == x.stride(a) * x.size(a)) {
                in[last] *= x.size(a);
                out[last] *= x.size(a);
                starts[last] *= x.size(a);
                strides[last] = x.stride(a);
                continue;
            }
            in.push_back(x.size(a));
            out.push_back(y.size(a));
            starts.push_back(ranges.starts[a]);
            steps.push_back(ranges.steps[a]);
            strides.push_back(x.stride(a));
        }
        if (in.empty()) {
            for (Dims* list : {&in, &out, &steps, &strides}) list->push_back(1);
            starts.push_back(0);
        }
    }

    /// The index of x that lands on `at` of y along an axis, or -1.
    std::int64_t source(std::int64_t axis, std::int64_t at) const {
        const std::int64_t distance = (at - starts[axis]) * (steps[axis] < 0 ? -1 : 1);
        const std::int64_t step = steps[axis] < 0 ? -steps[axis] : steps[axis];
        if (distance < 0 || distance % step != 0) return -1;
        return distance / step < in[axis] ? distance / step : -1;
    }
};

void place_row(const Plan& plan, const std::byte* x, std::byte* y, std::int64_t size, const void* value) {
    const std::int64_t last = plan.in.rank() - 1, start = plan.starts[last], step = plan.steps[last];
    const std::int64_t stride = plan.strides[last], width = plan.out[last];
    if (step == 1) {
        const std::int64_t count = plan.in[last];
        cpu::fill(y, size, start, value);
        cpu::gather(y + start * size, x, stride, size, count);
        cpu::fill(y + (start + count) * size, size, width - start - count, value);
        return;
    }
    cpu::fill(y, size, width, value);
    for (std::int64_t i = 0; i < plan.in[last]; ++i) {
        std::memcpy(y + (start + i * step) * size, x + i * stride * size, static_cast<std::size_t>(size));
    }
}

void place(const graph::Call& c) {
    const View &x = c.inputs[0], &y = c.outputs[0];
    const auto& attributes = c.attrs<PlaceAttributes>();
    if (y.count() == 0) return;
    const Plan plan(x, y, attributes.ranges);
    const std::int64_t last = plan.in.rank() - 1, size = size_of(x.dtype), width = plan.out[last];
    const bool nothing = x.count() == 0;
    cpu::parallel_for(y.count() / width, std::max<std::int64_t>(1, 16384 / width),
                      [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t row = begin; row < end; ++row) {
                              std::int64_t rest = row, offset = 0;
                              bool covered = !nothing;
                              for (std::int64_t a = last - 1; a >= 0 && covered; --a) {
                                  const std::int64_t i = plan.source(a, rest % plan.out[a]);
                                  rest /= plan.out[a];
                                  covered = i >= 0;
                                  offset += i * plan.strides[a];
                              }
                              std::byte* to = y.as<std::byte>() + row * width * size;
                              if (!covered) {
                                  cpu::fill(to, size, width, &attributes.value);
                                  continue;
                              }
                              place_row(plan, x.as<const std::byte>() + offset * size, to, size, &attributes.value);
                          }
                      });
}

/// One element of the result at a time.
void place_reference(const graph::Call& c) {
    const View &x = c.inputs[0], &y = c.outputs[0];
    const auto& [ranges, value] = c.attrs<PlaceAttributes>();
    const std::int64_t size = size_of(x.dtype);
    Dims at(y.rank(), 0);
    for (std::int64_t i = 0, n = y.count(); i < n; ++i) {
        const void* source = &value;
        std::int64_t offset = 0;
        bool covered = true;
        for (std::int64_t a = 0; a < y.rank(); ++a) {
            const std::int64_t distance = at[a] - ranges.starts[a], step = ranges.steps[a];
            covered = covered && distance % step == 0 && distance / step >= 0 && distance / step < x.size(a);
            offset += distance / step * x.stride(a);
        }
        if (covered) source = x.as<const std::byte>() + offset * size;
        std::memcpy(y.as<std::byte>() + i * size, source, static_cast<std::size_t>(size));
        for (std::int64_t a = y.rank() - 1; a >= 0 && ++at[a] == y.size(a); --a) at[a] = 0;
    }
}

const graph::Implementation implementations[] = {{.name = "place", .run = place},
                                                 {.name = "reference", .run = place_reference}};
std::span<const graph::Implementation> list(DeviceKind) { return implementations; }

const graph::Operation slice_grad_operation{.name = "slice_grad",
                                            .traits = graph::linear,
                                            .infer = infer_place,
                                            .gradient = place_gradient,
                                            .implementations = list};
const graph::Operation pad_operation{
    .name = "pad", .infer = infer_place, .gradient = place_gradient, .implementations = list};

}  // namespace

Tensor ops::place_ranges(const Tensor& x, const Ranges& ranges, const Where& where) {
    return graph::record(slice_grad_operation, PlaceAttributes{ranges, 0}, {x}, where);
}

Tensor ops::place_in_constant(const Tensor& x, const Ranges& ranges, std::uint64_t bits, const Where& where) {
    return graph::record(pad_operation, PlaceAttributes{ranges, bits}, {x}, where);
}

}  // namespace calor
