// Deformable convolution: values of the plain formula in PyTorch, convolution as the case without offsets, rows against
// the reference, gradients to second order, layouts, threads, memory, errors.
#include "calor/deform_conv.h"

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
using ca::Shape;
using ca::Tensor;
using ca::testing::Disable;
using ca::testing::expect_error;
using ca::testing::expect_gradients;
using ca::testing::random_tensor;
using ca::testing::values_of;

namespace {

void expect_close(const Tensor& got, const std::vector<double>& want, double tolerance, const std::string& what) {
    const std::vector<double> g = values_of(got);
    ASSERT_EQ(g.size(), want.size()) << what;
    double most = 1;
    for (const double w : want) most = std::max(most, std::abs(w));
    for (std::size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], want[i], tolerance * most) << what << " element " << i;
}

struct Problem {
    Shape x, weight, offset, mask;
    ca::DeformConvOptions options;  ///< without mask and bias
    bool version2 = false;

    /// Operands x, offset, weight (, mask, bias); places are at least 0.1 elements from whole ones.
    std::vector<Tensor> operands(std::uint32_t seed, DType dtype = ca::f64) const {
        ca::testing::Draw draw(seed);
        std::vector<double> o(static_cast<std::size_t>(ca::numel(offset)));
        for (double& v : o) v = static_cast<double>(draw(-2, 1)) + 0.1 + 0.8 * draw.unit();
        std::vector<Tensor> all{random_tensor(x, seed, -1, 1, dtype), ca::tensor(o, offset).to(dtype),
                                random_tensor(weight, seed + 1, -1, 1, dtype)};
        if (version2) all.push_back(random_tensor(mask, seed + 2, 0, 1, dtype));
        if (version2) all.push_back(random_tensor({weight[0]}, seed + 3, -1, 1, dtype));
        return all;
    }
    Tensor operator()(const std::vector<Tensor>& t) const {
        ca::DeformConvOptions o = options;
        if (t.size() > 3) {
            o.mask = t[3];
            o.bias = t[4];
        }
        return ca::deform_conv(t[0], t[1], t[2], o);
    }
};

Problem random_problem(std::int64_t rank, std::uint32_t seed, bool small) {
    ca::testing::Draw draw(seed);
    Problem p;
    const std::int64_t groups = draw(1, 3), offset_groups = draw(1, 3);
    const std::int64_t channels = groups * offset_groups * draw(1, small ? 1 : 5);
    p.x = {draw(1, 2), channels};
    p.weight = {groups * draw(1, 3), channels / groups};
    ca::Dims stride, dilation, padding, positions;
    std::int64_t taps = 1;
    for (std::int64_t a = 0; a < rank; ++a) {
        const std::int64_t k = draw(1, rank > 2 ? 2 : 3), d = draw(1, 2), pad = draw(0, 1), s = draw(1, 2);
        const std::int64_t size = std::max<std::int64_t>(draw(1, rank > 3 ? 2 : 6), d * (k - 1) + 1 - 2 * pad);
        p.weight.push_back(k);
        p.x.push_back(size);
        stride.push_back(s);
        dilation.push_back(d);
        padding.push_back(pad);
        positions.push_back((size + 2 * pad - d * (k - 1) - 1) / s + 1);
        taps *= k;
    }
    p.offset = {p.x[0], offset_groups * taps * rank};
    p.mask = {p.x[0], offset_groups * taps};
    for (const std::int64_t n : positions) {
        p.offset.push_back(n);
        p.mask.push_back(n);
    }
    p.version2 = draw(0, 1) == 1;
    p.options.stride = stride;
    p.options.dilation = dilation;
    p.options.padding = padding;
    p.options.groups = groups;
    p.options.offset_groups = offset_groups;
    return p;
}

template <class Rule> Tensor filled(const Shape& shape, const Rule& rule) {
    std::vector<double> v(static_cast<std::size_t>(ca::numel(shape)));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = rule(static_cast<double>(i));
    return ca::tensor(v, shape);
}
double digest(const Tensor& t) {
    return ca::sum(t * filled(t.shape(), [](double i) { return std::cos(0.37 * i); })).item<double>();
}

