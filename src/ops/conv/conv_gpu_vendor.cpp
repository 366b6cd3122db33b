// Convolution through a device vendor's library (cuDNN on CUDA devices). Activations and weight all lie plain or all
// lie channels-last, as the result does (the weight gradient: as x does); what lies otherwise is copied.
#include "device/gpu/vendor.h"

#include "ops/conv/conv_gpu.h"
#include "ops/conv/conv_problem.h"
#include "ops/gpu.h"

namespace calor::ops::conv {
namespace {

Strides dense_strides(const Shape& shape, bool channels_last) {
    Strides strides = contiguous_strides(shape);
    if (!channels_last) return strides;
    std::int64_t step = shape[1];
    for (std::int64_t a = shape.rank() - 1; a >= 2; --a) {
        strides[a] = step;
        step *= shape[a];
    }
    strides[1] = 1;
    strides[0] = step;
    return strides;
}
bool lies(const Array& a, const Strides& strides) {
    for (std::int64_t axis = 0; axis < a.shape.rank(); ++axis) {
        if (a.size(axis) != 1 && a.stride(axis) != strides[axis]) return false;
    }
    return true;
}
bool is_channels_last(const Array& a) { return lies(a, dense_strides(a.shape, true)); }
bool is_plain(const Array& a) { return lies(a, dense_strides(a.shape, false)); }

/// The problem as the library gets it: axes that do nothing go only where it has too many.
Problem problem_for(Role role, const graph::Call& call) {
    Problem p = problem_of(role, call);
    return p.axes() > 3 ? simplified(p) : p;
}

/// The library's view of a problem. Data lies where it lay: only sizes and dtypes count when it is asked.
struct Described {
    explicit Described(const Problem& problem) : p(problem) {
        if (p.bias && p.role != Role::weight_grad) bias = p.bias->view();
        const Array &result = p.result(), &given = p.role == Role::input_grad ? p.y : p.x;
        const Array& decides = p.role == Role::weight_grad ? p.x : result;
        channels_last = is_channels_last(decides) && (!is_plain(decides) || is_channels_last(given));
    }
    gpu::ConvProblem get() const {
        return {p.role, p.x.view(), p.w.view(), p.y.view(), bias ? &*bias : nullptr, &p.settings, channels_last};
    }
    Problem p;
    std::optional<View> bias;
    bool channels_last = false;
};

}  // namespace

const char* vendor_gpu_why_not(Role role, const graph::Call& call) {
    if (const char* reason = not_cuda(call)) return reason;
    const Described d(problem_for(role, call));
    if (role != Role::weight_grad && !lies(d.p.result(), dense_strides(d.p.result().shape, d.channels_last))) {
        return "a result that is not dense";
    }
    return gpu::vendor_conv_why_not(call.backend, d.get());
}

void run_vendor_gpu(Role role, const graph::Call& call) {
    if (without_products_gpu(role, call)) return;
    const Problem given = problem_for(role, call);
    Described d(given);
    std::vector<Ref<Storage>> copies;
    const auto lay = [&](Array& a, bool is_result) {
        const Strides strides = dense_strides(a.shape, d.channels_last);
        if (lies(a, strides)) return;
        const Array from = a;
        copies.push_back(graph::scratch(call, numel(a.shape) * size_of(a.dtype)));
        a.data = copies.back()->data;
        a.strides = strides;
        if (!is_result) copy_on_gpu(call, from.view(), a.view());
    };
    lay(d.p.x, role == Role::input_grad);
    lay(d.p.w, role == Role::weight_grad);
    lay(d.p.y, role == Role::forward);
    gpu::vendor_conv(call.backend, d.get(), call.operation, call.where);
    if (role != Role::weight_grad) return;
    if (d.p.w.data != given.w.data) copy_on_gpu(call, d.p.w.view(), given.w.view());
    const Operands o = operands(role, call);
    if (o.bias) run_bias_grad_gpu(call, o.y, *o.bias);
}

}  // namespace calor::ops::conv
