// Reductions: against loops in f64 over ranks, axes, layouts and dtypes; special values; gradients; threads; errors.
#include "calor/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "calor/creation.h"
#include "calor/device.h"
#include "calor/elementwise.h"
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

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;
using Loop = double (*)(const Values&);

double loop_sum(const Values& v) {
    double s = 0;
    for (const double x : v) s += x;
    return s;
}
double loop_mean(const Values& v) { return loop_sum(v) / static_cast<double>(v.size()); }
double loop_var(const Values& v) {
    const double mean = loop_mean(v);
    double s = 0;
    for (const double x : v) s += (x - mean) * (x - mean);
    return s / (static_cast<double>(v.size()) - 1);
}
double loop_prod(const Values& v) {
    double s = 1;
    for (const double x : v) s *= x;
    return s;
}
double loop_logsumexp(const Values& v) {
    double s = 0;
    for (const double x : v) s += std::exp(x);
    return std::log(s);
}
template <int P> double loop_norm(const Values& v) {
    double s = 0;
    for (const double x : v) s += std::pow(std::abs(x), P);
    return std::pow(s, 1.0 / P);
}

struct Case {
    const char* name;
    Tensor (*run)(const Tensor&, const Axes&, bool);
    Loop loop;
    double tolerance = 1e-6;  ///< relative, for f32
};
#define CASE(function, loop, ...)                                                                                  \
    {                                                                                                              \
#function, [](const Tensor& x, const Axes& a, bool k) { return ca::function(x, a, k); }, loop, __VA_ARGS__ \
    }

const Case cases[] = {
    CASE(sum, loop_sum, 1e-6),
    CASE(mean, loop_mean, 1e-6),
    CASE(prod, loop_prod, 1e-5),
    CASE(
        max, [](const Values& v) { return *std::ranges::max_element(v); }, 0),
    CASE(
        min, [](const Values& v) { return *std::ranges::min_element(v); }, 0),
    CASE(
        argmax, [](const Values& v) { return static_cast<double>(std::ranges::max_element(v) - v.begin()); }, 0),
    CASE(
        argmin, [](const Values& v) { return static_cast<double>(std::ranges::min_element(v) - v.begin()); }, 0),
    CASE(
        any, [](const Values& v) { return std::ranges::any_of(v, [](double x) { return x != 0; }) ? 1.0 : 0.0; }, 0),
    CASE(
        all, [](const Values& v) { return std::ranges::all_of(v, [](double x) { return x != 0; }) ? 1.0 : 0.0; }, 0),
    CASE(
        count_nonzero,
        [](const Values& v) { return static_cast<double>(std::ranges::count_if(v, [](double x) { return x != 0; })); },
        0),
    CASE(logsumexp, loop_logsumexp, 1e-6),
    CASE(
        var, [](const Values& v) { return v.size() == 1 ? nan_value : loop_var(v); }, 1e-5),
    CASE(
        std, [](const Values& v) { return v.size() == 1 ? nan_value : std::sqrt(loop_var(v)); }, 1e-5),
    {"norm 1", [](const Tensor& x, const Axes& a, bool k) { return ca::norm(x, 1, a, k); }, loop_norm<1>, 1e-6},
    {"norm 2", [](const Tensor& x, const Axes& a, bool k) { return ca::norm(x, 2, a, k); }, loop_norm<2>, 1e-6},
    {"norm 3", [](const Tensor& x, const Axes& a, bool k) { return ca::norm(x, 3, a, k); }, loop_norm<3>, 1e-5},
    {"norm inf", [](const Tensor& x, const Axes& a, bool k) { return ca::norm(x, inf, a, k); },
     [](const Values& v) {
         return std::max(std::abs(*std::ranges::max_element(v)), std::abs(*std::ranges::min_element(v)));
     },
     0},
    {"norm -inf", [](const Tensor& x, const Axes& a, bool k) { return ca::norm(x, -inf, a, k); },
     [](const Values& v) {
         double s = inf;
         for (const double x : v) s = std::min(s, std::abs(x));
         return s;
     },
     0},
};