/// The cases of torch_grid.py, in its order.
std::vector<Problem> torch_problems() {
    std::vector<Problem> all(5);
    const auto set = [](Problem& p, const Shape& x, const Shape& weight, const Shape& offset, const ca::Dims& stride,
                        const ca::Dims& padding, const ca::Dims& dilation) {
        p.x = x;
        p.weight = weight;
        p.offset = p.mask = offset;
        p.mask[1] /= x.rank() - 2;
        p.options.stride = stride;
        p.options.padding = padding;
        p.options.dilation = dilation;
        p.options.groups = 4 / weight[1];
        std::int64_t taps = 1;
        for (std::int64_t a = 2; a < weight.rank(); ++a) taps *= weight[a];
        p.options.offset_groups = p.mask[1] / taps;
    };
    set(all[0], {2, 4, 7}, {8, 4, 3}, {2, 3, 4}, {2}, {1}, {1});
    set(all[1], {2, 4, 5, 6}, {8, 4, 3, 2}, {2, 12, 5, 2}, {1, 2}, {1, 0}, {1, 2});
    set(all[2], {2, 4, 5, 6}, {8, 2, 3, 3}, {2, 72, 3, 6}, {2, 1}, {1, 1}, {1, 1});
    set(all[3], {2, 4, 4, 4}, {8, 1, 2, 2}, {2, 16, 2, 5}, {1, 1}, {0, 1}, {2, 1});
    set(all[4], {2, 4, 3, 4, 3}, {8, 2, 2, 2, 2}, {2, 48, 2, 4, 2}, {1, 1, 1}, {0, 1, 0}, {1, 2, 1});
    for (std::size_t i = 2; i < 5; ++i) all[i].version2 = true;
    return all;
}

TEST(DeformConv, ValuesOfThePlainFormula) {
    const auto all = torch_problems();
    for (std::size_t c = 0; c < all.size(); ++c) {
        const Problem& p = all[c];
        const auto data = [&](const Shape& shape, int k) {
            return filled(shape, [&](double i) { return 1.3 * std::sin(0.7 * i + k + 1); });
        };
        std::vector<Tensor> t{data(p.x, 0), filled(p.offset, [](double i) { return 1.7 * std::sin(1.1 * i + 0.5); }),
                              data(p.weight, 1)};
        if (p.version2) {
            t.push_back(filled(p.mask, [](double i) { return 0.5 + 0.4 * std::cos(0.9 * i); }));
            t.push_back(data({p.weight[0]}, 2));
        }
        for (const char* off : {"", "deform_rows"}) {
            for (const bool again : {false, true}) {  // gradients in bounded memory, and those with gradients
                const Disable guard(off);
                std::vector<Tensor> leaves;
                for (const Tensor& x : t) leaves.push_back(x.requires_grad());
                const Tensor y = p(leaves);
                const Tensor loss = ca::sum(y * filled(y.shape(), [](double i) { return std::sin(0.53 * i + 1); }));
                std::vector<Tensor> got{y};
                for (const Tensor& g : ca::gradients({loss}, leaves, {}, {.create_graph = again})) got.push_back(g);
                for (std::size_t i = 0; i < got.size(); ++i) {
                    const double want = torch_values::deform_convs[c][i];
                    EXPECT_NEAR(digest(got[i]), want, 1e-11 * std::max(1.0, std::abs(want)))
                        << c << " number " << i << " without " << off << again;
                }
            }
        }
    }
}

TEST(DeformConv, WithoutOffsetsIsConvolution) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(30U); ++seed) {
        const Problem p = random_problem(1 + seed % 5, seed, false);
        auto t = p.operands(seed);
        t[1] = ca::zeros(p.offset, ca::f64);
        if (p.version2) t[3] = ca::ones(p.mask, ca::f64);
        const ca::ConvOptions options{.stride = p.options.stride,
                                      .padding = p.options.padding,
                                      .dilation = p.options.dilation,
                                      .groups = p.options.groups};
        expect_close(p(t), values_of(ca::conv(t[0], t[2], p.version2 ? t[4] : Tensor(), options)), 1e-13,
                     "convolution");
    }
}

/// y and all gradients, in bounded memory or not.
std::vector<Tensor> everything(const Problem& p, const std::vector<Tensor>& t, std::uint32_t seed, bool create_graph) {
    std::vector<Tensor> leaves;
    for (const Tensor& x : t) leaves.push_back(x.requires_grad());
    const Tensor y = p(leaves);
    const Tensor u = relaid(random_tensor(y.shape(), seed + 9, -1, 1, y.dtype()), ca::testing::all_lies[seed % 4]);
    std::vector<Tensor> out{y};
    for (const Tensor& g : ca::gradients({y}, leaves, {u}, {.create_graph = create_graph})) out.push_back(g);
    return out;
}

