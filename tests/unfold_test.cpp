// Windows, unfold, fold and the shuffles: views against plain loops; fold's rows against the reference; the adjoint
// identity; gradients of any order; PyTorch's values; errors.
#include "calor/unfold.h"

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
using ca::Shape;
using ca::Tensor;
using ca::testing::Disable;
using ca::testing::expect_error;
using ca::testing::expect_gradients;
using ca::testing::flat;
using ca::testing::for_each_index;
using ca::testing::random_tensor;
using ca::testing::values_of;

namespace {

struct Problem {
    Shape x;
    ca::WindowsOptions options;
    ca::UnfoldOptions unfold() const {
        return {.kernel = options.kernel,
                .stride = options.stride,
                .padding = options.padding,
                .dilation = options.dilation};
    }
    Shape spatial() const { return Shape(std::span(x.data() + 2, x.size() - 2)); }
};

Problem random_problem(std::int64_t rank, std::uint32_t seed) {
    std::mt19937 engine(seed);
    const auto draw = [&](std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(high - low + 1));
    };
    Problem p;
    p.x = {draw(1, 2), draw(1, 3)};
    ca::Dims kernel, stride, dilation, low, high;
    for (std::int64_t a = 0; a < rank; ++a) {
        const bool small = rank > 3;
        const std::int64_t k = draw(1, small ? 2 : 3), d = draw(1, 2), extent = d * (k - 1) + 1;
        kernel.push_back(k);
        dilation.push_back(d);
        stride.push_back(draw(1, 3));
        low.push_back(draw(0, small ? 1 : 3));
        high.push_back(draw(0, small ? 1 : 3));
        p.x.push_back(std::max<std::int64_t>(draw(1, small ? 3 : 8), extent - low.back() - high.back()));
    }
    p.options = {.kernel = kernel, .stride = stride, .padding = ca::WindowPadding(low, high), .dilation = dilation};
    return p;
}

TEST(Windows, AreStridedViews) {
    const Tensor x = ca::arange(10).to(ca::f32).eval();
    const Tensor w = ca::windows(x, {.kernel = 3, .stride = 2, .dilation = 2, .axes = {0}}).eval();
    EXPECT_EQ(w.shape(), (Shape{3, 3}));
    EXPECT_EQ(values_of(w), (std::vector<double>{0, 2, 4, 2, 4, 6, 4, 6, 8}));
    EXPECT_EQ(ca::testing::strides_of(w), (ca::Strides{2, 2}));
    EXPECT_EQ(ca::graph::value_of(w).storage->data, ca::graph::value_of(x).storage->data);
    // A rolling mean over the first axis of three.
    const Tensor y = random_tensor({6, 2, 3}, 1);
    const Tensor mean = ca::mean(ca::windows(y, {.kernel = 4, .axes = {0}}), {-1});
    EXPECT_EQ(mean.shape(), (Shape{3, 2, 3}));
    EXPECT_NEAR(values_of(mean)[0], (values_of(y)[0] + values_of(y)[6] + values_of(y)[12] + values_of(y)[18]) / 4,
                1e-15);
    // A terabyte of windows over a megabyte.
    const Tensor many = ca::windows(ca::zeros({1 << 20}, ca::u8), {.kernel = 1 << 19, .axes = {-1}}).eval();
    EXPECT_EQ(many.shape(), (Shape{(1 << 19) + 1, 1 << 19}));
    EXPECT_EQ(ca::select(ca::select(many, 0, -1), 0, -1).item<std::uint8_t>(), 0);
}

TEST(Windows, EqualPlainLoopsForEveryDtypeAndRank) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(130U); ++seed) {
        const std::int64_t rank = 1 + seed % 6;
        const Problem p = random_problem(rank, seed);
        const Tensor x = ca::testing::counting(p.x, ca::testing::every_dtype[seed % 13]);
        const Tensor w = ca::windows(relaid(x, ca::testing::all_lies[seed % 4]), p.options);
        const Tensor columns = ca::unfold(relaid(x, ca::testing::all_lies[seed / 2 % 4]), p.unfold());
        const std::vector<double> from = values_of(x), got = values_of(w), matrix = values_of(columns);
        ASSERT_EQ(w.shape().rank(), 2 + 2 * rank);
        for_each_index(w.shape(), [&](const ca::Dims& at) {
            ca::Dims place{at[0], at[1]};
            bool inside = true;
            std::int64_t row = at[1], column = 0;
            for (std::int64_t a = 0; a < rank; ++a) {
                place.push_back(at[a + 2] * p.options.stride.values()[a] +
                                at[a + 2 + rank] * p.options.dilation.values()[a] -
                                p.options.padding.low().values()[a]);
                inside = inside && place[a + 2] >= 0 && place[a + 2] < p.x[a + 2];
                row = row * w.shape()[a + 2 + rank] + at[a + 2 + rank];
                column = column * w.shape()[a + 2] + at[a + 2];
            }
            const double want = inside ? from[flat(p.x, place)] : 0;
            ASSERT_EQ(got[flat(w.shape(), at)], want) << seed;
            ASSERT_EQ(matrix[flat(columns.shape(), {at[0], row, column})], want) << seed;
        });
    }
}