/// Small integers with repetitions and zeros: ties, and no rounding in any dtype.
Tensor small_integers(const Shape& shape, std::uint32_t seed, double low, double high) {
    std::mt19937 engine(seed);
    Values values(static_cast<std::size_t>(ca::numel(shape)));
    for (double& v : values) v = low + static_cast<double>(engine() % static_cast<unsigned>(high - low + 1));
    return ca::tensor(values, shape);
}

struct Group {
    Shape shape;
    std::vector<Values> values;  ///< elements that are reduced to one, in row-major order
};
Group group(const Tensor& x, const Axes& axes, bool keepdims) {
    const Values all = x.to(ca::f64).to_vector<double>();
    const Shape& shape = x.shape();
    std::vector<bool> reduced(static_cast<std::size_t>(x.rank()), axes.empty());
    for (const std::int64_t a : axes) reduced[static_cast<std::size_t>(a < 0 ? a + x.rank() : a)] = true;
    Group g;
    std::int64_t count = 1;
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        const bool gone = reduced[static_cast<std::size_t>(a)];
        if (!gone) g.shape.push_back(shape[a]);
        if (gone && keepdims) g.shape.push_back(1);
        if (!gone) count *= shape[a];
    }
    g.values.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::int64_t rest = static_cast<std::int64_t>(i), at = 0, scale = 1;
        for (std::int64_t a = x.rank() - 1; a >= 0; --a) {
            if (!reduced[static_cast<std::size_t>(a)]) {
                at += rest % shape[a] * scale;
                scale *= shape[a];
            }
            rest /= shape[a];
        }
        g.values[static_cast<std::size_t>(at)].push_back(all[i]);
    }
    return g;
}

void expect_close(const Values& got, const Group& expected, Loop loop, double tolerance, const std::string& what) {
    ASSERT_EQ(got.size(), expected.values.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double e = loop(expected.values[i]);
        if (std::isnan(e)) {
            EXPECT_TRUE(std::isnan(got[i])) << what;
        } else {
            ASSERT_NEAR(got[i], e, tolerance * std::max(1.0, std::abs(e))) << what << " at " << i;
        }
    }
}

void check(const Case& c, const Tensor& x, const Axes& axes, bool keepdims, double tolerance,
           const std::string& layout) {
    const std::string what =
        std::string(c.name) + " of " + ca::describe(x) + " over " + ca::to_string(axes) + ", " + layout;
    const Group g = group(x, axes, keepdims);
    const Tensor y = c.run(x, axes, keepdims);
    ASSERT_EQ(y.shape(), g.shape) << what;
    expect_close(y.to(ca::f64).to_vector<double>(), g, c.loop, tolerance, what);
}

/// The same values in several layouts, evaluated so that strides are real.
std::vector<std::pair<std::string, Tensor>> layouts(const Tensor& x) {
    std::vector<std::pair<std::string, Tensor>> all{{"plain", x}};
    const std::int64_t r = x.rank();
    if (r == 0) return all;
    Axes reversed, last(r, 0);
    for (std::int64_t a = 0; a < r; ++a) reversed.push_back(r - 1 - a);
    all.emplace_back("reversed axes", ca::permute(ca::contiguous(ca::permute(x, reversed)).eval(), reversed));
    all.emplace_back("flipped", ca::flip(ca::contiguous(ca::flip(x)).eval()));
    const Tensor twice = ca::stack({x, ca::zeros_like(x)}, r);
    all.emplace_back("every second", ca::select(ca::contiguous(twice).eval(), r, 0));
    if (r >= 3) {  // channels last
        Axes to{0}, from{0, r - 1};
        for (std::int64_t a = 2; a < r; ++a) to.push_back(a);
        to.push_back(1);
        for (std::int64_t a = 1; a < r - 1; ++a) from.push_back(a);
        all.emplace_back("channels last", ca::permute(ca::contiguous(ca::permute(x, to)).eval(), from));
    }
    return all;
}

std::vector<Axes> subsets(std::int64_t rank) {
    std::vector<Axes> all;
    for (int mask = 0; mask < 1 << rank; ++mask) {
        Axes axes;
        for (std::int64_t a = 0; a < rank; ++a) {
            if (mask >> a & 1) axes.push_back(a % 2 ? a - rank : a);
        }
        all.push_back(axes);
    }
    return all;
}

