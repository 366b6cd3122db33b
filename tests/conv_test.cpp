// Convolution: its three roles against a plain sum over products, on every implementation, in every dtype and layout;
// published cases by their values; adjoint identities; gradients of gradients; errors.
#include "calor/conv.h"

#include <gtest/gtest.h>

#include "calor/calor.h"
#include "conv_problems.h"
#include "sanitized.h"

namespace ca = calor;
using ca::Dims;
using ca::DType;
using ca::Shape;
using ca::Tensor;
using namespace ca::testing;  // NOLINT: the checks of this file

namespace {

TEST(Conv, EqualsThePlainSumInF32AndF64) {
    for (std::uint32_t seed = 0; seed < seeds(sampled(400U), 30); ++seed) {
        check_problem(random_problem(1 + seed % 5, seed), seed % 2 ? ca::f64 : ca::f32, seed % 2 ? ca::f64 : ca::f32,
                      seed);
    }
}

TEST(Conv, EqualsThePlainSumInEveryOtherDtype) {
    const DType dtypes[] = {ca::f16, ca::bf16, ca::i64, ca::i32, ca::i16, ca::i8, ca::u64, ca::u32, ca::u16, ca::u8};
    for (std::uint32_t seed = 0; seed < seeds(sampled(300U), 30); ++seed)
        check_problem(random_problem(1 + seed % 5, seed), dtypes[seed % 10], dtypes[seed % 10], seed);
}

TEST(Conv, BlocksOfTheImplicitGemm) {  // several tiles, inner blocks and parts
    Problem p{{2, 140, 9, 10}, {130, 140, 3, 3}, {2, 130, 9, 5}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 1};
    check_problem(p, ca::f64, ca::f64, 1);
    p = {{3, 2, 60, 61}, {3, 2, 2, 2}, {3, 3, 60, 60}, {1, 1}, {1, 1}, {1, 0}, {0, 0}, 1};
    check_problem(p, ca::f64, ca::f64, 2);
    check_problem(p, ca::u32, ca::u32, 3);
}

TEST(Conv, ReadsBroadcastInputs) {
    const Tensor x = ca::expand(random_tensor({1, 1, 1, 5}, 1), {2, 3, 4, 5}),
                 w = ca::expand(random_tensor({4, 1, 2, 1}, 2), {4, 3, 2, 2});
    const std::vector<double> dense = ca::conv(x + 0, w + 0, {.padding = 1}).to_vector<double>();
    for (const char* choice : conv_choices) {
        const ca::testing::Disable guard(choice);
        for (const DType dtype : {ca::f64, ca::f32, ca::bf16}) {
            const std::vector<double> got =
                ca::conv(x.to(dtype), ca::expand(random_tensor({4, 1, 2, 1}, 2).to(dtype), {4, 3, 2, 2}),
                         {.padding = 1})
                    .to(ca::f64)
                    .to_vector<double>();
            for (std::size_t i = 0; i < dense.size(); ++i) {
                EXPECT_NEAR(got[i], dense[i], dtype == ca::f64 ? 1e-12 : dtype == ca::f32 ? 1e-5 : 0.1) << choice;
            }
        }
    }
}

TEST(Conv, RolesAreAdjoint) {
    for (std::uint32_t seed = 0; seed < seeds(sampled(2000U), 60); ++seed) {
        const Problem p = random_problem(1 + seed % 6, seed + 7000);
        const Tensor x = random_tensor(p.x, seed), w = random_tensor(p.w, seed + 1), gy = random_tensor(p.y, seed + 2);
        const double y = ca::testing::dot({ca::conv(x, w, p.options())}, {gy});
        const double by_x = ca::testing::dot({ca::conv_input_grad(gy, w, p.sizes(), p.options())}, {x});
        const double by_w = ca::testing::dot({ca::conv_weight_grad(x, gy, p.kernel(), p.options())}, {w});
        const double scale = 1e-12 * static_cast<double>(1 + ca::numel(p.x) + ca::numel(p.w));
        ASSERT_NEAR(y, by_x, scale) << seed;
        ASSERT_NEAR(y, by_w, scale) << seed;
    }
}

TEST(Conv, GradientsOfAnyOrder) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(30U); ++seed) {
        const Problem p = random_problem(1 + seed % 4, seed + 100);
        const std::vector<Tensor> inputs = {random_tensor(p.x, seed), random_tensor(p.w, seed + 1),
                                            random_tensor({p.w[0]}, seed + 2)};
        expect_gradients(
            [&](const std::vector<Tensor>& t) { return std::vector<Tensor>{ca::conv(t[0], t[1], t[2], p.options())}; },
            inputs);
        expect_gradients(
            [&](const std::vector<Tensor>& t) {
                return std::vector<Tensor>{ca::conv_input_grad(t[0], t[1], p.sizes(), p.options())};
            },
            {random_tensor(p.y, seed), inputs[1]});
        expect_gradients(
            [&](const std::vector<Tensor>& t) {
                return std::vector<Tensor>{ca::conv_weight_grad(t[0], t[1], p.kernel(), p.options())};
            },
            {inputs[0], random_tensor(p.y, seed)});
    }
}

