// Loops that write bool: comparisons (IEEE: NaN is unequal to everything), logic on truth values, and the classes of
// floats. Compiled for the baseline and for AVX2.
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/cpu/comparison.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/elementwise/cpu/integer_ops.h"
#include "ops/elementwise/cpu/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

using Byte = std::uint8_t;  // how a bool is stored

struct Equal {
    template <class T> static Byte run(T a, T b) { return a == b; }
};
struct NotEqual {
    template <class T> static Byte run(T a, T b) { return a != b; }
};
struct Less {
    template <class T> static Byte run(T a, T b) { return a < b; }
};
struct LessEqual {
    template <class T> static Byte run(T a, T b) { return a <= b; }
};
struct Greater {
    template <class T> static Byte run(T a, T b) { return a > b; }
};
struct GreaterEqual {
    template <class T> static Byte run(T a, T b) { return a >= b; }
};
struct LogicalAnd {
    template <class T> static Byte run(T a, T b) { return static_cast<Byte>((a != T{0}) & (b != T{0})); }
};
struct LogicalOr {
    template <class T> static Byte run(T a, T b) { return static_cast<Byte>((a != T{0}) | (b != T{0})); }
};
struct LogicalXor {
    template <class T> static Byte run(T a, T b) { return static_cast<Byte>((a != T{0}) ^ (b != T{0})); }
};
struct LogicalNot {
    template <class T> static Byte run(T a) { return a == T{0}; }
};
struct IsNan {
    template <class T> static Byte run(T a) { return a != a; }
};
struct IsInfinite {
    template <class T> static Byte run(T a) { return std::abs(a) == std::numeric_limits<T>::infinity(); }
};
struct IsFinite {
    template <class T> static Byte run(T a) { return std::abs(a) < std::numeric_limits<T>::infinity(); }
};

template <class Op> struct Unary {
    template <class T> static constexpr TileKernel kernel() { return unary_loop<Op, T, Byte>; }
};
template <class Op> struct Binary {
    template <class T> static constexpr TileKernel kernel() { return binary_loop<Op, T, Byte>; }
};

template <class Kernel> constexpr OpRow float_row(std::string_view name, OpRow row = {}) {
    row.name = name;
    row.set(DType::f64, Kernel::template kernel<double>());
    row.set(DType::f32, Kernel::template kernel<float>());
    return row;
}

template <class Kernel, bool SignMatters> constexpr OpRow row_of_all(std::string_view name) {
    OpRow row = float_row<Kernel>(name, integer_row<Kernel, SignMatters>(name));
    row.set(DType::boolean, row.kernels[static_cast<std::size_t>(DType::u8)]);
    return row;
}

constexpr OpRow bitwise_not_of_bool() {
    OpRow row{"bitwise_not", {}};
    row.set(DType::boolean, unary_loop<LogicalNot, Byte, Byte>);
    return row;
}

constexpr bool either = false, sign_matters = true;

constexpr std::array rows_of_target = {
    row_of_all<Binary<Equal>, either>("eq"),
    row_of_all<Binary<NotEqual>, either>("ne"),
    row_of_all<Binary<Less>, sign_matters>("lt"),
    row_of_all<Binary<LessEqual>, sign_matters>("le"),
    row_of_all<Binary<Greater>, sign_matters>("gt"),
    row_of_all<Binary<GreaterEqual>, sign_matters>("ge"),
    row_of_all<Binary<LogicalAnd>, either>("logical_and"),
    row_of_all<Binary<LogicalOr>, either>("logical_or"),
    row_of_all<Binary<LogicalXor>, either>("logical_xor"),
    row_of_all<Unary<LogicalNot>, either>("logical_not"),
    float_row<Unary<IsNan>>("isnan"),
    float_row<Unary<IsInfinite>>("isinf"),
    float_row<Unary<IsFinite>>("isfinite"),
    bitwise_not_of_bool(),
};

}  // namespace

OpRows comparison_rows() { return rows_of_target; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/elementwise/cpu/choose_rows.h"
namespace calor::cpu {
OpRows comparison_rows(std::int64_t targets) { CALOR_CHOOSE_ROWS(comparison_rows, targets) }
}  // namespace calor::cpu
#endif
