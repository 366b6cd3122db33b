// Resampling: every implementation against the reference over ranks, modes, dtypes and layouts; bits that threads don't
// change; empty and huge shapes; memory; errors.
#include "calor/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "calor/calor.h"
#include "gradient_check.h"
#include "relaid.h"
#include "sanitized.h"
#include "strided.h"

namespace ca = calor;
using ca::Dims;
using ca::DType;
using ca::Interpolation;
using ca::Shape;
using ca::Tensor;
using ca::testing::Disable;
using ca::testing::expect_error;
using ca::testing::random_tensor;
using ca::testing::values_of;

namespace {

constexpr const char* fast = "resample_select,resample_passes";
constexpr Interpolation modes[] = {
    Interpolation::nearest,  Interpolation::nearest_exact, Interpolation::linear,   Interpolation::cubic,
    Interpolation::lanczos3, Interpolation::area,          Interpolation::coverage, Interpolation::box};

/// A random call: of a rank, with sizes that grow and shrink.
struct Problem {
    Shape x;
    ca::ResizeOptions options;
    Tensor operator()(const Tensor& t) const { return ca::resize(t, options); }
};

Problem random_problem(std::uint32_t seed, std::int64_t rank, std::int64_t most) {
    std::mt19937 engine(seed);
    const auto draw = [&](std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(high - low + 1));
    };
    Problem p;
    Dims size, axes;
    for (std::int64_t a = 0; a < rank; ++a) {
        p.x.push_back(draw(1, most));
        if (draw(0, 3) == 0 && !(a + 1 == rank && axes.empty())) continue;
        axes.push_back(a);
        size.push_back(draw(0, 5) == 0 ? p.x[a] : draw(1, 2 * most));
    }
    p.options.axes = axes;
    p.options.size = size;
    p.options.mode = modes[seed % std::size(modes)];
    const bool filtered = p.options.mode >= Interpolation::linear && p.options.mode <= Interpolation::lanczos3;
    p.options.antialias = filtered && draw(0, 1) == 1;
    p.options.exclude_outside = filtered && draw(0, 2) == 0;
    if (filtered || p.options.mode == Interpolation::nearest) {
        p.options.coordinates = static_cast<ca::Coordinates>(draw(0, 6));
        p.options.rounding = static_cast<ca::NearestRounding>(draw(0, 3));
    }
    if (p.options.coordinates == ca::Coordinates::tf_crop_and_resize) {
        p.options.crop_from = static_cast<double>(draw(-5, 15)) / 10;
        p.options.crop_to = static_cast<double>(draw(-5, 15)) / 10;
    }
    return p;
}

