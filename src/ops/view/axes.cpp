// Axes: expand, permute, and what is made of them. All of them alias.
#include <algorithm>

#include "calor/view.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace calor {
namespace {

using graph::Attributes;
using graph::GradContext;
using graph::InferContext;
using graph::Specs;

struct ListAttributes {
    Dims value;  ///< the shape, or the axes
    friend bool operator==(const ListAttributes&, const ListAttributes&) = default;
};

Specs infer_expand(const InferContext& c) {
    const Tensor& x = c.inputs[0];
    const Shape& to = c.attrs<ListAttributes>().value;
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

bool alias_expand(const Attributes&, std::size_t, const Shape& from, const Layout& layout, const Shape& to,
                  Layout& result) {
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
    const Dims& axes = c.attrs<ListAttributes>().value;
    Shape shape;
    for (const std::int64_t a : axes) shape.push_back(c.inputs[0].shape()[a]);
    return {{shape, c.inputs[0].dtype()}};
}

bool alias_permute(const Attributes& attributes, std::size_t, const Shape&, const Layout& layout, const Shape&,
                   Layout& result) {
    result.offset = layout.offset;
    result.strides.resize(0);
    for (const std::int64_t a : attributes.get<ListAttributes>().value) result.strides.push_back(layout.strides[a]);
    return true;
}

void permute_gradient(const GradContext& c) {
    const Dims& axes = c.attrs<ListAttributes>().value;
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

Tensor expand(const Tensor& x, const Shape& shape, const Where& where) {
    const Naming naming("expand");
    ops::check_defined("expand", x, "the tensor", where);
    if (x.shape() == shape) return x;
    return graph::record(expand_operation, ListAttributes{shape}, {x}, where);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape, const Where& where) {
    const Naming naming("broadcast_to");
    return expand(x, shape, where);
}

Tensor permute(const Tensor& x, const Axes& axes, const Where& where) {
    const Naming naming("permute");
    ops::check_defined("permute", x, "the tensor", where);
    if (axes.rank() != x.rank()) {
        fail("value/count", "permute", where, {{"option", "axes"}, {"got", axes.rank()}, {"expected", x.rank()}});
    }
    Axes order;
    if (!axes.empty()) (void)ops::normalize_axes("permute", axes, x.rank(), where);
    for (const std::int64_t a : axes) order.push_back(ops::normalize_axis("permute", a, x.rank(), where));
    return graph::record(permute_operation, ListAttributes{order}, {x}, where);
}

Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b, const Where& where) {
    const Naming naming("transpose");
    ops::check_defined("transpose", x, "the tensor", where);
    Axes order;
    for (std::int64_t i = 0; i < x.rank(); ++i) order.push_back(i);
    std::swap(order[ops::normalize_axis("transpose", a, x.rank(), where)],
              order[ops::normalize_axis("transpose", b, x.rank(), where)]);
    return graph::record(permute_operation, ListAttributes{order}, {x}, where);
}

Tensor movedim(const Tensor& x, const Axes& from, const Axes& to, const Where& where) {
    const Naming naming("movedim");
    ops::check_defined("movedim", x, "the tensor", where);
    if (from.rank() != to.rank()) {
        fail("value/count", "movedim", where, {{"option", "to"}, {"got", to.rank()}, {"expected", from.rank()}});
    }
    if (from.empty()) return x;
    (void)ops::normalize_axes("movedim", from, x.rank(), where);
    (void)ops::normalize_axes("movedim", to, x.rank(), where);
    Axes order(x.rank(), -1);
    std::vector<bool> moved(x.shape().size(), false);
    for (std::int64_t i = 0; i < from.rank(); ++i) {
        const std::int64_t source = ops::normalize_axis("movedim", from[i], x.rank(), where);
        order[ops::normalize_axis("movedim", to[i], x.rank(), where)] = source;
        moved[static_cast<std::size_t>(source)] = true;
    }
    std::int64_t next = 0;
    for (std::int64_t& place : order) {
        if (place >= 0) continue;
        while (moved[static_cast<std::size_t>(next)]) ++next;
        place = next++;
    }
    return graph::record(permute_operation, ListAttributes{order}, {x}, where);
}

Tensor squeeze(const Tensor& x, const Axes& axes, const Where& where) {
    const Naming naming("squeeze");
    ops::check_defined("squeeze", x, "the tensor", where);
    Axes drop;
    if (axes.empty()) {
        for (std::int64_t a = 0; a < x.rank(); ++a) {
            if (x.shape()[a] == 1) drop.push_back(a);
        }
    } else {
        drop = ops::normalize_axes("squeeze", axes, x.rank(), where);
    }
    Shape shape = x.shape(), expected = x.shape();
    for (const std::int64_t a : drop) expected[a] = 1;
    if (!(expected == shape)) {
        fail("shape/mismatch", "squeeze", where,
             {{"argument", "the tensor"},
              {"got", shape},
              {"expected", expected},
              {"help", "only axes of size 1 can be dropped; select() takes one entry of a longer axis"}});
    }
    for (std::int64_t i = drop.rank() - 1; i >= 0; --i) shape.erase(drop[i]);
    return reshape(x, shape, where);
}

Tensor unsqueeze(const Tensor& x, std::int64_t axis, const Where& where) {
    const Naming naming("unsqueeze");
    ops::check_defined("unsqueeze", x, "the tensor", where);
    Shape shape = x.shape();
    shape.insert(ops::normalize_axis("unsqueeze", axis, x.rank() + 1, where), 1);
    return reshape(x, shape, where);
}

ops::Descriptors ops::axes_descriptors() { return {&expand_operation, &permute_operation}; }

}  // namespace calor
