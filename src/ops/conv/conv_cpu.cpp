// Convolution on the CPU in f32, bf16 and f16: our own kernels for groups of few channels and for channels-last
// activations of any rank where they are expected to be faster, else oneDNN (1 to 3 spatial axes). Results are
// channels-last, which the latter two like best.
#include <algorithm>
#include <stdexcept>

#include "device/cpu/direct_conv.h"
#include "device/cpu/onednn.h"
#include "device/cpu/planar_conv.h"
#include "ops/conv/conv.h"

namespace calor::ops::conv {
namespace {

cpu::ConvSettings settings_of(const Attributes& a) {
    return {a.window.stride, a.window.dilation, a.window.pad_low, a.window.pad_high, a.groups};
}

bool takes(DType dtype) { return dtype == f32 || is_half(dtype); }

/// A product of matrices, in whatever format the data lies.
bool is_pointwise(const Attributes& a) {
    const auto all = [](const Dims& dims, std::int64_t value) {
        return std::all_of(dims.begin(), dims.end(), [=](std::int64_t d) { return d == value; });
    };
    const Window& w = a.window;
    return a.groups == 1 && all(w.kernel, 1) && all(w.stride, 1) && all(w.pad_low, 0) && all(w.pad_high, 0);
}

}  // namespace

const char* direct_why_not(Role role, const graph::Call& call) {
    if (!takes(call.outputs[0].dtype)) return "dtypes other than f32, bf16 and f16";
    const Operands o = operands(role, call);
    return cpu::direct::why_not(role, o.x, o.w, o.bias, o.y, settings_of(call.attrs<Attributes>()));
}

const char* direct_first_why_not(Role role, const graph::Call& call) {
    if (const char* reason = direct_why_not(role, call)) return reason;
    const Operands o = operands(role, call);
    const bool preferred = cpu::direct::is_preferred(role, o.x, o.w, o.y, settings_of(call.attrs<Attributes>()));
    return preferred ? nullptr : "oneDNN is expected to be faster";
}

void run_direct(Role role, const graph::Call& call) {
    const Operands o = operands(role, call);
    const cpu::ConvSettings settings = settings_of(call.attrs<Attributes>());
    if (role == Role::forward) cpu::direct::forward(o.x, o.w, o.bias, o.y, settings);
    if (role == Role::input_grad) cpu::direct::input_grad(o.y, o.w, o.x, settings);
    if (role == Role::weight_grad) cpu::direct::weight_grad(o.x, o.y, o.w, o.bias, settings);
}

const char* planar_why_not(Role role, const graph::Call& call) {
    if (!takes(call.outputs[0].dtype)) return "dtypes other than f32, bf16 and f16";
    const Operands o = operands(role, call);
    const cpu::ConvSettings settings = settings_of(call.attrs<Attributes>());
    if (const char* reason = cpu::planar::why_not(role, o.x, o.w, o.bias, o.y, settings)) return reason;
    const bool preferred = cpu::planar::is_preferred(role, o.x, o.w, o.y, settings);
    return preferred ? nullptr : "others are expected to be faster";
}

void run_planar(Role role, const graph::Call& call) {
    const Operands o = operands(role, call);
    const cpu::ConvSettings settings = settings_of(call.attrs<Attributes>());
    if (role == Role::forward) cpu::planar::forward(o.x, o.w, o.bias, o.y, settings);
    if (role == Role::input_grad) cpu::planar::input_grad(o.y, o.w, o.x, settings);
    if (role == Role::weight_grad) cpu::planar::weight_grad(o.x, o.y, o.w, o.bias, settings);
}

#ifdef CALOR_ONEDNN

namespace dnn = cpu::onednn;

const char* onednn_why_not(Role role, const graph::Call& call) {
    if (!takes(call.outputs[0].dtype)) return "dtypes other than f32, bf16 and f16";
    const Operands o = operands(role, call);
    return dnn::conv_why_not(role, o.x, o.w, o.bias, o.y, settings_of(call.attrs<Attributes>()));
}

void run_onednn(Role role, const graph::Call& call) {
    const Operands o = operands(role, call);
    const cpu::ConvSettings settings = settings_of(call.attrs<Attributes>());
    try {
        if (role == Role::forward) dnn::conv_forward(o.x, o.w, o.bias, o.y, settings);
        if (role == Role::input_grad) dnn::conv_input_grad(o.y, o.w, o.x, settings);
        if (role == Role::weight_grad) dnn::conv_weight_grad(o.x, o.y, o.w, o.bias, settings);
    } catch (const std::runtime_error& e) {
        fail("kernel/failed", call.operation, call.where, {{"implementation", "onednn"}, {"what", e.what()}});
    }
}

#else

const char* onednn_why_not(Role, const graph::Call&) { return "built without oneDNN"; }
void run_onednn(Role, const graph::Call&) {}

#endif

graph::Format result_format(Role role, const graph::Call& call) {
    const Operands o = operands(role, call);
    if (!takes(call.outputs[0].dtype) || o.x.count() == 0 || o.w.count() == 0) return graph::Format::plain;
    const Attributes& attributes = call.attrs<Attributes>();
    const View& source = call.inputs[0];
    if (source.stride(1) != 1 &&
        (is_pointwise(attributes) || cpu::planar::is_preferred_for_planes(role, *o.w.shape, attributes.groups)))
        return graph::Format::plain;
#ifdef CALOR_ONEDNN
    if (o.x.rank() <= 5) {
        const dnn::Layout layout = dnn::preferred_layout(*o.x.shape, *o.w.shape, settings_of(call.attrs<Attributes>()));
        if (layout == dnn::Layout::plain) return graph::Format::plain;
    }
#endif
    return graph::Format::channels_last;
}

}  // namespace calor::ops::conv