void check_dtypes(const Case& c) {
    const bool product = std::string(c.name) == "prod";
    for (const ca::DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16, ca::i64, ca::i32, ca::i16, ca::i8, ca::u64,
                                  ca::u32, ca::u16, ca::u8, ca::boolean}) {
        const bool has_sign = ca::is_floating(dtype) || ca::is_signed_integer(dtype);
        const Tensor x = small_integers({3, 4, 2}, 7,
                                        dtype == ca::boolean || product ? 0
                                        : has_sign                      ? -3
                                                                        : 0,
                                        dtype == ca::boolean ? 1 : 2)
                             .to(dtype);
        const double tolerance = dtype == ca::bf16 ? 8e-3 : dtype == ca::f16 ? 1e-3 : 1e-5;
        for (const Axes& axes : std::vector<Axes>{{}, {0}, {1}, {2}, {0, 2}})
            check(c, x, axes, false, tolerance, "plain");
    }
}

const Shape shapes[] = {{}, {5}, {3, 4}, {2, 3, 5}, {2, 3, 4, 5}, {2, 3, 1, 2, 3}, {2, 1, 3, 2, 2, 3}, {7, 40, 24}};

}  // namespace

class EveryReduction : public ::testing::TestWithParam<Case> {
protected:
    /// On a GPU several reductions are one kernel: one of each goes through all layouts of larger tensors.
    static bool alone(std::initializer_list<std::string_view> names) {
        return ca::default_device().kind == ca::DeviceKind::cpu ||
               std::ranges::find(names, std::string_view(GetParam().name)) != names.end();
    }
};

TEST_P(EveryReduction, MatchesLoopsOverRanksAxesAndLayouts) {
    std::uint32_t seed = 1;
    for (const Shape& shape : shapes) {
        const Tensor x = random_tensor(shape, seed++, -2, 2, ca::f32);
        if (x.numel() > 1000 && !alone({"sum", "argmax"})) continue;
        for (const auto& [layout, t] : layouts(x)) {
            const double exact = GetParam().tolerance, tolerance = x.numel() > 1000 ? 5 * exact : exact;
            for (const Axes& axes : subsets(shape.rank())) check(GetParam(), t, axes, seed % 2 == 0, tolerance, layout);
        }
    }
}

TEST_P(EveryReduction, HasARightReference) {
    setenv("CALOR_DISABLE", "lanes", 1);
    const Tensor x = random_tensor({2, 3, 4, 2}, 9, -2, 2, ca::f32);
    for (const auto& [layout, t] : layouts(x)) {
        for (const Axes& axes : subsets(4)) check(GetParam(), t, axes, false, GetParam().tolerance, layout);
    }
    unsetenv("CALOR_DISABLE");
}

TEST_P(EveryReduction, MatchesLoopsOverDtypes) {
    for (const char* disabled : {"", "lanes"}) {
        setenv("CALOR_DISABLE", disabled, 1);
        check_dtypes(GetParam());
    }
    unsetenv("CALOR_DISABLE");
}
TEST_P(EveryReduction, MatchesLoopsOverLargeTensors) {
    // Pieces, chunks, blocks of columns and folds of narrow columns, with ragged ends.
    const std::pair<Shape, Axes> problems[] = {{{70001}, {}},         {{3, 20011}, {1}},   {{20011, 3}, {0}},
                                               {{601, 1301}, {0}},    {{4, 300, 67}, {1}}, {{5, 7, 901}, {0, 2}},
                                               {{900, 5, 7}, {0, 1}}, {{129, 40}, {1}}};
    std::uint32_t seed = 50;
    if (!alone({"sum", "prod", "max", "argmax", "logsumexp", "var"})) return;
    for (const auto& [shape, axes] : problems) {
        if (seed > 53 && !alone({"sum"})) return;
        const bool product = std::string(GetParam().name) == "prod";
        const Tensor x =
            product ? random_tensor(shape, seed++, 0.99, 1.01, ca::f32) : random_tensor(shape, seed++, -2, 2, ca::f32);
        check(GetParam(), x, axes, false,
              GetParam().tolerance == 0 ? 0 : std::max(GetParam().tolerance, product ? 1e-4 : 5e-6), "plain");
        if (alone({"sum", "argmax"})) check(GetParam(), x.to(ca::bf16), axes, false, 8e-3, "plain");
    }
}

