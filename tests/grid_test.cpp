// grid_sample and affine_grid: PyTorch's values, rows against the reference over ranks, options, dtypes and layouts,
// special coordinates, empty operands, threads, memory, errors.
#include "calor/grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gradient_check.h"
#include "grid_cases.h"
#include "reference/torch_grid.h"
#include "sanitized.h"
#include "strided.h"

namespace ca = calor;
using ca::DType;
using ca::GridMode;
using ca::GridPadding;
using ca::Shape;
using ca::Tensor;
using ca::testing::Disable;
using ca::testing::expect_error;
using ca::testing::random_tensor;
using ca::testing::values_of;

namespace {

template <class Rule> Tensor filled(const Shape& shape, const Rule& rule) {
    std::vector<double> v(static_cast<std::size_t>(ca::numel(shape)));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = rule(static_cast<double>(i));
    return ca::tensor(v, shape);
}
Tensor data(const Shape& shape, int k) {
    return filled(shape, [&](double i) { return 1.3 * std::sin(0.7 * i + k + 1); });
}
double digest(const Tensor& t) {
    return ca::sum(t * filled(t.shape(), [](double i) { return std::cos(0.37 * i); })).item<double>();
}
/// The numbers of torch_grid.py.
std::vector<double> numbers(const ca::TensorsFunction& f, const std::vector<Tensor>& inputs) {
    const auto v = ca::vjp(f, inputs);
    const Tensor& y = v.outputs[0];
    std::vector<double> out{digest(y)};
    for (const Tensor& g : v.pullback({filled(y.shape(), [](double i) { return std::sin(0.53 * i + 1); })})) {
        out.push_back(digest(g));
    }
    return out;
}
Shape joined(Shape shape, const std::int64_t* sizes, std::int64_t rank) {
    for (std::int64_t a = 0; a < rank; ++a) shape.push_back(sizes[a]);
    return shape;
}

TEST(GridSample, ValuesOfPyTorch) {
    for (const auto& c : torch_values::grid_samples) {
        Shape grid = joined({2}, c.positions, c.rank);
        grid.push_back(c.rank);
        const Tensor g = filled(grid, [](double i) { return 1.6 * std::cos(1.9 * i + 0.3); });
        const ca::GridSampleOptions options{.mode = static_cast<GridMode>(c.mode),
                                            .padding = static_cast<GridPadding>(c.padding),
                                            .align_corners = c.align};
        for (const char* off : {"", "grid_rows"}) {
            const Disable guard(off);
            const auto got =
                numbers([&](const std::vector<Tensor>& t) { return std::vector{ca::grid_sample(t[0], t[1], options)}; },
                        {data(joined({2, 3}, c.sizes, c.rank), 0), g});
            for (std::size_t i = 0; i < 3; ++i) {
                EXPECT_NEAR(got[i], c.values[i], 1e-11 * std::max(1.0, std::abs(c.values[i])))
                    << "mode " << c.mode << " padding " << c.padding << " align " << c.align << " rank " << c.rank
                    << " number " << i << " without " << off;
            }
        }
    }
}

TEST(AffineGrid, ValuesOfPyTorch) {
    for (const auto& c : torch_values::affine_grids) {
        const auto got = numbers(
            [&](const std::vector<Tensor>& t) {
                return std::vector{ca::affine_grid(t[0], joined({}, c.sizes, c.rank), c.align)};
            },
            {data({2, c.rank, c.rank + 1}, 0)});
        for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(got[i], c.values[i], 1e-12) << c.rank << c.align << i;
    }
}

void expect_close(const Tensor& got, const std::vector<double>& want, double tolerance, const std::string& what) {
    const std::vector<double> g = values_of(got);
    ASSERT_EQ(g.size(), want.size()) << what;
    double most = 1;
    for (const double w : want) most = std::max(most, std::abs(w));
    for (std::size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], want[i], tolerance * most) << what << " element " << i;
}

