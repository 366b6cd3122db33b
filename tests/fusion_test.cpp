// Fusion: a fused chain gives what its steps give one by one. Random graphs in f32 agree bit by bit; in f16 and bf16
// they do under StrictRounding, and without it only intermediate roundings go. Integers always wrap at their own width.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "calor/calor.h"
#include "gradient_check.h"

namespace ca = calor;
using ca::DType;
using ca::Tensor;

namespace {

template <class T> Tensor of(std::initializer_list<T> values) { return ca::tensor(std::vector<T>(values)); }
Tensor halves(std::initializer_list<float> values, DType dtype = ca::f16) { return of<float>(values).to(dtype).eval(); }
std::vector<float> floats(const Tensor& t) { return t.to(ca::f32).to_vector<float>(); }

// ---- rounding ----

TEST(Rounding, CastsOfNumbersHappen) {  // f16(1.00048828125) is 1: a tie to even
    const Tensor x = halves({9.734375f});
    EXPECT_EQ(floats(x * ca::scalar(1.00048828125, ca::f16))[0], 9.734375f);
    EXPECT_EQ(floats(x * of<float>({1.00048828125f}).to(ca::f16))[0], 9.734375f);
}

TEST(Rounding, RoundTripsAreNotElided) {
    const Tensor x = of<float>({3.14159265f, 1.00390625f, 1.01171875f, -2.7182817f});
    EXPECT_EQ((x * 1).to(ca::bf16).to(ca::f32).to_vector<float>(),
              (std::vector<float>{3.140625f, 1.f, 1.015625f, -2.71875f}));
    EXPECT_EQ(((x * 1).to(ca::bf16).to(ca::f32) - x).to_vector<float>()[1], -0.00390625f);
    EXPECT_EQ((of<float>({70000.f}) * 1).to(ca::f16).to(ca::f32).item<float>(), INFINITY);
}

TEST(Rounding, ComparisonsSeeTheStoredValue) {
    // 1.0078125^2 = 1.01568603515625 is 1.015625 in bf16.
    const Tensor a = halves({1.0078125f}, ca::bf16), stored = halves({1.015625f}, ca::bf16);
    EXPECT_TRUE(ca::eq(a * a, stored).to(ca::u8).item<std::uint8_t>());
    EXPECT_TRUE(ca::ge(stored, a * a).to(ca::u8).item<std::uint8_t>());
    EXPECT_FALSE(ca::gt(a * a, stored).to(ca::u8).item<std::uint8_t>());
    // So ties of maximum are ties, also in the gradient.
    const Tensor x = a.requires_grad();
    const auto g = ca::backward(ca::sum(ca::maximum(x * x, stored).to(ca::f32)));
    EXPECT_NEAR(floats(g[x])[0], 1.0078125f, 0.01f);
    EXPECT_TRUE(ca::isinf(halves({60000}) * 2).to(ca::u8).item<std::uint8_t>());
}

TEST(Rounding, NumbersBesideHalvesStayF32) {
    const double root = std::sqrt(128.0);
    const float exact = static_cast<float>(ca::bfloat16(100.f / static_cast<float>(root)));
    const Tensor x = halves({100.f, 33.25f, 7.03125f, 1.2109375f}, ca::bf16);
    EXPECT_EQ(floats(x / root)[0], exact);
    const auto values = floats(x), quotients = floats(x / root);
    for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(quotients[i], static_cast<float>(ca::bfloat16(values[i] / static_cast<float>(root))));
    }
    EXPECT_EQ((x / root).dtype(), ca::bf16);
    EXPECT_EQ((root - x).dtype(), ca::bf16);
    EXPECT_TRUE(ca::eq(halves({0.1f}), 0.1).to(ca::u8).item<std::uint8_t>());
}

