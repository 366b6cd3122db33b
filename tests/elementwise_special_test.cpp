// The elementwise operations where something special happens: kinks, poles, zeros and infinities, ends of integers,
// options.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "calor/calor.h"
#include "gradient_check.h"
#include "strided.h"

namespace ca = calor;
using ca::DType;
using ca::Shape;
using ca::Tensor;
using ca::testing::values_of;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

Tensor numbers(std::initializer_list<double> v) { return ca::tensor(std::vector<double>(v)); }

std::vector<double> derivative(const ca::TensorFunction& f, const Tensor& x) {
    return values_of(ca::grad([&](const Tensor& t) { return ca::sum(f(t)); })(x));
}
std::pair<std::vector<double>, std::vector<double>> derivatives(Tensor (*f)(const ca::Operand&, const ca::Operand&,
                                                                            const ca::Where&),
                                                                const Tensor& a, const Tensor& b) {
    const Tensor x = a.requires_grad(), y = b.requires_grad();
    const auto g = ca::backward(ca::sum(f(x, y, ca::Where::current())));
    return {values_of(g[x]), values_of(g[y])};
}

using V = std::vector<double>;

TEST(ElementwiseSpecial, DerivativesAtKinks) {
    const Tensor x = numbers({-1, 0, 2});
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::abs(t); }, x), (V{-1, 0, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::sign(t); }, x), (V{0, 0, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::relu(t); }, x), (V{0, 0, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::clamp(t, -1, 2); }, x), (V{1, 1, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::clamp(t, 0); }, x), (V{0, 1, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::clamp(t, {}, 0); }, x), (V{1, 1, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::hardtanh(t, -1, 2); }, x), (V{0, 1, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::relu6(t); }, numbers({0, 3, 6})), (V{0, 1, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::leaky_relu(t, 0.5); }, x), (V{0.5, 0.5, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::hard_sigmoid(t); }, numbers({-3, 3})), (V{0, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::hard_swish(t); }, numbers({-4, -3, 3, 4})),
              (V{0, -0.5, 1.5, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::softshrink(t, 1); }, x), (V{0, 0, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::hardshrink(t, 1); }, x), (V{0, 0, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::threshold(t, 0, 5); }, x), (V{0, 0, 1}));
}

TEST(ElementwiseSpecial, TiesOfMinimumAndMaximumShareTheGradient) {
    const auto [a, b] = derivatives(ca::minimum, numbers({1, 2, 3}), numbers({2, 2, 2}));
    EXPECT_EQ(a, (V{1, 0.5, 0}));
    EXPECT_EQ(b, (V{0, 0.5, 1}));
    const auto [c, d] = derivatives(ca::maximum, numbers({1, 2, 3}), numbers({2, 2, 2}));
    EXPECT_EQ(c, (V{0, 0.5, 1}));
    EXPECT_EQ(d, (V{1, 0.5, 0}));
}

TEST(ElementwiseSpecial, PowAtZero) {
    const auto [base, exponent] = derivatives(ca::pow, numbers({0, 0, 0, 0}), numbers({0, 1, 2, 3}));
    EXPECT_EQ(base, (V{0, 1, 0, 0}));
    EXPECT_EQ(exponent, (V{0, 0, 0, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::pow(t, 1); }, numbers({0, -2})), (V{1, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::pow(t, 0); }, numbers({0, -2})), (V{0, 0}));
    const ca::TensorFunction slope = [](const Tensor& t) {
        return ca::grad([](const Tensor& u) { return ca::sum(ca::pow(u, numbers({1, 2, 3}))); })(t);
    };
    EXPECT_EQ(derivative(slope, numbers({0, 0, 0})), (V{0, 2, 0}));
    EXPECT_EQ(values_of(ca::pow(numbers({0, -8, 2, nan}), numbers({0, 2, -1, 0}))), (V{1, 64, 0.5, 1}));
}

