// Layers: values, shapes, state, modes, options.
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

TEST(Linear, ComputesAndStartsAsItSays) {
    const nn::Linear layer{{.in = 25, .out = 40}};
    EXPECT_EQ(layer.weight.shape(), (Shape{40, 25}));
    EXPECT_EQ(layer.bias.shape(), Shape{40});
    EXPECT_LE(largest(layer.weight), 0.2);
    EXPECT_GT(largest(layer.weight), 0.19);
    EXPECT_LE(largest(layer.bias), 0.2);
    const Tensor x = random_tensor({2, 3, 25}, 1).to(f32);
    expect_equal(layer(x), sum(unsqueeze(x, -2) * layer.weight, {-1}) + layer.bias, 1e-5);
    const nn::Linear plain{{.in = 2, .out = 3, .bias = false, .dtype = f64}};
    EXPECT_FALSE(plain.bias.defined());
    EXPECT_EQ(state_names(plain), std::vector<std::string>{"weight"});
    EXPECT_EQ(plain(ones({2}, f64)).shape(), Shape{3});
    const Tensor none = zeros({0, 25}).requires_grad();
    const Gradients g = backward(sum(layer(none)));
    EXPECT_EQ(g[none].shape(), (Shape{0, 25}));
    EXPECT_EQ(largest(g[layer.weight]), 0);
}

TEST(Linear, RefusesWrongOptions) {
    expect_error("value/option", [] { nn::Linear{{.in = 0, .out = 3}}; });
    expect_error("value/option", [] { nn::Linear{{.in = 3, .out = -1}}; });
    expect_error("matmul/inner", [] { (void)nn::Linear{{.in = 3, .out = 1}}(ones({2, 4})); });
}

TEST(Layers, StartFromTheGlobalSeed) {
    const auto values = [] {
        manual_seed(3);
        return nn::Conv{{.in = 2, .out = 3, .kernel = {3, 3}}}.weight.value().to_vector<float>();
    };
    EXPECT_EQ(values(), values());
}

TEST(Embedding, LooksUpRows) {
    const nn::Embedding layer{{.count = 5, .width = 3, .padding = -1}};
    const Tensor indices = tensor<std::int32_t>({0, 4, 2, 2});
    const Tensor rows = layer(indices);
    EXPECT_EQ(rows.shape(), (Shape{4, 3}));
    EXPECT_EQ(slice(rows, 0, {1, 2}).to_vector<float>(), std::vector<float>(3, 0));
    const std::vector<float> g = backward(sum(rows))[layer.weight].to_vector<float>();
    EXPECT_EQ(g, (std::vector<float>{1, 1, 1, 0, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0, 0}));
    expect_error("index/range", [&] { (void)layer(tensor<std::int64_t>({5})).eval(); });
    expect_error("value/option", [] { nn::Embedding{{.count = 0, .width = 3}}; });
    expect_error("value/option", [] { nn::Embedding{{.count = 3, .width = 0}}; });
    expect_error("value/option", [] { nn::Embedding{{.count = 3, .width = 1, .padding = 3}}; });
    expect_error("value/option", [] { nn::Embedding{{.count = 3, .width = 1, .padding = -4}}; });
}

TEST(Conv, AnyNumberOfAxes) {
    const nn::Conv flat{{.in = 4, .out = 6, .kernel = {3, 3}, .padding = same, .groups = 2}};
    EXPECT_EQ(flat.weight.shape(), (Shape{6, 2, 3, 3}));
    EXPECT_LE(largest(flat.weight), 1 / std::sqrt(18.0));
    EXPECT_GT(largest(flat.weight), 0.9 / std::sqrt(18.0));
    const Tensor x = random_tensor({2, 4, 5, 6}, 2).to(f32);
    EXPECT_EQ(flat(x).shape(), (Shape{2, 6, 5, 6}));
    expect_equal(flat(x), conv(x, flat.weight, flat.bias, {.padding = same, .groups = 2}));
    const nn::Conv deep{
        {.in = 1, .out = 2, .kernel = {2, 2, 2, 2}, .stride = 2, .padding = 1, .dilation = 1, .bias = false}};
    EXPECT_EQ(deep(ones({1, 1, 4, 4, 4, 4})).shape(), (Shape{1, 2, 3, 3, 3, 3}));
    const nn::Conv cube{{.in = 1, .out = 1, .kernel = 3, .axes = 3}};
    EXPECT_EQ(cube.weight.shape(), (Shape{1, 1, 3, 3, 3}));
}