TEST(Rounding, StrictKeepsTheBitsOfSingleSteps) {
    const Tensor x = halves({60000.f}), y = halves({1.001f}), z = halves({1.002f});
    EXPECT_EQ(floats(x * 2 / 4)[0], 30000.f);
    EXPECT_NE(floats(y * y - z)[0], 0.f);
    const ca::StrictRounding strict;
    EXPECT_EQ(floats(x * 2 / 4)[0], INFINITY);
    EXPECT_EQ(floats(y * y - z)[0], 0.f);
}

TEST(Rounding, CastsFromWideTypesRoundOnce) {
    // Just above a tie of f16: through f32 it would become the tie, and then even.
    const Tensor x = of<double>({1 + 0x1p-11 + 0x1p-40, 1.0});
    EXPECT_EQ(floats(x.to(ca::f16))[0], 1 + 0x1p-10f);
    EXPECT_EQ(floats((x * 1).to(ca::f16))[0], 1 + 0x1p-10f);
    EXPECT_EQ(((x * 1).to(ca::f16) * 1).to(ca::f32).to_vector<float>()[0], 1 + 0x1p-10f);
    const Tensor y = of<std::int64_t>({(std::int64_t{1} << 40) + (std::int64_t{1} << 32) + 1});
    EXPECT_EQ(floats((y + 0).to(ca::bf16))[0], 0x1p40f + 0x1p33f);
}

TEST(Rounding, SumsOfHalvesDoNotStall) {
    EXPECT_EQ(floats(ca::sum(ca::ones({4096}, ca::f16)))[0], 4096.f);
    EXPECT_EQ(floats(ca::sum(ca::ones({512}, ca::bf16)))[0], 512.f);
}

// ---- integers in chains ----

TEST(Integers, WrapBeforeTheyWiden) {
    const Tensor a = of<std::uint8_t>({128}), b = of<std::int32_t>({2147483647});
    EXPECT_EQ((a + a).to(ca::i16).item<std::int16_t>(), 0);
    EXPECT_EQ((b + b).to(ca::i64).item<std::int64_t>(), -2);
    EXPECT_EQ(ca::shift_right(of<std::int8_t>({100}) * 2, 1).item<std::int8_t>(), -28);
    EXPECT_EQ(ca::floor_divide(of<std::uint8_t>({200}) + 100, 2).item<std::uint8_t>(), 22);
    EXPECT_EQ(((of<std::uint8_t>({200}) + 100) / 2).item<float>(), 22.f);
}

TEST(Integers, LeastDividedByMinusOneDoesNotTrap) {
    const auto check = [](auto zero) {
        using T = decltype(zero);
        const T least = std::numeric_limits<T>::min();
        const Tensor a = ca::tensor(std::vector<T>{least}), b = ca::tensor(std::vector<T>{T(-1)});
        EXPECT_EQ(ca::floor_divide(a + T(0), b).template item<T>(), least);
        EXPECT_EQ(ca::remainder(a + T(0), b).template item<T>(), T(0));
        EXPECT_EQ(ca::fmod(a + T(0), b).template item<T>(), T(0));
    };
    check(std::int8_t{});
    check(std::int16_t{});
    check(std::int32_t{});
    check(std::int64_t{});
}

TEST(Integers, SixtyFourBitsStaySixtyFour) {
    std::vector<std::int64_t> index(9), expected(9);
    for (std::size_t i = 0; i < 9; ++i) {
        index[i] = static_cast<std::int64_t>(i);
        expected[i] = index[i] * 1500000000;
    }
    EXPECT_EQ((ca::tensor(index) * 1500000000).to_vector<std::int64_t>(), expected);
}

// ---- random graphs ----

/// Builds the same random graph whenever it gets the same seed; with `stepwise` every node is computed on its own.
class RandomGraph {
public:
    RandomGraph(std::uint32_t seed, DType dtype, bool stepwise) : engine_(seed), dtype_(dtype), stepwise_(stepwise) {}