TEST(ElementwiseSpecial, GradientsAtTheOrigin) {
    const auto [a, b] = derivatives(ca::hypot, numbers({0, 3}), numbers({0, 4}));
    EXPECT_EQ(a, (V{0, 0.6}));
    EXPECT_EQ(b, (V{0, 0.8}));
    const auto [c, d] = derivatives(ca::atan2, numbers({0, 1e200}), numbers({0, 1e200}));
    EXPECT_EQ(c[0], 0);
    EXPECT_EQ(d[0], 0);
    EXPECT_NEAR(c[1], 5e-201, 1e-214);
    EXPECT_NEAR(d[1], -5e-201, 1e-214);
    const auto [x, y] = derivatives(ca::xlogy, numbers({0, 0, 2}), numbers({0, -1, 4}));
    EXPECT_EQ(x, (V{0, 0, std::log(4.0)}));
    EXPECT_EQ(y, (V{0, 0, 0.5}));
    const auto [p, q] = derivatives(ca::logaddexp, numbers({-infinity, -infinity, 1}), numbers({-infinity, 0, 1}));
    EXPECT_EQ(p, (V{0.5, 0, 0.5}));
    EXPECT_EQ(q, (V{0.5, 1, 0.5}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::sqrt(t); }, numbers({0, 4})), (V{infinity, 0.25}));
}

/// Equal up to what only f64 can hold.
void expect_near(const V& got, const V& expected, DType dtype) {
    for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], expected[i], 1e-100) << ca::name_of(dtype) << " " << i;
}

TEST(ElementwiseSpecial, ActivationsFarOut) {
    const ca::StrictRounding strict;
    for (const DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
        const double most = dtype == ca::f16 ? 60000 : 1e30;
        const Tensor t = numbers({-most, -300, 300, most}).to(dtype);
        const auto expect = [&](const ca::TensorFunction& f, const V& slopes) {
            expect_near(derivative(f, t), slopes, dtype);
        };
        const V step = {0, 0, 1, 1}, none = {0, 0, 0, 0};
        expect([](const Tensor& u) { return ca::silu(u); }, step);
        expect([](const Tensor& u) { return ca::mish(u); }, step);
        expect([](const Tensor& u) { return ca::gelu(u); }, step);
        expect([](const Tensor& u) { return ca::gelu(u, ca::Gelu::tanh); }, step);
        expect([](const Tensor& u) { return ca::softplus(u); }, step);
        expect([](const Tensor& u) { return ca::elu(u); }, step);
        expect([](const Tensor& u) { return ca::sigmoid(u); }, none);
        expect([](const Tensor& u) { return ca::tanh(u); }, none);
        expect([](const Tensor& u) { return ca::log_sigmoid(u); }, {1, 1, 0, 0});
    }
}

TEST(ElementwiseSpecial, DerivativesOfLgammaToAnyOrder) {
    ca::TensorFunction f = [](const Tensor& t) { return ca::lgamma(t); };
    for (int order = 1; order <= 6; ++order) {
        f = [inner = f](const Tensor& t) { return ca::grad([&](const Tensor& u) { return ca::sum(inner(u)); })(t); };
    }
    // psi^(5)(1) = 5! zeta(6), psi^(5)(1/2) = 63 * 5! zeta(6).
    constexpr double zeta6 = 1.0173430619844491397;
    const V y = values_of(f(numbers({1, 0.5})));
    EXPECT_NEAR(y[0], 120 * zeta6, 1e-10);
    EXPECT_NEAR(y[1], 63 * 120 * zeta6, 1e-8);
}

