// Integer loops that vectorise: arithmetic that wraps, bits and shifts, clamp, and `where` for every element size.
// Compiled for the baseline and for AVX2; the wider vectors of AVX-512 gain nothing on tiles in L1.
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/cpu/integer_arithmetic.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/elementwise/cpu/integer_ops.h"
#include "ops/elementwise/cpu/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

struct Add {
    template <class T> static T run(T a, T b) {
        return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
    }
};
struct Subtract {
    template <class T> static T run(T a, T b) {
        return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
    }
};
struct Multiply {
    template <class T> static T run(T a, T b) {
        return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
    }
};
struct Negate {
    template <class T> static T run(T a) { return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a)); }
};
struct Absolute {  // the most negative value stays
    template <class T> static T run(T a) {
        if constexpr (std::is_signed_v<T>) {
            return a < 0 ? Negate::run(a) : a;
        } else {
            return a;
        }
    }
};
struct Sign {
    template <class T> static T run(T a) {
        if constexpr (std::is_signed_v<T>) {
            return static_cast<T>((a > 0 ? 1 : 0) - (a < 0 ? 1 : 0));
        } else {
            return static_cast<T>(a != 0 ? 1 : 0);
        }
    }
};
struct Square {
    template <class T> static T run(T a) { return Multiply::run(a, a); }
};
struct Minimum {
    template <class T> static T run(T a, T b) { return a < b ? a : b; }
};
struct Maximum {
    template <class T> static T run(T a, T b) { return a > b ? a : b; }
};
struct BitNot {
    template <class T> static T run(T a) { return static_cast<T>(~static_cast<Wrap<T>>(a)); }
};
struct BitAnd {
    template <class T> static T run(T a, T b) { return static_cast<T>(a & b); }
};
struct BitOr {
    template <class T> static T run(T a, T b) { return static_cast<T>(a | b); }
};
struct BitXor {
    template <class T> static T run(T a, T b) { return static_cast<T>(a ^ b); }
};
/// A negative count is, read as unsigned, larger than every width.
struct ShiftLeft {
    template <class T> static T run(T a, T count) {
        constexpr auto width = static_cast<Wrap<T>>(8 * sizeof(T));
        const auto by = static_cast<Wrap<T>>(static_cast<std::make_unsigned_t<T>>(count));
        const auto shifted = static_cast<T>(static_cast<Wrap<T>>(a) << (by < width ? by : 0));
        return by < width ? shifted : T{0};
    }
};
struct ShiftRight {
    template <class T> static T run(T a, T count) {
        constexpr auto width = static_cast<Wrap<T>>(8 * sizeof(T));
        const auto by = static_cast<Wrap<T>>(static_cast<std::make_unsigned_t<T>>(count));
        if constexpr (std::is_signed_v<T>) {
            return static_cast<T>(a >> (by < width ? by : width - 1));
        } else {
            const auto shifted = static_cast<T>(a >> (by < width ? by : 0));
            return by < width ? shifted : T{0};
        }
    }
};
/// Bounds come as doubles: the low one rounds up, the high one down, both saturate, NaN is no bound. With low > high
/// the result is high.
struct Clamp {
    template <class T> static T parameter(double value, int index) {
        constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
        if (std::isnan(value)) return index == 0 ? least : most;
        const double whole = index == 0 ? std::ceil(value) : std::floor(value);
        if (whole <= static_cast<double>(least)) return least;
        if (whole >= static_cast<double>(most)) return most;
        return static_cast<T>(whole);
    }
    template <class T> static T run(T a, T low, T high) { return Minimum::run(Maximum::run(a, low), high); }
};

template <class Op> struct Unary {
    template <class T> static constexpr TileKernel kernel() { return unary_loop<Op, T, T>; }
};
template <class Op> struct Binary {
    template <class T> static constexpr TileKernel kernel() { return binary_loop<Op, T, T>; }
};
struct ClampKernel {
    template <class T> static constexpr TileKernel kernel() { return parameter_loop<Clamp, T>; }
};
struct Copy {
    template <class T> static constexpr TileKernel kernel() { return copy_loop<T>; }
};
struct WhereKernel {
    template <class T> static constexpr TileKernel kernel() { return where_loop<T>; }
};

constexpr OpRow where_row() {
    OpRow row = integer_row<WhereKernel, false>("where");
    row.set(DType::f64, where_loop<std::uint64_t>);
    row.set(DType::f32, where_loop<std::uint32_t>);
    row.set(DType::boolean, where_loop<std::uint8_t>);
    return row;
}

/// A row whose loop for u8 also serves bool, whose values are the bytes 0 and 1.
template <class Kernel, bool SignMatters> constexpr OpRow with_bool(std::string_view name) {
    OpRow row = integer_row<Kernel, SignMatters>(name);
    row.set(DType::boolean, row.kernels[static_cast<std::size_t>(DType::u8)]);
    return row;
}

constexpr bool either = false, sign_matters = true;

constexpr std::array rows_of_target = {
    integer_row<Binary<Add>, either>("add"),
    integer_row<Binary<Subtract>, either>("sub"),
    integer_row<Binary<Multiply>, either>("mul"),
    integer_row<Unary<Negate>, either>("neg"),
    integer_row<Unary<Absolute>, sign_matters>("abs"),
    integer_row<Unary<Sign>, sign_matters>("sign"),
    integer_row<Unary<Square>, either>("square"),
    integer_row<Copy, either>("floor"),
    integer_row<Copy, either>("ceil"),
    integer_row<Copy, either>("round"),
    integer_row<Copy, either>("trunc"),
    with_bool<Binary<Minimum>, sign_matters>("minimum"),
    with_bool<Binary<Maximum>, sign_matters>("maximum"),
    integer_row<Unary<BitNot>, either>("bitwise_not"),  // of bool: comparison.cpp
    with_bool<Binary<BitAnd>, either>("bitwise_and"),
    with_bool<Binary<BitOr>, either>("bitwise_or"),
    with_bool<Binary<BitXor>, either>("bitwise_xor"),
    integer_row<Binary<ShiftLeft>, either>("shift_left"),
    integer_row<Binary<ShiftRight>, sign_matters>("shift_right"),
    integer_row<ClampKernel, sign_matters>("clamp"),
    where_row(),
};

}  // namespace

OpRows integer_rows() { return rows_of_target; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/elementwise/cpu/choose_rows.h"
namespace calor::cpu {
OpRows integer_rows(std::int64_t targets) { CALOR_CHOOSE_ROWS(integer_rows, targets) }
}  // namespace calor::cpu
#endif
