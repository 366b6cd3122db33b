// Convolution of high ranks, its rewriting (axes merged, problems cut), transposed convolution with every option,
// integers, sizes beyond 32 bits, bounded memory.
#include "calor/conv.h"

#include <gtest/gtest.h>

#include "calor/calor.h"
#include "conv_problems.h"
#include "device/cpu/direct_conv.h"
#include "graph/node.h"
#include "ops/conv/conv_problem.h"
#include "reference/torch_conv.h"
#include "sanitized.h"

namespace ca = calor;
using ca::Dims;
using ca::DType;
using ca::Shape;
using ca::Tensor;
using namespace ca::testing;  // NOLINT: the checks of this file

namespace {

/// The outer product of vectors, the first ones slowest.
Tensor outer_product(const std::vector<Tensor>& factors) {
    const auto rank = static_cast<std::int64_t>(factors.size());
    Tensor product = ca::ones(Shape(rank, 1), factors[0].dtype());
    for (std::int64_t a = 0; a < rank; ++a) {
        Shape shape(rank, 1);
        shape[a] = factors[at(a)].numel();
        product = product * ca::reshape(factors[at(a)], shape);
    }
    return product;
}

/// One axis of a rank-one problem: vectors and what they give.
struct Factor {
    Tensor x, w, gy, y, gx, gw;
};

Factor factor_of(const Problem& p, std::int64_t a, std::uint32_t seed) {
    const std::int64_t i = a + 2;
    const auto vector = [](std::int64_t n, std::uint32_t s) {
        return ca::tensor(whole_numbers({n}, s), {1, 1, n}).to(ca::f64);
    };
    const ca::ConvOptions o{.stride = Dims{p.stride[a]},
                            .padding = ca::WindowPadding(Dims{p.low[a]}, Dims{p.high[a]}),
                            .dilation = Dims{p.dilation[a]}};
    Factor f{vector(p.x[i], seed), vector(p.w[i], seed + 1), vector(p.y[i], seed + 2), {}, {}, {}};
    f.y = ca::conv(f.x, f.w, o);
    f.gx = ca::conv_input_grad(f.gy, f.w, {p.x[i]}, o);
    f.gw = ca::conv_weight_grad(f.x, f.gy, {p.w[i]}, o);
    return f;
}

TEST(ConvRankOne, IsTheOuterProductOfOneDimensionalConvolutions) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(60U); ++seed) {
        const std::int64_t rank = 1 + seed % 6;
        Problem p = random_problem(rank, seed + 900);
        p.groups = 1;
        p.x[1] = p.w[1];
        const auto vector = [&](std::int64_t n, std::uint32_t s) {
            return ca::tensor(whole_numbers({n}, seed * 50 + s), {n}).to(ca::f64);
        };
        const Tensor batch = vector(p.x[0], 1), in = vector(p.w[1], 2), kernel_in = vector(p.w[1], 3),
                     out = vector(p.w[0], 4), gy_out = vector(p.w[0], 5);
        std::vector<Tensor> x{batch, in}, w{out, kernel_in}, gy{batch, gy_out}, y{batch * ca::dot(in, kernel_in), out};
        std::vector<Tensor> gx{batch * ca::dot(out, gy_out), kernel_in}, gw{gy_out * ca::dot(batch, batch), in};
        for (std::int64_t a = 0; a < rank; ++a) {
            const Factor f = factor_of(p, a, seed * 50 + 10 + static_cast<std::uint32_t>(a) * 3);
            for (const auto& [list, part] : {std::pair{&x, &f.x}, std::pair{&w, &f.w}, std::pair{&gy, &f.gy},
                                             std::pair{&y, &f.y}, std::pair{&gx, &f.gx}, std::pair{&gw, &f.gw}})
                list->push_back(*part);
        }
        for (const DType dtype : {ca::f64, ca::f32}) {
            const Tensor tx = outer_product(x).to(dtype), tw = outer_product(w).to(dtype),
                         tg = outer_product(gy).to(dtype);
            EXPECT_EQ(values_of(ca::conv(tx, tw, p.options())), values_of(outer_product(y))) << seed;
            EXPECT_EQ(values_of(ca::conv_input_grad(tg, tw, p.sizes(), p.options())), values_of(outer_product(gx)))
                << seed;
            EXPECT_EQ(values_of(ca::conv_weight_grad(tx, tg, p.kernel(), p.options())), values_of(outer_product(gw)))
                << seed;
        }
    }
}

