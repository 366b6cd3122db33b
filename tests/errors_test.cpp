// Errors of the core, each provoked: tensors, shapes, dtypes, memory, devices, gradients. Families provoke their own.
#include <gtest/gtest.h>

#include "calor/calor.h"
#include "core/fail.h"
#include "gradient_check.h"
#include "graph/node.h"

namespace ca = calor;
using ca::Tensor;
using ca::testing::expect_error;

namespace {

TEST(Errors, OfShapes) {
    expect_error("shape/negative", [] { (void)ca::zeros({2, -1}); });
    expect_error("shape/overflow", [] { (void)ca::zeros({std::int64_t{1} << 40, std::int64_t{1} << 40}); });
    expect_error("shape/overflow",
                 [] { (void)ca::zeros({std::int64_t{1} << 60}, ca::f64); });  // only the bytes overflow
    EXPECT_EQ(ca::zeros({std::int64_t{1} << 40, 0, std::int64_t{1} << 40}).numel(), 0);
    expect_error("shape/broadcast", [] { (void)(ca::ones({2, 3}) + ca::ones({2})); });
    expect_error("reshape/size", [] { (void)ca::reshape(ca::ones({2, 3}), {4, 2}); });
    expect_error("reshape/size", [] { (void)ca::reshape(ca::ones({2, 3}), {-1, 4}); });
    expect_error("reshape/size", [] { (void)ca::reshape(ca::ones({2, 0}), {-1, 0}); });
    expect_error("shape/negative", [] { (void)ca::reshape(ca::ones({2, 3}), {-1, -1}); });
    expect_error("axis/range", [] { (void)ca::sum(ca::ones({2, 3}), {2}); });
    expect_error("axis/duplicate", [] { (void)ca::sum(ca::ones({2, 3}), {1, -1}); });
    expect_error("axis/range", [] { (void)ca::ones({2}).size(1); });
}

TEST(Errors, OfTensors) {
    const Tensor nothing;
    expect_error("tensor/undefined", [&] { (void)nothing.shape(); });
    expect_error("tensor/undefined", [&] { (void)nothing.eval(); });
    expect_error("tensor/undefined", [&] { (void)(nothing + 1); });
    expect_error("tensor/undefined", [&] { (void)(-nothing); });
    expect_error("tensor/undefined", [&] { (void)nothing.to(ca::f64); });
    expect_error("tensor/undefined", [&] { (void)nothing.requires_grad(); });
    expect_error("tensor/not-scalar", [] { (void)ca::ones({2}).item<float>(); });
    expect_error("tensor/element-type", [] { (void)ca::ones({2}).to_vector<double>(); });
    expect_error("tensor/element-type", [] { (void)ca::ones({2}).data<int>(); });
    expect_error("tensor/count", [] { (void)ca::tensor(std::vector<float>{1, 2, 3}, {2, 2}); });
    expect_error("tensor/count", [] {
        float few[1];
        ca::ones({2}).copy_to(std::span<float>(few));
    });
    expect_error("tensor/ragged", [] { (void)ca::tensor<float>({{1, 2}, {3}}); });
    expect_error("value/scalar", [] { (void)(ca::ones({2}, ca::u8) + 300); });
    expect_error("value/scalar", [] { (void)ca::full({2}, 1.5, ca::i32); });
    expect_error("value/scalar", [] { (void)ca::full({2}, 2, ca::boolean); });
}

TEST(Errors, OfDevicesAndMemory) {
    expect_error("device/unavailable", [] { (void)ca::device_named("toaster"); });
    expect_error("device/unavailable", [] { (void)ca::device_named("cpu:1"); });
    expect_error("device/unavailable", [] { (void)ca::device_named("cpu:x"); });
    expect_error("device/unavailable", [] { (void)ca::ones({1}).to(ca::Device{ca::DeviceKind::cpu, 7}); });
    EXPECT_EQ(ca::device_named("cpu"), ca::Device{});
    expect_error("value/option", [] { ca::set_memory_limit(-1); });
    expect_error("value/option", [] { ca::set_thread_count(0); });
    expect_error("memory/exhausted", [] { (void)(ca::zeros({std::int64_t{1} << 50}) + 1).eval(); });
}

/// Provokes memory/exhausted and returns the function that it names.
template <class F> std::string exhausted(const F& f) {
    try {
        f();
    } catch (const ca::MemoryError& error) {
        EXPECT_EQ(error.code(), "memory/exhausted");
        return std::string(error.operation());
    }
    return "nothing";
}

TEST(Errors, OfTheHostsMemory) {
    constexpr std::int64_t many = std::int64_t{1} << 50;  // beyond any address space
    const Tensor wide = ca::expand(ca::full({1}, 1.5), {many});
    EXPECT_EQ(exhausted([&] { (void)wide.to_vector<float>(); }), "to_vector");
    EXPECT_EQ(exhausted([&] { (void)ca::expand(ca::full({1}, 1, ca::u8), {many * 8}).to_vector<std::uint8_t>(); }),
              "to_vector");
    EXPECT_EQ(exhausted([&] { (void)wide.data<float>(); }), "data");
    EXPECT_EQ(exhausted([&] { (void)ca::split(wide, 1); }), "split");
    EXPECT_EQ(exhausted([&] { (void)ca::chunk(wide, many); }), "chunk");
    EXPECT_EQ(exhausted([&] { (void)ca::nonzero(wide); }), "nonzero");
    EXPECT_EQ(exhausted([&] { (void)ca::masked_select(wide, ca::expand(ca::full({1}, true, ca::boolean), {many})); }),
              "masked_select");
    EXPECT_EQ(exhausted([&] {
                  ca::io::save(::testing::TempDir() + "/wide.safetensors", {{"wide", wide}}, {});
              }),
              "save");
    EXPECT_EQ(exhausted([&] { (void)ca::permutation(many).eval(); }), "permutation");
    EXPECT_EQ(exhausted([&] { (void)ca::nn::init::orthogonal({many, 2}); }), "orthogonal");
    EXPECT_EQ(ca::to_string(wide), "tensor([1.5, 1.5, 1.5, ..., 1.5, 1.5, 1.5], shape=[1125899906842624])");
}

TEST(Errors, OfTheMemoryLimitLeaveEverythingUsable) {
    const Tensor x = ca::ones({1000}) + 1;
    x.eval();
    ca::set_memory_limit(ca::memory_statistics().in_use + 100000);
    const Tensor big = ca::expand(x, {1000, 1000}) * 2;
    expect_error("memory/exhausted", [&] { (void)big.eval(); });
    expect_error("memory/exhausted", [&] { (void)big.eval(); });
    EXPECT_EQ((x + 1).to_vector<float>()[0], 3.F);
    ca::set_memory_limit(0);
    EXPECT_EQ(ca::sum(big).item<float>(), 4e6F);
}

TEST(Errors, OfGradients) {
    const Tensor x = ca::ones({3}).requires_grad();
    expect_error("autodiff/not-scalar", [&] { (void)ca::backward(x * 2); });
    expect_error("autodiff/not-tracked", [] { (void)ca::backward(ca::sum(ca::ones({3}))); });
    expect_error("autodiff/not-floating", [] { (void)ca::ones({3}, ca::i32).requires_grad(); });
    expect_error("autodiff/missing", [&] { (void)ca::backward(ca::sum(x))[ca::ones({3})]; });
    expect_error("autodiff/released", [&] {
        const Tensor loss = ca::sum(ca::exp(x));
        (void)ca::backward(loss);
        (void)ca::backward(loss);
    });
    expect_error("value/count", [&] { (void)ca::gradients({x * 2}, {x}, {ca::ones({3}), ca::ones({3})}); });
    expect_error("shape/mismatch", [&] { (void)ca::gradients({x * 2}, {x}, {ca::ones({4})}); });
    const auto twice = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2}; };
    expect_error("value/count", [&] { (void)ca::jvp(twice, {x}, {}); });
    expect_error("shape/mismatch", [&] { (void)ca::jvp(twice, {x}, {ca::ones({4})}); });
    expect_error("value/count", [&] {
        (void)ca::backward(ca::sum(ca::custom({x}, twice, [](const auto&) { return std::vector<Tensor>{}; })[0]));
    });
    expect_error("shape/mismatch", [&] {
        (void)ca::backward(
            ca::sum(ca::custom({x}, twice, [](const auto&) { return std::vector<Tensor>{ca::ones({9})}; })[0]));
    });
    expect_error("tensor/undefined", [] { (void)ca::backward(Tensor()); });
}

