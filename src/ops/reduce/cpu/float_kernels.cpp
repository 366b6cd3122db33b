// Kernels of the reductions over f32 and f64.
#include <array>

#include "ops/reduce/cpu/tables.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce/cpu/float_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>

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

}  // namespace

const Row& float_row(bool wide) {
    static const Row f32_row = row<float>(), f64_row = row<double>();
    return wide ? f64_row : f32_row;
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops {

HWY_EXPORT(float_row);

const ReduceKernel* find_float_kernel(FloatRow::Entry entry, bool wide) {
    return &HWY_DYNAMIC_DISPATCH(float_row)(wide)[entry];
}

}  // namespace calor::ops
#endif
