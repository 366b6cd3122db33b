// Integer loops around divisions and powers, which no instruction set vectorises. Nothing traps: division by zero gives
// 0, and dividing by -1 is negation, which wraps.
#include "ops/elementwise/cpu/integer_ops.h"

namespace calor::cpu {
namespace {

template <class T> bool is_minus_one(T b) { return std::is_signed_v<T> && b == static_cast<T>(-1); }

struct FloorDivide {
    template <class T> static T run(T a, T b) {
        if (b == 0) return 0;
        if (is_minus_one(b)) return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
        const T quotient = static_cast<T>(a / b);
        if constexpr (std::is_signed_v<T>) {
            const bool inexact = static_cast<T>(a % b) != 0;
            return static_cast<T>(quotient - (inexact && (a < 0) != (b < 0) ? 1 : 0));
        } else {
            return quotient;
        }
    }
};

struct Fmod {
    template <class T> static T run(T a, T b) { return b == 0 || is_minus_one(b) ? T{0} : static_cast<T>(a % b); }
};

struct Remainder {
    template <class T> static T run(T a, T b) {
        const T rest = Fmod::run(a, b);
        if constexpr (std::is_signed_v<T>) {
            if (rest != 0 && (rest < 0) != (b < 0)) return static_cast<T>(rest + b);
        }
        return rest;
    }
};

struct Power {
    template <class T> static T run(T base, T exponent) {
        if constexpr (std::is_signed_v<T>) {
            if (exponent < 0) {
                if (base == 1) return 1;
                if (base == static_cast<T>(-1)) return (exponent & 1) != 0 ? static_cast<T>(-1) : T{1};
                return 0;
            }
        }
        Wrap<T> result = 1, square = static_cast<Wrap<T>>(base);
        for (auto bits = static_cast<std::make_unsigned_t<T>>(exponent); bits != 0; bits >>= 1) {
            if (bits & 1u) result *= square;
            square *= square;
        }
        return static_cast<T>(result);
    }
};

template <class Op, class T> void loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* a = static_cast<const T*>(in[0]);
    const auto* b = static_cast<const T*>(in[1]);
    auto* r = static_cast<T*>(out);
    for (std::int64_t i = 0; i < n; ++i) r[i] = Op::template run<T>(a[i], b[i]);
}

template <class Op> struct Kernel {
    template <class T> static constexpr TileKernel kernel() { return loop<Op, T>; }
};

constexpr std::array rows = {
    integer_row<Kernel<FloorDivide>, true>("floor_divide"),
    integer_row<Kernel<Remainder>, true>("remainder"),
    integer_row<Kernel<Fmod>, true>("fmod"),
    integer_row<Kernel<Power>, true>("pow"),
};

}  // namespace

OpRows integer_division_rows() { return rows; }

}  // namespace calor::cpu
