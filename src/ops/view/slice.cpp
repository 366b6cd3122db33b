// slice: ranges of axes as strided views; select, narrow and flip are made of it.
#include <limits>

#include "calor/view.h"
#include "ops/registry.h"
#include "ops/view/place.h"

namespace calor {
namespace {

using graph::Attributes;
using graph::GradContext;
using graph::InferContext;
using graph::Specs;
using ops::Ranges;

Specs infer_slice(const InferContext& c) { return {{c.attrs<Ranges>().shape, c.inputs[0].dtype()}}; }

bool alias_slice(const Attributes& attributes, std::size_t, const Shape&, const Layout& layout, const Shape& to,
                 Layout& result) {
    const auto& ranges = attributes.get<Ranges>();
    result = layout;
    if (numel(to) == 0) return true;  // nothing is read, and a start may lie behind the end
    for (std::int64_t a = 0; a < to.rank(); ++a) {
        result.offset += ranges.starts[a] * layout.strides[a];
        result.strides[a] = layout.strides[a] * ranges.steps[a];
    }
    return true;
}

void slice_gradient(const GradContext& c) {
    Ranges ranges = c.attrs<Ranges>();
    ranges.shape = c.inputs[0].shape();
    c.grads[0] = ops::place_ranges(c.cotangent(), ranges, c.where);
}

const graph::Operation slice_operation{.name = "slice",
                                       .traits = graph::view | graph::linear,
                                       .infer = infer_slice,
                                       .gradient = slice_gradient,
                                       .alias = alias_slice};

Ranges whole(const Tensor& x) { return {x.shape(), Dims(x.rank(), 0), Dims(x.rank(), 1)}; }

/// One axis of size n cut as Python does: start, stop and step become start, count and step.
void cut(Ranges& ranges, std::int64_t axis, const Slice& s, const Where& where) {
    const std::int64_t n = ranges.shape[axis];
    if (s.step == 0) {
        fail("value/option", "slice", where,
             {{"option", "step"},
              {"got", 0},
              {"expected", "a number other than 0"},
              {"help", "a step of -1 walks backwards"}});
    }
    const std::int64_t step = std::max(s.step, -std::numeric_limits<std::int64_t>::max());
    const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const auto end = [&](const std::optional<std::int64_t>& given, std::int64_t otherwise) {
        return given ? std::clamp(*given < 0 ? *given + n : *given, low, high) : otherwise;
    };
    const std::int64_t start = end(s.start, step > 0 ? low : high), stop = end(s.stop, step > 0 ? high : low);
    const std::int64_t span = step > 0 ? stop - start : start - stop, stride = step > 0 ? step : -step;
    const std::int64_t count = span > 0 ? (span - 1) / stride + 1 : 0;
    ranges.shape[axis] = count;
    ranges.starts[axis] = count > 0 ? start : 0;
    ranges.steps[axis] = count > 1 ? step : 1;  // a step that is never taken must not overflow
}

}  // namespace

Tensor ops::take_ranges(const Tensor& x, const Ranges& ranges, const Where& where) {
    return graph::record(slice_operation, ranges, {x}, where);
}

Tensor slice(const Tensor& x, const std::vector<Slice>& slices, const Where& where) {
    const Naming naming("slice");
    ops::check_defined("slice", x, "the tensor", where);
    if (std::ssize(slices) > x.rank()) {
        fail("value/count", "slice", where,
             {{"option", "slices"}, {"got", std::ssize(slices)}, {"expected", "at most " + std::to_string(x.rank())}},
             describe(x));
    }
    Ranges ranges = whole(x);
    for (std::size_t i = 0; i < slices.size(); ++i) cut(ranges, static_cast<std::int64_t>(i), slices[i], where);
    return ops::take_ranges(x, ranges, where);
}

Tensor slice(const Tensor& x, std::int64_t axis, const Slice& range, const Where& where) {
    const Naming naming("slice");
    ops::check_defined("slice", x, "the tensor", where);
    Ranges ranges = whole(x);
    cut(ranges, ops::normalize_axis("slice", axis, x.rank(), where), range, where);
    return ops::take_ranges(x, ranges, where);
}

Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index, const Where& where) {
    const Naming naming("select");
    ops::check_defined("select", x, "the tensor", where);
    const std::int64_t at = ops::normalize_axis("select", axis, x.rank(), where), size = x.shape()[at];
    const std::int64_t position = index < 0 ? index + size : index;
    if (position < 0 || position >= size) {
        fail("index/range", "select", where,
             {{"index", index}, {"position", 0}, {"axis", at}, {"size", size}, {"low", -size}, {"high", size - 1}},
             describe(x));
    }
    Ranges ranges = whole(x);
    ranges.shape[at] = 1;
    ranges.starts[at] = position;
    return squeeze(ops::take_ranges(x, ranges, where), {at}, where);
}

Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length, const Where& where) {
    const Naming naming("narrow");
    ops::check_defined("narrow", x, "the tensor", where);
    const std::int64_t at = ops::normalize_axis("narrow", axis, x.rank(), where), size = x.shape()[at];
    if (start < 0 || start > size) {
        fail("value/option", "narrow", where,
             {{"option", "start"},
              {"got", start},
              {"expected", "0 to " + std::to_string(size)},
              {"help", "slice() cuts ends that lie outside"}},
             describe(x));
    }
    if (length < 0 || length > size - start) {
        fail("value/option", "narrow", where,
             {{"option", "length"},
              {"got", length},
              {"expected", "0 to " + std::to_string(size - start)},
              {"help", "slice() cuts ends that lie outside"}},
             describe(x));
    }
    Ranges ranges = whole(x);
    ranges.shape[at] = length;
    ranges.starts[at] = length > 0 ? start : 0;
    return ops::take_ranges(x, ranges, where);
}

Tensor flip(const Tensor& x, const Axes& axes, const Where& where) {
    const Naming naming("flip");
    ops::check_defined("flip", x, "the tensor", where);
    Ranges ranges = whole(x);
    for (const std::int64_t a : ops::normalize_axes("flip", axes, x.rank(), where)) {
        if (ranges.shape[a] < 2) continue;
        ranges.starts[a] = ranges.shape[a] - 1;
        ranges.steps[a] = -1;
    }
    return ops::take_ranges(x, ranges, where);
}

ops::Descriptors ops::slice_descriptors() { return {&slice_operation}; }

}  // namespace calor