TEST(Conv, RefusesWrongOptions) {
    expect_error("value/option", [] { nn::Conv{{.in = 0, .out = 1, .kernel = {3}}}; });
    expect_error("value/option", [] { nn::Conv{{.in = 1, .out = 0, .kernel = {3}}}; });
    expect_error("value/option", [] { nn::Conv{{.in = 3, .out = 2, .kernel = {3}, .groups = 2}}; });
    expect_error("value/option", [] { nn::Conv{{.in = 2, .out = 3, .kernel = {3}, .groups = 2}}; });
    expect_error("value/option", [] { nn::Conv{{.in = 2, .out = 2, .kernel = {3}, .groups = 0}}; });
    expect_error("value/option", [] { nn::Conv{{.in = 1, .out = 1, .kernel = {3, 0}}}; });
    expect_error("value/option", [] { nn::Conv{{.in = 1, .out = 1, .kernel = {3}, .stride = 0}}; });
    expect_error("value/option", [] { nn::Conv{{.in = 1, .out = 1, .kernel = {3}, .dilation = -1}}; });
    expect_error("value/option", [] { nn::Conv{{.in = 1, .out = 1, .kernel = {3}, .axes = -1}}; });
    expect_error("value/count", [] { nn::Conv{{.in = 1, .out = 1}}; });
    expect_error("value/count", [] { nn::Conv{{.in = 1, .out = 1, .kernel = 3}}; });
    expect_error("value/count", [] { nn::Conv{{.in = 1, .out = 1, .kernel = {3, 3}, .axes = 3}}; });
    expect_error("value/count", [] { nn::Conv{{.in = 1, .out = 1, .kernel = {3, 3}, .stride = {1, 1, 1}}}; });
    const std::int64_t huge = std::int64_t{1} << 40;
    expect_error("shape/overflow", [&] { nn::Conv{{.in = 1, .out = 1, .kernel = {huge, huge}}}; });
    expect_error("conv/channels", [] { (void)nn::Conv{{.in = 3, .out = 1, .kernel = {3}}}(ones({1, 2, 5})); });
}

TEST(ConvTranspose, AnyNumberOfAxes) {
    const nn::ConvTranspose layer{{.in = 4, .out = 6, .kernel = {4, 4}, .stride = 2, .padding = 1, .groups = 2}};
    EXPECT_EQ(layer.weight.shape(), (Shape{4, 3, 4, 4}));
    EXPECT_LE(largest(layer.weight), 1 / std::sqrt(48.0));
    EXPECT_EQ(layer(ones({1, 4, 5, 7})).shape(), (Shape{1, 6, 10, 14}));
    const nn::ConvTranspose more{{.in = 1, .out = 1, .kernel = {3}, .stride = 2, .output_padding = 1, .bias = false}};
    EXPECT_EQ(more(ones({1, 1, 4})).shape(), (Shape{1, 1, 10}));
    expect_error("value/option", [] { nn::ConvTranspose{{.in = 3, .out = 2, .kernel = {3}, .groups = 2}}; });
    expect_error("value/count", [] { nn::ConvTranspose{{.in = 1, .out = 1, .kernel = 3}}; });
}

