// Pooling: loops against the reference over ranks, options, dtypes and layouts; values; gradients of any order; errors.
#include "calor/pool.h"

#include <gtest/gtest.h>

#include <cmath>
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
using ca::testing::random_tensor;
using ca::testing::values_of;

namespace {

struct Problem {
    Shape x;
    ca::AvgPoolOptions average;
    ca::MaxPoolOptions max() const {
        return {.kernel = average.kernel,
                .stride = average.stride,
                .padding = average.padding,
                .dilation = average.dilation,
                .ceil_mode = average.ceil_mode};
    }
};

Problem random_problem(std::int64_t rank, std::uint32_t seed) {
    std::mt19937 engine(seed);
    const auto draw = [&](std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(high - low + 1));
    };
    Problem p;
    p.x = {draw(1, 2), draw(0, 2) == 0 ? draw(8, 20) : draw(1, 3)};
    ca::Dims kernel, stride, dilation, low, high;
    const bool simple = draw(0, 2) == 0;  // stride = kernel, no dilation
    for (std::int64_t a = 0; a < rank; ++a) {
        const std::int64_t k = draw(1, 3), d = simple ? 1 : draw(1, 2), extent = d * (k - 1) + 1;
        kernel.push_back(k);
        dilation.push_back(d);
        stride.push_back(simple ? k : draw(1, 3));
        low.push_back(draw(0, std::min<std::int64_t>(2, extent - 1)));
        high.push_back(draw(0, std::min<std::int64_t>(2, extent - 1)));
        p.x.push_back(std::max<std::int64_t>(draw(1, rank > 3 ? 4 : 9), extent - low.back() - high.back()));
    }
    p.average = {.kernel = kernel,
                 .stride = stride,
                 .padding = ca::WindowPadding(low, high),
                 .dilation = dilation,
                 .ceil_mode = draw(0, 1) == 1,
                 .count_include_pad = draw(0, 1) == 1,
                 .divisor = draw(0, 3) == 0 ? 5 : 0};
    return p;
}

void expect_close(const Tensor& got, const std::vector<double>& want, double tolerance, const std::string& what) {
    const std::vector<double> g = values_of(got);
    ASSERT_EQ(g.size(), want.size()) << what;
    for (std::size_t i = 0; i < g.size(); ++i) {
        if (g[i] == want[i] || (std::isnan(g[i]) && std::isnan(want[i]))) continue;
        ASSERT_NEAR(g[i], want[i], tolerance) << what << " element " << i;
    }
}

TEST(Pool, LoopsEqualTheReferenceOfMax) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(390U); ++seed) {
        const Problem p = random_problem(1 + seed % 5, seed);
        const auto dtype = static_cast<DType>(seed % 13);
        // Few different values, so that there are ties; now and then a NaN or an infinity.
        Tensor x = (random_tensor(p.x, seed, -2, 3)).to(ca::i64).to(dtype);
        if (ca::is_floating(dtype) && seed % 3 == 0) {
            std::vector<double> v = values_of(x);
            v[seed % v.size()] = std::numeric_limits<double>::quiet_NaN();
            v[seed * 7 % v.size()] = -std::numeric_limits<double>::infinity();
            x = ca::tensor(v, p.x).to(dtype);
        }
        const Tensor lying = relaid(x, ca::testing::all_lies[seed / 13 % 4]);
        std::vector<double> want, want_indices;
        {
            const Disable guard("pool_loops");
            const auto r = ca::max_pool_with_indices(x, p.max());
            want = values_of(r.values);
            want_indices = values_of(r.indices);
        }
        const auto r = ca::max_pool_with_indices(lying, p.max());
        EXPECT_EQ(r.values.dtype(), dtype);
        expect_close(r.values, want, 0, "values " + std::to_string(seed));
        expect_close(r.indices, want_indices, 0, "indices " + std::to_string(seed));
        expect_close(ca::max_pool(lying, p.max()), want, 0, "alone " + std::to_string(seed));
    }
}

