// Pooling over boxes, by norms, and back: adaptive, fractional, lp and unpooling. Values, the reference, PyTorch's
// numbers, gradients of any order, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "calor/calor.h"
#include "gradient_check.h"
#include "relaid.h"
#include "sanitized.h"
#include "strided.h"
#include "torch_window.h"

namespace ca = calor;
using ca::DType;
using ca::Shape;
using ca::Tensor;
using ca::testing::Disable;
using ca::testing::expect_error;
using ca::testing::expect_gradients;
using ca::testing::random_tensor;
using ca::testing::values_of;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// Well separated values: a step of the differences must not change which one is the largest.
Tensor apart(const Shape& shape, std::size_t seed) {
    std::vector<double> v(static_cast<std::size_t>(ca::numel(shape)));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>((i * 7919 + seed * 31) % 10007) / 100;
    return ca::tensor(v, shape);
}

Shape drawn_shape(std::mt19937& engine, std::int64_t rank) {
    Shape x{1 + static_cast<std::int64_t>(engine() % 2), 1 + static_cast<std::int64_t>(engine() % 9)};
    for (std::int64_t a = 0; a < rank; ++a) x.push_back(1 + static_cast<std::int64_t>(engine() % (rank > 3 ? 3 : 9)));
    return x;
}

TEST(AdaptiveMaxPool, TheWindowsOfTwelveToSeven) {
    const Tensor x = ca::reshape(ca::arange(12).to(ca::f64), {1, 1, 12});
    EXPECT_EQ(values_of(ca::adaptive_max_pool(x, {.size = 7})), (std::vector<double>{1, 3, 5, 6, 8, 10, 11}));
    EXPECT_EQ(values_of(-ca::adaptive_max_pool(-x, {.size = 7})), (std::vector<double>{0, 1, 3, 5, 6, 8, 10}));
    EXPECT_EQ(values_of(ca::adaptive_max_pool(ca::tensor({{{1.F, 2.F, 4.F}}}), {.size = 5})),
              (std::vector<double>{1, 2, 2, 4, 4}));
    const Tensor y =
        ca::adaptive_max_pool(ca::reshape(ca::arange(60).to(ca::f32), {1, 1, 5, 4, 3}), {.size = {3, 3, 2}});
    EXPECT_EQ(values_of(y),
              (std::vector<double>{16, 17, 19, 20, 22, 23, 40, 41, 43, 44, 46, 47, 52, 53, 55, 56, 58, 59}));

    EXPECT_EQ(ca::adaptive_max_pool(ca::ones({1, 1, 5, 4, 3}), {.size = 2}).shape(), (Shape{1, 1, 2, 2, 2}));
    EXPECT_EQ(ca::adaptive_max_pool(ca::ones({1, 1, 5, 4}), {.size = {ca::keep, 1}}).shape(), (Shape{1, 1, 5, 1}));
}

TEST(AdaptiveMaxPool, RowsEqualTheReference) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(390U); ++seed) {
        std::mt19937 engine(seed);
        const std::int64_t rank = 1 + seed % 6;
        const Shape shape = drawn_shape(engine, rank);
        ca::Dims size;
        for (std::int64_t a = 0; a < rank; ++a)
            size.push_back(1 + static_cast<std::int64_t>(engine() % (rank > 3 ? 3 : 6)));
        const DType dtype = ca::testing::every_dtype[seed % 13];
        Tensor x = ca::testing::counting(shape, dtype);
        if (ca::is_floating(dtype) && seed % 3 == 0) {
            std::vector<double> v = values_of(x);
            v[seed % v.size()] = std::numeric_limits<double>::quiet_NaN();
            v[seed * 7 % v.size()] = -inf;
            x = ca::tensor(v, shape).to(dtype);
        }
        std::vector<std::vector<double>> want;
        {
            const Disable guard("box_rows");
            const auto r = ca::adaptive_max_pool_with_indices(x, {.size = size});
            want = {values_of(r.values), values_of(r.indices)};
        }
        const auto r =
            ca::adaptive_max_pool_with_indices(relaid(x, ca::testing::all_lies[seed / 13 % 4]), {.size = size});
        EXPECT_EQ(r.values.dtype(), dtype);
        EXPECT_EQ(values_of(r.indices), want[1]) << seed;
        const std::vector<double> got = values_of(r.values);
        ASSERT_EQ(got.size(), want[0].size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_TRUE(got[i] == want[0][i] || (std::isnan(got[i]) && std::isnan(want[0][i]))) << seed;
        }
    }
}