TEST(ElementwiseSpecial, PolygammaOfNegativeNumbersFollowsTheRecurrence) {
    for (int n = 2; n <= 5; ++n) {
        const Tensor x = numbers({-0.3, -1.7, -12.4, -5000.25});
        const V here = values_of(ca::polygamma(n, x)), next = values_of(ca::polygamma(n, x + 1)), at = values_of(x);
        for (std::size_t i = 0; i < at.size(); ++i) {
            const double step = (n % 2 == 0 ? 1 : -1) * std::tgamma(n + 1.0) / std::pow(at[i], n + 1.0);
            EXPECT_NEAR(next[i] - here[i], step, 1e-11 * std::abs(here[i])) << n << " " << at[i];
        }
    }
    EXPECT_EQ(values_of(ca::polygamma(3, numbers({0, -2})))[0], infinity);
    EXPECT_TRUE(std::isnan(values_of(ca::polygamma(2, numbers({-2})))[0]));
    EXPECT_EQ(values_of(ca::polygamma(2, numbers({infinity})))[0], 0);
    EXPECT_EQ(values_of(ca::polygamma(0, numbers({1.5}))), values_of(ca::digamma(numbers({1.5}))));
    EXPECT_EQ(values_of(ca::polygamma(1, numbers({1.5}))), values_of(ca::trigamma(numbers({1.5}))));
    ca::testing::expect_error("value/option", [] { (void)ca::polygamma(-1, numbers({1})); });
}

TEST(ElementwiseSpecial, NextAfterKnowsTheStorage) {
    EXPECT_EQ(values_of(ca::nextafter(numbers({1, 1, 0}), numbers({2, 0, -1}))),
              (V{1 + 0x1p-52, 1 - 0x1p-53, -0x1p-1074}));
    EXPECT_EQ(values_of(ca::nextafter(numbers({1, 1}).to(ca::f32), numbers({2, 0}).to(ca::f32))),
              (V{1 + 0x1p-23, 1 - 0x1p-24}));
    EXPECT_EQ(values_of(ca::nextafter(numbers({1, 1, -1, 0, 65504, 3}).to(ca::f16),
                                      numbers({2, 0, 0, -1, infinity, 3}).to(ca::f16))),
              (V{1 + 0x1p-10, 1 - 0x1p-11, -1 + 0x1p-11, -0x1p-24, infinity, 3}));
    EXPECT_EQ(values_of(ca::nextafter(numbers({1, 1, 0}).to(ca::bf16), numbers({2, 0, 1}).to(ca::bf16))),
              (V{1 + 0x1p-7, 1 - 0x1p-8, 0x1p-133}));
    EXPECT_EQ(values_of(ca::nextafter(numbers({1}).to(ca::f16), 1e10)), (V{1 + 0x1p-10}));
    EXPECT_TRUE(std::isnan(values_of(ca::nextafter(numbers({nan}).to(ca::f16), numbers({1}).to(ca::f16)))[0]));
}

TEST(ElementwiseSpecial, IntegersWrapAndNeverTrap) {
    const auto least = std::numeric_limits<std::int32_t>::min();
    const Tensor a = ca::tensor(std::vector<std::int32_t>{least, 7, -7, 7, 5}),
                 b = ca::tensor(std::vector<std::int32_t>{-1, 0, 2, -2, 3});
    EXPECT_EQ(ca::floor_divide(a, b).to_vector<std::int32_t>(), (std::vector<std::int32_t>{least, 0, -4, -4, 1}));
    EXPECT_EQ(ca::remainder(a, b).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 0, 1, -1, 2}));
    EXPECT_EQ(ca::fmod(a, b).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 0, -1, 1, 2}));
    EXPECT_EQ(ca::neg(a).to_vector<std::int32_t>()[0], least);
    EXPECT_EQ(ca::abs(a).to_vector<std::int32_t>()[0], least);
    EXPECT_EQ(ca::pow(ca::tensor(std::vector<std::int32_t>{2, -1, 3, 0}),
                      ca::tensor(std::vector<std::int32_t>{-1, -3, 21, -1}))
                  .to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{0, -1, 1870418611, 0}));
    EXPECT_EQ(ca::shift_left(a, ca::tensor(std::vector<std::int32_t>{1, 40, -1, 31, 2})).to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{0, 0, 0, least, 20}));
    EXPECT_EQ(ca::shift_right(a, ca::tensor(std::vector<std::int32_t>{31, 40, 99, 1, 1})).to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{-1, 0, -1, 3, 2}));
}

