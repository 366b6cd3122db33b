// Constants, ranges, identity, triangles and grids against plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gradient_check.h"
#include "strided.h"

namespace ca = calor;
using namespace calor::testing;
using ca::Dims;
using ca::Shape;
using ca::Tensor;

namespace {

TEST(Constants, FillWithoutMemory) {
    for (const ca::DType dtype : every_dtype) {
        const Tensor x = ca::ones({1000, 1000}, dtype);
        EXPECT_EQ(x.dtype(), dtype);
        EXPECT_EQ(values_of(ca::slice(x, {{0, 1}, {0, 3}})), (std::vector<double>{1, 1, 1}));
        EXPECT_EQ(values_of(ca::zeros_like(ca::ones({2}, dtype))), (std::vector<double>{0, 0}));
    }
    EXPECT_EQ(values_of(ca::full_like(ca::zeros({2}, ca::u8), 200)), (std::vector<double>{200, 200}));
    EXPECT_EQ(ca::full({}, 3).item<float>(), 3);
    const auto before = ca::memory_statistics().in_use;
    const Tensor huge = ca::zeros({1 << 20, 1 << 20});
    EXPECT_LT(ca::memory_statistics().in_use - before, 4096);
    expect_error("value/scalar", [] { (void)ca::full({2}, 300, ca::u8); });
    expect_error("value/scalar", [] { (void)ca::full({2}, 0.5, ca::i32); });
    expect_error("shape/negative", [] { (void)ca::zeros({2, -1}); });
    expect_error("shape/overflow", [] { (void)ca::zeros({std::int64_t{1} << 40, std::int64_t{1} << 40}); });
    expect_error("tensor/undefined", [] { (void)ca::zeros_like(Tensor()); });
}

TEST(Arange, IntegersAreExact) {
    EXPECT_EQ((ca::arange(9) * 1500000000).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 1500000000, 3000000000, 4500000000, 6000000000, 7500000000, 9000000000,
                                         10500000000, 12000000000}));
    for (const ca::DType dtype : every_dtype) {
        if (dtype == ca::boolean) continue;
        const Tensor x = ca::arange(3, 24, 4, dtype);
        EXPECT_EQ(x.dtype(), dtype);
        EXPECT_EQ(values_of(x), (std::vector<double>{3, 7, 11, 15, 19, 23}));
    }
    EXPECT_EQ(ca::arange(5, -6, -5).to_vector<std::int64_t>(), (std::vector<std::int64_t>{5, 0, -5}));
    EXPECT_EQ(ca::arange(5, 5).shape(), (Shape{0}));
    EXPECT_EQ(ca::arange(0, 5, -1).shape(), (Shape{0}));
    EXPECT_EQ(ca::arange(127, -129, -1, ca::i8).to_vector<std::int8_t>().back(), -128);
    constexpr auto most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
    EXPECT_EQ(ca::arange(most - 2, most).to_vector<std::int64_t>(), (std::vector<std::int64_t>{most - 2, most - 1}));
    EXPECT_EQ(ca::arange(least, most, most).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{least, -1, most - 1}));
    constexpr auto top = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(ca::arange(top - 1, top, ca::u64).to_vector<std::uint64_t>(), (std::vector<std::uint64_t>{top - 1}));
    const auto large = ca::arange(3000000000, 3000100000, 3, ca::f64).to_vector<double>();
    for (std::size_t i = 0; i < large.size(); ++i) ASSERT_EQ(large[i], 3e9 + 3 * static_cast<double>(i));
}

TEST(Arange, FloatsRoundOnce) {
    const auto x = ca::arange(0, 1, 0.1).to_vector<float>();
    ASSERT_EQ(x.size(), 10U);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], static_cast<float>(static_cast<double>(i) * 0.1));
    EXPECT_EQ(ca::arange(1.0, -1.0, -0.5).to_vector<float>(), (std::vector<float>{1, 0.5, 0, -0.5}));
    EXPECT_EQ(ca::arange(0.5, 3, ca::f16).to(ca::f32).to_vector<float>(), (std::vector<float>{0.5, 1.5, 2.5}));
    EXPECT_EQ(ca::arange(4, ca::f32).dtype(), ca::f32);
}