TEST(FractionalMaxPool, RowsEqualTheReferenceAndTheFormula) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(260U); ++seed) {
        std::mt19937 engine(seed);
        const std::int64_t rank = 1 + seed % 6;
        const Shape shape = drawn_shape(engine, rank);
        ca::Dims size, kernel;
        for (std::int64_t a = 0; a < rank; ++a) {
            kernel.push_back(1 + static_cast<std::int64_t>(engine()) % std::min<std::int64_t>(3, shape[a + 2]));
            size.push_back(1 + static_cast<std::int64_t>(engine()) % (shape[a + 2] - kernel[a] + 1));
        }
        const DType dtype = ca::testing::every_dtype[seed % 13];
        const Tensor x = ca::testing::counting(shape, dtype);
        const Tensor samples = random_tensor({shape[0], shape[1], rank}, seed, 0, 1);
        const ca::FractionalMaxPoolOptions o{.kernel = kernel, .size = size, .samples = samples};
        std::vector<std::vector<double>> want;
        {
            const Disable guard("box_rows");
            const auto r = ca::fractional_max_pool(x, o);
            want = {values_of(r.values), values_of(r.indices)};
        }
        const auto r = ca::fractional_max_pool(relaid(x, ca::testing::all_lies[seed / 13 % 4]), o);
        EXPECT_EQ(r.values.dtype(), dtype);
        ASSERT_EQ(values_of(r.values), want[0]) << seed;
        ASSERT_EQ(values_of(r.indices), want[1]) << seed;
    }
}

TEST(FractionalMaxPool, DrawsFromTheGenerator) {
    const Tensor x = random_tensor({2, 3, 20, 20}, 1);
    const ca::FractionalMaxPoolOptions o{.kernel = 2, .ratio = {0.7}};
    ca::Generator a(7), b(7), c(8);
    const auto first = ca::fractional_max_pool(x, o, a);
    EXPECT_EQ(first.values.shape(), (Shape{2, 3, 14, 14}));
    EXPECT_EQ(values_of(first.indices), values_of(ca::fractional_max_pool(x, o, b).indices));
    EXPECT_NE(values_of(first.indices), values_of(ca::fractional_max_pool(x, o, b).indices));
    EXPECT_NE(values_of(first.indices), values_of(ca::fractional_max_pool(x, o, c).indices));
    EXPECT_EQ(ca::fractional_max_pool(x, {.kernel = 2, .ratio = {0.5, 0.25}}).values.shape(), (Shape{2, 3, 10, 5}));
}

TEST(LpPool, Values) {
    const Tensor x = ca::tensor({{{3.F, -4.F, 0.F, 0.F, -2.F}}});
    EXPECT_EQ(values_of(ca::lp_pool(x, {.kernel = 2})), (std::vector<double>{5, 0}));
    EXPECT_EQ(values_of(ca::lp_pool(x, {.kernel = 2, .ceil_mode = true})), (std::vector<double>{5, 0, 2}));
    EXPECT_EQ(values_of(ca::lp_pool(x, {.p = 1, .kernel = 2})), (std::vector<double>{7, 0}));
    EXPECT_EQ(values_of(ca::lp_pool(x, {.p = inf, .kernel = 2})), (std::vector<double>{4, 0}));
    EXPECT_EQ(values_of(ca::lp_pool(x, {.p = 1, .kernel = 2, .padding = 1})), (std::vector<double>{3, 4, 2}));
    EXPECT_NEAR(values_of(ca::lp_pool(x, {.p = 3, .kernel = 2}))[0], std::cbrt(91.0), 1e-6);
    EXPECT_NEAR(values_of(ca::lp_pool(x, {.p = 0.5, .kernel = 2}))[0], std::pow(std::sqrt(3.0) + 2, 2), 1e-5);
    // f16 computes in f32: 300^2 alone is larger than f16 holds.
    EXPECT_EQ(values_of(ca::lp_pool(ca::full({1, 1, 4}, 300, ca::f16), {.kernel = 4})), (std::vector<double>{600}));
    EXPECT_EQ(ca::lp_pool(ca::full({1, 1, 4}, 300, ca::bf16), {.kernel = 4}).dtype(), ca::bf16);
}