void expect_close(const Tensor& got, const std::vector<double>& want, double tolerance, const std::string& what) {
    const std::vector<double> g = values_of(got);
    ASSERT_EQ(g.size(), want.size()) << what;
    for (std::size_t i = 0; i < g.size(); ++i) {
        ASSERT_NEAR(g[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << what << " element " << i;
    }
}

TEST(Resample, FastEqualsReference) {
    const DType dtypes[] = {ca::f64, ca::f32, ca::f16, ca::bf16, ca::u8};
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(700U); ++seed) {
        const std::int64_t rank = 1 + seed / 7 % 6;
        const Problem p = random_problem(seed, rank, rank > 3 ? 4 : rank > 1 ? 12 : 200);
        const DType dtype = dtypes[seed % 5];
        const double tolerance = dtype == ca::f64    ? 1e-12
                                 : dtype == ca::f32  ? 4e-6
                                 : dtype == ca::f16  ? 2e-3
                                 : dtype == ca::bf16 ? 1.6e-2
                                                     : 0;
        const Tensor x =
            dtype == ca::u8 ? random_tensor(p.x, seed, 0, 255.9).to(ca::u8) : random_tensor(p.x, seed).to(dtype);
        std::vector<double> want;
        {
            const Disable guard(fast);
            want = values_of(p(x));
        }
        const Tensor got = p(relaid(x, ca::testing::all_lies[seed / 5 % 4]));
        EXPECT_EQ(got.dtype(), dtype);
        const bool fixed = p.options.antialias || p.options.mode == Interpolation::box;
        if (dtype == ca::u8 && !fixed) {  // a sum in f32 may fall on the other side of a half
            const std::vector<double> g = values_of(got);
            for (std::size_t i = 0; i < g.size(); ++i) ASSERT_LE(std::abs(g[i] - want[i]), 1) << seed;
        } else {
            expect_close(got, want, tolerance, "seed " + std::to_string(seed));
        }
    }
}

TEST(Resample, FastEqualsReferenceOfGradients) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(300U); ++seed) {
        const std::int64_t rank = 1 + seed / 7 % 6;
        const Problem p = random_problem(seed + 5000, rank, rank > 3 ? 4 : rank > 1 ? 12 : 200);
        const DType dtype = seed % 2 == 0 ? ca::f32 : ca::bf16;
        const auto lie = ca::testing::all_lies[seed / 5 % 4];
        const auto pull = [&](ca::testing::Lie l) {
            const auto v = ca::vjp([&](const std::vector<Tensor>& x) { return std::vector<Tensor>{p(x[0])}; },
                                   {ca::zeros(p.x, dtype)});
            return v.pullback({relaid(random_tensor(v.outputs[0].shape(), seed).to(dtype), l)})[0];
        };
        std::vector<double> want;
        {
            const Disable guard(fast);
            want = values_of(pull(ca::testing::Lie::plain));
        }
        expect_close(pull(lie), want, dtype == ca::f32 ? 4e-6 : 1.6e-2, "seed " + std::to_string(seed));
    }
}

TEST(Resample, LargerShapesEqualTheReference) {  // several tiles, vectors and blocks of rows
    struct Large {
        Shape x;
        Dims axes, size;
    };
    const Large all[] = {{{2, 3, 70, 90}, {2, 3}, {150, 61}},
                         {{1, 2, 9, 600}, {3}, {300}},
                         {{3, 40, 33}, {1}, {90}},
                         {{2, 5, 20, 18, 22}, {2, 3, 4}, {9, 40, 31}},
                         {{1, 1, 3, 900}, {3}, {2}},
                         {{1, 9, 40, 30}, {2, 3}, {81, 64}},
                         {{2, 2, 300, 40}, {2, 3}, {10, 8}},
                         {{1, 3, 64, 96}, {2, 3}, {16, 700}}};
    for (const Large& l : all) {
        for (const auto mode :
             {Interpolation::cubic, Interpolation::linear, Interpolation::nearest, Interpolation::area}) {
            const bool antialias = l.size[0] % 2 == 0 && mode == Interpolation::cubic;
            const ca::ResizeOptions o{.axes = l.axes, .size = l.size, .mode = mode, .antialias = antialias};
            const Tensor x = random_tensor(l.x, 3, -1, 1, ca::f32);
            const auto both = [&](const Tensor& t) {
                const auto v = ca::vjp(
                    [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{ca::resize(in[0], o)}; }, {t});
                return std::pair(v.outputs[0], v.pullback({random_tensor(v.outputs[0].shape(), 4, -1, 1, ca::f32)})[0]);
            };
            std::vector<double> want, want_gradient;
            {
                const Disable guard(fast);
                const auto [y, gx] = both(x);
                want = values_of(y);
                want_gradient = values_of(gx);
            }
            for (const auto lie : ca::testing::all_lies) {
                const auto [y, gx] = both(relaid(x, lie));
                expect_close(y, want, 1e-5, ca::to_string(l.x));
                expect_close(gx, want_gradient, 1e-5, ca::to_string(l.x));
            }
        }
    }
}

