// Initial values: bounds, moments, orthogonality, seeds, wrong shapes.
#include <gtest/gtest.h>

#include <cmath>

#include "calor/calor.h"
#include "gradient_check.h"
#include "layer_check.h"

namespace calor {
namespace {

using testing::expect_error;
using testing::largest;
namespace init = nn::init;

double deviation(const Tensor& t) { return calor::std(t.to(f64)).item<double>(); }

TEST(Init, Fans) {
    const init::Fans matrix = init::fans({3, 5});
    EXPECT_EQ(matrix.in, 5);
    EXPECT_EQ(matrix.out, 3);
    const init::Fans kernel = init::fans({8, 4, 3, 2, 2, 1});
    EXPECT_EQ(kernel.in, 48);
    EXPECT_EQ(kernel.out, 96);
    expect_error("shape/rank", [] { (void)init::fans({3}); });
    expect_error("shape/negative", [] { (void)init::fans({3, -1}); });
    expect_error("shape/overflow", [] { (void)init::fans({std::int64_t{1} << 40, std::int64_t{1} << 40}); });
}

TEST(Init, Gains) {
    EXPECT_EQ(init::gain(init::Nonlinearity::linear), 1);
    EXPECT_EQ(init::gain(init::Nonlinearity::sigmoid), 1);
    EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::tanh), 5.0 / 3);
    EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::relu), std::sqrt(2.0));
    EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::leaky_relu, std::sqrt(5.0)), std::sqrt(1 / 3.0));
    EXPECT_EQ(init::gain(init::Nonlinearity::selu), 0.75);
}

TEST(Init, SpreadFollowsTheFans) {
    const Shape shape{200, 50, 2, 2};  // 200 in, 800 out
    struct Case {
        const char* name;
        Tensor value;
        double deviation;
        bool bounded;
    };
    const std::vector<Case> cases = {
        {"kaiming uniform", init::kaiming_uniform(shape), std::sqrt(2.0 / 200), true},
        {"kaiming normal", init::kaiming_normal(shape), std::sqrt(2.0 / 200), false},
        {"out, tanh", init::kaiming_uniform(shape, {.nonlinearity = init::Nonlinearity::tanh, .fan = init::Fan::out}),
         5.0 / 3 / std::sqrt(800.0), true},
        {"xavier uniform", init::xavier_uniform(shape, {.gain = 2}), 2 * std::sqrt(2.0 / 1000), true},
        {"xavier normal", init::xavier_normal(shape), std::sqrt(2.0 / 1000), false},
        {"f64", init::kaiming_uniform(shape, {.dtype = f64}), std::sqrt(2.0 / 200), true},
    };
    for (const Case& c : cases) {
        EXPECT_EQ(c.value.shape(), shape) << c.name;
        EXPECT_NEAR(deviation(c.value), c.deviation, 0.03 * c.deviation) << c.name;
        EXPECT_NEAR(mean(c.value.to(f64)).item<double>(), 0, 0.02 * c.deviation) << c.name;
        const double bound = std::sqrt(3.0) * c.deviation;
        if (c.bounded) {
            EXPECT_LE(largest(c.value), bound * (1 + 1e-6)) << c.name;
            EXPECT_GT(largest(c.value), 0.99 * bound) << c.name;
        } else {
            EXPECT_GT(largest(c.value), 3 * c.deviation) << c.name;
        }
    }
    EXPECT_EQ(init::kaiming_uniform(shape, {.dtype = bf16}).dtype(), bf16);
    EXPECT_EQ(init::kaiming_normal({0, 5}).shape(), (Shape{0, 5}));
    EXPECT_EQ(init::xavier_uniform({5, 0, 3}).shape(), (Shape{5, 0, 3}));
    EXPECT_EQ(init::constant({2}, 0.5).to_vector<float>(), std::vector<float>(2, 0.5F));
}

TEST(Init, Orthogonal) {
    for (const Shape& shape : {Shape{5, 5}, Shape{3, 8}, Shape{8, 3}, Shape{4, 2, 3, 3}, Shape{1, 1}}) {
        const Tensor w = init::orthogonal(shape, {.gain = 2, .dtype = f64});
        ASSERT_EQ(w.shape(), shape);
        const std::int64_t rows = shape[0], columns = numel(shape) / rows;
        const std::vector<double> v = w.to_vector<double>();
        const bool wide = rows <= columns;
        const std::int64_t count = std::min(rows, columns), length = std::max(rows, columns);
        const auto at = [&](std::int64_t i, std::int64_t k) {
            return v[static_cast<std::size_t>(wide ? i * columns + k : k * columns + i)];
        };
        for (std::int64_t i = 0; i < count; ++i) {
            for (std::int64_t j = 0; j < count; ++j) {
                double product = 0;
                for (std::int64_t k = 0; k < length; ++k) product += at(i, k) * at(j, k);
                EXPECT_NEAR(product, i == j ? 4 : 0, 1e-12);
            }
        }
    }
    EXPECT_EQ(init::orthogonal({0, 4}).shape(), (Shape{0, 4}));
    expect_error("shape/rank", [] { (void)init::orthogonal({4}); });
}

TEST(Init, SeedsRepeat) {
    manual_seed(7);
    const std::vector<float> first = init::kaiming_uniform({4, 4}).to_vector<float>();
    const std::vector<float> second = init::orthogonal({4, 4}).to_vector<float>();
    manual_seed(7);
    EXPECT_EQ(init::kaiming_uniform({4, 4}).to_vector<float>(), first);
    EXPECT_EQ(init::orthogonal({4, 4}).to_vector<float>(), second);
    EXPECT_NE(init::kaiming_uniform({4, 4}).to_vector<float>(), first);
}

TEST(Init, RefusesWhatHasNoFans) {
    expect_error("shape/rank", [] { (void)init::kaiming_uniform({4}); });
    expect_error("shape/rank", [] { (void)init::kaiming_normal({}); });
    expect_error("shape/rank", [] { (void)init::xavier_uniform({4}); });
    expect_error("shape/rank", [] { (void)init::xavier_normal({4}); });
    expect_error("dtype/unsupported", [] { (void)init::xavier_normal({4, 4}, {.dtype = i32}); });
}

}  // namespace
}  // namespace calor