TEST(ConvRewriting, AxesThatTheKernelDoesNotSee) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(90U); ++seed) {
        Problem p = random_problem(1 + seed % 6, seed + 3000);
        for (std::int64_t a = 0; a < p.x.rank() - 2; ++a) {
            if ((seed >> a) % 3 == 1) continue;
            p.w[a + 2] = 1;
            p.low[a] = p.high[a] = 0;
            if ((seed >> a) % 2 == 0) p.stride[a] = 1;
            if (seed % 5 == 0) p.x[a + 2] = 1;
            p.y[a + 2] = (p.x[a + 2] - 1) / p.stride[a] + 1;
        }
        const DType dtype = seed % 3 == 0 ? ca::bf16 : ca::f32;
        check_problem(p, dtype, dtype, seed);
    }
}

TEST(ConvRewriting, MergedAxesReachOneDnn) {
    const Tensor x = ca::ones({3, 8, 5, 4, 6, 6}), w = ca::ones({8, 8, 1, 1, 3, 3});
    const ca::ConvOptions o{.padding = {0, 0, 1, 1}};
    const auto problem = [&](const Shape& xs, const Shape& ws, const Shape& ys) {
        ca::ops::conv::Problem p;
        for (const auto& [array, shape] : {std::pair{&p.x, &xs}, std::pair{&p.w, &ws}, std::pair{&p.y, &ys}}) {
            array->shape = *shape;
            array->strides = ca::contiguous_strides(*shape);
        }
        p.settings = {Dims{1, 1, 1, 1}, Dims{1, 1, 1, 1}, Dims{0, 0, 1, 1}, Dims{0, 0, 1, 1}, 1};
        return ca::ops::conv::simplified(p);
    };
    // One channel or one sample: the plain layout can be walked as [N', C, 6, 6].
    EXPECT_EQ(problem({3, 1, 5, 4, 6, 6}, {1, 1, 1, 1, 3, 3}, {3, 1, 5, 4, 6, 6}).x.shape, (Shape{60, 1, 6, 6}));
    EXPECT_EQ(problem({1, 8, 5, 4, 6, 6}, {8, 8, 1, 1, 3, 3}, {1, 8, 5, 4, 6, 6}).x.shape, (Shape{20, 8, 6, 6}));
    EXPECT_EQ(problem({3, 8, 5, 4, 6, 6}, {8, 8, 1, 1, 3, 3}, {3, 8, 5, 4, 6, 6}).x.shape, (Shape{3, 8, 20, 6, 6}));
    const PlainSums exact;
    const std::vector<double> v = values_of(ca::conv(x, w, o));
    EXPECT_EQ(v[7], 72);  // 8 channels, 9 taps
    EXPECT_EQ(v[0], 32);
}

/// Runs a problem in f32 through the direct kernels, cut until nothing is left to cut.
void run_cut(const ca::ops::conv::Problem& whole, std::int64_t most) {
    using ca::cpu::ConvRole;
    ca::ops::conv::for_pieces(whole, most, [&](const ca::ops::conv::Problem& p) {
        const ca::View x = p.x.view(), w = p.w.view(), y = p.y.view();
        ASSERT_EQ(ca::cpu::direct::why_not(p.role, x, w, nullptr, y, p.settings), nullptr);
        if (p.role == ConvRole::forward) ca::cpu::direct::forward(x, w, nullptr, y, p.settings);
        if (p.role == ConvRole::input_grad) ca::cpu::direct::input_grad(y, w, x, p.settings);
    });
}

