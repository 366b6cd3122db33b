// softmax and log_softmax: against loops in f64 over ranks, axes, layouts and dtypes; special values; gradients;
// threads; errors.
#include "calor/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "calor/creation.h"
#include "calor/device.h"
#include "calor/index.h"
#include "calor/view.h"
#include "gradient_check.h"

namespace ca = calor;
using ca::Shape;
using ca::Tensor;
using ca::testing::expect_error;
using ca::testing::expect_gradients;
using ca::testing::random_tensor;

namespace {

using Values = std::vector<double>;
using Function = Tensor (*)(const Tensor&, std::int64_t, const ca::Where&);

/// The axis moved last, every line computed by the formula.
Values loop(const Tensor& x, std::int64_t axis, bool log) {
    const Values v = x.to(ca::f64).to_vector<double>();
    std::int64_t inner = 1;
    for (std::int64_t a = axis + 1; a < x.rank(); ++a) inner *= x.size(a);
    const std::int64_t n = x.size(axis);
    Values out(v.size());
    for (std::int64_t i = 0; i < std::ssize(v); ++i) {
        if (i / inner % n != 0) continue;
        double sum = 0;
        for (std::int64_t k = 0; k < n; ++k) sum += std::exp(v[static_cast<std::size_t>(i + k * inner)]);
        for (std::int64_t k = 0; k < n; ++k) {
            const auto at = static_cast<std::size_t>(i + k * inner);
            out[at] = log ? v[at] - std::log(sum) : std::exp(v[at]) / sum;
        }
    }
    return out;
}

void expect_close(const Tensor& got, const Values& expected, double tolerance, const std::string& what) {
    const Values values = got.to(ca::f64).to_vector<double>();
    ASSERT_EQ(values.size(), expected.size()) << what;
    for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << what << " at " << i;
    }
}

std::vector<std::pair<std::string, Tensor>> layouts(const Tensor& x) {
    std::vector<std::pair<std::string, Tensor>> all{{"plain", x}};
    const std::int64_t r = x.rank();
    ca::Axes reversed;
    for (std::int64_t a = 0; a < r; ++a) reversed.push_back(r - 1 - a);
    all.emplace_back("reversed axes", ca::permute(ca::contiguous(ca::permute(x, reversed)).eval(), reversed));
    all.emplace_back("flipped", ca::flip(ca::contiguous(ca::flip(x)).eval()));
    all.emplace_back("every second", ca::select(ca::contiguous(ca::stack({x, x * 0}, r)).eval(), r, 0));
    if (r >= 3) {
        ca::Axes to{0}, from{0, r - 1};
        for (std::int64_t a = 2; a < r; ++a) to.push_back(a);
        to.push_back(1);
        for (std::int64_t a = 1; a < r - 1; ++a) from.push_back(a);
        all.emplace_back("channels last", ca::permute(ca::contiguous(ca::permute(x, to)).eval(), from));
    }
    return all;
}

void check(const Tensor& x, double tolerance, const std::string& layout) {
    for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
        const std::string what = ca::describe(x) + " along " + std::to_string(axis) + ", " + layout;
        expect_close(ca::softmax(x, axis), loop(x, axis, false), tolerance, "softmax of " + what);
        expect_close(ca::log_softmax(x, axis - x.rank()), loop(x, axis, true), tolerance, "log_softmax of " + what);
    }
}

const Shape shapes[] = {{7}, {3, 40}, {2, 3, 17}, {2, 5, 3, 9}, {2, 3, 1, 4, 3}, {2, 1, 3, 2, 2, 3}};

}  // namespace

TEST(Softmax, MatchesLoopsOverRanksAxesAndLayouts) {
    for (const char* disabled : {"", "lanes"}) {
        setenv("CALOR_DISABLE", disabled, 1);
        for (const Shape& shape : shapes) {
            for (const auto& [layout, x] : layouts(random_tensor(shape, 3, -4, 4, ca::f32)))
                check(x, 1e-6, layout + disabled);
        }
        for (const ca::DType dtype : {ca::f64, ca::f16, ca::bf16}) {
            const double tolerance = dtype == ca::f64 ? 1e-14 : dtype == ca::f16 ? 1e-3 : 8e-3;
            for (const auto& [layout, x] : layouts(random_tensor({3, 5, 20}, 4, -4, 4, dtype)))
                check(x, tolerance, layout + disabled);
        }
    }
    unsetenv("CALOR_DISABLE");
}

