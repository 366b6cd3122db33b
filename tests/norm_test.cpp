// Norms: values and gradients against the formula in reductions and elementwise operations, over ranks, layouts and
// dtypes; the reference; gradients of any order; threads; empty and special inputs; errors.
#include "calor/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "calor/creation.h"
#include "calor/device.h"
#include "calor/view.h"
#include "gradient_check.h"

namespace ca = calor;
using ca::Axes;
using ca::Shape;
using ca::Tensor;
using ca::testing::expect_error;
using ca::testing::expect_gradients;
using ca::testing::random_tensor;

namespace {

using Values = std::vector<double>;

/// One kind of norm: the function, and the formula over the axes with weight and bias spread by `spread`.
struct Kind {
    const char* name;
    Tensor (*run)(const Tensor& x, const Tensor& w, const Tensor& b);
    Shape (*parameter)(const Shape& x);
    Tensor (*formula)(const Tensor& x, const Tensor& w, const Tensor& b);
};

Axes from(std::int64_t first, std::int64_t last) {
    Axes axes;
    for (std::int64_t a = first; a < last; ++a) axes.push_back(a);
    return axes;
}

Tensor formula(const Tensor& x, const Axes& axes, const Tensor& w, const Tensor& b, const Shape& spread, bool centred,
               double epsilon) {
    const Tensor centre = centred ? x - ca::mean(x, axes, true) : x;
    Tensor y = centre / ca::sqrt(ca::mean(centre * centre, axes, true) + epsilon);
    if (w.defined()) y = y * ca::reshape(w, spread);
    if (b.defined()) y = y + ca::reshape(b, spread);
    return y;
}

Shape channel_spread(std::int64_t rank, std::int64_t channels) {
    Shape s(rank, 1);
    s[1] = channels;
    return s;
}
Shape last_shape(const Shape& x, std::int64_t axes) {
    Shape s;
    for (std::int64_t a = x.rank() - axes; a < x.rank(); ++a) s.push_back(x[a]);
    return s;
}
Shape channels_of(const Shape& x) { return {x[1]}; }

const Kind kinds[] = {
    {"batch_norm", [](const Tensor& x, const Tensor& w, const Tensor& b) { return ca::batch_norm(x, w, b).output; },
     channels_of,
     [](const Tensor& x, const Tensor& w, const Tensor& b) {
         Axes axes = from(1, x.rank());
         axes[0] = 0;
         return formula(x, axes, w, b, channel_spread(x.rank(), x.size(1)), true, 1e-5);
     }},
    {"layer_norm", [](const Tensor& x, const Tensor& w, const Tensor& b) { return ca::layer_norm(x, 1, w, b); },
     [](const Shape& x) { return last_shape(x, 1); },
     [](const Tensor& x, const Tensor& w, const Tensor& b) {
         return formula(x, {-1}, w, b, last_shape(x.shape(), 1), true, 1e-5);
     }},
    {"layer_norm_2", [](const Tensor& x, const Tensor& w, const Tensor& b) { return ca::layer_norm(x, 2, w, b); },
     [](const Shape& x) { return last_shape(x, 2); },
     [](const Tensor& x, const Tensor& w, const Tensor& b) {
         return formula(x, {-1, -2}, w, b, last_shape(x.shape(), 2), true, 1e-5);
     }},
    {"layer_norm_all_but_first",
     [](const Tensor& x, const Tensor& w, const Tensor& b) { return ca::layer_norm(x, x.rank() - 1, w, b); },
     [](const Shape& x) { return last_shape(x, x.rank() - 1); },
     [](const Tensor& x, const Tensor& w, const Tensor& b) {
         return formula(x, from(1, x.rank()), w, b, last_shape(x.shape(), x.rank() - 1), true, 1e-5);
     }},
    {"rms_norm",
     [](const Tensor& x, const Tensor& w, const Tensor& b) {
         const Tensor y = ca::rms_norm(x, 1, w);
         return b.defined() ? y + b : y;
     },
     [](const Shape& x) { return last_shape(x, 1); },
     [](const Tensor& x, const Tensor& w, const Tensor& b) {
         return formula(x, {-1}, w, b, last_shape(x.shape(), 1), false, 1e-6);
     }},
    {"group_norm", [](const Tensor& x, const Tensor& w, const Tensor& b) { return ca::group_norm(x, 2, w, b); },
     channels_of,
     [](const Tensor& x, const Tensor& w, const Tensor& b) {
         Shape split{x.size(0), 2, x.size(1) / 2}, spread{1, 2, x.size(1) / 2};
         for (std::int64_t a = 2; a < x.rank(); ++a) {
             split.push_back(x.size(a));
             spread.push_back(1);
         }
         return ca::reshape(formula(ca::reshape(x, split), from(2, x.rank() + 1), w, b, spread, true, 1e-5), x.shape());
     }},
    {"instance_norm", [](const Tensor& x, const Tensor& w, const Tensor& b) { return ca::instance_norm(x, w, b); },
     channels_of,
     [](const Tensor& x, const Tensor& w, const Tensor& b) {
         return formula(x, from(2, x.rank()), w, b, channel_spread(x.rank(), x.size(1)), true, 1e-5);
     }},
};

std::vector<std::pair<std::string, Tensor>> layouts(const Tensor& x) {
    std::vector<std::pair<std::string, Tensor>> all{{"plain", x}};
    const std::int64_t r = x.rank();
    all.emplace_back("flipped", ca::flip(ca::contiguous(ca::flip(x)).eval()));
    all.emplace_back("every second", ca::select(ca::contiguous(ca::stack({x, x * 0}, r)).eval(), r, 0));
    if (r >= 3) {
        Axes to{0}, back{0, r - 1};
        for (std::int64_t a = 2; a < r; ++a) to.push_back(a);
        to.push_back(1);
        for (std::int64_t a = 1; a < r - 1; ++a) back.push_back(a);
        all.emplace_back("channels last", ca::permute(ca::contiguous(ca::permute(x, to)).eval(), back));
    }
    return all;
}

void expect_close(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
    ASSERT_EQ(got.shape(), expected.shape()) << what;
    const Values a = got.to(ca::f64).to_vector<double>(), b = expected.to(ca::f64).to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << what << " at " << i;
    }
}

