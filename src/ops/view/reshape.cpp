// reshape and what is made of it, and contiguous: layouts over the same memory. A reshape that strides cannot express
// copies.
#include "calor/view.h"
#include "graph/node.h"
#include "ops/gpu.h"
#include "ops/registry.h"
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
const graph::Implementation gpu_copies[] = {
    {.name = "copy", .run = [](const graph::Call& c) {
         const Strides dense = contiguous_strides(*c.inputs[0].shape);
         ops::copy_on_gpu(c, c.inputs[0], {c.outputs[0].data, c.outputs[0].dtype, c.inputs[0].shape, &dense});
     }}};
std::span<const graph::Implementation> gpu_copy_implementations() { return gpu_copies; }

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
bool alias_reshape(const Attributes&, std::size_t, const Shape& from, const Layout& layout, const Shape& to,
                   Layout& result) {
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
    .implementations = copy_implementations,
    .gpu_implementations = gpu_copy_implementations};

bool alias_contiguous(const Attributes&, std::size_t, const Shape& from, const Layout& layout, const Shape&,
                      Layout& result) {
    result = layout;
    return is_contiguous(from, layout.strides);
}

const graph::Operation contiguous_operation{.name = "contiguous",
                                            .traits = graph::view | graph::linear,
                                            .infer =
                                                [](const InferContext& c) {
                                                    return Specs{{c.inputs[0].shape(), c.inputs[0].dtype()}};
                                                },
                                            .gradient = [](const GradContext& c) { c.grads[0] = c.cotangent(); },
                                            .alias = alias_contiguous,
                                            .implementations = copy_implementations,
                                            .gpu_implementations = gpu_copy_implementations};

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape, const Where& where) {
    const Naming naming("reshape");
    ops::check_defined("reshape", x, "the tensor", where);
    if (x.shape() == shape) return x;
    return graph::record(reshape_operation, ShapeAttributes{shape}, {x}, where);
}

Tensor flatten(const Tensor& x, std::int64_t first, std::int64_t last, const Where& where) {
    const Naming naming("flatten");
    ops::check_defined("flatten", x, "the tensor", where);
    const std::int64_t rank = std::max<std::int64_t>(x.rank(), 1);
    const std::int64_t from = ops::normalize_axis("flatten", first, rank, where);
    const std::int64_t to = ops::normalize_axis("flatten", last, rank, where);
    if (from > to) {
        fail("value/option", "flatten", where,
             {{"option", "first"},
              {"got", first},
              {"expected", "an axis that is not behind last"},
              {"help", "the axes first to last become one"}},
             describe(x));
    }
    Shape shape;
    std::int64_t joined = 1;
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        if (a < from || a > to) shape.push_back(x.shape()[a]);
        if (a >= from && a <= to) joined *= x.shape()[a];
    }
    shape.insert(from, joined);
    return reshape(x, shape, where);
}

Tensor unflatten(const Tensor& x, std::int64_t axis, const Shape& sizes, const Where& where) {
    const Naming naming("unflatten");
    ops::check_defined("unflatten", x, "the tensor", where);
    const std::int64_t at = ops::normalize_axis("unflatten", axis, x.rank(), where);
    Shape shape = x.shape();
    const std::int64_t whole = shape[at];
    shape.erase(at);
    std::int64_t known = 1, wild = -1;
    for (std::int64_t i = 0; i < sizes.rank(); ++i) {
        if (sizes[i] == -1 && wild < 0) {
            wild = i;
        } else if (sizes[i] < 0) {
            fail("shape/negative", "unflatten", where, {{"size", sizes[i]}, {"shape", sizes}}, describe(x));
        } else {
            known = checked_multiply(known, sizes[i], where);
        }
        shape.insert(at + i, sizes[i]);
    }
    const bool fits = wild < 0 ? known == whole : known > 0 && whole % known == 0;
    if (!fits) {
        fail("reshape/size", "unflatten", where, {{"from", Shape{whole}}, {"from_count", whole}, {"to", sizes}},
             describe(x));
    }
    if (wild >= 0) shape[at + wild] = whole / known;
    return reshape(x, shape, where);
}

Tensor contiguous(const Tensor& x, const Where& where) {
    const Naming naming("contiguous");
    ops::check_defined("contiguous", x, "the tensor", where);
    if (x.evaluated() && is_contiguous(x.shape(), graph::value_of(x).layout.strides)) return x;
    return graph::record(contiguous_operation, {}, {x}, where);
}

ops::Descriptors ops::reshape_descriptors() { return {&reshape_operation, &contiguous_operation}; }

}  // namespace calor