TEST(Conv, TheGradientOfTheBiasAlone) {
    const Tensor x = random_tensor({2, 3, 4, 4}, 1), w = random_tensor({5, 3, 3, 3}, 2);
    const Tensor b = random_tensor({5}, 3).requires_grad();
    const Tensor g = ca::backward(ca::sum(ca::conv(x, w, b))).at(b);
    EXPECT_EQ(g.to_vector<double>(), std::vector<double>(5, 8.0));  // 2 samples, 2 x 2 positions
}

TEST(ConvCases, FourSpatialAxes) {
    for (const DType dtype : {ca::f64, ca::f32, ca::bf16}) {
        const Tensor x = ca::ones({1, 1, 3, 3, 3, 3}, dtype).requires_grad(),
                     w = ca::ones({1, 1, 3, 3, 3, 3}, dtype).requires_grad();
        const Tensor y = ca::conv(x, w, {.padding = 1});
        const std::vector<double> v = values_of(y);
        EXPECT_EQ(total(y.to(ca::f64)), 2401);
        EXPECT_EQ(v[40], 81);  // the centre
        EXPECT_EQ(v[0], 16);
        EXPECT_EQ(v[39], 54);
        EXPECT_EQ(v[36], 36);  // two border axes
        const Tensor gw = ca::backward(ca::sum(y)).at(w);
        const std::vector<double> taps = values_of(gw);
        for (int t = 0; t < 81; ++t) {
            double expected = 1;
            for (int rest = t, a = 0; a < 4; ++a, rest /= 3) expected *= rest % 3 == 1 ? 3 : 2;
            EXPECT_EQ(taps[at(t)], expected);
        }
    }
}

TEST(ConvCases, StridedFourSpatialAxes) {
    const Tensor y = ca::conv(ca::ones({1, 1, 5, 5, 5, 5}), ca::ones({1, 1, 3, 3, 3, 3}), {.stride = 2, .padding = 1});
    EXPECT_EQ(y.shape(), (Shape{1, 1, 3, 3, 3, 3}));
    const std::vector<double> v = values_of(y);
    EXPECT_EQ(total(y), 2401);
    EXPECT_EQ(v[0], 16);
    EXPECT_EQ(v[40], 81);
}

TEST(ConvCases, FiveAndSixSpatialAxes) {
    for (const std::int64_t n : {5, 6}) {
        Shape shape(n + 2, 2);
        shape[0] = shape[1] = 1;
        const std::vector<double> v = values_of(ca::conv(ca::ones(shape), ca::ones(shape), {.padding = 1}));
        EXPECT_EQ(std::ssize(v), n == 5 ? 243 : 729);
        double sum = 0, high = 0, low = 100;
        for (const double value : v) {
            sum += value;
            high = std::max(high, value);
            low = std::min(low, value);
        }
        EXPECT_EQ(sum, n == 5 ? 1024 : 4096);
        EXPECT_EQ(high, n == 5 ? 32 : 64);
        EXPECT_EQ(low, 1);
    }
}