    std::vector<Tensor> build() {
        const ca::Shape shapes[] = {{4, 33}, {33}, {4, 1}, {}, {33, 4}, {4, 33}};
        for (std::uint32_t i = 0; i < 6; ++i) {
            Tensor t = ca::testing::random_tensor(shapes[i], engine_(), -2, 2).to(dtype_).eval();
            pool_.push_back(i == 4 ? ca::permute(t, {1, 0}) : t);
        }
        for (int i = 0; i < 24; ++i) {
            Tensor t = step();
            if (stepwise_) t.eval();
            pool_.push_back(t);
        }
        return {pool_.end() - 3, pool_.end()};
    }

private:
    std::uint32_t below(std::uint32_t n) { return engine_() % n; }
    const Tensor& any() {
        return pool_[below(2) ? below(static_cast<std::uint32_t>(pool_.size()))
                              : static_cast<std::uint32_t>(pool_.size()) - 1 - below(4)];
    }
    /// In stepwise graphs the parts of a step are computed one by one as well.
    Tensor done(const Tensor& t) { return stepwise_ ? t.eval() : t; }

    Tensor step() {
        const Tensor a = any(), b = any();
        switch (below(16)) {
            case 0: return a + b;
            case 1: return a - b;
            case 2: return a * b;
            case 3: return a / done(done(ca::abs(b)) + 0.7);
            case 4: return ca::where(done(ca::gt(a, b)), a, b);
            case 5: return ca::where(done(ca::le(a, 0.1)), b, 0.3);
            case 6: return ca::maximum(a, b);
            case 7: return ca::exp(done(ca::clamp(a, -4, 1.5)));
            case 8: return ca::sigmoid(a);
            case 9: return ca::gelu(a);
            case 10: return ca::tanh(a);
            case 11: return done(done(a * 3.7).to(ca::i32)).to(dtype_);
            case 12: return done(a.to(dtype_ == ca::bf16 ? ca::f16 : ca::bf16)).to(dtype_);
            case 13: return done(done(ca::round(a)).to(ca::i16)).to(dtype_);
            case 14: return 1.3 - a;
            default: return ca::silu(done(a * 0.1));
        }
    }

    std::mt19937 engine_;
    DType dtype_;
    bool stepwise_;
    std::vector<Tensor> pool_;
};

std::string first_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    for (std::size_t k = 0; k < a.size(); ++k) {
        if (!(a[k].shape() == b[k].shape()) || a[k].dtype() != b[k].dtype()) return "shape or dtype";
        const auto x = a[k].to(ca::f64).to_vector<double>(), y = b[k].to(ca::f64).to_vector<double>();
        for (std::size_t i = 0; i < x.size(); ++i) {
            const bool same =
                std::isnan(x[i]) ? std::isnan(y[i]) : x[i] == y[i] && std::signbit(x[i]) == std::signbit(y[i]);
            if (!same)
                return "output " + std::to_string(k) + " at " + std::to_string(i) + ": " + std::to_string(x[i]) +
                       " and " + std::to_string(y[i]);
        }
    }
    return "";
}

void expect_fused_like_stepwise(DType dtype, bool strict) {
    const ca::StrictRounding rounding(strict);
    for (std::uint32_t seed = 1; seed <= 120; ++seed) {
        const std::vector<Tensor> fused = RandomGraph(seed, dtype, false).build(),
                                  again = RandomGraph(seed, dtype, false).build();
        ca::eval(fused);
        ca::eval(again);
        const std::vector<Tensor> single = RandomGraph(seed, dtype, true).build();
        ASSERT_EQ(first_difference(fused, single), "") << "fused and stepwise, seed " << seed;
        ASSERT_EQ(first_difference(fused, again), "") << "two runs, seed " << seed;
    }
}

TEST(RandomGraphs, OfF32AgreeBitByBit) { expect_fused_like_stepwise(ca::f32, false); }
TEST(RandomGraphs, OfF64AgreeBitByBit) { expect_fused_like_stepwise(ca::f64, false); }
TEST(RandomGraphs, OfF16AgreeUnderStrictRounding) { expect_fused_like_stepwise(ca::f16, true); }
TEST(RandomGraphs, OfBF16AgreeUnderStrictRounding) { expect_fused_like_stepwise(ca::bf16, true); }