TEST_P(EveryReduction, GivesTheSameBitsForAnyNumberOfThreads) {
    if (!alone({"sum"})) return;
    const Tensor x = random_tensor({64, 33, 129}, 3, -2, 2, ca::f32);
    const int before = ca::thread_count();
    for (const Axes& axes : std::vector<Axes>{{}, {0}, {1}, {2}, {0, 2}, {0, 1}}) {
        ca::set_thread_count(1);
        const auto one = GetParam().run(x, axes, false).to(ca::f64).to_vector<double>();
        for (const int threads : {2, 3}) {
            ca::set_thread_count(threads);
            const auto many = GetParam().run(x, axes, false).to(ca::f64).to_vector<double>();
            EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(double)), 0)
                << GetParam().name << ca::to_string(axes);
        }
    }
    ca::set_thread_count(before);
}

TEST_P(EveryReduction, RefusesWrongAxesAndUndefinedTensors) {
    const Tensor x = ca::ones({2, 3});
    expect_error("axis/range", [&] { (void)GetParam().run(x, {2}, false); });
    expect_error("axis/range", [&] { (void)GetParam().run(x, {-3}, false); });
    expect_error("axis/duplicate", [&] { (void)GetParam().run(x, {1, -1}, false); });
    expect_error("tensor/undefined", [&] { (void)GetParam().run(Tensor(), {}, false); });
}

TEST_P(EveryReduction, KeepsOtherEmptyAxes) {
    const Tensor y = GetParam().run(ca::zeros({0, 3, 2}), {1}, true);
    EXPECT_EQ(y.shape(), (Shape{0, 1, 2}));
    EXPECT_TRUE(y.to(ca::f64).to_vector<double>().empty());
}

INSTANTIATE_TEST_SUITE_P(Reduce, EveryReduction, ::testing::ValuesIn(cases), [](const auto& info) {
    std::string name = info.param.name;
    std::erase(name, ' ');
    std::ranges::replace(name, '-', 'm');
    return name;
});

TEST(Reduce, OfNothing) {
    const Tensor none = ca::zeros({0, 2});
    EXPECT_EQ(ca::sum(none, {0}).to_vector<float>(), (std::vector<float>{0, 0}));
    EXPECT_EQ(ca::prod(none, {0}).to_vector<float>(), (std::vector<float>{1, 1}));
    EXPECT_FALSE(ca::any(none).item<bool>());
    EXPECT_TRUE(ca::all(none).item<bool>());
    EXPECT_TRUE(std::isnan(ca::mean(none).item<float>()));
    EXPECT_TRUE(std::isnan(ca::var(none).item<float>()));
    EXPECT_EQ(ca::logsumexp(none).item<float>(), -std::numeric_limits<float>::infinity());
    EXPECT_EQ(ca::count_nonzero(none).item<std::int64_t>(), 0);
    EXPECT_EQ(ca::norm(none).item<float>(), 0.f);
    EXPECT_EQ(ca::norm(none, 3).item<float>(), 0.f);
    for (const auto choose : {ca::max, ca::min, ca::argmax, ca::argmin}) {
        expect_error("reduce/empty", [&] { (void)choose(none, {}, false, ca::Where::current()); });
        expect_error("reduce/empty", [&] { (void)choose(none, {0}, false, ca::Where::current()); });
        EXPECT_EQ(choose(none, {1}, false, ca::Where::current()).shape(), Shape{0});
    }
    expect_error("reduce/empty", [&] { (void)ca::norm(none, inf); });
    expect_error("reduce/empty", [&] { (void)ca::norm(none, -inf); });
    for (const auto f : {ca::sum, ca::prod, ca::mean, ca::logsumexp}) {
        const Tensor x = none.requires_grad();
        const Tensor loss = ca::sum(f(x, {0}, false, ca::Where::current()));
        EXPECT_EQ(ca::backward(loss)[x].shape(), (Shape{0, 2}));
    }
}

