// The checks themselves: they pass for right rules and fail for wrong ones.
#include "gradient_check.h"

#include <gtest/gtest-spi.h>

#include "calor/calor.h"

namespace ca = calor;

namespace {

TEST(GradientCheck, AcceptsRightRules) {
    ca::testing::expect_gradients(
        [](const std::vector<ca::Tensor>& x) {
            return std::vector<ca::Tensor>{ca::exp(x[0]) * x[1], x[1] / x[0]};
        },
        {ca::testing::random_tensor({3, 4}, 1, 1, 2), ca::testing::random_tensor({4}, 2)});
}

void check_a_wrong_rule() {
    ca::testing::expect_gradients(
        [](const std::vector<ca::Tensor>& x) {
            return ca::custom(
                x, [](const auto& in) { return std::vector<ca::Tensor>{in[0] * in[0]}; },
                [](const ca::CustomContext& c) { return std::vector<ca::Tensor>{c.cotangents[0] * c.inputs[0]}; });
        },
        {ca::testing::random_tensor({5}, 3, 1, 2)}, {.second_order = false});
}

TEST(GradientCheck, RefusesWrongRules) { EXPECT_NONFATAL_FAILURE(check_a_wrong_rule(), "central differences"); }

}  // namespace
