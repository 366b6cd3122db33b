// Resampling in one pass over memory on GPUs: rows of every length and alignment, up to three tables, against the CPU;
// which problems it takes, and what takes the others.
#include <cmath>

#include "gpu_check.h"

namespace ca = calor;
using ca::DType;
using ca::Shape;
using ca::Tensor;
using ca::testing::doubles;
using ca::testing::gpus;
using ca::testing::host;

namespace {

using Resize = std::function<Tensor(const Tensor&)>;

/// The values on a GPU are the CPU's within rounding, and `implementation` made them.
void expect_made_by(const char* implementation, const Tensor& x, const Resize& resize) {
    const double tolerance = x.dtype() == ca::f64   ? 1e-13
                             : x.dtype() == ca::f32 ? 5e-6
                             : x.dtype() == ca::f16 ? 2e-3
                                                    : 1.6e-2;
    const std::vector<double> expected = doubles(resize(x));
    for (const ca::Device d : gpus()) {
        const Tensor y = resize(x.to(d));
        const std::string plan = ca::explain_plan(y);
        EXPECT_NE(plan.find(implementation), std::string::npos) << plan;
        const std::vector<double> got = doubles(y);
        ASSERT_EQ(got.size(), expected.size());
        double largest = 1;
        for (const double v : expected) largest = std::max(largest, std::fabs(v));
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_NEAR(got[i], expected[i], tolerance * largest) << implementation << ", element " << i;
        }
    }
}

Tensor values(const Shape& shape, DType dtype) { return ca::normal(shape).to(host).to(dtype).eval(); }

TEST(GpuRows, EveryLengthAndAlignment) {
    const auto linear = ca::Interpolation::linear;
    const auto to = [&](const ca::PerAxis& size) {
        return [=](const Tensor& t) { return ca::interpolate(t, {.size = size, .mode = linear}); };
    };
    for (const DType dtype : {ca::f32, ca::f16, ca::bf16}) {
        expect_made_by("resample_rows", values({2, 3, 24, 40}, dtype), to({48, 80}));
        expect_made_by("resample_rows", values({1, 2, 5, 7}, dtype), to({9, 3}));
    }
    expect_made_by("resample_rows", values({1, 2, 6, 10}, ca::f64), to({4, 17}));
    expect_made_by("resample_rows", values({40, 8, 12, 12}, ca::f32), to({3, 3}));  // several rows a thread's neighbour
    expect_made_by("resample_rows", values({1, 3, 3000}, ca::f32), to({4100}));     // rows of which few fit
    expect_made_by("resample_rows", values({2, 2, 5, 6, 8}, ca::f32), to({7, 9, 16}));
    expect_made_by("resample_rows", values({600, 40, 2, 2}, ca::f32), to({4, 4}));  // the last group has rows to spare
}

TEST(GpuRows, StridedInputsGradientsAndPools) {
    const Tensor x = values({4, 6, 16, 16}, ca::f32);
    const auto up = [](const Tensor& t) { return ca::interpolate(t, {.scale = 2, .mode = ca::Interpolation::cubic}); };
    expect_made_by("resample_rows", x, [&](const Tensor& t) { return up(ca::slice(t, 1, ca::Slice{1, 5, 2})); });
    expect_made_by("resample_rows", x, [&](const Tensor& t) { return up(ca::flip(t, {0, 2})); });
    expect_made_by("resample_rows", x, [](const Tensor& t) { return ca::adaptive_avg_pool(t, {.size = {5, 7}}); });
    expect_made_by("resample_rows", x,
                   [](const Tensor& t) { return ca::avg_pool(t, {.kernel = 3, .stride = 2, .padding = 1}); });
    expect_made_by("resample_rows", x, [&](const Tensor& t) {
        const Tensor leaf = t.detach().requires_grad();
        const Tensor y = up(leaf);
        return ca::gradients({y}, {leaf}, {ca::ones_like(y)})[0];
    });
}

