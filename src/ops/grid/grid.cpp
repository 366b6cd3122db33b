// Sampling: checks, shape rules, gradient rules, public functions.
#include "ops/grid/sampling_gpu.h"

#include <fmt/format.h>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/view.h"
#include "ops/registry.h"

namespace calor::ops::grid {
namespace {

using graph::GradContext;
using graph::InferContext;
using graph::Specs;

Shape with_points(std::int64_t n, std::int64_t c, const Tensor& g) {
    Shape shape{n, c};
    for (std::int64_t a = 1; a + 1 < g.rank(); ++a) shape.push_back(g.shape()[a]);
    return shape;
}

void check_shapes(const InferContext& c) {
    const Tensor &x = c.inputs[0], &g = c.inputs[1];
    const std::string operands = fmt::format("input {}, grid {}", describe(x), describe(g));
    const std::int64_t axes = x.rank() - 2;
    if (axes < 1 || axes > most_axes) {
        fail("grid/rank", c.operation, c.where,
             {{"argument", "the input"}, {"got", x.rank()}, {"low", 3}, {"high", most_axes + 2}}, operands);
    }
    if (g.rank() < 3) {
        fail("grid/rank", c.operation, c.where,
             {{"argument", "the grid"}, {"got", g.rank()}, {"low", 3}, {"high", "any"}}, operands);
    }
    if (g.shape().back() != axes) {
        fail("grid/coordinates", c.operation, c.where, {{"got", g.shape().back()}, {"expected", axes}}, operands);
    }
    if (g.shape()[0] != x.shape()[0]) {
        fail("grid/batch", c.operation, c.where, {{"got", g.shape()[0]}, {"expected", x.shape()[0]}}, operands);
    }
    for (std::int64_t a = 2; a < x.rank(); ++a) {
        if (x.shape()[a] == 0) fail("grid/empty", c.operation, c.where, {{"axis", a}}, operands);
    }
}

void check_dtypes(const InferContext& c) {
    const Tensor &x = c.inputs[0], &g = c.inputs[1];
    for (const Tensor* t : {&x, &g}) {
        if (is_floating(t->dtype())) continue;
        fail("dtype/unsupported", c.operation, c.where,
             {{"argument", t == &x ? "the input" : "the grid"}, {"got", t->dtype()}, {"expected", "a floating dtype"}},
             describe(*t));
    }
    if (g.dtype() != x.dtype() && g.dtype() != f32) {
        fail("dtype/mismatch", c.operation, c.where,
             {{"argument", "the grid (which may also be f32)"},
              {"got", g.dtype()},
              {"other", "the input"},
              {"expected", x.dtype()}},
             fmt::format("input {}, grid {}", describe(x), describe(g)));
    }
}

Specs infer_sample(const InferContext& c) {
    check_shapes(c);
    check_dtypes(c);
    return {{with_points(c.inputs[0].shape()[0], c.inputs[0].shape()[1], c.inputs[1]), c.inputs[0].dtype()}};
}
Specs infer_spread(const InferContext& c) {
    const Tensor& h = c.inputs[0];
    Shape shape{h.shape()[0], h.shape()[1]};
    for (const std::int64_t s : c.attrs<Attributes>().sizes) shape.push_back(s);
    return {{shape, h.dtype()}};
}
Specs infer_slope(const InferContext& c) { return {{c.inputs[1].shape(), c.inputs[1].dtype()}}; }

template <Role role> std::span<const graph::Implementation> implementations(DeviceKind) {
    static const graph::Implementation list[] = {
        {.name = "grid_rows", .run = [](const graph::Call& c) { run_fast(role, c); }},
        {.name = "reference", .run = [](const graph::Call& c) { run_reference(role, c); }}};
    return list;
}

template <Role role> std::span<const graph::Implementation> gpu_implementations() {
    static const graph::Implementation list[] = {
        {.name = "grid_points", .run = [](const graph::Call& c) { run_on_gpu(role, c); }}};
    return list;
}

/// Whether one more derivative along the axis leaves anything.
bool has_slope(const Attributes& a, std::int64_t axis) { return a.orders[axis] < highest_order(a.mode); }
bool has_slopes(const Attributes& a) {
    for (std::int64_t i = 0; i < a.orders.rank(); ++i) {
        if (has_slope(a, i)) return true;
    }
    return false;
}

void sample_gradient(const GradContext& c) {
    const auto& a = c.attrs<Attributes>();
    const Tensor gy = c.cotangent();
    if (c.needs[0]) c.grads[0] = spread(gy, c.inputs[1], a, c.where);
    if (c.needs[1]) {
        c.grads[1] = has_slopes(a) ? slope(c.inputs[0], c.inputs[1], gy, a, c.where)
                                   : zeros(c.inputs[1].shape(), c.inputs[1].dtype(), c.where);
    }
}

void spread_gradient(const GradContext& c) {
    const auto& a = c.attrs<Attributes>();
    const Tensor u = c.cotangent();
    if (c.needs[0]) c.grads[0] = sample(u, c.inputs[1], a, c.where);
    if (c.needs[1] && has_slopes(a)) c.grads[1] = slope(u, c.inputs[1], c.inputs[0], a, c.where);
}

void add_to(Tensor& sum, const Tensor& term, const Where& where) { sum = sum.defined() ? add(sum, term, where) : term; }

void slope_gradient(const GradContext& c) {
    const auto& a = c.attrs<Attributes>();
    const Tensor &x = c.inputs[0], &g = c.inputs[1], &h = c.inputs[2];
    const Tensor v = c.cotangent();
    for (std::int64_t axis = 0; axis < a.orders.rank(); ++axis) {
        if (!has_slope(a, axis)) continue;
        Attributes more = a;
        ++more.orders[axis];
        const Tensor along = unsqueeze(select(v, -1, component(a, axis), c.where), 1, c.where);  // [N, 1, positions...]
        const Tensor scaled = mul(h, along, c.where).to(h.dtype(), c.where);
        if (c.needs[0]) add_to(c.grads[0], spread(scaled, g, more, c.where), c.where);
        if (c.needs[1] && has_slopes(more)) add_to(c.grads[1], slope(x, g, scaled, more, c.where), c.where);
        if (c.needs[2]) {
            add_to(c.grads[2], mul(sample(x, g, more, c.where), along, c.where).to(h.dtype(), c.where), c.where);
        }
    }
}

const graph::Operation sample_operation{.name = "grid_sample",
                                        .traits = graph::linear,
                                        .infer = infer_sample,
                                        .gradient = sample_gradient,
                                        .implementations = implementations<Role::sample>,
                                        .gpu_implementations = gpu_implementations<Role::sample>,
                                        .format = format_of_input};
const graph::Operation spread_operation{.name = "grid_spread",
                                        .traits = graph::linear,
                                        .infer = infer_spread,
                                        .gradient = spread_gradient,
                                        .implementations = implementations<Role::spread>,
                                        .gpu_implementations = gpu_implementations<Role::spread>,
                                        .format = format_of_input};
const graph::Operation slope_operation{.name = "grid_slope",
                                       .traits = graph::linear,
                                       .infer = infer_slope,
                                       .gradient = slope_gradient,
                                       .implementations = implementations<Role::slope>,
                                       .gpu_implementations = gpu_implementations<Role::slope>};

}  // namespace

Tensor sample(const Tensor& x, const Tensor& g, const Attributes& attributes, const Where& where) {
    return graph::record(sample_operation, attributes, {x, g}, where);
}
Tensor spread(const Tensor& h, const Tensor& g, const Attributes& attributes, const Where& where) {
    return graph::record(spread_operation, attributes, {h, g}, where);
}
Tensor slope(const Tensor& x, const Tensor& g, const Tensor& h, const Attributes& attributes, const Where& where) {
    return graph::record(slope_operation, attributes, {x, g, h}, where);
}

}  // namespace calor::ops::grid