/// y, gradients, and J v of the gradients: every role, with derivatives of the weights too.
std::vector<Tensor> everything(const Tensor& x, const Tensor& grid, const ca::GridSampleOptions& options,
                               std::uint32_t seed, ca::testing::Lie lie) {
    const ca::TensorsFunction f = [&](const std::vector<Tensor>& t) {
        return std::vector{ca::grid_sample(t[0], t[1], options)};
    };
    const auto v = ca::vjp(f, {x, grid});
    const Tensor u = relaid(random_tensor(v.outputs[0].shape(), seed + 1, -1, 1, x.dtype()), lie);
    std::vector<Tensor> out{v.outputs[0]};
    for (const Tensor& g : v.pullback({u})) out.push_back(g);
    const ca::TensorsFunction gradient = [&](const std::vector<Tensor>& t) { return ca::vjp(f, t).pullback({u}); };
    const auto second = ca::jvp(gradient, {x, grid},
                                {random_tensor(x.shape(), seed + 2, -1, 1, x.dtype()),
                                 random_tensor(grid.shape(), seed + 3, -1, 1, grid.dtype())});
    for (const Tensor& t : second.tangents) out.push_back(t);
    return out;
}

TEST(GridSample, RowsEqualTheReference) {
    const DType dtypes[] = {ca::f64, ca::f32, ca::f16, ca::bf16};
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(144U); ++seed) {
        const auto p = ca::testing::grid_problem(1 + seed % 6, seed);
        const DType dtype = dtypes[seed / 6 % 4];
        const DType grid_dtype = seed % 5 < 3 ? ca::f32 : dtype;
        const double tolerance = dtype == ca::f64 && grid_dtype == ca::f64 ? 1e-12 : ca::is_half(dtype) ? 4e-2 : 4e-5;
        const Tensor x = random_tensor(p.x, seed, -1, 1, dtype);
        const Tensor grid = ca::testing::smooth_grid(p, seed).to(grid_dtype);
        const auto lie = ca::testing::all_lies[seed % 4];
        std::vector<std::vector<double>> want;
        {
            const Disable guard("grid_rows");
            for (const Tensor& t : everything(x, grid, p.options, seed, ca::testing::Lie::plain))
                want.push_back(values_of(t));
        }
        const std::vector<Tensor> got = everything(relaid(x, lie), relaid(grid, ca::testing::all_lies[seed / 4 % 4]),
                                                   p.options, seed, ca::testing::all_lies[seed / 16 % 4]);
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_EQ(got[i].dtype(), i == 2 || i == 4 ? grid_dtype : dtype);
            expect_close(got[i], want[i], tolerance, std::to_string(seed) + " result " + std::to_string(i));
        }
    }
}

TEST(GridSample, BroadcastOperands) {
    const Tensor one = random_tensor({1, 1, 5, 4}, 1), x = ca::expand(one, {3, 9, 5, 4});
    const Tensor g = random_tensor({1, 6, 7, 2}, 2, -1.3, 1.3), grid = ca::expand(g, {3, 6, 7, 2});
    for (const auto mode : {GridMode::nearest, GridMode::linear, GridMode::cubic}) {
        const ca::GridSampleOptions o{.mode = mode};
        const Tensor want = ca::expand(ca::grid_sample(one, g, o), {3, 9, 6, 7});
        expect_close(ca::grid_sample(x, grid, o), values_of(want), 1e-14, "broadcast");
        // sum() sends a cotangent of stride 0
        const Tensor leaf = ca::contiguous(x).requires_grad();
        const Tensor gx = ca::backward(ca::sum(ca::grid_sample(leaf, grid, o))).at(leaf);
        const Disable guard("grid_rows");
        const Tensor other = ca::contiguous(x).requires_grad();
        expect_close(gx, values_of(ca::backward(ca::sum(ca::grid_sample(other, grid, o))).at(other)), 1e-13, "sum");
    }
}

TEST(GridSample, FewPointsOfALargeInput) {
    const Tensor x = random_tensor({2, 5, 40, 50}, 1).to(ca::f32), g = random_tensor({2, 3, 2}, 2).to(ca::f32);
    const auto got = everything(x, g, {}, 1, ca::testing::Lie::plain);
    const Disable guard("grid_rows");
    const auto want = everything(x, g, {}, 1, ca::testing::Lie::plain);
    for (std::size_t i = 0; i < got.size(); ++i) expect_close(got[i], values_of(want[i]), 1e-5, "few");
}