TEST(ConvCases, MixedOptionsInFourSpatialAxes) {
    const Tensor y = ca::conv(counting({2, 2, 3, 4, 3, 2}, 0, 10), counting({3, 2, 2, 2, 2, 2}, -40, 7),
                              {.stride = {1, 2, 1, 1}, .padding = {0, 1, 1, 0}, .dilation = {1, 1, 2, 1}});
    EXPECT_EQ(y.shape(), (Shape{2, 3, 2, 3, 3, 1}));
    const std::vector<double> v = values_of(y);
    EXPECT_NEAR(total(y), 30884.5714285714, 1e-8);
    EXPECT_NEAR(v[0], -85.65714286, 1e-7);
    EXPECT_NEAR(v[1], -182.4, 1e-7);
    EXPECT_NEAR(v[2], -97.2, 1e-7);
    EXPECT_NEAR(v[3], -241.37142857, 1e-7);
    EXPECT_NEAR(v.back(), 1024.97142857, 1e-7);
}

TEST(ConvCases, TransposedIsTheAdjointInFourSpatialAxes) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(50U); ++seed) {
        const Problem p = random_problem(4, seed + 500);
        const Tensor x = random_tensor(p.x, seed), w = random_tensor(p.w, seed + 1), y = random_tensor(p.y, seed + 2);
        const ca::ConvTransposeOptions o{.stride = p.stride,
                                         .padding = ca::WindowPadding(p.low, p.high),
                                         .output_size = p.sizes(),
                                         .dilation = p.dilation,
                                         .groups = p.groups};
        EXPECT_NEAR(ca::testing::dot({ca::conv(x, w, p.options())}, {y}),
                    ca::testing::dot({x}, {ca::conv_transpose(y, w, o)}), 1e-10);
    }
}

TEST(ConvCases, KernelEqualToStride) {
    const Tensor x = random_tensor({16, 64, 4, 4}, 1), w = random_tensor({64, 3, 8, 8}, 2);
    const Tensor y = ca::conv_transpose(x, w, {.stride = 8});
    EXPECT_EQ(y.shape(), (Shape{16, 3, 32, 32}));
    const Tensor patch = ca::matmul(ca::reshape(ca::permute(x, {0, 2, 3, 1}), {256, 64}), ca::reshape(w, {64, 192}));
    const Tensor expected =
        ca::reshape(ca::permute(ca::reshape(patch, {16, 4, 4, 3, 8, 8}), {0, 3, 1, 4, 2, 5}), {16, 3, 32, 32});
    const std::vector<double> got = values_of(y), want = values_of(expected);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-11);
    EXPECT_EQ(ca::conv_transpose(ca::ones({1, 4, 2, 2, 2, 2}), ca::ones({4, 3, 3, 3, 3, 3}), {.stride = 3}).shape(),
              (Shape{1, 3, 6, 6, 6, 6}));
}

TEST(ConvCases, SamePadding) {
    const Tensor x = ca::tensor({{{1.f, 2.f, 3.f, 4.f, 5.f}}});
    EXPECT_EQ(values_of(ca::conv(x, ca::ones({1, 1, 2}), {.padding = ca::same})), (std::vector<double>{3, 5, 7, 9, 5}));
    EXPECT_EQ(values_of(ca::conv(x, ca::ones({1, 1, 4}), {.padding = ca::same})),
              (std::vector<double>{6, 10, 14, 12, 9}));
    // Stride 2: ceil(5 / 2) = 3 positions, total = 2 * 2 + 3 - 5 = 2, one on each side.
    EXPECT_EQ(values_of(ca::conv(x, ca::ones({1, 1, 3}), {.stride = 2, .padding = ca::same})),
              (std::vector<double>{3, 9, 9}));
    // An even size: total = 1 * 2 + 3 - 4 = 1, all of it behind.
    EXPECT_EQ(values_of(ca::conv(ca::tensor({{{1.f, 2.f, 3.f, 4.f}}}), ca::ones({1, 1, 3}),
                                 {.stride = 2, .padding = ca::same})),
              (std::vector<double>{6, 7}));
    EXPECT_EQ(values_of(ca::conv(x, ca::ones({1, 1, 3}), {.padding = ca::valid})), (std::vector<double>{6, 9, 12}));
    EXPECT_EQ(values_of(ca::conv(x, ca::ones({1, 1, 3}), {.padding = {{2, 0}}})),
              (std::vector<double>{1, 3, 6, 9, 12}));
    EXPECT_EQ(ca::conv_transpose(x, ca::ones({1, 1, 3}), {.stride = 2, .padding = ca::same}).shape(),
              (Shape{1, 1, 10}));
}

