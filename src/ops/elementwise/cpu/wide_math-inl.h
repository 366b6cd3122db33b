// f32 operations computed in f64 vectors: inputs are widened, functions come from Highway's math library or from here,
// the result is rounded once. Elements outside the domain of the vector code are done again by a scalar function.
// Included once for every instruction set.
#if defined(CALOR_WIDE_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_WIDE_MATH_INL_H_
#undef CALOR_WIDE_MATH_INL_H_
#else
#define CALOR_WIDE_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F64 = hn::ScalableTag<double>;
using I64 = hn::Rebind<std::int64_t, F64>;
using Narrow = hn::Rebind<float, F64>;
using V64 = hn::Vec<F64>;
using M64 = hn::Mask<F64>;

inline V64 wide(double value) { return hn::Set(F64(), value); }

HWY_INLINE V64 load_wide(const float* from) { return hn::PromoteTo(F64(), hn::LoadU(Narrow(), from)); }

HWY_INLINE void store_narrow(V64 value, float* to) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    double lanes[hn::MaxLanes(F64())];  // DemoteTo of these targets saturates where the others give infinity
    hn::StoreU(value, F64(), lanes);
    for (std::size_t i = 0; i < hn::Lanes(F64()); ++i) to[i] = static_cast<float>(lanes[i]);
#else
    hn::StoreU(hn::DemoteTo(Narrow(), value), Narrow(), to);
#endif
}

HWY_INLINE M64 not_finite(V64 x) { return hn::Not(hn::Lt(hn::Abs(x), wide(std::numeric_limits<double>::infinity()))); }

/// log for every f32: -inf at 0, NaN below.
HWY_INLINE V64 full_log(V64 x) {
    V64 value = hn::Log(F64(), x);
    value = hn::IfThenElse(not_finite(x), x, value);
    value = hn::IfThenElse(hn::Eq(x, hn::Zero(F64())), wide(-std::numeric_limits<double>::infinity()), value);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(F64())), wide(std::numeric_limits<double>::quiet_NaN()), value);
}
/// exp, with arguments cut to where an f32 result is already 0 or infinite; NaN stays.
HWY_INLINE V64 full_exp(V64 x) {
    const V64 low = hn::IfThenElse(hn::Lt(x, wide(-200.0)), wide(-200.0), x);
    const V64 inside = hn::IfThenElse(hn::Gt(low, wide(200.0)), wide(200.0), low);
    const auto nan = hn::IsNaN(x);
    return hn::IfThenElse(nan, x, hn::Exp(F64(), hn::IfThenZeroElse(nan, inside)));
}

/// Operations of one value have run(x); those whose vector code doesn't reach everywhere also special(x), a mask of the
/// elements to do again, and scalar(x).
template <class Op>
concept HasSpecial = requires {
    &Op::scalar;
};

template <class Op, class... V> HWY_NOINLINE V64 redo_special(M64 special, V64 value, V... inputs) {
    constexpr std::size_t arity = sizeof...(V);
    double x[arity][hn::MaxLanes(F64())], r[hn::MaxLanes(F64())], redo[hn::MaxLanes(F64())];
    std::size_t k = 0;
    (hn::StoreU(inputs, F64(), x[k++]), ...);
    hn::StoreU(value, F64(), r);
    hn::StoreU(hn::IfThenElseZero(special, wide(1.0)), F64(), redo);
    for (std::size_t i = 0; i < hn::Lanes(F64()); ++i) {
        if (redo[i] == 0) continue;
        if constexpr (arity == 1) {
            r[i] = Op::scalar(x[0][i]);
        } else {
            r[i] = Op::scalar(x[0][i], x[1][i]);
        }
    }
    return hn::LoadU(F64(), r);
}

template <class Op, class... V> HWY_INLINE V64 apply(V... inputs) {
    const V64 value = Op::run(inputs...);
    if constexpr (HasSpecial<Op>) {
        const M64 special = Op::special(inputs...);
        if (!hn::AllFalse(F64(), special)) return redo_special<Op>(special, value, inputs...);
    }
    return value;
}

/// Runs Op over a tile. The tail goes through the same vector code, from padded buffers.
template <class Op> void wide_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(F64()));
    const auto* a = static_cast<const float*>(in[0]);
    auto* r = static_cast<float*>(out);
    alignas(64) float spare[hn::MaxLanes(F64())] = {};
    for (std::int64_t i = 0; i < n; i += lanes) {
        const auto count = static_cast<std::size_t>(n - i);
        const bool whole = n - i >= lanes;
        if (!whole) std::memcpy(spare, a + i, count * sizeof(float));
        store_narrow(apply<Op>(load_wide(whole ? a + i : spare)), whole ? r + i : spare);
        if (!whole) std::memcpy(r + i, spare, count * sizeof(float));
    }
}

template <class Op> void wide_pair_loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(F64()));
    const auto* a = static_cast<const float*>(in[0]);
    const auto* b = static_cast<const float*>(in[1]);
    auto* r = static_cast<float*>(out);
    alignas(64) float spare_a[hn::MaxLanes(F64())] = {}, spare_b[hn::MaxLanes(F64())] = {};
    for (std::int64_t i = 0; i < n; i += lanes) {
        const auto count = static_cast<std::size_t>(n - i);
        const bool whole = n - i >= lanes;
        if (!whole) {
            std::memcpy(spare_a, a + i, count * sizeof(float));
            std::memcpy(spare_b, b + i, count * sizeof(float));
        }
        const V64 x = load_wide(whole ? a + i : spare_a), y = load_wide(whole ? b + i : spare_b);
        store_narrow(apply<Op>(x, y), whole ? r + i : spare_a);
        if (!whole) std::memcpy(r + i, spare_a, count * sizeof(float));
    }
}

template <class Op> constexpr OpRow wide_row(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f32, wide_loop<Op>);
    return row;
}
template <class Op> constexpr OpRow wide_pair_row(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::f32, wide_pair_loop<Op>);
    return row;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
