// Plain loops over tiles, for the compiler to vectorise; included once for every instruction set (Highway's
// foreach_target). An Op is a struct with a static template `run`, of one to three values, and possibly of the
// parameters.
#if defined(CALOR_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_LOOPS_INL_H_
#undef CALOR_LOOPS_INL_H_
#else
#define CALOR_LOOPS_INL_H_
#endif

#include <hwy/highway.h>

#include "device/cpu/vectorize.h"
#include "ops/elementwise/cpu/op_rows.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class Op, class T, class R> void unary_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* a = static_cast<const T*>(in[0]);
    auto* r = static_cast<R*>(out);
    CALOR_VECTORIZE
    for (std::int64_t i = 0; i < n; ++i) r[i] = Op::template run<T>(a[i]);
}

template <class Op, class T, class R>
void binary_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* a = static_cast<const T*>(in[0]);
    const auto* b = static_cast<const T*>(in[1]);
    auto* r = static_cast<R*>(out);
    CALOR_VECTORIZE
    for (std::int64_t i = 0; i < n; ++i) r[i] = Op::template run<T>(a[i], b[i]);
}

template <class Op, class T> void ternary_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* a = static_cast<const T*>(in[0]);
    const auto* b = static_cast<const T*>(in[1]);
    const auto* c = static_cast<const T*>(in[2]);
    auto* r = static_cast<T*>(out);
    CALOR_VECTORIZE
    for (std::int64_t i = 0; i < n; ++i) r[i] = Op::template run<T>(a[i], b[i], c[i]);
}

/// out[i] = in[0][i] != 0 ? in[1][i] : in[2][i].
template <class T> void where_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* condition = static_cast<const std::uint8_t*>(in[0]);
    const auto* a = static_cast<const T*>(in[1]);
    const auto* b = static_cast<const T*>(in[2]);
    auto* r = static_cast<T*>(out);
    CALOR_VECTORIZE
    for (std::int64_t i = 0; i < n; ++i) r[i] = condition[i] != 0 ? a[i] : b[i];
}

/// One value and two parameters, converted to T by Op::parameter.
template <class Op, class T>
void parameter_loop(const void* const* in, void* out, std::int64_t n, const double* parameters) {
    const auto* a = static_cast<const T*>(in[0]);
    auto* r = static_cast<T*>(out);
    const T p0 = Op::template parameter<T>(parameters[0], 0), p1 = Op::template parameter<T>(parameters[1], 1);
    CALOR_VECTORIZE
    for (std::int64_t i = 0; i < n; ++i) r[i] = Op::template run<T>(a[i], p0, p1);
}

template <class T> void copy_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* a = static_cast<const T*>(in[0]);
    auto* r = static_cast<T*>(out);
    CALOR_VECTORIZE
    for (std::int64_t i = 0; i < n; ++i) r[i] = a[i];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