TEST(Arange, Refuses) {
    expect_error("value/option", [] { (void)ca::arange(0, 5, 0); });
    expect_error("value/option", [] { (void)ca::arange(0, 5.0, 0.0); });
    expect_error("value/option", [] { (void)ca::arange(0, INFINITY); });
    expect_error("value/option", [] { (void)ca::arange(0, 1, NAN); });
    expect_error("value/scalar", [] { (void)ca::arange(300, ca::u8); });
    expect_error("value/scalar", [] { (void)ca::arange(-1, 3, ca::u16); });
    expect_error("value/scalar", [] { (void)ca::arange(0, 1, 0.5, ca::i32); });
    expect_error("dtype/unsupported", [] { (void)ca::arange(2, ca::boolean); });
    expect_error("shape/overflow", [] { (void)ca::arange(0.0, 1e300, 1.0); });
    expect_error("shape/overflow", [] {
        (void)ca::arange(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
    });
}

TEST(Linspace, HitsBothEnds) {
    const auto x = ca::linspace(-1, 2, 7, ca::f64).to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], -1 + 0.5 * static_cast<double>(i), 1e-15);
    for (const std::int64_t n : {2, 3, 10, 1000, 12345}) {
        const auto v = ca::linspace(0.1, 0.7, n, ca::f64).to_vector<double>();
        EXPECT_EQ(v.front(), 0.1);
        EXPECT_EQ(v.back(), 0.7);
    }
    const double huge = std::numeric_limits<double>::max();
    EXPECT_EQ(ca::linspace(-huge, huge, 3, ca::f64).to_vector<double>(), (std::vector<double>{-huge, 0, huge}));
    EXPECT_EQ(ca::linspace(3, 9, 1).to_vector<float>(), (std::vector<float>{3}));
    EXPECT_EQ(ca::linspace(3, 9, 0).shape(), (Shape{0}));
    const auto powers = ca::logspace(0, 3, 4).to_vector<float>();
    EXPECT_EQ(powers, (std::vector<float>{1, 10, 100, 1000}));
    EXPECT_EQ(ca::logspace(3, -1, 5, 2, ca::f64).to_vector<double>(), (std::vector<double>{8, 4, 2, 1, 0.5}));
    expect_error("dtype/unsupported", [] { (void)ca::linspace(0, 1, 2, ca::i32); });
    expect_error("value/option", [] { (void)ca::linspace(0, INFINITY, 2); });
    expect_error("value/option", [] { (void)ca::logspace(0, 1, 2, 0); });
    expect_error("shape/negative", [] { (void)ca::linspace(0, 1, -2); });
    expect_error("shape/overflow", [] { (void)ca::linspace(0, 1, std::numeric_limits<std::int64_t>::max()); });
}

TEST(Matrices, EyeAndTriangles) {
    constexpr auto most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
    for (const ca::DType dtype : every_dtype) {
        for (const std::int64_t diagonal :
             {std::int64_t{0}, std::int64_t{1}, std::int64_t{-2}, std::int64_t{9}, most, least}) {
            const auto eye = values_of(ca::eye(3, 5, diagonal, dtype));
            for (std::int64_t i = 0; i < 15; ++i) {
                EXPECT_EQ(eye[static_cast<std::size_t>(i)], diagonal < 9 && diagonal > -9 && i % 5 - i / 5 == diagonal);
            }
            for (const Tensor& x : under_other_strides(counting({2, 3, 5}, dtype))) {
                const auto all = values_of(x), low = values_of(ca::tril(x, diagonal)),
                           up = values_of(ca::triu(x, diagonal));
                std::size_t i = 0;
                for_each_index(x.shape(), [&](const Dims& at) {
                    const bool is_low = at[2] - at[1] <= diagonal, is_up = at[2] - at[1] >= diagonal;
                    EXPECT_EQ(low[i], is_low ? all[i] : 0);
                    EXPECT_EQ(up[i], is_up ? all[i] : 0);
                    ++i;
                });
            }
        }
    }
    EXPECT_EQ(ca::eye(2).to_vector<float>(), (std::vector<float>{1, 0, 0, 1}));
    EXPECT_EQ(ca::eye(0, 3).shape(), (Shape{0, 3}));
    EXPECT_EQ(ca::tril(ca::zeros({2, 0, 3})).shape(), (Shape{2, 0, 3}));
    expect_gradients([](const Tensor& x) { return ca::tril(x * x, 1); }, random_tensor({2, 3, 4}, 1));
    expect_gradients([](const Tensor& x) { return ca::triu(x * x, -1); }, random_tensor({4, 3}, 2));
    expect_error("shape/rank", [] { (void)ca::tril(ca::zeros({3})); });
    expect_error("shape/rank", [] { (void)ca::triu(ca::scalar(1, ca::f32)); });
    expect_error("shape/negative", [] { (void)ca::eye(-1); });
    expect_error("shape/overflow", [] { (void)ca::eye(std::int64_t{1} << 40); });
}

TEST(Meshgrid, BothIndexings) {
    const Tensor a = ca::tensor({1, 2}), b = ca::tensor({3, 4, 5});
    const auto ij = ca::meshgrid({a, b}), xy = ca::meshgrid({a, b}, ca::Indexing::cartesian);
    EXPECT_EQ(ij[0].to_vector<int>(), (std::vector<int>{1, 1, 1, 2, 2, 2}));
    EXPECT_EQ(ij[1].to_vector<int>(), (std::vector<int>{3, 4, 5, 3, 4, 5}));
    EXPECT_EQ(xy[0].shape(), (Shape{3, 2}));
    EXPECT_EQ(xy[0].to_vector<int>(), (std::vector<int>{1, 2, 1, 2, 1, 2}));
    EXPECT_EQ(xy[1].to_vector<int>(), (std::vector<int>{3, 3, 4, 4, 5, 5}));
    EXPECT_EQ(ca::meshgrid({a, b, a})[2].shape(), (Shape{2, 3, 2}));
    EXPECT_TRUE(ca::meshgrid({}).empty());
    expect_error("shape/rank", [&] { (void)ca::meshgrid({a, ca::zeros({2, 2})}); });
    expect_error("tensor/undefined", [&] { (void)ca::meshgrid({a, Tensor()}); });
}

}  // namespace