TEST(Resample, NearestMovesEveryDtype) {
    for (const DType dtype : ca::testing::every_dtype) {
        const Tensor x = ca::testing::counting({2, 3, 5, 4}, dtype);
        for (const auto mode : {Interpolation::nearest, Interpolation::nearest_exact}) {
            for (const Dims& size : {Dims{10, 8}, Dims{3, 7}, Dims{5, 9}}) {
                const ca::InterpolateOptions o{.size = size, .mode = mode};
                std::vector<double> want;
                {
                    const Disable guard(fast);
                    want = values_of(ca::interpolate(x, o));
                }
                for (const Tensor& t : ca::testing::under_other_strides(x)) {
                    EXPECT_EQ(values_of(ca::interpolate(t, o)), want) << ca::name_of(dtype);
                }
            }
        }
    }
    const std::int64_t large = (std::int64_t{1} << 62) + 1;  // not through floats
    EXPECT_EQ(ca::interpolate(ca::full({1, 1, 2}, large, ca::i64), {.size = 3}).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>(3, large)));
}

TEST(Resample, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    std::vector<std::vector<float>> first;
    for (const int threads : {1, 2, 5}) {
        ca::set_thread_count(threads);
        std::vector<std::vector<float>> now;
        for (const auto lie : {ca::testing::Lie::plain, ca::testing::Lie::channels_last}) {
            for (const auto mode : {Interpolation::nearest, Interpolation::cubic, Interpolation::area}) {
                const Tensor x = relaid(random_tensor({3, 5, 90, 71}, 1, -1, 1, ca::f32), lie).requires_grad();
                for (const Dims& size : {Dims{200, 150}, Dims{31, 20}}) {
                    const Tensor y = ca::interpolate(x, {.size = size, .mode = mode});
                    now.push_back(y.to_vector<float>());
                    now.push_back(ca::backward(ca::sum(y * y)).at(x).to_vector<float>());
                }
            }
        }
        if (first.empty()) first = now;
        EXPECT_TRUE(now == first) << threads;
    }
    ca::set_thread_count(before);
}

TEST(Resample, KeepsChannelsLast) {
    for (const std::int64_t channels : {3, 16}) {
        const Tensor x = relaid(random_tensor({2, channels, 6, 7}, 1, -1, 1, ca::f32), ca::testing::Lie::channels_last)
                             .requires_grad();
        for (const auto mode : modes) {
            const Tensor y = ca::interpolate(x, {.size = {11, 5}, .mode = mode});
            const Tensor gx = ca::backward(ca::sum(y * y)).at(x).eval();
            EXPECT_EQ(ca::testing::strides_of(y)[1], 1);
            EXPECT_EQ(ca::testing::strides_of(gx)[1], 1);
        }
    }
}

TEST(Resample, SamplesDoNotMix) {
    const Tensor x = random_tensor({3, 2, 6, 5}, 2).requires_grad();
    const ca::InterpolateOptions o{.size = {9, 11}, .mode = Interpolation::cubic};
    const Tensor gx = ca::backward(ca::sum(ca::interpolate(x, o) * ca::interpolate(x, o))).at(x);
    for (std::int64_t n = 0; n < 3; ++n) {
        const Tensor one = ca::slice(x.detach(), 0, {.start = n, .stop = n + 1}).requires_grad();
        const Tensor g = ca::backward(ca::sum(ca::interpolate(one, o) * ca::interpolate(one, o))).at(one);
        EXPECT_EQ(values_of(g), values_of(ca::slice(gx, 0, {.start = n, .stop = n + 1})));
    }
}

TEST(Resample, WhatIsNotReadDoesNotMatter) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Tensor x = ca::tensor(std::vector<double>{1, nan, 3, 4, 5, nan, 7}, Shape{1, 1, 7});
    // Dilated windows skip what lies between their taps; shrinking linear reads two of four.
    EXPECT_EQ(values_of(ca::avg_pool(x, {.kernel = 2, .stride = 2, .dilation = 2})), (std::vector<double>{2, 4, 6}));
    const Tensor wide = ca::tensor(std::vector<double>{nan, 1, 3, nan, nan, 5, 7, nan}, Shape{1, 1, 8});
    EXPECT_EQ(values_of(ca::interpolate(wide, {.size = 2, .mode = Interpolation::linear})),
              (std::vector<double>{2, 6}));
}

