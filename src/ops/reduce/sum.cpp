// sum over axes.
#include "calor/reduce.h"
#include "calor/view.h"
#include "ops/support.h"

namespace calor {
namespace {

using graph::GradContext;
using graph::InferContext;

struct ReduceAttributes {
    Axes axes;
    friend bool operator==(const ReduceAttributes&, const ReduceAttributes&) = default;
};

/// Keeps reduced axes with size 1; the public function reshapes.
graph::Specs infer(const InferContext& c) {
    Shape shape = c.inputs[0].shape();
    for (const std::int64_t a : c.attrs<ReduceAttributes>().axes) shape[a] = 1;
    return {{shape, c.inputs[0].dtype()}};
}

template <class T, class A> void sum_reference(const graph::Call& c) {
    const View &x = c.inputs[0], &y = c.outputs[0];
    const std::int64_t count = y.count(), rank = x.rank();
    std::vector<A> sums(static_cast<std::size_t>(count), A(0));
    Dims index(rank, 0);
    for (std::int64_t i = 0, n = x.count(); i < n; ++i) {
        std::int64_t from = 0, to = 0;
        for (std::int64_t a = 0; a < rank; ++a) {
            from += index[a] * x.stride(a);
            if (y.size(a) != 1) to += index[a] * y.stride(a);
        }
        sums[static_cast<std::size_t>(to)] += static_cast<A>(x.as<T>()[from]);
        for (std::int64_t a = rank - 1; a >= 0 && ++index[a] == x.size(a); --a) index[a] = 0;
    }
    for (std::int64_t i = 0; i < count; ++i) y.as<T>()[i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
}

void run(const graph::Call& c) {
    switch (c.inputs[0].dtype) {
        case f64: return sum_reference<double, double>(c);
        case f32: return sum_reference<float, double>(c);
        case f16: return sum_reference<float16, float>(c);
        case bf16: return sum_reference<bfloat16, float>(c);
        case i64: return sum_reference<std::int64_t, std::uint64_t>(c);
        case i32: return sum_reference<std::int32_t, std::uint32_t>(c);
        case i16: return sum_reference<std::int16_t, std::uint32_t>(c);
        case i8: return sum_reference<std::int8_t, std::uint32_t>(c);
        case u64: return sum_reference<std::uint64_t, std::uint64_t>(c);
        case u32: return sum_reference<std::uint32_t, std::uint32_t>(c);
        case u16: return sum_reference<std::uint16_t, std::uint32_t>(c);
        case u8: return sum_reference<std::uint8_t, std::uint32_t>(c);
        case boolean: break;
    }
    fail_internal("sum of bool was not converted");
}

const graph::Implementation implementations[] = {{.name = "reference", .run = run}};

const graph::Operation sum_operation{
    .name = "sum",
    .traits = graph::reduction | graph::linear,
    .infer = infer,
    .gradient = [](const GradContext& c) { c.grads[0] = expand(c.cotangent(), c.inputs[0].shape(), c.where); },
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(implementations); }};

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdims, const Where& where) {
    ops::check_defined("sum", x, "the tensor", where);
    const Axes over = ops::normalize_axes("sum", axes, x.rank(), where);
    const Tensor summed = graph::record(sum_operation, ReduceAttributes{over},
                                        {x.dtype() == boolean ? x.to(i64, where) : x}, where);
    if (keepdims) return summed;
    Shape shape;
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        if (std::find(over.begin(), over.end(), a) == over.end()) shape.push_back(x.shape()[a]);
    }
    return reshape(summed, shape, where);
}

}  // namespace calor
