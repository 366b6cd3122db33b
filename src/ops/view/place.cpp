// place: a tensor put into a larger one that is filled with a constant. It is pad, and the gradient of slice.
//   y[start + i * step] = x[i], y = value elsewhere; entries of x that fall outside y are dropped.
#include "ops/view/place.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "ops/registry.h"

namespace calor {
namespace {

using graph::GradContext;
using graph::InferContext;
using graph::Specs;
using ops::PlaceAttributes;
using ops::Ranges;

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

    /// For every position of an axis of y the offset of the entry of x that lands there, or nowhere.
    std::vector<std::int64_t> sources(std::int64_t axis) const {
        std::vector<std::int64_t> all(static_cast<std::size_t>(out[axis]), nowhere);
        for (std::int64_t i = 0; i < in[axis]; ++i) {
            const std::int64_t at = starts[axis] + i * steps[axis];
            if (at >= 0 && at < out[axis]) all[static_cast<std::size_t>(at)] = i * strides[axis];
        }
        return all;
    }
    static constexpr std::int64_t nowhere = INT64_MIN;
};

/// Walks the rows of y and knows where the row of x starts that belongs there.
class Rows {
public:
    Rows(const std::vector<std::vector<std::int64_t>>& sources, std::int64_t row)
        : sources_(sources), at_(sources.size(), 0) {
        for (std::size_t a = at_.size(); a-- > 0; row /= std::ssize(sources[a])) {
            at_[a] = row % std::ssize(sources[a]);
            add(a, 1);
        }
    }
    void next() {
        for (std::size_t a = at_.size(); a-- > 0;) {
            add(a, -1);
            const bool wraps = ++at_[a] == std::ssize(sources_[a]);
            if (wraps) at_[a] = 0;
            add(a, 1);
            if (!wraps) return;
        }
    }
    bool covered() const { return missing_ == 0; }
    std::int64_t offset() const { return offset_; }

private:
    void add(std::size_t a, std::int64_t sign) {
        const std::int64_t source = sources_[a][static_cast<std::size_t>(at_[a])];
        if (source == Plan::nowhere) {
            missing_ += sign;
        } else {
            offset_ += sign * source;
        }
    }

    const std::vector<std::vector<std::int64_t>>& sources_;
    std::vector<std::int64_t> at_;
    std::int64_t offset_ = 0, missing_ = 0;
};

template <class T> void place_row(const Plan& plan, const T* x, T* y, T value) {
    const std::int64_t last = plan.in.rank() - 1, start = plan.starts[last], step = plan.steps[last];
    const std::int64_t stride = plan.strides[last], width = plan.out[last], count = plan.in[last];
    if (step != 1) {
        std::fill_n(y, width, value);
        for (std::int64_t i = 0; i < count; ++i) y[start + i * step] = x[i * stride];
        return;
    }
    for (std::int64_t i = 0; i < start; ++i) y[i] = value;
    if (stride == 1) {
        std::memcpy(y + start, x, static_cast<std::size_t>(count) * sizeof(T));
    } else {
        cpu::gather(y + start, x, stride, sizeof(T), count);
    }
    for (std::int64_t i = start + count; i < width; ++i) y[i] = value;
}

/// All rows along the last axis but one: what lies between two rows of x is filled at once.
template <class T> void place_slab(const Plan& plan, const T* x, T* y, T value) {
    const std::int64_t last = plan.in.rank() - 1, rows = plan.in[last - 1], count = plan.in[last];
    const std::int64_t width = plan.out[last], stride = plan.strides[last];
    T* to = std::fill_n(y, plan.starts[last - 1] * width + plan.starts[last], value);
    for (std::int64_t row = 0; row < rows; ++row) {
        if (row > 0) to = std::fill_n(to, width - count, value);
        const T* from = x + row * plan.strides[last - 1];
        if (stride == 1) {
            std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
        } else {
            cpu::gather(to, from, stride, sizeof(T), count);
        }
        to += count;
    }
    std::fill(to, y + plan.out[last - 1] * width, value);
}

template <class T> void place_rows(const graph::Call& c) {
    const View &x = c.inputs[0], &y = c.outputs[0];
    const auto& attributes = c.attrs<PlaceAttributes>();
    const Plan plan(x, y, attributes.ranges);
    const bool nothing = x.count() == 0;
    T value = 0;
    std::memcpy(&value, &attributes.value, sizeof(T));
    std::int64_t last = plan.in.rank() - 1, width = plan.out[last];
    const std::int64_t enough = 16;  // slabs, to keep threads busy
    const bool slabs = last > 0 && plan.steps[last] == 1 && plan.steps[last - 1] == 1 &&
                       y.count() / (width * plan.out[last - 1]) >= enough;
    if (slabs) width *= plan.out[--last];
    std::vector<std::vector<std::int64_t>> sources;
    for (std::int64_t a = 0; a < last; ++a) sources.push_back(plan.sources(a));
    cpu::parallel_for(y.count() / width, std::max<std::int64_t>(1, 16384 / width),
                      [&](std::int64_t begin, std::int64_t end) {
                          Rows rows(sources, begin);
                          for (std::int64_t row = begin; row < end; ++row, rows.next()) {
                              T* to = y.as<T>() + row * width;
                              if (nothing || !rows.covered()) {
                                  std::fill_n(to, width, value);
                              } else if (slabs) {
                                  place_slab(plan, x.as<const T>() + rows.offset(), to, value);
                              } else {
                                  place_row(plan, x.as<const T>() + rows.offset(), to, value);
                              }
                          }
                      });
}

void place(const graph::Call& c) {
    if (c.outputs[0].count() == 0) return;
    switch (size_of(c.outputs[0].dtype)) {
        case 1: return place_rows<std::uint8_t>(c);
        case 2: return place_rows<std::uint16_t>(c);
        case 4: return place_rows<std::uint32_t>(c);
        default: return place_rows<std::uint64_t>(c);
    }
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
const graph::Implementation gpu_implementations[] = {{.name = "place_gather", .run = ops::place_on_gpu}};
std::span<const graph::Implementation> gpu_list() { return gpu_implementations; }

const graph::Operation slice_grad_operation{.name = "slice_grad",
                                            .traits = graph::linear,
                                            .infer = infer_place,
                                            .gradient = place_gradient,
                                            .implementations = list,
                                            .gpu_implementations = gpu_list};
const graph::Operation pad_operation{.name = "pad",
                                     .infer = infer_place,
                                     .gradient = place_gradient,
                                     .implementations = list,
                                     .gpu_implementations = gpu_list};

}  // namespace

Tensor ops::place_ranges(const Tensor& x, const Ranges& ranges, const Where& where) {
    return graph::record(slice_grad_operation, PlaceAttributes{ranges, 0}, {x}, where);
}

Tensor ops::place_in_constant(const Tensor& x, const Ranges& ranges, std::uint64_t bits, const Where& where) {
    return graph::record(pad_operation, PlaceAttributes{ranges, bits}, {x}, where);
}

ops::Descriptors ops::place_descriptors() { return {&slice_grad_operation, &pad_operation}; }

}  // namespace calor