TEST(ElementwiseSpecial, ClampOfIntegersIsExact) {
    const std::int64_t big = (std::int64_t{1} << 60) + 1;
    const Tensor x = ca::tensor(std::vector<std::int64_t>{big + 5, 0, -big - 5});
    EXPECT_EQ(ca::clamp(x, -big, big).to_vector<std::int64_t>(), (std::vector<std::int64_t>{big, 0, -big}));
    EXPECT_EQ(ca::clamp(x, 0, 9).to_vector<std::int64_t>(), (std::vector<std::int64_t>{9, 0, 0}));
    EXPECT_EQ(ca::clamp(x, {}, 9).to_vector<std::int64_t>(), (std::vector<std::int64_t>{9, 0, -big - 5}));
    EXPECT_EQ(ca::clamp(x, std::nullopt).to_vector<std::int64_t>(), x.to_vector<std::int64_t>());
    EXPECT_EQ(ca::clamp(ca::tensor({5, -5}), -1.5, 2).dtype(), ca::f32);
    EXPECT_EQ(values_of(ca::clamp(ca::tensor({5, -5}), -1.5, 2)), (V{2, -1.5}));
    EXPECT_EQ(values_of(ca::clamp(numbers({0, 5}), 3, 1)), (V{1, 1}));  // low > high: high
    ca::testing::expect_error("value/option", [] { (void)ca::clamp(numbers({1}), nan, 1); });
    ca::testing::expect_error("value/scalar",
                              [] { (void)ca::clamp(ca::tensor(std::vector<std::uint8_t>{1}), -1, 300); });
}

TEST(ElementwiseSpecial, Casts) {
    const Tensor x = numbers({1.9, -1.9, nan, 1e20, -1e20, infinity});
    constexpr auto most = std::numeric_limits<std::int32_t>::max(), least = std::numeric_limits<std::int32_t>::min();
    EXPECT_EQ(x.to(ca::i32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, -1, 0, most, least, most}));
    EXPECT_EQ(x.to(ca::u8).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 0, 0, 255, 0, 255}));
    EXPECT_EQ(values_of(x.to(ca::boolean)), (V{1, 1, 1, 1, 1, 1}));
    EXPECT_EQ(values_of(numbers({0, -0.0, 0.25}).to(ca::boolean)), (V{0, 0, 1}));
    EXPECT_EQ(ca::tensor(std::vector<std::int32_t>{300, -1}).to(ca::u8).to_vector<std::uint8_t>(),
              (std::vector<std::uint8_t>{44, 255}));
    EXPECT_TRUE(x.to(ca::f64).same_as(x));
    // Gradients go through floating casts, each in the dtype of its tensor, and stop at integers.
    const Tensor w = numbers({2, 3}).requires_grad();
    const auto g = ca::backward(ca::sum((w.to(ca::bf16) * w.to(ca::f32)).to(ca::f64)));
    EXPECT_EQ(g[w].dtype(), ca::f64);
    EXPECT_EQ(values_of(g[w]), (V{4, 6}));
    EXPECT_FALSE(w.to(ca::i32).tracked());
    EXPECT_FALSE((w.to(ca::i32).to(ca::f64) * 2.0).tracked());
    ca::testing::expect_error("tensor/undefined", [] { (void)Tensor().to(ca::f32); });
}

