// Padding, pooling, resampling, windows and sampling on GPUs: values and gradients of first and second order agree with
// the CPU's for every dtype, option and way of lying in memory, twice with the same bits.
#include <cmath>
#include <functional>
#include <random>

#include "gpu_check.h"
#include "gradient_check.h"
#include "strided.h"

namespace ca = calor;
using ca::Axes;
using ca::DType;
using ca::Shape;
using ca::Tensor;
using ca::testing::doubles;
using ca::testing::expect_error;
using ca::testing::gpus;
using ca::testing::host;
using ca::testing::random_tensor;

namespace {

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
using Tensors = std::vector<Tensor>;

constexpr DType floating[] = {ca::f64, ca::f32, ca::f16, ca::bf16};

double tolerance_of(DType dtype) {
    switch (dtype) {
        case ca::f64: return 1e-12;
        case ca::f32: return 2e-5;
        case ca::f16: return 2e-3;
        case ca::bf16: return 1.6e-2;
        default: return 0;
    }
}

void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
    ASSERT_EQ(got.shape(), expected.shape()) << what;
    ASSERT_EQ(got.dtype(), expected.dtype()) << what;
    const std::vector<double> a = doubles(got), b = doubles(expected);
    const double tolerance = tolerance_of(got.dtype());
    double largest = 1;
    for (const double v : b) largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
        ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * largest)
            << what << ": element " << i << " is " << a[i] << ", not " << b[i];
    }
}

void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what) {
    const std::vector<double> x = doubles(a), y = doubles(b);
    ASSERT_EQ(x.size(), y.size()) << what;
    for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) << what << ": differs from run to run";
    }
}