TEST(Fold, RowsEqualTheReference) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(390U); ++seed) {
        const Problem p = random_problem(1 + seed % 6, seed + 700);
        const DType dtype = ca::testing::every_dtype[seed % 12];  // all but bool
        const Shape shape = ca::unfold(ca::zeros(p.x), p.unfold()).shape();
        const Tensor columns = ca::testing::counting(shape, dtype);
        std::vector<double> want;
        {
            const Disable guard("fold_rows");
            want = values_of(ca::fold(columns, p.spatial(), p.unfold()));
        }
        const Tensor y = ca::fold(relaid(columns, ca::testing::all_lies[seed % 4]), p.spatial(), p.unfold());
        EXPECT_EQ(y.shape(), p.x);
        EXPECT_EQ(y.dtype(), dtype);
        ASSERT_EQ(values_of(y), want) << seed;  // sums of small whole numbers are exact, and wrap the same
    }
}

TEST(Fold, CountsHowManyWindowsCoverAnElement) {
    const ca::UnfoldOptions o{.kernel = 3, .padding = 1};
    const Tensor cover = ca::fold(ca::unfold(ca::ones({1, 1, 3, 4}), o), {3, 4}, o);
    EXPECT_EQ(values_of(cover), (std::vector<double>{4, 6, 6, 4, 6, 9, 9, 6, 4, 6, 6, 4}));
    EXPECT_EQ(values_of(ca::fold(ca::full({1, 2, 600}, 200, ca::u8), {601}, {.kernel = 2}))[1], (400 % 256));
    EXPECT_EQ(values_of(ca::fold(ca::full({1, 4096, 1}, 1, ca::f16), {4096}, {.kernel = 4096})),
              std::vector<double>(4096, 1));
}

TEST(Fold, IsTheAdjointOfUnfold) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(1000U); ++seed) {
        const Problem p = random_problem(1 + seed % 6, seed + 3000);
        const Tensor x = random_tensor(p.x, seed);
        const Tensor y = ca::unfold(x, p.unfold());
        const Tensor u = random_tensor(y.shape(), seed + 1);
        const double left = ca::sum(y * u).item<double>();
        const double right = ca::sum(x * ca::fold(u, p.spatial(), p.unfold())).item<double>();
        ASSERT_NEAR(left, right, 1e-12 * (1 + std::abs(left))) << seed;
    }
}

TEST(Fold, GradientsOfAnyOrder) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(24U); ++seed) {
        const Problem p = random_problem(1 + seed % 6, seed + 4000);
        const Tensor x = random_tensor(p.x, seed);
        expect_gradients([&](const Tensor& t) { return ca::unfold(t, p.unfold()) * ca::unfold(t, p.unfold()); }, x);
        expect_gradients([&](const Tensor& t) { return ca::sin(ca::windows(t, p.options)); }, x);
        expect_gradients([&](const Tensor& t) { return ca::sin(ca::fold(t, p.spatial(), p.unfold())); },
                         random_tensor(ca::unfold(x, p.unfold()).shape(), seed));
    }
}

TEST(Fold, RoundsHalvesOnce) {
    // 1 + 8 * 2^-9 in bf16: added one by one every step would round away.
    std::vector<double> v(9, 0x1p-9);
    v[0] = 1;
    const Tensor columns = ca::tensor(v, {1, 9, 1}).to(ca::bf16);
    const Tensor y = ca::fold(ca::reshape(columns, {1, 1, 9}), {9}, {.kernel = 1});
    EXPECT_EQ(ca::sum(y.to(ca::f64)).item<double>(), 1 + 8 * 0x1p-9);
    const Tensor x = ca::zeros({1, 1, 9}, ca::bf16).requires_grad();
    const auto pulled = ca::vjp(
        [](const std::vector<Tensor>& t) {
            return std::vector<Tensor>{ca::windows(t[0], {.kernel = 9, .padding = {{8, 8}}})};
        },
        {x});
    std::vector<double> u(17 * 9, 0);
    for (std::size_t p = 0; p < 9; ++p) u[p * 9 + 8 - p] = p == 0 ? 1 : 0x1p-9;  // all of them read entry 0
    const Tensor gx = pulled.pullback({ca::tensor(u, {1, 1, 17, 9}).to(ca::bf16)})[0];
    EXPECT_EQ(values_of(gx)[0], 1 + 8 * 0x1p-9);
}

