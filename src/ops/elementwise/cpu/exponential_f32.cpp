// f32 vector loops around exp and log: the exponentials themselves, tanh, sigmoid and the activations made of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/cpu/exponential_f32.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/elementwise/cpu/op_rows.h"
#include "ops/elementwise/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

struct Exp : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return exp(x); }
};
struct Expm1 : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return expm1(x); }
};
struct Exp2 : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return exp2(x); }
};
struct Log : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return log(x); }
};
struct Log1p : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return log1p(x); }
};
struct Tanh : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return tanh(x); }
};

/// 1 / (1 + exp(-x)); for negative x e / (1 + e), e = exp(x).
struct Sigmoid : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const {
        const V32 e = exp(hn::Neg(hn::Abs(x)));
        const V32 numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), e, constant(1.0f));
        return hn::Div(numerator, hn::Add(e, constant(1.0f)));
    }
};
struct Silu : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const { return times_sigmoid(x, exp_parts(hn::Neg(hn::Abs(x)))); }
};

/// log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|)).
struct LogSigmoid : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const {
        return hn::Sub(at_most(x, 0.0f), log1p_of_fraction(exp(hn::Neg(hn::Abs(x)))));
    }
};

/// log(1 + exp(beta x)) / beta, and x itself where beta x > threshold.
struct Softplus {
    explicit Softplus(const double* parameters)
        : beta(static_cast<float>(parameters[0])), threshold(static_cast<float>(parameters[1])) {}
    HWY_INLINE V32 operator()(V32 x) const {
        const V32 z = hn::Mul(x, constant(beta));
        const V32 sum = hn::Add(at_least(z, 0.0f), log1p_of_fraction(exp(hn::Neg(hn::Abs(z)))));
        const V32 value = beta == 1.0f ? sum : hn::Div(sum, constant(beta));
        return hn::IfThenElse(hn::Gt(z, constant(threshold)), x, value);
    }
    float beta, threshold;
};

/// x tanh(softplus(x)) = x w / (w + 2), w = e (e + 2), e = exp(x); beyond 20 the factor is 1 and e would overflow.
struct Mish : NoParameters {
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const {
        const auto negative = hn::Lt(x, hn::Zero(F32()));
        const V32 two = constant(2.0f);
        const Exponential parts = exp_parts(at_most(x, 20.0f));
        const V32 e = beside_one(parts), plus = hn::Add(e, two);
        const V32 w = hn::Mul(e, plus);
        const V32 numerator = hn::IfThenElse(negative, hn::Mul(parts.value, plus), w);
        const V32 factor = hn::Div(numerator, hn::Add(w, two));
        return scale_where(negative, hn::Mul(at_least(x, -200.0f), factor), parts.k);
    }
};

/// x for positive x, else a (exp(x / b) - 1): elu, celu and selu.
HWY_INLINE V32 linear_unit(V32 x, V32 argument, float factor) {
    const V32 negative = hn::Mul(constant(factor), expm1(argument));
    return hn::IfThenElse(hn::Gt(x, hn::Zero(F32())), x, negative);
}
struct Elu {
    explicit Elu(const double* parameters) : alpha(static_cast<float>(parameters[0])) {}
    HWY_INLINE V32 operator()(V32 x) const { return linear_unit(x, x, alpha); }
    float alpha;
};
struct Celu {
    explicit Celu(const double* parameters) : alpha(static_cast<float>(parameters[0])) {}
    HWY_INLINE V32 operator()(V32 x) const { return linear_unit(x, hn::Div(x, constant(alpha)), alpha); }
    float alpha;
};
struct Selu : NoParameters {  // scale and alpha of Klambauer et al., "Self-Normalizing Neural Networks" (2017)
    using NoParameters::NoParameters;
    HWY_INLINE V32 operator()(V32 x) const {
        const V32 positive = hn::Mul(x, constant(1.05070098735548f));
        return hn::IfThenElse(hn::Gt(x, hn::Zero(F32())), positive, linear_unit(x, x, 1.75809934084738f));
    }
};

constexpr std::array rows_of_target = {
    vector_row<Exp>("exp"),           vector_row<Expm1>("expm1"), vector_row<Exp2>("exp2"),
    vector_row<Log>("log"),           vector_row<Log1p>("log1p"), vector_row<Tanh>("tanh"),
    vector_row<Sigmoid>("sigmoid"),   vector_row<Silu>("silu"),   vector_row<LogSigmoid>("log_sigmoid"),
    vector_row<Softplus>("softplus"), vector_row<Mish>("mish"),   vector_row<Elu>("elu"),
    vector_row<Celu>("celu"),         vector_row<Selu>("selu"),
};

}  // namespace

OpRows exponential_rows() { return rows_of_target; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/elementwise/cpu/choose_rows.h"
namespace calor::cpu {
OpRows exponential_rows(std::int64_t targets) { CALOR_CHOOSE_ROWS(exponential_rows, targets) }
}  // namespace calor::cpu
#endif