TEST(GridSample, KnownPlaces) {
    const Tensor x = ca::reshape(ca::arange(6, ca::f32), {1, 1, 2, 3});
    // x before y: (-1, 1) is the last row's first element
    const Tensor corners = ca::tensor({{{{-1.F, -1.F}, {1.F, -1.F}, {-1.F, 1.F}, {1.F, 1.F}, {0.F, 0.F}}}});
    EXPECT_EQ(values_of(ca::grid_sample(x, corners, {.align_corners = true})), (std::vector<double>{0, 2, 3, 5, 2.5}));
    EXPECT_EQ(values_of(ca::grid_sample(x, corners)), (std::vector<double>{0, 0.5, 0.75, 1.25, 2.5}));
    EXPECT_EQ(values_of(ca::grid_sample(x, corners, {.padding = GridPadding::border})),
              (std::vector<double>{0, 2, 3, 5, 2.5}));
    // The identity map gives the input back, with either alignment, in 5 dimensions and for every mode.
    const Tensor v = random_tensor({2, 3, 2, 3, 2, 1, 4}, 5);
    for (const bool align : {false, true}) {
        const Tensor theta = ca::expand(ca::concat({ca::eye(5, ca::f64), ca::zeros({5, 1}, ca::f64)}, 1), {2, 5, 6});
        const Tensor grid = ca::affine_grid(theta, {2, 3, 2, 1, 4}, align);
        for (const auto mode : {GridMode::nearest, GridMode::linear, GridMode::cubic}) {
            expect_close(
                ca::grid_sample(v, grid, {.mode = mode, .padding = GridPadding::border, .align_corners = align}),
                values_of(v), 1e-14, "identity");
        }
    }
}

/// Coordinates that are no numbers, infinite or huge give what the documentation says.
TEST(GridSample, NanInfiniteAndHugeCoordinates) {
    const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    for (const DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
        const double huge = dtype == ca::f16 ? 60000 : 1e30;
        const Tensor x = (ca::arange(5, dtype) + 1).to(dtype);
        const Tensor wide = ca::expand(ca::reshape(x, {1, 1, 5}), {1, 8, 5});
        const Tensor g = ca::tensor(std::vector<double>{nan, inf, -inf, huge, -huge}, {1, 5, 1}).to(dtype);
        for (const char* off : {"", "grid_rows"}) {
            const Disable guard(off);
            for (const auto mode : {GridMode::nearest, GridMode::linear, GridMode::cubic}) {
                const auto at = [&](GridPadding padding, bool align) {
                    const Tensor y =
                        ca::grid_sample(wide, g, {.mode = mode, .padding = padding, .align_corners = align});
                    return values_of(ca::select(ca::select(y, 0, 0), 0, 7));
                };
                EXPECT_EQ(at(GridPadding::zeros, true), (std::vector<double>{1, 0, 0, 0, 0}));
                EXPECT_EQ(at(GridPadding::border, true), (std::vector<double>{1, 5, 1, 5, 1}));
                EXPECT_EQ(at(GridPadding::border, false)[1], 5);
                for (const bool align : {false, true}) {
                    for (const double v : at(GridPadding::reflection, align)) {
                        EXPECT_GE(v, mode == GridMode::cubic ? 0 : 1);
                        EXPECT_LE(v, mode == GridMode::cubic ? 6 : 5);
                    }
                }
                // and no gradient
                const Tensor leaf = g.requires_grad();
                const Tensor y = ca::grid_sample(wide, leaf, {.mode = mode, .padding = GridPadding::border});
                for (const double v : values_of(ca::backward(ca::sum(y)).at(leaf))) EXPECT_NEAR(v, 0, 1e-5);
            }
        }
    }
}

/// What lies outside is not read: an infinity in the data stays where it is.
TEST(GridSample, OutsideIsNotMultipliedByZero) {
    const float inf = std::numeric_limits<float>::infinity();
    const Tensor x = ca::expand(ca::tensor({{{inf, 1.F, inf}}}), {1, 8, 3});
    const Tensor g = ca::tensor({{{-2.F}, {0.F}, {5.F}}});
    for (const char* off : {"", "grid_rows"}) {
        const Disable guard(off);
        const Tensor y = ca::grid_sample(x, g, {.mode = GridMode::nearest});
        EXPECT_EQ(values_of(ca::select(ca::select(y, 0, 0), 0, 3)), (std::vector<double>{0, 1, 0}));
        EXPECT_EQ(values_of(ca::select(ca::select(ca::grid_sample(x, g), 0, 0), 0, 3))[0], 0);
    }
}

