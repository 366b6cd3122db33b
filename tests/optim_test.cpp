// Optimizers against PyTorch's values, exact resumption, clipping, schedules.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "calor/calor.h"
#include "gradient_check.h"
#include "reference/torch_optim.h"

namespace calor {
namespace {

using testing::expect_error;

struct Values {
    nn::Parameter p{tensor<double>({0.5, -1, 2})};
    CALOR_FIELDS(p)
};

/// Gradients set by hand.
Gradients gradients_at(const Tensor& of, int t) {
    Gradients g;
    g.set(of, tensor<double>({std::sin(t), std::cos(2 * t) / t, 1 - t / 3.0}).to(of.dtype()));
    return g;
}

template <class Optimizer, class Options>
void expect_values(const Options& options, const double (&expected)[3], const char* name) {
    for (const DType dtype : {f64, f32}) {
        Values net;
        net.p = nn::Parameter{net.p.value().to(dtype)};
        Optimizer optimizer{nn::parameters(net), options};
        for (int t = 1; t <= 5; ++t) optimizer.step(gradients_at(net.p, t));
        const std::vector<double> got = net.p.value().to(f64).template to_vector<double>();
        for (int i = 0; i < 3; ++i) {
            EXPECT_NEAR(got[static_cast<std::size_t>(i)], expected[i], dtype == f64 ? 1e-12 : 1e-5)
                << name << " " << name_of(dtype);
        }
        EXPECT_TRUE(net.p.value().tracked());
        EXPECT_TRUE(net.p.value().evaluated());
    }
}

TEST(Optim, ValuesAreThoseOfPyTorch) {
    namespace v = torch_values;
    using optim::SGDOptions, optim::AdamOptions, optim::AdamWOptions;
    expect_values<optim::SGD>(SGDOptions{.learning_rate = 0.1}, v::SGD, "SGD");
    expect_values<optim::SGD>(SGDOptions{.learning_rate = 0.1, .weight_decay = 0.05}, v::SGDWeightDecay,
                              "weight decay");
    expect_values<optim::SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.9}, v::SGDMomentum, "momentum");
    expect_values<optim::SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05},
                              v::SGDDampening, "dampening");
    expect_values<optim::SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true},
                              v::SGDNesterov, "Nesterov");
    expect_values<optim::Adam>(AdamOptions{.learning_rate = 0.1}, v::Adam, "Adam");
    expect_values<optim::Adam>(
        AdamOptions{.learning_rate = 0.05, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1},
        v::AdamBetas, "Adam's options");
    expect_values<optim::Adam>(AdamOptions{.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.6, .amsgrad = true},
                               v::AdamAmsgrad, "AMSGrad");
    expect_values<optim::AdamW>(AdamWOptions{.learning_rate = 0.1}, v::AdamW, "AdamW");
    expect_values<optim::AdamW>(
        AdamWOptions{.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.6, .weight_decay = 0.3, .amsgrad = true},
        v::AdamWDecay, "AdamW's options");
}

TEST(Optim, HalfPrecisionKeepsItsStateWide) {
    Values net;
    net.p = nn::Parameter{net.p.value().to(bf16)};
    optim::Adam optimizer{nn::parameters(net), {.learning_rate = 0.1}};
    for (int t = 1; t <= 5; ++t) optimizer.step(gradients_at(net.p, t));
    EXPECT_EQ(net.p.dtype(), bf16);
    EXPECT_EQ(find_tensor(optimizer.state(), "p.exp_avg")->dtype(), f32);
    const std::vector<double> got = net.p.value().to(f64).to_vector<double>();
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], torch_values::Adam[i], 0.03);
}

struct Pair {
    nn::Parameter used{ones({2})}, unused{ones({2})}, frozen{ones({2})};
    CALOR_FIELDS(used, unused, frozen)
};

TEST(Optim, StepsOnlyWhatHasAGradient) {
    Pair net;
    net.frozen.set_trainable(false);
    optim::SGD optimizer{nn::parameters(net), {.learning_rate = 0.5, .momentum = 0.9}};
    for (int i = 0; i < 2; ++i) optimizer.step(backward(sum(net.used * net.frozen)));
    EXPECT_EQ(net.used.value().to_vector<float>(), (std::vector<float>{1 - 0.5F - 0.95F, 1 - 0.5F - 0.95F}));
    EXPECT_EQ(net.unused.value().to_vector<float>(), std::vector<float>(2, 1));
    EXPECT_EQ(net.frozen.value().to_vector<float>(), std::vector<float>(2, 1));
    EXPECT_EQ(optimizer.state().size(), 2U) << "step and buffer of `used`";
    optimizer.step(Gradients{});
    EXPECT_EQ(optimizer.state()[0].value.item<std::int64_t>(), 2);
}