TEST(Pool, IsTheFunction) {
    const Tensor x = random_tensor({2, 3, 6, 4}, 1);
    expect_equal(nn::MaxPool{{.kernel = {2, 2}}}(x), max_pool(x, {.kernel = {2, 2}}));
    EXPECT_EQ(nn::MaxPool{{.kernel = 2}}(x).shape(), (Shape{2, 3, 3, 2}));
    expect_equal(nn::AvgPool{{.kernel = {3, 2}, .stride = 1}}(x), avg_pool(x, {.kernel = {3, 2}, .stride = 1}));
    expect_error("value/count", [] { nn::MaxPool{{}}; });
    expect_error("value/option", [] { nn::MaxPool{{.kernel = {2, 0}}}; });
    expect_error("value/option", [] { nn::MaxPool{{.kernel = 2, .stride = 0}}; });
    expect_error("value/option", [] { nn::MaxPool{{.kernel = 2, .dilation = {1, -1}}}; });
    expect_error("value/count", [] { nn::AvgPool{{}}; });
    expect_error("value/option", [] { nn::AvgPool{{.kernel = -1}}; });
    expect_error("value/count", [&] { (void)nn::MaxPool{{.kernel = {2, 2, 2}}}(x); });
    expect_equal(nn::AdaptiveMaxPool{{.size = {3, keep}}}(x), adaptive_max_pool(x, {.size = {3, keep}}));
    expect_equal(nn::LpPool{{.p = 3, .kernel = 2}}(x), lp_pool(x, {.p = 3, .kernel = 2}));
    expect_error("value/count", [] { nn::AdaptiveMaxPool{{}}; });
    expect_error("value/option", [] { nn::AdaptiveMaxPool{{.size = {2, 0}}}; });
    expect_error("value/count", [] { nn::LpPool{{}}; });
    expect_error("value/option", [] { nn::LpPool{{.kernel = 0}}; });
    const Tensor channels = random_tensor({1, 6, 2, 3}, 1);
    expect_equal(nn::PixelUnshuffle{{.factors = {2, 3}}}(nn::PixelShuffle{{.factors = {2, 3}}}(channels)), channels);
    EXPECT_EQ((nn::PixelShuffle{{.factors = {2, 3}}}(channels).shape()), (Shape{1, 1, 4, 9}));
    expect_error("value/option", [] { nn::PixelShuffle{{.factors = 0}}; });
    expect_error("value/option", [] { nn::PixelUnshuffle{{.factors = -1}}; });
    expect_error("value/count", [] { nn::PixelShuffle{{}}; });
}

TEST(Dropout, DropsAndScales) {
    nn::Dropout layer{{.p = 0.25}};
    const Tensor x = ones({100, 100}).requires_grad();
    manual_seed(1);
    const Tensor y = layer(x);
    const Gradients g = backward(sum(y), {.retain_graph = true});
    expect_equal(g[x], y);
    const std::vector<float> values = y.to_vector<float>();
    std::int64_t dropped = 0;
    for (const float v : values) {
        EXPECT_TRUE(v == 0 || v == 1 / 0.75F) << v;
        if (v == 0) ++dropped;
    }
    EXPECT_NEAR(static_cast<double>(dropped), 2500, 200);
    EXPECT_NE(layer(x).to_vector<float>(), values);
    manual_seed(1);
    EXPECT_EQ(layer(x).to_vector<float>(), values);
    nn::eval(layer);
    EXPECT_TRUE(layer(x).same_as(x));
    EXPECT_EQ(largest(nn::dropout(x, {.p = 1})), 0);
    EXPECT_TRUE(nn::dropout(x, {.p = 0}).same_as(x));
    EXPECT_EQ(nn::dropout(zeros({0, 3})).shape(), (Shape{0, 3}));
}

TEST(Dropout, WholeChannels) {
    const std::vector<float> y = nn::dropout(ones({8, 16, 3, 2}), {.channels = true}).to_vector<float>();
    std::int64_t dropped = 0;
    for (std::size_t c = 0; c < 128; ++c) {
        for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(y[c * 6 + i], y[c * 6]);
        if (y[c * 6] == 0) ++dropped;
    }
    EXPECT_GT(dropped, 32);
    EXPECT_LT(dropped, 96);
}

TEST(Dropout, RefusesWrongArguments) {
    for (const double bad : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
        expect_error("value/option", [&] { nn::Dropout{{.p = bad}}; });
        expect_error("value/option", [&] { (void)nn::dropout(ones({2}), {.p = bad}); });
    }
    expect_error("shape/rank", [] { (void)nn::dropout(ones({2}), {.channels = true}); });
    expect_error("dtype/unsupported", [] { (void)nn::dropout(ones({2}, i32)); });
    expect_error("tensor/undefined", [] { (void)nn::dropout(Tensor()); });
}

