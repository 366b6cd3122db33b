// gather and scatter_add are each other's gradients; scatter's other half reads the places that were written, where the
// last writer was.
#include "calor/creation.h"
#include "calor/index.h"
#include "calor/view.h"
#include "device/cpu/parallel.h"
#include "ops/index/indices.h"
#include "ops/registry.h"

namespace calor {
namespace {

using graph::GradContext;
using graph::InferContext;
using graph::Specs;
using index::GatherAttributes;

/// The ranks agree, and but for the axis the index tensor is no longer than x.
void check_shapes(std::string_view operation, const Tensor& x, const Tensor& indices, std::int64_t axis,
                  const Where& where) {
    if (indices.rank() != x.rank()) {
        fail("shape/rank", operation, where,
             {{"argument", "the index tensor"},
              {"got", indices.rank()},
              {"expected", x.rank()},
              {"help", "take_along_axis() broadcasts; index_select() takes a list of indices"}},
             "tensor " + describe(x) + ", indices " + describe(indices));
    }
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        if (a == axis || indices.shape()[a] <= x.shape()[a]) continue;
        Shape expected = x.shape();
        expected[axis] = indices.shape()[axis];
        fail("shape/mismatch", operation, where,
             {{"argument", "the index tensor"},
              {"got", indices.shape()},
              {"expected", expected},
              {"help", "axes other than the indexed one may be shorter, not longer"}});
    }
}

/// An index tensor with elements beside an axis without entries fails when it runs, like any other index out of range.
Specs infer_like_indices(const InferContext& c) { return {{c.inputs[1].shape(), c.inputs[0].dtype()}}; }
Specs infer_like_first(const InferContext& c) { return {{c.inputs[0].shape(), c.inputs[0].dtype()}}; }

Tensor scatter_values(const Tensor& cotangent, const Tensor& indices, std::int64_t axis, const Where& where);

void run_gather(const graph::Call& c) {
    const std::int64_t axis = c.attrs<GatherAttributes>().axis;
    index::check_range(c, c.inputs[1], axis, c.inputs[0].size(axis));
    index::gather_loops(c.inputs[0], c.inputs[1], c.outputs[0], axis);
}
void run_scatter(const graph::Call& c) {
    const std::int64_t axis = c.attrs<GatherAttributes>().axis;
    index::check_range(c, c.inputs[1], axis, c.inputs[0].size(axis));
    ops::copy_view(c.inputs[0], c.outputs[0]);
    index::scatter_loops(c.outputs[0], c.inputs[1], c.inputs[2], axis);
}
void run_scatter_add(const graph::Call& c) {
    const std::int64_t axis = c.attrs<GatherAttributes>().axis;
    index::check_range(c, c.inputs[1], axis, c.inputs[0].size(axis));
    ops::copy_view(c.inputs[0], c.outputs[0]);
    index::scatter_add_loops(c, c.outputs[0], c.inputs[1], c.inputs[2], axis);
}

/// Writes each value's position to its place; a value whose position is still there was the last one.
void run_scatter_values(const graph::Call& c) {
    const std::int64_t axis = c.attrs<GatherAttributes>().axis;
    const View &cotangent = c.inputs[0], &indices = c.inputs[1], &y = c.outputs[0];
    index::check_range(c, indices, axis, cotangent.size(axis));
    const std::int64_t count = y.count();
    if (count == 0) return;
    const auto memory = [&](std::int64_t n) { return graph::scratch(c, checked_multiply(n, 8, c.where)); };
    const auto numbers = memory(count), seen = memory(count), writers = memory(cotangent.count());
    auto* number = static_cast<std::int64_t*>(numbers->data);
    const auto* last = static_cast<const std::int64_t*>(seen->data);
    cpu::parallel_for(count, 65536, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) number[i] = i;
    });
    const Strides dense = contiguous_strides(*y.shape), target = contiguous_strides(*cotangent.shape);
    const View places{writers->data, i64, cotangent.shape, &target};
    index::scatter_loops(places, indices, {numbers->data, i64, y.shape, &dense}, axis);
    index::gather_loops(places, indices, {seen->data, i64, y.shape, &dense}, axis);
    index::gather_loops(cotangent, indices, y, axis);
    const auto size = static_cast<std::size_t>(size_of(y.dtype));
    cpu::parallel_for(count, 65536, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            if (last[i] != i) std::fill_n(y.as<std::byte>() + static_cast<std::size_t>(i) * size, size, std::byte{0});
        }
    });
}

template <void (*run)(const graph::Call&)> std::span<const graph::Implementation> only(DeviceKind) {
    static const graph::Implementation list[] = {{.name = "reference", .run = run}};
    return list;
}

const graph::Operation gather_operation{
    .name = "gather",
    .traits = graph::indexing | graph::linear,
    .infer = infer_like_indices,
    .gradient =
        [](const GradContext& c) {
            c.grads[0] = scatter_add(zeros(c.inputs[0].shape(), c.inputs[0].dtype(), c.where),
                                     c.attrs<GatherAttributes>().axis, c.inputs[1], c.cotangent(), c.where);
        },
    .implementations = only<run_gather>,
    .gpu_implementations = index::gather_on_gpu};

