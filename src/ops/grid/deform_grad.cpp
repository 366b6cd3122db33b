// Gradients of deformable convolution. With s = the input sampled at the moved taps [N h, C / h, K, positions] (h
// offset groups) and columns = s mask,
//   y = w columns,  gcolumns = w' gy,  gw = gy columns',  gmask = sum over channels of gcolumns s
//   gx = spread(gcolumns mask),  goffset = slope(x, gcolumns mask)
#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/matmul.h"
#include "calor/reduce.h"
#include "calor/view.h"
#include "ops/grid/deform.h"
#include "ops/grid/grid.h"

namespace calor::ops::deform {
namespace {

Shape with_positions(std::initializer_list<std::int64_t> first, const Attributes& a) {
    Shape shape(first);
    for (const std::int64_t p : a.positions) shape.push_back(p);
    return shape;
}

/// Coordinate `axis` of the taps before they move: [1, K, positions...].
Tensor base(const Attributes& a, const Sizes& s, std::int64_t axis, DType dtype, const Where& where) {
    std::int64_t inner = 1;
    for (std::int64_t i = axis + 1; i < s.axes; ++i) inner *= a.window.kernel[i];
    std::vector<double> shift(static_cast<std::size_t>(s.taps));
    for (std::int64_t k = 0; k < s.taps; ++k) {
        shift[static_cast<std::size_t>(k)] =
            static_cast<double>(k / inner % a.window.kernel[axis] * a.window.dilation[axis] - a.window.pad_low[axis]);
    }
    Shape of_taps(s.axes + 2, 1), of_positions(s.axes + 2, 1);
    of_taps[1] = s.taps;
    of_positions[axis + 2] = a.positions[axis];
    const Tensor steps = mul(arange(0, a.positions[axis], 1, dtype, where), a.window.stride[axis], where);
    const Tensor sum = add(reshape(steps, of_positions, where),
                           reshape(tensor(shift, {s.taps}, where).to(dtype, where), of_taps, where), where);
    return expand(sum, with_positions({1, s.taps}, a), where);
}

/// Where the taps are: [N h, K, positions..., R].
Tensor places(const Attributes& a, const Sizes& s, const Tensor& offset, const Where& where) {
    const DType dtype = offset.dtype() == f64 ? f64 : f32;
    const Tensor moved = reshape(offset, with_positions({s.samples * a.offset_groups, s.taps, s.axes}, a), where);
    std::vector<Tensor> bases;
    for (std::int64_t i = 0; i < s.axes; ++i) bases.push_back(base(a, s, i, dtype, where));
    return add(movedim(moved, {2}, {-1}, where).to(dtype, where), stack(bases, -1, where), where);
}

}  // namespace

void gradient(const graph::GradContext& c) {
    Attributes a = c.attrs<Attributes>();
    const Tensor &x = c.inputs[0], &w = c.inputs[2];
    const Tensor gy = c.cotangent();
    const std::size_t mask_at = 3, bias_at = a.mask ? 4 : 3;
    const bool wants_mask = a.mask && c.needs[mask_at];
    if (a.bias && c.needs[bias_at]) {
        Axes others{0};
        for (std::int64_t i = 2; i < gy.rank(); ++i) others.push_back(i);
        c.grads[bias_at] = sum(gy, others, false, c.where);
    }
    a.wants_x = c.needs[0];
    a.wants_offset = c.needs[1] || wants_mask;
    a.wants_weight = c.needs[2];
    if (!a.wants_x && !a.wants_offset && !a.wants_weight) return;
    if (!grad_enabled()) {
        InlineVector<Tensor, 3> inputs{x, c.inputs[1], w, gy};
        if (a.mask) inputs.push_back(c.inputs[mask_at]);
        a.bias = false;
        const Tensor first = record_backward(a, std::span<const Tensor>(inputs.begin(), inputs.size()), c.where);
        if (c.needs[0]) c.grads[0] = first;
        if (c.needs[1]) c.grads[1] = graph::result(first, 1);
        if (c.needs[2]) c.grads[2] = graph::result(first, 2);
        if (wants_mask) c.grads[mask_at] = graph::result(first, 3);
        return;
    }
    const Sizes s = sizes_of(a, x.shape()[0], x.shape()[1], w.shape()[0]);
    const std::int64_t split = s.samples * a.offset_groups, inner = s.per_group * s.taps;
    grid::Attributes sampling;
    sampling.pixels = true;
    sampling.sizes = a.sizes;
    sampling.orders = Dims(s.axes, 0);
    Shape parts{split, s.per_offset};
    for (const std::int64_t size : a.sizes) parts.push_back(size);
    const Tensor u = places(a, s, c.inputs[1], c.where), xs = reshape(x, parts, c.where);
    const Shape columns_shape = with_positions({split, s.per_offset, s.taps}, a);
    const Tensor gys = reshape(gy, {s.samples, a.groups, s.out / a.groups, s.points}, c.where);
    const Tensor ws = reshape(w, {1, a.groups, s.out / a.groups, inner}, c.where);
    const Tensor mask = a.mask ? reshape(c.inputs[mask_at], with_positions({split, 1, s.taps}, a), c.where) : Tensor();
    const auto masked = [&](const Tensor& t) { return a.mask ? mul(t, mask, c.where) : t; };
    Tensor sampled, gcolumns;
    if (a.wants_weight || wants_mask) sampled = grid::sample(xs, u, sampling, c.where);
    if (a.wants_x || a.wants_offset) {
        gcolumns = reshape(matmul(transpose(ws, -1, -2, c.where), gys, c.where), columns_shape, c.where);
    }
    if (c.needs[0]) c.grads[0] = reshape(grid::spread(masked(gcolumns), u, sampling, c.where), x.shape(), c.where);
    if (c.needs[1]) {
        const Tensor slopes = grid::slope(xs, u, masked(gcolumns), sampling, c.where);
        c.grads[1] = reshape(movedim(slopes, {-1}, {2}, c.where), c.inputs[1].shape(), c.where).to(x.dtype(), c.where);
    }
    if (c.needs[2]) {
        const Tensor columns = reshape(masked(sampled), {s.samples, a.groups, inner, s.points}, c.where);
        const Tensor each = matmul(gys, transpose(columns, -1, -2, c.where), c.where);
        c.grads[2] = reshape(sum(each, {0}, false, c.where), w.shape(), c.where);
    }
    if (wants_mask) {
        c.grads[mask_at] =
            reshape(sum(mul(gcolumns, sampled, c.where), {1}, false, c.where), c.inputs[mask_at].shape(), c.where);
    }
}

}  // namespace calor::ops::deform