TEST(ConvCases, DepthwiseStridedOnesForEveryGroupCount) {
    for (std::int64_t c = 1; c <= 64; ++c) {
        for (const DType dtype : {ca::f32, ca::f64}) {
            const Tensor x = ca::ones({1, c, 6, 6}, dtype).requires_grad(),
                         w = ca::ones({c, 1, 3, 3}, dtype).requires_grad();
            const auto g = ca::backward(ca::sum(ca::conv(x, w, {.stride = 2, .padding = 1, .groups = c})));
            const std::vector<double> gw = values_of(g.at(w)), gx = values_of(g.at(x));
            const double taps[] = {4, 6, 6, 6, 9, 9, 6, 9, 9}, row[] = {1, 2, 1, 2, 1, 1};
            for (std::size_t i = 0; i < gw.size(); ++i) ASSERT_EQ(gw[i], taps[i % 9]) << c;
            for (std::size_t i = 0; i < gx.size(); ++i) {
                const std::size_t r = i / 6 % 6;
                ASSERT_EQ(gx[i], row[i % 6] * (r == 1 || r == 3 ? 2 : 1)) << c;
            }
        }
    }
}

TEST(ConvCases, DepthwiseStridedCounting) {
    for (const DType dtype : {ca::f32, ca::f64}) {
        const Tensor x = counting({1, 4, 4, 4}).to(dtype).requires_grad(),
                     w = counting({4, 1, 3, 3}).to(dtype).requires_grad();
        const Tensor b = counting({4}).to(dtype).requires_grad();
        const Tensor y = ca::conv(x, w, b, {.stride = 2, .padding = 1, .groups = 4});
        const auto g = ca::backward(ca::sum(y), {.retain_graph = true});
        const auto first = [](const Tensor& t, std::ptrdiff_t from, std::ptrdiff_t n) {
            const auto v = values_of(t);
            return std::vector<double>(v.begin() + from, v.begin() + from + n);
        };
        EXPECT_EQ(first(y, 0, 4), (std::vector<double>{73, 154, 279, 438}));
        EXPECT_EQ(first(g.at(x), 0, 16), (std::vector<double>{4, 8, 4, 5, 8, 16, 8, 10, 4, 8, 4, 5, 7, 14, 7, 8}));
        EXPECT_EQ(first(g.at(w), 0, 9), (std::vector<double>{5, 10, 12, 10, 20, 24, 18, 36, 40}));
        EXPECT_EQ(first(g.at(w), 27, 9), (std::vector<double>{53, 106, 108, 106, 212, 216, 114, 228, 232}));
        EXPECT_EQ(values_of(g.at(b)), std::vector<double>(4, 4.0));
    }
}

TEST(ConvCases, DilatedWeightGradient) {
    const Tensor x = ca::tensor({{{7.f, 3.f}}, {{3.f, 2.f}}}).requires_grad(),
                 w = ca::tensor({{{3.f, 6.f}}, {{4.f, 2.f}}}).requires_grad();
    const Tensor y = ca::conv(x, w, {.stride = 2, .padding = 1, .dilation = 2});
    const auto g = ca::backward(ca::sum(y));
    EXPECT_EQ(values_of(y), (std::vector<double>{18, 6, 12, 4}));
    EXPECT_EQ(values_of(g.at(w)), (std::vector<double>{0, 5, 0, 5}));
    EXPECT_EQ(values_of(g.at(x)), (std::vector<double>{0, 8, 0, 8}));
}

