// Kernels of the reductions over integers and bool. Sums and products wrap in the element's own width.
#include <array>

#include "ops/reduce/cpu/tables.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce/cpu/integer_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>

#include "ops/reduce/cpu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops {
namespace HWY_NAMESPACE {
namespace {

template <class T> IntegerTable integer_row() {
    using U = std::make_unsigned_t<T>;
    IntegerTable r;
    r[IntegerRow::sum] = Lanes<Sum<U>, U>::template kernel<Same<U>>();
    r[IntegerRow::prod] = Product<U>::kernel();
    r[IntegerRow::max] = Lanes<Extreme<T, false>, T>::template kernel<Same<T>>();
    r[IntegerRow::min] = Lanes<Extreme<T, true>, T>::template kernel<Same<T>>();
    r[IntegerRow::argmax] = Argument<T, false>::kernel();
    r[IntegerRow::argmin] = Argument<T, true>::kernel();
    if constexpr (std::is_same_v<T, std::uint8_t>) {
        r[IntegerRow::count_bytes] = Lanes<Count, T>::template kernel<Same<std::uint64_t>>();
        r[IntegerRow::any] = Lanes<Extreme<T, false>, T>::template kernel<Truth>();
        r[IntegerRow::all] = Lanes<Extreme<T, true>, T>::template kernel<Truth>();
    }
    return r;
}

}  // namespace

const IntegerTable& integer_table(DType dtype) {
    static const IntegerTable tables[] = {integer_row<std::int64_t>(),  integer_row<std::int32_t>(),
                                          integer_row<std::int16_t>(),  integer_row<std::int8_t>(),
                                          integer_row<std::uint64_t>(), integer_row<std::uint32_t>(),
                                          integer_row<std::uint16_t>(), integer_row<std::uint8_t>()};
    return tables[static_cast<int>(dtype) - static_cast<int>(i64)];
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops {

HWY_EXPORT(integer_table);

const ReduceKernel* find_integer_kernel(IntegerRow::Entry entry, DType dtype) {
    return &HWY_DYNAMIC_DISPATCH(integer_table)(dtype)[entry];
}

}  // namespace calor::ops
#endif