TEST(Pool, LoopsEqualTheReferenceOfGradients) {
    const DType dtypes[] = {ca::f64, ca::f32, ca::f16, ca::bf16};
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(240U); ++seed) {
        const Problem p = random_problem(1 + seed % 5, seed + 1000);
        const DType dtype = dtypes[seed / 4 % 4];
        const double tolerance = dtype == ca::f64 ? 1e-13 : dtype == ca::f32 ? 2e-6 : dtype == ca::f16 ? 5e-3 : 5e-2;
        const Tensor x = random_tensor(p.x, seed).to(dtype);
        const auto lie = ca::testing::all_lies[seed % 4];
        const auto all = [&](const Tensor& input) {  // y, gx, and J v of the gradient, for both kinds
            std::vector<Tensor> out;
            for (const bool max : {true, false}) {
                const auto f = [&](const std::vector<Tensor>& t) {
                    return std::vector<Tensor>{max ? ca::max_pool(t[0], p.max()) : ca::avg_pool(t[0], p.average)};
                };
                const auto v = ca::vjp(f, {input});
                const Tensor u = relaid(random_tensor(v.outputs[0].shape(), seed + 1).to(dtype), lie);
                const Tensor w = relaid(random_tensor(p.x, seed + 2).to(dtype), lie);
                out.push_back(v.outputs[0]);
                out.push_back(v.pullback({u})[0]);
                out.push_back(ca::jvp(f, {input}, {w}).tangents[0]);
            }
            return out;
        };
        std::vector<std::vector<double>> want;
        {
            const Disable guard("pool_loops");
            for (const Tensor& t : all(x)) want.push_back(values_of(t));
        }
        const std::vector<Tensor> got = all(relaid(x, ca::testing::all_lies[seed / 2 % 4]));
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_EQ(got[i].dtype(), dtype);
            expect_close(got[i], want[i], tolerance, std::to_string(seed) + " result " + std::to_string(i));
        }
    }
}

TEST(Pool, WideRowsEqualTheReferenceOfMax) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(234U); ++seed) {
        std::mt19937 engine(seed);
        const auto draw = [&](std::int64_t low, std::int64_t high) {
            return low + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(high - low + 1));
        };
        const auto dtype = static_cast<DType>(seed % 13);
        const std::int64_t k = draw(1, 11), d = draw(1, 2), extent = d * (k - 1) + 1;
        const Shape shape{1, 2, draw(2, 4), draw(extent, 90)};
        const ca::MaxPoolOptions o{.kernel = {2, k},
                                   .stride = {1, draw(1, 4)},
                                   .padding = {{0, 1}, {draw(0, extent - 1), draw(0, extent - 1)}},
                                   .dilation = {1, d},
                                   .ceil_mode = draw(0, 1) == 1};
        Tensor x = random_tensor(shape, seed, -9, 9).to(ca::i64).to(dtype);
        if (ca::is_floating(dtype) && seed % 2 == 0) {
            x = ca::where(ca::gt(random_tensor(shape, seed + 1), 0.8), std::numeric_limits<double>::quiet_NaN(), x);
            x = ca::where(ca::gt(random_tensor(shape, seed + 2), 0), -std::numeric_limits<double>::infinity(), x);
        }
        std::vector<double> want, want_indices;
        {
            const Disable guard("pool_loops");
            const auto r = ca::max_pool_with_indices(x, o);
            want = values_of(r.values);
            want_indices = values_of(r.indices);
        }
        for (const auto lie : ca::testing::all_lies) {
            const auto r = ca::max_pool_with_indices(relaid(x, lie), o);
            expect_close(r.values, want, 0, "values " + std::to_string(seed));
            expect_close(r.indices, want_indices, 0, "indices " + std::to_string(seed));
            expect_close(ca::max_pool(relaid(x, lie), o), want, 0, "alone " + std::to_string(seed));
        }
    }
}

TEST(Pool, EqualsPyTorch) {
    std::vector<ca::testing::WindowCase> cases;
    const Shape shapes[] = {{2, 3, 11}, {2, 3, 9, 8}, {1, 2, 6, 7, 5}};
    const std::pair<const char*, ca::MaxPoolOptions> options[] = {
        {"k2", {.kernel = 2}},
        {"k3s2p1", {.kernel = 3, .stride = 2, .padding = 1}},
        {"k3s1p1", {.kernel = 3, .stride = 1, .padding = 1}},
        {"k2s3ceil", {.kernel = 2, .stride = 3, .ceil_mode = true}},
        {"k3s2p1ceil", {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}},
        {"k2d2s1", {.kernel = 2, .stride = 1, .dilation = 2}},
        {"k3d2s2p1ceil", {.kernel = 3, .stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true}}};
    std::vector<std::string> names;
    names.reserve(21);
    for (std::size_t n = 0; n < 3; ++n) {
        for (const auto& [key, o] : options) {
            names.push_back("max_pool_" + std::string(key) + "_" + std::to_string(n + 1));
            cases.push_back({names.back().c_str(), shapes[n], [o = o](const std::vector<Tensor>& t) {
                                 const auto r = ca::max_pool_with_indices(t[0], o);
                                 return std::vector<Tensor>{r.values, r.indices};
                             }});
        }
    }
    ca::testing::expect_torch_values("max_pool_", cases);
}

