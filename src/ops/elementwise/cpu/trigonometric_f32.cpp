// f32 trigonometric functions and their inverses, computed in f64 vectors.
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/cpu/trigonometric_f32.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/elementwise/cpu/op_rows.h"
#include "ops/elementwise/cpu/wide_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr double half_pi = 1.57079632679489661923;

/// x = k pi/2 + r, |r| <= pi/4: sine and cosine of r, and k (its low two bits name the quadrant).
struct Quadrant {
    V64 sine, cosine;
    hn::Vec<I64> k;
};

constexpr double reducible = 500000.0;  // k has at most 19 bits, so that its products with 33-bit constants are exact

HWY_INLINE Quadrant reduce(V64 x) {
    const V64 shift = wide(6755399441055744.0);  // 1.5 * 2^52: adding it rounds to an integer, in the low mantissa bits
    const V64 shifted = hn::Add(hn::Mul(x, wide(1.0 / half_pi)), shift);
    const V64 k = hn::Sub(shifted, shift);
    V64 r = hn::Sub(x, hn::Mul(k, wide(1.57079632673412561416626)));
    r = hn::Sub(r, hn::Mul(k, wide(6.077100506303965976595549e-11)));
    r = hn::Sub(r, hn::Mul(k, wide(2.022266248795950732399685e-21)));
    const V64 y = hn::Mul(r, r);
    V64 s = hn::MulAdd(wide(2.718304341263410763e-6), y, wide(-0.0001983933409694978329));
    s = hn::MulAdd(hn::MulAdd(s, y, wide(0.008333329383632575444)), y, wide(-0.1666666664160747855));
    V64 c = hn::MulAdd(wide(-2.721016923729922205e-7), y, wide(0.00002479951919210098743));
    c = hn::MulAdd(hn::MulAdd(c, y, wide(-0.001388888375037256472)), y, wide(0.04166666662279364139));
    const V64 sine = hn::MulAdd(hn::Mul(r, y), s, r);
    const V64 cosine = hn::MulAdd(hn::Mul(y, y), c, hn::MulAdd(y, wide(-0.5), wide(1.0)));
    return {sine, cosine, hn::BitCast(I64(), shifted)};
}

HWY_INLINE M64 bit_set(hn::Vec<I64> k, std::int64_t bit) {
    return hn::RebindMask(F64(), hn::TestBit(k, hn::Set(I64(), bit)));
}
/// -0.0 where bit 1 of k is set.
HWY_INLINE V64 sign_of_half_turn(hn::Vec<I64> k) {
    return hn::BitCast(F64(), hn::ShiftLeft<62>(hn::And(k, hn::Set(I64(), 2))));
}

struct Reducible {
    HWY_INLINE static M64 special(V64 x) { return hn::Not(hn::Lt(hn::Abs(x), wide(reducible))); }
};
struct Sin : Reducible {
    HWY_INLINE static V64 run(V64 x) {
        const Quadrant q = reduce(hn::Abs(x));
        const V64 value = hn::IfThenElse(bit_set(q.k, 1), q.cosine, q.sine);
        return hn::Xor(hn::Xor(value, sign_of_half_turn(q.k)), hn::And(x, hn::SignBit(F64())));
    }
    static double scalar(double x) { return std::sin(x); }
};
struct Cos : Reducible {
    HWY_INLINE static V64 run(V64 x) {
        const Quadrant q = reduce(hn::Abs(x));
        const V64 value = hn::IfThenElse(bit_set(q.k, 1), q.sine, q.cosine);
        return hn::Xor(value, sign_of_half_turn(hn::Add(q.k, hn::Set(I64(), 1))));
    }
    static double scalar(double x) { return std::cos(x); }
};
struct Tan : Reducible {
    HWY_INLINE static V64 run(V64 x) {
        const Quadrant q = reduce(hn::Abs(x));
        const M64 odd = bit_set(q.k, 1);
        const V64 above = hn::IfThenElse(odd, hn::Neg(q.cosine), q.sine);
        const V64 below = hn::IfThenElse(odd, q.sine, q.cosine);
        return hn::Xor(hn::Div(above, below), hn::And(x, hn::SignBit(F64())));
    }
    static double scalar(double x) { return std::tan(x); }
};

struct Asin {
    HWY_INLINE static V64 run(V64 x) { return hn::Asin(F64(), x); }
};
struct Acos {
    HWY_INLINE static V64 run(V64 x) { return hn::Acos(F64(), x); }
};
struct Atan {
    HWY_INLINE static V64 run(V64 x) { return hn::Atan(F64(), x); }
};

/// The angle of (x, y): the arc tangent of the smaller over the larger, put into its octant. Zeros and infinities:
/// scalar.
struct Atan2 {
    HWY_INLINE static V64 run(V64 y, V64 x) {
        const V64 a = hn::Abs(y), b = hn::Abs(x);
        const M64 steep = hn::Gt(a, b);
        const V64 ratio = hn::Div(hn::IfThenElse(steep, b, a), hn::IfThenElse(steep, a, b));
        V64 angle = hn::Atan(F64(), ratio);
        angle = hn::IfThenElse(steep, hn::Sub(wide(half_pi), angle), angle);
        angle = hn::IfThenElse(hn::Lt(x, hn::Zero(F64())), hn::Sub(wide(2 * half_pi), angle), angle);
        return hn::CopySign(angle, y);
    }
    HWY_INLINE static M64 special(V64 y, V64 x) {
        const V64 zero = hn::Zero(F64());
        return hn::Or(hn::Or(hn::Eq(x, zero), hn::Eq(y, zero)), hn::Or(not_finite(x), not_finite(y)));
    }
    static double scalar(double y, double x) { return std::atan2(y, x); }
};

constexpr std::array rows_of_target = {
    wide_row<Sin>("sin"),   wide_row<Cos>("cos"),   wide_row<Tan>("tan"),          wide_row<Asin>("asin"),
    wide_row<Acos>("acos"), wide_row<Atan>("atan"), wide_pair_row<Atan2>("atan2"),
};

}  // namespace

OpRows trigonometric_rows() { return rows_of_target; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/elementwise/cpu/choose_rows.h"
namespace calor::cpu {
OpRows trigonometric_rows(std::int64_t targets) { CALOR_CHOOSE_ROWS(trigonometric_rows, targets) }
}  // namespace calor::cpu
#endif