TEST(LpPool, TheGradientOfZeroIsZero) {
    for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, inf}) {
        const Tensor x = ca::zeros({1, 1, 4}, ca::f64).requires_grad();
        const Tensor y = ca::lp_pool(x, {.p = p, .kernel = 2});
        EXPECT_EQ(values_of(ca::backward(ca::sum(y)).at(x)), std::vector<double>(4, 0)) << p;
    }
    const Tensor half = ca::tensor({{{0.0, 5.0, 0.0, 0.0}}}).requires_grad();
    EXPECT_EQ(values_of(ca::backward(ca::sum(ca::lp_pool(half, {.kernel = 2}))).at(half)),
              (std::vector<double>{0, 1, 0, 0}));
}

TEST(MaxUnpool, InvertsMaxPool) {
    const Tensor x = apart({2, 3, 6, 8}, 1);
    const auto r = ca::max_pool_with_indices(x, {.kernel = 2});
    const Tensor back = ca::max_unpool(r.values, r.indices, {6, 8});
    EXPECT_EQ(back.shape(), x.shape());
    EXPECT_EQ(values_of(ca::max_pool(back, {.kernel = 2})), values_of(r.values));
    EXPECT_EQ(ca::sum(ca::ne(back, 0)).item<std::int64_t>(), ca::sum(ca::ne(r.values, 0)).item<std::int64_t>());
    // Overlapping windows name elements twice: the last value stays, and has the gradient.
    const Tensor v = ca::tensor({{{1.0, 2.0, 3.0}}}).requires_grad();
    const Tensor i = ca::reshape(ca::tensor<std::int64_t>({1, 3, 1}), {1, 1, 3});
    const Tensor y = ca::max_unpool(v, i, {5});
    EXPECT_EQ(values_of(y), (std::vector<double>{0, 3, 0, 2, 0}));
    EXPECT_EQ(values_of(ca::backward(ca::sum(y)).at(v)), (std::vector<double>{0, 1, 1}));
    expect_error("index/range", [&] { (void)ca::max_unpool(v, i, {3}).eval(); });
    expect_error("index/range", [&] { (void)ca::max_unpool(v, i - 2, {5}).eval(); });
    const Tensor beyond = ca::max_unpool(v, i, {3});  // its gradient reads the indices without its values
    expect_error("index/range", [&] { (void)ca::gradients({beyond}, {v}, {ca::ones({1, 1, 3})})[0].eval(); });
    EXPECT_EQ(ca::max_unpool(ca::zeros({0, 2, 3}), ca::zeros({0, 2, 3}, ca::i64), {6}).eval().shape(),
              (Shape{0, 2, 6}));
    for (const DType dtype : ca::testing::every_dtype) {
        const Tensor t = ca::testing::counting({1, 2, 4}, dtype);
        const auto pooled = ca::max_pool_with_indices(t, {.kernel = 2});
        EXPECT_EQ(ca::max_unpool(pooled.values, pooled.indices.to(ca::i32), {4}).dtype(), dtype);
    }
}