TEST(Sequential, NamesCallsCopies) {
    nn::Sequential net{nn::Linear{{.in = 3, .out = 4}}, nn::Relu{}, [](const Tensor& x) { return x * 2; },
                       nn::Sequential{nn::Dropout{}, nn::Linear{{.in = 4, .out = 2, .bias = false}}}, nn::Identity{}};
    EXPECT_EQ(net.size(), 5U);
    EXPECT_EQ(state_names(net), (std::vector<std::string>{"0.weight", "0.bias", "3.1.weight"}));
    nn::eval(net);
    const Tensor x = ones({5, 3});
    const Tensor y = net(x);
    EXPECT_EQ(y.shape(), (Shape{5, 2}));
    expect_equal(net(x), y);
    const nn::State held = nn::parameters(net);
    const nn::Sequential copy = net;
    for (const nn::NamedCell& n : held) n.cell->set(zeros(n.value().shape()));
    expect_equal(copy(x), y);
    EXPECT_EQ(largest(net(x)), 0);
    net = copy;
    expect_equal(net(x), y);
    EXPECT_EQ(nn::parameters(net)[0].cell, held[0].cell) << "assignment keeps the cells";
    nn::Sequential other{nn::Relu{}};
    other = net;
    expect_equal(other(x), y);
    other = nn::Sequential{};
    EXPECT_TRUE(other(x).same_as(x));
    const nn::Sequential moved = std::move(net);
    EXPECT_EQ(nn::parameters(moved)[0].cell, held[0].cell);
}

TEST(Activations, AreTheFunctions) {
    const Tensor x = random_tensor({2, 3, 4}, 1, -4, 4);
    expect_equal(nn::Relu{}(x), relu(x));
    expect_equal(nn::Gelu{}(x), gelu(x));
    expect_equal(nn::Gelu{calor::Gelu::tanh}(x), gelu(x, calor::Gelu::tanh));
    expect_equal(nn::LeakyRelu{.slope = 0.2}(x), leaky_relu(x, 0.2));
    expect_equal(nn::Elu{}(x), elu(x));
    expect_equal(nn::Silu{}(x), silu(x));
    expect_equal(nn::Tanh{}(x), tanh(x));
    expect_equal(nn::Sigmoid{}(x), sigmoid(x));
    expect_equal(nn::Softmax{.axis = -1}(x), softmax(x, -1));
    expect_equal(nn::LogSoftmax{}(x), log_softmax(x, 1));
    expect_equal(nn::Flatten{}(x), reshape(x, {2, 12}));
}

struct Classifier {
    nn::Conv conv{{.in = 1, .out = 8, .kernel = {3, 3}, .padding = same}};
    nn::Linear head{{.in = 8 * 4 * 4, .out = 4}};
    CALOR_FIELDS(conv, head)

    Tensor operator()(const Tensor& images) const {
        auto features = max_pool(relu(conv(images)), {.kernel = {2, 2}});
        return head(flatten(features, 1));
    }
};

TEST(Training, OverfitsAFewImages) {
    manual_seed(0);
    Classifier net;
    EXPECT_EQ(state_names(net), (std::vector<std::string>{"conv.weight", "conv.bias", "head.weight", "head.bias"}));
    const Tensor images = random_tensor({8, 1, 8, 8}, 1).to(f32),
                 labels = tensor<std::uint8_t>({0, 1, 2, 3, 3, 2, 1, 0});
    optim::AdamW optimizer{nn::parameters(net), {.learning_rate = 1e-2}};
    float first = 0, last = 0;
    for (int i = 0; i < 40; ++i) {
        const Tensor loss = nn::cross_entropy(net(images), labels);
        optimizer.step(backward(loss));
        last = loss.item<float>();
        if (i == 0) first = last;
    }
    EXPECT_NEAR(first, std::log(4.0), 0.5);
    EXPECT_LT(last, 0.05F);
}

struct Xor {
    nn::Linear hidden{{.in = 2, .out = 8}};
    nn::Linear head{{.in = 8, .out = 2}};
    CALOR_FIELDS(hidden, head)
    Tensor operator()(const Tensor& x) const { return head(tanh(hidden(x))); }
};

TEST(Training, LearnsXor) {
    manual_seed(0);
    Xor net;
    optim::AdamW optimizer{nn::parameters(net), {.learning_rate = 0.05}};
    const Tensor x = tensor({{0.F, 0.F}, {0.F, 1.F}, {1.F, 0.F}, {1.F, 1.F}});
    const Tensor labels = tensor<std::int32_t>({0, 1, 1, 0});
    float loss = 0;
    for (int i = 0; i < 200; ++i) {
        const Tensor value = nn::cross_entropy(net(x), labels);
        optimizer.step(backward(value));
        loss = value.item<float>();
    }
    EXPECT_LT(loss, 0.05F);
    EXPECT_EQ(argmax(net(x), {1}).to(i32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 1, 0}));
}

}  // namespace
}  // namespace calor