TEST(Fold, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    std::vector<std::vector<float>> all;
    for (const int threads : {1, 2, 5}) {
        ca::set_thread_count(threads);
        const Tensor columns = random_tensor({2, 27, 30 * 31}, 1, -1, 1, ca::f32);
        all.push_back(ca::fold(columns, {30, 31}, {.kernel = 3, .padding = 1}).to_vector<float>());
        EXPECT_TRUE(all.back() == all.front()) << threads;
    }
    ca::set_thread_count(before);
}

TEST(Unfold, EqualsPyTorch) {
    const ca::UnfoldOptions o{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}};
    ca::testing::expect_torch_values("unfold", {{"unfold", {2, 3, 9, 8}, [&](const std::vector<Tensor>& t) {
                                                     return std::vector<Tensor>{ca::unfold(t[0], o)};
                                                 }}});
    ca::testing::expect_torch_values("fold", {{"fold", {2, 18, 50}, [&](const std::vector<Tensor>& t) {
                                                   return std::vector<Tensor>{ca::fold(t[0], {9, 8}, o)};
                                               }}});
}

TEST(Shuffle, EqualsPyTorchAndPlainLoops) {
    ca::testing::expect_torch_values(
        "pixel_", {{"pixel_shuffle",
                    {2, 12, 3, 5},
                    [](const std::vector<Tensor>& t) { return std::vector<Tensor>{ca::pixel_shuffle(t[0], 2)}; }},
                   {"pixel_unshuffle", {2, 3, 4, 6}, [](const std::vector<Tensor>& t) {
                        return std::vector<Tensor>{ca::pixel_unshuffle(t[0], 2)};
                    }}});
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(52U); ++seed) {
        const std::int64_t rank = 1 + seed % 6;
        ca::Dims factors;
        Shape x{2, 2};
        for (std::int64_t a = 0; a < rank; ++a) {
            factors.push_back(1 + (seed + static_cast<std::uint32_t>(a)) % (rank > 3 ? 2 : 3));
            x[1] *= factors[a];
            x.push_back(rank > 3 ? 2 : 9);
        }
        const Tensor t = ca::testing::counting(x, ca::testing::every_dtype[seed % 13]);
        const Tensor y = ca::pixel_shuffle(relaid(t, ca::testing::all_lies[seed % 4]), factors);
        const std::vector<double> from = values_of(t), got = values_of(y);
        for_each_index(y.shape(), [&](const ca::Dims& at) {
            ca::Dims place{at[0], at[1]};
            for (std::int64_t a = 0; a < rank; ++a) {
                place[1] = place[1] * factors[a] + at[a + 2] % factors[a];
                place.push_back(at[a + 2] / factors[a]);
            }
            ASSERT_EQ(got[flat(y.shape(), at)], from[flat(x, place)]) << seed;
        });
        EXPECT_EQ(values_of(ca::pixel_unshuffle(y, factors)), from);
        EXPECT_EQ(ca::pixel_unshuffle(y, factors).shape(), x);
    }
    expect_gradients(
        [](const Tensor& t) {
            return ca::sin(ca::pixel_shuffle(t, {2, 3}));
        },
        random_tensor({1, 6, 2, 3}, 1));
    expect_gradients(
        [](const Tensor& t) {
            return ca::sin(ca::pixel_unshuffle(t, {2, 3, 1}));
        },
        random_tensor({1, 2, 4, 3, 2}, 1));
    EXPECT_EQ(ca::pixel_shuffle(ca::zeros({0, 4, 3, 3}), 2).eval().shape(), (Shape{0, 1, 6, 6}));
}

