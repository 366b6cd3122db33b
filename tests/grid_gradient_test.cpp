// Gradients of sampling, of first and second order, over ranks and options; the adjoint identity over many seeds.
#include <gtest/gtest.h>

#include "calor/grid.h"
#include "gradient_check.h"
#include "grid_cases.h"
#include "sanitized.h"

namespace ca = calor;
using ca::Tensor;
using ca::testing::expect_gradients;
using ca::testing::random_tensor;

namespace {

TEST(GridGradients, OfInputAndGridToSecondOrder) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(24U); ++seed) {
        const auto p = ca::testing::grid_problem(1 + seed % 3, seed + 500);
        expect_gradients(
            [&](const std::vector<Tensor>& t) { return std::vector{ca::grid_sample(t[0], t[1], p.options)}; },
            {random_tensor(p.x, seed), ca::testing::smooth_grid(p, seed)}, {.step = 1e-6, .tolerance = 1e-5});
    }
}

TEST(GridGradients, OfHighRanks) {
    for (std::uint32_t seed = 0; seed < 6; ++seed) {
        auto p = ca::testing::grid_problem(4 + seed % 3, seed + 900);
        p.x[1] = std::min<std::int64_t>(p.x[1], 3);
        expect_gradients(
            [&](const std::vector<Tensor>& t) { return std::vector{ca::grid_sample(t[0], t[1], p.options)}; },
            {random_tensor(p.x, seed), ca::testing::smooth_grid(p, seed)}, {.step = 1e-6, .tolerance = 1e-5});
    }
}

/// The third derivative of a cubic is not zero; of a linear map of several axes the mixed ones are not.
TEST(GridGradients, OfThirdOrder) {
    const Tensor x = random_tensor({1, 1, 6, 5}, 1), g = ca::tensor({{{{0.13, -0.21}, {0.47, 0.36}}}});
    for (const auto mode : {ca::GridMode::linear, ca::GridMode::cubic}) {
        const auto f = [&](const Tensor& t) {
            return ca::sum(ca::grid_sample(x, t, {.mode = mode}) * ca::grid_sample(x, t, {.mode = mode}));
        };
        const auto second = ca::grad([&](const Tensor& t) { return ca::sum(ca::grad(f)(t) * ca::cos(t)); });
        ca::testing::expect_gradients(second, g, {.step = 1e-6, .tolerance = 1e-5, .second_order = false});
    }
}

/// <sample(x), h> = <x, spread(h)>: exact up to rounding.
TEST(GridGradients, AdjointIdentity) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(400U); ++seed) {
        const auto p = ca::testing::grid_problem(1 + seed % 6, seed + 5000);
        const Tensor x = random_tensor(p.x, seed).requires_grad();
        const Tensor g = random_tensor(p.grid, seed + 1, -1.7, 1.7);
        const Tensor y = ca::grid_sample(x, g, p.options);
        const Tensor h = random_tensor(y.shape(), seed + 2);
        const double left = ca::sum(y * h).item<double>();
        const double right = ca::sum(ca::gradients({y}, {x}, {h})[0] * x).item<double>();
        ASSERT_NEAR(left, right, 1e-11 * std::max(1.0, std::abs(left))) << seed;
    }
}

TEST(GridGradients, NearestHasNoneForTheGrid) {
    const Tensor x = random_tensor({1, 2, 4, 4}, 1).requires_grad(), g = random_tensor({1, 3, 3, 2}, 2).requires_grad();
    const auto grads = ca::gradients({ca::sum(ca::grid_sample(x, g, {.mode = ca::GridMode::nearest}))}, {x, g});
    EXPECT_EQ(ca::sum(grads[0]).item<double>() > 0, true);
    EXPECT_EQ(ca::sum(ca::abs(grads[1])).item<double>(), 0);
}

TEST(AffineGridGradients, OfTheta) {
    for (const bool align : {false, true}) {
        expect_gradients(
            [&](const Tensor& t) {
                return ca::affine_grid(t, {3, 2, 4}, align);
            },
            random_tensor({2, 3, 4}, 1));
        // A warp from end to end.
        const Tensor x = random_tensor({2, 2, 5, 5}, 3);
        expect_gradients(
            [&](const Tensor& t) {
                return ca::grid_sample(x, ca::affine_grid(t, {3, 3}, align),
                                       {.mode = ca::GridMode::cubic, .align_corners = align});
            },
            random_tensor({2, 2, 3}, 7, -0.6, 0.6), {.step = 1e-6, .tolerance = 1e-5});
    }
}

}  // namespace
