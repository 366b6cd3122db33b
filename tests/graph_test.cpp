// The lazy graph: recording, evaluation, fusion, reuse of memory, release; first and higher gradients through it.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "calor/calor.h"
#include "graph/node.h"
#include "sanitized.h"

namespace ca = calor;
using ca::Tensor;

namespace {

Tensor vector_of(std::initializer_list<float> values) { return ca::tensor(values); }

TEST(Graph, RecordsAndEvaluatesOnReading) {
    const Tensor a = vector_of({1, 2, 3}), b = vector_of({10, 20, 30});
    const Tensor c = (a + b) * 2 - 1;
    EXPECT_FALSE(c.evaluated());
    EXPECT_EQ(c.to_vector<float>(), (std::vector<float>{21, 43, 65}));
    EXPECT_TRUE(c.evaluated());
}

TEST(Graph, NumbersRoundOnceToHalves) {
    const double above_tie = 1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);  // f32 would lose the last term
    EXPECT_EQ(static_cast<float>(ca::full({1}, above_tie, ca::f16).item<ca::float16>()), 1 + std::ldexp(1.F, -10));
    EXPECT_EQ(static_cast<float>(ca::full({1}, -above_tie, ca::f16).item<ca::float16>()), -1 - std::ldexp(1.F, -10));
    EXPECT_EQ(static_cast<float>(ca::full({1}, 1e300, ca::bf16).item<ca::bfloat16>()),
              std::numeric_limits<float>::infinity());
}

TEST(Graph, BroadcastsBothWays) {
    const Tensor a = ca::reshape(vector_of({1, 2, 3}), {3, 1}), b = vector_of({10, 20});
    EXPECT_EQ((a + b).shape(), (ca::Shape{3, 2}));
    EXPECT_EQ((a + b).to_vector<float>(), (std::vector<float>{11, 21, 12, 22, 13, 23}));
    EXPECT_THROW((void)(vector_of({1, 2}) + vector_of({1, 2, 3})), ca::ShapeError);
}

