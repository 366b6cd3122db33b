// Attention against its formula in loops, masks, queries that may attend to nothing, shared keys, gradients, errors.
#include "calor/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "calor/creation.h"
#include "calor/index.h"
#include "calor/view.h"
#include "gradient_check.h"

namespace ca = calor;
using ca::testing::expect_error;
using ca::testing::expect_gradients;
using ca::testing::random_tensor;

namespace {

/// One query matrix [T, E] by the formula; allowed(t, s) says what may be attended to.
template <class Allowed>
std::vector<double> formula(const ca::Tensor& q, const ca::Tensor& k, const ca::Tensor& v, double scale,
                            Allowed allowed) {
    const auto qs = q.to_vector<double>(), ks = k.to_vector<double>(), vs = v.to_vector<double>();
    const std::int64_t t_count = q.size(0), s_count = k.size(0), e = q.size(1), f = v.size(1);
    std::vector<double> out(static_cast<std::size_t>(t_count * f), 0.0);
    for (std::int64_t t = 0; t < t_count; ++t) {
        double total = 0;
        for (std::int64_t s = 0; s < s_count; ++s) {
            if (!allowed(t, s)) continue;
            double score = 0;
            for (std::int64_t i = 0; i < e; ++i) score += qs[t * e + i] * ks[s * e + i] * scale;
            total += std::exp(score);
            for (std::int64_t i = 0; i < f; ++i) out[t * f + i] += std::exp(score) * vs[s * f + i];
        }
        for (std::int64_t i = 0; i < f && total > 0; ++i) out[t * f + i] /= total;
    }
    return out;
}

void expect_near(const ca::Tensor& got, const std::vector<double>& expected) {
    const auto values = got.to_vector<double>();
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-12) << i;
}

TEST(Attention, FollowsTheFormula) {
    const auto q = random_tensor({3, 4}, 1), k = random_tensor({5, 4}, 2), v = random_tensor({5, 2}, 3);
    expect_near(ca::attention(q, k, v), formula(q, k, v, 0.5, [](auto, auto) { return true; }));
    expect_near(ca::attention(q, k, v, {.causal = true, .scale = 2.0}),
                formula(q, k, v, 2.0, [](auto t, auto s) { return s <= t + 2; }));
    const auto mask = ca::tensor(std::vector<std::uint8_t>{1, 0, 1, 0, 1}).to(ca::boolean);
    expect_near(ca::attention(q, k, v, {.mask = mask}), formula(q, k, v, 0.5, [](auto, auto s) { return s % 2 == 0; }));
    const auto added = ca::where(mask, 0.0, -1e30).to(ca::f64);
    expect_near(ca::attention(q, k, v, {.mask = added}),
                formula(q, k, v, 0.5, [](auto, auto s) { return s % 2 == 0; }));
}

TEST(Attention, QueriesThatMayAttendToNothingGiveZeroAndNoNaN) {
    const auto q = random_tensor({4, 2}, 1), k = random_tensor({2, 2}, 2), v = random_tensor({2, 3}, 3);
    // Causal with fewer keys than queries: the first two queries lie before every key.
    const auto y = ca::attention(q, k, v, {.causal = true});
    expect_near(y, formula(q, k, v, 1 / std::sqrt(2.0), [](auto t, auto s) { return s <= t - 2; }));
    const auto leaf = q.requires_grad();
    const auto gradient = ca::backward(ca::sum(ca::attention(leaf, k, v, {.causal = true})))[leaf];
    for (const double g : gradient.to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
}

TEST(Attention, LeadingAxesBroadcastSoThatQueriesShareKeys) {
    const auto q = random_tensor({2, 3, 4, 2}, 1), k = random_tensor({2, 1, 5, 2}, 2),
               v = random_tensor({2, 1, 5, 3}, 3);
    const auto y = ca::attention(q, k, v);
    ASSERT_EQ(y.shape(), (ca::Shape{2, 3, 4, 3}));
    const auto one = ca::attention(ca::select(ca::select(q, 0, 1), 0, 2), ca::select(ca::select(k, 0, 1), 0, 0),
                                   ca::select(ca::select(v, 0, 1), 0, 0));
    expect_near(ca::select(ca::select(y, 0, 1), 0, 2), one.to_vector<double>());
}

TEST(Attention, HalfPrecisionIsComputedInSingle) {
    const auto q = random_tensor({64, 32}, 1, -1, 1, ca::bf16), k = random_tensor({64, 32}, 2, -1, 1, ca::bf16);
    const auto wide = ca::attention(q.to(ca::f32), k.to(ca::f32), k.to(ca::f32)).to(ca::bf16);
    EXPECT_EQ(ca::attention(q, k, k).to(ca::f32).to_vector<float>(), wide.to(ca::f32).to_vector<float>());
}

TEST(Attention, GradientsAndEmptyTensors) {
    using Tensors = std::vector<ca::Tensor>;
    const Tensors in{random_tensor({2, 3, 4}, 1), random_tensor({2, 5, 4}, 2), random_tensor({2, 5, 2}, 3)};
    expect_gradients([](const Tensors& x) { return Tensors{ca::attention(x[0], x[1], x[2])}; }, in);
    expect_gradients([](const Tensors& x) { return Tensors{ca::attention(x[0], x[1], x[2], {.causal = true})}; }, in);
    EXPECT_EQ(ca::attention(ca::zeros({0, 3, 4}), ca::zeros({0, 5, 4}), ca::zeros({0, 5, 2})).shape(),
              (ca::Shape{0, 3, 2}));
    EXPECT_EQ(ca::attention(ca::zeros({3, 4}), ca::zeros({0, 4}), ca::zeros({0, 2})).to_vector<float>(),
              std::vector<float>(6, 0.F));
}

TEST(Attention, Errors) {
    const auto q = ca::zeros({3, 4});
    expect_error("shape/rank", [&] { (void)ca::attention(ca::zeros({4}), q, q); });
    expect_error("shape/mismatch", [&] { (void)ca::attention(q, ca::zeros({3, 5}), q); });
    expect_error("shape/mismatch", [&] { (void)ca::attention(q, q, ca::zeros({2, 4})); });
    expect_error("dtype/mismatch", [&] { (void)ca::attention(q, q.to(ca::f64), q); });
    expect_error("dtype/unsupported", [&] { (void)ca::attention(q.to(ca::i32), q, q); });
    expect_error("dtype/unsupported", [&] { (void)ca::attention(q, q, q, {.mask = ca::zeros({3, 3}, ca::i32)}); });
    expect_error("shape/broadcast", [&] { (void)ca::attention(q, q, q, {.mask = ca::zeros({2, 2})}); });
    expect_error("value/option", [&] { (void)ca::attention(q, q, q, {.scale = HUGE_VAL}); });
    expect_error("tensor/undefined", [&] { (void)ca::attention(q, {}, q); });
}

}  // namespace