/// Values and gradients of one norm in one layout against the formula in f64.
void check(const Kind& kind, const Tensor& x, const Tensor& w, const Tensor& b, double tolerance,
           const std::string& what) {
    const auto wide = [](const Tensor& t) { return t.defined() ? ca::contiguous(t).to(ca::f64) : t; };
    const Tensor u = random_tensor(x.shape(), 99, -1, 1, x.dtype());
    const auto pass = [&](auto f, const Tensor& xs, const Tensor& ws, const Tensor& bs, const Tensor& us) {
        std::vector<Tensor> leaves{xs.requires_grad()};
        if (ws.defined()) leaves.push_back(ws.requires_grad());
        if (bs.defined()) leaves.push_back(bs.requires_grad());
        const Tensor y = f(leaves[0], ws.defined() ? leaves[1] : ws, bs.defined() ? leaves.back() : bs);
        std::vector<Tensor> results = ca::gradients({y}, leaves, {us});
        results.push_back(y);
        return results;
    };
    const auto got = pass(kind.run, x, w, b, u), expected = pass(kind.formula, wide(x), wide(w), wide(b), wide(u));
    const double groups = static_cast<double>(x.numel());
    for (std::size_t i = 0; i < got.size(); ++i) {
        const bool parameter = i > 0 && i + 1 < got.size();
        expect_close(got[i], expected[i], parameter ? tolerance * std::sqrt(groups) : tolerance * 4,
                     what + " result " + std::to_string(i));
    }
}

const Shape shapes[] = {{6, 4, 5}, {3, 4, 2, 5}, {2, 6, 3, 1, 4}, {2, 4, 2, 3, 2, 2}};

}  // namespace

class EveryNorm : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryNorm, MatchesTheFormulaOverRanksAndLayouts) {
    for (const char* disabled : {"", "lanes"}) {
        setenv("CALOR_DISABLE", disabled, 1);
        for (const Shape& shape : shapes) {
            const Tensor w = random_tensor(GetParam().parameter(shape), 2, 0.5, 2, ca::f32),
                         b = random_tensor(GetParam().parameter(shape), 3, -1, 1, ca::f32);
            for (const auto& [layout, x] : layouts(random_tensor(shape, 1, -2, 3, ca::f32))) {
                const std::string what =
                    std::string(GetParam().name) + ca::to_string(shape) + " " + layout + " " + disabled;
                check(GetParam(), x, w, b, 1e-5, what);
                check(GetParam(), x, {}, {}, 1e-5, what + " plain");
            }
        }
    }
    unsetenv("CALOR_DISABLE");
}

