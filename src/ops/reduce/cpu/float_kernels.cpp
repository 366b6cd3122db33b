// Kernels of the reductions over f64, f32, f16 and bf16.
#include <array>

#include "ops/reduce/cpu/tables.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce/cpu/float_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>

#include "ops/reduce/cpu/half_kernels-inl.h"
#include "ops/reduce/cpu/kernels-inl.h"
#include "ops/reduce/cpu/moments-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops {
namespace HWY_NAMESPACE {
namespace {

template <class T> Row row() {
    Row r;
    r[FloatRow::sum] = Lanes<Sum<T>, T>::template kernel<Same<T>>();
    r[FloatRow::mean] = Lanes<Sum<T>, T>::template kernel<Divided<T>>();
    r[FloatRow::prod] = Product<T>::kernel();
    r[FloatRow::max] = Lanes<Extreme<T, false>, T>::template kernel<Same<T>>();
    r[FloatRow::min] = Lanes<Extreme<T, true>, T>::template kernel<Same<T>>();
    r[FloatRow::argmax] = Argument<T, false>::kernel();
    r[FloatRow::argmin] = Argument<T, true>::kernel();
    r[FloatRow::logsumexp] = LogSumExp<T>::kernel();
    r[FloatRow::var] = MomentKernel<T>::template kernel<false>();
    r[FloatRow::std] = MomentKernel<T>::template kernel<true>();
    r[FloatRow::norm_1] = Lanes<SumAbs<T>, T>::template kernel<Same<T>>();
    r[FloatRow::norm_2] = Lanes<SumSquares<T>, T>::template kernel<Rooted<T>>();
    r[FloatRow::norm_inf] = Lanes<MaxAbs<T>, T>::template kernel<Same<T>>();
    r[FloatRow::norm_minus_inf] = Lanes<MinAbs<T>, T>::template kernel<Same<T>>();
    return r;
}

/// `k` with loops over elements of a half type.
template <class Loops> ReduceKernel with_loops(ReduceKernel k) {
    k.rows = Loops::rows;
    k.columns = Loops::columns;
    k.half = true;
    return k;
}
/// The states and results of f32; what has no loops of its own takes widened elements.
template <class E> Row half_row() {
    Row r = row<float>();
    for (const auto entry : {FloatRow::sum, FloatRow::mean}) r[entry] = with_loops<HalfLanes<Sum<float>, E>>(r[entry]);
    r[FloatRow::max] = with_loops<HalfLanes<Extreme<float, false>, E>>(r[FloatRow::max]);
    r[FloatRow::min] = with_loops<HalfLanes<Extreme<float, true>, E>>(r[FloatRow::min]);
    for (const auto entry : {FloatRow::var, FloatRow::std}) r[entry] = with_loops<HalfMoments<E>>(r[entry]);
    r[FloatRow::norm_1] = with_loops<HalfLanes<SumAbs<float>, E>>(r[FloatRow::norm_1]);
    r[FloatRow::norm_2] = with_loops<HalfLanes<SumSquares<float>, E>>(r[FloatRow::norm_2]);
    r[FloatRow::norm_inf] = with_loops<HalfLanes<MaxAbs<float>, E>>(r[FloatRow::norm_inf]);
    r[FloatRow::norm_minus_inf] = with_loops<HalfLanes<MinAbs<float>, E>>(r[FloatRow::norm_minus_inf]);
    return r;
}

}  // namespace

const Row& float_row(DType dtype) {
    static const Row f32_row = row<float>(), f64_row = row<double>(), f16_row = half_row<float16>(),
                     bf16_row = half_row<bfloat16>();
    switch (dtype) {
        case f64: return f64_row;
        case f16: return f16_row;
        case bf16: return bf16_row;
        default: return f32_row;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops {

HWY_EXPORT(float_row);

const ReduceKernel* find_float_kernel(FloatRow::Entry entry, DType dtype) {
    return &HWY_DYNAMIC_DISPATCH(float_row)(dtype)[entry];
}

}  // namespace calor::ops
#endif
