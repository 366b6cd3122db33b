// Gradients of resampling: differences, the adjoint identity over thousands of random calls, and order two.
#include <gtest/gtest.h>

#include "calor/calor.h"
#include "gradient_check.h"
#include "sanitized.h"

namespace ca = calor;
using ca::Dims;
using ca::Interpolation;
using ca::Shape;
using ca::Tensor;
using ca::testing::expect_gradients;
using ca::testing::random_tensor;

namespace {

struct Draw {
    std::mt19937 engine;
    explicit Draw(std::uint32_t seed) : engine(seed) {}
    std::int64_t operator()(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(high - low + 1));
    }
};

ca::ResizeOptions random_options(Draw& draw, const Shape& x) {
    ca::ResizeOptions o;
    Dims axes, size;
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        if (draw(0, 2) == 0 && !(a + 1 == x.rank() && axes.empty())) continue;
        axes.push_back(a);
        size.push_back(draw(1, 2 * x[a] + 1));
    }
    o.axes = axes;
    o.size = size;
    o.mode = static_cast<Interpolation>(draw(0, 7));
    const bool filtered = o.mode >= Interpolation::linear && o.mode <= Interpolation::lanczos3;
    if (filtered) {
        o.antialias = draw(0, 1) == 1;
        o.exclude_outside = draw(0, 1) == 1;
        o.coordinates = static_cast<ca::Coordinates>(draw(0, 6));
    }
    return o;
}

/// <A x, u> = <x, A' u>, and A'' = A.
void expect_adjoint(const ca::TensorFunction& f, const Shape& shape, std::uint32_t seed) {
    const Tensor x = random_tensor(shape, seed);
    const auto v = ca::vjp([&](const std::vector<Tensor>& t) { return std::vector<Tensor>{f(t[0])}; }, {x});
    const Tensor u = random_tensor(v.outputs[0].shape(), seed + 1);
    const double forward = ca::testing::dot({v.outputs[0]}, {u}), backward = ca::testing::dot({x}, v.pullback({u}));
    ASSERT_NEAR(forward, backward, 1e-11 * std::max(1.0, std::abs(forward))) << "seed " << seed;
}

TEST(ResampleGradient, AdjointOfThousands) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(2500U); ++seed) {
        Draw draw(seed);
        Shape x;
        const std::int64_t rank = draw(1, 6);
        for (std::int64_t a = 0; a < rank; ++a) x.push_back(draw(1, rank > 3 ? 3 : 7));
        const ca::ResizeOptions o = random_options(draw, x);
        expect_adjoint([&](const Tensor& t) { return ca::resize(t, o); }, x, seed);
    }
}

TEST(ResampleGradient, AdjointOfPooling) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(1000U); ++seed) {
        Draw draw(seed);
        Shape x{draw(1, 2), draw(1, 3)};
        Dims kernel, stride, dilation, low, high, size;
        const std::int64_t rank = draw(1, 4);
        for (std::int64_t a = 0; a < rank; ++a) {
            const std::int64_t k = draw(1, 3), d = draw(1, 2), extent = d * (k - 1) + 1;
            kernel.push_back(k);
            dilation.push_back(d);
            stride.push_back(draw(1, 3));
            low.push_back(draw(0, std::min<std::int64_t>(2, extent - 1)));
            high.push_back(draw(0, std::min<std::int64_t>(2, extent - 1)));
            x.push_back(std::max<std::int64_t>(draw(1, 6), extent - low.back() - high.back()));
            size.push_back(draw(0, 3) == 0 ? ca::keep : draw(1, 9));
        }
        const ca::AvgPoolOptions o{.kernel = kernel,
                                   .stride = stride,
                                   .padding = ca::WindowPadding(low, high),
                                   .dilation = dilation,
                                   .ceil_mode = draw(0, 1) == 1,
                                   .count_include_pad = draw(0, 1) == 1,
                                   .divisor = draw(0, 3) == 0 ? 5 : 0};
        expect_adjoint([&](const Tensor& t) { return ca::avg_pool(t, o); }, x, seed);
        expect_adjoint([&](const Tensor& t) { return ca::adaptive_avg_pool(t, {.size = size}); }, x, seed);
    }
}

TEST(ResampleGradient, DifferencesAndOrderTwo) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(48U); ++seed) {
        Draw draw(seed + 9000);
        Shape x;
        const std::int64_t rank = draw(1, 5);
        for (std::int64_t a = 0; a < rank; ++a) x.push_back(draw(1, rank > 3 ? 2 : 5));
        const ca::ResizeOptions o = random_options(draw, x);
        // A square, so that the second order is not zero.
        expect_gradients(
            [&](const Tensor& t) {
                const Tensor y = ca::resize(t, o);
                return y * y;
            },
            random_tensor(x, seed));
    }
    expect_gradients(
        [](const Tensor& t) {
            return ca::exp(ca::adaptive_avg_pool(t, {.size = {2, 5}}));
        },
        random_tensor({2, 2, 5, 3}, 1));
    expect_gradients(
        [](const Tensor& t) {
            return ca::sin(ca::resize(t, {.size = 4,
                                          .coordinates = ca::Coordinates::tf_crop_and_resize,
                                          .crop_from = -.3,
                                          .crop_to = .8,
                                          .extrapolation = 2}));
        },
        random_tensor({5, 4}, 1));
}

}  // namespace