TEST(ConvRewriting, PiecesAreTheWhole) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(300U); ++seed) {
        const Problem p = random_problem(1 + seed % 4, seed + 5000);
        std::vector<float> x, w, y, gx(static_cast<std::size_t>(ca::numel(p.x)), -77.0F),
            out(static_cast<std::size_t>(ca::numel(p.y)), -77.0F);
        for (const std::int64_t v : whole_numbers(p.x, seed)) x.push_back(static_cast<float>(v));
        for (const std::int64_t v : whole_numbers(p.w, seed + 1)) w.push_back(static_cast<float>(v));
        for (const std::int64_t v : whole_numbers(p.y, seed + 2)) y.push_back(static_cast<float>(v));
        std::vector<float> exact_y(y.size(), 0.0F), exact_gx(x.size(), 0.0F);
        each_product(p, [&](std::int64_t i, std::int64_t k, std::int64_t j) {
            exact_y[at(j)] += x[at(i)] * w[at(k)];
            exact_gx[at(i)] += y[at(j)] * w[at(k)];
        });
        ca::ops::conv::Problem whole;
        const auto attach = [](ca::ops::conv::Array& array, std::vector<float>& memory, const Shape& shape) {
            array.data = memory.data();
            array.shape = shape;
            array.strides = ca::contiguous_strides(shape);
        };
        whole.settings = {p.stride, p.dilation, p.low, p.high, p.groups};
        attach(whole.x, x, p.x);
        attach(whole.w, w, p.w);
        attach(whole.y, out, p.y);
        for (const std::int64_t most : {std::int64_t{1}, std::int64_t{60}}) {
            whole.role = ca::cpu::ConvRole::forward;
            run_cut(whole, most);
            EXPECT_EQ(out, exact_y) << seed << " forward " << most;
            auto back = whole;
            back.role = ca::cpu::ConvRole::input_grad;
            attach(back.x, gx, p.x);
            attach(back.y, y, p.y);
            run_cut(back, most);
            EXPECT_EQ(gx, exact_gx) << seed << " input_grad " << most;
        }
    }
}

/// y[i] for i < size: the sum over j, k with i = j stride + k dilation - low of x[j] w[k]; one axis, one channel.
std::vector<double> scatter(const std::vector<double>& x, const std::vector<double>& w, std::int64_t stride,
                            std::int64_t dilation, std::int64_t low, std::int64_t size) {
    std::vector<double> y(at(size), 0.0);
    for (std::int64_t j = 0; j < std::ssize(x); ++j) {
        for (std::int64_t k = 0; k < std::ssize(w); ++k) {
            const std::int64_t i = j * stride + k * dilation - low;
            if (i >= 0 && i < size) y[at(i)] += x[at(j)] * w[at(k)];
        }
    }
    return y;
}

TEST(ConvTranspose, OutputPaddingUpToTheLargerOfStrideAndDilation) {
    const std::vector<double> x{1, 2, 3, 4}, w{1, 10, 100};
    for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t dilation : {1, 2, 4}) {
            for (std::int64_t extra = 0; extra < std::max(stride, dilation); ++extra) {
                const std::int64_t size = 3 * stride + 2 * dilation + 1 - 1 + extra;
                std::vector<double> expected = scatter(x, w, stride, dilation, 1, size);
                for (double& v : expected) v += 0.5;
                const Tensor tx = ca::tensor(x, {1, 1, 4}), tw = ca::tensor(w, {1, 1, 3}),
                             b = ca::full({1}, 0.5, ca::f64);
                for (const char* choice : conv_choices) {
                    const Disable guard(choice);
                    for (const DType dtype : {ca::f64, ca::f32}) {
                        const ca::ConvTransposeOptions by_padding{
                            .stride = stride, .padding = {{1, 0}}, .output_padding = extra, .dilation = dilation};
                        const ca::ConvTransposeOptions by_size{
                            .stride = stride, .padding = {{1, 0}}, .output_size = size, .dilation = dilation};
                        for (const auto& o : {by_padding, by_size}) {
                            EXPECT_EQ(values_of(ca::conv_transpose(tx.to(dtype), tw.to(dtype), b.to(dtype), o)),
                                      expected)
                                << stride << " " << dilation << " " << extra << " without " << choice;
                        }
                    }
                }
            }
        }
    }
}