TEST_P(EveryNorm, TakesWeightOrBiasAlone) {
    const Shape shape{3, 4, 10};
    const Tensor x = random_tensor(shape, 1, -2, 3, ca::f32),
                 w = random_tensor(GetParam().parameter(shape), 2, 0.5, 2, ca::f32);
    check(GetParam(), x, w, {}, 1e-5, "weight alone");
    check(GetParam(), x, {}, w, 1e-5, "bias alone");
}

TEST_P(EveryNorm, MatchesTheFormulaOverDtypesAndSizes) {
    const bool host = ca::default_device().kind == ca::DeviceKind::cpu;
    // Many groups, few groups, split groups, narrow and wide columns.
    for (const Shape& shape :
         {Shape{3, 4, 10}, Shape{40, 6, 50}, Shape{2, 4, 130, 140}, Shape{700, 4, 3}, Shape{5, 600, 9},
          Shape{1, 2, 9001}, Shape{300, 20, 64}, Shape{2, 1300, 40}, Shape{3, 64, 7, 9}}) {
        const Shape parameter = GetParam().parameter(shape);
        for (const auto& [layout, x] : layouts(random_tensor(shape, 4, -2, 3, ca::f32))) {
            if (layout == "flipped" || layout == "every second") continue;
            const bool little = x.numel() < 200, halved = shape == Shape{300, 20, 64};
            const bool chosen = little || halved || shape == Shape{40, 6, 50} || shape == Shape{5, 600, 9};
            if (!host && !chosen) continue;  // kernels are compiled: few problems that take every path
            const Tensor w = random_tensor(parameter, 5, 0.5, 2, ca::f32),
                         b = random_tensor(parameter, 6, -1, 1, ca::f32);
            const std::string what = std::string(GetParam().name) + ca::to_string(shape) + " " + layout;
            check(GetParam(), x, w, b, 1e-5, what);
            if (host || little || halved) check(GetParam(), x.to(ca::bf16), w, b, 1e-2, what + " bf16");
            if (!host && !little) continue;  // the other dtypes differ in their loads alone
            check(GetParam(), x.to(ca::f16), w.to(ca::f16), b.to(ca::f16), 2e-3, what + " f16");
            check(GetParam(), x.to(ca::f64), w.to(ca::f64), b.to(ca::f64), 1e-12, what + " f64");
        }
    }
}

TEST_P(EveryNorm, HasGradientsOfAnyOrder) {
    const Shape shape{3, 4, 5};
    const Tensor x = random_tensor(shape, 7), w = random_tensor(GetParam().parameter(shape), 8, 0.5, 2),
                 b = random_tensor(GetParam().parameter(shape), 9);
    expect_gradients(
        [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{GetParam().run(in[0], in[1], in[2])}; },
        {x, w, b});
    expect_gradients([&](const Tensor& t) { return GetParam().run(t, {}, {}); }, x);
    // Third order: the second derivative of a scalar is checked to second order.
    const ca::TensorFunction f = [&](const Tensor& t) {
        const Tensor y = GetParam().run(t, w, b);
        return ca::sum(y * y * y);
    };
    expect_gradients([&](const Tensor& t) { return ca::grad(f)(t); }, x);
}

TEST_P(EveryNorm, GivesTheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    for (const Shape& shape : {Shape{64, 8, 300}, Shape{2, 4, 20000}}) {
        const Shape parameter = GetParam().parameter(shape);
        for (const auto& entry : layouts(random_tensor(shape, 3, -2, 2, ca::f32))) {
            const Tensor& x = entry.second;
            const auto pass = [&] {
                const Tensor t = x.requires_grad(), w = ca::ones(parameter).requires_grad(),
                             b = ca::zeros(parameter).requires_grad();
                const Tensor y = GetParam().run(t, w, b);
                std::vector<float> all = y.to_vector<float>();
                for (const Tensor& g : ca::gradients({y}, {t, w, b}, {random_tensor(shape, 5, -1, 1, ca::f32)})) {
                    for (const float v : g.to_vector<float>()) all.push_back(v);
                }
                return all;
            };
            ca::set_thread_count(1);
            const auto one = pass();
            ca::set_thread_count(2);
            EXPECT_EQ(pass(), one) << GetParam().name << entry.first;
        }
    }
    ca::set_thread_count(before);
}

