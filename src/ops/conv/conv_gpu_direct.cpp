// Convolutions of few channels a group on GPUs, where tiles would be mostly empty: depthwise ones above all.
#include <numeric>

#include "ops/conv/conv_gpu.h"
#include "ops/conv/conv_problem.h"
#include "ops/gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile conv_direct;
}

namespace ops::conv {
namespace {

constexpr std::int64_t axes = 3;  // of the kernels; fewer are filled up

/// One entry an axis of the kernel: `of(a)`, or `otherwise` where the problem has no such axis.
template <class F> Dims per_axis(const Problem& p, std::int64_t otherwise, const F& of) {
    Dims list;
    for (std::int64_t a = 0; a < axes; ++a) list.push_back(a < p.axes() ? of(a) : otherwise);
    return list;
}
Dims sizes_of(const Problem& p, const Array& array) {
    return per_axis(p, 1, [&](std::int64_t a) { return array.size(a + 2); });
}
Dims strides_of(const Problem& p, const Array& array) {
    return per_axis(p, 0, [&](std::int64_t a) { return array.stride(a + 2); });
}
Dims joined(std::initializer_list<std::int64_t> first, const Dims& middle, std::initializer_list<std::int64_t> last) {
    Dims list(std::span(first.begin(), first.size()));
    for (const std::int64_t v : middle) list.push_back(v);
    for (const std::int64_t v : last) list.push_back(v);
    return list;
}

gpu::Launch start(const graph::Call& call, const Problem& p, const char* entry, const Array& source,
                  const Array& other) {
    const DType result = p.result().dtype;
    gpu::Launch l = launch(call, kernels::conv_direct, entry);
    l.constant("P", read_type(source.dtype, result))
        .constant("Q", read_type(other.dtype, result))
        .constant("C", read_type(result, result))
        .constant("ACC", sum_type(result))
        .constant("ROLE", static_cast<std::int64_t>(p.role));
    return l;
}

void run_dense(const graph::Call& call, const Problem& p) {
    const bool forward = p.role == Role::forward;
    const Array &source = forward ? p.x : p.y, &result = p.result();
    const std::int64_t groups = p.settings.groups, in = p.w.size(1), out = p.w.size(0) / groups;
    const std::int64_t channels = forward ? in : out, per_group = forward ? out : in;
    const bool last = result.size(1) > 1 && std::abs(result.stride(1)) == 1;
    const std::int64_t c = result.size(1), c_step = result.stride(1), q_step = p.w.stride(forward ? 0 : 1);
    const Dims sizes = joined({result.size(0), last ? 1 : c}, sizes_of(p, result), {last ? c : 1});
    const Dims to = joined({result.stride(0), last ? 0 : c_step}, strides_of(p, result), {last ? c_step : 0});
    const Dims from = joined({source.stride(0), 0}, Dims(axes, 0), {0});
    const Dims weights = joined({0, q_step}, Dims(axes, 0), {0});
    const Dims every = per_axis(p, 1, [&](std::int64_t a) {
        return forward ? 1 : p.settings.stride[a] / std::gcd(p.settings.stride[a], p.settings.dilation[a]);
    });
    const View bias = p.bias ? p.bias->view() : result.view();
    gpu::Launch l = start(call, p, "direct", source, p.w);
    l.buffer(source.view()).buffer(p.w.view()).buffer(bias).buffer(result.view());
    l.value(std::int32_t{p.bias ? 1 : 0});
    l.size(numel(result.shape)).size(channels).size(source.stride(1)).size(p.w.stride(forward ? 1 : 0));
    l.size(per_group).size(channels * source.stride(1)).size(out * p.w.stride(0)).size(p.bias ? bias.stride(0) : 0);
    l.layout(sizes, {to, from, weights});
    l.layout(sizes_of(p, p.w), {sizes_of(p, source), strides_of(p, source), strides_of(p, p.w),
                                per_axis(p, 1, [&](std::int64_t a) { return p.settings.stride[a]; }),
                                per_axis(p, 1, [&](std::int64_t a) { return p.settings.dilation[a]; }),
                                per_axis(p, 0, [&](std::int64_t a) { return p.settings.pad_low[a]; }), every});
    l.over(numel(result.shape));
}

void run_weight(const graph::Call& call, const Problem& p) {
    const std::int64_t in = p.w.size(1), out = p.w.size(0) / p.settings.groups, count = numel(p.w.shape);
    const Dims positions = joined({p.y.size(0)}, sizes_of(p, p.y), {});
    gpu::Launch l = start(call, p, "direct_weight", p.x, p.y);
    l.buffer(p.x.view()).buffer(p.y.view()).buffer(p.w.view());
    l.size(count).size(numel(Shape(positions))).size(out).size(in * p.x.stride(1)).size(p.x.stride(1));
    l.size(p.y.stride(1));
    l.layout(joined({p.w.size(0), in}, sizes_of(p, p.w), {}),
             {joined({p.w.stride(0), p.w.stride(1)}, strides_of(p, p.w), {})});
    l.layout(positions, {joined({p.x.stride(0)}, Dims(axes, 0), {}), joined({p.y.stride(0)}, strides_of(p, p.y), {}),
                         joined({0}, per_axis(p, 1, [&](std::int64_t a) { return p.settings.stride[a]; }), {})});
    l.layout(sizes_of(p, p.x),
             {strides_of(p, p.x), per_axis(p, 1, [&](std::int64_t a) { return p.settings.dilation[a]; }),
              per_axis(p, 0, [&](std::int64_t a) { return p.settings.pad_low[a]; })});
    l.run(count);
}

}  // namespace

const char* direct_gpu_why_not(Role role, const graph::Call& call) {
    const Problem p = simplified(problem_of(role, call));
    if (p.axes() > axes) return "more than 3 spatial axes";
    const std::int64_t in = p.w.size(1), out = p.w.size(0) / p.settings.groups;
    const std::int64_t taps = numel(p.w.shape) / std::max<std::int64_t>(1, p.w.size(0) * in);
    if (role == Role::weight_grad) {
        if (in * out * taps > 64) return "so many results a group that tiles are expected to be faster";
    } else if ((role == Role::forward ? out : in) >= 8 || (role == Role::forward ? in : out) >= 8) {
        return "8 or more channels a group, for which tiles are expected to be faster";
    }
    constexpr std::int64_t far = std::int64_t{1} << 29;
    for (std::int64_t a = 0; a < p.axes(); ++a) {
        const cpu::ConvSettings& s = p.settings;
        if (std::max({p.x.size(a + 2), p.y.size(a + 2), s.stride[a], std::abs(s.pad_low[a]), std::abs(s.pad_high[a]),
                      s.dilation[a] * p.w.size(a + 2)}) >= far) {
            return "positions past 2^29";
        }
    }
    return nullptr;
}

void run_direct_gpu(Role role, const graph::Call& call) {
    if (without_products_gpu(role, call)) return;
    const Problem p = simplified(problem_of(role, call));
    const Operands o = operands(role, call);
    if (role != Role::weight_grad) return run_dense(call, p);
    run_weight(call, p);
    if (o.bias) run_bias_grad_gpu(call, o.y, *o.bias);
}

}  // namespace ops::conv
}  // namespace calor
