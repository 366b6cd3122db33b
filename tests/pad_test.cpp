// Padding in every mode: rows against the reference over ranks, dtypes and layouts; values; gradients of any order;
// the adjoint identity; errors.
#include <gtest/gtest.h>

#include <limits>

#include "calor/calor.h"
#include "gradient_check.h"
#include "relaid.h"
#include "sanitized.h"
#include "strided.h"
#include "torch_window.h"

namespace ca = calor;
using ca::DType;
using ca::PadMode;
using ca::Shape;
using ca::Tensor;
using ca::testing::Disable;
using ca::testing::expect_error;
using ca::testing::expect_gradients;
using ca::testing::random_tensor;
using ca::testing::values_of;

namespace {

constexpr PadMode modes[] = {PadMode::constant, PadMode::reflect, PadMode::symmetric, PadMode::replicate,
                             PadMode::circular};

struct Problem {
    Shape x;
    std::vector<ca::Padding> paddings;
    ca::PadOptions options;
};

Problem random_problem(std::int64_t rank, std::uint32_t seed) {
    std::mt19937 engine(seed);
    const auto draw = [&](std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(high - low + 1));
    };
    Problem p;
    p.options.mode = modes[draw(0, 4)];
    if (p.options.mode == PadMode::constant) p.options.value = draw(0, 1);
    for (std::int64_t a = 0; a < rank; ++a) {
        p.x.push_back(draw(1, rank > 3 ? 3 : 7));
        if (draw(0, 2) == 0) continue;
        const std::int64_t before = draw(-1, rank > 3 ? 2 : 9);
        const std::int64_t after = draw(before < 0 || p.x.back() == 1 ? 0 : -1, rank > 3 ? 2 : 9);
        p.paddings.push_back({p.x.back() == 1 ? std::max<std::int64_t>(before, 0) : before, after});
        p.options.axes.push_back(draw(0, 1) == 0 ? a : a - rank);
    }
    return p;
}

Tensor padded(const Problem& p, const Tensor& x) { return ca::pad(x, p.paddings, p.options); }

TEST(Pad, ValuesOfEveryMode) {
    const Tensor x = ca::tensor<float>({1, 2, 3});
    const auto at = [&](PadMode mode) { return values_of(ca::pad(x, {{2, 2}}, mode)); };
    EXPECT_EQ(at(PadMode::constant), (std::vector<double>{0, 0, 1, 2, 3, 0, 0}));
    EXPECT_EQ(at(PadMode::reflect), (std::vector<double>{3, 2, 1, 2, 3, 2, 1}));
    EXPECT_EQ(at(PadMode::symmetric), (std::vector<double>{2, 1, 1, 2, 3, 3, 2}));
    EXPECT_EQ(at(PadMode::replicate), (std::vector<double>{1, 1, 1, 2, 3, 3, 3}));
    EXPECT_EQ(at(PadMode::circular), (std::vector<double>{2, 3, 1, 2, 3, 1, 2}));
    EXPECT_EQ(values_of(ca::pad(x, {{1, 1}}, 7)), (std::vector<double>{7, 1, 2, 3, 7}));
    // Wider than the data: NumPy's pad gives the same.
    EXPECT_EQ(values_of(ca::pad(x, {{5, 6}}, PadMode::reflect)),
              (std::vector<double>{2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2, 1}));
    EXPECT_EQ(values_of(ca::pad(x, {{7, 4}}, PadMode::symmetric)),
              (std::vector<double>{1, 1, 2, 3, 3, 2, 1, 1, 2, 3, 3, 2, 1, 1}));
    EXPECT_EQ(values_of(ca::pad(x, {{4, 5}}, PadMode::circular)),
              (std::vector<double>{3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2}));
    const Tensor one = ca::tensor<float>({4});
    for (const PadMode mode : {PadMode::reflect, PadMode::symmetric, PadMode::replicate, PadMode::circular}) {
        EXPECT_EQ(values_of(ca::pad(one, {{2, 1}}, mode)), (std::vector<double>{4, 4, 4, 4}));
    }
    // Cut first, then surround.
    EXPECT_EQ(values_of(ca::pad(ca::tensor<float>({1, 2, 3, 4}), {{-1, 2}}, PadMode::circular)),
              (std::vector<double>{2, 3, 4, 2, 3}));
    const Tensor m = ca::tensor<float>({{1, 2, 3}, {4, 5, 6}});
    EXPECT_EQ(values_of(ca::pad(m, {{1, 0}}, {.mode = PadMode::replicate, .axes = {0}})),
              (std::vector<double>{1, 2, 3, 1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(values_of(ca::pad(m, {{0, 1}, {1, 0}}, {.value = 9, .axes = {1, 0}})),
              (std::vector<double>{9, 9, 9, 9, 1, 2, 3, 9, 4, 5, 6, 9}));
    EXPECT_EQ(values_of(ca::pad(m, {}, PadMode::reflect)), values_of(m));
    EXPECT_EQ(values_of(ca::pad(ca::full({}, 3), {}, PadMode::circular)), (std::vector<double>{3}));
}

TEST(Pad, RowsEqualTheReference) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(600U); ++seed) {
        const Problem p = random_problem(1 + seed % 6, seed);
        const DType dtype = ca::testing::every_dtype[seed % 13];
        const Tensor x = ca::testing::counting(p.x, dtype);
        std::vector<double> want;
        Shape shape;
        {
            const Disable guard("pad_rows,place");
            const Tensor y = padded(p, x);
            shape = y.shape();
            want = values_of(y);
        }
        const Tensor y = padded(p, relaid(x, ca::testing::all_lies[seed / 13 % 4]));
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(y.shape(), shape);
        ASSERT_EQ(values_of(y), want) << seed;
    }
}

TEST(Pad, TheAdjointsRowsEqualTheReference) {
    const DType dtypes[] = {ca::f64, ca::f32, ca::f16, ca::bf16};
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(400U); ++seed) {
        const Problem p = random_problem(1 + seed % 6, seed + 5000);
        const DType dtype = dtypes[seed % 4];
        const Tensor x = random_tensor(p.x, seed).to(dtype);
        const auto pulled = [&](const Tensor& input, ca::testing::Lie lie) {
            const auto v =
                ca::vjp([&](const std::vector<Tensor>& t) { return std::vector<Tensor>{padded(p, t[0])}; }, {input});
            return v.pullback({relaid(random_tensor(v.outputs[0].shape(), seed + 1).to(dtype), lie)})[0];
        };
        std::vector<double> want;
        {
            const Disable guard("pad_rows,place");
            want = values_of(pulled(x, ca::testing::Lie::plain));
        }
        const Tensor got = pulled(relaid(x, ca::testing::all_lies[seed / 2 % 4]), ca::testing::all_lies[seed / 4 % 4]);
        EXPECT_EQ(got.dtype(), dtype);
        const std::vector<double> g = values_of(got);
        ASSERT_EQ(g.size(), want.size());
        for (std::size_t i = 0; i < g.size(); ++i) {
            const double unit = dtype == ca::f64 ? 1e-14 : dtype == ca::f32 ? 1e-5 : dtype == ca::f16 ? 2e-3 : 2e-2;
            ASSERT_NEAR(g[i], want[i], unit * std::max(1.0, std::abs(want[i]))) << seed;
        }
    }
}

