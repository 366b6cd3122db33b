// Convolution through oneDNN: 1 to 3 spatial axes in f32, bf16 and f16. Activations are channels-last where it prefers
// that.
#include <stdexcept>

#include "device/cpu/onednn.h"
#include "ops/conv/conv.h"

namespace calor::ops::conv {

#ifdef CALOR_ONEDNN
namespace {

namespace dnn = cpu::onednn;

dnn::View view_of(const View& v) { return {v.data, v.dtype, v.shape, v.strides}; }

dnn::ConvRole role_of(Role role) {
    return role == Role::forward      ? dnn::ConvRole::forward
           : role == Role::input_grad ? dnn::ConvRole::input_grad
                                      : dnn::ConvRole::weight_grad;
}

dnn::ConvSettings settings_of(const Attributes& a) {
    return {a.window.stride, a.window.dilation, a.window.pad_low, a.window.pad_high, a.groups};
}

bool takes(DType dtype) { return dtype == f32 || is_half(dtype); }

}  // namespace

const char* onednn_why_not(Role role, const graph::Call& call) {
    if (!takes(call.outputs[0].dtype)) return "dtypes other than f32, bf16 and f16";
    const Operands o = operands(role, call);
    const dnn::View bias = o.bias ? view_of(*o.bias) : dnn::View{};
    return dnn::conv_why_not(role_of(role), view_of(o.x), view_of(o.w), o.bias ? &bias : nullptr, view_of(o.y),
                             settings_of(call.attrs<Attributes>()));
}

void run_onednn(Role role, const graph::Call& call) {
    const Operands o = operands(role, call);
    const dnn::View x = view_of(o.x), w = view_of(o.w), y = view_of(o.y),
                    bias = o.bias ? view_of(*o.bias) : dnn::View{};
    const dnn::View* b = o.bias ? &bias : nullptr;
    const dnn::ConvSettings settings = settings_of(call.attrs<Attributes>());
    try {
        if (role == Role::forward) dnn::conv_forward(x, w, b, y, settings);
        if (role == Role::input_grad) dnn::conv_input_grad(y, w, x, settings);
        if (role == Role::weight_grad) dnn::conv_weight_grad(x, y, w, b, settings);
    } catch (const std::runtime_error& e) {
        fail("kernel/failed", call.operation, call.where, {{"implementation", "onednn"}, {"what", e.what()}});
    }
}

graph::Format onednn_format(Role role, const graph::Call& call) {
    const Operands o = operands(role, call);
    const std::int64_t n = o.x.rank() - 2;
    if (n < 1 || n > 3 || !takes(call.outputs[0].dtype) || disabled("onednn")) return graph::Format::plain;
    if (o.x.count() == 0 || o.w.count() == 0) return graph::Format::plain;
    const dnn::Layout layout = dnn::preferred_layout(*o.x.shape, *o.w.shape, settings_of(call.attrs<Attributes>()));
    return layout == dnn::Layout::channels_last ? graph::Format::channels_last : graph::Format::plain;
}

#else

const char* onednn_why_not(Role, const graph::Call&) { return "built without oneDNN"; }
void run_onednn(Role, const graph::Call&) {}
graph::Format onednn_format(Role, const graph::Call&) { return graph::Format::plain; }

#endif

}  // namespace calor::ops::conv
