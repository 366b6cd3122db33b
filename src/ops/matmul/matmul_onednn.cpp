// Matrix products in f32, bf16 and f16: small ones through our own kernel, the others through oneDNN.
#include <stdexcept>

#include "device/cpu/onednn.h"
#include "device/cpu/small_matmul.h"
#include "ops/matmul/matmul.h"

namespace calor::ops::matmul {

const char* small_why_not(const graph::Call& call) {
    if (call.outputs[0].dtype != f32) return "dtypes other than f32";
    const Operands o(call);
    return cpu::small_matmul_why_not(o.a, o.b, o.bias, o.c);
}

void run_small(const graph::Call& call) {
    const Operands o(call);
    cpu::small_matmul(o.a, o.b, o.bias, o.c);
}

#ifdef CALOR_ONEDNN

const char* onednn_why_not(const graph::Call& call) {
    const DType dtype = call.outputs[0].dtype;
    if (dtype != f32 && !is_half(dtype)) return "dtypes other than f32, bf16 and f16";
    const Operands o(call);
    return cpu::onednn::matmul_why_not(o.a, o.b, o.bias, o.c);
}

void run_onednn(const graph::Call& call) {
    const Operands o(call);
    try {
        cpu::onednn::matmul(o.a, o.b, o.bias, o.c);
    } catch (const std::runtime_error& e) {
        fail("kernel/failed", call.operation, call.where, {{"implementation", "onednn"}, {"what", e.what()}});
    }
}

#else

const char* onednn_why_not(const graph::Call&) { return "built without oneDNN"; }
void run_onednn(const graph::Call&) {}

#endif

}  // namespace calor::ops::matmul