TEST(Optim, OutlivesTheNetwork) {
    auto net = std::make_unique<Pair>();
    optim::SGD optimizer{nn::parameters(*net)};
    const Gradients g = backward(sum(net->used * net->unused));
    Pair moved = std::move(*net);
    net.reset();
    optimizer.step(g);
    EXPECT_NEAR(moved.used.value().to_vector<float>()[0], 0.99F, 1e-6);
}

template <class Optimizer, class Options> void expect_exact_resume(const Options& options) {
    Values straight;
    Optimizer one{nn::parameters(straight), options};
    for (int t = 1; t <= 7; ++t) one.step(gradients_at(straight.p, t));
    Values first;
    Optimizer two{nn::parameters(first), options};
    for (int t = 1; t <= 3; ++t) two.step(gradients_at(first.p, t));
    const NamedTensors state = two.state();
    Values resumed = first;
    Optimizer three{nn::parameters(resumed), options};
    three.load_state(state);
    for (int t = 4; t <= 7; ++t) three.step(gradients_at(resumed.p, t));
    EXPECT_EQ(resumed.p.value().to_vector<double>(), straight.p.value().to_vector<double>());
}

TEST(Optim, ResumesExactly) {
    expect_exact_resume<optim::SGD>(optim::SGDOptions{});
    expect_exact_resume<optim::SGD>(optim::SGDOptions{.momentum = 0.9, .nesterov = true});
    expect_exact_resume<optim::Adam>(optim::AdamOptions{.amsgrad = true});
    expect_exact_resume<optim::AdamW>(optim::AdamWOptions{});
}

TEST(Optim, RefusesStatesThatDoNotFit) {
    Values net;
    optim::Adam adam{nn::parameters(net)};
    adam.step(gradients_at(net.p, 1));
    const NamedTensors state = adam.state();
    ASSERT_EQ(state.size(), 3U);
    optim::SGD sgd{nn::parameters(net), {.momentum = 0.9}};
    expect_error("optim/state", [&] { sgd.load_state(state); });
    NamedTensors bad = state;
    bad.push_back({"q.step", scalar(1, i64)});
    expect_error("optim/state", [&] { adam.load_state(bad); });
    bad = state;
    bad.push_back(state[0]);
    expect_error("optim/state", [&] { adam.load_state(bad); });
    bad = state;
    bad[1].value = ones({4}, f64);
    expect_error("optim/state", [&] { adam.load_state(bad); });
    bad[1].value = Tensor();
    expect_error("optim/state", [&] { adam.load_state(bad); });
    bad = state;
    bad[0].value = scalar(0, i64);
    expect_error("optim/state", [&] { adam.load_state(bad); });
    bad = state;
    bad.pop_back();
    expect_error("optim/state", [&] { adam.load_state(bad); });
    adam.load_state({});
    EXPECT_TRUE(adam.state().empty());
}

TEST(Optim, RefusesWrongListsAndOptions) {
    Values net;
    const nn::State list = nn::parameters(net);
    expect_error("optim/parameters", [&] { optim::SGD{{}}; });
    expect_error("optim/parameters", [&] { optim::SGD{{list[0], list[0]}}; });
    expect_error("optim/parameters", [&] { optim::SGD{{list[0], {"p", nn::parameters(Values{})[0].cell}}}; });
    const nn::Buffer buffer{ones({1})};
    expect_error("optim/parameters", [&] { optim::SGD{{{"b", buffer.cell()}}}; });
    const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    for (const double bad : {-1.0, nan, inf}) {
        expect_error("value/option", [&] { optim::SGD{list, {.learning_rate = bad}}; });
        expect_error("value/option", [&] { optim::SGD{list, {.momentum = bad}}; });
        expect_error("value/option", [&] { optim::SGD{list, {.weight_decay = bad}}; });
        expect_error("value/option", [&] { optim::Adam{list, {.beta1 = bad}}; });
        expect_error("value/option", [&] { optim::Adam{list, {.beta2 = bad}}; });
        expect_error("value/option", [&] { optim::AdamW{list, {.epsilon = bad}}; });
        expect_error("value/option", [&] { optim::AdamW{list, {.weight_decay = bad}}; });
    }
    expect_error("value/option", [&] { optim::SGD{list, {.dampening = nan}}; });
    expect_error("value/option", [&] { optim::SGD{list, {.nesterov = true}}; });
    expect_error("value/option", [&] { optim::SGD{list, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}}; });
    expect_error("value/option", [&] { optim::Adam{list, {.beta1 = 1}}; });
    optim::SGD sgd{list};
    expect_error("value/option", [&] { sgd.set_learning_rate(-1); });
    sgd.set_learning_rate(0);
    EXPECT_EQ(sgd.learning_rate(), 0);
    Gradients wrong;
    wrong.set(net.p, ones({4}, f64));
    expect_error("shape/mismatch", [&] { sgd.step(wrong); });
}

