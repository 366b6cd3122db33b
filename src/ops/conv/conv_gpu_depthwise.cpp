// Depthwise convolution along one or two axes on GPUs: what depthwise.kernel takes, and how its threads are laid out.
#include "ops/conv/conv_gpu.h"
#include "ops/conv/conv_problem.h"
#include "ops/gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile conv_depthwise;
}

namespace ops::conv {
namespace {

constexpr std::int64_t most_taps_an_axis = 7, threads = 128;

/// With two spatial axes: a unit axis is put before one.
Problem planar_problem(Role role, const graph::Call& call) {
    Problem p = problem_of(role, call);
    if (p.axes() != 1) return p;
    for (Array* a : {&p.x, &p.w, &p.y}) {
        Dims sizes{a->size(0), a->size(1), 1, a->size(2)}, strides{a->stride(0), a->stride(1), 0, a->stride(2)};
        a->shape = sizes;
        a->strides = strides;
    }
    cpu::ConvSettings& s = p.settings;
    s.stride = {1, s.stride[0]};
    s.dilation = {1, s.dilation[0]};
    s.pad_low = {0, s.pad_low[0]};
    s.pad_high = {0, s.pad_high[0]};
    return p;
}

bool channels_last(const Array& a) { return a.size(1) > 1 && std::abs(a.stride(1)) == 1; }

gpu::Launch start(const graph::Call& call, const Problem& p, const char* entry, const Array& source, const Array& other,
                  bool last) {
    const DType result = p.result().dtype;
    gpu::Launch l = launch(call, kernels::conv_depthwise, entry);
    l.constant("P", source.dtype).constant("Q", other.dtype).constant("C", result).constant("ACC", sum_type(result));
    l.constant("KH", p.w.size(2)).constant("KW", p.w.size(3)).constant("LAST", last).threads(threads);
    return l;
}

void run_dense(const graph::Call& call, const Problem& p) {
    const bool forward = p.role == Role::forward;
    const Array &source = forward ? p.x : p.y, &result = p.result();
    const std::int64_t kh = p.w.size(2), kw = p.w.size(3), units = call.backend.gpu()->traits().units;
    const std::int64_t rows = result.size(2), columns = result.size(0) * result.size(1) * result.size(3);
    // Strips as long as the device is busy with: each reads KH - 1 rows more than it makes.
    const std::int64_t wanted = std::max<std::int64_t>(1, units * 1024 / std::max<std::int64_t>(1, columns));
    const std::int64_t strip =
        std::max<std::int64_t>(std::min<std::int64_t>(rows, 2 * kh), (rows + wanted - 1) / wanted);
    const std::int64_t strips = (rows + strip - 1) / strip;
    const bool last = channels_last(result);
    Dims walk{result.size(0), result.size(1), strips, result.size(3)};
    if (last) walk = {result.size(0), strips, result.size(3), result.size(1)};
    const std::int64_t low0 = forward ? p.settings.pad_low[0] : kh - 1 - p.settings.pad_low[0];
    const std::int64_t low1 = forward ? p.settings.pad_low[1] : kw - 1 - p.settings.pad_low[1];
    const std::int64_t turn = forward ? 1 : -1;
    const View bias = p.bias ? p.bias->view() : result.view();
    gpu::Launch l = start(call, p, "depthwise", source, p.w, last);
    l.buffer(source.view()).buffer(p.w.view()).buffer(bias).buffer(result.view()).value(std::int32_t{p.bias ? 1 : 0});
    l.size(columns * strips).size(strip).size(rows).size(source.size(2)).size(source.size(3)).size(low0).size(low1);
    l.size(source.stride(0)).size(source.stride(1)).size(source.stride(2)).size(source.stride(3));
    l.size(result.stride(0)).size(result.stride(1)).size(result.stride(2)).size(result.stride(3));
    l.size(forward ? 0 : (kh - 1) * p.w.stride(2) + (kw - 1) * p.w.stride(3));
    l.size(p.w.stride(0)).size(turn * p.w.stride(2)).size(turn * p.w.stride(3)).size(p.bias ? bias.stride(0) : 0);
    l.layout(walk, {Dims(4, 0)}).over(columns * strips);
}

void run_weight(const graph::Call& call, const Problem& p) {
    const std::int64_t channels = p.w.size(0), taps = p.w.size(2) * p.w.size(3), all = p.y.size(0) * p.y.size(3);
    const std::int64_t units = call.backend.gpu()->traits().units;
    const std::int64_t parts = std::clamp<std::int64_t>(units * 1024 / channels, 1, all);
    const bool last = channels_last(p.x);
    const Ref<Storage> sums = graph::scratch(call, parts * taps * channels * size_of(sum_type(p.w.dtype)));
    gpu::Launch l = start(call, p, "depthwise_weight", p.x, p.y, last);
    l.buffer(p.x.view()).buffer(p.y.view()).buffer(sums).size(channels * parts).size(parts).size(channels).size(all);
    l.size(p.y.size(2)).size(p.x.size(2)).size(p.x.size(3)).size(p.settings.pad_low[0]).size(p.settings.pad_low[1]);
    for (std::int64_t a = 0; a < 4; ++a) l.size(p.x.stride(a));
    for (std::int64_t a = 0; a < 4; ++a) l.size(p.y.stride(a));
    l.layout(last ? Dims{parts, channels} : Dims{channels, parts}, {Dims(2, 0)});
    l.layout(Dims{p.y.size(0), p.y.size(3)}, {Dims(2, 0)}).wide(parts * taps * channels >= std::int64_t{1} << 30);
    l.over(channels * parts);
    gpu::Launch f = start(call, p, "depthwise_finish", p.x, p.y, last);
    f.buffer(sums).buffer(p.w.view()).size(taps * channels).size(parts).size(channels);
    f.size(p.w.stride(0)).size(p.w.stride(2)).size(p.w.stride(3));
    f.wide(parts * taps * channels >= std::int64_t{1} << 30).over(taps * channels);
}

}  // namespace

const char* depthwise_gpu_why_not(Role role, const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const Operands o = operands(role, call);
    if (a.window.rank() < 1 || a.window.rank() > 2) return "more than 2 spatial axes";
    if (o.w.size(1) != 1 || o.w.size(0) != a.groups) return "more than one channel a group";
    if (!is_floating(o.y.dtype)) return "a dtype that is not floating";
    for (std::int64_t i = 0; i < a.window.rank(); ++i) {
        if (a.window.stride[i] != 1 || (a.window.dilation[i] != 1 && a.window.kernel[i] != 1))
            return "a stride or a dilation";
        if (a.window.kernel[i] > most_taps_an_axis) return "more than 7 taps along an axis";
        if (a.window.pad_low[i] >= a.window.kernel[i] || a.window.pad_high[i] >= a.window.kernel[i]) {
            return "padding as wide as the kernel";
        }
    }
    if (o.x.count() == 0 || o.y.count() == 0) return "nothing to multiply";
    return nullptr;
}

void run_depthwise_gpu(Role role, const graph::Call& call) {
    const Problem p = planar_problem(role, call);
    if (role != Role::weight_grad) return run_dense(call, p);
    run_weight(call, p);
    const Operands o = operands(role, call);
    if (o.bias) run_bias_grad_gpu(call, o.y, *o.bias);
}

}  // namespace ops::conv
}  // namespace calor
