// Tensors past 2^31 and 2^32 elements: public faults of other frameworks at the sizes where they were seen, on the
// default device, when CALOR_TEST_LARGE is set (up to 80 GB of memory); otherwise the same problems with a few axes
// cut. Parts of a result are compared with a small problem made of the same numbers, computed on the host in f32.
#include <cmath>
#include <cstdlib>

#include "gpu_check.h"

namespace ca = calor;
using ca::Dims;
using ca::DType;
using ca::Shape;
using ca::Tensor;
using ca::testing::doubles;
using ca::testing::host;

namespace {

/// The size as it was reported, or a small one for machines without the memory.
std::int64_t cut(std::int64_t full, std::int64_t small) {
    static const bool large = std::getenv("CALOR_TEST_LARGE") != nullptr;
    return large ? full : small;
}

Tensor host_f32(const Tensor& t) { return t.to(host).to(ca::f32); }

/// Random numbers, the same on every device.
Tensor random_values(const Shape& shape, DType dtype, double scale) {
    ca::Generator generator(7);
    return ca::uniform(shape, -scale, scale, dtype, generator).eval();
}

/// Compares y[n, :, at] of y = conv(x, w) without padding with the convolution of the inputs below it.
void expect_position(const Tensor& x, const Tensor& w, const Tensor& y, const Dims& stride, const Dims& at) {
    Tensor below = ca::narrow(x, 0, at[0], 1), got = ca::narrow(y, 0, at[0], 1);
    for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(stride.size()); ++axis) {
        const std::int64_t position = at[static_cast<std::size_t>(axis) + 1];
        below = ca::narrow(below, axis + 2, position * stride[static_cast<std::size_t>(axis)], w.size(axis + 2));
        got = ca::narrow(got, axis + 2, position, 1);
    }
    const std::vector<double> expected = doubles(ca::conv(host_f32(below), host_f32(w), {.stride = stride}));
    const std::vector<double> values = doubles(got);
    ASSERT_EQ(values.size(), expected.size());
    double largest = 0;
    for (const double v : expected) largest = std::max(largest, std::fabs(v));
    ASSERT_GT(largest, 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i], expected[i], 0.01 * largest) << "channel " << i;
    }
}

void expect_all(const Tensor& t, double value) {
    const Tensor least = ca::min(t), largest = ca::max(t);
    EXPECT_EQ(doubles(least)[0], value);
    EXPECT_EQ(doubles(largest)[0], value);
}

double at(const Tensor& t, const Dims& index) {
    Tensor part = t;
    for (std::int64_t axis = 0; axis < t.rank(); ++axis) {
        part = ca::narrow(part, axis, index[static_cast<std::size_t>(axis)], 1);
    }
    return doubles(part)[0];
}

}  // namespace

// pt#163539
TEST(Large, ConvolutionBesideDepth) {
    const std::int64_t d = cut(124, 5), h = cut(1282, 14), wide = cut(722, 11);
    const Tensor x = random_values({1, 16, d, h, wide}, ca::bf16, 1),
                 w = random_values({16, 16, 1, 3, 3}, ca::bf16, 0.1);
    const Tensor y = ca::conv(x, w).eval();
    ASSERT_EQ(y.shape(), (Shape{1, 16, d, h - 2, wide - 2}));
    for (const Dims& p : {Dims{0, 0, 0, 0}, Dims{0, d / 2, h / 2, 3}, Dims{0, d - 1, h - 3, wide - 3}}) {
        expect_position(x, w, y, {1, 1, 1}, p);
    }
}

// pt#87354, pt#43476
TEST(Large, PointwiseConvolutionAtTwoToThe31) {
    const std::int64_t side = cut(512, 8);
    const Tensor x = ca::ones({1, 32, side, side, cut(256, 9)}, ca::f32), w = ca::ones({1, 32, 1, 1, 1}, ca::f32);
    expect_all(ca::conv(x, w), 32);
}

