// The reference: one sum an element.
#include "device/cpu/parallel.h"
#include "ops/matmul/matmul.h"

namespace calor::ops::matmul {
namespace {

template <class T, class A> void run(const graph::Call& call) {
    const Operands o(call);
    const std::int64_t rank = o.a.rank();
    cpu::parallel_for(o.c.count(), 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            std::int64_t rest = i, a = 0, b = 0, c = 0, column = 0;
            for (std::int64_t axis = rank - 1; axis >= 0; --axis) {
                const std::int64_t at = rest % o.c.size(axis);
                rest /= o.c.size(axis);
                c += at * o.c.stride(axis);
                if (axis == rank - 1) column = at;
                if (axis != rank - 1 && o.a.size(axis) != 1) a += at * o.a.stride(axis);
                if (axis != rank - 2 && o.b.size(axis) != 1) b += at * o.b.stride(axis);
            }
            A total = o.bias ? static_cast<A>(o.bias->as<T>()[column * o.bias->stride(0)]) : A(0);
            for (std::int64_t k = 0; k < o.k; ++k) {
                total += static_cast<A>(o.a.as<T>()[a + k * o.a.stride(rank - 1)]) *
                         static_cast<A>(o.b.as<T>()[b + k * o.b.stride(rank - 2)]);
            }
            o.c.as<T>()[c] = static_cast<T>(total);
        }
    });
}

}  // namespace

void run_reference(const graph::Call& call) {
    switch (call.outputs[0].dtype) {
        case f64: return run<double, double>(call);
        case f32: return run<float, double>(call);
        case f16: return run<float16, float>(call);
        case bf16: return run<bfloat16, float>(call);
        case i64:
        case u64: return run<std::uint64_t, std::uint64_t>(call);
        case i32:
        case u32: return run<std::uint32_t, std::uint32_t>(call);
        case i16:
        case u16: return run<std::uint16_t, std::uint32_t>(call);
        case i8:
        case u8: return run<std::uint8_t, std::uint32_t>(call);
        case boolean: break;
    }
    fail_internal("a matmul of bool was recorded", call.where);
}

}  // namespace calor::ops::matmul
