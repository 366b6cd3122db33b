// Matrix products on GPUs: cuBLASLt where it is there and takes the layout, else our tiles, which take everything but
// grids without end; those run one thread a result.
#include "device/gpu/contraction.h"
#include "device/gpu/vendor.h"
#include "ops/gpu.h"
#include "ops/matmul/matmul.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile matmul_reference;
}

namespace ops::matmul {
namespace {

gpu::Contraction contraction_of(const Operands& o) {
    const std::int64_t rank = o.a.rank();
    gpu::Contraction p;
    p.a = o.a;
    p.b = o.b;
    p.c = o.c;
    p.bias = o.bias;
    if (o.bias) p.bias_place = gpu::BiasPlace::column;
    p.rows = o.m;
    p.a_row = o.a.stride(rank - 2);
    p.c_row = o.c.stride(rank - 2);
    p.inner = {{}, {o.k, o.a.stride(rank - 1), o.b.stride(rank - 2), 0}};
    p.column = {{}, {o.n, o.b.stride(rank - 1), o.c.stride(rank - 1), 0}};
    for (std::int64_t axis = 0; axis < rank - 2; ++axis) {
        p.batch.push_back({o.c.size(axis), o.a.size(axis) == 1 ? 0 : o.a.stride(axis),
                           o.b.size(axis) == 1 ? 0 : o.b.stride(axis), o.c.stride(axis), 0});
    }
    gpu::merge_batch(p);
    return p;
}

const char* tiles_why_not(const graph::Call& call) {
    const Operands o(call);
    return gpu::contraction_why_not(contraction_of(o));
}

void run_tiles(const graph::Call& call) {
    const Operands o(call);
    gpu::contract(call.backend, contraction_of(o), call.operation, call.where);
}

gpu::MatmulProblem for_vendor(const Operands& o) { return {o.a, o.b, o.c, o.bias}; }

const char* vendor_why_not(const graph::Call& call) {
    if (const char* reason = not_cuda(call)) return reason;
    const Operands o(call);
    return gpu::vendor_matmul_why_not(call.backend, for_vendor(o));
}
void run_vendor(const graph::Call& call) {
    const Operands o(call);
    gpu::vendor_matmul(call.backend, for_vendor(o), call.operation, call.where);
}

DType sum_type(DType dtype) {
    if (is_floating(dtype)) return compute_type(dtype);
    return size_of(dtype) == 8 ? u64 : u32;
}

void run_one_by_one(const graph::Call& call) {
    const Operands o(call);
    const std::int64_t rank = o.a.rank();
    Strides a = *o.a.strides, b = *o.b.strides;
    for (std::int64_t axis = 0; axis < rank - 2; ++axis) {
        if (o.a.size(axis) == 1) a[axis] = 0;
        if (o.b.size(axis) == 1) b[axis] = 0;
    }
    const std::int64_t a_inner = a[rank - 1], b_inner = b[rank - 2];
    a[rank - 1] = 0;
    b[rank - 2] = 0;
    Strides bias(rank, 0);
    if (o.bias) bias[rank - 1] = o.bias->stride(0);
    launch(call, kernels::matmul_reference, "one_by_one")
        .constant("X", o.c.dtype)
        .constant("ACC", sum_type(o.c.dtype))
        .constant("RANK", rank)
        .buffer(o.a)
        .buffer(o.b)
        .buffer(o.bias ? *o.bias : o.c)
        .buffer(o.c)
        .value(std::int32_t{o.bias ? 1 : 0})
        .size(o.c.count())
        .size(o.k)
        .size(a_inner)
        .size(b_inner)
        .layout(*o.c.shape, {a, b, *o.c.strides, bias})
        .over(o.c.count());
}

}  // namespace

std::span<const graph::Implementation> gpu_implementations() {
    static const graph::Implementation list[] = {{.name = "cublaslt", .why_not = vendor_why_not, .run = run_vendor},
                                                 {.name = "gemm", .why_not = tiles_why_not, .run = run_tiles},
                                                 {.name = "reference", .run = run_one_by_one}};
    return list;
}

}  // namespace ops::matmul
}  // namespace calor