TEST(ConvCases, DilatedTransposed) {
    const Tensor x = ca::tensor({{{{0.f, 0.f, 0.f}, {0.f, 1.f, 0.f}, {0.f, 0.f, 0.f}}}}),
                 w = counting({1, 1, 3, 3}, 1).to(ca::f32);
    const std::vector<double> y = values_of(ca::conv_transpose(x, w, {.stride = 2, .padding = 2, .dilation = 2}));
    ASSERT_EQ(y.size(), 25U);
    for (int r = 0; r < 5; ++r) {
        for (int c = 0; c < 5; ++c) EXPECT_EQ(y[at(r * 5 + c)], r % 2 == 0 && c % 2 == 0 ? r / 2 * 3 + c / 2 + 1 : 0);
    }
}

TEST(ConvCases, TransposedWithAUnitAxis) {
    const Tensor y = ca::conv_transpose(counting({1, 1, 1, 4, 4}, 1), ca::ones({1, 1, 1, 4, 4}, ca::f64),
                                        {.stride = {1, 4, 4}, .padding = {0, 2, 2}});
    EXPECT_EQ(y.shape(), (Shape{1, 1, 1, 12, 12}));
    const std::vector<double> v = values_of(y);
    EXPECT_EQ(total(y), 1224);
    EXPECT_EQ(std::vector<double>(v.begin(), v.begin() + 12),
              (std::vector<double>{1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4}));
    EXPECT_EQ(std::vector<double>(v.end() - 12, v.end()),
              (std::vector<double>{13, 13, 14, 14, 14, 14, 15, 15, 15, 15, 16, 16}));
}

TEST(ConvCases, GradientsOfGradientsCarryAGraph) {
    const Tensor w = random_tensor({3, 2, 3, 3}, 1).requires_grad(), x = random_tensor({1, 2, 5, 5}, 2).requires_grad();
    const Tensor y = ca::conv(x, w);
    const Tensor gx = ca::gradients({ca::sum(y * y)}, {x}, {}, {.create_graph = true})[0];
    ASSERT_TRUE(gx.tracked());
    const Tensor gw = ca::backward(ca::sum(gx * gx)).at(w);
    EXPECT_GT(std::abs(total(gw)), 0);
}

TEST(ConvCases, IntegersWrap) {
    const Tensor x = ca::full({1, 1, 2}, std::int64_t{1} << 62, ca::i64), w = ca::full({1, 1, 2}, 3, ca::i64);
    EXPECT_EQ(ca::conv(x, w).item<std::int64_t>(), std::numeric_limits<std::int64_t>::min());  // 6 * 2^62 mod 2^64
    const Tensor b = ca::full({1, 3, 4, 4}, 7 << 12, ca::i16);
    const Tensor y = ca::conv(b, ca::full({1, 3, 2, 2}, 5, ca::i16));  // 420 * 2^12 mod 2^16 = 4 * 2^12
    EXPECT_EQ(y.dtype(), ca::i16);
    EXPECT_EQ(y.to_vector<std::int16_t>()[0], 16384);
}