// pt#117736, pt#113833
TEST(Large, ChannelsTimesPlanePastTwoToThe31) {
    const std::int64_t side = cut(2048, 12);
    const Tensor x = ca::ones({1, 514, side, side}, ca::f16), w = ca::ones({1, 514, 3, 3}, ca::f16);
    const Tensor y = ca::conv(x, w, {.padding = 1}).eval();
    for (const std::int64_t i : {std::int64_t{0}, side - 1}) {
        for (const std::int64_t j : {std::int64_t{0}, side - 1}) EXPECT_EQ(at(y, {0, 0, i, j}), 2056);
        EXPECT_EQ(at(y, {0, 0, i, side / 2}), 3084);
        EXPECT_EQ(at(y, {0, 0, side / 2, i}), 3084);
    }
    expect_all(ca::narrow(ca::narrow(y, 2, 1, side - 2), 3, 1, side - 2), 4624);  // 4626, rounded to f16
}

// ROCm/rocm-libraries#4611
TEST(Large, ColumnsPastTwoToThe32) {
    const std::int64_t d = cut(19, 4), h = cut(146, 6), wide = cut(258, 7);
    const Tensor x = random_values({1, 256, d, h, wide}, ca::f16, 1),
                 w = random_values({256, 256, 3, 3, 3}, ca::f16, 0.03);
    const Tensor y = ca::conv(x, w).eval();
    for (const Dims& p : {Dims{0, 0, 0, 0}, Dims{0, d / 3, h / 2, 4}, Dims{0, d - 3, h - 3, wide - 3}}) {
        expect_position(x, w, y, {1, 1, 1}, p);
    }
    const Tensor gw =
        ca::conv_weight_grad(ca::ones(x.shape(), ca::f16), ca::full(y.shape(), 1.0 / 64, ca::f16), {3, 3, 3});
    const double count = static_cast<double>(y.numel() / 256) / 64;
    EXPECT_NEAR(at(gw, {255, 255, 2, 2, 2}) / count, 1, 1e-3);
}

// flagos-ai/FlagGems#6588
TEST(Large, PatchesOfAHugeBatch) {
    const std::int64_t n = cut(522240, 33), channels = 1280;
    const Tensor x = random_values({n, 3, 2, 14, 14}, ca::bf16, 1),
                 w = random_values({channels, 3, 2, 14, 14}, ca::bf16, 0.05);
    const Tensor y = ca::conv(x, w, {.stride = {2, 14, 14}}).eval();
    ASSERT_EQ(y.shape(), (Shape{n, channels, 1, 1, 1}));
    for (const std::int64_t i : {std::int64_t{0}, n / 2, n - 1}) expect_position(x, w, y, {2, 14, 14}, {i, 0, 0, 0});
}

// cutlass#2651; pt#44109
TEST(Large, PointwiseConvolutionPastTwoToThe32) {
    const std::int64_t side = cut(4096, 9);
    const Tensor x = random_values({1, 128, side, side}, ca::f16, 1), w = random_values({64, 128, 1, 1}, ca::f16, 0.1);
    const Tensor y = ca::conv(x, w).eval();
    for (const Dims& p : {Dims{0, 0, 0}, Dims{0, side / 2, 5}, Dims{0, side - 1, side - 1}})
        expect_position(x, w, y, {1, 1}, p);

    const std::int64_t h = cut(1920, 6), wide = cut(1080, 5);
    const Tensor volume = random_values({1, 256, 16, h, wide}, ca::f16, 1),
                 kernel = random_values({8, 256, 1, 1, 1}, ca::f16, 0.1);
    const Tensor z = ca::conv(volume, kernel).eval();
    for (const Dims& p : {Dims{0, 0, 0, 0}, Dims{0, 15, h - 1, wide - 1}})
        expect_position(volume, kernel, z, {1, 1, 1}, p);
}