TEST(Reduce, AccumulatesWide) {
    EXPECT_EQ(ca::sum(ca::ones({4096}, ca::f16)).to(ca::f32).item<float>(), 4096.f);
    EXPECT_EQ(ca::sum(ca::ones({512}, ca::bf16)).to(ca::f32).item<float>(), 512.f);
    EXPECT_EQ(ca::sum(ca::contiguous(ca::ones({512, 3}, ca::bf16)), {0}).to(ca::f32).to_vector<float>(),
              (std::vector<float>{512, 512, 512}));
    EXPECT_EQ(ca::sum(ca::ones({1 << 24}) * 1.f).item<float>(), 16777216.f);
    EXPECT_NEAR(ca::sum(ca::full({1 << 24}, 0.1f) * 1.f).item<float>(), 16777216 * 0.1, 0.5);
    EXPECT_NEAR(ca::sum(ca::full({1 << 20, 2}, 0.1f) * 1.f, {0}).to_vector<float>()[1], (1 << 20) * 0.1, 0.03);
    // Far from zero: two passes, not sum of squares minus square of sum.
    const Tensor x = random_tensor({20000}, 4, 0, 1, ca::f64), far = x + 1e9;
    EXPECT_NEAR(ca::var(far).item<double>(), 1.0 / 12, 2e-3);
    EXPECT_NEAR(ca::var((x + 1000).to(ca::f32)).item<float>(), ca::var(x).item<double>(), 1e-6);
}