/// A device that is not this machine's, to show what mixing devices says.
TEST(Errors, OfMixedDevices) {
    const Tensor here = ca::ones({2}), there = ca::ones({2}) + 0;
    there.node()->device = ca::Device{ca::DeviceKind::cpu, 1};
    expect_error("device/mismatch", [&] { (void)(here + there); });
    there.node()->device = ca::Device{};
}

TEST(Errors, OfLibrariesBelow) {
    static const ca::graph::Implementation failing[] = {
        {.name = "failing", .run = [](const ca::graph::Call&) { throw std::runtime_error("status 7"); }}};
    static const ca::graph::Operation operation{
        .name = "doomed",
        .infer = [](const ca::graph::InferContext& c) -> ca::graph::Specs {
            return {{c.inputs[0].shape(), ca::f32}};
        },
        .implementations = [](ca::DeviceKind) { return std::span<const ca::graph::Implementation>(failing); }};
    const Tensor doomed = ca::graph::record(operation, {}, {ca::ones({2})}, ca::Where::current());
    expect_error("kernel/failed", [&] { (void)doomed.eval(); });
    expect_error("kernel/failed", [&] { (void)(doomed + 1).eval(); });
}

TEST(Errors, OfCalorItself) {
    expect_error("internal/state", [] { ca::fail_internal("a test asked for it"); });
    expect_error("internal/state", [] { ca::fail("no/such-code", "test", ca::Where::current()); });
    EXPECT_THROW(ca::fail_internal("x"), ca::InternalError);
}

TEST(Errors, CarryTheirParts) {
    try {
        (void)ca::reshape(ca::ones({2, 3}), {4});
        FAIL();
    } catch (const ca::ShapeError& e) {
        EXPECT_EQ(e.code(), "reshape/size");
        EXPECT_EQ(e.kind(), ca::ErrorKind::shape);
        EXPECT_EQ(e.operation(), "reshape");
        EXPECT_EQ(e.message(), "cannot reshape [2, 3] (6 elements) to [4]");
        EXPECT_FALSE(e.hint().empty());
        EXPECT_NE(std::string(e.where().file_name()).find("errors_test.cpp"), std::string::npos);
    }
}

}  // namespace