// pt#141831, pt#129118, pt#144855
TEST(Large, NearestPastTwoToThe32Outputs) {
    const std::int64_t side = cut(512, 8);
    const Tensor last = ca::permute(ca::ones({cut(17, 2), side, side, 256}, ca::bf16).eval(), {0, 3, 1, 2});
    expect_all(ca::interpolate(last, {.scale = {2, 2}}), 1);
}
TEST(Large, NearestOfVolumes) {
    const Tensor x = ca::ones({1, cut(256, 3), 16, cut(720, 6), cut(1280, 5)}, ca::bf16);
    expect_all(ca::interpolate(x, {.scale = {2, 2, 2}}), 1);
}

// pt#117011
TEST(Large, GradientOfNearestPastTwoToThe31) {
    const Tensor x = ca::ones({cut(1025, 3), 2, 256, 256}, ca::f32).requires_grad();
    const Tensor y = ca::interpolate(x, {.size = {1024, 1024}});
    const std::vector<Tensor> g = ca::gradients({y}, {x}, {ca::ones(y.shape(), ca::f32)});
    expect_all(g[0], 16);
}

// pt#185788
TEST(Large, BilinearAtTwoToThe31Outputs) {
    const std::int64_t side = cut(512, 8);
    const Tensor x = ca::permute(ca::ones({cut(32, 2), side, side, 64}, ca::f16).eval(), {0, 3, 1, 2});
    expect_all(ca::interpolate(x, {.scale = {2, 2}, .mode = ca::Interpolation::linear}), 1);
}

// Every kind of kernel beyond 2^32 elements of one byte: the numbers at the far end tell.
TEST(Large, ElementsPastTwoToThe32) {
    const std::int64_t rows = cut((std::int64_t{1} << 22) + 3, 37), columns = 1024;
    const Tensor column = ca::remainder(ca::arange(0, rows), 100).to(ca::u8).eval();
    const Tensor row = ca::remainder(ca::arange(0, columns), 50).to(ca::u8).eval();
    const Tensor x = (ca::reshape(column, {rows, 1}) + ca::reshape(row, {1, columns})).eval();
    const auto value = [](std::int64_t i, std::int64_t j) { return static_cast<double>(i % 100 + j % 50); };
    EXPECT_EQ(at(x, {rows - 1, columns - 1}), value(rows - 1, columns - 1));

    EXPECT_EQ(at(ca::contiguous(ca::transpose(x, 0, 1)).eval(), {columns - 2, rows - 2}), value(rows - 2, columns - 2));
    EXPECT_EQ(at(ca::contiguous(ca::flip(x, {0, 1})).eval(), {0, 1}), value(rows - 1, columns - 2));
    EXPECT_EQ(at(ca::pad(x, {{1, 0}, {0, 1}}).eval(), {rows, columns - 1}), value(rows - 1, columns - 1));
    EXPECT_EQ(at(ca::concat({ca::narrow(x, 0, 0, 1), x}, 0).eval(), {rows, 7}), value(rows - 1, 7));
    const Tensor places = ca::tensor(std::vector<std::int64_t>{0, rows - 1, rows / 2});
    EXPECT_EQ(at(ca::index_select(x, 0, places).eval(), {1, columns - 1}), value(rows - 1, columns - 1));

    double total = 0, last_column = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
        total += static_cast<double>(i % 100);
        last_column += value(i, columns - 1);
    }
    total *= static_cast<double>(columns);
    for (std::int64_t j = 0; j < columns; ++j) total += static_cast<double>((j % 50) * rows);
    EXPECT_EQ(static_cast<double>(ca::sum(x.to(ca::i64)).item<std::int64_t>()), total);
    EXPECT_EQ(static_cast<double>(ca::sum(x.to(ca::i64), {0}).to(host).to_vector<std::int64_t>().back()), last_column);
    EXPECT_EQ(at(ca::max(x, {1}), {rows - 1}), value(rows - 1, 49));
}