TEST(Conv, EmptyBatchesAndChannels) {
    for (const DType dtype : {ca::f32, ca::f64, ca::bf16, ca::i32}) {
        const Tensor x = ca::zeros({0, 2, 5, 5}, dtype), w = ca::ones({3, 2, 3, 3}, dtype),
                     gy = ca::zeros({0, 3, 3, 3}, dtype);
        EXPECT_EQ(ca::conv(x, w).shape(), (Shape{0, 3, 3, 3}));
        EXPECT_EQ(values_of(ca::conv(x, w)).size(), 0U);
        EXPECT_EQ(values_of(ca::conv_weight_grad(x, gy, {3, 3})), std::vector<double>(54, 0.0));
        EXPECT_EQ(ca::conv_input_grad(gy, w, {5, 5}).eval().shape(), x.shape());
        // No input channels: the sum is empty. No output channels: so is the result.
        EXPECT_EQ(
            values_of(ca::conv(ca::zeros({1, 0, 3}, dtype), ca::zeros({2, 0, 2}, dtype), ca::full({2}, 5, dtype))),
            std::vector<double>(4, 5.0));
        EXPECT_EQ(values_of(ca::conv_input_grad(ca::zeros({1, 0, 2}, dtype), ca::zeros({0, 2, 2}, dtype), {3})),
                  std::vector<double>(6, 0.0));
        EXPECT_EQ(ca::conv(ca::ones({1, 2, 3}, dtype), ca::zeros({0, 2, 2}, dtype)).eval().shape(), (Shape{1, 0, 2}));
    }
    const Tensor x = ca::zeros({0, 2, 5, 5}), w = ca::ones({3, 2, 3, 3}).requires_grad(),
                 b = ca::ones({3}).requires_grad();
    const auto g = ca::backward(ca::sum(ca::conv(x, w, b)));
    EXPECT_EQ(values_of(g.at(w)), std::vector<double>(54, 0.0));
    EXPECT_EQ(values_of(g.at(b)), std::vector<double>(3, 0.0));
}

TEST(Conv, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    const Problem p{{3, 8, 3, 4, 30, 31}, {6, 8, 2, 1, 3, 3}, {3, 6, 2, 4, 30, 31}, {1, 1, 1, 1},
                    {1, 1, 1, 1},         {0, 0, 1, 1},       {0, 0, 1, 1},         1};
    const Tensor x = random_tensor(p.x, 1, -1, 1, ca::f32), w = random_tensor(p.w, 2, -1, 1, ca::f32),
                 gy = random_tensor(p.y, 3, -1, 1, ca::f32);
    std::vector<std::vector<float>> first;
    for (const int threads : {1, 2, 3, 5}) {
        ca::set_thread_count(threads);
        const std::vector<std::vector<float>> now = {
            ca::conv(x, w, p.options()).to_vector<float>(),
            ca::conv_input_grad(gy, w, p.sizes(), p.options()).to_vector<float>(),
            ca::conv_weight_grad(x, gy, p.kernel(), p.options()).to_vector<float>()};
        if (first.empty()) first = now;
        EXPECT_TRUE(now == first) << threads;
    }
    ca::set_thread_count(before);
}

std::string message_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const ca::Error& e) {
        return e.what();
    }
    return {};
}

TEST(ConvErrors, Ranks) {
    const std::string merged = message_of([] { ca::conv(ca::ones({5, 3, 1, 22, 22}), ca::ones({16, 3, 3, 3})); });
    EXPECT_NE(merged.find("rank 5, expected 4"), std::string::npos) << merged;
    EXPECT_NE(merged.find("f32[5, 3, 1, 22, 22]"), std::string::npos) << merged;
    EXPECT_NE(merged.find("f32[16, 3, 3, 3]"), std::string::npos) << merged;
    EXPECT_NE(merged.find("merge the extra axis"), std::string::npos) << merged;
    expect_error("conv/rank", [] { ca::conv(ca::ones({5, 3, 1, 22, 22}), ca::ones({16, 3, 3, 3})); });
    expect_error("conv/rank", [] { ca::conv(ca::ones({10, 3, 28, 28, 28}), ca::ones({20, 3, 4, 7})); });
    expect_error("conv/rank", [] { ca::conv(ca::ones({3, 8, 8}), ca::ones({16, 3, 3, 3})); });
    expect_error("shape/rank", [] { ca::conv(ca::ones({3, 8}), ca::ones({16, 3})); });
    expect_error("shape/rank", [] { ca::conv_weight_grad(ca::ones({3, 8, 4}), ca::ones({3, 8}), {2}); });
    expect_error("shape/rank", [] { ca::conv_weight_grad(ca::ones({3, 8}), ca::ones({3, 8}), {}); });
    expect_error("conv/rank", [] { ca::conv_transpose(ca::ones({3, 8, 4}), ca::ones({3, 8, 4, 4})); });
    expect_error("tensor/undefined", [] { ca::conv(Tensor(), ca::ones({1, 1, 1})); });
    expect_error("tensor/undefined", [] { ca::conv(ca::ones({1, 1, 1}), Tensor()); });
}

