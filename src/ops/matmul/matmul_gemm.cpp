// Matrix products by our own blocked loops. f64 and 32 and 64-bit integers are read where they lie; narrower dtypes are
// widened first and narrowed at the end.
#include <vector>

#include "device/cpu/gemm.h"
#include "ops/matmul/matmul.h"
#include "ops/widen.h"

namespace calor::ops::matmul {
namespace {

std::vector<std::int64_t> steps(std::int64_t count, std::int64_t stride) {
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) offsets[static_cast<std::size_t>(i)] = i * stride;
    return offsets;
}

/// Where each product of the batch starts in an operand.
std::vector<std::int64_t> starts(const View& v, const Shape& result) {
    std::vector<std::int64_t> offsets;
    Dims index(result.rank() - 2, 0);
    std::int64_t count = 1;
    for (std::int64_t a = 0; a < index.rank(); ++a) count *= result[a];
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t at = 0;
        for (std::int64_t a = 0; a < index.rank(); ++a) at += v.size(a) == 1 ? 0 : index[a] * v.stride(a);
        offsets.push_back(at);
        for (std::int64_t a = index.rank() - 1; a >= 0 && ++index[a] == result[a]; --a) index[a] = 0;
    }
    return offsets;
}

template <class T> void run(const graph::Call& call) {
    const Operands o(call);
    const std::int64_t rank = o.a.rank();
    const Widened a(call, o.a), b(call, o.b);
    const WidenedVector bias(call, o.bias);
    const WidenedResult c(call, o.c);
    const auto a_row = steps(o.m, a.view().stride(rank - 2)), a_inner = steps(o.k, a.view().stride(rank - 1));
    const auto b_inner = steps(o.k, b.view().stride(rank - 2)), b_column = steps(o.n, b.view().stride(rank - 1));
    const auto c_row = steps(o.m, c.view().stride(rank - 2)), c_column = steps(o.n, c.view().stride(rank - 1));
    const auto a_batch = starts(a.view(), *o.c.shape), b_batch = starts(b.view(), *o.c.shape);
    const auto c_batch = starts(c.view(), *o.c.shape);
    cpu::Gemm<T> g{.m = o.m, .n = o.n, .k = o.k, .batch = std::ssize(c_batch)};
    g.a = a.view().as<const T>();
    g.b = b.view().as<const T>();
    g.c = c.view().as<T>();
    g.a_row = a_row.data();
    g.a_inner = a_inner.data();
    g.b_inner = b_inner.data();
    g.b_column = b_column.data();
    g.c_row = c_row.data();
    g.c_column = c_column.data();
    g.a_batch = a_batch.data();
    g.b_batch = b_batch.data();
    g.c_batch = c_batch.data();
    g.column_bias = bias.data<T>();
    cpu::gemm(g);
    c.narrow();
}

}  // namespace

void run_gemm(const graph::Call& call) {
    switch (wide_type(call.outputs[0].dtype)) {
        case f64: return run<double>(call);
        case f32: return run<float>(call);
        case u64: return run<std::uint64_t>(call);
        default: return run<std::uint32_t>(call);
    }
}

}  // namespace calor::ops::matmul
