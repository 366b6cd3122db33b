// Resampling against known values: PyTorch's, Pillow's and OpenCV's numbers, and closed forms.
#include <gtest/gtest.h>

#include <cmath>

#include "calor/calor.h"
#include "gradient_check.h"
#include "reference/image_resample.h"
#include "reference/torch_resample.h"
#include "strided.h"

namespace ca = calor;
using ca::Coordinates;
using ca::Dims;
using ca::Interpolation;
using ca::NearestRounding;
using ca::Shape;
using ca::Tensor;
using ca::testing::values_of;

namespace {

using Values = std::vector<double>;

void expect_near(const Tensor& got, const Values& want, double tolerance, const std::string& what = "") {
    const Values g = values_of(got);
    ASSERT_EQ(g.size(), want.size()) << what;
    for (std::size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(g[i], want[i], tolerance) << what << " element " << i;
}
Tensor line(const Values& v) { return ca::tensor(v, Shape{1, 1, std::ssize(v)}); }
Tensor squares() { return line({0, 1, 4, 9, 16, 25, 36, 49}); }
Tensor to(const Tensor& x, std::int64_t size, ca::InterpolateOptions o) {
    o.size = size;
    return ca::interpolate(x, o);
}
Tensor counted(const Shape& shape) {
    return ca::reshape(ca::arange(static_cast<double>(ca::numel(shape)), ca::f64), shape);
}
/// The gradient of the sum of f(x).
template <class F> Tensor gradient(const Tensor& x, const F& f) {
    const Tensor leaf = x.requires_grad();
    return ca::backward(ca::sum(f(leaf))).at(leaf);
}

// PyTorch.

Tensor filled(const Dims& spatial) {
    Shape shape{2, 3};
    for (const std::int64_t s : spatial) shape.push_back(s);
    Values v(static_cast<std::size_t>(ca::numel(shape)));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = 3 * std::sin(1.7 * static_cast<double>(i) + 1);
    return ca::tensor(v, shape);
}
double weighted(const Tensor& t) {
    const Values v = values_of(t);
    double sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i) sum += v[i] * std::sin(static_cast<double>(i) + 1);
    return sum;
}
template <class F>
void expect_torch(const Dims& in, int count, double y, double gx, const F& f, const std::string& what) {
    const auto v = ca::vjp([&](const std::vector<Tensor>& x) { return std::vector<Tensor>{f(x[0])}; }, {filled(in)});
    ASSERT_EQ(v.outputs[0].numel(), count) << what;
    EXPECT_NEAR(weighted(v.outputs[0]), y, 1e-9) << what;
    Values u(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < u.size(); ++i) u[i] = std::cos(static_cast<double>(i));
    EXPECT_NEAR(weighted(v.pullback({ca::tensor(u, v.outputs[0].shape())})[0]), gx, 1e-9) << what;
}

TEST(ResampleTorch, Interpolate) {
    int row = 0;
    for (const auto& r : torch_values::resizes) {
        ca::InterpolateOptions o{
            .mode = r.mode, .align_corners = r.align, .antialias = r.antialias, .recompute_scale = r.recompute};
        if (r.scale.empty()) o.size = r.size;
        if (!r.scale.empty()) o.scale = r.scale;
        expect_torch(
            r.in, r.count, r.y, r.gx, [&](const Tensor& x) { return ca::interpolate(x, o); },
            "row " + std::to_string(row++));
    }
    EXPECT_GT(row, 80);
}

TEST(ResampleTorch, AveragePooling) {
    int row = 0;
    for (const auto& r : torch_values::averages) {
        const ca::AvgPoolOptions o{.kernel = r.kernel,
                                   .stride = r.stride,
                                   .padding = r.padding,
                                   .ceil_mode = r.ceil,
                                   .count_include_pad = r.count_padding,
                                   .divisor = r.divisor};
        expect_torch(
            r.in, r.count, r.y, r.gx, [&](const Tensor& x) { return ca::avg_pool(x, o); },
            "row " + std::to_string(row++));
    }
    row = 0;
    for (const auto& r : torch_values::adaptives) {
        expect_torch(
            r.in, r.count, r.y, r.gx, [&](const Tensor& x) { return ca::adaptive_avg_pool(x, {.size = r.size}); },
            "adaptive row " + std::to_string(row++));
    }
}

// Pillow and OpenCV.

std::vector<std::uint8_t> levels(std::int64_t count) {
    std::vector<std::uint8_t> v;
    for (std::int64_t i = 0; i < count; ++i) v.push_back(static_cast<std::uint8_t>((i * i * 7 + i * 29 + i / 5) % 256));
    return v;
}

TEST(ResampleImages, EveryLevelOfPillow) {
    for (const auto& r : image_values::pillow) {
        const Tensor hwc = ca::tensor(levels(r.height * r.width * r.channels), Shape{1, r.height, r.width, r.channels});
        const Tensor last = ca::permute(hwc, {0, 3, 1, 2});  // as images lie
        for (const Tensor& x : {last, ca::contiguous(last)}) {
            const Tensor y = ca::interpolate(
                x, {.size = {r.to_height, r.to_width}, .mode = r.mode, .antialias = r.mode != Interpolation::box});
            const auto v = ca::permute(y, {0, 2, 3, 1}).to_vector<std::uint8_t>();
            std::int64_t sum = 0;
            for (std::size_t i = 0; i < v.size(); ++i) sum += v[i] * static_cast<std::int64_t>(i % 9973 + 1);
            EXPECT_EQ(sum, r.sum) << static_cast<int>(r.mode) << " to " << r.to_height << " x " << r.to_width;
        }
    }
}

TEST(ResampleImages, OpenCvWithinOneLevel) {
    const Tensor x = ca::tensor(levels(12 * 9), Shape{1, 1, 12, 9});
    for (const auto& r : image_values::opencv) {
        const Values got = values_of(ca::interpolate(x, {.size = {r.to_height, r.to_width}, .mode = r.mode}));
        const bool exact = r.mode == Interpolation::nearest || r.mode == Interpolation::nearest_exact;
        ASSERT_EQ(got.size(), r.levels.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_NEAR(got[i], r.levels[i], exact ? 0 : 1) << static_cast<int>(r.mode) << " to " << r.to_height;
        }
    }
}

TEST(ResampleImages, SaturateAndRound) {
    const Tensor x = ca::tensor(std::vector<std::uint8_t>{0, 0, 255, 255}, Shape{1, 1, 4});
    const ca::InterpolateOptions cubic{.size = 8, .mode = Interpolation::cubic};
    expect_near(ca::interpolate(x.to(ca::f64), cubic),
                {0, -8.964844, -26.894531, 57.773438, 197.226562, 281.894531, 263.964844, 255}, 1e-6);
    EXPECT_EQ(values_of(ca::interpolate(x, cubic)), (Values{0, 0, 0, 58, 197, 255, 255, 255}));
    const Tensor ramp = ca::tensor(std::vector<std::uint8_t>{0, 1, 2, 3}, Shape{1, 1, 4});
    EXPECT_EQ(values_of(to(ramp, 2, {.mode = Interpolation::linear})), (Values{1, 3}));  // halves go up
}

// Closed forms.

TEST(ResampleValues, Lanczos) {
    const ca::InterpolateOptions o{.mode = Interpolation::lanczos3, .antialias = true};
    expect_near(to(squares(), 3, o), {0.65745997, 12.25, 38.30146286}, 2e-6);
    expect_near(to(squares(), 4, o), {0.37395442, 5.88639561, 20.59559029, 42.28945152}, 2e-6);
    const Values large = values_of(to(squares(), 13, o));
    EXPECT_NEAR(large[0], -0.00904192, 2e-6);
    EXPECT_NEAR(large[1], 0.18175296, 2e-6);
    EXPECT_NEAR(large[2], 1.06613347, 2e-6);
    expect_near(gradient(squares(), [&](const Tensor& x) { return to(x, 3, o); }),
                {0.2945157, 0.41384863, 0.41859063, 0.37304504, 0.37304504, 0.41859063, 0.41384863, 0.2945157}, 1e-6);
    // Of any rank, with and without antialias: a product of lines is resized line by line.
    const ca::InterpolateOptions plain{.size = {5, 11, 4}, .mode = Interpolation::lanczos3};
    const Tensor a = line({1, 4, 2, 8, 5, 7}), b = line({3, 1, 2, 2}), c = line({2, 7, 1});
    const Tensor outer =
        ca::reshape(a, {1, 1, 6, 1, 1}) * ca::reshape(b, {1, 1, 1, 4, 1}) * ca::reshape(c, {1, 1, 1, 1, 3});
    const auto one = [](const Tensor& x, std::int64_t n) { return to(x, n, {.mode = Interpolation::lanczos3}); };
    const Tensor want = ca::reshape(one(a, 5), {1, 1, 5, 1, 1}) * ca::reshape(one(b, 11), {1, 1, 1, 11, 1}) *
                        ca::reshape(one(c, 4), {1, 1, 1, 1, 4});
    expect_near(ca::interpolate(outer, plain), values_of(want), 1e-12);
}

TEST(ResampleValues, CubicInThreeAxes) {
    const Tensor n = counted({1, 1, 3, 3, 3});
    const ca::InterpolateOptions o{.size = 5, .mode = Interpolation::cubic};
    const Tensor x = n * n, y = ca::interpolate(x, o);
    const Values v = values_of(y);
    const auto at = [&](std::size_t i, std::size_t j, std::size_t k) { return v[(i * 5 + j) * 5 + k]; };
    EXPECT_NEAR(at(0, 0, 0), -8.017152, 1e-9);
    EXPECT_NEAR(at(2, 2, 2), 169, 1e-9);
    EXPECT_NEAR(at(4, 4, 4), 732.878848, 1e-9);
    EXPECT_NEAR(at(0, 1, 3), -4.675232, 1e-9);
    EXPECT_NEAR(ca::sum(y).item<double>(), 28568.8, 1e-8);
    const Values g = values_of(gradient(x, [&](const Tensor& t) { return ca::interpolate(t, o); }));
    EXPECT_NEAR(g[0], 4.378747456, 1e-9);
    EXPECT_NEAR(g[13], 5.159780352, 1e-9);
    expect_near(to(line({1, 0, 0}), 5, {.mode = Interpolation::cubic}), {1.096, .612, 0, -.072, 0}, 1e-12);
    expect_near(to(line({0, 1, 0}), 5, {.mode = Interpolation::cubic}), {-.096, .46, 1, .46, -.096}, 1e-12);
    // Three passes, one an axis.
    const Tensor r = ca::testing::random_tensor({2, 2, 4, 3, 5}, 1);
    Tensor steps = r;
    for (const std::int64_t axis : {2, 3, 4}) {
        steps = ca::resize(steps, {.axes = {axis}, .size = 7, .mode = Interpolation::cubic});
    }
    expect_near(ca::interpolate(r, {.size = 7, .mode = Interpolation::cubic}), values_of(steps), 1e-12);
    // An axis of scale 1 does nothing: planes as in two axes.
    const Tensor planes = ca::interpolate(ca::reshape(r, {2, 8, 3, 5}), {.scale = 2, .mode = Interpolation::cubic});
    expect_near(ca::interpolate(r, {.scale = {1, 2, 2}, .mode = Interpolation::cubic}), values_of(planes), 1e-12);
}

TEST(ResampleValues, NearestGradients) {
    Values want(16, 0);
    want[0] = 1;
    EXPECT_EQ(values_of(gradient(ca::ones({1, 1, 4, 4}, ca::f64),
                                 [](const Tensor& x) { return ca::interpolate(x, {.scale = .25}); })),
              want);
    const Values g = values_of(gradient(ca::ones({2, 3, 45, 18}, ca::f64), [](const Tensor& x) {
        return ca::interpolate(x, {.size = {14, 24}});
    }));
    Values rows(45, 0), columns(18, 0);
    for (std::size_t i = 0; i < 45 * 18; ++i) {
        rows[i / 18] += g[i];
        columns[i % 18] += g[i];
        EXPECT_EQ(g[i], g[i + 45 * 18 * 5]);
    }
    double sum = 0;
    Values used;
    for (std::size_t i = 0; i < 45; ++i) {
        sum += rows[i];
        if (rows[i] != 0) used.push_back(static_cast<double>(i));
    }
    EXPECT_EQ(sum, 336);
    EXPECT_EQ(used, (Values{0, 3, 6, 9, 12, 16, 19, 22, 25, 28, 32, 35, 38, 41}));
    for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(columns[i], i % 3 == 0 ? 28 : 14) << i;
}

TEST(ResampleValues, NearestByScale) {
    const Tensor x = line({1, 2});
    EXPECT_EQ(values_of(ca::interpolate(x, {.scale = 1.00001})), (Values{1, 1}));
    EXPECT_EQ(values_of(ca::interpolate(x, {.scale = 1.00001, .mode = Interpolation::nearest_exact})), (Values{1, 2}));
    const Tensor image = counted({1, 1, 4, 2});
    for (const bool recompute : {false, true}) {
        const Values rows = recompute ? Values{0, 0, 1, 1, 2, 2, 3, 3} : Values{0, 0, 0, 1, 1, 2, 2, 3};
        const Values columns = recompute ? Values{0, 0, 0, 1, 1, 1} : Values{0, 0, 0, 0, 1, 1};
        Values want;
        for (const double r : rows) {
            for (const double c : columns) want.push_back(r * 2 + c);
        }
        EXPECT_EQ(values_of(ca::interpolate(image, {.scale = {2.05, 3.15}, .recompute_scale = recompute})), want);
    }
}

TEST(ResampleValues, SizesOfScales) {
    for (const std::int64_t n : {88, 103, 104, 107, 110, 117, 149, 151, 176, 179}) {
        EXPECT_EQ(ca::interpolate(ca::ones({1, 1, n}), {.scale = 120.0 / static_cast<double>(n)}).size(2), 120) << n;
    }
    EXPECT_EQ(ca::interpolate(ca::ones({1, 1, 5}), {.scale = 1.5}).size(2), 7);
    EXPECT_EQ(ca::interpolate(ca::ones({1, 1, 10}), {.scale = .99}).size(2), 9);
}

TEST(ResampleValues, WhichPixelIsNearest) {
    const auto exact = [](std::int64_t in, std::int64_t out) {
        return values_of(to(counted({1, 1, in}), out, {.mode = Interpolation::nearest_exact}));
    };
    const auto legacy = [](std::int64_t in, std::int64_t out) { return values_of(to(counted({1, 1, in}), out, {})); };
    EXPECT_EQ(exact(10, 3), (Values{1, 5, 8}));
    EXPECT_EQ(exact(6, 5), (Values{0, 1, 3, 4, 5}));
    EXPECT_EQ(exact(8, 6), (Values{0, 2, 3, 4, 6, 7}));
    EXPECT_EQ(exact(6, 3), (Values{1, 3, 5}));
    EXPECT_EQ(legacy(10, 3), (Values{0, 3, 6}));
    EXPECT_EQ(legacy(6, 5), (Values{0, 1, 2, 3, 4}));
    EXPECT_EQ(legacy(8, 6), (Values{0, 1, 2, 4, 5, 6}));
    EXPECT_EQ(legacy(6, 3), (Values{0, 2, 4}));
}

Values resized(const Values& x, const ca::ResizeOptions& o) {
    return values_of(ca::resize(ca::tensor(x, Shape{std::ssize(x)}), o));
}
void expect_near(const Values& got, const Values& want, double tolerance, const std::string& what = "") {
    expect_near(ca::tensor(got, Shape{std::ssize(got)}), want, tolerance, what);
}

TEST(ResampleValues, CoordinateRules) {
    const Values x{1, 2, 3, 4};
    const auto rule = [&](Coordinates c, std::int64_t size) {
        return resized(x, {.size = size, .mode = Interpolation::linear, .coordinates = c});
    };
    expect_near(rule(Coordinates::half_pixel, 8), {1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4}, 1e-12);
    Values aligned;
    for (int i = 0; i < 8; ++i) aligned.push_back(1 + 3.0 * i / 7);
    expect_near(rule(Coordinates::align_corners, 8), aligned, 1e-12);
    expect_near(rule(Coordinates::asymmetric, 8), {1, 1.5, 2, 2.5, 3, 3.5, 4, 4}, 1e-12);
    expect_near(rule(Coordinates::half_pixel, 1), {2.5}, 1e-12);
    expect_near(rule(Coordinates::pytorch_half_pixel, 1), {1}, 1e-12);
    expect_near(rule(Coordinates::align_corners, 1), {1}, 1e-12);
    expect_near(rule(Coordinates::pytorch_half_pixel, 8), rule(Coordinates::half_pixel, 8), 1e-12);
    expect_near(rule(Coordinates::tf_half_pixel_for_nn, 8), {1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4, 4}, 1e-12);
    // Four inputs by 0.6: two outputs of 2.4; the middle of the outputs stays the middle of the inputs.
    const Values middle =
        resized(x, {.scale = .6, .mode = Interpolation::linear, .coordinates = Coordinates::half_pixel_symmetric});
    expect_near({middle[0] + middle[1]}, {5}, 1e-12);
    const Values shifted = resized(x, {.scale = .6, .mode = Interpolation::linear});
    expect_near(shifted, {1 + 0.5 / .6 - .5, 1 + 1.5 / .6 - .5}, 1e-12);
    const Values crop = resized(x, {.size = 3,
                                    .mode = Interpolation::linear,
                                    .coordinates = Coordinates::tf_crop_and_resize,
                                    .crop_from = 1.0 / 3,
                                    .crop_to = 1});
    expect_near(crop, {2, 3, 4}, 1e-12);
}

TEST(ResampleValues, CropsOutsideGetTheValue) {
    // From position 0.6 of 6 inputs backwards to 0: 3, 1.5, 0.
    const Values x{0, 1, 2, 3, 4, 5};
    const Values back = resized(x, {.size = 3,
                                    .mode = Interpolation::linear,
                                    .coordinates = Coordinates::tf_crop_and_resize,
                                    .crop_from = .6,
                                    .crop_to = 0});
    expect_near(back, {3, 1.5, 0}, 1e-12);
    for (const auto mode : {Interpolation::linear, Interpolation::nearest}) {
        const Values outside = resized({4, 5, 6}, {.size = 4,
                                                   .mode = mode,
                                                   .coordinates = Coordinates::tf_crop_and_resize,
                                                   .crop_from = -.5,
                                                   .extrapolation = 7});
        expect_near(outside, {7, 4, 5, 6}, 1e-12);
    }
}

TEST(ResampleValues, NearestRounding) {
    const Values x{0, 1, 2, 3};
    const auto rule = [&](NearestRounding r) {
        return resized(
            x, {.size = 8, .mode = Interpolation::nearest, .coordinates = Coordinates::asymmetric, .rounding = r});
    };
    EXPECT_EQ(rule(NearestRounding::floor), (Values{0, 0, 1, 1, 2, 2, 3, 3}));
    EXPECT_EQ(rule(NearestRounding::ceil), (Values{0, 1, 1, 2, 2, 3, 3, 3}));
    EXPECT_EQ(rule(NearestRounding::round_prefer_floor), (Values{0, 0, 1, 1, 2, 2, 3, 3}));
    EXPECT_EQ(rule(NearestRounding::round_prefer_ceil), (Values{0, 1, 1, 2, 2, 3, 3, 3}));
}

TEST(ResampleValues, ExcludeOutside) {
    // The first output of 4 -> 8 lies at -0.25: cubic weights of inputs -2 to 1, of which two are left.
    const double f = .75, a = -.75;
    const auto near_weight = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    const auto far_weight = [&](double d) { return a * (((d - 5) * d + 8) * d - 4); };
    const double w0 = near_weight(1 - f), w1 = far_weight(2 - f);
    const Values y = resized({1, 2, 3, 4}, {.size = 8, .mode = Interpolation::cubic, .exclude_outside = true});
    EXPECT_NEAR(y[0], (w0 * 1 + w1 * 2) / (w0 + w1), 1e-12);
}

TEST(ResampleValues, AspectRatio) {
    const Tensor x = ca::ones({1, 2, 3, 4, 8});
    const auto shape = [&](ca::AspectRatio r) {
        return ca::resize(x, {.axes = {3, 4}, .size = {2, 6}, .aspect = r}).shape();
    };
    EXPECT_EQ(shape(ca::AspectRatio::not_larger), (Shape{1, 2, 3, 2, 4}));
    EXPECT_EQ(shape(ca::AspectRatio::not_smaller), (Shape{1, 2, 3, 3, 6}));
    EXPECT_EQ(shape(ca::AspectRatio::stretch), (Shape{1, 2, 3, 2, 6}));
    EXPECT_EQ(ca::resize(x, {.axes = {-1, 0}, .size = {ca::keep, 5}}).shape(), (Shape{5, 2, 3, 4, 8}));
}

TEST(ResampleValues, CubicAndLinearOfOthers) {
    expect_near(to(squares(), 3, {.mode = Interpolation::cubic}), {0.596065, 12.125, 38.820602}, 1e-5);
    expect_near(to(squares(), 3, {.mode = Interpolation::cubic, .antialias = true}),
                {1.03579352, 12.71855966, 37.48528324}, 1e-5);
    expect_near(to(squares(), 3, {.mode = Interpolation::linear, .antialias = true}),
                {2.05263158, 13.45238095, 35.57894737}, 1e-7);
    const Values v = values_of(to(squares(), 13, {.mode = Interpolation::cubic}));
    const Values want{-0.094091, 0.181341, 1.111117, 2.517581, 5.27805, 8.07368, 12.125};
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(v[i], want[i], 5e-5) << i;
    EXPECT_NEAR(v[12], 50.223188, 5e-5);
    expect_near(
        to(squares(), 3, {.mode = Interpolation::cubic, .cubic_a = -.5}),
        values_of(ca::resize(squares(), {.axes = {2}, .size = 3, .mode = Interpolation::cubic, .cubic_a = -.5})), 0);
}

TEST(ResampleValues, ThreeKindsOfArea) {
    expect_near(to(squares(), 3, {.mode = Interpolation::area}), {5. / 3, 13.5, 110. / 3}, 1e-6);
    expect_near(to(squares(), 3, {.mode = Interpolation::box}), {5. / 3, 12.5, 110. / 3}, 1e-6);
    expect_near(to(squares(), 3, {.mode = Interpolation::coverage}), {1.375, 13, 38.125}, 1e-6);
}

TEST(ResampleValues, ConstantImagesStayConstant) {
    const Tensor x = ca::full({1, 1, 1, 1}, 0.4216, ca::f16);
    const auto bits = x.to(ca::f32).item<float>();
    for (const float v :
         ca::interpolate(x, {.size = 5, .mode = Interpolation::linear}).to(ca::f32).to_vector<float>()) {
        EXPECT_EQ(v, bits);
    }
    for (const ca::DType d : {ca::f16, ca::bf16}) {
        const Tensor c = ca::full({1, 1, 3, 4}, 0.4216, d);
        for (const auto mode :
             {Interpolation::linear, Interpolation::cubic, Interpolation::lanczos3, Interpolation::area}) {
            const Tensor y = ca::interpolate(c, {.size = {7, 5}, .mode = mode});
            EXPECT_EQ(values_of(y), Values(35, c.to(ca::f64).to_vector<double>()[0])) << static_cast<int>(mode);
        }
    }
    // One more axis of scale 1 gives the same bits.
    const Tensor g = ca::testing::random_tensor({1, 3, 4, 4}, 3, -1, 1, ca::bf16);
    const auto pull = [&](const Shape& in, const ca::Scales& scale) {
        const auto v = ca::vjp(
            [&](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{ca::interpolate(x[0], {.scale = scale, .mode = Interpolation::linear})};
            },
            {ca::zeros(in, ca::bf16)});
        return values_of(v.pullback({ca::reshape(g, v.outputs[0].shape())})[0]);
    };
    EXPECT_EQ(pull({1, 3, 1, 2, 2}, {1, 2, 2}), pull({1, 3, 2, 2}, {2, 2}));
}

TEST(ResampleValues, AntialiasInThreeAxes) {
    const Tensor x = ca::testing::random_tensor({1, 3, 4, 12, 10}, 5);
    const ca::InterpolateOptions o{.size = {4, 5, 7}, .mode = Interpolation::linear, .antialias = true};
    const Tensor planes = ca::interpolate(ca::reshape(x, {1, 12, 12, 10}),
                                          {.size = {5, 7}, .mode = Interpolation::linear, .antialias = true});
    expect_near(ca::interpolate(x, o), values_of(planes), 1e-12);
    EXPECT_EQ(
        ca::interpolate(ca::ones({1, 2, 1, 8, 4}), {.size = {1, 2, 9}, .mode = Interpolation::cubic, .antialias = true})
            .shape(),
        (Shape{1, 2, 1, 2, 9}));
}

TEST(ResampleValues, AdaptiveMeans) {
    const Tensor x = counted({1, 1, 12});
    const auto f = [](const Tensor& t) { return ca::adaptive_avg_pool(t, {.size = 7}); };
    expect_near(f(x), {.5, 2, 4, 5.5, 7, 9, 10.5}, 1e-12);
    expect_near(gradient(x, f),
                {.5, .833333, .333333, .666667, .333333, .833333, .833333, .333333, .666667, .333333, .833333, .5},
                1e-6);
    const auto g = [](const Tensor& t) { return ca::adaptive_avg_pool(t, {.size = {3, 3, 2}}); };
    expect_near(g(counted({1, 1, 5, 4, 3})), {8, 9, 11, 12, 14, 15, 26, 27, 29, 30, 32, 33, 44, 45, 47, 48, 50, 51},
                1e-12);
    const Values v = values_of(gradient(counted({1, 1, 5, 4, 3}), g));
    const Values first{.125, .25, .125, .25, .5, .25};
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(v[i], first[i], 1e-12);
    EXPECT_EQ(values_of(ca::adaptive_avg_pool(ca::ones({1, 3, 5, 5}), {.size = 1})), (Values{1, 1, 1}));
    EXPECT_EQ(values_of(ca::adaptive_avg_pool(ca::ones({1, 1, 49, 63}), {.size = 1})), (Values{1}));
    EXPECT_EQ(values_of(ca::adaptive_avg_pool(line({1, 2, 4}), {.size = 5})), (Values{1, 1.5, 2, 3, 4}));
    EXPECT_EQ(ca::adaptive_avg_pool(ca::ones({2, 3, 9, 8, 7}), {.size = 7}).shape(), (Shape{2, 3, 7, 7, 7}));
    EXPECT_EQ(ca::adaptive_avg_pool(ca::ones({2, 3, 9, 8}), {.size = {ca::keep, 1}}).shape(), (Shape{2, 3, 9, 1}));
    // The inputs of an output and the outputs of an input are each other's inverse.
    for (std::int64_t in = 1; in < 24; ++in) {
        for (std::int64_t out = 1; out < 24; ++out) {
            const Values w = values_of(gradient(ca::ones({1, 1, in}, ca::f64), [&](const Tensor& t) {
                return ca::adaptive_avg_pool(t, {.size = out});
            }));
            for (std::int64_t i = 0; i < in; ++i) {
                double want = 0;
                for (std::int64_t o = i * out / in; o * in < (i + 1) * out; ++o) {
                    want += 1.0 / static_cast<double>(((o + 1) * in + out - 1) / out - o * in / out);
                }
                EXPECT_NEAR(w[static_cast<std::size_t>(i)], want, 1e-12);
            }
        }
    }
}

}  // namespace