TEST(ConvTranspose, BiasesAreFusedAndHaveGradients) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(24U); ++seed) {
        const Problem p = random_problem(1 + seed % 4, seed + 1200);
        const ca::ConvTransposeOptions o{.stride = p.stride,
                                         .padding = ca::WindowPadding(p.low, p.high),
                                         .output_size = p.sizes(),
                                         .dilation = p.dilation,
                                         .groups = p.groups};
        const Tensor x = random_tensor(p.y, seed), w = random_tensor(p.w, seed + 1),
                     b = random_tensor({p.x[1]}, seed + 2);
        Shape column(p.x.rank(), 1);
        column[1] = p.x[1];
        const std::vector<double> apart = values_of(ca::conv_transpose(x, w, o) + ca::reshape(b, column));
        for (const char* choice : conv_choices) {
            const Disable guard(choice);
            for (const DType dtype : {ca::f64, ca::f32, ca::bf16}) {
                const std::vector<double> got = values_of(ca::conv_transpose(x.to(dtype), w.to(dtype), b.to(dtype), o));
                ASSERT_EQ(got.size(), apart.size());
                for (std::size_t i = 0; i < got.size(); ++i) {
                    ASSERT_NEAR(got[i], apart[i],
                                dtype == ca::f64   ? 1e-12
                                : dtype == ca::f32 ? 1e-4
                                                   : 0.2)
                        << seed << " without " << choice;
                }
            }
        }
        if (ca::default_device().kind == ca::DeviceKind::cpu) {
            EXPECT_EQ(ca::explain_plan(ca::conv_transpose(x, w, b, o)).find("add"), std::string::npos);
        }
        if (seed > 11) continue;
        expect_gradients(
            [&](const std::vector<Tensor>& t) { return std::vector<Tensor>{ca::conv_transpose(t[0], t[1], t[2], o)}; },
            {x, w, b});
    }
}

TEST(ConvIntegers, BytesOfEverySignGiveI32) {
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(60U); ++seed) {
        const DType x = seed % 2 ? ca::i8 : ca::u8, w = seed / 2 % 2 ? ca::i8 : ca::u8;
        check_problem(random_problem(1 + seed % 5, seed + 4000), x, w, seed);
    }
    // The largest products: nothing saturates.
    const auto constant = [](const Shape& shape, std::int64_t value, DType dtype) {
        return ca::full(shape, value, ca::i64).to(dtype);
    };
    for (const auto& [x, w, product] :
         {std::tuple{constant({1, 4, 5, 5}, 255, ca::u8), constant({2, 4, 3, 3}, 255, ca::u8), 255 * 255},
          std::tuple{constant({1, 4, 5, 5}, 255, ca::u8), constant({2, 4, 3, 3}, -128, ca::i8), -255 * 128},
          std::tuple{constant({1, 4, 5, 5}, -128, ca::i8), constant({2, 4, 3, 3}, 255, ca::u8), -255 * 128},
          std::tuple{constant({1, 4, 5, 5}, -128, ca::i8), constant({2, 4, 3, 3}, -128, ca::i8), 128 * 128}}) {
        const Tensor y = ca::conv(x, w, {.padding = 1});
        EXPECT_EQ(y.dtype(), ca::i32);
        EXPECT_EQ(y.to_vector<std::int32_t>()[12], 36 * product);  // the centre
        EXPECT_EQ(y.to_vector<std::int32_t>()[0], 16 * product);
    }
    const Tensor y = ca::conv(ca::ones({2, 4, 32, 32}, ca::i8), ca::ones({64, 4, 3, 3}, ca::i8), {.padding = 1});
    EXPECT_EQ(y.to_vector<std::int32_t>()[33], 36);
    EXPECT_EQ(y.to_vector<std::int32_t>()[0], 16);
}