TEST(Resample, EmptyTensors) {
    for (const DType dtype : {ca::f32, ca::bf16}) {
        for (const Shape& shape : {Shape{0, 3, 16, 16}, Shape{4, 0, 16, 16}}) {
            for (const auto mode : modes) {
                const Tensor x = ca::zeros(shape, dtype).requires_grad();
                const Tensor y = ca::interpolate(x, {.size = {15, 17}, .mode = mode});
                EXPECT_EQ(y.eval().shape(), (Shape{shape[0], shape[1], 15, 17}));
                EXPECT_EQ(ca::backward(ca::sum(y)).at(x).eval().shape(), shape);
            }
            const Tensor x = ca::zeros(shape, dtype).requires_grad();
            EXPECT_EQ(ca::backward(ca::sum(ca::adaptive_avg_pool(x, {.size = 3}))).at(x).eval().shape(), shape);
        }
    }
}

TEST(Resample, HugeShapes) {
    // One element under zero strides: 2^33 entries of few bytes.
    const Tensor x = ca::broadcast_to(ca::ones({1, 1, 1, 1}, ca::bf16), {1 << 10, 1 << 10, 64, 128});
    for (const auto mode : {Interpolation::nearest, Interpolation::linear}) {
        const Tensor y = ca::interpolate(x, {.size = {1, 1}, .mode = mode});
        EXPECT_EQ(ca::sum(y.to(ca::f64)).item<double>(), 1 << 20);
    }
    // More than 2^31 results: the last ones are as the first ones.
    const Tensor image = ca::broadcast_to(ca::reshape(ca::arange(4, ca::u8), {1, 1, 2, 2}), {1, 2050, 2, 2});
    const Tensor y = ca::interpolate(image, {.size = {1024, 1024}}).eval();
    EXPECT_GT(y.numel(), std::int64_t{1} << 31);
    const Tensor ends = ca::slice(ca::slice(y, 1, {.start = 2049}), 2, {.step = 1023});
    EXPECT_EQ(values_of(ca::slice(ends, 3, {.step = 1023})), (std::vector<double>{0, 1, 2, 3}));
}

TEST(Resample, WorkspaceIsBounded) {
    const Tensor x = random_tensor({1, 3, 1200, 1000}, 1, -1, 1, ca::f32).eval();
    for (const auto mode : {Interpolation::cubic, Interpolation::lanczos3, Interpolation::area}) {
        for (const Dims& size : {Dims{2000, 1500}, Dims{300, 250}}) {
            const bool antialias = mode == Interpolation::lanczos3;
            ca::empty_cache(ca::default_device());
            ca::reset_peak_memory(ca::default_device());
            const std::int64_t before = ca::memory_statistics(ca::default_device()).in_use;
            const Tensor y = ca::interpolate(x, {.size = size, .mode = mode, .antialias = antialias}).eval();
            const std::int64_t peak = ca::memory_statistics(ca::default_device()).peak - before;
            // Two intermediate tiles of at most 2 MiB and some rows, a thread; blocks are rounded up by an eighth.
            const std::int64_t result = 3 * size[0] * size[1] * 4;
            EXPECT_LE(peak, (result + (std::int64_t{5} << 20) * ca::thread_count()) * 9 / 8);
        }
    }
}

