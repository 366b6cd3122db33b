// Matrix products through oneDNN: f32, bf16 and f16.
#include <stdexcept>

#include "device/cpu/onednn.h"
#include "ops/matmul/matmul.h"

namespace calor::ops::matmul {

#ifdef CALOR_ONEDNN
namespace {

namespace dnn = cpu::onednn;

dnn::View view_of(const View& v) { return {v.data, v.dtype, v.shape, v.strides}; }

}  // namespace

const char* onednn_why_not(const graph::Call& call) {
    const DType dtype = call.outputs[0].dtype;
    if (dtype != f32 && !is_half(dtype)) return "dtypes other than f32, bf16 and f16";
    const Operands o(call);
    const dnn::View bias = o.bias ? view_of(*o.bias) : dnn::View{};
    return dnn::matmul_why_not(view_of(o.a), view_of(o.b), o.bias ? &bias : nullptr, view_of(o.c));
}

void run_onednn(const graph::Call& call) {
    const Operands o(call);
    const dnn::View bias = o.bias ? view_of(*o.bias) : dnn::View{};
    try {
        dnn::matmul(view_of(o.a), view_of(o.b), o.bias ? &bias : nullptr, view_of(o.c));
    } catch (const std::runtime_error& e) {
        fail("kernel/failed", call.operation, call.where, {{"implementation", "onednn"}, {"what", e.what()}});
    }
}

#else

const char* onednn_why_not(const graph::Call&) { return "built without oneDNN"; }
void run_onednn(const graph::Call&) {}

#endif

}  // namespace calor::ops::matmul