TEST(ConvErrors, TheChannelsMessage) {
    const std::string text = message_of([] {
        ca::conv(ca::ones({2, 6, 32, 32}), ca::ones({8, 4, 3, 3}), {.groups = 2});
    });
    EXPECT_EQ(text.find("calor::ShapeError [conv/channels] at conv_test.cpp:"), 0U) << text;
    EXPECT_NE(text.find("\n  conv: the input has 6 channels, the weight expects 8 (4 per group, 2 groups)\n"
                        "  input f32[2, 6, 32, 32], weight f32[8, 4, 3, 3]\n"
                        "  hint: a weight is [out, in / groups, kernel...].   More: calor explain conv/channels"),
              std::string::npos)
        << text;
    expect_error("conv/channels", [] { ca::conv_transpose(ca::ones({2, 6, 8}), ca::ones({8, 4, 3})); });
}

TEST(ConvErrors, Options) {
    const Tensor x = ca::ones({1, 1, 8}), w = ca::ones({1, 1, 3}), gy = ca::ones({1, 1, 6});
    const auto every_entry = [&](const char* code, const ca::ConvOptions& o) {
        expect_error(code, [&] { ca::conv(x, w, o); });
        expect_error(code, [&] { ca::conv_input_grad(gy, w, {8}, o); });
        expect_error(code, [&] { ca::conv_weight_grad(x, gy, {3}, o); });
        expect_error(code, [&] {
            ca::conv_transpose(x, w,
                               {.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups});
        });
    };
    every_entry("value/option", {.dilation = -1});
    every_entry("value/option", {.dilation = 0});
    every_entry("value/option", {.stride = 0});
    every_entry("value/option", {.padding = -1});
    every_entry("value/option", {.padding = {{0, -1}}});
    every_entry("value/count", {.stride = {1, 1}});
    every_entry("value/count", {.padding = {{1, 1}, {1, 1}}});
    every_entry("value/count", {.dilation = {1, 2}});
    every_entry("conv/groups", {.groups = 0});
    every_entry("conv/groups", {.groups = -2});
    every_entry("value/option", {.padding = std::numeric_limits<std::int64_t>::max()});
    every_entry("value/option", {.dilation = std::numeric_limits<std::int64_t>::max()});
    EXPECT_NE(message_of([&] { ca::conv(x, w, {.dilation = -1}); }).find("dilation is -1"), std::string::npos);
    EXPECT_NE(message_of([&] { ca::conv(x, w, {.padding = -1}); }).find("padding is -1"), std::string::npos);
    expect_error("conv/groups", [] { ca::conv(ca::ones({1, 4, 8}), ca::ones({3, 2, 3}), {.groups = 2}); });
    expect_error("conv/groups", [] {
        ca::conv_weight_grad(ca::ones({1, 3, 8}), ca::ones({1, 2, 8}), {1}, {.groups = 2});
    });
    expect_error("conv/kernel-too-large", [&] { ca::conv(x, ca::ones({1, 1, 9})); });
    expect_error("conv/kernel-too-large", [&] { ca::conv(x, w, {.dilation = 4}); });
    expect_error("value/option", [&] { ca::conv(x, ca::ones({1, 1, 0})); });
    expect_error("conv/bias", [&] { ca::conv(x, w, ca::ones({2})); });
    expect_error("conv/bias", [&] { ca::conv(x, w, ca::ones({1, 1})); });
    expect_error("conv/bias", [&] { ca::conv_transpose(x, w, ca::ones({2})); });
    expect_error("dtype/mismatch", [&] { ca::conv(x, w.to(ca::f64)); });
    expect_error("dtype/mismatch", [&] { ca::conv(x, w, ca::ones({1}, ca::f64)); });
    expect_error("dtype/mismatch", [&] { ca::conv_transpose(x, w, ca::ones({1}, ca::f64)); });
    expect_error("dtype/unsupported", [&] { ca::conv(x.to(ca::boolean), w.to(ca::boolean)); });
}

