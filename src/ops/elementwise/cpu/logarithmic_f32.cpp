// f32 hyperbolic functions and their inverses, logarithms to other bases, powers and roots, computed in f64 vectors.
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/cpu/logarithmic_f32.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/elementwise/cpu/op_rows.h"
#include "ops/elementwise/cpu/wide_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

struct Sinh {
    HWY_INLINE static V64 run(V64 x) {
        const V64 low = hn::IfThenElse(hn::Lt(x, wide(-100.0)), wide(-100.0), x);
        const V64 value = hn::Sinh(F64(), hn::IfThenElse(hn::Gt(x, wide(100.0)), wide(100.0), low));
        return hn::IfThenElse(hn::IsNaN(x), x, value);
    }
};
struct Cosh {
    HWY_INLINE static V64 run(V64 x) {
        const V64 e = full_exp(hn::Abs(x));
        return hn::MulAdd(e, wide(0.5), hn::Div(wide(0.5), e));
    }
};
struct Asinh {
    HWY_INLINE static V64 run(V64 x) { return hn::IfThenElse(not_finite(x), x, hn::Asinh(F64(), x)); }
};
struct Acosh {
    HWY_INLINE static V64 run(V64 x) {
        const V64 value = hn::IfThenElse(not_finite(x), hn::Abs(x), hn::Acosh(F64(), x));
        return hn::IfThenElse(hn::Lt(x, wide(1.0)), wide(std::numeric_limits<double>::quiet_NaN()), value);
    }
};
struct Atanh {
    HWY_INLINE static V64 run(V64 x) {
        const V64 a = hn::Abs(x), one = wide(1.0);
        V64 value = hn::Mul(hn::Log1p(F64(), hn::Div(hn::Add(a, a), hn::Sub(one, a))), wide(0.5));
        value = hn::IfThenElse(hn::Eq(a, one), wide(std::numeric_limits<double>::infinity()), value);
        value = hn::IfThenElse(hn::Gt(a, one), wide(std::numeric_limits<double>::quiet_NaN()), value);
        return hn::CopySign(hn::IfThenElse(hn::IsNaN(x), x, value), x);
    }
};

struct Log2 {
    HWY_INLINE static V64 run(V64 x) { return hn::Mul(full_log(x), wide(1.44269504088896340736)); }
};
struct Log10 {
    HWY_INLINE static V64 run(V64 x) { return hn::Mul(full_log(x), wide(0.434294481903251827651)); }
};

struct Cbrt {
    HWY_INLINE static V64 run(V64 x) {
        const V64 a = hn::Abs(x), zero = hn::Zero(F64());
        const V64 root = hn::Exp(F64(), hn::Mul(hn::Log(F64(), a), wide(1.0 / 3.0)));
        return hn::IfThenElse(hn::Or(hn::Eq(a, zero), not_finite(a)), x, hn::CopySign(root, x));
    }
};

/// sqrt(a^2 + b^2): squares of f32 neither overflow nor vanish in f64. Infinite when one side is, whatever the other.
struct Hypot {
    HWY_INLINE static V64 run(V64 a, V64 b) {
        const V64 infinity = wide(std::numeric_limits<double>::infinity());
        const M64 infinite = hn::Or(hn::Eq(hn::Abs(a), infinity), hn::Eq(hn::Abs(b), infinity));
        return hn::IfThenElse(infinite, infinity, hn::Sqrt(hn::MulAdd(a, a, hn::Mul(b, b))));
    }
};

/// exp(y log|x|), negative for negative x and odd y, NaN for negative x and broken y. Zeros, infinities, NaN: scalar.
struct Power {
    HWY_INLINE static V64 run(V64 x, V64 y) {
        const V64 zero = hn::Zero(F64());
        const V64 size = full_exp(hn::Mul(y, full_log(hn::Abs(x))));
        const V64 half = hn::Mul(y, wide(0.5));
        const M64 odd = hn::Ne(hn::Floor(half), half);  // among whole numbers
        const V64 signed_size = hn::IfThenElse(odd, hn::Neg(size), size);
        const V64 nan = wide(std::numeric_limits<double>::quiet_NaN());
        const V64 negative = hn::IfThenElse(hn::Eq(hn::Floor(y), y), signed_size, nan);
        return hn::IfThenElse(hn::Lt(x, zero), negative, size);
    }
    HWY_INLINE static M64 special(V64 x, V64 y) {
        return hn::Or(hn::Eq(x, hn::Zero(F64())), hn::Or(not_finite(x), not_finite(y)));
    }
    static double scalar(double x, double y) { return std::pow(x, y); }
};

/// log(exp(a) + exp(b)) = max + log(1 + exp(-|a - b|)).
struct LogAddExp {
    HWY_INLINE static V64 run(V64 a, V64 b) {
        const V64 largest = hn::IfThenElse(hn::Lt(a, b), b, a);
        const V64 distance = hn::IfThenElse(hn::Eq(a, b), hn::Zero(F64()), hn::Abs(hn::Sub(a, b)));
        const V64 rest = hn::Log1p(F64(), full_exp(hn::Neg(distance)));
        return hn::IfThenElse(hn::IsNaN(distance), distance, hn::Add(largest, rest));
    }
};

/// x log(y), and 0 at x = 0 unless y is NaN.
struct XLogY {
    HWY_INLINE static V64 run(V64 x, V64 y) {
        const M64 vanishes = hn::And(hn::Eq(x, hn::Zero(F64())), hn::Eq(y, y));
        return hn::IfThenZeroElse(vanishes, hn::Mul(x, full_log(y)));
    }
};

constexpr std::array rows_of_target = {
    wide_row<Sinh>("sinh"),
    wide_row<Cosh>("cosh"),
    wide_row<Asinh>("asinh"),
    wide_row<Acosh>("acosh"),
    wide_row<Atanh>("atanh"),
    wide_row<Log2>("log2"),
    wide_row<Log10>("log10"),
    wide_row<Cbrt>("cbrt"),
    wide_pair_row<Hypot>("hypot"),
    wide_pair_row<Power>("pow"),
    wide_pair_row<LogAddExp>("logaddexp"),
    wide_pair_row<XLogY>("xlogy"),
};

}  // namespace

OpRows logarithmic_rows() { return rows_of_target; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/elementwise/cpu/choose_rows.h"
namespace calor::cpu {
OpRows logarithmic_rows(std::int64_t targets) { CALOR_CHOOSE_ROWS(logarithmic_rows, targets) }
}  // namespace calor::cpu
#endif