TEST(Softmax, MatchesLoopsOverLargeTensors) {
    check(random_tensor({70, 1025}, 5, -4, 4, ca::f32), 2e-6, "plain");
    check(random_tensor({3, 33, 700}, 6, -4, 4, ca::f32), 2e-6, "plain");
    check(random_tensor({2, 9000}, 7, -4, 4, ca::f32), 2e-6, "plain");
    check(random_tensor({2, 9000}, 7, -4, 4, ca::bf16), 8e-3, "plain");
}

TEST(Softmax, OfIntegersAndBool) {
    EXPECT_EQ(ca::softmax(ca::ones({4}, ca::i32)).to_vector<float>(), (std::vector<float>{0.25, 0.25, 0.25, 0.25}));
    EXPECT_EQ(ca::softmax(ca::ones({2}, ca::boolean)).dtype(), ca::f32);
    EXPECT_EQ(ca::softmax(ca::ones({2}, ca::bf16)).dtype(), ca::bf16);
}

TEST(Softmax, SpecialValues) {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const auto all_nan = [](const Tensor& t) {
        for (const float v : t.to_vector<float>()) {
            if (!std::isnan(v)) return false;
        }
        return true;
    };
    for (const std::int64_t padding : {0, 30}) {  // scalar tails and vectors
        const auto row = [&](std::vector<float> v) {
            v.resize(v.size() + static_cast<std::size_t>(padding), -inf);
            return ca::tensor(v);
        };
        EXPECT_TRUE(all_nan(ca::softmax(row({-inf, -inf}))));
        EXPECT_TRUE(all_nan(ca::log_softmax(row({-inf, -inf}))));
        EXPECT_TRUE(all_nan(ca::softmax(row({1, nan, 2}))));
        EXPECT_TRUE(all_nan(ca::log_softmax(row({1, nan, 2}))));
        EXPECT_TRUE(std::isnan(ca::softmax(row({1, inf})).to_vector<float>()[1]));
        const auto p = ca::softmax(row({0, -inf, 1e30f})).to_vector<float>();
        EXPECT_EQ(p[0], 0.f);
        EXPECT_EQ(p[1], 0.f);
        EXPECT_EQ(p[2], 1.f);
        const auto l = ca::log_softmax(row({1000, -inf, 1000})).to_vector<float>();
        EXPECT_NEAR(l[0], -std::log(2.f), 1e-6);
        EXPECT_EQ(l[1], -inf);
    }
    const Tensor columns = ca::contiguous(ca::full({3, 20}, -inf));
    EXPECT_TRUE(all_nan(ca::softmax(columns, 0)));
}

