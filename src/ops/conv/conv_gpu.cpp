// Convolution on GPUs: what its implementations share, the reference and the bias gradient.
#include "ops/conv/conv_gpu.h"

#include <algorithm>

#include "ops/gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile conv_reference;
}

namespace ops::conv {
namespace {

/// Numbers past which 32-bit indices do not lead, whatever the memory.
bool is_far(const Attributes& a) {
    constexpr std::int64_t limit = std::int64_t{1} << 29;
    for (std::int64_t axis = 0; axis < a.window.rank(); ++axis) {
        const Window& w = a.window;
        if (a.sizes[axis] + w.pad_low[axis] + w.pad_high[axis] + w.stride[axis] >= limit) return true;
        if (w.dilation[axis] * w.kernel[axis] >= limit) return true;
    }
    return false;
}

/// Strides of the reference's two operands along the leading axes of the result and of what is counted.
struct Leads {
    std::int64_t p0 = 0, p1 = 0, q0 = 0, q1 = 0;  ///< result: axis 0 and 1
    std::int64_t counted_p = 0, counted_q = 0, terms = 0;
    std::int64_t per_group = 1, p_group = 0, q_group = 0;
};
Leads leads_of(Role role, const Operands& o, std::int64_t groups) {
    const std::int64_t in = o.w.size(1), out = o.y.size(1) / groups;
    switch (role) {
        case Role::forward:
            return {o.x.stride(0), 0, 0, o.w.stride(0), o.x.stride(1), o.w.stride(1), in, out, in * o.x.stride(1), 0};
        case Role::input_grad:
            return {o.y.stride(0), 0,   0,  o.w.stride(1),       o.y.stride(1),
                    o.w.stride(0), out, in, out * o.y.stride(1), out * o.w.stride(0) - in * o.w.stride(1)};
        case Role::weight_grad: break;
    }
    return {0, o.x.stride(1), o.y.stride(1), 0, o.x.stride(0), o.y.stride(0), o.x.size(0), out, in * o.x.stride(1), 0};
}

}  // namespace

DType sum_type(DType result) {
    if (is_floating(result)) return compute_type(result);
    return size_of(result) == 8 ? u64 : u32;
}
DType read_type(DType operand, DType result) {
    if (is_floating(operand) || size_of(operand) != size_of(result)) return operand;
    return size_of(operand) == 1 ? u8 : size_of(operand) == 2 ? u16 : size_of(operand) == 4 ? u32 : u64;
}

bool without_products_gpu(Role role, const graph::Call& call) {
    if (role != Role::weight_grad) return call.outputs[0].count() == 0;
    if (call.inputs[0].size(0) > 0) return false;
    for (const View& y : call.outputs) call.backend.gpu()->fill(y.data, 0, y.count() * size_of(y.dtype));
    return true;
}

void run_bias_grad_gpu(const graph::Call& call, const View& gy, const View& bias) {
    const DType sum = sum_type(bias.dtype);
    const std::int64_t channels = gy.size(1), positions = channels == 0 ? 0 : gy.count() / channels;
    if (channels == 0) return;
    const std::int64_t width = channels > 1 && std::abs(gy.stride(1)) == 1 ? 32 : 1, threads = 256;
    const std::int64_t blocks = (channels + width - 1) / width, units = call.backend.gpu()->traits().units;
    const std::int64_t wanted = std::max<std::int64_t>(1, 4 * units / blocks);
    const std::int64_t most = std::max<std::int64_t>(1, positions / (threads / width * 16));
    const std::int64_t part =
        std::max<std::int64_t>(1, (positions + std::min(wanted, most) - 1) / std::min(wanted, most));
    const std::int64_t parts = std::max<std::int64_t>(1, (positions + part - 1) / part);
    const Ref<Storage> sums = graph::scratch(call, channels * parts * size_of(sum));
    Dims sizes{gy.size(0)}, strides{gy.stride(0)};
    for (std::int64_t a = 2; a < gy.rank(); ++a) {
        sizes.push_back(gy.size(a));
        strides.push_back(gy.stride(a));
    }
    const std::int64_t kernel_rank = sizes.rank() <= 4 ? 4 : std::max<std::int64_t>(sizes.rank(), 7);
    while (sizes.rank() < kernel_rank) {
        sizes.push_back(1);
        strides.push_back(0);
    }
    launch(call, kernels::conv_reference, "channel_sums")
        .constant("Y", read_type(gy.dtype, bias.dtype))
        .constant("C", read_type(bias.dtype, bias.dtype))
        .constant("ACC", sum)
        .constant("RANK", kernel_rank)
        .constant("WIDTH", width)
        .buffer(gy)
        .buffer(sums)
        .size(channels)
        .size(gy.stride(1))
        .size(positions)
        .size(part)
        .size(parts)
        .layout(sizes, {strides})
        .threads(threads)
        .run(blocks * parts);
    launch(call, kernels::conv_reference, "channel_finish")
        .constant("C", read_type(bias.dtype, bias.dtype))
        .constant("ACC", sum)
        .buffer(sums)
        .buffer(bias)
        .size(channels)
        .size(parts)
        .size(bias.stride(0))
        .over(channels);
}

void run_reference_gpu(Role role, const graph::Call& call) {
    if (without_products_gpu(role, call)) return;
    const auto& attributes = call.attrs<Attributes>();
    const Operands o = operands(role, call);
    const View& result = call.outputs[0];
    const View& p = role == Role::input_grad ? o.y : o.x;
    const View& q = role == Role::weight_grad ? o.y : o.w;
    const View& counted = role == Role::weight_grad ? o.y : o.w;  // along spatial axes
    const Leads leads = leads_of(role, o, attributes.groups);
    const std::int64_t axes = attributes.window.rank();
    Strides to_p(axes + 2, 0), to_q(axes + 2, 0);
    to_p[0] = leads.p0;
    to_p[1] = leads.p1;
    to_q[0] = leads.q0;
    to_q[1] = leads.q1;
    Dims sizes{leads.terms}, counted_p{leads.counted_p}, counted_q{leads.counted_q}, stride{1}, dilation{1}, low{0};
    Dims p_sizes, p_strides;
    std::int64_t terms = leads.terms;
    for (std::int64_t a = 0; a < axes; ++a) {
        sizes.push_back(counted.size(a + 2));
        counted_p.push_back(0);
        counted_q.push_back(q.stride(a + 2));
        stride.push_back(attributes.window.stride[a]);
        dilation.push_back(attributes.window.dilation[a]);
        low.push_back(attributes.window.pad_low[a]);
        p_sizes.push_back(p.size(a + 2));
        p_strides.push_back(p.stride(a + 2));
        terms *= counted.size(a + 2);
    }
    // Kernels are compiled for 3 or 6 axes, then as they come: the others have one entry.
    const std::int64_t kernel_axes = axes <= 3 ? 3 : std::max<std::int64_t>(axes, 6);
    Dims result_sizes = *result.shape, to = *result.strides;
    for (std::int64_t a = axes; a < kernel_axes; ++a) {
        for (Dims* list : {&to_p, &to_q, &to, &counted_p, &counted_q, &low, &p_strides}) list->push_back(0);
        for (Dims* list : {&sizes, &stride, &dilation, &p_sizes, &result_sizes}) list->push_back(1);
    }
    const bool bias = o.bias && role != Role::weight_grad;
    DType sum = sum_type(result.dtype);
    if (result.dtype == f32 && call.backend.gpu()->traits().f64) sum = f64;
    launch(call, kernels::conv_reference, "one_by_one")
        .constant("P", read_type(p.dtype, result.dtype))
        .constant("Q", read_type(q.dtype, result.dtype))
        .constant("C", read_type(result.dtype, result.dtype))
        .constant("ACC", sum)
        .constant("AXES", kernel_axes)
        .buffer(p)
        .buffer(q)
        .buffer(bias ? *o.bias : result)
        .buffer(result)
        .value(static_cast<std::int32_t>(role))
        .value(std::int32_t{bias ? 1 : 0})
        .size(result.count())
        .size(terms)
        .size(leads.per_group)
        .size(leads.p_group)
        .size(leads.q_group)
        .size(bias ? o.bias->stride(0) : 0)
        .layout(result_sizes, {to, to_p, to_q})
        .layout(sizes, {counted_p, counted_q, stride, dilation, low})
        .layout(p_sizes, {p_strides})
        .wide(is_far(attributes))
        .over(result.count());
    if (role == Role::weight_grad && o.bias) run_bias_grad_gpu(call, o.y, *o.bias);
}

}  // namespace ops::conv
}  // namespace calor