TEST(ConvIntegers, SumsWrap) {
    const Tensor x = ca::full({1, 1, 3}, std::numeric_limits<std::int32_t>::max(), ca::i32);
    EXPECT_EQ(ca::conv(x, ca::full({1, 1, 3}, 2, ca::i32)).item<std::int32_t>(), -6);
    EXPECT_EQ(ca::conv_transpose(x, ca::full({1, 1, 1}, 2, ca::i32)).to_vector<std::int32_t>(),
              (std::vector<std::int32_t>(3, -2)));
}

TEST(ConvIntegers, DtypesThatDoNotFit) {
    const Tensor x = ca::ones({1, 1, 4}, ca::i8), w = ca::ones({1, 1, 2}, ca::i8);
    expect_error("dtype/mismatch", [&] { ca::conv(x, w.to(ca::i16)); });
    expect_error("dtype/mismatch", [&] { ca::conv(x, w, ca::ones({1}, ca::i8)); });  // a bias is added to the i32 sum
    expect_error("dtype/mismatch", [&] { ca::conv(x, w.to(ca::f32)); });
    expect_error("dtype/unsupported", [&] { ca::conv(x.to(ca::boolean), w); });
}

TEST(ConvStrided, EveryCombinationOfGroupsAndStride) {
    std::uint32_t seed = 0;
    for (const std::int64_t kernel : {1, 3, 7}) {
        for (const std::int64_t groups : {1, 2, 8}) {
            for (const std::int64_t stride : {1, 2, 3}) {
                const std::int64_t pad = kernel / 2, size = (9 + 2 * pad - kernel) / stride + 1;
                const Problem p{{2, 16, 9, 9},
                                {16, 16 / groups, kernel, kernel},
                                {2, 16, size, size},
                                {stride, stride},
                                {1, 1},
                                {pad, pad},
                                {pad, pad},
                                groups};
                check_problem(p, ca::f32, ca::f32, ++seed);
            }
        }
    }
}

TEST(ConvSame, DilationAndEvenKernels) {
    // total = 2 * 1 = 2: one on each side. total = 3 * 3 = 9: four before, five after.
    const Tensor x = ca::tensor({{{1.f, 2.f, 3.f, 4.f, 5.f}}});
    EXPECT_EQ(values_of(ca::conv(x, ca::ones({1, 1, 2}), {.padding = ca::same, .dilation = 2})),
              (std::vector<double>{2, 4, 6, 8, 4}));
    EXPECT_EQ(values_of(ca::conv(x, ca::ones({1, 1, 4}), {.padding = ca::same, .dilation = 3})),
              (std::vector<double>{3, 5, 7, 3, 5}));
}

TEST(ConvPaddingModes, AreAPadBefore) {
    using ca::PadMode;
    const Tensor x = ca::tensor({{{1.f, 2.f, 3.f, 4.f}}}), w = ca::tensor({{{1.f, 10.f, 100.f}}});
    const auto result = [&](PadMode mode) { return values_of(ca::conv(x, w, {.padding = 1, .padding_mode = mode})); };
    EXPECT_EQ(result(PadMode::constant), (std::vector<double>{210, 321, 432, 43}));
    EXPECT_EQ(result(PadMode::reflect), (std::vector<double>{212, 321, 432, 343}));
    EXPECT_EQ(result(PadMode::replicate), (std::vector<double>{211, 321, 432, 443}));
    EXPECT_EQ(result(PadMode::circular), (std::vector<double>{214, 321, 432, 143}));
    EXPECT_EQ(result(PadMode::symmetric), (std::vector<double>{211, 321, 432, 443}));
    const ca::nn::Conv layer{{.in = 1, .out = 1, .kernel = {3}, .padding = 1, .padding_mode = PadMode::circular}};
    EXPECT_EQ(layer(x).shape(), (Shape{1, 1, 4}));
}