TEST(Graph, ReadsPermutedAndExpandedViews) {
    const Tensor m = ca::tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
    const Tensor t = ca::permute(m, {1, 0});
    EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ((t + vector_of({10, 20})).to_vector<float>(), (std::vector<float>{11, 24, 12, 25, 13, 26}));
    EXPECT_EQ(ca::reshape(t, {6}).to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ((ca::expand(vector_of({1, 2}), {3, 2}) * 2).to_vector<float>(), (std::vector<float>{2, 4, 2, 4, 2, 4}));
}

TEST(Graph, StoresHeldIntermediatesOnce) {
    const Tensor a = vector_of({1, 2});
    const Tensor held = a * 3;
    const Tensor end = held + held;
    EXPECT_EQ(end.to_vector<float>(), (std::vector<float>{6, 12}));
    EXPECT_TRUE(held.evaluated());
    EXPECT_EQ(held.to_vector<float>(), (std::vector<float>{3, 6}));
}

TEST(Graph, ReusesMemoryThatNobodyReads) {
    constexpr std::int64_t n = 1 << 20;
    Tensor x = ca::full({n}, 1.0) + 0;
    x.eval();
    ca::reset_peak_memory(ca::default_device());
    const std::int64_t before = ca::memory_statistics(ca::default_device()).in_use;
    for (int i = 0; i < 5; ++i) {
        x = x + 1;
        x.eval();
    }
    EXPECT_EQ(x.to_vector<float>()[12345], 6.f);
    // The old value's node is still held by x while x + 1 runs only if reuse fails to see that the handle moved on.
    EXPECT_LE(ca::memory_statistics(ca::default_device()).peak, before + 4 * n + 4096);
}

// The sanitizers make every step many times slower, and stack frames larger: recursion would still show.
const int many = ca::testing::sanitized() ? 50000 : 1000000;

TEST(Graph, MillionStepsNeitherRecurseNorPileUp) {
    Tensor x = vector_of({0, 0, 0, 0});
    for (int i = 0; i < many; ++i) x = x + 1;
    EXPECT_EQ(x.to_vector<float>()[0], static_cast<float>(many));
}

TEST(Graph, MillionStepsDifferentiate) {
    const Tensor leaf = ca::tensor({1.0, 2.0}).requires_grad();
    Tensor x = leaf;
    for (int i = 0; i < many; ++i) x = x * (1 + 1.0 / many);
    const auto grads = ca::backward(ca::sum(x));
    EXPECT_NEAR(grads[leaf].to_vector<double>()[1], std::pow(1 + 1.0 / many, many), 1e-8);
}

TEST(Gradients, OfAProductAndABroadcast) {
    const Tensor x = ca::tensor({{1.f, 2.f}, {3.f, 4.f}}).requires_grad();
    const Tensor w = vector_of({5, 6}).requires_grad();
    const auto g = ca::backward(ca::sum(x * w));
    EXPECT_EQ(g[x].to_vector<float>(), (std::vector<float>{5, 6, 5, 6}));
    EXPECT_EQ(g[w].to_vector<float>(), (std::vector<float>{4, 6}));
}

TEST(Gradients, OfAnyOrder) {
    const ca::TensorFunction f = [](const Tensor& x) { return ca::sum(x * x * x * x); };
    const Tensor x = ca::tensor({2.0});
    EXPECT_EQ(ca::grad(f)(x).item<double>(), 32.0);
    const ca::TensorFunction second = [&](const Tensor& t) { return ca::sum(ca::grad(f)(t)); };
    EXPECT_EQ(ca::grad(second)(x).item<double>(), 48.0);
    const ca::TensorFunction third = [&](const Tensor& t) { return ca::sum(ca::grad(second)(t)); };
    EXPECT_EQ(ca::grad(third)(x).item<double>(), 48.0);
}

TEST(Gradients, ReleaseTheGraphUnlessRetained) {
    const Tensor x = vector_of({1, 2}).requires_grad();
    const Tensor loss = ca::sum(ca::exp(x));
    (void)ca::backward(loss, {.retain_graph = true});
    (void)ca::backward(loss);
    try {
        (void)ca::backward(loss);
        FAIL() << "a released graph was walked again";
    } catch (const ca::ValueError& e) {
        EXPECT_EQ(e.code(), "autodiff/released");
    }
}

TEST(Gradients, StopAtDetachAndNoGrad) {
    const Tensor x = vector_of({3}).requires_grad();
    EXPECT_EQ(ca::backward(ca::sum(x * x.detach()))[x].item<float>(), 3.f);
    const Tensor y = ca::no_grad([&] { return x * 2; });
    EXPECT_FALSE(y.tracked());
    EXPECT_THROW((void)ca::backward(ca::sum(y)), ca::ValueError);
}

TEST(Gradients, JvpIsTheDirectionalDerivative) {
    const ca::TensorsFunction f = [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{in[0] * in[1], ca::exp(in[0])};
    };
    const auto r = ca::jvp(f, {ca::tensor({2.0}), ca::tensor({5.0})}, {ca::tensor({1.0}), ca::tensor({10.0})});
    EXPECT_DOUBLE_EQ(r.tangents[0].item<double>(), 25.0);
    EXPECT_DOUBLE_EQ(r.tangents[1].item<double>(), std::exp(2.0));
}

TEST(Gradients, CustomRulesReplaceTheirOwn) {
    const Tensor x = vector_of({1, 2}).requires_grad();
    const auto y = ca::custom(
        {x}, [](const auto& in) { return std::vector<Tensor>{in[0] * 2}; },
        [](const ca::CustomContext& c) { return std::vector<Tensor>{c.cotangents[0] * 100}; });
    EXPECT_EQ(y[0].to_vector<float>(), (std::vector<float>{2, 4}));
    EXPECT_EQ(ca::backward(ca::sum(y[0]))[x].to_vector<float>(), (std::vector<float>{100, 100}));
}

TEST(Gradients, CheckpointGivesTheSameAndReachesCaptures) {
    const Tensor w = vector_of({2, 3}).requires_grad(), x = vector_of({5, 7}).requires_grad();
    int runs = 0;
    const ca::TensorsFunction f = [&](const std::vector<Tensor>& in) {
        ++runs;
        return std::vector<Tensor>{ca::exp(in[0] * 0.1f) * w};
    };
    const auto direct = ca::backward(ca::sum(f({x})[0]));
    runs = 0;
    const auto again = ca::backward(ca::sum(ca::checkpoint(f, {x})[0]));
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(direct[x].to_vector<float>(), again[x].to_vector<float>());
    EXPECT_EQ(direct[w].to_vector<float>(), again[w].to_vector<float>());
}

TEST(Errors, HaveTheFormOfTheCatalogue) {
    try {
        (void)(ca::ones({2, 3}) + ca::ones({2}));
        FAIL();
    } catch (const ca::ShapeError& e) {
        const std::string text = e.what();
        EXPECT_NE(text.find("calor::ShapeError [shape/broadcast] at graph_test.cpp:"), std::string::npos) << text;
        EXPECT_NE(text.find("add: shapes [2, 3] and [2] do not broadcast"), std::string::npos) << text;
        EXPECT_NE(text.find("hint: "), std::string::npos) << text;
        EXPECT_EQ(e.where().line(), static_cast<unsigned>(__LINE__ - 7));
    }
}

TEST(Threads, WorkOnGraphsOfTheirOwn) {
    const Tensor shared = vector_of({1, 2, 3}).requires_grad();
    std::vector<std::thread> threads;
    std::vector<float> results(4);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; ++i) {
                results[static_cast<std::size_t>(t)] =
                    ca::sum(ca::backward(ca::sum(ca::exp(shared * 0) * (t + 1) * shared))[shared]).item<float>();
            }
        });
    }
    for (auto& t : threads) t.join();
    for (int t = 0; t < 4; ++t) EXPECT_EQ(results[static_cast<std::size_t>(t)], 3.f * static_cast<float>(t + 1));
}

}  // namespace