TEST(Optim, ClippingByNorm) {
    Pair net;
    Gradients g;
    g.set(net.used, tensor<float>({3, 0}));
    g.set(net.unused, tensor<float>({0, 4}));
    EXPECT_NEAR(optim::clip_grad_norm(g, 10).item<float>(), 5, 1e-6);
    EXPECT_EQ(g[net.used].to_vector<float>()[0], 3);
    EXPECT_NEAR(optim::clip_grad_norm(g, 1).item<float>(), 5, 1e-6);
    EXPECT_NEAR(g[net.used].to_vector<float>()[0], 0.6F, 1e-6);
    EXPECT_NEAR(g[net.unused].to_vector<float>()[1], 0.8F, 1e-6);
    Gradients none;
    EXPECT_EQ(optim::clip_grad_norm(none, 1).item<float>(), 0);
    expect_error("value/option", [&] { optim::clip_grad_norm(g, 0); });
    expect_error("value/option", [&] { optim::clip_grad_norm(g, std::numeric_limits<double>::quiet_NaN()); });
}

TEST(Optim, ClippingKeepsDtypes) {
    Gradients g;
    const Tensor a = ones({2}, bf16).requires_grad(), b = ones({2}, f64).requires_grad();
    g.set(a, ones({2}, bf16) * 300);
    g.set(b, ones({2}, f64) * 400);
    const Tensor norm = optim::clip_grad_norm(g, 5);
    EXPECT_EQ(norm.dtype(), f64);
    EXPECT_NEAR(norm.item<double>(), std::sqrt(2 * 300.0 * 300 + 2 * 400.0 * 400), 1e-9);
    EXPECT_EQ(g[a].dtype(), bf16);
    EXPECT_NEAR(g[b].to_vector<double>()[0], 400 * 5 / norm.item<double>(), 1e-6);
}

TEST(Optim, ClippingByValue) {
    Pair net;
    Gradients g;
    g.set(net.used, tensor<float>({3, -4}));
    optim::clip_grad_value(g, 3.5);
    EXPECT_EQ(g[net.used].to_vector<float>(), (std::vector<float>{3, -3.5F}));
    expect_error("value/option", [&] { optim::clip_grad_value(g, -1); });
}

TEST(Optim, Schedules) {
    EXPECT_EQ(optim::ConstantSchedule{0.5}(7), 0.5);
    const optim::StepSchedule steps{.rate = 1, .every = 10, .factor = 0.5};
    EXPECT_EQ(steps(9), 1);
    EXPECT_EQ(steps(10), 0.5);
    EXPECT_EQ(steps(35), 0.125);
    const optim::CosineSchedule cosine{.rate = 1, .steps = 110, .warmup = 10, .last = 0.2};
    EXPECT_DOUBLE_EQ(cosine(0), 0.1);
    EXPECT_DOUBLE_EQ(cosine(9), 1);
    EXPECT_DOUBLE_EQ(cosine(10), 1);
    EXPECT_DOUBLE_EQ(cosine(60), 0.6);
    EXPECT_DOUBLE_EQ(cosine(110), 0.2);
    EXPECT_DOUBLE_EQ(cosine(1000), 0.2);
    const optim::LinearSchedule linear{.rate = 1, .warmup = 4, .steps = 14};
    EXPECT_DOUBLE_EQ(linear(1), 0.5);
    EXPECT_DOUBLE_EQ(linear(9), 0.5);
    EXPECT_DOUBLE_EQ(linear(14), 0);
    EXPECT_DOUBLE_EQ((optim::LinearSchedule{.rate = 1, .warmup = 4})(100), 1);
}

TEST(Optim, EmptyParametersStep) {
    struct Empty {
        nn::Parameter p{zeros({0, 3})};
        CALOR_FIELDS(p)
    } net;
    optim::AdamW optimizer{nn::parameters(net)};
    optimizer.step(backward(sum(net.p * 2)));
    EXPECT_EQ(net.p.shape(), (Shape{0, 3}));
}

}  // namespace
}  // namespace calor