TEST(ConvPaddingModes, HaveEveryRoleAndGradient) {
    using ca::PadMode;
    for (std::uint32_t seed = 0; seed < calor::testing::sampled(32U); ++seed) {
        const Problem p = random_problem(1 + seed % 4, seed + 6000);
        ca::ConvOptions o = p.options();
        const PadMode modes[] = {PadMode::reflect, PadMode::replicate, PadMode::circular, PadMode::symmetric};
        o.padding_mode = modes[seed / 4 % 4];
        const Tensor x = random_tensor(p.x, seed), w = random_tensor(p.w, seed + 1),
                     b = random_tensor({p.w[0]}, seed + 2), gy = random_tensor(p.y, seed + 3);
        const double y = dot({ca::conv(x, w, o)}, {gy});
        EXPECT_NEAR(y, dot({ca::conv_input_grad(gy, w, p.sizes(), o)}, {x}), 1e-10) << seed;
        EXPECT_NEAR(y, dot({ca::conv_weight_grad(x, gy, p.kernel(), o)}, {w}), 1e-10) << seed;
        if (seed % 2) continue;
        expect_gradients(
            [&](const std::vector<Tensor>& t) { return std::vector<Tensor>{ca::conv(t[0], t[1], t[2], o)}; },
            {x, w, b});
        expect_gradients(
            [&](const std::vector<Tensor>& t) {
                return std::vector<Tensor>{ca::conv_input_grad(t[0], t[1], p.sizes(), o)};
            },
            {gy, w});
    }
    expect_error("shape/mismatch", [] {
        ca::conv_input_grad(ca::ones({1, 1, 5}), ca::ones({1, 1, 3}), {4},
                            {.padding = 1, .padding_mode = PadMode::reflect});
    });
}

/// Of the values, weighted by 1, 2, 3...
double weighted_sum(const Tensor& t) {
    double sum = 0, weight = 0;
    for (const double v : values_of(t)) sum += v * ++weight;
    return sum;
}

struct Waves {
    Tensor x, w, b;
    Waves(const Shape& x_shape, const Shape& w_shape, std::int64_t outputs)
        : x(wave(x_shape, [](double i) { return std::sin(i + 1); }).requires_grad()),
          w(wave(w_shape, [](double i) { return std::cos(2 * i); }).requires_grad()),
          b(wave({outputs}, [](double i) { return i / 4; }).requires_grad()) {}
    template <class F> static Tensor wave(const Shape& shape, const F& rule) {
        std::vector<double> v(static_cast<std::size_t>(ca::numel(shape)));
        for (std::size_t i = 0; i < v.size(); ++i) v[i] = rule(static_cast<double>(i));
        return ca::tensor(v, shape);
    }
    void expect(const Tensor& y, const std::vector<double>& sums) const {
        const Tensor u = wave(y.shape(), [](double i) { return std::cos(3 * i); });
        const auto g = ca::backward(ca::sum(y * u), {.retain_graph = true});
        const double got[] = {weighted_sum(y), weighted_sum(g.at(x)), weighted_sum(g.at(w)), weighted_sum(g.at(b))};
        for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], sums[i], 1e-9 * std::max(1.0, std::abs(sums[i]))) << i;
    }
};

TEST(ConvTranspose, EqualsPyTorch) {
    for (const TransposedCase& c : torch_transposed) {
        const Waves t(c.x, c.w, c.w[1] * c.groups);
        t.expect(ca::conv_transpose(t.x, t.w, t.b,
                                    {.stride = c.stride,
                                     .padding = c.padding,
                                     .output_padding = c.output_padding,
                                     .dilation = c.dilation,
                                     .groups = c.groups}),
                 c.sums);
    }
}