TEST(Pad, TheAdjointIdentityOverManyProblems) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(1000U); ++seed) {
        const Problem p = random_problem(1 + seed % 6, seed + 9000);
        ca::PadOptions zero = p.options;
        zero.value = 0;
        const Tensor x = random_tensor(p.x, seed);
        const auto v = ca::vjp(
            [&](const std::vector<Tensor>& t) { return std::vector<Tensor>{ca::pad(t[0], p.paddings, zero)}; }, {x});
        const Tensor u = random_tensor(v.outputs[0].shape(), seed + 1);
        const double left = ca::sum(v.outputs[0] * u).item<double>();
        ASSERT_NEAR(left, ca::sum(x * v.pullback({u})[0]).item<double>(), 1e-12 * (1 + std::abs(left))) << seed;
    }
}

TEST(Pad, GradientsOfAnyOrder) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(30U); ++seed) {
        const Problem p = random_problem(1 + seed % 6, seed + 100);
        expect_gradients([&](const Tensor& x) { return padded(p, x) * padded(p, x); }, random_tensor(p.x, seed));
    }
}

TEST(Pad, EqualsPyTorch) {
    std::vector<ca::testing::WindowCase> cases;
    const auto add = [&](const char* name, const Shape& x, std::vector<ca::Padding> sides, ca::PadOptions options) {
        cases.push_back({name, x, [sides, options](const std::vector<Tensor>& t) {
                             return std::vector<Tensor>{ca::pad(t[0], sides, options)};
                         }});
    };
    const Shape one{2, 3, 11}, two{2, 3, 9, 8}, three{1, 2, 6, 7, 5};
    const ca::PadOptions constant{.value = 1.5}, reflect{.mode = PadMode::reflect},
        replicate{.mode = PadMode::replicate}, circular{.mode = PadMode::circular};
    add("pad_constant_1", one, {{3, 2}}, constant);
    add("pad_reflect_1", one, {{3, 2}}, reflect);
    add("pad_replicate_1", one, {{3, 2}}, replicate);
    add("pad_circular_1", one, {{3, 2}}, circular);
    add("pad_constant_2", two, {{4, 0}, {1, 3}}, constant);
    add("pad_reflect_2", two, {{4, 0}, {1, 3}}, reflect);
    add("pad_replicate_2", two, {{4, 0}, {1, 3}}, replicate);
    add("pad_circular_2", two, {{4, 0}, {1, 3}}, circular);
    add("pad_constant_3", three, {{1, 2}, {0, 3}, {2, 1}}, constant);
    add("pad_reflect_3", three, {{1, 2}, {0, 3}, {2, 1}}, reflect);
    add("pad_replicate_3", three, {{1, 2}, {0, 3}, {2, 1}}, replicate);
    add("pad_circular_3", three, {{1, 2}, {0, 3}, {2, 1}}, circular);
    add("pad_cut_constant", two, {{1, -4}, {-2, 3}}, {.value = 0.5});
    add("pad_cut_replicate", two, {{1, -4}, {-2, 3}}, replicate);
    add("pad_cut_circular", two, {{1, -4}, {-2, 3}}, circular);
    ca::testing::expect_torch_values("pad_", cases);
}

