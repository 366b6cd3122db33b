// Modules: fields, names, copies, modes, layers.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <type_traits>

#include "calor/calor.h"
#include "gradient_check.h"

namespace calor {
namespace {

using testing::expect_error;

struct Affine {
    nn::Parameter weight{ones({2, 3})};
    nn::Parameter bias{zeros({2})};
    CALOR_FIELDS(weight, bias)
};
struct Statistics {
    nn::Buffer mean{zeros({2})};
    nn::Mode mode;
    CALOR_FIELDS(mean, mode)
};
struct Everything {
    Affine one;
    std::vector<Affine> many = std::vector<Affine>(2);
    std::array<Statistics, 2> pair;
    std::optional<Affine> absent;
    std::optional<Affine> present = Affine{};
    std::unique_ptr<Affine> owned = std::make_unique<Affine>();
    std::shared_ptr<Affine> shared = std::make_shared<Affine>(), again = shared;
    std::vector<nn::Parameter> loose = std::vector<nn::Parameter>(2, nn::Parameter{ones({1})});
    nn::Parameter none;
    CALOR_FIELDS(one, many, pair, absent, present, owned, shared, again, loose, none)
};
struct Nothing {
    CALOR_FIELDS()
};

std::vector<std::string> names(const nn::State& state) {
    std::vector<std::string> list;
    for (const nn::NamedCell& n : state) list.push_back(n.name);
    return list;
}

TEST(Fields, NamesFollowTheNesting) {
    const Everything net;
    EXPECT_EQ(names(nn::parameters(net)),
              (std::vector<std::string>{"one.weight", "one.bias", "many.0.weight", "many.0.bias", "many.1.weight",
                                        "many.1.bias", "present.weight", "present.bias", "owned.weight", "owned.bias",
                                        "shared.weight", "shared.bias", "loose.0", "loose.1"}));
    EXPECT_EQ(names(nn::buffers(net)), (std::vector<std::string>{"pair.0.mean", "pair.1.mean"}));
    EXPECT_EQ(nn::state(net).size(), 14U + 2U + 2U) << "shared modules appear under both names";
    EXPECT_EQ(nn::count_parameters(net), 6 * 8 + 2 + 0);
    EXPECT_TRUE(nn::parameters(Nothing{}).empty());
}

TEST(Fields, ClassesStayAggregates) {
    static_assert(std::is_aggregate_v<Affine>);
    static_assert(std::is_aggregate_v<Everything>);
    static_assert(std::is_nothrow_move_constructible_v<Affine>);
    static_assert(std::is_copy_constructible_v<Affine>);
}

struct Wide {
    nn::Parameter a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3, c4, c5, c6, c7, d0,
        d1, d2, d3, d4, d5, d6, d7, e0, e1, e2, e3, e4, e5, e6, e7, f0, f1, f2, f3, f4, f5, f6, f7, g0, g1, g2, g3, g4,
        g5, g6, g7, h0, h1, h2, h3, h4, h5, h6, h7;
    CALOR_FIELDS(a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3, c4, c5, c6, c7, d0, d1,
                 d2, d3, d4, d5, d6, d7, e0, e1, e2, e3, e4, e5, e6, e7, f0, f1, f2, f3, f4, f5, f6, f7, g0, g1, g2, g3,
                 g4, g5, g6, g7, h0, h1, h2, h3, h4, h5, h6, h7)
};
TEST(Fields, SixtyFour) {
    Wide wide;
    wide.a0 = wide.h7 = nn::Parameter{ones({3})};
    EXPECT_EQ(names(nn::parameters(wide)), (std::vector<std::string>{"a0", "h7"}));
}

TEST(Fields, ModesReachNestedModules) {
    Everything net;
    EXPECT_TRUE(net.pair[1].mode.training());
    nn::eval(net);
    EXPECT_FALSE(net.pair[0].mode.training());
    EXPECT_FALSE(net.pair[1].mode.training());
    nn::train(net);
    EXPECT_TRUE(net.pair[1].mode.training());
}

TEST(Parameter, CopiesAreSnapshotsAndMovesCarryTheCell) {
    Affine net;
    const nn::State held = nn::parameters(net);
    const Affine snapshot = net;
    net.weight.set(ones({2, 3}) * 5);
    EXPECT_EQ(snapshot.weight.value().to_vector<float>(), std::vector<float>(6, 1));
    EXPECT_EQ(held[0].value().to_vector<float>(), std::vector<float>(6, 5)) << "the list shares the cells";
    EXPECT_TRUE(snapshot.weight.value().tracked());
    EXPECT_FALSE(snapshot.weight.value().same_as(net.weight));
    Affine moved = std::move(net);
    moved.weight.set(ones({2, 3}) * 6);
    EXPECT_EQ(held[0].value().to_vector<float>(), std::vector<float>(6, 6));
    moved = snapshot;
    EXPECT_EQ(held[0].value().to_vector<float>(), std::vector<float>(6, 1)) << "assigning a copy keeps the cells";
    EXPECT_NE(moved.weight.cell(), snapshot.weight.cell());
    moved.weight = nn::Parameter{ones({4})};
    EXPECT_EQ(moved.weight.shape(), Shape{4});
    const nn::Parameter& self = moved.weight;
    moved.weight = self;
    EXPECT_EQ(moved.weight.shape(), Shape{4});
    nn::State alive;
    {
        const Affine dying;
        alive = nn::parameters(dying);
    }
    EXPECT_EQ(alive[0].value().to_vector<float>(), std::vector<float>(6, 1));
}

TEST(Parameter, IsAnOperandAndATensor) {
    const Affine net;
    const Tensor x = ones({3});
    const Tensor y = sum(net.weight * x + 1.0F) - sum(x * net.weight);
    EXPECT_EQ(y.item<float>(), 6);
    const Tensor& t = net.weight;
    const Gradients g = backward(sum(net.weight * net.weight));
    EXPECT_EQ(g[net.weight].to_vector<float>(), std::vector<float>(6, 2));
    EXPECT_TRUE(g.contains(t));
}

TEST(Parameter, RefusesWhatDoesNotFit) {
    nn::Parameter p{ones({2})};
    expect_error("shape/mismatch", [&] { p.set(ones({3})); });
    expect_error("dtype/mismatch", [&] { p.set(ones({2}, f64)); });
    expect_error("tensor/undefined", [&] { p.set(Tensor()); });
    expect_error("tensor/undefined", [&] { (void)nn::Parameter{}.value(); });
    expect_error("tensor/undefined", [&] { nn::Parameter{}.set(ones({2})); });
    expect_error("tensor/undefined", [&] { nn::Parameter{Tensor()}; });
    expect_error("autodiff/not-floating", [&] { nn::Parameter{ones({2}, i32)}; });
    expect_error("tensor/undefined", [&] { nn::Buffer{}.set(ones({2})); });
    const nn::Buffer b{ones({2})};
    expect_error("shape/mismatch", [&] { b.set(ones({3})); });
    EXPECT_EQ(p.value().to_vector<float>(), std::vector<float>(2, 1));
}

TEST(Parameter, FrozenOnesCollectNoGradients) {
    Affine net;
    net.weight.set_trainable(false);
    EXPECT_FALSE(net.weight.value().tracked());
    const Gradients g = backward(sum(net.weight * ones({3})) + sum(net.bias));
    EXPECT_FALSE(g.contains(net.weight));
    EXPECT_TRUE(g.contains(net.bias));
    nn::set_trainable(net, false);
    EXPECT_FALSE(net.bias.trainable());
    const Affine copy = net;
    EXPECT_FALSE(copy.bias.value().tracked());
    nn::set_trainable(net, true);
    EXPECT_TRUE(net.weight.value().tracked());
}

TEST(Buffer, UpdatesWithoutAGrowingChain) {
    const nn::Buffer mean{zeros({2})};
    const Tensor x = ones({2}).requires_grad();
    for (int i = 0; i < 10; ++i) mean.set(mean * 0.5F + x);
    EXPECT_FALSE(mean.value().tracked());
    EXPECT_NEAR(mean.value().to_vector<float>()[0], 2.0 - 2.0 / 1024, 1e-6);
    const nn::Buffer copy = mean;
    mean.set(zeros({2}));
    EXPECT_NEAR(copy.value().to_vector<float>()[0], 2.0 - 2.0 / 1024, 1e-6);
}

}  // namespace
}  // namespace calor