TEST(DeformConv, RowsEqualTheReference) {
    const DType dtypes[] = {ca::f64, ca::f32, ca::f16, ca::bf16};
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(48U); ++seed) {
        const Problem p = random_problem(1 + seed % 6, seed + 50, false);
        const DType dtype = dtypes[seed / 6 % 4];
        const double tolerance = dtype == ca::f64 ? 1e-12 : dtype == ca::f32 ? 2e-5 : 3e-2;
        auto t = p.operands(seed, dtype);
        std::vector<std::vector<double>> want;
        {
            const Disable guard("deform_rows");
            for (const Tensor& r : everything(p, t, seed, false)) want.push_back(values_of(r));
        }
        for (std::size_t i = 0; i < t.size(); ++i) {
            t[i] = relaid(t[i], ca::testing::all_lies[(seed / 4 + static_cast<std::uint32_t>(i)) % 4]);
        }
        for (const bool again : {false, true}) {
            const std::vector<Tensor> got = everything(p, t, seed, again);
            for (std::size_t i = 0; i < got.size(); ++i) {
                EXPECT_EQ(got[i].dtype(), dtype);
                expect_close(got[i], want[i], tolerance * (again ? 2 : 1),
                             std::to_string(seed) + " result " + std::to_string(i));
            }
        }
    }
}

TEST(DeformConv, GradientsToSecondOrder) {
    for (std::uint32_t seed = 0; seed < 18; ++seed) {
        const Problem p = random_problem(1 + seed % 3, seed + 700, true);
        expect_gradients([&](const std::vector<Tensor>& t) { return std::vector{p(t)}; }, p.operands(seed),
                         {.step = 1e-6, .tolerance = 1e-5});
    }
}

TEST(DeformConv, GradientsOfSomeOperandsOnly) {
    const Problem p = torch_problems()[2];
    const auto t = p.operands(3);
    const auto all = everything(p, t, 3, false);
    for (std::size_t i = 0; i < t.size(); ++i) {
        auto some = t;
        some[i] = t[i].requires_grad();
        const Tensor y = p(some);
        const Tensor u = relaid(random_tensor(y.shape(), 12), ca::testing::all_lies[3]);
        expect_close(ca::gradients({y}, {some[i]}, {u})[0], values_of(all[i + 1]), 1e-14, "alone");
    }
}

TEST(DeformConv, OffsetsThatAreNoNumbersAreOutside) {
    const double inf = std::numeric_limits<double>::infinity();
    for (const char* off : {"", "deform_rows"}) {
        const Disable guard(off);
        const Tensor offset = ca::tensor(
            std::vector<double>{std::numeric_limits<double>::quiet_NaN(), inf, -inf, 1e300, -1e300}, {1, 1, 5});
        const Tensor y = ca::deform_conv(ca::ones({1, 1, 5}, ca::f64), offset, ca::ones({1, 1, 1}, ca::f64));
        EXPECT_EQ(values_of(y), std::vector<double>(5, 0));
    }
}

TEST(DeformConv, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    std::vector<std::vector<float>> first;
    Problem p;
    p.x = {2, 24, 30, 31};
    p.weight = {16, 12, 3, 3};
    p.offset = {2, 54, 30, 31};
    p.mask = {2, 27, 30, 31};
    p.options.padding = 1;
    p.options.groups = 2;
    p.options.offset_groups = 3;
    p.version2 = true;
    for (const int threads : {1, 2, 5}) {
        ca::set_thread_count(threads);
        std::vector<std::vector<float>> now;
        for (const Tensor& t : everything(p, p.operands(1, ca::f32), 1, false)) now.push_back(t.to_vector<float>());
        if (first.empty()) first = now;
        EXPECT_TRUE(now == first) << threads;
    }
    ca::set_thread_count(before);
}

/// Columns of the whole batch would take 9 times the input, per sample.
TEST(DeformConv, WorkspaceIsBounded) {
    if (ca::default_device() != ca::Device{}) GTEST_SKIP() << "the bounds are stated for the CPU";
    Problem p;
    p.x = {4, 32, 48, 48};
    p.weight = {32, 32, 3, 3};
    p.offset = {4, 18, 48, 48};
    p.mask = {4, 9, 48, 48};
    p.options.padding = 1;
    p.version2 = true;
    std::vector<Tensor> leaves;
    std::int64_t operands = 0;
    for (const Tensor& t : p.operands(1, ca::f32)) {
        leaves.push_back(t.eval().requires_grad());
        operands += t.numel() * 4;
    }
    const std::int64_t sample = 32 * 48 * 48 * 4, weight = 32 * 32 * 9 * 4, columns = 1 << 20, gemm = 1 << 20;
    ca::reset_peak_memory();
    std::int64_t in_use = ca::memory_statistics().in_use;
    const Tensor y = p(leaves).eval();
    EXPECT_LE(ca::memory_statistics().peak - in_use, y.numel() * 4 + sample + weight + columns + gemm);
    const Tensor h = ca::ones(y.shape()).eval();
    ca::reset_peak_memory();
    in_use = ca::memory_statistics().in_use;
    const auto g = ca::gradients({y}, leaves, {h});
    ca::eval(g);
    EXPECT_LE(ca::memory_statistics().peak - in_use, operands + 2 * (sample + weight + columns) + gemm);
}

