// pad: what is cut off is a slice, a constant is placed around, and the other modes repeat entries (border.h). Each
// one's gradient is the other direction, so both have gradients of any order.
#include <algorithm>
#include <cstring>

#include "calor/creation.h"
#include "graph/node.h"
#include "ops/registry.h"
#include "ops/view/border.h"
#include "ops/view/place.h"

namespace calor {
namespace {

using graph::GradContext;
using graph::InferContext;
using graph::Specs;
using ops::BorderAttributes;
using ops::Ranges;

const graph::Implementation border_implementations[] = {{.name = "pad_rows", .run = ops::border_rows},
                                                        {.name = "reference", .run = ops::border_reference}};
const graph::Implementation grad_implementations[] = {{.name = "pad_rows", .run = ops::border_grad_rows},
                                                      {.name = "reference", .run = ops::border_grad_reference}};
const graph::Implementation border_gpu_list[] = {{.name = "border_gather", .run = ops::border_on_gpu}};
const graph::Implementation grad_gpu_list[] = {{.name = "border_gather", .run = ops::border_grad_on_gpu}};

void border_gradient(const GradContext& c);
void border_grad_gradient(const GradContext& c);

const graph::Operation border_operation{
    .name = "pad_border",
    .traits = graph::linear,
    .infer =
        [](const InferContext& c) {
            return Specs{{c.attrs<BorderAttributes>().outer(), c.inputs[0].dtype()}};
        },
    .gradient = border_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(border_implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(border_gpu_list); },
    .format = ops::format_of_input};
const graph::Operation border_grad_operation{
    .name = "pad_border_grad",
    .traits = graph::linear,
    .infer =
        [](const InferContext& c) {
            return Specs{{c.attrs<BorderAttributes>().inner, c.inputs[0].dtype()}};
        },
    .gradient = border_grad_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(grad_implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(grad_gpu_list); },
    .format = ops::format_of_input};

void border_gradient(const GradContext& c) {
    c.grads[0] = graph::record(border_grad_operation, c.attributes, {c.cotangent()}, c.where);
}
void border_grad_gradient(const GradContext& c) {
    c.grads[0] = graph::record(border_operation, c.attributes, {c.cotangent()}, c.where);
}

const char* name_of(PadMode mode) {
    switch (mode) {
        case PadMode::constant: return "constant";
        case PadMode::reflect: return "reflect";
        case PadMode::symmetric: return "symmetric";
        case PadMode::replicate: return "replicate";
        case PadMode::circular: return "circular";
    }
    return "unknown";
}

/// One padding for every axis of x. Throws [value/count], [axis/range], [axis/duplicate].
std::vector<Padding> spread(const Tensor& x, const std::vector<Padding>& paddings, const Axes& axes,
                            const Where& where) {
    const std::int64_t rank = x.rank(), count = std::ssize(paddings);
    if (count > rank || (!axes.empty() && axes.rank() != count)) {
        const bool named = !axes.empty() && axes.rank() != count;
        fail("value/count", "pad", where,
             {{"option", "paddings"},
              {"got", count},
              {"expected", (named ? "one an axis, " : "at most ") + std::to_string(named ? axes.rank() : rank)}},
             describe(x));
    }
    std::vector<Padding> all(static_cast<std::size_t>(rank));
    if (!axes.empty()) (void)ops::normalize_axes("pad", axes, rank, where);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t a = axes.empty() ? rank - count + i : ops::normalize_axis("pad", axes[i], rank, where);
        all[static_cast<std::size_t>(a)] = paddings[static_cast<std::size_t>(i)];
    }
    return all;
}

/// The entries that are left once negative paddings are cut off. Throws [value/option].
Ranges cut(const Tensor& x, const std::vector<Padding>& paddings, const Where& where) {
    Ranges left{x.shape(), Dims(x.rank(), 0), Dims(x.rank(), 1)};
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        const auto [before, after] = paddings[static_cast<std::size_t>(a)];
        const std::int64_t size = x.shape()[a];
        std::int64_t rest = 0;
        if (__builtin_add_overflow(std::min<std::int64_t>(before, 0), std::min<std::int64_t>(after, 0), &rest) ||
            __builtin_add_overflow(rest, size, &rest) || rest < 0) {
            fail("value/option", "pad", where,
                 {{"option", "a negative padding"},
                  {"got", Dims{before, after}},
                  {"expected", "at most " + std::to_string(size) + " entries cut from axis " + std::to_string(a)},
                  {"help", "negative paddings cut entries off"}},
                 describe(x));
        }
        left.shape[a] = rest;
        left.starts[a] = rest > 0 ? std::max<std::int64_t>(-before, 0) : 0;
    }
    return left;
}

std::uint64_t element_bits(const Scalar& value, DType dtype, const Where& where) {
    const bool flag = dtype == boolean && value.kind() == Scalar::Kind::integer;
    const OnDevice scope(Device{});  // the bits are read here
    const Tensor one = scalar(flag ? Scalar(value.integer() != 0) : value, dtype, where);
    std::uint64_t bits = 0;
    std::memcpy(&bits, graph::view_of(graph::value_of(one)).data, static_cast<std::size_t>(size_of(dtype)));
    return bits;
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, const PadOptions& options, const Where& where) {
    const Naming naming("pad");
    ops::check_defined("pad", x, "the tensor", where);
    const std::vector<Padding> all = spread(x, paddings, options.axes, where);
    // Cut first, then surround.
    const Ranges left = cut(x, all, where);
    BorderAttributes border{options.mode, left.shape, Dims(x.rank(), 0), Dims(x.rank(), 0)};
    Shape outer = left.shape;
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        border.low[a] = std::max<std::int64_t>(all[static_cast<std::size_t>(a)].before, 0);
        border.high[a] = std::max<std::int64_t>(all[static_cast<std::size_t>(a)].after, 0);
        outer[a] = checked_add(checked_add(outer[a], border.low[a], where), border.high[a], where);
        if (options.mode != PadMode::constant && left.shape[a] == 0 && outer[a] > 0) {
            fail("pad/empty", "pad", where, {{"axis", a}, {"mode", name_of(options.mode)}, {"padding", outer[a]}},
                 describe(x));
        }
    }
    (void)checked_bytes(outer, x.dtype(), where);
    const std::uint64_t bits = options.mode == PadMode::constant ? element_bits(options.value, x.dtype(), where) : 0;
    const Tensor inner = left.shape == x.shape() ? x : ops::take_ranges(x, left, where);
    if (outer == inner.shape()) return inner;
    if (options.mode != PadMode::constant) return graph::record(border_operation, std::move(border), {inner}, where);
    return ops::place_in_constant(inner, {outer, border.low, Dims(x.rank(), 1)}, bits, where);
}

Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, Scalar value, const Where& where) {
    const Naming naming("pad");
    return pad(x, paddings, PadOptions{.value = value}, where);
}
Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, PadMode mode, const Where& where) {
    const Naming naming("pad");
    return pad(x, paddings, PadOptions{.mode = mode}, where);
}

ops::Descriptors ops::border_descriptors() { return {&border_operation, &border_grad_operation}; }

}  // namespace calor