TEST(ConvPaddingModes, EqualPyTorch) {
    for (const BorderCase& c : torch_borders) {
        const Waves t(c.x, c.w, c.w[0]);
        t.expect(ca::conv(t.x, t.w, t.b,
                          {.stride = c.stride, .padding = c.padding, .padding_mode = c.mode, .dilation = c.dilation}),
                 c.sums);
    }
}

TEST(ConvTranspose, PatchesInFourAxes) {
    // Every entry becomes a block of its own: block k of entry j holds the sum over channels of x[c, j] w[c, o, k].
    const Tensor x = random_tensor({2, 3, 2, 3, 1, 2}, 1), w = random_tensor({3, 2, 2, 3, 2, 2}, 2);
    const Tensor y = ca::conv_transpose(x, w, {.stride = {2, 3, 2, 2}});
    ASSERT_EQ(y.shape(), (Shape{2, 2, 4, 9, 2, 4}));
    const Tensor rows = ca::reshape(ca::permute(x, {0, 2, 3, 4, 5, 1}), {2 * 12, 3});
    const Tensor blocks = ca::reshape(ca::matmul(rows, ca::reshape(w, {3, 48})), {2, 2, 3, 1, 2, 2, 2, 3, 2, 2});
    const std::vector<double> got = values_of(y), want = values_of(ca::reshape(
                                                      ca::permute(blocks, {0, 5, 1, 6, 2, 7, 3, 8, 4, 9}), y.shape()));
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-12);
    for (const DType dtype : {ca::f32, ca::bf16}) {  // the roles of kernel = stride in whole vectors of channels
        const Problem p{{2, 8, 7, 4}, {16, 8, 3, 2}, {2, 16, 2, 2}, {3, 2}, {1, 1}, {0, 0}, {0, 0}, 1};
        check_problem(p, dtype, dtype, 5);
    }
}

TEST(ConvTranspose, TheLayerTakesASize) {
    const ca::nn::ConvTranspose layer{{.in = 2, .out = 3, .kernel = {3, 3}, .stride = 2, .padding = 1}};
    const Tensor x = ca::ones({1, 2, 4, 4});
    EXPECT_EQ(layer(x).shape(), (Shape{1, 3, 7, 7}));
    EXPECT_EQ(layer(x, ca::PerAxis{8, 7}).shape(), (Shape{1, 3, 8, 7}));
    const ca::nn::ConvTranspose sized{
        {.in = 2, .out = 3, .kernel = {3, 3}, .stride = 2, .padding = 1, .output_size = 8}};
    EXPECT_EQ(sized(x).shape(), (Shape{1, 3, 8, 8}));
}

/// One number seen everywhere; few bytes behind it.
Tensor everywhere(const Shape& shape, DType dtype) {
    return ca::expand(ca::ones(Shape(shape.rank(), 1), dtype), shape);
}

/// A tensor whose memory the system has not made real yet.
Tensor untouched(const Shape& shape, DType dtype) {
    const ca::Where where = ca::Where::current();
    ca::Ref<ca::Storage> storage =
        ca::backend({}, where).allocate(ca::numel(shape) * ca::size_of(dtype), "test", where);
    return ca::graph::make_value(std::move(storage), {ca::contiguous_strides(shape), 0}, shape, dtype, {}, where);
}

TEST(ConvLarge, TwoToThe31InputElements) {
    for (const DType dtype : {ca::f32, ca::f64, ca::bf16, ca::i8}) {
        const Tensor x = everywhere({1, 32, 512, 512, 256}, dtype), w = everywhere({1, 32, 1, 1, 1}, dtype);
        const Tensor y = ca::conv(x, w, {.stride = 64});
        EXPECT_EQ(y.shape(), (Shape{1, 1, 8, 8, 4}));
        EXPECT_EQ(values_of(y), std::vector<double>(256, 32.0));
        const Tensor gw = ca::conv_weight_grad(x, y.to(dtype), {1, 1, 1}, {.stride = 64});
        EXPECT_EQ(values_of(gw), std::vector<double>(32, 256.0 * 32.0));
    }
}