/// Halves go through as they are: every pattern of bits, NaN and infinities among them.
TEST(GridSample, HalvesKeepTheirValues) {
    for (const DType dtype : {ca::f16, ca::bf16}) {
        std::vector<double> v(16 * 64);
        for (std::size_t i = 0; i < v.size(); ++i)
            v[i] = std::ldexp(std::sin(static_cast<double>(i)), static_cast<int>(i % 31) - 15);
        v[3] = v[700] = std::numeric_limits<double>::infinity();
        v[5] = v[1001] = std::numeric_limits<double>::quiet_NaN();
        const Tensor x = ca::tensor(v, {1, 16, 64}).to(dtype);
        const Tensor theta = ca::tensor({{{1.F, 0.F}}});
        const Tensor y = ca::grid_sample(x, ca::affine_grid(theta, {64}), {.mode = GridMode::nearest});
        const std::vector<double> want = values_of(x), got = values_of(y);
        for (std::size_t i = 0; i < v.size(); ++i) {
            EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << i << " " << got[i];
        }
    }
}

/// The whole batch and every layout share their bits.
TEST(GridSample, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    std::vector<std::vector<float>> first;
    for (const int threads : {1, 2, 5}) {
        ca::set_thread_count(threads);
        std::vector<std::vector<float>> now;
        for (const std::int64_t n : {1, 3}) {
            for (const std::int64_t c : {1, 3, 40}) {
                for (const auto lie : {ca::testing::Lie::plain, ca::testing::Lie::channels_last}) {
                    const Tensor x = relaid(random_tensor({n, c, 20, 21}, 1, -1, 1, ca::f32), lie).requires_grad();
                    const Tensor g = random_tensor({n, 19, 23, 2}, 2, -1.1, 1.1, ca::f32).requires_grad();
                    const Tensor y = ca::grid_sample(x, g);
                    const auto gradients = ca::backward(ca::sum(y * y));
                    now.push_back(y.to_vector<float>());
                    now.push_back(gradients.at(x).to_vector<float>());
                    now.push_back(gradients.at(g).to_vector<float>());
                }
            }
        }
        if (first.empty()) first = now;
        EXPECT_TRUE(now == first) << threads;
    }
    ca::set_thread_count(before);
}

TEST(GridSample, KeepsChannelsLast) {
    const Tensor x =
        relaid(random_tensor({2, 16, 6, 6}, 1, -1, 1, ca::f32), ca::testing::Lie::channels_last).requires_grad();
    const Tensor y = ca::grid_sample(x, random_tensor({2, 6, 6, 2}, 2, -1, 1, ca::f32));
    const Tensor gx = ca::backward(ca::sum(y * y)).at(x).eval();
    EXPECT_EQ(ca::graph::value_of(y.eval()).layout.strides[1], 1);
    EXPECT_EQ(ca::graph::value_of(gx).layout.strides[1], 1);
}

TEST(GridSample, EmptyOperands) {
    for (const Shape& shape : {Shape{0, 3, 4, 4}, Shape{2, 0, 4, 4}, Shape{2, 3, 4, 4}}) {
        const bool no_points = shape[0] == 2 && shape[1] == 3;
        const Tensor x = ca::ones(shape).requires_grad();
        const Tensor g = ca::zeros({shape[0], no_points ? 0 : 5, 3, 2}).requires_grad();
        const Tensor y = ca::grid_sample(x, g);
        EXPECT_EQ(y.eval().shape(), (Shape{shape[0], shape[1], no_points ? 0 : 5, 3}));
        const auto gradients = ca::backward(ca::sum(y));
        for (const double v : values_of(gradients.at(x))) EXPECT_EQ(v, 0);
        for (const double v : values_of(gradients.at(g))) EXPECT_EQ(v, 0);
        EXPECT_EQ(gradients.at(g).shape(), g.shape());
    }
    EXPECT_EQ(ca::affine_grid(ca::ones({0, 2, 3}), {4, 5}).eval().shape(), (Shape{0, 4, 5, 2}));
    EXPECT_EQ(ca::affine_grid(ca::ones({2, 2, 3}), {0, 5}).eval().shape(), (Shape{2, 0, 5, 2}));
}

