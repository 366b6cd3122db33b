// eye, tril, triu and meshgrid.
#include <algorithm>
#include <cstring>

#include "calor/creation.h"
#include "calor/view.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "graph/node.h"
#include "ops/creation/creation_gpu.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace calor {
namespace {

using graph::GradContext;
using graph::InferContext;
using graph::Specs;

struct TriangleAttributes {
    bool upper = false;
    std::int64_t diagonal = 0;
    friend bool operator==(const TriangleAttributes&, const TriangleAttributes&) = default;
};

/// Far beyond every matrix: sums with it don't overflow.
constexpr std::int64_t farthest = std::int64_t{1} << 61;

void run_triangle(const graph::Call& c) {
    const auto& [upper, diagonal] = c.attrs<TriangleAttributes>();
    const View &x = c.inputs[0], &y = c.outputs[0];
    if (y.count() == 0) return;
    const std::int64_t rank = x.rank(), rows = x.size(rank - 2), columns = x.size(rank - 1), size = size_of(x.dtype);
    const std::int64_t step = x.stride(rank - 1);
    const std::int64_t shift = std::clamp(diagonal, -farthest, farthest);
    const bool is_upper = upper;
    cpu::parallel_for(
        y.count() / columns, std::max<std::int64_t>(1, 16384 / columns), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                std::int64_t offset = 0, rest = row;
                for (std::int64_t a = rank - 2; a >= 0; --a) {
                    offset += rest % x.size(a) * x.stride(a);
                    rest /= x.size(a);
                }
                // Columns kept: up to the diagonal, or from it on.
                const std::int64_t edge = std::clamp<std::int64_t>(row % rows + shift + (is_upper ? 0 : 1), 0, columns);
                const std::int64_t first = is_upper ? edge : 0, last = is_upper ? columns : edge;
                std::byte* out = y.as<std::byte>() + row * columns * size;
                std::memset(out, 0, static_cast<std::size_t>(first * size));
                cpu::gather(out + first * size, x.as<std::byte>() + (offset + first * step) * size, step, size,
                            last - first);
                std::memset(out + last * size, 0, static_cast<std::size_t>((columns - last) * size));
            }
        });
}

const graph::Implementation triangle_implementations[] = {{.name = "reference", .run = run_triangle}};
std::span<const graph::Implementation> triangles(DeviceKind) { return triangle_implementations; }
const graph::Implementation triangle_on_gpu[] = {{.name = "reference", .run = [](const graph::Call& c) {
                                                      const auto& a = c.attrs<TriangleAttributes>();
                                                      ops::triangle_on_gpu(c, a.diagonal, a.upper);
                                                  }}};
std::span<const graph::Implementation> triangles_on_gpu() { return triangle_on_gpu; }
Specs infer_triangle(const InferContext& c) { return {{c.inputs[0].shape(), c.inputs[0].dtype()}}; }

void triangle_gradient(const GradContext& c) {
    const auto& a = c.attrs<TriangleAttributes>();
    c.grads[0] = a.upper ? triu(c.cotangent(), a.diagonal, c.where) : tril(c.cotangent(), a.diagonal, c.where);
}

const graph::Operation tril_operation{.name = "tril",
                                      .traits = graph::linear,
                                      .infer = infer_triangle,
                                      .gradient = triangle_gradient,
                                      .implementations = triangles,
                                      .gpu_implementations = triangles_on_gpu};
const graph::Operation triu_operation{.name = "triu",
                                      .traits = graph::linear,
                                      .infer = infer_triangle,
                                      .gradient = triangle_gradient,
                                      .implementations = triangles,
                                      .gpu_implementations = triangles_on_gpu};

Tensor triangle(const graph::Operation& operation, const Tensor& x, std::int64_t diagonal, const Where& where) {
    ops::check_defined(operation.name, x, "the tensor", where);
    if (x.rank() < 2) {
        fail("shape/rank", operation.name, where,
             {{"argument", "the tensor"},
              {"got", x.rank()},
              {"expected", "2 or more"},
              {"help", "the last two axes are the matrices"}},
             describe(x));
    }
    return graph::record(operation, TriangleAttributes{&operation == &triu_operation, diagonal}, {x}, where);
}