namespace calor {

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options, const Where& where) {
    const Naming naming("grid_sample");
    ops::check_defined("grid_sample", x, "the input", where);
    ops::check_defined("grid_sample", grid, "the grid", where);
    ops::grid::Attributes a;
    a.mode = options.mode;
    a.padding = options.padding;
    a.align_corners = options.align_corners;
    for (std::int64_t i = 2; i < x.rank(); ++i) a.sizes.push_back(x.shape()[i]);
    a.orders = Dims(a.sizes.rank(), 0);
    return ops::grid::sample(x, grid, a, where);
}

Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners, const Where& where) {
    const Naming naming("affine_grid");
    ops::check_defined("affine_grid", theta, "theta", where);
    const std::int64_t rank = size.rank();
    if (!is_floating(theta.dtype())) {
        fail("dtype/unsupported", "affine_grid", where,
             {{"argument", "theta"}, {"got", theta.dtype()}, {"expected", "a floating dtype"}}, describe(theta));
    }
    if (rank < 1 || theta.rank() != 3 || theta.shape()[1] != rank || theta.shape()[2] != rank + 1) {
        fail("grid/theta", "affine_grid", where,
             {{"got", theta.shape()}, {"axes", rank}, {"columns", rank + 1}, {"size", size}}, describe(theta));
    }
    Shape whole{theta.shape()[0]};
    for (const std::int64_t s : size) whole.push_back(s);
    whole.push_back(rank);
    numel(whole, where);
    const DType dtype = compute_type(theta.dtype());
    const Tensor map = theta.to(dtype, where);
    const auto column = [&](std::int64_t j) {  // [N, 1, ..., 1, rank]
        Shape shape(rank + 2, 1);
        shape[0] = whole[0];
        shape[rank + 1] = rank;
        return reshape(select(map, 2, j, where), shape, where);
    };
    Tensor grid = column(rank);
    const OnDevice scope(grid.device());
    for (std::int64_t a = rank - 1; a >= 0; --a) {
        // (2 i + 1 - n) / n, with aligned corners (2 i + 1 - n) / (n - 1); 0 on an axis of one element
        const std::int64_t n = size[a], divisor = std::max<std::int64_t>(1, align_corners ? n - 1 : n);
        const Tensor steps = arange(1 - n, n + 1, 2, dtype == f64 ? f64 : f32, where);
        Shape shape(rank + 2, 1);
        shape[a + 1] = n;
        const Tensor q = reshape(div(steps, static_cast<double>(divisor), where), shape, where);
        grid = add(grid, mul(q, column(rank - 1 - a), where), where);
    }
    return expand(grid, whole, where).to(theta.dtype(), where);
}

ops::Descriptors ops::grid_descriptors() {
    return {&ops::grid::sample_operation, &ops::grid::spread_operation, &ops::grid::slope_operation};
}

}  // namespace calor
