// Depthwise convolution along one to three axes on GPUs: what depthwise.kernel takes, and how its threads are laid out.
#include "ops/conv/conv_gpu.h"
#include "ops/conv/conv_problem.h"
#include "ops/gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile conv_depthwise;
}

namespace ops::conv {
namespace {

constexpr std::int64_t most_taps_an_axis = 7, most_taps = 64, most_axes = 3, threads = 128;

/// With three spatial axes: depth, rows, columns. Axes of size 1 are put before those there are.
Problem spatial_problem(Role role, const graph::Call& call) {
    Problem p = problem_of(role, call);
    const std::int64_t missing = most_axes - p.axes();
    const auto widen = [&](Dims& list, std::int64_t at, std::int64_t value) {
        Dims longer;
        for (std::int64_t i = 0; i < at; ++i) longer.push_back(list[i]);
        for (std::int64_t i = 0; i < missing; ++i) longer.push_back(value);
        for (std::int64_t i = at; i < list.rank(); ++i) longer.push_back(list[i]);
        list = longer;
    };
    for (Array* a : {&p.x, &p.w, &p.y}) {
        widen(a->shape, 2, 1);
        widen(a->strides, 2, 0);
    }
    widen(p.settings.stride, 0, 1);
    widen(p.settings.dilation, 0, 1);
    widen(p.settings.pad_low, 0, 0);
    widen(p.settings.pad_high, 0, 0);
    return p;
}

bool channels_last(const Array& a) { return a.size(1) > 1 && std::abs(a.stride(1)) == 1; }

gpu::Launch start(const graph::Call& call, const Problem& p, const char* entry, const Array& source, const Array& other,
                  bool last) {
    const DType result = p.result().dtype;
    gpu::Launch l = launch(call, kernels::conv_depthwise, entry);
    l.constant("P", source.dtype).constant("Q", other.dtype).constant("C", result).constant("ACC", sum_type(result));
    l.constant("KD", p.w.size(2)).constant("KH", p.w.size(3)).constant("KW", p.w.size(4)).constant("LAST", last);
    // Reading rows ahead hides their way from memory but takes registers, so fewer threads run beside each other: what
    // was faster on an H200.
    const std::int64_t taps = numel(p.w.shape) / p.w.size(0);
    const bool ahead = p.role == Role::weight_grad ? last && taps > 27 : taps <= (size_of(source.dtype) == 4 ? 27 : 9);
    return std::move(l.constant("AHEAD", ahead).threads(threads));
}

/// Sizes of the source's spatial axes.
Dims spatial(const Array& a) { return {a.size(2), a.size(3), a.size(4)}; }
const Dims ones(5, 1);

void run_dense(const graph::Call& call, const Problem& p) {
    const bool forward = p.role == Role::forward;
    const Array &source = forward ? p.x : p.y, &result = p.result();
    const std::int64_t units = call.backend.gpu()->traits().units, rows = result.size(3);
    const std::int64_t columns = numel(result.shape) / rows;
    // Strips as long as the device is busy with: each reads KH - 1 rows more than it makes.
    const std::int64_t wanted = std::max<std::int64_t>(1, units * 1024 / columns);
    const std::int64_t strip = std::max(std::min(rows, 2 * p.w.size(3)), (rows + wanted - 1) / wanted);
    const std::int64_t strips = (rows + strip - 1) / strip;
    const bool last = channels_last(result);
    Dims walk{result.size(0), result.size(1), result.size(2), strips, result.size(4)};
    if (last) walk = {result.size(0), result.size(2), strips, result.size(4), result.size(1)};
    Dims low, taps{0, p.w.stride(0)};
    std::int64_t first_tap = 0;
    for (std::int64_t a = 0; a < most_axes; ++a) {
        const std::int64_t size = p.w.size(a + 2), step = p.w.stride(a + 2), pad = p.settings.pad_low[a];
        low.push_back(forward ? pad : size - 1 - pad);
        taps.push_back(forward ? step : -step);
        if (!forward) first_tap += (size - 1) * step;
    }
    const View bias = p.bias ? p.bias->view() : result.view();
    gpu::Launch l = start(call, p, "depthwise", source, p.w, last);
    l.buffer(source.view()).buffer(p.w.view()).buffer(bias).buffer(result.view()).value(std::int32_t{p.bias ? 1 : 0});
    l.size(columns * strips).size(strip).size(rows).size(first_tap).size(p.bias ? bias.stride(0) : 0);
    l.layout(walk, {Dims(5, 0)}).layout(ones, {source.strides, result.strides, taps}).layout(spatial(source), {low});
    l.over(columns * strips);
}

void run_weight(const graph::Call& call, const Problem& p) {
    const std::int64_t channels = p.w.size(0), taps = numel(p.w.shape) / channels;
    const Dims columns{p.y.size(0), p.y.size(2), p.y.size(4)};
    const std::int64_t all = columns[0] * columns[1] * columns[2], units = call.backend.gpu()->traits().units;
    const std::int64_t parts = std::clamp<std::int64_t>(units * 1024 / channels, 1, all),
                       sums_count = parts * taps * channels;
    const bool last = channels_last(p.x), wide = sums_count >= std::int64_t{1} << 30;
    const Ref<Storage> sums = graph::scratch(call, sums_count * size_of(sum_type(p.w.dtype)));
    gpu::Launch l = start(call, p, "depthwise_weight", p.x, p.y, last);
    l.buffer(p.x.view()).buffer(p.y.view()).buffer(sums);
    l.size(channels * parts).size(parts).size(channels).size(all).size(p.y.size(3));
    l.layout(last ? Dims{parts, channels} : Dims{channels, parts}, {Dims(2, 0)}).layout(columns, {Dims(3, 0)});
    l.layout(ones, {p.x.strides, p.y.strides}).layout(spatial(p.x), {p.settings.pad_low});
    l.wide(wide).over(channels * parts);
    gpu::Launch f = start(call, p, "depthwise_finish", p.x, p.y, last);
    f.buffer(sums).buffer(p.w.view()).size(taps * channels).size(parts).size(channels);
    f.layout(ones, {Dims{0, p.w.stride(0), p.w.stride(2), p.w.stride(3), p.w.stride(4)}});
    f.wide(wide).over(taps * channels);
}

}  // namespace

const char* depthwise_gpu_why_not(Role role, const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const Operands o = operands(role, call);
    if (a.window.rank() < 1 || a.window.rank() > most_axes) return "more than 3 spatial axes";
    if (o.w.size(1) != 1 || o.w.size(0) != a.groups) return "more than one channel a group";
    if (!is_floating(o.y.dtype)) return "a dtype that is not floating";
    std::int64_t taps = 1;
    for (std::int64_t i = 0; i < a.window.rank(); ++i) {
        taps *= a.window.kernel[i];
        if (a.window.stride[i] != 1 || (a.window.dilation[i] != 1 && a.window.kernel[i] != 1))
            return "a stride or a dilation";
        if (a.window.kernel[i] > most_taps_an_axis) return "more than 7 taps along an axis";
        if (a.window.pad_low[i] >= a.window.kernel[i] || a.window.pad_high[i] >= a.window.kernel[i]) {
            return "padding as wide as the kernel";
        }
    }
    if (taps > most_taps) return "more than 64 taps";
    const bool library = role == Role::weight_grad && a.window.rank() == 2 && taps <= 9 && o.x.dtype != bf16;
    if (library && !vendor_gpu_why_not(role, call)) return "a small weight gradient, for which cuDNN is faster";
    if (o.x.count() == 0 || o.y.count() == 0) return "nothing to multiply";
    return nullptr;
}

void run_depthwise_gpu(Role role, const graph::Call& call) {
    const Problem p = spatial_problem(role, call);
    if (role != Role::weight_grad) return run_dense(call, p);
    run_weight(call, p);
    const Operands o = operands(role, call);
    if (o.bias) run_bias_grad_gpu(call, o.y, *o.bias);
}

}  // namespace ops::conv
}  // namespace calor