const graph::Operation scatter_add_operation{
    .name = "scatter_add",
    .traits = graph::indexing,
    .infer = infer_like_first,
    .gradient =
        [](const GradContext& c) {
            if (c.needs[0]) c.grads[0] = c.cotangent();
            if (c.needs[2]) c.grads[2] = gather(c.cotangent(), c.attrs<GatherAttributes>().axis, c.inputs[1], c.where);
        },
    .implementations = only<run_scatter_add>,
    .gpu_implementations = index::scatter_add_on_gpu};

const graph::Operation scatter_operation{.name = "scatter",
                                         .traits = graph::indexing,
                                         .infer = infer_like_first,
                                         .gradient =
                                             [](const GradContext& c) {
                                                 const std::int64_t axis = c.attrs<GatherAttributes>().axis;
                                                 const Tensor cotangent = c.cotangent();
                                                 if (c.needs[0]) {
                                                     const Tensor none =
                                                         zeros(c.inputs[1].shape(), cotangent.dtype(), c.where);
                                                     c.grads[0] = scatter(cotangent, axis, c.inputs[1], none, c.where);
                                                 }
                                                 if (c.needs[2])
                                                     c.grads[2] = scatter_values(cotangent, c.inputs[1], axis, c.where);
                                             },
                                         .implementations = only<run_scatter>,
                                         .gpu_implementations = index::scatter_on_gpu};

const graph::Operation scatter_values_operation{
    .name = "scatter_values",
    .traits = graph::indexing | graph::linear,
    .infer = infer_like_indices,
    .gradient =
        [](const GradContext& c) {
            c.grads[0] = scatter(zeros(c.inputs[0].shape(), c.inputs[0].dtype(), c.where),
                                 c.attrs<GatherAttributes>().axis, c.inputs[1], c.cotangent(), c.where);
        },
    .implementations = only<run_scatter_values>,
    .gpu_implementations = index::scatter_values_on_gpu};

Tensor scatter_values(const Tensor& cotangent, const Tensor& indices, std::int64_t axis, const Where& where) {
    return graph::record(scatter_values_operation, GatherAttributes{axis}, {cotangent, indices}, where);
}

Tensor write(const graph::Operation& operation, const Tensor& x, std::int64_t axis, const Tensor& indices,
             const Tensor& values, const Where& where) {
    ops::check_defined(operation.name, x, "the tensor", where);
    ops::check_defined(operation.name, values, "the tensor of values", where);
    const Tensor at = index::checked_dtype(operation.name, indices, where);
    const std::int64_t along = ops::normalize_axis(operation.name, axis, x.rank(), where);
    check_shapes(operation.name, x, at, along, where);
    index::check_same_dtype(operation.name, x, values, where);
    return graph::record(operation, GatherAttributes{along}, {x, at, expand(values, at.shape(), where)}, where);
}

}  // namespace

Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& indices, const Where& where) {
    const Naming naming("gather");
    ops::check_defined("gather", x, "the tensor", where);
    const Tensor at = index::checked_dtype("gather", indices, where);
    const std::int64_t along = ops::normalize_axis("gather", axis, x.rank(), where);
    check_shapes("gather", x, at, along, where);
    return graph::record(gather_operation, GatherAttributes{along}, {x, at}, where);
}

Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis, const Where& where) {
    const Naming naming("take_along_axis");
    ops::check_defined("take_along_axis", x, "the tensor", where);
    ops::check_defined("take_along_axis", indices, "the index tensor", where);
    const std::int64_t along = ops::normalize_axis("take_along_axis", axis, x.rank(), where);
    if (indices.rank() != x.rank()) check_shapes("take_along_axis", x, indices, along, where);
    Shape from = x.shape(), at = indices.shape();
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        if (a == along) continue;
        if (from[a] == 1) {
            from[a] = at[a];
        } else if (at[a] == 1) {
            at[a] = from[a];
        } else if (from[a] != at[a]) {
            fail("shape/broadcast", "take_along_axis", where,
                 {{"a", x.shape()},
                  {"b", indices.shape()},
                  {"axis", a - x.rank()},
                  {"size_a", from[a]},
                  {"size_b", at[a]}});
        }
    }
    return gather(expand(x, from, where), along, expand(indices, at, where), where);
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& values, const Where& where) {
    const Naming naming("scatter");
    return write(scatter_operation, x, axis, indices, values, where);
}

Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& values,
                   const Where& where) {
    const Naming naming("scatter_add");
    ops::check_defined("scatter_add", x, "the tensor", where);
    index::check_addable("scatter_add", x, where);
    return write(scatter_add_operation, x, axis, indices, values, where);
}

ops::Descriptors ops::gather_descriptors() {
    return {&gather_operation, &scatter_add_operation, &scatter_operation, &scatter_values_operation};
}

}  // namespace calor