TEST(ElementwiseSpecial, LogicOfBool) {
    const Tensor a = ca::tensor(std::vector<std::uint8_t>{0, 0, 1, 1}).to(ca::boolean),
                 b = ca::tensor(std::vector<std::uint8_t>{0, 1, 0, 1}).to(ca::boolean);
    EXPECT_EQ((a + b).dtype(), ca::boolean);
    EXPECT_EQ(values_of(a + b), (V{0, 1, 1, 1}));
    EXPECT_EQ(values_of(a * b), (V{0, 0, 0, 1}));
    EXPECT_EQ(values_of(ca::bitwise_not(a)), (V{1, 1, 0, 0}));
    EXPECT_EQ(values_of(ca::logical_not(numbers({0, nan, 2}))), (V{1, 0, 0}));
    EXPECT_EQ(values_of(ca::where(numbers({0, 0.25, nan}), 1, 2)), (V{2, 1, 1}));
    ca::testing::expect_error("dtype/unsupported", [&] { (void)(a - b); });
    ca::testing::expect_error("dtype/unsupported", [&] { (void)ca::bitwise_and(numbers({1}), numbers({1})); });
    ca::testing::expect_error("dtype/unsupported", [&] { (void)ca::shift_left(a, b); });
}

TEST(ElementwiseSpecial, PReluTakesASlopePerChannel) {
    const Tensor x = ca::full({2, 3, 2}, -1.0), slope = ca::tensor({1.f, 2.f, 3.f});
    EXPECT_EQ(values_of(ca::prelu(x, slope)), (V{-1, -1, -2, -2, -3, -3, -1, -1, -2, -2, -3, -3}));
    EXPECT_EQ(values_of(ca::prelu(numbers({-1, -1, -1}), slope)), (V{-1, -2, -3}));
    EXPECT_EQ(values_of(ca::prelu(numbers({-1, 2}), ca::scalar(0.5, ca::f64))), (V{-0.5, 2}));
    ca::testing::expect_error("shape/broadcast", [&] { (void)ca::prelu(ca::zeros({2, 4}), slope); });
}

TEST(ElementwiseSpecial, GluGatesOneHalfByTheOther) {
    const Tensor x = ca::tensor(std::vector<double>{1, -2, 0, 0, 3, 4, 0, 0}, {2, 4});
    EXPECT_EQ(values_of(ca::glu(x)), (V{0.5, -1, 1.5, 2}));
    EXPECT_EQ(ca::glu(x, 0).shape(), (Shape{1, 4}));
    EXPECT_EQ(ca::glu(ca::zeros({3, 0})).shape(), (Shape{3, 0}));
    ca::testing::expect_gradients([](const Tensor& t) { return ca::glu(t, 1); },
                                  ca::testing::random_tensor({3, 6, 2}, 4));
    ca::testing::expect_error("shape/mismatch", [&] { (void)ca::glu(ca::zeros({2, 3})); });
    ca::testing::expect_error("axis/range", [&] { (void)ca::glu(x, 2); });
    ca::testing::expect_error("tensor/undefined", [] { (void)ca::glu(Tensor()); });
}

TEST(ElementwiseSpecial, OptionsAreChecked) {
    const Tensor x = numbers({1});
    ca::testing::expect_error("value/option", [&] { (void)ca::leaky_relu(x, infinity); });
    ca::testing::expect_error("value/option", [&] { (void)ca::elu(x, nan); });
    ca::testing::expect_error("value/option", [&] { (void)ca::celu(x, 0); });
    ca::testing::expect_error("value/option", [&] { (void)ca::softplus(x, 0); });
    ca::testing::expect_error("value/option", [&] { (void)ca::softplus(x, 1, nan); });
    ca::testing::expect_error("value/option", [&] { (void)ca::hardtanh(x, 2, 1); });
    ca::testing::expect_error("value/option", [&] { (void)ca::softshrink(x, -1); });
    ca::testing::expect_error("value/option", [&] { (void)ca::hardshrink(x, -1); });
    ca::testing::expect_error("value/option", [&] { (void)ca::threshold(x, nan, 1); });
}

}  // namespace