/// Beside the results there are the rows of one sample, or 8 MiB of them.
TEST(GridSample, WorkspaceIsBounded) {
    const Tensor x = ca::ones({12, 16, 128, 128}, ca::bf16).eval(),
                 g = random_tensor({12, 90, 90, 2}, 1).to(ca::f32).eval();
    const Tensor leaf = x.requires_grad(), grid = g.requires_grad();
    const std::int64_t sample = 16 * 128 * 128 * 4, workspace = std::max<std::int64_t>(sample, 8 << 20),
                       slack = 1 << 18;
    ca::reset_peak_memory(ca::default_device());
    const auto before = ca::memory_statistics(ca::default_device());
    const Tensor y = ca::grid_sample(leaf, grid).eval();
    EXPECT_LE(ca::memory_statistics(ca::default_device()).peak - before.in_use, y.numel() * 2 + workspace + slack);
    const Tensor h = ca::ones(y.shape(), ca::bf16).eval();
    ca::reset_peak_memory(ca::default_device());
    const auto later = ca::memory_statistics(ca::default_device());
    const auto gradients = ca::gradients({y}, {leaf, grid}, {h});
    ca::eval({gradients[0], gradients[1]});
    EXPECT_LE(ca::memory_statistics(ca::default_device()).peak - later.in_use,
              x.numel() * 2 + g.numel() * 4 + workspace + slack);
}

/// Offsets past 2^32: an input of few real bytes.
TEST(GridSample, MoreElementsThan32BitsCount) {
    const Tensor x = ca::expand(ca::full({1, 1, 1, 1}, 3.0), {1, 1, std::int64_t{1} << 20, std::int64_t{1} << 20});
    const Tensor g = ca::tensor({{{{0.999F, 0.999F}, {-0.5F, 0.25F}}}});
    EXPECT_EQ(values_of(ca::grid_sample(x, g)), (std::vector<double>{3, 3}));
    const Tensor many = ca::expand(ca::full({1, 1, 1, 1}, 3.0), {1, 8, std::int64_t{1} << 20, std::int64_t{1} << 20});
    EXPECT_EQ(values_of(ca::grid_sample(many, g)), std::vector<double>(16, 3));
}

TEST(GridErrors, Everything) {
    const Tensor x = ca::ones({2, 3, 4, 4}), g = ca::zeros({2, 5, 5, 2});
    expect_error("tensor/undefined", [&] { ca::grid_sample(Tensor(), g); });
    expect_error("tensor/undefined", [&] { ca::grid_sample(x, Tensor()); });
    expect_error("grid/rank", [&] { ca::grid_sample(ca::ones({4, 4}), g); });
    expect_error("grid/rank", [&] { ca::grid_sample(ca::ones({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), g); });
    expect_error("grid/rank", [&] { ca::grid_sample(x, ca::zeros({2, 2})); });
    expect_error("grid/coordinates", [&] { ca::grid_sample(x, ca::zeros({2, 5, 5, 3})); });
    expect_error("grid/coordinates", [&] { ca::grid_sample(x, ca::zeros({2, 2, 5, 5})); });
    expect_error("grid/batch", [&] { ca::grid_sample(x, ca::zeros({1, 5, 5, 2})); });
    expect_error("grid/empty", [&] { ca::grid_sample(ca::ones({2, 3, 0, 4}), g); });
    expect_error("dtype/unsupported", [&] { ca::grid_sample(x.to(ca::i32), g); });
    expect_error("dtype/unsupported", [&] { ca::grid_sample(x, g.to(ca::i64)); });
    expect_error("dtype/mismatch", [&] { ca::grid_sample(x, g.to(ca::f64)); });
    expect_error("dtype/mismatch", [&] { ca::grid_sample(x.to(ca::f16), g.to(ca::bf16)); });
    expect_error("tensor/undefined", [] { ca::affine_grid(Tensor(), {2, 2}); });
    expect_error("grid/theta", [] { ca::affine_grid(ca::ones({1, 2, 3}), {1, 3, 8, 8}); });
    expect_error("grid/theta", [] { ca::affine_grid(ca::ones({2, 3}), {8, 8}); });
    expect_error("grid/theta", [] { ca::affine_grid(ca::ones({1, 2, 2}), {8, 8}); });
    expect_error("grid/theta", [] { ca::affine_grid(ca::ones({1, 0, 1}), {}); });
    expect_error("dtype/unsupported", [] { ca::affine_grid(ca::ones({1, 2, 3}, ca::i32), {8, 8}); });
    expect_error("shape/negative", [] { ca::affine_grid(ca::ones({1, 2, 3}), {8, -8}); });
    const std::int64_t absurd = std::int64_t{1} << 40;
    expect_error("shape/overflow", [&] { ca::affine_grid(ca::ones({1, 2, 3}), {absurd, absurd}); });
}

}  // namespace