TEST(Pool, GradientsOfAnyOrder) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(30U); ++seed) {
        const Problem p = random_problem(1 + seed % 4, seed + 2000);
        expect_gradients([&](const Tensor& x) { return ca::avg_pool(x, p.average); }, random_tensor(p.x, seed));
        // Well separated values: a step of the differences must not change which one is the largest.
        std::vector<double> apart(static_cast<std::size_t>(ca::numel(p.x)));
        for (std::size_t i = 0; i < apart.size(); ++i) apart[i] = static_cast<double>((i * 7919) % 10007) / 100;
        expect_gradients(
            [&](const Tensor& x) {
                const Tensor y = ca::max_pool(x, p.max());
                return ca::where(ca::gt(y, -1e300), y, 0) * 1;  // windows of padding alone hold -infinity
            },
            ca::tensor(apart, p.x), {.tolerance = 1e-5});
    }
}

TEST(Pool, MaxOfSquares) {
    const Tensor x =
        ca::tensor({{{{1.f, 2.f, 3.f, 4.f}, {5.f, 6.f, 7.f, 8.f}, {9.f, 10.f, 11.f, 12.f}, {13.f, 14.f, 15.f, 16.f}}}})
            .requires_grad();
    const Tensor y = ca::max_pool(x, {.kernel = 2});
    EXPECT_EQ(values_of(y), (std::vector<double>{6, 8, 14, 16}));
    EXPECT_EQ(values_of(ca::backward(ca::sum(y)).at(x)),
              (std::vector<double>{0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1}));
    EXPECT_EQ(values_of(ca::max_pool_with_indices(x, {.kernel = 2}).indices), (std::vector<double>{5, 7, 13, 15}));
    const Tensor z = ca::max_pool(x, {.kernel = 3, .stride = 1});
    EXPECT_EQ(values_of(z), (std::vector<double>{11, 12, 15, 16}));
    EXPECT_EQ(values_of(ca::max_pool(x, {.kernel = 2, .stride = 3, .ceil_mode = true})),
              (std::vector<double>{6, 8, 14, 16}));
    EXPECT_EQ(values_of(ca::max_pool(x, {.kernel = 2, .padding = 1})),
              (std::vector<double>{1, 3, 4, 9, 11, 12, 13, 15, 16}));
    EXPECT_EQ(values_of(ca::max_pool(x, {.kernel = {1, 4}})), (std::vector<double>{4, 8, 12, 16}));
}

TEST(Pool, TiesAndNanAndInfinities) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    const Tensor x = ca::tensor({{{2.f, 2.f, nan, 5.f, -inf, -inf, -1.f, -3.f}}});
    const auto r = ca::max_pool_with_indices(x, {.kernel = 2});
    const std::vector<double> v = values_of(r.values);
    EXPECT_EQ(v[0], 2);
    EXPECT_TRUE(std::isnan(v[1]));
    EXPECT_EQ(v[2], -inf);
    EXPECT_EQ(v[3], -1);
    EXPECT_EQ(values_of(r.indices), (std::vector<double>{0, 2, 4, 6}));  // the first of equals; padding never wins
    EXPECT_EQ(values_of(ca::max_pool(ca::full({1, 1, 3}, -5, ca::i8), {.kernel = 3, .padding = 1})),
              (std::vector<double>{-5}));
}