TEST(DeformConv, EmptyOperands) {
    const auto f = [](const Shape& x, const Shape& offset, const Shape& weight) {
        const std::vector<Tensor> t{ca::ones(x).requires_grad(), ca::zeros(offset).requires_grad(),
                                    ca::ones(weight).requires_grad()};
        const Tensor y = ca::deform_conv(t[0], t[1], t[2]);
        const auto g = ca::backward(ca::sum(y));
        for (const Tensor& leaf : t) {
            EXPECT_EQ(g.at(leaf).eval().shape(), leaf.shape());
            for (const double v : values_of(g.at(leaf))) EXPECT_EQ(v, 0);
        }
        for (const double v : values_of(y)) EXPECT_EQ(v, 0);
        return y.shape();
    };
    EXPECT_EQ(f({0, 2, 4, 4}, {0, 18, 2, 2}, {3, 2, 3, 3}), (Shape{0, 3, 2, 2}));
    EXPECT_EQ(f({2, 0, 4, 4}, {2, 18, 2, 2}, {3, 0, 3, 3}), (Shape{2, 3, 2, 2}));
    EXPECT_EQ(f({2, 2, 4, 4}, {2, 18, 2, 2}, {0, 2, 3, 3}), (Shape{2, 0, 2, 2}));
}

TEST(DeformConvErrors, Everything) {
    const Tensor x = ca::ones({1, 6, 8, 8}), offset = ca::zeros({1, 18, 6, 6}), w = ca::ones({4, 6, 3, 3});
    const auto expect = [&](const char* code, const Tensor& a, const Tensor& b, const Tensor& c,
                            const ca::DeformConvOptions& o = {}) {
        expect_error(code, [&] { ca::deform_conv(a, b, c, o); });
    };
    expect("tensor/undefined", Tensor(), offset, w);
    expect("tensor/undefined", x, Tensor(), w);
    expect("tensor/undefined", x, offset, Tensor());
    expect("grid/rank", x, offset, ca::ones({4, 6}));
    expect("conv/rank", ca::ones({6, 8, 8}), offset, w);
    expect("conv/channels", x, offset, ca::ones({4, 5, 3, 3}));
    expect("conv/groups", x, offset, w, {.groups = 3});
    expect("conv/groups", x, offset, w, {.groups = 0});
    expect("deform/groups", x, offset, w, {.offset_groups = 4});
    expect("deform/groups", x, offset, w, {.offset_groups = 0});
    expect("deform/groups", x, offset, w, {.offset_groups = -1});
    expect("deform/offset", x, ca::zeros({1, 9, 6, 6}), w);
    expect("deform/offset", x, ca::zeros({2, 18, 6, 6}), w);
    expect("deform/offset", x, offset, w, {.padding = 1});
    expect("deform/offset", x, offset, w, {.offset_groups = 2});
    expect("deform/mask", x, offset, w, {.mask = ca::ones({1, 18, 6, 6})});
    expect("conv/bias", x, offset, w, {.bias = ca::ones({3})});
    expect("conv/kernel-too-large", x, offset, w, {.dilation = 4});
    expect("grid/empty", ca::ones({1, 6, 0, 8}), offset, w, {.padding = 3});
    expect("value/option", x, offset, w, {.stride = 0});
    expect("value/option", x, offset, w, {.padding = -1});
    expect("value/option", x, offset, w, {.dilation = -1});
    expect("value/count", x, offset, w, {.stride = {1, 1, 1}});
    expect("value/option", x, offset, w, {.dilation = std::numeric_limits<std::int64_t>::max()});
    expect("dtype/unsupported", x.to(ca::i32), offset, w);
    expect("dtype/mismatch", x, offset.to(ca::f64), w);
    expect("dtype/mismatch", x, offset, w.to(ca::bf16));
    expect("dtype/mismatch", x, offset, w, {.mask = ca::ones({1, 9, 6, 6}, ca::f64)});
    expect("dtype/mismatch", x, offset, w, {.bias = ca::ones({4}, ca::f64)});
}

}  // namespace