TEST(Softmax, OfNothing) {
    for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}}) {
        const Tensor x = ca::zeros(shape).requires_grad();
        EXPECT_EQ(ca::softmax(x, 1).shape(), shape);
        EXPECT_EQ(ca::backward(ca::sum(ca::log_softmax(x, 1)))[x].shape(), shape);
        EXPECT_EQ(ca::backward(ca::sum(ca::softmax(x, 0)))[x].shape(), shape);
    }
    EXPECT_EQ(ca::softmax(ca::full({3, 1}, 5), 1).to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST(Softmax, GivesTheSameBitsForAnyNumberOfThreads) {
    const Tensor x = random_tensor({40, 70, 33}, 3, -2, 2, ca::f32);
    const int before = ca::thread_count();
    for (const std::int64_t axis : {0, 1, 2}) {
        for (const Function f : {Function(ca::softmax), Function(ca::log_softmax)}) {
            ca::set_thread_count(1);
            const auto one = f(x, axis, ca::Where::current()).to_vector<float>();
            ca::set_thread_count(2);
            EXPECT_EQ(f(x, axis, ca::Where::current()).to_vector<float>(), one);
        }
    }
    ca::set_thread_count(before);
}

TEST(Softmax, KeepsTheFormat) {
    const Tensor x = random_tensor({2, 12, 4, 4}, 8, -2, 2, ca::f32);
    const Tensor last = ca::permute(ca::contiguous(ca::permute(x, {0, 2, 3, 1})).eval(), {0, 3, 1, 2});
    for (std::int64_t axis = 0; axis < 4; ++axis)
        expect_close(ca::softmax(last, axis) * last, (ca::softmax(x, axis) * x).to(ca::f64).to_vector<double>(), 1e-6,
                     "formats");
}

TEST(SoftmaxGradients, OfAnyOrder) {
    const Tensor x = random_tensor({3, 4, 2}, 9), large = random_tensor({2, 3, 9}, 10);
    for (std::int64_t axis = 0; axis < 3; ++axis) {
        expect_gradients([&](const Tensor& t) { return ca::softmax(t, axis); }, x);
        expect_gradients([&](const Tensor& t) { return ca::log_softmax(t, axis); }, x);
        expect_gradients([&](const Tensor& t) { return ca::softmax(t * t, axis); }, large);
        expect_gradients([&](const Tensor& t) { return ca::log_softmax(t * t, axis); }, large);
    }
    // Third order.
    const ca::TensorFunction f = [](const Tensor& t) { return ca::sum(ca::softmax(t, 0) * ca::softmax(t, 0)); };
    const ca::TensorFunction second = [&](const Tensor& t) { return ca::sum(ca::grad(f)(t) * t); };
    expect_gradients([&](const Tensor& t) { return ca::grad(second)(t); }, ca::tensor<double>({0.5, -0.3, 0.8}));
}

TEST(SoftmaxGradients, MatchTheReference) {
    const Tensor x = random_tensor({20, 31, 18}, 11, -2, 2, ca::f32),
                 w = random_tensor({20, 31, 18}, 12, -1, 1, ca::f32);
    for (std::int64_t axis = 0; axis < 3; ++axis) {
        for (const Function f : {Function(ca::softmax), Function(ca::log_softmax)}) {
            for (const auto& entry : layouts(x)) {
                const Tensor& t = entry.second;
                const auto gradient = [&] {
                    return ca::grad([&](const Tensor& s) { return ca::sum(f(s, axis, ca::Where::current()) * w); })(t);
                };
                const Tensor fast = gradient().eval();
                setenv("CALOR_DISABLE", "lanes", 1);
                const Values slow = gradient().to(ca::f64).to_vector<double>();
                unsetenv("CALOR_DISABLE");
                expect_close(fast, slow, 1e-5, entry.first);
            }
        }
    }
}

TEST(Softmax, RefusesWrongArguments) {
    for (const Function f : {Function(ca::softmax), Function(ca::log_softmax)}) {
        const ca::Where where = ca::Where::current();
        expect_error("axis/range", [&] { (void)f(ca::ones({2, 3}), 2, where); });
        expect_error("axis/range", [&] { (void)f(ca::ones({2, 3}), -3, where); });
        expect_error("axis/range", [&] { (void)f(ca::ones({}), -1, where); });
        expect_error("tensor/undefined", [&] { (void)f(Tensor(), 0, where); });
    }
}

namespace {

Tensor classes_for(const Shape& shape, std::int64_t classes) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < ca::numel(shape); ++i) values.push_back(i * 7 % classes);
    return ca::tensor(values, shape);
}

/// By log_softmax and one_hot.
Tensor cross_entropy_formula(const Tensor& x, const Tensor& classes, std::int64_t axis) {
    const Tensor hot = ca::movedim(ca::one_hot(classes, x.size(axis), ca::f64), {-1}, {axis});
    return -ca::sum(ca::log_softmax(x, axis) * hot, {axis});
}

}  // namespace