/// The pullback of f at its inputs, as a function of the inputs and then the cotangents.
Function pullback_of(const Function& f, std::size_t count) {
    return [f, count](const Tensors& all) {
        const Tensors x(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
        const Tensors u(all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
        return ca::vjp(f, x).pullback(u);
    };
}

/// The same, of gradients that are not recorded.
Function direct_pullback_of(const Function& f, std::size_t count) {
    return [f, count](const Tensors& all) {
        Tensors x;
        for (std::size_t i = 0; i < count; ++i) x.push_back(all[i].detach().requires_grad());
        const Tensors u(all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
        return ca::gradients(f(x), x, u);
    };
}

/// Values of f on every GPU and on the CPU; of its pullbacks up to an order. Each input of a floating dtype is
/// differentiated; `f` gives floating results when `orders` is not 0.
void expect_agreement(const std::string& name, const Function& f, const Tensors& inputs, int orders = 2) {
    for (const ca::Device d : gpus()) {
        Function step = f;
        Tensors at;
        for (const Tensor& t : inputs) at.push_back(t.to(host));
        for (int order = 0; order <= orders; ++order) {
            const std::string what = name + " on " + ca::to_string(d) + ", order " + std::to_string(order);
            SCOPED_TRACE(what);
            Tensors there;
            for (const Tensor& t : at) there.push_back(t.to(d));
            const auto on = [&](ca::Device device, const Tensors& x) {
                const ca::OnDevice scope(device);
                Tensors y = step(x);
                for (const Tensor& t : y) {
                    if (t.defined()) t.eval();
                }
                return y;
            };
            const Tensors expected = on(host, at), got = on(d, there), again = on(d, there);
            ASSERT_EQ(got.size(), expected.size());
            Tensors next = at;
            std::uint32_t seed = 77;
            for (std::size_t i = 0; i < got.size(); ++i) {
                if (!expected[i].defined()) continue;
                EXPECT_EQ(got[i].device(), d) << what;
                expect_close(got[i], expected[i], what + ", result " + std::to_string(i));
                expect_same_bits(got[i], again[i], what);
                if (order < orders) {
                    next.push_back(random_tensor(expected[i].shape(), seed++, -1, 1, expected[i].dtype()).to(host));
                }
            }
            if (testing::Test::HasFatalFailure() || order == orders) break;
            step = pullback_of(step, at.size());
            at = next;
        }
    }
}

/// One result and one input.
void expect_unary(const std::string& name, const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                  int orders = 2) {
    expect_agreement(
        name, [f](const Tensors& in) { return Tensors{f(in[0])}; }, {x}, orders);
}

/// f of a tensor that lies plainly, channels-last, backwards, with gaps, and broadcast.
void expect_under_strides(const std::string& name, const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
    const std::int64_t rank = x.rank();
    Axes last{0}, back{0, rank - 1};
    for (std::int64_t a = 2; a < rank; ++a) {
        last.push_back(a);
        back.push_back(a - 1);
    }
    last.push_back(1);
    const auto channels_last = [&](const Tensor& t) { return ca::permute(ca::contiguous(ca::permute(t, last)), back); };
    expect_unary(name + ", plain", f, x, 1);
    if (rank > 2)
        expect_unary(
            name + ", channels last", [&](const Tensor& t) { return f(channels_last(t)); }, x, 1);
    expect_unary(
        name + ", backwards", [&](const Tensor& t) { return f(ca::flip(t)); }, x, 0);
    expect_unary(
        name + ", gaps",
        [&](const Tensor& t) {
            return f(ca::slice(ca::concat({t, t}, -1), -1, {.start = 1, .step = 2}));
        },
        x, 0);
    expect_unary(
        name + ", broadcast", [&](const Tensor& t) { return f(ca::expand(ca::slice(t, 0, {.stop = 1}), x.shape())); },
        x, 0);
}

Tensor numbers(const std::vector<double>& values, const Shape& shape) { return ca::tensor(values, shape); }
Tensor integers(const Shape& shape, DType dtype) { return ca::testing::counting(shape, dtype); }

// ---- views ----

TEST(GpuPad, Constants) {
    const std::vector<ca::Padding> sides{{1, 2}, {0, 3}};
    for (const DType dtype : ca::testing::every_dtype) {
        expect_unary(
            "pad", [&](const Tensor& t) { return ca::pad(t, sides, 1); }, integers({2, 3, 5, 8}, dtype), 0);
    }
    for (const DType dtype : floating) {
        expect_unary(
            "pad", [&](const Tensor& t) { return ca::pad(t, sides, 0.5); },
            random_tensor({2, 3, 4, 5}, 1, -1, 1, dtype));
    }
    expect_under_strides(
        "pad", [&](const Tensor& t) { return ca::pad(t, sides); }, random_tensor({2, 3, 4, 8}, 2, -1, 1, ca::f32));
    expect_unary(
        "cut and pad",
        [](const Tensor& t) {
            return ca::pad(t, {{-1, 2}, {3, -2}});
        },
        random_tensor({5, 6}, 3, -1, 1, ca::f32));
    expect_unary(
        "rank 6",
        [](const Tensor& t) {
            return ca::pad(t, {{1, 0}, {0, 1}, {2, 1}, {0, 0}, {1, 1}, {0, 2}});
        },
        random_tensor({2, 1, 2, 3, 2, 2}, 4, -1, 1, ca::f32));
    expect_unary(
        "empty",
        [](const Tensor& t) {
            return ca::pad(t, {{2, 1}});
        },
        ca::zeros({3, 0}), 0);
    expect_unary(
        "rank 1",
        [](const Tensor& t) {
            return ca::pad(t, {{2, 1}}, true);
        },
        integers({7}, ca::boolean), 0);
}

TEST(GpuPad, Borders) {
    const std::vector<ca::Padding> sides{{3, 2}, {7, 9}};
    for (const ca::PadMode mode :
         {ca::PadMode::reflect, ca::PadMode::symmetric, ca::PadMode::replicate, ca::PadMode::circular}) {
        const auto f = [&](const Tensor& t) { return ca::pad(t, sides, mode); };
        const bool all = mode == ca::PadMode::reflect;  // the dtypes share the rest
        for (const DType dtype : {ca::i64, ca::i16, ca::boolean}) {
            if (all) expect_unary("pad_border", f, integers({2, 3, 4, 8}, dtype), 0);
        }
        for (const DType dtype : floating) {
            if (all || dtype == ca::f32) expect_unary("pad_border", f, random_tensor({2, 3, 4, 3}, 5, -1, 1, dtype));
        }
        if (all) expect_under_strides("pad_border", f, random_tensor({2, 3, 4, 3}, 6, -1, 1, ca::f32));
        expect_unary("one entry", f, random_tensor({2, 1, 1}, 7, -1, 1, ca::f32), 1);
    }
    expect_unary(
        "three axes",
        [](const Tensor& t) {
            return ca::pad(t, {{1, 1}, {2, 0}, {0, 4}}, ca::PadMode::circular);
        },
        random_tensor({2, 2, 3, 4}, 8, -1, 1, ca::f32), 1);
}

TEST(GpuViews, GradientsOfSlicesAndDiagonals) {
    for (const DType dtype : floating) {
        const Tensor x = random_tensor({3, 7, 5}, 9, -1, 1, dtype);
        expect_unary(
            "step", [](const Tensor& t) { return ca::slice(t, 1, {.start = 1, .step = 2}); }, x);
        expect_unary(
            "backwards", [](const Tensor& t) { return ca::slice(t, 1, {.step = -3}); }, x);
        expect_unary(
            "select", [](const Tensor& t) { return ca::select(t, -1, 2); }, x);
        expect_unary(
            "diagonal", [](const Tensor& t) { return ca::diagonal(t, -1, 2, 0); }, x);
    }
    for (const DType dtype : ca::testing::every_dtype) {
        for (const std::int64_t offset : {0, 2, -3}) {
            expect_unary(
                "diag_embed", [&](const Tensor& t) { return ca::diag_embed(t, offset); }, integers({2, 4}, dtype), 0);
        }
    }
}

// ---- pooling ----

struct PoolCase {
    Shape shape;
    ca::MaxPoolOptions options;
};
const PoolCase pool_cases[] = {
    {{2, 3, 9}, {.kernel = 3, .stride = 2}},
    {{2, 3, 8, 9}, {.kernel = 2}},
    {{2, 3, 7, 9}, {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}},
    {{1, 2, 9, 11}, {.kernel = {3, 2}, .stride = {1, 3}, .padding = {2, 1}, .dilation = {2, 3}}},
    {{1, 2, 5, 6, 4}, {.kernel = {2, 3, 2}, .stride = {2, 1, 2}, .padding = {1, 1, 0}}},
    {{1, 2, 3, 4, 3, 2}, {.kernel = 2, .stride = 1}},
    {{1, 1, 40, 20}, {.kernel = {17, 18}, .stride = 2, .padding = 3}},
};

TEST(GpuMaxPool, ValuesIndicesGradients) {
    for (const PoolCase& c : pool_cases) {
        const auto f = [&](const Tensor& t) { return ca::max_pool(t, c.options); };
        expect_unary("max_pool", f, random_tensor(c.shape, 10, -9, 9, ca::f32));
    }
    const PoolCase& usual = pool_cases[2];
    const auto f = [&](const Tensor& t) { return ca::max_pool(t, usual.options); };
    for (const DType dtype : floating) expect_unary("max_pool", f, random_tensor(usual.shape, 10, -9, 9, dtype), 1);
    expect_under_strides("max_pool", f, random_tensor(usual.shape, 11, -1, 1, ca::f32));
    for (const std::size_t i : {2, 6}) {
        expect_agreement(
            "indices",
            [&](const Tensors& in) {
                const auto r = ca::max_pool_with_indices(in[0], pool_cases[i].options);
                return Tensors{r.values, r.indices};
            },
            {random_tensor(pool_cases[i].shape, 12, -3, 3, ca::f32)}, 0);
    }
    for (const DType dtype : ca::testing::every_dtype) {
        expect_unary(
            "dtypes", [&](const Tensor& t) { return ca::max_pool(t, pool_cases[2].options); },
            integers({2, 3, 7, 9}, dtype), 0);
    }
    Tensor odd = numbers({0.0, NAN, 1.0, -INFINITY, -INFINITY, -INFINITY, 2.0, NAN}, {1, 1, 8}).to(ca::f32);
    expect_agreement(
        "odd numbers",
        [&](const Tensors& in) {
            const auto r = ca::max_pool_with_indices(in[0], {.kernel = 3, .stride = 1, .padding = 1});
            return Tensors{r.values, r.indices};
        },
        {odd}, 0);
    expect_unary(
        "empty batch", [&](const Tensor& t) { return ca::max_pool(t, {.kernel = 2}); }, ca::zeros({0, 3, 4, 4}), 1);
}

TEST(GpuMaxPool, Boxes) {
    const auto adaptive = [](const Tensor& t) { return ca::adaptive_max_pool(t, {.size = {3, 4}}); };
    for (const DType dtype : floating)
        expect_unary("adaptive", adaptive, random_tensor({2, 3, 7, 9}, 13, -1, 1, dtype));
    for (const DType dtype : ca::testing::every_dtype)
        expect_unary("adaptive", adaptive, integers({2, 3, 5, 6}, dtype), 0);
    expect_under_strides("adaptive", adaptive, random_tensor({2, 3, 5, 6}, 14, -1, 1, ca::f32));
    expect_unary(
        "three axes",
        [](const Tensor& t) {
            return ca::adaptive_max_pool(t, {.size = {2, 5, 1}});
        },
        random_tensor({2, 2, 4, 3, 5}, 15, -1, 1, ca::f32));
    const Tensor samples = random_tensor({2, 3, 2}, 16, 0, 1, ca::f64);
    expect_agreement(
        "fractional",
        [&](const Tensors& in) {
            const ca::OnDevice scope(in[0].device());
            const auto r = ca::fractional_max_pool(
                in[0], {.kernel = {2, 3}, .size = {4, 5}, .samples = samples.to(in[0].device())});
            return Tensors{r.values, r.indices};
        },
        {random_tensor({2, 3, 9, 11}, 17, -1, 1, ca::f32)}, 0);
    expect_unary(
        "fractional",
        [&](const Tensor& t) {
            return ca::fractional_max_pool(t, {.kernel = {2, 3}, .size = {4, 5}, .samples = samples.to(t.device())})
                .values;
        },
        random_tensor({2, 3, 9, 11}, 18, -1, 1, ca::f32));
}

TEST(GpuMaxPool, Unpool) {
    for (const DType index : {ca::i64, ca::i32, ca::u8}) {
        const Tensor indices = numbers({3, 0, 5, 5, 1, 2, 2, 2, 7, 0, 6, 0}, {2, 2, 3}).to(index);
        for (const DType dtype : ca::testing::every_dtype) {
            if (index != ca::i64 && dtype != ca::f32) continue;
            const Tensor values = integers({2, 2, 3}, dtype);
            expect_unary(
                "max_unpool", [&](const Tensor& t) { return ca::max_unpool(t, indices.to(t.device()), {8}); }, values,
                ca::is_floating(dtype) ? 2 : 0);
        }
    }
    for (const ca::Device d : gpus()) {
        const Tensor values = ca::ones({1, 1, 3}).to(d);
        const Tensor far = numbers({0, 8, 1}, {1, 1, 3}).to(ca::i64).to(d),
                     negative = numbers({0, 1, -2}, {1, 1, 3}).to(ca::i32).to(d);
        expect_error("index/range", [&] { ca::max_unpool(values, far, {8}).eval(); });
        expect_error("index/range", [&] { ca::max_unpool(values, negative, {8}).eval(); });
    }
    // Many entries at one place, and more than one group of the sort.
    std::vector<std::int64_t> places;
    std::mt19937 engine(5);
    for (int i = 0; i < 6000; ++i) places.push_back(i % 3 == 0 ? 17 : static_cast<std::int64_t>(engine() % 5000));
    const Tensor many = ca::tensor(places, {1, 2, 3000});
    expect_unary(
        "many", [&](const Tensor& t) { return ca::max_unpool(t, many.to(t.device()), {5000}); },
        random_tensor({1, 2, 3000}, 19, -1, 1, ca::f32));
}

// ---- resampling ----

TEST(GpuResample, ModesAndGradients) {
    using enum ca::Interpolation;
    for (const ca::Interpolation mode : {nearest, nearest_exact, linear, cubic, area}) {
        for (const DType dtype : floating) {
            if (mode != cubic && dtype != ca::f32) continue;
            const ca::InterpolateOptions up{.size = {9, 11}, .mode = mode}, down{.size = {3, 4}, .mode = mode};
            const int orders = dtype == ca::f32 ? 2 : 1;
            expect_unary(
                "up", [&](const Tensor& t) { return ca::interpolate(t, up); },
                random_tensor({2, 3, 5, 6}, 20, -1, 1, dtype), orders);
            expect_unary(
                "down", [&](const Tensor& t) { return ca::interpolate(t, down); },
                random_tensor({2, 3, 8, 7}, 21, -1, 1, dtype), orders);
        }
    }
    for (const ca::Interpolation mode : {linear, cubic, lanczos3}) {
        expect_unary(
            "antialias",
            [&](const Tensor& t) {
                return ca::interpolate(t, {.size = {5, 4}, .mode = mode, .antialias = true});
            },
            random_tensor({2, 3, 31, 40}, 22, -1, 1, ca::f32));
    }
    for (const std::int64_t rank : {1, 3, 4}) {
        Shape shape{2, 2};
        for (std::int64_t a = 0; a < rank; ++a) shape.push_back(3 + a);
        expect_unary(
            "ranks",
            [&](const Tensor& t) { return ca::interpolate(t, {.scale = 2, .mode = linear, .align_corners = true}); },
            random_tensor(shape, 23, -1, 1, ca::f32));
    }
    expect_under_strides(
        "linear",
        [&](const Tensor& t) {
            return ca::interpolate(t, {.size = {7, 9}, .mode = linear});
        },
        random_tensor({2, 3, 5, 6}, 24, -1, 1, ca::f32));
    for (const DType dtype : ca::testing::every_dtype) {
        expect_unary(
            "nearest",
            [&](const Tensor& t) {
                return ca::interpolate(t, {.size = {7, 9}});
            },
            integers({2, 3, 5, 6}, dtype), 0);
    }
}

TEST(GpuResample, Bytes) {
    using enum ca::Interpolation;
    std::mt19937 engine(3);
    std::vector<std::int64_t> values;
    for (int i = 0; i < 2 * 3 * 20 * 30; ++i) values.push_back(static_cast<std::int64_t>(engine() % 256));
    const Tensor image = ca::tensor(values, {2, 3, 20, 30}).to(ca::u8);
    for (const ca::Interpolation mode : {linear, cubic, lanczos3}) {
        for (const Shape& size : {Shape{7, 9}, Shape{33, 41}}) {
            expect_unary(
                "u8",
                [&](const Tensor& t) {
                    return ca::interpolate(t, {.size = ca::PerAxis(size), .mode = mode, .antialias = true});
                },
                image, 0);
        }
    }
}

TEST(GpuResample, AveragePools) {
    for (const DType dtype : floating) {
        for (const bool padding : {true, false}) {
            const ca::AvgPoolOptions o{
                .kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = padding};
            expect_unary(
                "avg_pool", [&](const Tensor& t) { return ca::avg_pool(t, o); },
                random_tensor({2, 3, 8, 7}, 25, -1, 1, dtype), 1);
        }
        expect_unary(
            "adaptive",
            [&](const Tensor& t) {
                return ca::adaptive_avg_pool(t, {.size = {3, 10}});
            },
            random_tensor({2, 3, 8, 7}, 26, -1, 1, dtype), 1);
    }
    expect_unary(
        "global",
        [&](const Tensor& t) {
            return ca::adaptive_avg_pool(t, {.size = {1, 1}});
        },
        random_tensor({2, 3, 40, 37}, 27, -1, 1, ca::f32));
    expect_unary(
        "three axes",
        [&](const Tensor& t) {
            return ca::avg_pool(t, {.kernel = {2, 3, 2}, .dilation = {1, 2, 1}});
        },
        random_tensor({2, 2, 4, 7, 6}, 28, -1, 1, ca::f32));
}

// ---- windows ----

TEST(GpuUnfold, FoldsBack) {
    const ca::UnfoldOptions o{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 2}};
    const Shape sizes{7, 8};
    for (const DType dtype : ca::testing::every_dtype) {
        if (dtype == ca::boolean) continue;
        const auto f = [&](const Tensor& t) { return ca::fold(ca::unfold(t, o), {7, 8}, o); };
        if (ca::is_floating(dtype)) {
            expect_unary("fold", f, random_tensor({2, 3, 7, 8}, 29, -1, 1, dtype));
        } else {
            expect_unary("fold", f, integers({2, 3, 7, 8}, dtype), 0);
        }
    }
    expect_under_strides(
        "unfold", [&](const Tensor& t) { return ca::unfold(t, o); }, random_tensor({2, 3, 7, 8}, 30, -1, 1, ca::f32));
    expect_unary(
        "windows",
        [](const Tensor& t) {
            return ca::windows(t, {.kernel = {2, 2}, .stride = {1, 3}, .axes = {3, 0}});
        },
        random_tensor({4, 2, 3, 7}, 31, -1, 1, ca::f32));
}

// ---- sampling ----

TEST(GpuGrid, SamplesAndGradients) {
    using ca::GridMode;
    using ca::GridPadding;
    for (const GridMode mode : {GridMode::nearest, GridMode::linear, GridMode::cubic}) {
        for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
            for (const bool align : {false, true}) {
                const auto f = [=](const Tensors& in) {
                    return Tensors{
                        ca::grid_sample(in[0], in[1], {.mode = mode, .padding = padding, .align_corners = align})};
                };
                expect_agreement("two axes", f,
                                 {random_tensor({2, 3, 5, 6}, 32, -1, 1, ca::f64),
                                  random_tensor({2, 4, 7, 2}, 33, -1.4, 1.4, ca::f64)},
                                 align ? 1 : 2);
            }
            const auto f = [=](const Tensors& in) {
                return Tensors{ca::grid_sample(in[0], in[1], {.mode = mode, .padding = padding})};
            };
            for (const DType dtype : {ca::f32, ca::f16, ca::bf16}) {
                if (padding != GridPadding::zeros && dtype != ca::f32) continue;
                // Coordinates whose products are exact in every precision.
                std::vector<double> coordinates;
                std::mt19937 engine(4);
                for (int i = 0; i < 2 * 9 * 1; ++i)
                    coordinates.push_back((static_cast<double>(engine() % 41) - 20) / 16 + 1.0 / 64);
                const Tensor g = ca::tensor(coordinates, {2, 9, 1}).to(dtype);
                expect_agreement("one axis", f, {random_tensor({2, 4, 8}, 34, -1, 1, dtype), g}, 1);
                expect_agreement("f32 grid", f, {random_tensor({2, 4, 8}, 34, -1, 1, dtype), g.to(ca::f32)}, 1);
            }
            expect_agreement(
                "three axes", f,
                {random_tensor({1, 2, 3, 4, 5}, 35, -1, 1, ca::f64), random_tensor({1, 6, 3}, 36, -1.3, 1.3, ca::f64)},
                1);
        }
    }
    const auto linear = [](const Tensors& in) { return Tensors{ca::grid_sample(in[0], in[1])}; };
    expect_agreement(
        "channels last",
        [&](const Tensors& in) {
            const Tensor x = ca::permute(ca::contiguous(ca::permute(in[0], {0, 2, 3, 1})), {0, 3, 1, 2});
            return linear({x, in[1]});
        },
        {random_tensor({2, 5, 5, 6}, 37), random_tensor({2, 3, 4, 2}, 38)}, 1);
    expect_agreement(
        "flipped",
        [&](const Tensors& in) {
            return linear({ca::flip(in[0]), ca::flip(in[1])});
        },
        {random_tensor({2, 5, 5, 6}, 39), random_tensor({2, 3, 4, 2}, 40)}, 1);
    expect_agreement(
        "one place",
        [&](const Tensors& in) {
            return linear({in[0], in[1] * 0});
        },
        {random_tensor({2, 3, 5, 6}, 41), random_tensor({2, 40, 50, 2}, 42)}, 1);
    expect_agreement("odd numbers", linear,
                     {random_tensor({1, 1, 4, 4}, 43, -1, 1, ca::f32),
                      numbers({NAN, 0.0, 0.1, INFINITY, -INFINITY, 0.2, 1e30, 0.3}, {1, 4, 2}).to(ca::f32)},
                     0);
}

TEST(GpuGrid, Affine) {
    expect_unary(
        "affine",
        [](const Tensor& t) {
            return ca::affine_grid(t, {3, 4});
        },
        random_tensor({2, 2, 3}, 44), 1);
}

TEST(GpuGrid, DeformConv) {
    const auto check = [](const std::string& name, const Function& f, Tensors inputs, const Shape& result) {
        expect_agreement(name, f, inputs, 0);
        const std::size_t count = inputs.size();
        inputs.push_back(random_tensor(result, 53, -1, 1, inputs[0].dtype()));
        expect_agreement(name + ", gradients", direct_pullback_of(f, count), inputs, 0);
    };
    for (const DType dtype : floating) {
        for (const bool masked : {false, true}) {
            Tensors inputs{random_tensor({2, 4, 6, 7}, 45, -1, 1, dtype),
                           random_tensor({2, 2 * 6 * 2, 3, 7}, 46, -1.3, 1.3, dtype),
                           random_tensor({6, 2, 3, 2}, 47, -1, 1, dtype)};
            const Tensor bias = random_tensor({6}, 48, -1, 1, dtype);
            if (masked) inputs.push_back(random_tensor({2, 2 * 6, 3, 7}, 49, 0, 1, dtype));
            const auto f = [=](const Tensors& in) {
                ca::DeformConvOptions o{.stride = {2, 1},
                                        .padding = {1, 1},
                                        .dilation = {1, 2},
                                        .groups = 2,
                                        .offset_groups = 2,
                                        .mask = masked ? in[3] : Tensor(),
                                        .bias = bias.to(in[0].device())};
                return Tensors{ca::deform_conv(in[0], in[1], in[2], o)};
            };
            check("deform_conv", f, inputs, {2, 6, 3, 7});
        }
    }
    check("three axes", [](const Tensors& in) { return Tensors{ca::deform_conv(in[0], in[1], in[2])}; },
          {random_tensor({1, 3, 4, 3, 5}, 50), random_tensor({1, 8 * 3, 3, 2, 4}, 51),
           random_tensor({2, 3, 2, 2, 2}, 52)},
          {1, 2, 3, 2, 4});
}

}  // namespace