TEST(GpuRows, OthersAreTables) {
    const Tensor x = values({2, 8, 6, 10}, ca::f32);
    const auto linear = ca::Interpolation::linear;
    // Neighbours along the last axis of memory are channels, or it has no table.
    const auto last = [](const Tensor& t) { return ca::contiguous(ca::movedim(t, {1}, {3})); };
    expect_made_by("resample_tables", x, [&](const Tensor& t) {
        return ca::interpolate(ca::movedim(last(t), {3}, {1}), {.size = {9, 5}, .mode = linear});
    });
    expect_made_by("resample_tables", x, [&](const Tensor& t) {
        return ca::interpolate(t, {.size = {9, 10}, .mode = linear});
    });
    expect_made_by("resample_tables", values({1, 1, 9000}, ca::f32),
                   [&](const Tensor& t) { return ca::interpolate(t, {.size = {9500}, .mode = linear}); });
    for (const DType dtype : {ca::f32, ca::bf16, ca::u8}) {
        const Tensor v = (ca::normal({2, 3, 6, 12}).to(host) * 20).to(dtype).eval();
        expect_made_by("select_tables", v, [](const Tensor& t) { return ca::interpolate(t, {.size = {5, 24}}); });
        expect_made_by("select_tables", v, [](const Tensor& t) { return ca::interpolate(t, {.size = {12, 12}}); });
    }
}

TEST(GpuRows, LargePoolsWithConstantWindows) {
    const Tensor x = values({1, 8, 200, 200}, ca::f32);
    const auto gradient = [](const Tensor& t) {
        const Tensor leaf = t.detach().requires_grad();
        const Tensor y = ca::max_pool(leaf, {.kernel = 3, .stride = 2, .padding = 1});
        return ca::gradients({y}, {leaf}, {y.detach()})[0];
    };
    expect_made_by("pool_gather", x, gradient);
    expect_made_by("pool_gather", x, [](const Tensor& t) {
        return ca::max_pool(t, {.kernel = {3, 2}, .padding = {1, 1}, .dilation = {1, 2}});
    });
}

TEST(GpuDepthwise, AllRolesAndLayouts) {
    struct Case {
        Shape x, w;
        ca::ConvOptions options;
        DType dtype;
    };
    const Case cases[] = {
        {{2, 5, 9, 11}, {5, 1, 3, 3}, {.padding = 1, .groups = 5}, ca::f32},
        {{2, 4, 30, 9}, {4, 1, 7, 3}, {.padding = {3, 1}, .groups = 4}, ca::f16},
        {{3, 6, 8, 8}, {6, 1, 2, 5}, {.padding = {1, 2}, .groups = 6}, ca::bf16},
        {{1, 3, 7, 7}, {3, 1, 3, 3}, {.groups = 3}, ca::f64},
        {{2, 6, 40}, {6, 1, 5}, {.padding = 2, .groups = 6}, ca::f32},
        {{2, 3, 5, 6, 7}, {3, 1, 3, 2, 3}, {.padding = 1, .groups = 3}, ca::f32},
    };
    for (const Case& c : cases) {
        const Tensor x = values(c.x, c.dtype), w = values(c.w, c.dtype), b = values({c.w[0]}, c.dtype);
        for (const bool last : {false, true}) {
            if (c.dtype != ca::f32 && last == (c.dtype == ca::f64)) continue;  // each variant is compiled
            const auto lay = [&](const Tensor& t) {
                if (!last) return t;
                const std::int64_t end = t.rank() - 1;
                return ca::movedim(ca::contiguous(ca::movedim(t, {1}, {end})), {end}, {1});
            };
            const auto taps = [&](const Tensor& t) { return w.to(t.device()); };
            const auto forward = [&](const Tensor& t) {
                return ca::conv(lay(t), taps(t), b.to(t.device()), c.options);
            };
            expect_made_by("depthwise", x, forward);
            for (const int wanted : {0, 1}) {
                expect_made_by("depthwise", x, [&](const Tensor& t) {
                    const Tensor leaf = lay(t).detach().requires_grad(), kernel = taps(t).detach().requires_grad();
                    const Tensor y = ca::conv(leaf, kernel, c.options);
                    return ca::gradients({y}, {leaf, kernel}, {lay(y.detach())})[static_cast<std::size_t>(wanted)];
                });
            }
        }
    }
}

}  // namespace