TEST(RandomGraphs, GradientsAgreeUnderStrictRounding) {
    const ca::StrictRounding strict;
    for (const DType dtype : {ca::f32, ca::f16}) {
        const auto loss_gradient = [&](bool stepwise) {
            const Tensor x = ca::testing::random_tensor({5, 40}, 3, -2, 2).to(dtype).requires_grad();
            const auto done = [&](const Tensor& t) { return stepwise ? t.eval() : t; };
            const Tensor y = done(done(ca::gelu(done(x * 1.7))) * done(ca::sigmoid(x)));
            return ca::backward(ca::sum(done(y.to(ca::f32))))[x];
        };
        EXPECT_EQ(first_difference({loss_gradient(false)}, {loss_gradient(true)}), "") << ca::name_of(dtype);
    }
}

TEST(RandomGraphs, MemoryThatIsReusedKeepsItsValuesAsLongAsTheyAreRead) {
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
        const auto run = [&](std::vector<Tensor>* history) {
            std::mt19937 engine(seed);
            Tensor state[2] = {ca::testing::random_tensor({33, 7}, 1, -1, 1, ca::f32) + 0,
                               ca::permute(ca::testing::random_tensor({7, 33}, 2, -1, 1, ca::f32) + 0, {1, 0})};
            for (int i = 0; i < 30; ++i) {
                Tensor& x = state[engine() % 2];
                const Tensor& other = state[engine() % 2];
                switch (engine() % 5) {
                    case 0: x = x * 0.5 + other; break;
                    case 1: x = ca::where(ca::gt(x, other), x - other, x * x); break;
                    case 2: x = ca::tanh(other) - x * other; break;
                    case 3: x = ca::permute(ca::permute(x, {1, 0}) + 0.25, {1, 0}) * ca::sigmoid(x); break;
                    default: x = x.to(ca::i32).to(ca::f32) + ca::sin(x); break;
                }
                x.eval();
                if (history) history->push_back(x);  // a held value's memory is never reused
            }
            return std::vector<Tensor>{state[0], state[1]};
        };
        std::vector<Tensor> history;
        ASSERT_EQ(first_difference(run(nullptr), run(&history)), "") << "seed " << seed;
    }
}

TEST(Chains, OfManyAxesThatDoNotMerge) {
    const ca::Shape shape(10, 2);
    const ca::Axes reversed{9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    const Tensor x = ca::testing::random_tensor(shape, 5),
                 y = ca::permute(ca::testing::random_tensor(shape, 6), reversed);
    const auto a = x.to_vector<double>(), b = y.to_vector<double>(), sum = (x * 2 + y).to_vector<double>();
    for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], a[i] * 2 + b[i]) << i;
}

TEST(Chains, LongerThanAGroupAndWiderThanItsInputs) {
    std::vector<Tensor> leaves;
    for (int i = 0; i < 60; ++i) leaves.push_back(ca::full({3, 5}, i + 1) + 0);
    Tensor total = leaves[0];
    for (int i = 1; i < 60; ++i) total = total + leaves[static_cast<std::size_t>(i)] * 1;
    for (int i = 0; i < 200; ++i) total = total + 1;
    EXPECT_EQ(total.to_vector<float>()[14], 60 * 61 / 2 + 200.f);
}

TEST(Chains, OfMixedDTypesShareTiles) {
    const Tensor a = of<std::uint8_t>({250, 3, 9}), b = of<std::int64_t>({10, -4, 1}), c = of<double>({0.5, 0.25, 2});
    const Tensor y = ca::where(ca::gt(a, 5), (a + 10).to(ca::f64), b.to(ca::f64)) * c + ca::logical_not(a).to(ca::f64);
    EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{2, -1, 38}));
}

}  // namespace