TEST_P(EveryNorm, TakesAnEmptyBatch) {
    for (const Shape& shape : {Shape{0, 4, 5}, Shape{0, 4, 5, 2}}) {
        const Tensor x = ca::zeros(shape).requires_grad(), w = ca::ones(GetParam().parameter(shape)).requires_grad(),
                     b = ca::zeros(GetParam().parameter(shape)).requires_grad();
        const Tensor y = GetParam().run(x, w, b);
        EXPECT_EQ(y.shape(), shape);
        const auto g = ca::backward(ca::sum(y));
        EXPECT_EQ(g[x].shape(), shape);
        for (const Tensor& t : {w, b}) {
            for (const float v : g[t].to_vector<float>()) EXPECT_EQ(v, 0.f);
        }
    }
}

TEST_P(EveryNorm, RefusesWrongArguments) {
    const Tensor x = ca::ones({2, 4, 3});
    const Shape parameter = GetParam().parameter(x.shape());
    Shape wrong = parameter;
    wrong[0] += 1;
    expect_error("tensor/undefined", [&] { (void)GetParam().run({}, {}, {}); });
    expect_error("shape/mismatch", [&] { (void)GetParam().run(x, ca::ones(wrong), {}); });
    expect_error("shape/mismatch", [&] { (void)GetParam().run(x, ca::ones({}), {}); });
    expect_error("dtype/mismatch", [&] { (void)GetParam().run(x, ca::ones(parameter, ca::f64), {}); });
    expect_error("dtype/mismatch", [&] { (void)GetParam().run(x, ca::ones(parameter, ca::i32), {}); });
}