TEST(Pool, MeansAndTheirDivisors) {
    const Tensor x = ca::tensor({{{1.f, 2.f, 3.f, 4.f, 5.f}}}).requires_grad();
    EXPECT_EQ(values_of(ca::avg_pool(x, {.kernel = 2})), (std::vector<double>{1.5, 3.5}));
    EXPECT_EQ(values_of(ca::avg_pool(x, {.kernel = 2, .padding = 1})), (std::vector<double>{0.5, 2.5, 4.5}));
    EXPECT_EQ(values_of(ca::avg_pool(x, {.kernel = 2, .padding = 1, .count_include_pad = false})),
              (std::vector<double>{1, 2.5, 4.5}));
    EXPECT_EQ(values_of(ca::avg_pool(x, {.kernel = 2, .ceil_mode = true})), (std::vector<double>{1.5, 3.5, 5}));
    EXPECT_EQ(values_of(ca::avg_pool(x, {.kernel = 2, .divisor = 4})), (std::vector<double>{0.75, 1.75}));
    EXPECT_EQ(values_of(ca::avg_pool(x, {.kernel = 2, .dilation = 2})), (std::vector<double>{2, 4}));
    EXPECT_EQ(values_of(ca::backward(ca::sum(ca::avg_pool(x, {.kernel = 2}))).at(x)),
              (std::vector<double>{0.5, 0.5, 0.5, 0.5, 0}));
    EXPECT_EQ(values_of(ca::avg_pool(ca::full({1, 1, 4096}, 1, ca::f16), {.kernel = 4096})), (std::vector<double>{1}));
}

TEST(Pool, ManyTapsAndSixAxes) {
    const Tensor x = random_tensor({2, 3, 20, 20}, 1).requires_grad();
    const Tensor y = ca::max_pool(x, {.kernel = 17, .stride = 1});  // 289 taps: wider tap numbers
    EXPECT_EQ(ca::sum(ca::backward(ca::sum(y)).at(x)).item<double>(), 2 * 3 * 16);
    EXPECT_EQ(values_of(ca::max_pool(ca::ones({1, 1, 2, 2, 2, 2, 2, 2}), {.kernel = 2})), (std::vector<double>{1}));
    EXPECT_EQ(values_of(ca::avg_pool(ca::ones({1, 1, 2, 2, 2, 2, 2, 2}), {.kernel = 2})), (std::vector<double>{1}));
}

TEST(Pool, KeepsChannelsLast) {
    const Tensor x =
        relaid(random_tensor({2, 16, 6, 6}, 1, -1, 1, ca::f32), ca::testing::Lie::channels_last).requires_grad();
    for (const bool max : {true, false}) {
        const Tensor y = max ? ca::max_pool(x, {.kernel = 2}) : ca::avg_pool(x, {.kernel = 2});
        const Tensor gx = ca::backward(ca::sum(y * y)).at(x).eval();
        EXPECT_EQ(ca::graph::value_of(y.eval()).layout.strides[1], 1);
        EXPECT_EQ(ca::graph::value_of(gx).layout.strides[1], 1);
    }
}

TEST(Pool, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    std::vector<std::vector<float>> first;
    for (const int threads : {1, 2, 5}) {
        ca::set_thread_count(threads);
        std::vector<std::vector<float>> now;
        for (const auto lie : {ca::testing::Lie::plain, ca::testing::Lie::channels_last}) {
            const Tensor x = relaid(random_tensor({3, 20, 30, 31}, 1, -1, 1, ca::f32), lie).requires_grad();
            now.push_back(ca::backward(ca::sum(ca::max_pool(x, {.kernel = 3, .stride = 2, .padding = 1}) * 3))
                              .at(x)
                              .to_vector<float>());
            now.push_back(ca::backward(ca::sum(ca::avg_pool(x, {.kernel = 3, .stride = 2, .padding = 1}) * 3))
                              .at(x)
                              .to_vector<float>());
        }
        if (first.empty()) first = now;
        EXPECT_TRUE(now == first) << threads;
    }
    ca::set_thread_count(before);
}

TEST(Pool, LayoutsGiveTheSameBits) {
    for (const DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
        for (const std::int64_t kernel : {2, 3, 5, 17}) {
            for (const std::int64_t stride : {1, 2, 3}) {
                const ca::MaxPoolOptions o{.kernel = kernel, .stride = stride, .padding = kernel / 2};
                const Tensor x = random_tensor({2, 20, 17, 19}, 1).to(dtype);
                const auto pulled = [&](ca::testing::Lie lie) {
                    const auto f = [&](const std::vector<Tensor>& t) {
                        return std::vector<Tensor>{ca::max_pool(t[0], o)};
                    };
                    const auto v = ca::vjp(f, {relaid(x, lie)});
                    const Tensor u = random_tensor(v.outputs[0].shape(), 2).to(dtype);
                    return values_of(v.pullback({relaid(u, lie)})[0]);
                };
                EXPECT_EQ(pulled(ca::testing::Lie::plain), pulled(ca::testing::Lie::channels_last))
                    << kernel << " " << stride;
            }
        }
    }
}