TEST(Unfold, EmptyTensors) {
    for (const Shape& shape : {Shape{0, 3, 4, 4}, Shape{2, 0, 4, 4}}) {
        const Tensor x = ca::zeros(shape).requires_grad();
        const Tensor y = ca::unfold(x, {.kernel = 2});
        EXPECT_EQ(y.eval().shape(), (Shape{shape[0], shape[1] * 4, 9}));
        EXPECT_EQ(ca::backward(ca::sum(y)).at(x).eval().shape(), shape);
        EXPECT_EQ(ca::fold(y, {4, 4}, {.kernel = 2}).eval().shape(), shape);
    }
}

TEST(UnfoldErrors, Everything) {
    const Tensor x = ca::ones({1, 2, 4, 4});
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    const auto all = [&](const char* code, const ca::UnfoldOptions& o) {
        expect_error(code, [&] { (void)ca::unfold(x, o); });
        expect_error(code, [&] { (void)ca::windows(x, {o.kernel, o.stride, o.padding, o.dilation}); });
        expect_error(code, [&] { (void)ca::fold(ca::ones({1, 8, 9}), {4, 4}, o); });
    };
    all("value/option", {});
    all("value/option", {.kernel = 0});
    all("value/option", {.kernel = -2});
    all("value/option", {.kernel = 2, .stride = 0});
    all("value/option", {.kernel = 2, .padding = -1});
    all("value/option", {.kernel = 2, .dilation = 0});
    all("value/count", {.kernel = {2, 2, 2}});
    all("value/count", {.kernel = 2, .stride = {1, 1, 1}});
    all("value/count", {.kernel = 2, .padding = {1, 1, 1}});
    all("value/count", {.kernel = 2, .dilation = {1, 1, 1}});
    all("unfold/kernel-too-large", {.kernel = 5});
    all("unfold/kernel-too-large", {.kernel = 2, .dilation = 4});
    all("value/option", {.kernel = 3, .dilation = huge});
    all("value/option", {.kernel = 3, .padding = huge / 2 + 1});
    expect_error("shape/rank", [] { (void)ca::unfold(ca::ones({4, 4}), {.kernel = 2}); });
    expect_error("shape/rank", [] { (void)ca::windows(ca::ones({4, 4}), {.kernel = 2}); });
    expect_error("shape/rank", [] { (void)ca::fold(ca::ones({8, 9}), {4, 4}, {.kernel = 2}); });
    expect_error("axis/range", [&] { (void)ca::windows(x, {.kernel = 2, .axes = {4}}); });
    expect_error("axis/duplicate", [&] { (void)ca::windows(x, {.kernel = 2, .axes = {2, -2}}); });
    expect_error("fold/columns", [] { (void)ca::fold(ca::ones({1, 7, 9}), {4, 4}, {.kernel = 2}); });
    expect_error("fold/columns", [] { (void)ca::fold(ca::ones({1, 8, 8}), {4, 4}, {.kernel = 2}); });
    expect_error("value/count", [] { (void)ca::fold(ca::ones({1, 8, 9}), {}, {.kernel = 2}); });
    expect_error("shape/negative", [] { (void)ca::fold(ca::ones({1, 8, 9}), {4, -4}, {.kernel = 2}); });
    expect_error("dtype/unsupported", [] { (void)ca::fold(ca::ones({1, 8, 9}, ca::boolean), {4, 4}, {.kernel = 2}); });
    for (const auto shuffle : {ca::pixel_shuffle, ca::pixel_unshuffle}) {
        const auto call = [&](const Tensor& t, const ca::PerAxis& f) { (void)shuffle(t, f, ca::Where::current()); };
        expect_error("value/option", [&] { call(x, 0); });
        expect_error("value/option", [&] { call(x, {}); });
        expect_error("value/option", [&] { call(x, {2, -1}); });
        expect_error("value/count", [&] { call(x, {2, 2, 2}); });
        expect_error("shape/rank", [&] { call(ca::ones({4, 4}), 2); });
        expect_error("tensor/undefined", [&] { call(Tensor(), 2); });
        expect_error("shape/overflow", [&] { call(x, {huge, huge}); });
    }
    expect_error("shuffle/channels", [&] { (void)ca::pixel_shuffle(x, 2); });
    expect_error("shuffle/sizes", [&] { (void)ca::pixel_unshuffle(x, 3); });
    expect_error("tensor/undefined", [] { (void)ca::unfold(Tensor(), {.kernel = 2}); });
    expect_error("tensor/undefined", [] { (void)ca::windows(Tensor(), {.kernel = 2}); });
    expect_error("tensor/undefined", [] { (void)ca::fold(Tensor(), {4}, {.kernel = 2}); });
}

}  // namespace