TEST(ResampleErrors, Everything) {
    const Tensor x = ca::ones({1, 1, 4, 4});
    const auto bad = [&](const char* code, const ca::InterpolateOptions& o) {
        expect_error(code, [&] { ca::interpolate(x, o); });
    };
    bad("resample/options", {});
    bad("resample/options", {.size = 3, .scale = 2});
    bad("resample/options", {.size = 3, .antialias = true});
    bad("resample/options", {.size = 3, .align_corners = true});
    bad("resample/options", {.size = 3, .mode = Interpolation::linear, .cubic_a = -1});
    bad("resample/size", {.size = 0});
    bad("resample/size", {.size = -5});
    bad("resample/size", {.size = {4, std::int64_t{1} << 59}});
    bad("resample/size", {.scale = .1});
    bad("resample/size", {.scale = 1.25e12});
    bad("resample/size", {.size = 1 << 29, .mode = Interpolation::linear});
    bad("shape/overflow", {.scale = 1e300});
    expect_error("shape/overflow", [] { ca::interpolate(ca::ones({1, 1, 2, 2, 2}), {.size = 1 << 28}); });
    expect_error("shape/overflow", [] { ca::adaptive_avg_pool(ca::ones({1, 1, 2, 2, 2}), {.size = 1 << 28}); });
    bad("value/option", {.scale = 0});
    bad("value/option", {.scale = -1});
    bad("value/option", {.scale = std::numeric_limits<double>::quiet_NaN()});
    bad("value/option", {.scale = std::numeric_limits<double>::infinity()});
    bad("value/count", {.size = {3, 3, 3}});
    bad("value/count", {.scale = {2, 2, 2}});
    expect_error("resample/rank", [] { ca::interpolate(ca::ones({4, 4}), {.size = 2}); });
    expect_error("resample/empty", [] { ca::interpolate(ca::ones({4, 3, 0, 16}), {.size = {15, 17}}); });
    expect_error("tensor/undefined", [] { ca::interpolate(Tensor(), {.size = 2}); });
    expect_error("dtype/unsupported",
                 [&] { ca::interpolate(x.to(ca::i32), {.size = 2, .mode = Interpolation::linear}); });
    const auto bad_resize = [&](const char* code, const ca::ResizeOptions& o) {
        expect_error(code, [&] { ca::resize(x, o); });
    };
    bad_resize("axis/range", {.axes = {4}, .size = 2});
    bad_resize("axis/duplicate", {.axes = {1, -3}, .size = 2});
    bad_resize("value/count", {.axes = {2}, .size = {2, 2}});
    bad_resize("resample/options",
               {.size = 2, .mode = Interpolation::area, .coordinates = ca::Coordinates::asymmetric});
    bad_resize("resample/options", {.size = 2, .mode = Interpolation::area, .antialias = true});
    bad_resize("resample/options", {.size = 2, .mode = Interpolation::nearest, .exclude_outside = true});
    bad_resize("resample/options", {.size = 2, .cubic_a = -1});
    bad_resize("resample/options", {.size = 2, .crop_from = .5});
    bad_resize("resample/options", {.size = 2, .extrapolation = 1});
    bad_resize("resample/options", {.scale = 2, .aspect = ca::AspectRatio::not_larger});
    bad_resize("value/option", {.size = 2,
                                .coordinates = ca::Coordinates::tf_crop_and_resize,
                                .crop_to = std::numeric_limits<double>::quiet_NaN()});
    expect_error("tensor/undefined", [] { ca::resize(Tensor(), {.size = 2}); });
    const auto bad_pool = [&](const char* code, const ca::PerAxis& size) {
        expect_error(code, [&] { ca::adaptive_avg_pool(x, {.size = size}); });
    };
    bad_pool("resample/size", {});
    bad_pool("resample/size", {std::int64_t{1} << 59, -(std::int64_t{1} << 38)});
    bad_pool("resample/size", -5);
    bad_pool("value/count", {1, 1, 1, 1});
    expect_error("resample/rank", [] { ca::adaptive_avg_pool(ca::ones({4, 4}), {.size = 2}); });
    expect_error("resample/empty", [] { ca::adaptive_avg_pool(ca::ones({4, 4, 0}), {.size = 2}); });
    expect_error("dtype/unsupported", [&] { ca::adaptive_avg_pool(x.to(ca::u8), {.size = 2}); });
    // A cotangent of another shape is refused before it is read.
    const auto v = ca::vjp(
        [](const std::vector<Tensor>& t) { return std::vector<Tensor>{ca::adaptive_avg_pool(t[0], {.size = 1})}; },
        {x});
    expect_error("shape/mismatch", [&] { v.pullback({ca::ones({1, 2, 1, 1})}); });
}

}  // namespace