struct EyeAttributes {
    std::int64_t rows = 0, columns = 0, diagonal = 0;
    DType dtype = f32;
    friend bool operator==(const EyeAttributes&, const EyeAttributes&) = default;
};

void run_eye(const graph::Call& c) {
    const auto& a = c.attrs<EyeAttributes>();
    const View& y = c.outputs[0];
    const std::int64_t size = size_of(y.dtype), shift = std::clamp(a.diagonal, -farthest, farthest);
    const OnDevice scope(Device{});  // the bits are read here
    const Tensor one = ones({}, y.dtype);
    const void* bits = graph::view_of(graph::value_of(one)).data;
    if (y.count() == 0) return;
    cpu::parallel_for(a.rows, std::max<std::int64_t>(1, 16384 / a.columns), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            std::byte* out = y.as<std::byte>() + row * a.columns * size;
            std::memset(out, 0, static_cast<std::size_t>(a.columns * size));
            const std::int64_t column = row + shift;
            if (column >= 0 && column < a.columns)
                std::memcpy(out + column * size, bits, static_cast<std::size_t>(size));
        }
    });
}

const graph::Implementation eye_on_gpu[] = {
    {.name = "reference", .run = [](const graph::Call& c) { ops::eye_on_gpu(c, c.attrs<EyeAttributes>().diagonal); }}};
const graph::Implementation eye_implementations[] = {{.name = "reference", .run = run_eye}};
const graph::Operation eye_operation{
    .name = "eye",
    .infer =
        [](const InferContext& c) {
            const auto& a = c.attrs<EyeAttributes>();
            return Specs{{{a.rows, a.columns}, a.dtype}};
        },
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(eye_implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(eye_on_gpu); }};

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal, const Where& where) {
    const Naming naming("tril");
    return triangle(tril_operation, x, diagonal, where);
}
Tensor triu(const Tensor& x, std::int64_t diagonal, const Where& where) {
    const Naming naming("triu");
    return triangle(triu_operation, x, diagonal, where);
}

Tensor eye(std::int64_t rows, std::int64_t columns, std::int64_t diagonal, DType dtype, const Where& where) {
    const Naming naming("eye");
    return graph::record(eye_operation, EyeAttributes{rows, columns, diagonal, dtype}, std::span<const Tensor>(),
                         where);
}
Tensor eye(std::int64_t size, DType dtype, const Where& where) {
    const Naming naming("eye");
    return eye(size, size, 0, dtype, where);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, Indexing indexing, const Where& where) {
    const Naming naming("meshgrid");
    const auto count = std::ssize(axes);
    const bool swapped = indexing == Indexing::cartesian && count >= 2;
    const auto place = [&](std::int64_t i) { return swapped && i < 2 ? 1 - i : i; };
    Shape shape(count, 1);
    for (std::int64_t i = 0; i < count; ++i) {
        const Tensor& t = axes[static_cast<std::size_t>(i)];
        ops::check_defined("meshgrid", t, "an axis", where);
        if (t.rank() > 1) {
            fail("shape/rank", "meshgrid", where,
                 {{"argument", "axis " + std::to_string(i)},
                  {"got", t.rank()},
                  {"expected", 1},
                  {"help", "the coordinates along an axis are a list"}},
                 describe(t));
        }
        shape[place(i)] = t.numel();
    }
    std::vector<Tensor> grids;
    for (std::int64_t i = 0; i < count; ++i) {
        Shape one(count, 1);
        one[place(i)] = shape[place(i)];
        grids.push_back(expand(reshape(axes[static_cast<std::size_t>(i)], one, where), shape, where));
    }
    return grids;
}

ops::Descriptors ops::matrix_descriptors() { return {&tril_operation, &triu_operation, &eye_operation}; }

}  // namespace calor