TEST(PoolBoxes, GradientsOfAnyOrder) {
    for (std::uint32_t seed = 0; seed < 12; ++seed) {
        std::mt19937 engine(seed);
        const std::int64_t rank = 1 + seed % 6;
        Shape shape{1, 2};
        for (std::int64_t a = 0; a < rank; ++a)
            shape.push_back(rank > 3 ? 2 : 3 + static_cast<std::int64_t>(engine() % 4));
        const Tensor x = apart(shape, seed);
        expect_gradients([](const Tensor& t) { return ca::sin(ca::adaptive_max_pool(t, {.size = 2})); }, x,
                         {.tolerance = 1e-5});
        const Tensor samples = random_tensor({1, 2, rank}, seed, 0, 1);
        expect_gradients(
            [&](const Tensor& t) {
                return ca::sin(ca::fractional_max_pool(t, {.kernel = 1, .size = 2, .samples = samples}).values);
            },
            x, {.tolerance = 1e-5});
        const auto r = ca::max_pool_with_indices(x, {.kernel = 2});
        expect_gradients(
            [&](const Tensor& t) {
                return ca::sin(ca::max_unpool(t, r.indices, ca::Dims(std::span(shape.data() + 2, shape.size() - 2))));
            },
            random_tensor(r.values.shape(), seed));
        for (const double p : {1.0, 1.7, 2.0, 3.0}) {
            expect_gradients(
                [&](const Tensor& t) {
                    return ca::lp_pool(t, {.p = p, .kernel = 2, .stride = 1, .padding = 1, .ceil_mode = true});
                },
                random_tensor(shape, seed, 0.5, 2) * ca::sign(random_tensor(shape, seed + 1)), {.tolerance = 1e-5});
        }
    }
}

TEST(PoolBoxes, EqualPyTorch) {
    using ca::testing::WindowCase;
    const Shape shapes[] = {{}, {2, 3, 11}, {2, 3, 9, 8}, {1, 2, 6, 7, 5}};
    std::vector<WindowCase> adaptive, fractional, unpool, lp;
    const ca::Dims sizes[] = {{}, {4}, {5, 3}, {4, 3, 2}}, larger[] = {{}, {13}, {11, 10}, {8, 9, 7}};
    const char* const names[][2] = {{},
                                    {"adaptive_max_pool_1", "adaptive_max_pool_larger_1"},
                                    {"adaptive_max_pool_2", "adaptive_max_pool_larger_2"},
                                    {"adaptive_max_pool_3", "adaptive_max_pool_larger_3"}};
    const char* const unpools[] = {"", "max_unpool_1", "max_unpool_2", "max_unpool_3"};
    const char* const lps[][4] = {{},
                                  {"lp_pool_1_1", "lp_pool_2_1", "lp_pool_3_1", "lp_pool_1.5_1"},
                                  {"lp_pool_1_2", "lp_pool_2_2", "lp_pool_3_2", "lp_pool_1.5_2"},
                                  {"lp_pool_1_3", "lp_pool_2_3", "lp_pool_3_3", "lp_pool_1.5_3"}};
    for (std::size_t n = 1; n <= 3; ++n) {
        const Shape shape = shapes[n];
        for (std::size_t i = 0; i < 2; ++i) {
            adaptive.push_back(
                {names[n][i], shape, [size = i == 0 ? sizes[n] : larger[n]](const std::vector<Tensor>& t) {
                     const auto r = ca::adaptive_max_pool_with_indices(t[0], {.size = size});
                     return std::vector<Tensor>{r.values, r.indices};
                 }});
        }
        unpool.push_back({unpools[n], shape, [shape](const std::vector<Tensor>& t) {
                              const auto r = ca::max_pool_with_indices(t[0], {.kernel = 2});
                              const ca::Dims to(std::span(shape.data() + 2, shape.size() - 2));
                              return std::vector<Tensor>{ca::max_unpool(r.values * 2, r.indices, to)};
                          }});
        const double powers[] = {1, 2, 3, 1.5};
        for (std::size_t i = 0; i < 4; ++i) {
            lp.push_back({lps[n][i], shape, [p = powers[i]](const std::vector<Tensor>& t) {
                              return std::vector<Tensor>{ca::lp_pool(t[0], {.p = p, .kernel = 3, .stride = 2})};
                          }});
        }
    }
    const auto add_fractional = [&](const char* name, std::size_t n, const ca::Dims& size) {
        const Shape shape = shapes[n];
        std::vector<double> u(static_cast<std::size_t>(shape[0] * shape[1]) * n);
        for (std::size_t i = 0; i < u.size(); ++i) u[i] = (std::sin(3.1 * static_cast<double>(i)) + 1) / 2.001;
        const Tensor samples = ca::tensor(u, {shape[0], shape[1], static_cast<std::int64_t>(n)});
        fractional.push_back({name, shape, [samples, size](const std::vector<Tensor>& t) {
                                  const auto r =
                                      ca::fractional_max_pool(t[0], {.kernel = 2, .size = size, .samples = samples});
                                  return std::vector<Tensor>{r.values, r.indices};
                              }});
    };
    add_fractional("fractional_max_pool_2", 2, {5, 4});
    add_fractional("fractional_max_pool_3", 3, {3, 4, 2});
    ca::testing::expect_torch_values("adaptive_max_pool", adaptive);
    ca::testing::expect_torch_values("fractional_max_pool", fractional);
    ca::testing::expect_torch_values("max_unpool", unpool);
    ca::testing::expect_torch_values("lp_pool", lp);
}