TEST(SoftmaxCrossEntropy, MatchesTheFormulaAndItsGradient) {
    for (const char* disabled : {"", "lanes"}) {
        for (const Shape& shape : {Shape{7}, Shape{5, 10}, Shape{4, 21, 3}, Shape{2, 6, 3, 4}}) {
            for (const auto& [layout, x] : layouts(random_tensor(shape, 13, -3, 3))) {
                for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
                    Shape rest = shape;
                    rest.erase(axis);
                    const Tensor classes = classes_for(rest, shape[axis]), leaf = x.requires_grad(),
                                 u = random_tensor(rest, 14);
                    setenv("CALOR_DISABLE", disabled, 1);
                    const Tensor loss = ca::softmax_cross_entropy(leaf, classes, axis),
                                 slow = cross_entropy_formula(leaf, classes, axis);
                    const Tensor g = ca::gradients({loss}, {leaf}, {u})[0].eval(),
                                 s = ca::gradients({slow}, {leaf}, {u})[0];
                    expect_close(loss, slow.to_vector<double>(), 1e-13, layout);
                    unsetenv("CALOR_DISABLE");
                    expect_close(g, s.to_vector<double>(), 1e-13, layout);
                }
            }
        }
    }
    const Tensor x = random_tensor({50, 300}, 15, -3, 3), classes = classes_for({50}, 300);
    for (const ca::DType dtype : {ca::f32, ca::f16, ca::bf16}) {
        const Tensor loss = ca::softmax_cross_entropy(x.to(dtype), classes.to(ca::i32));
        EXPECT_EQ(loss.dtype(), ca::f32);
        expect_close(loss, cross_entropy_formula(x.to(dtype).to(ca::f64), classes, 1).to_vector<double>(), 1e-6,
                     "dtypes");
    }
    const Tensor half = x.to(ca::bf16).requires_grad();
    EXPECT_EQ(ca::backward(ca::mean(ca::softmax_cross_entropy(half, classes)))[half].dtype(), ca::bf16);
}

TEST(SoftmaxCrossEntropy, HasGradientsOfAnyOrder) {
    const Tensor classes = classes_for({3, 2}, 4), x = random_tensor({3, 4, 2}, 16);
    expect_gradients([&](const Tensor& t) { return ca::softmax_cross_entropy(t, classes, 1); }, x);
    expect_gradients(
        [&](const Tensor& t) {
            return ca::softmax_cross_entropy(t * t, ca::reshape(classes, {2, 3}), 1);
        },
        ca::reshape(x, {2, 4, 3}));
    const ca::TensorFunction f = [&](const Tensor& t) {
        const Tensor l = ca::softmax_cross_entropy(t, classes, 1);
        return ca::sum(l * l);
    };
    expect_gradients([&](const Tensor& t) { return ca::grad(f)(t); }, x);
}

TEST(SoftmaxCrossEntropy, RefusesWrongArguments) {
    const Tensor x = ca::ones({2, 3}), classes = ca::zeros({2}, ca::i64);
    expect_error("tensor/undefined", [&] { (void)ca::softmax_cross_entropy({}, classes); });
    expect_error("tensor/undefined", [&] { (void)ca::softmax_cross_entropy(x, {}); });
    expect_error("axis/range", [&] { (void)ca::softmax_cross_entropy(x, classes, 2); });
    expect_error("shape/mismatch", [&] { (void)ca::softmax_cross_entropy(x, classes, 0); });
    expect_error("dtype/unsupported", [&] { (void)ca::softmax_cross_entropy(x, ca::zeros({2})); });
    expect_error("dtype/unsupported", [&] { (void)ca::softmax_cross_entropy(ca::ones({2, 3}, ca::i32), classes); });
    expect_error("index/range", [&] { (void)ca::softmax_cross_entropy(x, ca::full({2}, 3, ca::i64)).eval(); });
    expect_error("index/range", [&] { (void)ca::softmax_cross_entropy(x, ca::full({2}, -1, ca::i8)).eval(); });
    const Tensor none = ca::zeros({0, 3}).requires_grad();
    EXPECT_EQ(ca::backward(ca::sum(ca::softmax_cross_entropy(none, ca::zeros({0}, ca::i64))))[none].shape(),
              (Shape{0, 3}));
}