TEST(ConvLarge, AnImageBeyond32Bits) {
    for (const DType dtype : {ca::f32, ca::f16}) {
        const Tensor x = everywhere({1, 514, 2048, 2048}, dtype), w = everywhere({1, 514, 3, 3}, dtype);
        const std::vector<double> v = values_of(ca::conv(x, w, {.stride = {1023, 2047}, .padding = 1}));
        // f16 rounds 4626 to even.
        const double interior_edge = 3084, corner = 2056;
        EXPECT_EQ(v, (std::vector<double>{corner, corner, interior_edge, interior_edge, interior_edge, interior_edge}));
        const std::vector<double> inside = values_of(ca::conv(x, w, {.stride = 1023}));
        EXPECT_EQ(inside, std::vector<double>(4, dtype == ca::f16 ? 4624.0 : 4626.0));
    }
}

TEST(ConvLarge, ABatchBeyond32Bits) {
    const Tensor x = everywhere({1 << 21, 3, 2, 14, 14}, ca::f32), w = everywhere({1, 3, 1, 1, 1}, ca::f32);
    const Tensor y = ca::conv(x, w, {.stride = {2, 14, 14}});
    EXPECT_EQ(y.shape(), (Shape{1 << 21, 1, 1, 1, 1}));
    EXPECT_EQ(total(y.to(ca::f64)), 3.0 * (1 << 21));
}

TEST(ConvLarge, BytesAtOffsetsBeyond32Bits) {
    // The two ends of more than 2^31 bytes, of which only the entries under the kernel are ever touched.
    const ca::OnDevice host(ca::Device{});
    const std::int64_t columns = (std::int64_t{1} << 31) + 5;
    const Tensor memory = untouched({1, 1, 1, columns}, ca::i8);
    auto* const bytes = static_cast<std::int8_t*>(ca::graph::value_of(memory).storage->data);
    bytes[0] = 3, bytes[1] = 4, bytes[columns - 2] = 5, bytes[columns - 1] = 6;
    const Tensor y =
        ca::conv(memory, ca::tensor(std::vector<std::int8_t>{1, 10}, Shape{1, 1, 1, 2}), {.stride = {1, columns - 2}});
    EXPECT_EQ(values_of(y), (std::vector<double>{43, 65}));
}

TEST(ConvMemory, WorkspaceIsBounded) {
    if (ca::default_device() != ca::Device{}) GTEST_SKIP() << "the bounds are stated for the CPU";
    // 2 x 33 million elements in bf16: f32 copies of all of them would be 268 MB.
    const Shape shape{16, 8, 16, 128, 128};
    const Tensor x = ca::ones(shape, ca::bf16), w = ca::ones({8, 8, 1, 1, 3}, ca::bf16);
    x.eval(), w.eval();
    const std::int64_t bound = 3 * ca::ops::conv::piece_elements * ca::size_of(ca::f32);
    const auto workspace = [&](const std::function<Tensor()>& body) {
        ca::empty_cache();
        ca::reset_peak_memory();
        const std::int64_t before = ca::memory_statistics().in_use;
        const Tensor y = body();
        y.eval();
        return ca::memory_statistics().peak - before - y.numel() * ca::size_of(y.dtype());
    };
    const ca::ConvOptions o{.padding = {0, 0, 1}};
    EXPECT_LE(workspace([&] { return ca::conv(x, w, o); }), bound);
    EXPECT_LE(workspace([&] { return ca::conv_input_grad(x, w, {16, 128, 128}, o); }), bound);
    EXPECT_LE(workspace([&] { return ca::conv_weight_grad(x, x, {1, 1, 3}, o); }), bound);
}

}  // namespace