TEST(ConvErrors, EmptySpatialAxes) {
    const Tensor w = ca::ones({1, 1, 1, 1}), none = ca::ones({1, 1, 0, 4}), some = ca::ones({1, 1, 4, 4});
    for (const ca::ConvOptions& o : {ca::ConvOptions{}, ca::ConvOptions{.padding = 2}}) {
        expect_error("conv/empty", [&] { ca::conv(none, w, o); });
        expect_error("conv/empty", [&] { ca::conv_input_grad(some, w, {0, 4}, o); });
        expect_error("conv/empty", [&] { ca::conv_weight_grad(none, some, {1, 1}, o); });
        expect_error("conv/empty", [&] { ca::conv_transpose(none, w); });
    }
    EXPECT_NE(message_of([&] { ca::conv(none, w); }).find("size 0 along spatial axis 0 of [0, 4]"), std::string::npos);
    expect_error("shape/mismatch", [&] { ca::conv_input_grad(none, w, {4, 4}); });
}

TEST(ConvErrors, TransposedSizes) {
    const Tensor x = ca::ones({1, 1, 4}), w = ca::ones({1, 1, 3});
    EXPECT_EQ(ca::conv_transpose(x, w, {.stride = 3, .output_padding = 2}).shape(), (Shape{1, 1, 14}));
    EXPECT_EQ(ca::conv_transpose(x, w, {.stride = 3, .output_size = 13}).shape(), (Shape{1, 1, 13}));
    expect_error("value/option", [&] { ca::conv_transpose(x, w, {.stride = 3, .output_padding = 3}); });
    expect_error("value/option", [&] { ca::conv_transpose(x, w, {.output_padding = -1}); });
    EXPECT_EQ(ca::conv_transpose(x, w, {.output_padding = 1, .dilation = 2}).shape(), (Shape{1, 1, 9}));
    expect_error("value/option", [&] { ca::conv_transpose(x, w, {.output_padding = 2, .dilation = 2}); });
    expect_error("value/option", [&] { ca::conv_transpose(x, w, {.stride = 3, .output_size = 15}); });
    expect_error("value/option", [&] { ca::conv_transpose(x, w, {.stride = 3, .output_size = 11}); });
    expect_error("value/option", [&] { ca::conv_transpose(x, w, {.padding = 4}); });
    expect_error("value/count", [&] { ca::conv_transpose(x, w, {.output_size = {4, 4}}); });
}

TEST(ConvErrors, GradientEntriesCheckShapes) {
    const Tensor x = ca::ones({1, 2, 8, 8}), w = ca::ones({3, 2, 3, 3}), gy = ca::ones({1, 3, 6, 6});
    expect_error("shape/mismatch", [&] { ca::conv_input_grad(gy, w, {9, 8}); });
    expect_error("shape/mismatch", [&] { ca::conv_input_grad(ca::ones({1, 4, 6, 6}), w, {8, 8}); });
    expect_error("value/count", [&] { ca::conv_input_grad(gy, w, {8}); });
    expect_error("value/option", [&] { ca::conv_input_grad(gy, w, {-8, 8}); });
    expect_error("shape/mismatch", [&] { ca::conv_weight_grad(x, gy, {3, 2}); });
    expect_error("shape/mismatch", [&] { ca::conv_weight_grad(x, ca::ones({2, 3, 6, 6}), {3, 3}); });
    expect_error("value/option", [&] { ca::conv_weight_grad(x, gy, {3, 0}); });
    expect_error("conv/kernel-too-large", [&] { ca::conv_weight_grad(x, gy, {1900000000, 1900000000}); });
    expect_error("shape/mismatch", [&] {
        ca::conv_weight_grad(x, gy, {1900000000, 1900000000}, {.padding = 2000000000});
    });
    expect_error("shape/overflow", [&] {
        ca::conv_input_grad(ca::expand(ca::ones({1, 1, 1, 1}), {1, 1, 1900000000, 1900000000}), ca::ones({1, 8, 1, 1}),
                            {1900000000, 1900000000});
    });
}

}  // namespace
