// reshape, expand, permute: layouts over the same memory. A reshape that strides cannot express copies.
#include "calor/reduce.h"
#include "calor/view.h"
#include "ops/support.h"

namespace calor {
namespace {

using graph::Attributes;
using graph::GradContext;
using graph::InferContext;
using graph::Specs;

struct ShapeAttributes {
    Dims value;
    friend bool operator==(const ShapeAttributes&, const ShapeAttributes&) = default;
};

const graph::Implementation copies[] = {
    {.name = "copy", .run = [](const graph::Call& c) {
         // Row-major order is kept: read the input in its own shape, write densely.
         const Strides dense = contiguous_strides(*c.inputs[0].shape);
         ops::copy_view(c.inputs[0], {c.outputs[0].data, c.outputs[0].dtype, c.inputs[0].shape, &dense});
     }}};
std::span<const graph::Implementation> copy_implementations(DeviceKind) { return copies; }

Specs infer_reshape(const InferContext& c) {
    const Tensor& x = c.inputs[0];
    Shape to = c.attrs<ShapeAttributes>().value;
    const std::int64_t count = x.numel();
    std::int64_t wild = -1, known = 1;
    for (std::int64_t a = 0; a < to.rank(); ++a) {
        if (to[a] == -1 && wild < 0) {
            wild = a;
        } else if (to[a] < 0) {
            fail("shape/negative", c.operation, c.where, {{"size", to[a]}, {"shape", to}}, describe(x));
        } else {
            known = checked_multiply(known, to[a], c.where);
        }
    }
    const Dims asked = to;
    if (wild >= 0 && known > 0 && count % known == 0) to[wild] = count / known;
    const bool unresolved = wild >= 0 && to[wild] < 0;
    if (unresolved || numel(to, c.where) != count) {
        fail("reshape/size", c.operation, c.where, {{"from", x.shape()}, {"from_count", count}, {"to", asked}});
    }
    return {{to, x.dtype()}};
}

/// Strides of `to` over the memory of (from, layout), when runs of axes that merge in one split in the other.
bool alias_reshape(const Attributes&, const Shape& from, const Layout& layout, const Shape& to, Layout& result) {
    result.offset = layout.offset;
    result.strides = contiguous_strides(to);
    if (numel(to) == 0 || is_contiguous(from, layout.strides)) return true;
    Dims sizes, strides;  // the input without axes of size 1
    for (std::int64_t a = 0; a < from.rank(); ++a) {
        if (from[a] == 1) continue;
        sizes.push_back(from[a]);
        strides.push_back(layout.strides[a]);
    }
    std::int64_t i = 0, j = 0;
    while (i < sizes.rank()) {
        std::int64_t i_end = i + 1, j_end = j, old_count = sizes[i], new_count = 1;
        while (j_end < to.rank() && new_count < old_count) new_count *= to[j_end++];
        while (new_count != old_count) {
            if (new_count < old_count) {
                new_count *= to[j_end++];
            } else {
                old_count *= sizes[i_end++];
            }
        }
        for (std::int64_t a = i; a + 1 < i_end; ++a) {
            if (strides[a] != strides[a + 1] * sizes[a + 1]) return false;
        }
        std::int64_t stride = strides[i_end - 1];
        for (std::int64_t a = j_end - 1; a >= j; --a) {
            result.strides[a] = stride;
            stride *= to[a];
        }
        i = i_end;
        j = j_end;
    }
    return true;
}

const graph::Operation reshape_operation{
    .name = "reshape",
    .traits = graph::view | graph::linear,
    .infer = infer_reshape,
    .gradient = [](const GradContext& c) { c.grads[0] = reshape(c.cotangent(), c.inputs[0].shape(), c.where); },
    .alias = alias_reshape,
    .implementations = copy_implementations};

Specs infer_expand(const InferContext& c) {
    const Tensor& x = c.inputs[0];
    const Shape& to = c.attrs<ShapeAttributes>().value;
    (void)numel(to, c.where);
    const std::int64_t lead = to.rank() - x.rank();
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        const std::int64_t wanted = lead < 0 ? -1 : to[lead + a];
        if (lead < 0 || (x.shape()[a] != 1 && x.shape()[a] != wanted)) {
            fail("shape/broadcast", c.operation, c.where,
                 {{"a", x.shape()}, {"b", to}, {"axis", a - x.rank()}, {"size_a", x.shape()[a]}, {"size_b", wanted}});
        }
    }
    return {{to, x.dtype()}};
}

bool alias_expand(const Attributes&, const Shape& from, const Layout& layout, const Shape& to, Layout& result) {
    result = {Strides(to.rank(), 0), layout.offset};
    const std::int64_t lead = to.rank() - from.rank();
    for (std::int64_t a = 0; a < from.rank(); ++a) {
        result.strides[lead + a] = from[a] == 1 && to[lead + a] != 1 ? 0 : layout.strides[a];
    }
    return true;
}

const graph::Operation expand_operation{
    .name = "expand",
    .traits = graph::view | graph::linear,
    .infer = infer_expand,
    .gradient = [](const GradContext& c) { c.grads[0] = c.cotangent(); },  // the engine undoes broadcasting
    .alias = alias_expand};

Specs infer_permute(const InferContext& c) {
    const Dims& axes = c.attrs<ShapeAttributes>().value;
    Shape shape;
    for (const std::int64_t a : axes) shape.push_back(c.inputs[0].shape()[a]);
    return {{shape, c.inputs[0].dtype()}};
}

bool alias_permute(const Attributes& attributes, const Shape&, const Layout& layout, const Shape&, Layout& result) {
    result.offset = layout.offset;
    result.strides.resize(0);
    for (const std::int64_t a : attributes.get<ShapeAttributes>().value) result.strides.push_back(layout.strides[a]);
    return true;
}

void permute_gradient(const GradContext& c) {
    const Dims& axes = c.attrs<ShapeAttributes>().value;
    Axes inverse(axes.rank(), 0);
    for (std::int64_t i = 0; i < axes.rank(); ++i) inverse[axes[i]] = i;
    c.grads[0] = permute(c.cotangent(), inverse, c.where);
}

const graph::Operation permute_operation{.name = "permute",
                                         .traits = graph::view | graph::linear,
                                         .infer = infer_permute,
                                         .gradient = permute_gradient,
                                         .alias = alias_permute};

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape, const Where& where) {
    return graph::record(reshape_operation, ShapeAttributes{shape}, {x}, where);
}

Tensor expand(const Tensor& x, const Shape& shape, const Where& where) {
    ops::check_defined("expand", x, "the tensor", where);
    if (x.shape() == shape) return x;
    return graph::record(expand_operation, ShapeAttributes{shape}, {x}, where);
}

Tensor permute(const Tensor& x, const Axes& axes, const Where& where) {
    ops::check_defined("permute", x, "the tensor", where);
    if (axes.rank() != x.rank()) {
        fail("value/count", "permute", where, {{"option", "axes"}, {"got", axes.rank()}, {"expected", x.rank()}});
    }
    Axes order;
    if (!axes.empty()) (void)ops::normalize_axes("permute", axes, x.rank(), where);
    for (const std::int64_t a : axes) order.push_back(ops::normalize_axis("permute", a, x.rank(), where));
    return graph::record(permute_operation, ShapeAttributes{order}, {x}, where);
}

}  // namespace calor