TEST(Pool, NeedsNoMemoryBesideItsResults) {
    for (const DType dtype : {ca::f32, ca::bf16}) {
        const Tensor x = random_tensor({2, 8, 64, 64}, 1).to(dtype).eval();
        const Tensor u = random_tensor({2, 8, 32, 32}, 2).to(dtype).eval();
        const auto v = ca::vjp(
            [](const std::vector<Tensor>& t) {
                return std::vector<Tensor>{ca::max_pool(t[0], {.kernel = 3, .stride = 2, .padding = 1})};
            },
            {x});
        ca::reset_peak_memory(ca::default_device());
        const std::int64_t before = ca::memory_statistics(ca::default_device()).in_use;
        v.outputs[0].eval();  // values and taps
        const std::int64_t results = u.numel() * (ca::size_of(dtype) + 1);
        EXPECT_LE(ca::memory_statistics(ca::default_device()).peak - before,
                  results * 5 / 4);  // rounded up to size classes
        const Tensor g = v.pullback({u})[0].eval();
        EXPECT_LE(ca::memory_statistics(ca::default_device()).peak - before,
                  (results + x.numel() * ca::size_of(dtype)) * 5 / 4);
    }
}

TEST(Pool, EmptyTensors) {
    for (const DType dtype : {ca::f32, ca::bf16}) {
        for (const Shape& shape : {Shape{0, 3, 4, 4}, Shape{2, 0, 4, 4}}) {
            const Tensor x = ca::zeros(shape, dtype).requires_grad();
            const Tensor y = ca::max_pool(x, {.kernel = 2}), z = ca::avg_pool(x, {.kernel = 2});
            EXPECT_EQ(y.eval().shape(), (Shape{shape[0], shape[1], 2, 2}));
            EXPECT_EQ(ca::backward(ca::sum(y) + ca::sum(z)).at(x).eval().shape(), shape);
        }
    }
}

TEST(PoolErrors, Everything) {
    const Tensor x = ca::ones({1, 1, 4, 4});
    const auto both = [&](const char* code, const ca::AvgPoolOptions& o) {
        expect_error(code, [&] { ca::avg_pool(x, o); });
        const ca::MaxPoolOptions m{.kernel = o.kernel,
                                   .stride = o.stride,
                                   .padding = o.padding,
                                   .dilation = o.dilation,
                                   .ceil_mode = o.ceil_mode};
        expect_error(code, [&] { ca::max_pool(x, m); });
        expect_error(code, [&] { ca::max_pool_with_indices(x, m); });
    };
    both("value/option", {});
    both("value/option", {.kernel = 0});
    both("value/option", {.kernel = -2});
    both("value/option", {.kernel = 2, .stride = 0});
    both("value/option", {.kernel = 2, .padding = -1});
    both("value/option", {.kernel = 2, .dilation = 0});
    both("value/count", {.kernel = {2, 2, 2}});
    both("value/count", {.kernel = 2, .stride = {1, 1, 1}});
    both("pool/padding", {.kernel = 2, .padding = 2});
    both("pool/kernel-too-large", {.kernel = 5});
    both("pool/kernel-too-large", {.kernel = 2, .dilation = 4});
    both("pool/kernel-too-large", {.kernel = 50, .stride = 1, .ceil_mode = true});
    both("value/option", {.kernel = 3, .dilation = std::numeric_limits<std::int64_t>::max()});
    both("value/option", {.kernel = std::numeric_limits<std::int64_t>::max() / 2,
                          .padding = std::numeric_limits<std::int64_t>::max() / 2 - 1});
    expect_error("pool/rank", [] { ca::max_pool(ca::ones({4, 4}), {.kernel = 2}); });
    expect_error("pool/rank", [] { ca::avg_pool(ca::ones({4, 4}), {.kernel = 2}); });
    expect_error("value/option", [&] { ca::avg_pool(x, {.kernel = 2, .divisor = -1}); });
    expect_error("dtype/unsupported", [&] { ca::avg_pool(x.to(ca::i32), {.kernel = 2}); });
    expect_error("tensor/undefined", [] { ca::max_pool(Tensor(), {.kernel = 2}); });
    expect_error("tensor/undefined", [] { ca::avg_pool(Tensor(), {.kernel = 2}); });
}

}  // namespace
