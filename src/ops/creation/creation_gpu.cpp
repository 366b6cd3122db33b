#include "ops/creation/creation_gpu.h"

#include <algorithm>

#include "ops/gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile creation_creation;
}

namespace ops {
namespace {

gpu::Launch start(const graph::Call& c, const char* entry, DType out) {
    gpu::Launch l = launch(c, kernels::creation_creation, entry);
    l.constant("Y", out).constant("W", c.backend.gpu()->traits().f64 ? f64 : f32);
    return l;
}
DType carrier(std::int64_t bytes) { return bytes == 1 ? u8 : bytes == 2 ? u16 : bytes == 4 ? u32 : u64; }
DType wide(const graph::Call& c) { return c.backend.gpu()->traits().f64 ? f64 : f32; }
/// A diagonal that lies as far out as any that meets no element.
std::int64_t near(std::int64_t diagonal, std::int64_t rows, std::int64_t columns) {
    return std::clamp(diagonal, -rows - 1, columns + 1);
}

}  // namespace

void whole_range_on_gpu(const graph::Call& c, std::uint64_t first, std::uint64_t distance) {
    const View& y = c.outputs[0];
    const std::int64_t n = y.count();
    start(c, "whole_range", carrier(size_of(y.dtype)))
        .constant("INTEGRAL", 1)
        .buffer(y)
        .size(n)
        .value(first)
        .value(distance)
        .over(n);
}

void range_on_gpu(const graph::Call& c, double start_at, double step) {
    const View& y = c.outputs[0];
    const std::int64_t n = y.count();
    start(c, "range", y.dtype).buffer(y).size(n).number(start_at, wide(c)).number(step, wide(c)).over(n);
}

void spaced_on_gpu(const graph::Call& c, double start_at, double stop, double step, double base) {
    const View& y = c.outputs[0];
    const std::int64_t n = y.count();
    gpu::Launch l = start(c, "spaced", y.dtype);
    l.buffer(y).size(n);
    for (const double v : {start_at, stop, step, base}) l.number(v, wide(c));
    l.over(n);
}

void eye_on_gpu(const graph::Call& c, std::int64_t diagonal) {
    const View& y = c.outputs[0];
    start(c, "eye", y.dtype)
        .buffer(y)
        .size(y.count())
        .size(near(diagonal, y.size(0), y.size(1)))
        .layout(*y.shape, {*y.strides})
        .over(y.count());
}

void triangle_on_gpu(const graph::Call& c, std::int64_t diagonal, bool upper) {
    const View &x = c.inputs[0], &y = c.outputs[0];
    if (y.count() == 0) return;
    const std::int64_t given = x.rank(), rank = given <= 2 ? 2 : std::max<std::int64_t>(given, 6);
    Dims sizes(rank, 1);
    Strides strides(rank, 0);
    for (std::int64_t a = 0; a < given; ++a) {
        sizes[rank - given + a] = x.size(a);
        strides[rank - given + a] = x.stride(a);
    }
    start(c, "triangle", carrier(size_of(x.dtype)))
        .constant("E", carrier(size_of(x.dtype)))
        .constant("RANK", rank)
        .buffer(x)
        .buffer(y)
        .size(y.count())
        .size(near(diagonal, x.size(given - 2), x.size(given - 1)))
        .value(upper ? 1 : 0)
        .layout(sizes, {strides})
        .over(y.count());
}

}  // namespace ops
}  // namespace calor
