// Losses: PyTorch's values and gradients, gradients of both orders, ignored targets, wrong arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "calor/calor.h"
#include "gradient_check.h"
#include "reference/torch_loss.h"

namespace calor {
namespace {

using nn::Reduction;
using testing::expect_error;
using testing::expect_gradients;
using testing::random_tensor;

// The inputs of reference/torch_loss.py.
template <class F> Tensor filled(const Shape& shape, const F& rule) {
    std::vector<double> values(static_cast<std::size_t>(numel(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = rule(static_cast<double>(i));
    return tensor(values, shape);
}
Tensor scores(const Shape& shape) {
    return filled(shape, [](double i) { return 2 * std::sin(i + 1); });
}
Tensor other(const Shape& shape) {
    return filled(shape, [](double i) { return std::cos(3 * i); });
}
Tensor classes(const Shape& shape, bool ignoring, DType dtype = i64) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(numel(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = ignoring && i % 3 == 0 ? -100 : static_cast<std::int64_t>((5 * i + 2) % 4);
    }
    return tensor(values, shape).to(dtype);
}
Tensor class_weights() { return tensor<double>({0.5, 0.75, 1, 1.25}); }

const char* name_of(Reduction r) {
    return r == Reduction::mean ? "mean" : r == Reduction::sum ? "sum" : r == Reduction::none ? "none" : "batchmean";
}

template <class F> void expect_loss(const std::string& name, const Shape& shape, const F& f) {
    const torch_values::Loss* expected = nullptr;
    for (const torch_values::Loss& entry : torch_values::losses) {
        if (name == entry.name) expected = &entry;
    }
    ASSERT_NE(expected, nullptr) << name;
    const Tensor x = scores(shape).requires_grad();
    const Tensor loss = sum(f(x));
    const Tensor gradient = backward(loss)[x];
    const Tensor checksum = sum(gradient * filled(shape, [](double i) { return i + 1; }));
    EXPECT_NEAR(loss.item<double>(), expected->loss, 1e-12 * std::max(1.0, std::abs(expected->loss))) << name;
    EXPECT_NEAR(checksum.item<double>(), expected->gradient, 1e-11 * std::max(1.0, std::abs(expected->gradient)))
        << name;
}

struct Case {
    const char* key;
    Shape shape, targets;
};
const std::vector<Case>& class_cases() {
    static const std::vector<Case> cases = {
        {"Single", {4}, {}}, {"Batch", {6, 4}, {6}}, {"Image", {2, 4, 3, 2}, {2, 3, 2}}};
    return cases;
}

TEST(CrossEntropy, IndicesAsPyTorch) {
    for (const Case& c : class_cases()) {
        for (const bool ignoring : {false, true}) {
            if (ignoring && c.shape.rank() == 1) continue;
            for (const bool weighted : {false, true}) {
                for (const double smoothing : {0.0, 0.2}) {
                    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
                        const std::string name = std::string("CrossEntropy") + c.key + (ignoring ? "Ignoring" : "") +
                                                 (weighted ? "Weighted" : "") + (smoothing > 0 ? "Smooth" : "") + "_" +
                                                 name_of(r);
                        expect_loss(name, c.shape, [&](const Tensor& x) {
                            return nn::cross_entropy(x, classes(c.targets, ignoring),
                                                     {.weight = weighted ? class_weights() : Tensor(),
                                                      .label_smoothing = smoothing,
                                                      .reduction = r});
                        });
                        if (smoothing > 0) continue;
                        expect_loss(name, c.shape, [&](const Tensor& x) {
                            return nn::nll(log_softmax(x, c.shape.rank() == 1 ? 0 : 1), classes(c.targets, ignoring),
                                           {.weight = weighted ? class_weights() : Tensor(), .reduction = r});
                        });
                    }
                }
            }
        }
    }
}

TEST(CrossEntropy, ProbabilitiesAsPyTorch) {
    for (const Case& c : class_cases()) {
        for (const bool weighted : {false, true}) {
            for (const Reduction r : {Reduction::mean, Reduction::sum}) {
                const std::string name = std::string("CrossEntropy") + c.key + "Probabilities" +
                                         (weighted ? "Weighted" : "") + "_" + name_of(r);
                expect_loss(name, c.shape, [&](const Tensor& x) {
                    return nn::cross_entropy(
                        x, softmax(other(c.shape), c.shape.rank() == 1 ? 0 : 1),
                        {.weight = weighted ? class_weights() : Tensor(), .label_smoothing = 0.1, .reduction = r});
                });
            }
        }
    }
}

TEST(CrossEntropy, EveryIndexDtype) {
    const Tensor x = scores({6, 4});
    const double expected = nn::cross_entropy(x, classes({6}, false)).item<double>();
    for (const DType d : {i64, i32, i16, i8, u64, u32, u16, u8}) {
        EXPECT_EQ(nn::cross_entropy(x, classes({6}, false, d)).item<double>(), expected) << calor::name_of(d);
    }
}

TEST(CrossEntropy, Gradients) {
    const Tensor targets = classes({2, 3}, true);
    expect_gradients(
        [&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
            return {nn::cross_entropy(x[0], targets, {.weight = x[1], .label_smoothing = 0.1})};
        },
        {random_tensor({2, 4, 3}, 1), random_tensor({4}, 2, 0.5, 1.5)});
    expect_gradients(
        [&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
            return {nn::cross_entropy(x[0], softmax(x[1], 1), {.reduction = Reduction::none})};
        },
        {random_tensor({3, 4}, 3), random_tensor({3, 4}, 4)});
}

TEST(CrossEntropy, LargeLogitsStayFinite) {
    const Tensor x = tensor<float>({{1e4F, -1e4F}, {3e38F, 0}}).requires_grad();
    const Tensor loss = nn::cross_entropy(x, tensor<std::int64_t>({0, 0}));
    const Gradients g = backward(loss, {.retain_graph = true});
    EXPECT_EQ(loss.item<float>(), 0);
    for (const float v : g[x].to_vector<float>()) EXPECT_EQ(v, 0);
    EXPECT_EQ(nn::cross_entropy(x, tensor<std::int64_t>({1, 0}), {.reduction = Reduction::none}).to_vector<float>()[0],
              2e4F);
}

TEST(CrossEntropy, HalvesAreComputedInF32) {
    const Tensor x = scores({6, 4});
    for (const DType d : {f16, bf16}) {
        const Tensor loss = nn::cross_entropy(x.to(d), classes({6}, false));
        EXPECT_EQ(loss.dtype(), f32);
        EXPECT_NEAR(loss.item<float>(), nn::cross_entropy(x.to(d).to(f64), classes({6}, false)).item<double>(), 1e-6);
    }
}

TEST(CrossEntropy, IgnoredAndEmpty) {
    const Tensor x = scores({2, 4}).requires_grad();
    const Tensor ignored = tensor<std::int64_t>({-100, -100});
    EXPECT_TRUE(std::isnan(nn::cross_entropy(x, ignored).item<double>()));
    const Tensor total = nn::cross_entropy(x, ignored, {.reduction = Reduction::sum});
    const Gradients g = backward(total, {.retain_graph = true});
    EXPECT_EQ(total.item<double>(), 0);
    EXPECT_EQ(g[x].to_vector<double>(), std::vector<double>(8, 0));
    EXPECT_NEAR(nn::cross_entropy(x, tensor<std::int64_t>({7, 1}), {.ignore_index = 7}).item<double>(),
                nn::cross_entropy(slice(x, 0, {1, 2}), tensor<std::int64_t>({1})).item<double>(), 1e-14);
    const Tensor none = zeros({0, 4}, f64).requires_grad();
    const Tensor loss = nn::cross_entropy(none, zeros({0}, i64));
    EXPECT_EQ(backward(loss, {.retain_graph = true})[none].shape(), (Shape{0, 4}));
    EXPECT_TRUE(std::isnan(loss.item<double>()));
}

TEST(CrossEntropy, RefusesWrongArguments) {
    const Tensor x = scores({2, 4});
    const Tensor good = tensor<std::int64_t>({0, 1});
    expect_error("index/range", [&] { (void)nn::cross_entropy(x, tensor<std::int64_t>({0, 4})).eval(); });
    expect_error("index/range", [&] { (void)nn::cross_entropy(x, tensor<std::int32_t>({-1, 0})).eval(); });
    expect_error("index/range", [&] {
        (void)nn::nll(x, tensor<std::uint8_t>({0, 200}), {.weight = class_weights()}).eval();
    });
    expect_error("shape/rank", [&] { (void)nn::cross_entropy(scalar(1, f32), good); });
    expect_error("shape/mismatch", [&] { (void)nn::cross_entropy(x, tensor<std::int64_t>({0, 1, 2})); });
    expect_error("shape/mismatch", [&] { (void)nn::cross_entropy(x, zeros({2, 4}, i64)); });
    expect_error("shape/mismatch", [&] { (void)nn::cross_entropy(x, zeros({2, 3})); });
    expect_error("shape/mismatch", [&] { (void)nn::cross_entropy(x, good, {.weight = ones({3})}); });
    expect_error("dtype/unsupported", [&] { (void)nn::cross_entropy(good, good); });
    expect_error("dtype/unsupported", [&] { (void)nn::cross_entropy(x, ones({2}, boolean)); });
    expect_error("dtype/unsupported", [&] { (void)nn::cross_entropy(x, good, {.weight = ones({4}, i32)}); });
    expect_error("dtype/unsupported", [&] { (void)nn::nll(x, x); });
    expect_error("tensor/undefined", [&] { (void)nn::cross_entropy(Tensor(), good); });
    expect_error("tensor/undefined", [&] { (void)nn::cross_entropy(x, Tensor()); });
    for (const double bad : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
        expect_error("value/option", [&] { (void)nn::cross_entropy(x, good, {.label_smoothing = bad}); });
    }
}

TEST(Losses, ElementwiseAsPyTorch) {
    const Shape shape{3, 4};
    const Tensor t = other(shape), part = sigmoid(t * 3), w = class_weights(), p = softmax(t, 1);
    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
        const std::string tail = std::string("_") + name_of(r);
        expect_loss("Mse" + tail, shape, [&](const Tensor& x) { return nn::mse(x, t, {.reduction = r}); });
        expect_loss("L1" + tail, shape, [&](const Tensor& x) { return nn::l1(x, t, {.reduction = r}); });
        expect_loss("SmoothL1" + tail, shape,
                    [&](const Tensor& x) { return nn::smooth_l1(x, t, {.beta = 0.7, .reduction = r}); });
        expect_loss("Huber" + tail, shape,
                    [&](const Tensor& x) { return nn::huber(x, t, {.delta = 0.7, .reduction = r}); });
        expect_loss("Bce" + tail, shape,
                    [&](const Tensor& x) { return nn::bce(sigmoid(x), part, {.weight = w, .reduction = r}); });
        expect_loss("BceWithLogits" + tail, shape, [&](const Tensor& x) {
            return nn::bce_with_logits(x, part, {.weight = w, .pos_weight = w + 1.0, .reduction = r});
        });
        expect_loss("KlDiv" + tail, shape,
                    [&](const Tensor& x) { return nn::kl_div(log_softmax(x, 1), p, {.reduction = r}); });
        expect_loss("KlDivLog" + tail, shape, [&](const Tensor& x) {
            return nn::kl_div(log_softmax(x, 1), log(p), {.log_target = true, .reduction = r});
        });
    }
    expect_loss("KlDiv_batchmean", shape, [&](const Tensor& x) { return nn::kl_div(log_softmax(x, 1), p); });
}

TEST(Losses, Gradients) {
    using Pair = std::vector<Tensor>;
    const Pair inputs = {random_tensor({3, 4}, 1), random_tensor({3, 4}, 2)};
    const Pair chances = {random_tensor({3, 4}, 3, 0.1, 0.9), random_tensor({3, 4}, 4, 0.1, 0.9)};
    expect_gradients([](const Pair& x) -> Pair { return {nn::mse(x[0], x[1])}; }, inputs);
    expect_gradients([](const Pair& x) -> Pair { return {nn::l1(x[0], x[1])}; }, inputs);
    expect_gradients([](const Pair& x) -> Pair { return {nn::smooth_l1(x[0], x[1], {.beta = 0.4})}; }, inputs);
    expect_gradients([](const Pair& x) -> Pair { return {nn::huber(x[0], x[1], {.delta = 0.4})}; }, inputs);
    expect_gradients([](const Pair& x) -> Pair { return {nn::bce(x[0], x[1])}; }, chances);
    expect_gradients([](const Pair& x) -> Pair { return {nn::bce_with_logits(x[0], x[1])}; }, inputs);
    expect_gradients([](const Pair& x) -> Pair { return {nn::kl_div(x[0], x[1])}; }, chances);
    expect_gradients([](const Pair& x) -> Pair { return {nn::kl_div(x[0], x[1], {.log_target = true})}; }, inputs);
}

TEST(Losses, Corners) {
    const Tensor p = tensor<float>({0, 1, 0, 1}).requires_grad();
    const Tensor t = tensor<float>({0, 1, 1, 0});
    const Tensor loss = nn::bce(p, t, {.reduction = Reduction::none});
    const Gradients g = backward(sum(loss), {.retain_graph = true});
    EXPECT_EQ(loss.to_vector<float>(), (std::vector<float>{0, 0, 100, 100}));
    for (const float v : g[p].to_vector<float>()) EXPECT_TRUE(std::isfinite(v));
    EXPECT_TRUE(std::isnan(nn::bce(tensor<float>({-0.5F}), ones({1})).item<float>()));
    const Tensor x = tensor<float>({-1e4F, 1e4F, 0}).requires_grad();
    const Tensor logits = nn::bce_with_logits(x, tensor<float>({1, 0, 0.5F}), {.reduction = Reduction::none});
    const Gradients h = backward(sum(logits), {.retain_graph = true});
    EXPECT_EQ(logits.to_vector<float>(), (std::vector<float>{1e4F, 1e4F, std::log(2.0F)}));
    EXPECT_EQ(h[x].to_vector<float>(), (std::vector<float>{-1, 1, 0}));
    EXPECT_EQ(nn::smooth_l1(tensor<float>({3}), tensor<float>({1}), {.beta = 0}).item<float>(), 2);
    EXPECT_EQ(nn::mse(ones({2, 3}), zeros({2, 3}, i32), {.reduction = Reduction::batch_mean}).item<float>(), 3);
    EXPECT_EQ(nn::kl_div(tensor<float>({-1, -1}), tensor<float>({0, 1})).item<float>(), 0.5F);
    const Tensor none = zeros({0, 3}).requires_grad();
    const Tensor nothing = nn::mse(none, zeros({0, 3}));
    EXPECT_EQ(backward(nothing, {.retain_graph = true})[none].shape(), (Shape{0, 3}));
    EXPECT_TRUE(std::isnan(nothing.item<float>()));
}

TEST(Losses, RefuseWrongArguments) {
    const Tensor a = ones({3}), b = ones({4});
    expect_error("shape/mismatch", [&] { (void)nn::mse(a, b); });
    expect_error("shape/mismatch", [&] { (void)nn::l1(a, ones({3, 1})); });
    expect_error("shape/mismatch", [&] { (void)nn::smooth_l1(a, b); });
    expect_error("shape/mismatch", [&] { (void)nn::huber(a, b); });
    expect_error("shape/mismatch", [&] { (void)nn::bce(a, b); });
    expect_error("shape/mismatch", [&] { (void)nn::bce(a, a, {.weight = ones({2, 3})}); });
    expect_error("shape/broadcast", [&] { (void)nn::bce(a, a, {.weight = ones({2})}); });
    expect_error("shape/mismatch", [&] { (void)nn::bce_with_logits(a, b); });
    expect_error("shape/mismatch", [&] { (void)nn::bce_with_logits(a, a, {.pos_weight = ones({2, 3})}); });
    expect_error("shape/mismatch", [&] { (void)nn::kl_div(a, b); });
    expect_error("dtype/unsupported", [&] { (void)nn::mse(ones({3}, i32), a); });
    expect_error("tensor/undefined", [&] { (void)nn::mse(a, Tensor()); });
    expect_error("tensor/undefined", [&] { (void)nn::kl_div(Tensor(), a); });
    expect_error("value/option", [&] { (void)nn::smooth_l1(a, a, {.beta = -1}); });
    expect_error("value/option", [&] { (void)nn::huber(a, a, {.delta = 0}); });
    expect_error("value/option", [&] { (void)nn::huber(a, a, {.delta = std::numeric_limits<double>::quiet_NaN()}); });
}

}  // namespace
}  // namespace calor
