// Matrix products through oneDNN: f32, bf16 and f16.
#include <stdexcept>

#include "device/cpu/onednn.h"
#include "ops/matmul/matmul.h"

namespace calor::ops::matmul {

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
