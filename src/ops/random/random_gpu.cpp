// A thread makes the elements of one Philox block, so every number is where the CPU puts it.
#include "ops/random/random_gpu.h"

#include <algorithm>
#include <cmath>

#include "ops/gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile random_random;
}

namespace random {
namespace {

gpu::Launch start(const graph::Call& c, const char* entry, DType out) {
    const DType wide = c.backend.gpu()->traits().f64 ? f64 : f32;
    gpu::Launch l = ops::launch(c, kernels::random_random, entry);
    l.constant("Y", out).constant("W", wide);
    return l;
}
/// The arguments that every kernel has; returns the number of blocks.
std::int64_t begin(gpu::Launch& l, const graph::Call& c, std::int64_t per_block) {
    const View& y = c.outputs[0];
    const auto& a = c.attrs<RandomAttributes>();
    const std::int64_t count = y.count(), blocks = (count + per_block - 1) / per_block;
    l.buffer(y).size(count).size(blocks).value(a.at.seed).value(a.at.offset);
    return blocks;
}

}  // namespace

void uniform_on_gpu(const graph::Call& c, double limit) {
    const auto& a = c.attrs<RandomAttributes>();
    const double span = a.b - a.a;
    if (a.dtype == f64) {
        gpu::Launch l = start(c, "uniform_f64", f64);
        const std::int64_t blocks = begin(l, c, 2);
        l.value(a.a).value(span).value(limit).over(blocks);
        return;
    }
    gpu::Launch l = start(c, "uniform_f32", a.dtype);
    const std::int64_t blocks = begin(l, c, 4);
    l.value(a.dtype == f32 ? 8 : a.dtype == f16 ? 21 : 24).value(static_cast<float>(a.a));
    l.value(static_cast<float>(span)).value(static_cast<float>(limit)).over(blocks);
}

void normal_on_gpu(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    gpu::Launch l = start(c, a.dtype == f64 ? "normal_f64" : "normal_f32", a.dtype);
    const std::int64_t blocks = begin(l, c, a.dtype == f64 ? 2 : 4);
    const DType computed = compute_type(a.dtype);
    l.number(a.a, computed).number(a.b, computed).over(blocks);
}

void truncated_normal_on_gpu(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    gpu::Launch l = start(c, "truncated_normal", a.dtype);
    const std::int64_t blocks = begin(l, c, 2);
    const DType wide = c.backend.gpu()->traits().f64 ? f64 : f32;
    l.value(a.first != 0 ? 1 : 0);
    for (const double v : {a.a, a.b, a.c, a.d, a.low, a.high}) l.number(v, wide);
    l.over(blocks);
}

void bernoulli_on_gpu(const graph::Call& c) {
    gpu::Launch l = start(c, "bernoulli", u8);
    const std::int64_t blocks = begin(l, c, 4);
    l.value(static_cast<std::uint64_t>(std::llrint(c.attrs<RandomAttributes>().a * 0x1p32))).over(blocks);
}

void bernoulli_of_on_gpu(const graph::Call& c) {
    const View& p = c.inputs[0];
    const std::int64_t count = p.count();
    if (count == 0) return;
    const std::int64_t groups = std::min<std::int64_t>((count + 255) / 256, 256);
    const Ref<Storage> found = graph::scratch(c, groups * 8);
    start(c, "check_probabilities", u8).constant("X", p.dtype).buffer(p).buffer(found).size(count).run(groups);
    std::vector<std::int64_t> first(static_cast<std::size_t>(groups));
    Stream& stream = c.backend.stream();
    stream.copy_to_host(first.data(), found->data, groups * 8);
    const std::int64_t position = *std::ranges::min_element(first);
    if (position < count) {
        double wide = 0;
        float narrow = 0;
        if (p.dtype == f64) stream.copy_to_host(&wide, p.as<double>() + position, 8);
        if (p.dtype != f64) stream.copy_to_host(&narrow, p.as<float>() + position, 4);
        fail_probability(c, position, p.dtype == f64 ? wide : static_cast<double>(narrow));
    }
    gpu::Launch l = start(c, "bernoulli_of", u8);
    l.constant("X", p.dtype).buffer(p);
    const std::int64_t blocks = begin(l, c, 4);
    l.over(blocks);
}

void randint_on_gpu(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    const std::int64_t size = size_of(a.dtype);
    gpu::Launch l = start(c, "randint", size == 8 ? u64 : size == 4 ? u32 : size == 2 ? u16 : u8);
    const std::int64_t blocks = begin(l, c, 2);
    l.value(static_cast<std::uint64_t>(a.first)).value(a.span).over(blocks);
}

}  // namespace random
}  // namespace calor