TEST(Reduce, IntegersWrapAndBoolCounts) {
    EXPECT_EQ(ca::sum(ca::full({3}, 100, ca::i8)).item<std::int8_t>(), 44);
    EXPECT_EQ(ca::sum(ca::full({3}, 100, ca::u8)).item<std::uint8_t>(), 44);
    EXPECT_EQ(ca::prod(ca::full({5}, 16, ca::i16)).item<std::int16_t>(), 0);
    EXPECT_EQ(ca::sum(ca::full({2}, std::numeric_limits<std::int64_t>::max(), ca::i64)).item<std::int64_t>(), -2);
    const Tensor truths = ca::gt(random_tensor({3000}, 5), -2);
    EXPECT_EQ(ca::sum(truths).dtype(), ca::i64);
    EXPECT_EQ(ca::sum(truths).item<std::int64_t>(), 3000);
    EXPECT_EQ(ca::prod(truths).dtype(), ca::i64);
    EXPECT_EQ(ca::mean(ca::full({2}, 3, ca::i32)).dtype(), ca::f32);
    EXPECT_EQ(ca::max(truths).dtype(), ca::boolean);
    EXPECT_EQ(ca::max(ca::tensor<std::int64_t>({-5, std::numeric_limits<std::int64_t>::max(), 3})).item<std::int64_t>(),
              std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(ca::argmin(ca::tensor<std::uint8_t>({200, 7, 7, 255})).item<std::int64_t>(), 1);
}

TEST(Reduce, NaNAndInfinity) {
    const float n = std::numeric_limits<float>::quiet_NaN(), i = std::numeric_limits<float>::infinity();
    const Tensor x = ca::tensor<float>({1, n, i, n, -i});
    EXPECT_TRUE(std::isnan(ca::max(x).item<float>()));
    EXPECT_TRUE(std::isnan(ca::min(x).item<float>()));
    EXPECT_EQ(ca::argmax(x).item<std::int64_t>(), 1);
    EXPECT_EQ(ca::argmin(x).item<std::int64_t>(), 1);
    EXPECT_EQ(ca::count_nonzero(ca::tensor<float>({n, 0, -0.f, 2})).item<std::int64_t>(), 2);
    EXPECT_EQ(ca::max(ca::tensor<float>({-i, -i})).item<float>(), -i);
    EXPECT_EQ(ca::argmax(ca::tensor<float>({-i, -i})).item<std::int64_t>(), 0);
    EXPECT_EQ(ca::logsumexp(ca::tensor<float>({-i, -i})).item<float>(), -i);
    EXPECT_EQ(ca::logsumexp(ca::tensor<float>({1, i})).item<float>(), i);
    EXPECT_TRUE(std::isnan(ca::logsumexp(x).item<float>()));
    EXPECT_NEAR(ca::logsumexp(ca::tensor<float>({1000, 1000})).item<float>(), 1000.6931f, 1e-3);
    EXPECT_NEAR(ca::logsumexp(ca::tensor<float>({-1000, -i})).item<float>(), -1000.f, 1e-3);
    // A NaN anywhere in columns and in long rows.
    std::vector<float> many(40 * 300, 1.f);
    many[300 * 17 + 5] = n;
    const Tensor m = ca::tensor(many, {40, 300});
    EXPECT_EQ(ca::argmax(m, {0}).to_vector<std::int64_t>()[5], 17);
    EXPECT_TRUE(std::isnan(ca::max(m, {0}).to_vector<float>()[5]));
    EXPECT_EQ(ca::max(m, {0}).to_vector<float>()[6], 1.f);
    EXPECT_EQ(ca::argmin(m).item<std::int64_t>(), 300 * 17 + 5);
}

TEST(Reduce, ReadsBroadcastInputs) {
    const Tensor x = ca::tensor<float>({1, 2, 3});
    EXPECT_EQ(ca::sum(ca::expand(x, {4, 3}), {0}).to_vector<float>(), (std::vector<float>{4, 8, 12}));
    EXPECT_EQ(ca::sum(ca::expand(x, {4, 3}), {1}).to_vector<float>(), (std::vector<float>{6, 6, 6, 6}));
    EXPECT_EQ(ca::sum(ca::expand(ca::reshape(x, {3, 1}), {2, 3, 500})).item<float>(), 6000.f);
    EXPECT_EQ(ca::argmax(ca::expand(x, {4, 3})).item<std::int64_t>(), 2);
}

TEST(Reduce, VarianceCorrections) {
    const Tensor x = ca::tensor<double>({1, 2, 3, 4});
    EXPECT_DOUBLE_EQ(ca::var(x).item<double>(), 5.0 / 3);
    EXPECT_DOUBLE_EQ(ca::var(x, {}, false, 0).item<double>(), 1.25);
    EXPECT_DOUBLE_EQ(ca::std(x, {}, false, 0).item<double>(), std::sqrt(1.25));
    EXPECT_TRUE(std::isnan(ca::var(ca::ones({1})).item<float>()));
    EXPECT_EQ(ca::var(ca::ones({1}), {}, false, 0).item<float>(), 0.f);
    expect_error("value/option", [&] { (void)ca::var(x, {}, false, inf); });
    expect_error("value/option", [&] { (void)ca::std(x, {}, false, nan_value); });
    expect_error("value/option", [&] { (void)ca::norm(x, nan_value); });
}

TEST(Reduce, Norms) {
    const Tensor x = ca::tensor<double>({3, 0, -4});
    EXPECT_EQ(ca::norm(x).item<double>(), 5);
    EXPECT_EQ(ca::norm(x, 0).item<double>(), 2);
    EXPECT_EQ(ca::norm(x, -1).item<double>(), 0);
    EXPECT_NEAR(ca::norm(x, 0.5).item<double>(), std::pow(std::sqrt(3.0) + 2, 2), 1e-12);
    EXPECT_NEAR(ca::norm(ca::tensor<double>({3, -4}), -1).item<double>(), 1 / (1 / 3.0 + 1 / 4.0), 1e-12);
    EXPECT_EQ(ca::norm(ca::tensor<std::int32_t>({3, -4})).item<float>(), 5.f);
    EXPECT_EQ(ca::norm(ca::ones({4096}, ca::f16), 4).dtype(), ca::f16);
}

TEST(ReduceGradients, OfSmoothReductions) {
    const Tensor x = random_tensor({3, 4, 2}, 11, 0.5, 2);
    for (const Axes& axes : std::vector<Axes>{{}, {1}, {0, 2}}) {
        for (const bool keep : {false, true}) {
            expect_gradients([&](const Tensor& t) { return ca::sum(t * t, axes, keep); }, x);
            expect_gradients([&](const Tensor& t) { return ca::mean(t * t, axes, keep); }, x);
            expect_gradients([&](const Tensor& t) { return ca::prod(t, axes, keep); }, x);
            expect_gradients([&](const Tensor& t) { return ca::max(t * t, axes, keep); }, x);
            expect_gradients([&](const Tensor& t) { return ca::min(t * t, axes, keep); }, x);
            expect_gradients([&](const Tensor& t) { return ca::logsumexp(t, axes, keep); }, x);
            expect_gradients([&](const Tensor& t) { return ca::var(t, axes, keep); }, x);
            expect_gradients([&](const Tensor& t) { return ca::var(t * t, axes, keep, 0); }, x);
            expect_gradients([&](const Tensor& t) { return ca::std(t, axes, keep); }, x);
            for (const double p : {1.0, 2.0, 3.0, 0.5, -1.0, inf, -inf}) {
                expect_gradients([&](const Tensor& t) { return ca::norm(t * t, p, axes, keep); }, x);
            }
        }
    }
    expect_gradients([](const Tensor& t) { return ca::prod(ca::permute(t, {2, 0, 1}), {0, 1}); }, x);
}

TEST(ReduceGradients, OfProductsWithZeros) {
    const auto gradient = [](const Tensor& x) {
        return ca::grad([](const Tensor& t) { return ca::sum(ca::prod(t, {-1})); })(x).to_vector<double>();
    };
    EXPECT_EQ(gradient(ca::tensor<double>({2, 3, 4})), (Values{12, 8, 6}));
    EXPECT_EQ(gradient(ca::tensor<double>({2, 0, 4})), (Values{0, 8, 0}));
    EXPECT_EQ(gradient(ca::tensor<double>({0, 0, 4})), (Values{0, 0, 0}));
    EXPECT_EQ(gradient(ca::tensor<double>({5})), (Values{1}));
    // Second order through two zeros: d2/dx0 dx1 of x0 x1 x2 is x2.
    const Tensor x = ca::tensor<double>({0, 0, 4});
    const auto first = ca::grad([](const Tensor& t) { return ca::prod(t); });
    const auto second =
        ca::grad([&](const Tensor& t) { return ca::sum(ca::slice(first(t), 0, {.start = 0, .stop = 1})); });
    EXPECT_EQ(second(x).to_vector<double>(), (Values{0, 4, 0}));
    expect_gradients([](const Tensor& t) { return ca::prod(t, {1}); },
                     ca::tensor<double>({1, 0, 2, 3, 0, 0, 5, 1, 2, 3}, {2, 5}));
}

TEST(ReduceGradients, AtTiesAndKinks) {
    const auto gradient = [](const ca::TensorFunction& f, const Tensor& x) {
        return ca::grad(f)(x).to_vector<double>();
    };
    const Tensor ties = ca::tensor<double>({1, 3, 3, 2, 3, 1});
    const double third = 1.0 / 3;
    EXPECT_EQ(gradient([](const Tensor& t) { return ca::max(t); }, ties), (Values{0, third, third, 0, third, 0}));
    EXPECT_EQ(gradient([](const Tensor& t) { return ca::min(t); }, ties), (Values{0.5, 0, 0, 0, 0, 0.5}));
    EXPECT_EQ(gradient([](const Tensor& t) { return ca::norm(t, inf); }, -ties),
              (Values{0, -third, -third, 0, -third, 0}));
    const Tensor zeros = ca::zeros({3}, ca::f64);
    for (const double p : {1.0, 2.0, 3.0, 1.5, 0.5, inf, -inf}) {
        EXPECT_EQ(gradient([&](const Tensor& t) { return ca::norm(t, p); }, zeros), (Values{0, 0, 0})) << p;
    }
    EXPECT_EQ(gradient([](const Tensor& t) { return ca::std(t); }, ca::ones({3}, ca::f64)), (Values{0, 0, 0}));
    const Tensor nothing = ca::full({2}, -inf, ca::f64);
    EXPECT_EQ(gradient([](const Tensor& t) { return ca::logsumexp(t); }, nothing), (Values{0, 0}));
    const auto half = gradient([](const Tensor& t) { return ca::sum(ca::logsumexp(t, {1})); },
                               ca::tensor<double>({-inf, -inf, 0, 0}, {2, 2}));
    EXPECT_EQ(half, (Values{0, 0, 0.5, 0.5}));
    EXPECT_FALSE(ca::norm(zeros.requires_grad(), 0).tracked());
}

TEST(ReduceGradients, KeepHalfPrecision) {
    const Tensor x = ca::ones({4096}, ca::f16).requires_grad();
    const auto g = ca::backward(ca::mean(x));
    EXPECT_EQ(g[x].dtype(), ca::f16);
    EXPECT_EQ(g[x].to(ca::f32).to_vector<float>()[9], 1.f / 4096);
}