INSTANTIATE_TEST_SUITE_P(Norm, EveryNorm, ::testing::ValuesIn(kinds),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BatchNorm, GivesTheStatisticsOfTheBatch) {
    for (const Shape& shape : {Shape{50, 3}, Shape{4, 70, 5, 6}, Shape{2, 3, 4000}}) {
        for (const auto& [layout, x] : layouts(random_tensor(shape, 1, -2, 3, ca::f32))) {
            Axes axes = from(1, x.rank());
            axes[0] = 0;
            const auto r = ca::batch_norm(x);
            expect_close(r.mean, ca::mean(x, axes), 1e-6, layout);
            expect_close(r.variance, ca::var(x, axes, false, 0), 1e-5, layout);
        }
    }
    const auto half = ca::batch_norm(random_tensor({9, 4}, 2, 0, 1, ca::f16));
    EXPECT_EQ(half.output.dtype(), ca::f16);
    EXPECT_EQ(half.mean.dtype(), ca::f32);
    const auto none = ca::batch_norm(ca::zeros({0, 2, 3}));
    EXPECT_EQ(none.mean.to_vector<float>(), (std::vector<float>{0, 0}));
    EXPECT_EQ(none.variance.to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(BatchNorm, StatisticsAreDifferentiable) {
    const Tensor x = random_tensor({4, 3, 2}, 1), w = random_tensor({3}, 2, 0.5, 2);
    expect_gradients(
        [](const std::vector<Tensor>& in) {
            const auto r = ca::batch_norm(in[0], in[1]);
            return std::vector<Tensor>{r.output, r.mean, r.variance};
        },
        {x, w});
}

TEST(BatchNorm, InferenceUsesGivenStatistics) {
    const Tensor mean = random_tensor({4}, 2), variance = random_tensor({4}, 3, 0.5, 2), w = random_tensor({4}, 4),
                 b = random_tensor({4}, 5);
    const Tensor x = random_tensor({3, 4, 5, 2}, 1);
    const Shape spread{1, 4, 1, 1};
    const auto at = [&](const Tensor& t) { return ca::reshape(t, spread); };
    const Tensor expected = (x - at(mean)) / ca::sqrt(at(variance) + 1e-5) * at(w) + at(b);
    for (const char* disabled : {"", "lanes"}) {
        setenv("CALOR_DISABLE", disabled, 1);
        for (const auto& [layout, t] : layouts(x))
            expect_close(ca::batch_norm_inference(t, mean, variance, w, b), expected, 1e-12, layout);
    }
    unsetenv("CALOR_DISABLE");
    const auto narrow = [](const Tensor& t) { return t.to(ca::f32); };
    const Tensor y = ca::batch_norm_inference(x.to(ca::bf16), narrow(mean), narrow(variance), narrow(w), narrow(b));
    EXPECT_EQ(y.dtype(), ca::bf16);
    expect_close(y, expected, 2e-2, "bf16");
    expect_close(ca::batch_norm_inference(x, mean, variance), (x - at(mean)) / ca::sqrt(at(variance) + 1e-5), 1e-12,
                 "without weight");
    expect_gradients(
        [](const std::vector<Tensor>& in) {
            return std::vector<Tensor>{ca::batch_norm_inference(in[0], in[1], in[2], in[3], in[4])};
        },
        {random_tensor({2, 4, 3}, 6), mean, variance, w, b});
    EXPECT_EQ(ca::batch_norm_inference(ca::ones({0, 4}), narrow(mean), narrow(variance)).shape(), (Shape{0, 4}));
    expect_error("tensor/undefined", [&] { (void)ca::batch_norm_inference(x, {}, variance); });
    expect_error("tensor/undefined", [&] { (void)ca::batch_norm_inference(x, mean, {}); });
    expect_error("shape/mismatch", [&] { (void)ca::batch_norm_inference(x, ca::ones({3}, ca::f64), variance); });
    expect_error("shape/rank", [&] { (void)ca::batch_norm_inference(mean, mean, variance); });
    expect_error("value/option", [&] { (void)ca::batch_norm_inference(x, mean, variance, {}, {}, -1); });
}

TEST(BatchNorm, RefusesASingleValueAChannel) {
    expect_error("value/option", [] { (void)ca::batch_norm(ca::ones({1, 3})); });
    expect_error("value/option", [] { (void)ca::batch_norm(ca::ones({1, 3, 1, 1})); });
    expect_error("value/option", [] { (void)ca::instance_norm(ca::ones({5, 3, 1})); });
    EXPECT_EQ(ca::batch_norm(ca::ones({2, 3})).output.to_vector<float>(), std::vector<float>(6, 0.f));
}

TEST(Norm, RefusesWrongOptions) {
    const Tensor x = ca::ones({2, 4, 3});
    expect_error("shape/rank", [] { (void)ca::batch_norm(ca::ones({3})); });
    expect_error("shape/rank", [] { (void)ca::group_norm(ca::ones({3}), 1); });
    expect_error("shape/rank", [] { (void)ca::instance_norm(ca::ones({3, 4})); });
    for (const std::int64_t axes : {0, -1, 4}) {
        expect_error("value/option", [&] { (void)ca::layer_norm(x, axes); });
        expect_error("value/option", [&] { (void)ca::rms_norm(x, axes); });
    }
    expect_error("value/option", [] { (void)ca::layer_norm(ca::ones({}), 1); });
    for (const std::int64_t groups : {0, -2, 3, 8})
        expect_error("value/option", [&] { (void)ca::group_norm(x, groups); });
    for (const double epsilon :
         {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        expect_error("value/option", [&] { (void)ca::batch_norm(x, {}, {}, epsilon); });
        expect_error("value/option", [&] { (void)ca::layer_norm(x, 1, {}, {}, epsilon); });
        expect_error("value/option", [&] { (void)ca::group_norm(x, 1, {}, {}, epsilon); });
        expect_error("value/option", [&] { (void)ca::instance_norm(x, {}, {}, epsilon); });
        expect_error("value/option", [&] { (void)ca::rms_norm(x, 1, {}, epsilon); });
    }
}

TEST(Norm, IsStableFarFromZero) {
    const Tensor x = random_tensor({16, 2048}, 3, 0, 1);
    const Tensor far = (x + 1000).to(ca::f32);
    expect_close(ca::layer_norm(far), ca::layer_norm(far.to(ca::f64)), 2e-4, "far rows");
    expect_close(ca::batch_norm(far).variance, ca::var(far.to(ca::f64), {0}, false, 0), 1e-5, "far columns");
    EXPECT_EQ(ca::layer_norm(ca::ones({2, 3}, ca::i32)).dtype(), ca::f32);
}

TEST(Norm, SpreadsNaN) {
    std::vector<float> values(64, 1.f);
    values[5] = std::numeric_limits<float>::quiet_NaN();
    const auto y = ca::layer_norm(ca::tensor(values, {2, 32})).to_vector<float>();
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[40], 0.f);
}
