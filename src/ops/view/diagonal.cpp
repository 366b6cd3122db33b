// diagonal: a strided view; its gradient puts the diagonal into zeros, whose gradient is the diagonal again.
#include <algorithm>

#include "calor/view.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "ops/registry.h"
#include "ops/spatial_gpu.h"
#include "ops/support.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile view_diagonal;
}
namespace {

using graph::Attributes;
using graph::GradContext;
using graph::InferContext;
using graph::Specs;

struct DiagonalAttributes {
    std::int64_t offset = 0, axis1 = 0, axis2 = 1;
    Shape shape;  ///< of the tensor with both axes
    friend bool operator==(const DiagonalAttributes&, const DiagonalAttributes&) = default;

    std::int64_t length() const {
        const std::int64_t rows = shape[axis1], columns = shape[axis2];
        if (offset >= columns || offset <= -rows) return 0;
        return offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
    }
    Shape diagonal_shape() const {
        Shape result = shape;
        result.erase(std::max(axis1, axis2));
        result.erase(std::min(axis1, axis2));
        result.push_back(length());
        return result;
    }
    Layout over(const Layout& whole) const {
        Layout result = whole;
        if (length() > 0) result.offset += offset >= 0 ? offset * whole.strides[axis2] : -offset * whole.strides[axis1];
        result.strides.erase(std::max(axis1, axis2));
        result.strides.erase(std::min(axis1, axis2));
        result.strides.push_back(whole.strides[axis1] + whole.strides[axis2]);
        return result;
    }
};

Tensor embed(const Tensor& x, const DiagonalAttributes& attributes, const Where& where);
Tensor take(const Tensor& x, const DiagonalAttributes& attributes, const Where& where);

const graph::Operation diagonal_operation{
    .name = "diagonal",
    .traits = graph::view | graph::linear,
    .infer =
        [](const InferContext& c) {
            return Specs{{c.attrs<DiagonalAttributes>().diagonal_shape(), c.inputs[0].dtype()}};
        },
    .gradient = [](const GradContext& c) { c.grads[0] = embed(c.cotangent(), c.attrs<DiagonalAttributes>(), c.where); },
    .alias =
        [](const Attributes& a, std::size_t, const Shape&, const Layout& from, const Shape&, Layout& to) {
            to = a.get<DiagonalAttributes>().over(from);
            return true;
        }};

void run_embed(const graph::Call& c) {
    const auto& a = c.attrs<DiagonalAttributes>();
    const View& y = c.outputs[0];
    const std::int64_t size = size_of(y.dtype);
    const std::uint64_t zero = 0;
    cpu::parallel_for(y.count(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        cpu::fill(y.as<std::byte>() + begin * size, size, end - begin, &zero);
    });
    const Layout inside = a.over({*y.strides, 0});
    ops::copy_view(c.inputs[0],
                   {y.as<std::byte>() + inside.offset * size, y.dtype, c.inputs[0].shape, &inside.strides});
}

const graph::Implementation embed_implementations[] = {{.name = "fill and copy", .run = run_embed}};

void embed_on_gpu(const graph::Call& c) {
    const auto& a = c.attrs<DiagonalAttributes>();
    const View &x = c.inputs[0], &y = c.outputs[0];
    const std::int64_t last = x.rank() - 1;
    Strides strides(y.rank(), 0);  // x has the axes of y but two, and the diagonal
    std::int64_t next = 0;
    for (std::int64_t axis = 0; axis < y.rank(); ++axis) {
        if (axis != a.axis1 && axis != a.axis2) strides[axis] = x.stride(next++);
    }
    strides[a.offset >= 0 ? a.axis1 : a.axis2] = x.stride(last);
    ops::launch(c, kernels::view_diagonal, "diag_embed")
        .constant("E", ops::carrier(y.dtype))
        .constant("RANK", y.rank())
        .buffer(x)
        .buffer(y)
        .size(y.count())
        .size(a.axis1)
        .size(a.axis2)
        .size(std::clamp(a.offset, -a.shape[a.axis1], a.shape[a.axis2]))
        .layout(*y.shape, {strides})
        .over(y.count());
}
const graph::Implementation embed_gpu_implementations[] = {{.name = "diagonal_gather", .run = embed_on_gpu}};

const graph::Operation embed_operation{
    .name = "diag_embed",
    .traits = graph::linear,
    .infer =
        [](const InferContext& c) {
            return Specs{{c.attrs<DiagonalAttributes>().shape, c.inputs[0].dtype()}};
        },
    .gradient = [](const GradContext& c) { c.grads[0] = take(c.cotangent(), c.attrs<DiagonalAttributes>(), c.where); },
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(embed_implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(embed_gpu_implementations); }};

Tensor embed(const Tensor& x, const DiagonalAttributes& attributes, const Where& where) {
    return graph::record(embed_operation, attributes, {x}, where);
}
Tensor take(const Tensor& x, const DiagonalAttributes& attributes, const Where& where) {
    return graph::record(diagonal_operation, attributes, {x}, where);
}

}  // namespace

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2, const Where& where) {
    const Naming naming("diagonal");
    ops::check_defined("diagonal", x, "the tensor", where);
    (void)ops::normalize_axes("diagonal", {axis1, axis2}, x.rank(), where);
    return take(x,
                {offset, ops::normalize_axis("diagonal", axis1, x.rank(), where),
                 ops::normalize_axis("diagonal", axis2, x.rank(), where), x.shape()},
                where);
}

Tensor diag_embed(const Tensor& x, std::int64_t offset, const Where& where) {
    const Naming naming("diag_embed");
    ops::check_defined("diag_embed", x, "the tensor", where);
    (void)ops::normalize_axis("diag_embed", -1, x.rank(), where);
    constexpr std::int64_t most = std::int64_t{1} << 62;
    const std::int64_t distance = offset < 0 ? (offset < -most ? most : -offset) : offset;
    const std::int64_t size = checked_add(x.shape().back(), distance, where);
    Shape shape = x.shape();
    shape[shape.rank() - 1] = size;
    shape.push_back(size);
    return embed(x, {offset, shape.rank() - 2, shape.rank() - 1, shape}, where);
}

ops::Descriptors ops::diagonal_descriptors() { return {&diagonal_operation, &embed_operation}; }

}  // namespace calor
