// place: a tensor put into a larger one that is filled with a constant. It is pad, and the gradient of slice.
//   y[start + i * step] = x[i], y = value elsewhere; entries of x that fall outside y are dropped.
#include "ops/view/place.h"

#include <algorithm>
#include <cstring>

#include "calor/view.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "graph/node.h"

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

const graph::Implementation implementations[] = {{.name = "place", .run = place}};
std::span<const graph::Implementation> list(DeviceKind) { return implementations; }

const graph::Operation slice_grad_operation{.name = "slice_grad",
                                            .traits = graph::linear,
                                            .infer = infer_place,
                                            .gradient = place_gradient,
                                            .implementations = list};
const graph::Operation pad_operation{
    .name = "pad", .infer = infer_place, .gradient = place_gradient, .implementations = list};

std::uint64_t element_bits(const Scalar& value, DType dtype, const Where& where) {
    const bool flag = dtype == boolean && value.kind() == Scalar::Kind::integer;
    const Tensor one = scalar(flag ? Scalar(value.integer() != 0) : value, dtype, where);
    std::uint64_t bits = 0;
    std::memcpy(&bits, graph::view_of(graph::value_of(one)).data, static_cast<std::size_t>(size_of(dtype)));
    return bits;
}

}  // namespace

Tensor ops::place_ranges(const Tensor& x, const Ranges& ranges, const Where& where) {
    return graph::record(slice_grad_operation, PlaceAttributes{ranges, 0}, {x}, where);
}

Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, Scalar value, const Where& where) {
    ops::check_defined("pad", x, "the tensor", where);
    const std::int64_t rank = x.rank(), lead = rank - std::ssize(paddings);
    if (lead < 0) {
        fail("value/count", "pad", where,
             {{"option", "paddings"}, {"got", std::ssize(paddings)}, {"expected", "at most " + std::to_string(rank)}},
             describe(x));
    }
    // Cut first, then surround: what is placed lies inside.
    Ranges cut{x.shape(), Dims(rank, 0), Dims(rank, 1)}, around{x.shape(), Dims(rank, 0), Dims(rank, 1)};
    for (std::int64_t a = lead; a < rank; ++a) {
        const auto [before, after] = paddings[static_cast<std::size_t>(a - lead)];
        const std::int64_t size = x.shape()[a];
        std::int64_t left = 0;
        if (__builtin_add_overflow(std::min<std::int64_t>(before, 0), std::min<std::int64_t>(after, 0), &left) ||
            __builtin_add_overflow(left, size, &left) || left < 0) {
            fail("value/option", "pad", where,
                 {{"option", "a negative padding"},
                  {"got", Dims{before, after}},
                  {"expected", "at most " + std::to_string(size) + " entries cut from axis " + std::to_string(a)},
                  {"help", "negative paddings cut entries off"}},
                 describe(x));
        }
        cut.shape[a] = left;
        cut.starts[a] = left > 0 ? std::max<std::int64_t>(-before, 0) : 0;
        around.starts[a] = std::max<std::int64_t>(before, 0);
        around.shape[a] =
            checked_add(checked_add(left, around.starts[a], where), std::max<std::int64_t>(after, 0), where);
    }
    const std::uint64_t bits = element_bits(value, x.dtype(), where);
    const Tensor inner = cut.shape == x.shape() ? x : ops::take_ranges(x, cut, where);
    if (around.shape == inner.shape()) return inner;
    return graph::record(pad_operation, PlaceAttributes{around, bits}, {inner}, where);
}

}  // namespace calor
