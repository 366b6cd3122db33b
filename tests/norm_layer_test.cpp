// Normalisation layers: statistics, running statistics, modes, options.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "calor/calor.h"
#include "gradient_check.h"
#include "layer_check.h"

namespace calor {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::largest;
using testing::random_tensor;
using testing::state_names;

TEST(BatchNorm, NormalisesAndFollows) {
    nn::BatchNorm layer{{.channels = 3}};
    EXPECT_EQ(state_names(layer),
              (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
    const Tensor x = random_tensor({4, 3, 5}, 1, 0, 4).to(f32);
    const Tensor y = layer(x);
    EXPECT_LE(largest(mean(y, {0, 2})), 1e-5);
    expect_equal(var(y, {0, 2}, false, 0), ones({3}), 1e-4);
    expect_equal(layer.running_mean, mean(x, {0, 2}) * 0.1, 1e-6);
    expect_equal(layer.running_var, var(x, {0, 2}) * 0.1 + 0.9, 1e-6);
    EXPECT_EQ(layer.num_batches_tracked.value().item<std::int64_t>(), 1);
    nn::eval(layer);
    const Tensor shape = reshape(layer.running_mean.value(), {3, 1});
    expect_equal(layer(x), (x - shape) / sqrt(reshape(layer.running_var.value(), {3, 1}) + 1e-5), 1e-5);
    EXPECT_EQ(layer.num_batches_tracked.value().item<std::int64_t>(), 1) << "evaluation does not follow";
    nn::train(layer);
    (void)layer(zeros({0, 3, 5})).eval();
    EXPECT_EQ(layer.num_batches_tracked.value().item<std::int64_t>(), 1) << "an empty batch does not count";
    EXPECT_FALSE(layer.running_mean.value().tracked());
}

TEST(BatchNorm, CumulativeAndUntracked) {
    const nn::BatchNorm layer{{.channels = 2, .momentum = std::nullopt, .affine = false}};
    EXPECT_FALSE(layer.weight.defined());
    Tensor total = zeros({2});
    for (std::uint32_t i = 0; i < 3; ++i) {
        const Tensor x = random_tensor({5, 2}, i).to(f32);
        (void)layer(x);
        total = total + mean(x, {0});
    }
    expect_equal(layer.running_mean, total / 3.0, 1e-6);
    nn::BatchNorm without{{.channels = 2, .track_statistics = false}};
    nn::eval(without);
    EXPECT_LE(largest(mean(without(random_tensor({5, 2}, 9).to(f32)), {0})), 1e-6);
    EXPECT_TRUE(nn::buffers(without).empty());
}

TEST(BatchNorm, RefusesWrongArguments) {
    expect_error("value/option", [] { nn::BatchNorm{{.channels = 0}}; });
    expect_error("value/option", [] { nn::BatchNorm{{.channels = 1, .epsilon = -1}}; });
    expect_error("value/option", [] { nn::BatchNorm{{.channels = 1, .momentum = 1.5}}; });
    const nn::BatchNorm layer{{.channels = 2}};
    expect_error("shape/mismatch", [&] { (void)layer(ones({4, 3})); });
    expect_error("shape/rank", [&] { (void)layer(ones({2})); });
    expect_error("value/option", [&] { (void)layer(ones({1, 2})); });
    expect_error("tensor/undefined", [&] { (void)layer(Tensor()); });
}

TEST(Norms, LayerAndGroup) {
    const nn::LayerNorm layer{{.shape = {3, 4}}};
    const Tensor x = random_tensor({2, 5, 3, 4}, 1, 0, 3).to(f32);
    EXPECT_LE(largest(mean(layer(x), {-2, -1})), 1e-5);
    expect_equal(var(layer(x), {-2, -1}, false, 0), ones({2, 5}), 1e-3);
    EXPECT_EQ(state_names(layer), (std::vector<std::string>{"weight", "bias"}));
    EXPECT_EQ(state_names(nn::LayerNorm{{.shape = {3}, .bias = false}}), (std::vector<std::string>{"weight"}));
    EXPECT_TRUE(state_names(nn::LayerNorm{{.shape = {3}, .affine = false}}).empty());
    expect_error("value/option", [] { nn::LayerNorm{{}}; });
    expect_error("value/option", [] { nn::LayerNorm{{.shape = {0}}}; });
    expect_error("value/option", [] { nn::LayerNorm{{.shape = {3}, .epsilon = std::nan("")}}; });
    expect_error("shape/mismatch", [&] { (void)layer(ones({4})); });
    expect_error("shape/mismatch", [&] { (void)layer(ones({3, 5})); });
    expect_error("tensor/undefined", [&] { (void)layer(Tensor()); });
    const nn::GroupNorm group{{.groups = 2, .channels = 4}};
    const Tensor z = random_tensor({2, 4, 3}, 2, 0, 3).to(f32);
    EXPECT_LE(largest(mean(reshape(group(z), {2, 2, 6}), {2})), 1e-5);
    expect_error("value/option", [] { nn::GroupNorm{{.groups = 3, .channels = 4}}; });
    expect_error("value/option", [] { nn::GroupNorm{{.groups = 0, .channels = 4}}; });
    expect_error("value/option", [] { nn::GroupNorm{{.groups = 1, .channels = 0}}; });
    expect_error("shape/mismatch", [&] { (void)group(ones({2, 6, 3})); });
}

}  // namespace
}  // namespace calor