TEST(PoolBoxes, EmptyTensors) {
    for (const Shape& shape : {Shape{0, 3, 4, 4}, Shape{2, 0, 4, 4}}) {
        const Tensor x = ca::zeros(shape).requires_grad();
        const Tensor y = ca::adaptive_max_pool(x, {.size = 2}), z = ca::lp_pool(x, {.kernel = 2});
        const Tensor w = ca::fractional_max_pool(x, {.kernel = 2, .size = 2}).values;
        EXPECT_EQ(y.eval().shape(), (Shape{shape[0], shape[1], 2, 2}));
        EXPECT_EQ(ca::backward(ca::sum(y) + ca::sum(z) + ca::sum(w)).at(x).eval().shape(), shape);
    }
}

TEST(PoolBoxesErrors, Everything) {
    const Tensor x = ca::ones({1, 2, 4, 4});
    constexpr std::int64_t huge = std::int64_t{1} << 59;
    for (const auto adaptive : {ca::adaptive_max_pool}) {
        const auto call = [&](const Tensor& t, const ca::PerAxis& size) {
            (void)adaptive(t, {.size = size}, ca::Where::current());
            (void)ca::adaptive_max_pool_with_indices(t, {.size = size});
        };
        expect_error("value/option", [&] { call(x, {}); });
        expect_error("value/option", [&] { call(x, 0); });
        expect_error("value/option", [&] { call(x, {2, -5}); });
        expect_error("value/option", [&] { call(x, {huge, -(std::int64_t{1} << 38)}); });
        expect_error("value/count", [&] { call(x, {1, 1, 1, 1}); });
        expect_error("shape/overflow", [&] { call(x, {huge, 64}); });
        expect_error("pool/rank", [&] { call(ca::ones({4, 4}), 2); });
        expect_error("pool/empty", [&] { call(ca::ones({1, 1, 0}), 2); });
        expect_error("tensor/undefined", [&] { call(Tensor(), 2); });
    }
    const auto fractional = [](const Tensor& t, const ca::FractionalMaxPoolOptions& o) {
        (void)ca::fractional_max_pool(t, o);
    };
    expect_error("value/option", [&] { fractional(x, {.size = 2}); });
    expect_error("value/option", [&] { fractional(x, {.kernel = 0, .size = 2}); });
    expect_error("value/option", [&] { fractional(x, {.kernel = 2, .size = 0}); });
    expect_error("value/option", [&] { fractional(x, {.kernel = 2, .size = -3}); });
    expect_error("value/option", [&] { fractional(x, {.kernel = 2}); });
    expect_error("value/option", [&] { fractional(x, {.kernel = 2, .size = 2, .ratio = {0.5}}); });
    expect_error("value/option", [&] { fractional(x, {.kernel = 2, .ratio = {1.5}}); });
    expect_error("value/option", [&] { fractional(x, {.kernel = 2, .ratio = {std::nan("")}}); });
    expect_error("value/option", [&] { fractional(x, {.kernel = 2, .ratio = {0.1}}); });  // rounds to 0
    expect_error("value/count", [&] { fractional(x, {.kernel = 2, .ratio = {0.5, 0.5, 0.5}}); });
    expect_error("value/count", [&] { fractional(x, {.kernel = {2, 2, 2}, .size = 2}); });
    expect_error("value/count", [&] { fractional(x, {.kernel = 2, .size = {2, 2, 2}}); });
    expect_error("pool/fractional-size", [&] { fractional(x, {.kernel = 2, .size = 4}); });
    expect_error("pool/fractional-size", [&] { fractional(x, {.kernel = 2, .size = huge}); });
    expect_error("pool/rank", [&] { fractional(ca::ones({4, 4}), {.kernel = 2, .size = 2}); });
    expect_error("pool/empty", [&] { fractional(ca::ones({1, 1, 0}), {.kernel = 1, .size = 1}); });
    expect_error("shape/mismatch", [&] { fractional(x, {.kernel = 2, .size = 2, .samples = ca::ones({1, 2, 3})}); });
    expect_error("dtype/unsupported", [&] {
        fractional(x, {.kernel = 2, .size = 2, .samples = ca::ones({1, 2, 2}, ca::i32)});
    });
    const Tensor v = ca::ones({1, 2, 3}), i = ca::zeros({1, 2, 3}, ca::i64);
    expect_error("pool/rank", [&] { (void)ca::max_unpool(ca::ones({3}), ca::zeros({3}, ca::i64), {5}); });
    expect_error("dtype/unsupported", [&] { (void)ca::max_unpool(v, v, {5}); });
    expect_error("shape/mismatch", [&] { (void)ca::max_unpool(v, ca::zeros({1, 2, 4}, ca::i64), {5}); });
    expect_error("value/count", [&] { (void)ca::max_unpool(v, i, {5, 5}); });
    expect_error("shape/negative", [&] { (void)ca::max_unpool(v, i, {-5}); });
    expect_error("shape/overflow", [&] { (void)ca::max_unpool(v, i, {std::numeric_limits<std::int64_t>::max()}); });
    expect_error("tensor/undefined", [&] { (void)ca::max_unpool(Tensor(), i, {5}); });
    expect_error("tensor/undefined", [&] { (void)ca::max_unpool(v, Tensor(), {5}); });
    const auto lp = [](const Tensor& t, const ca::LpPoolOptions& o) { (void)ca::lp_pool(t, o); };
    for (const double p : {0.0, -1.0, std::nan("")})
        expect_error("value/option", [&] { lp(x, {.p = p, .kernel = 2}); });
    for (const double p : {1.0, 2.0, 2.5, inf}) {
        expect_error("value/option", [&] { lp(x, {.p = p}); });
        expect_error("value/option", [&] { lp(x, {.p = p, .kernel = 2, .stride = 0}); });
        expect_error("value/option", [&] { lp(x, {.p = p, .kernel = 2, .dilation = 0}); });
        expect_error("value/option", [&] { lp(x, {.p = p, .kernel = 2, .padding = -1}); });
        expect_error("value/count", [&] { lp(x, {.p = p, .kernel = {2, 2, 2}}); });
        expect_error("pool/padding", [&] { lp(x, {.p = p, .kernel = 2, .padding = 2}); });
        expect_error("pool/kernel-too-large", [&] { lp(x, {.p = p, .kernel = 5}); });
        expect_error("pool/rank", [&] { lp(ca::ones({4, 4}), {.p = p, .kernel = 2}); });
    }
    expect_error("dtype/unsupported", [&] { lp(x.to(ca::i32), {.kernel = 2}); });
    expect_error("tensor/undefined", [&] { lp(Tensor(), {.kernel = 2}); });
}

}  // namespace