TEST(Pad, KeepsChannelsLast) {
    const Tensor x =
        relaid(random_tensor({2, 16, 6, 6}, 1, -1, 1, ca::f32), ca::testing::Lie::channels_last).requires_grad();
    const Tensor y = ca::pad(x, {{1, 1}, {1, 1}}, PadMode::reflect);
    EXPECT_EQ(ca::testing::strides_of(y)[1], 1);
    EXPECT_EQ(ca::testing::strides_of(ca::backward(ca::sum(y * y)).at(x))[1], 1);
}

TEST(Pad, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    std::vector<std::vector<float>> all;
    for (const int threads : {1, 2, 5}) {
        ca::set_thread_count(threads);
        const Tensor x = random_tensor({40, 30, 31}, 1, -1, 1, ca::f32).requires_grad();
        const Tensor y = ca::pad(x, {{70, 2}, {3, 40}, {50, 1}}, PadMode::symmetric);
        all.push_back(ca::backward(ca::sum(y * y * 0.1)).at(x).to_vector<float>());
        EXPECT_TRUE(all.back() == all.front()) << threads;
    }
    ca::set_thread_count(before);
}

TEST(Pad, IndicesBeyond32Bits) {
    // Three billion positions of one entry each: only what is read is computed.
    const std::int64_t n = std::int64_t{3} << 30;
    EXPECT_EQ(ca::pad(ca::ones({1, 1}, ca::u8), {{n, 0}}, PadMode::replicate).shape(), (Shape{1, n + 1}));
    const Tensor wide = ca::expand(ca::tensor<std::uint8_t>({7}), {n});  // a single real byte
    EXPECT_EQ(values_of(ca::pad(wide, {{-(n - 2), 2}}, PadMode::circular)), (std::vector<double>{7, 7, 7, 7}));
}

TEST(PadErrors, Everything) {
    const Tensor x = ca::ones({2, 3});
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    for (const PadMode mode : modes) {
        expect_error("value/count", [&] { (void)ca::pad(x, {{1, 1}, {1, 1}, {1, 1}}, mode); });
        expect_error("value/count", [&] { (void)ca::pad(x, {{1, 1}}, {.mode = mode, .axes = {0, 1}}); });
        expect_error("axis/range", [&] { (void)ca::pad(x, {{1, 1}}, {.mode = mode, .axes = {2}}); });
        expect_error("axis/duplicate", [&] { (void)ca::pad(x, {{1, 1}, {1, 1}}, {.mode = mode, .axes = {1, -1}}); });
        expect_error("value/option", [&] { (void)ca::pad(x, {{-2, -2}}, mode); });
        expect_error("value/option", [&] { (void)ca::pad(x, {{-huge - 1, 0}}, mode); });
        expect_error("value/option", [&] { (void)ca::pad(x, {{-huge, -huge}}, mode); });
        expect_error("shape/overflow", [&] { (void)ca::pad(x, {{huge, 5}}, mode); });
        expect_error("shape/overflow", [&] { (void)ca::pad(x, {{huge / 2, 0}, {0, 0}}, mode); });
        expect_error("tensor/undefined", [&] { (void)ca::pad(Tensor(), {{1, 1}}, mode); });
        if (mode == PadMode::constant) continue;
        expect_error("pad/empty", [&] { (void)ca::pad(ca::ones({0}), {{1, 1}}, mode); });
        expect_error("pad/empty", [&] { (void)ca::pad(ca::ones({3}), {{-3, 1}}, mode); });
        EXPECT_EQ(ca::pad(ca::ones({0, 2}), {{1, 1}}, mode).eval().shape(), (Shape{0, 4}));
    }
    EXPECT_EQ(values_of(ca::pad(ca::ones({0}), {{1, 1}}, PadMode::constant)), (std::vector<double>{0, 0}));
}

}  // namespace
