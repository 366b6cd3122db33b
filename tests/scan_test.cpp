// Scans: values, every dtype and layout against the reference, gradients with zeros and ties, threads, errors.
#include "calor/scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "calor/calor.h"
#include "gradient_check.h"
#include "reference/torch_scan.h"
#include "relaid.h"
#include "strided.h"

namespace ca = calor;
using namespace calor::testing;  // NOLINT
using ca::Shape;
using ca::Tensor;

namespace {

using Function = std::function<Tensor(const Tensor&, std::int64_t, const ca::ScanOptions&)>;
struct Named {
    const char* name;
    Function f;
    bool exclusive = true;
};
const std::vector<Named>& functions() {
    static const std::vector<Named> all{
        {"cumsum", [](const Tensor& x, std::int64_t a, const ca::ScanOptions& o) { return ca::cumsum(x, a, o); }},
        {"cumprod", [](const Tensor& x, std::int64_t a, const ca::ScanOptions& o) { return ca::cumprod(x, a, o); }},
        {"logcumsumexp",
         [](const Tensor& x, std::int64_t a, const ca::ScanOptions& o) { return ca::logcumsumexp(x, a, o); }},
        {"cummax",
         [](const Tensor& x, std::int64_t a, const ca::ScanOptions& o) { return ca::cummax(x, a, o.reverse).values; },
         false},
        {"cummin",
         [](const Tensor& x, std::int64_t a, const ca::ScanOptions& o) { return ca::cummin(x, a, o.reverse).values; },
         false}};
    return all;
}
const Function& function_named(std::string_view name) {
    for (const Named& n : functions()) {
        if (n.name == name) return n.f;
    }
    throw std::runtime_error("unknown function");
}

std::vector<ca::ScanOptions> all_options(bool exclusive) {
    std::vector<ca::ScanOptions> all{{false, false}, {true, false}};
    if (exclusive) all.insert(all.end(), {{false, true}, {true, true}});
    return all;
}

/// Equal up to the rounding of the dtype, NaN and infinities alike.
void expect_same(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
    ASSERT_EQ(got.shape(), expected.shape()) << what;
    ASSERT_EQ(got.dtype(), expected.dtype()) << what;
    const auto a = values_of(got), b = values_of(expected);
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
        ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << what << " at " << i;
    }
}

double tolerance_of(ca::DType dtype) {
    switch (dtype) {
        case ca::f64: return 1e-12;
        case ca::f32: return 1e-5;
        case ca::f16: return 2e-3;
        case ca::bf16: return 2e-2;
        default: return 0;
    }
}

std::vector<double> list(const Tensor& t) { return values_of(t); }

}  // namespace

TEST(Scan, SmallCasesByHand) {
    const Tensor x = ca::tensor({1.F, 2.F, 0.F, 4.F});
    using V = std::vector<double>;
    EXPECT_EQ(list(ca::cumsum(x, 0)), (V{1, 3, 3, 7}));
    EXPECT_EQ(list(ca::cumsum(x, 0, {.reverse = true})), (V{7, 6, 4, 4}));
    EXPECT_EQ(list(ca::cumsum(x, 0, {.exclusive = true})), (V{0, 1, 3, 3}));
    EXPECT_EQ(list(ca::cumsum(x, 0, {.reverse = true, .exclusive = true})), (V{6, 4, 4, 0}));
    EXPECT_EQ(list(ca::cumprod(x, -1)), (V{1, 2, 0, 0}));
    EXPECT_EQ(list(ca::cumprod(x, -1, {.exclusive = true})), (V{1, 1, 2, 0}));
    EXPECT_EQ(list(ca::cumprod(x, -1, {.reverse = true, .exclusive = true})), (V{0, 0, 4, 1}));
    const auto up = ca::cummax(x, 0), down = ca::cummin(x, 0, true);
    EXPECT_EQ(list(up.values), (V{1, 2, 2, 4}));
    EXPECT_EQ(list(up.indices), (V{0, 1, 1, 3}));
    EXPECT_EQ(list(down.values), (V{0, 0, 0, 4}));
    EXPECT_EQ(list(down.indices), (V{2, 2, 2, 3}));
    EXPECT_EQ(list(ca::linear_recurrence(ca::tensor({9.F, 2.F, 0.5F, 0.F}), x, 0)), (V{1, 4, 2, 4}));
    EXPECT_EQ(list(ca::linear_recurrence(ca::tensor({2.F, 2.F, 0.5F, 9.F}), x, 0, true)), (V{13, 6, 2, 4}));
}

TEST(Scan, IntegersWrapAndBoolsCount) {
    const Tensor bytes = ca::full({300}, 100, ca::u8);
    const auto sums = ca::cumsum(bytes, 0).to_vector<std::uint8_t>();
    const auto products = ca::cumprod(ca::full({20}, 3, ca::i8), 0).to_vector<std::int8_t>();
    std::uint8_t sum = 0, product = 1;
    for (std::size_t i = 0; i < sums.size(); ++i) {
        sum = static_cast<std::uint8_t>(sum + 100);
        EXPECT_EQ(sums[i], sum);
        product = static_cast<std::uint8_t>(product * 3);
        if (i < products.size()) {
            EXPECT_EQ(products[i], static_cast<std::int8_t>(product));
        }
    }
    const Tensor flags = ca::tensor(std::vector<std::uint8_t>{1, 0, 1, 1}).to(ca::boolean);
    EXPECT_EQ(ca::cumsum(flags, 0).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 1, 2, 3}));
    EXPECT_EQ(ca::cumprod(flags, 0).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 0, 0}));
    EXPECT_EQ(ca::cummax(flags, 0).values.dtype(), ca::boolean);
    const Tensor wide = ca::tensor(std::vector<std::int64_t>{INT64_MAX, 1, -5});
    EXPECT_EQ(ca::cumsum(wide, 0).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{INT64_MAX, INT64_MIN, INT64_MAX - 4}));
    EXPECT_EQ(ca::cummin(ca::tensor(std::vector<std::int8_t>{3, -7, -7, 100}), 0).indices.to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 1, 2, 2}));
}

TEST(Scan, GivesPyTorchsValuesAndGradients) {
    const Shape shape{3, 7, 2};
    const auto filled = [&](auto rule) {
        std::vector<double> values;
        for (int i = 0; i < 42; ++i) values.push_back(rule(i));
        return ca::tensor(values, shape);
    };
    const Tensor weights = filled([](int i) { return i + 1.0; }), u = filled([](int i) { return std::cos(3 * i); });
    for (const auto& c : torch_values::scans) {
        const std::string input = c.input;
        const Tensor x = filled([&](int i) {
                             if (input == "Zeros" && i % 5 == 2) return 0.0;
                             return std::sin((input == "Ties" ? i / 4 : i) + 1) * 2;
                         }).requires_grad();
        const Tensor y = function_named(c.function)(x, c.axis, {});
        const Tensor g = ca::gradients({y}, {x}, {u})[0];
        const std::string what = std::string(c.function) + input + std::to_string(c.axis);
        EXPECT_NEAR(ca::sum(y * weights).item<double>(), c.value, 1e-11 * std::max(1.0, std::abs(c.value))) << what;
        EXPECT_NEAR(ca::sum(g * weights).item<double>(), c.gradient, 1e-11 * std::max(1.0, std::abs(c.gradient)))
            << what;
    }
    const Tensor x = ca::tensor({1.F, 3.F, 3.F, NAN, 5.F, NAN, -1.F});
    for (const auto& c : torch_values::positions) {
        const auto r = c.function == std::string("cummax") ? ca::cummax(x, 0) : ca::cummin(x, 0);
        const auto at = r.indices.to_vector<std::int64_t>();
        EXPECT_EQ(at, std::vector<std::int64_t>(std::begin(c.at), std::end(c.at))) << c.function;
    }
}

/// Lines and bands, in place and through buffers, against the plain loops.
TEST(Scan, EveryDtypeLayoutAndAxisMatchesTheReference) {
    const Shape shapes[] = {
        {1}, {7}, {2500}, {3, 40}, {40, 3}, {2, 9, 33}, {70, 300}, {2, 3, 4, 9}, {2, 3, 2, 4, 1, 3}, {0, 3}, {3, 0}};
    for (const Named& n : functions()) {
        for (const Shape& shape : shapes) {
            for (const ca::DType dtype : every_dtype) {
                const bool log = std::string(n.name) == "logcumsumexp";
                if (log && !ca::is_floating(dtype)) continue;
                Tensor values = counting(shape, dtype);
                if (ca::is_floating(dtype)) values = (random_tensor(shape, 5, -1.2, 1.2)).to(dtype).eval();
                for (const Lie lie : all_lies) {
                    const Tensor x = relaid(values, lie);
                    for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
                        for (const auto& options : all_options(n.exclusive)) {
                            if (x.numel() > 2000 && (lie == Lie::sliced || lie == Lie::channels_last) &&
                                !options.reverse)
                                continue;
                            const Tensor fast = n.f(x, axis, options).eval();
                            const Disable slow("lines");
                            expect_same(fast, n.f(x, axis, options).eval(), tolerance_of(dtype),
                                        std::string(n.name) + " " + ca::describe(x));
                        }
                    }
                }
            }
        }
    }
}

TEST(Scan, RecurrenceMatchesTheReference) {
    for (const Shape& shape : {Shape{2500}, Shape{3, 40}, Shape{100, 300}, Shape{2, 9, 33}, Shape{0, 2}}) {
        for (const ca::DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
            const Tensor a = random_tensor(shape, 6, -1, 1, dtype), b = random_tensor(shape, 7, -1, 1, dtype);
            for (const Lie lie : all_lies) {
                for (std::int64_t axis = 0; axis < a.rank(); ++axis) {
                    for (const bool reverse : {false, true}) {
                        const Tensor x = relaid(a.eval(), lie),
                                     fast = ca::linear_recurrence(x, b, axis, reverse).eval();
                        const Disable slow("lines");
                        expect_same(fast, ca::linear_recurrence(x, b, axis, reverse).eval(), tolerance_of(dtype),
                                    ca::describe(x));
                    }
                }
            }
        }
    }
    const Tensor row = ca::expand(ca::tensor({0.5F}), {8}), ones = ca::ones({8});
    EXPECT_FLOAT_EQ(ca::linear_recurrence(row, ones, 0).to_vector<float>()[7], 2 - 1.F / 128);
}

/// Lines that a GPU cuts into chunks.
TEST(Scan, LongLinesMatchTheReference) {
    for (const Shape& shape : {Shape{70001}, Shape{3, 30011}}) {
        const Tensor x = random_tensor(shape, 31, -1.2, 1.2, ca::f32).eval(),
                     a = random_tensor(shape, 32, -1, 1, ca::f32).eval();
        const auto compare = [&](const auto& f, const char* name) {
            const Tensor fast = f(x, a).eval();
            const Disable slow("lines");
            expect_same(fast.to(ca::Device{}), f(x.to(ca::Device{}), a.to(ca::Device{})).eval(), 1e-4, name);
        };
        for (const Named& n : functions()) {
            for (const bool reverse : {false, true}) {
                compare([&](const Tensor& t, const Tensor&) { return n.f(t, -1, {.reverse = reverse}); }, n.name);
            }
        }
        compare([](const Tensor& t, const Tensor& s) { return ca::linear_recurrence(s, t, -1); }, "linear_recurrence");
    }
}

TEST(Scan, LogarithmsNeitherOverflowNorLoseSmallOnes) {
    const float inf = HUGE_VALF;
    std::vector<float> values(200, -1000.F);
    for (std::size_t i = 100; i < 200; ++i) values[i] = 500.F;
    for (const char* disabled : {"", "lines"}) {
        const Disable guard(disabled);
        const auto y = ca::logcumsumexp(ca::tensor(values), 0).to_vector<float>();
        EXPECT_FLOAT_EQ(y[0], -1000);
        EXPECT_NEAR(y[99], -1000 + std::log(100.), 2e-4);
        EXPECT_NEAR(y[199], 500 + std::log(100.), 2e-4);
        const auto edge = ca::logcumsumexp(ca::tensor({-inf, -inf, 1.F, inf, 2.F}), 0).to_vector<float>();
        EXPECT_EQ(edge[1], -inf);
        EXPECT_FLOAT_EQ(edge[2], 1);
        EXPECT_EQ(edge[4], inf);
        const auto unknown = ca::logcumsumexp(ca::tensor({1.F, NAN, 2.F}), 0).to_vector<float>();
        EXPECT_FLOAT_EQ(unknown[0], 1);
        EXPECT_TRUE(std::isnan(unknown[1]) && std::isnan(unknown[2]));
    }
    const Tensor x = ca::tensor({-inf, -inf, 1.F, -inf, 2.F}).requires_grad();
    const auto g = ca::backward(ca::sum(ca::slice(ca::logcumsumexp(x, 0), 0, {.start = 2})))[x].to_vector<float>();
    EXPECT_EQ(g[0], 0);
    EXPECT_EQ(g[3], 0);
    EXPECT_NEAR(g[2] + g[4], 3, 1e-6);
    // A product passes through the smallest numbers without losing its way: neighbours are not multiplied first.
    EXPECT_FLOAT_EQ(ca::cumprod(ca::tensor({1e-30F, 1e20F, 1e20F, 1e-5F}), 0).to_vector<float>()[2], 1e10F);
    EXPECT_EQ(ca::cumprod(ca::tensor({0.F, 1e30F, 1e30F, 1.F, 1.F, 1.F, 1.F, 1.F, 1.F}), 0).to_vector<float>()[8], 0);
}

TEST(Scan, HalfTypesAccumulateInSingle) {
    const Tensor ones = ca::full({5000}, 1, ca::bf16);
    EXPECT_EQ(ca::cumsum(ones, 0).to(ca::f32).to_vector<float>()[4999], 4992.F);  // 5000 rounded once
    EXPECT_EQ(ca::cumsum(ones.to(ca::f16), 0).to(ca::f32).to_vector<float>()[4999], 5000.F);
}

/// Infinities and NaN on their way through a long line, in both directions.
TEST(Scan, SumsOfNoNumbersStayNone) {
    for (const ca::DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
        for (const std::size_t at : {0U, 37U, 1030U, 2999U}) {
            for (const float bad : {NAN, HUGE_VALF, -HUGE_VALF}) {
                std::vector<float> values(3000, 0.25F);
                values[at] = bad;
                if (std::isinf(bad) && at + 500 < values.size()) values[at + 500] = -bad;
                for (const bool reverse : {false, true}) {
                    const Tensor x = ca::tensor(values).to(dtype), fast = ca::cumsum(x, 0, {.reverse = reverse}).eval();
                    const Disable slow("lines");
                    expect_same(fast, ca::cumsum(x, 0, {.reverse = reverse}).eval(), tolerance_of(dtype),
                                ca::describe(x));
                }
            }
        }
    }
}

TEST(Scan, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    for (const Shape& shape : {Shape{50000}, Shape{3, 9000}, Shape{9000, 20}}) {
        const Tensor x = random_tensor(shape, 8, -1, 1, ca::f32);
        for (const Named& n : functions()) {
            for (const bool reverse : {false, true}) {
                const auto bits = [&](int threads) {
                    ca::set_thread_count(threads);
                    return n.f(x, 0, {.reverse = reverse}).to_vector<float>();
                };
                const auto one = bits(1), four = bits(4);
                EXPECT_EQ(std::memcmp(one.data(), four.data(), one.size() * 4), 0) << n.name << ca::to_string(shape);
            }
        }
    }
    ca::set_thread_count(before);
}

TEST(ScanGradients, OfAnyOrder) {
    for (const Named& n : functions()) {
        for (const auto& options : all_options(n.exclusive)) {
            for (std::int64_t axis = 0; axis < 2; ++axis) {
                expect_gradients(
                    [&](const Tensor& x) {
                        const Tensor y = n.f(x, axis, options);
                        return ca::where(ca::isinf(y), 0, y);  // the logarithm of nothing
                    },
                    random_tensor({4, 5}, 9, 0.3, 1.5));
            }
        }
    }
    const ca::TensorsFunction recurrence = [](const std::vector<Tensor>& v) {
        return std::vector<Tensor>{ca::linear_recurrence(v[0], v[1], 1), ca::linear_recurrence(v[0], v[1], 0, true)};
    };
    expect_gradients(recurrence, {random_tensor({3, 5}, 10), random_tensor({3, 5}, 11)});
    // Third order.
    const ca::TensorFunction cube = [](const Tensor& x) {
        const Tensor y = ca::cumprod(x, 0);
        return ca::sum(y * y);
    };
    expect_gradients([&](const Tensor& x) { return ca::grad(cube)(x); }, random_tensor({4}, 12));
}

TEST(ScanGradients, ProductsWithZeros) {
    for (const int zeros : {1, 2, 3}) {
        std::vector<double> values{1.5, -0.5, 2, 0.75, -1.25, 3};
        values[1] = 0;
        if (zeros > 1) values[4] = 0;
        if (zeros > 2) values[2] = 0;
        const Tensor x = ca::tensor(values, {6});
        for (const auto& options : all_options(true)) {
            expect_gradients([&](const Tensor& t) { return ca::cumprod(t, 0, options); }, x);
        }
        expect_gradients([](const Tensor& t) { return ca::prod(t); }, x);
        expect_gradients([](const Tensor& t) { return ca::prod(ca::reshape(t, {2, 3}), {1}); }, x);
        expect_gradients([](const Tensor& t) { return ca::prod(ca::reshape(t, {2, 3}), {0, 1}, true); }, x);
        const Tensor leaf = x.requires_grad();
        const auto g = ca::backward(ca::prod(leaf))[leaf].to_vector<double>();
        for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(g[i], zeros == 1 && i == 1 ? 1.5 * 2 * 0.75 * -1.25 * 3 : 0);
    }
}

TEST(ScanGradients, OfExtremesGoToTheLatest) {
    const Tensor x = ca::tensor({1.F, 3.F, 3.F, 2.F}).requires_grad();
    EXPECT_EQ(ca::backward(ca::sum(ca::cummax(x, 0).values))[x].to_vector<float>(), (std::vector<float>{1, 1, 2, 0}));
}

/// In every layout and dtype the gradient of a running extreme is a scatter to its indices.
TEST(ScanGradients, OfExtremesAreScatters) {
    for (const Shape& shape : {Shape{9}, Shape{5, 70}, Shape{70, 5}, Shape{3, 4, 5}, Shape{0, 3}}) {
        for (const ca::DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
            const Tensor values = ca::round(random_tensor(shape, 21, -4, 4)).to(dtype).eval();
            const Tensor u = random_tensor(shape, 22, -1, 1, dtype).eval();
            for (const Lie lie : all_lies) {
                for (std::int64_t axis = 0; axis < values.rank(); ++axis) {
                    for (const bool reverse : {false, true}) {
                        const Tensor x = relaid(values, lie).requires_grad();
                        const ca::RunningExtreme y = ca::cummin(x, axis, reverse);
                        const Tensor g = ca::gradients({y.values}, {x}, {relaid(u, lie)})[0];
                        const Tensor zero = ca::zeros(shape, ca::f64);
                        const Tensor expected = ca::scatter_add(zero, axis, y.indices, u.to(ca::f64)).to(dtype);
                        expect_same(g, expected, tolerance_of(dtype), ca::describe(x));
                    }
                }
            }
        }
    }
}

TEST(ScanErrors, EachItsOwn) {
    const Tensor x = ca::ones({2, 3});
    for (const Named& n : functions()) {
        expect_error("axis/range", [&] { (void)n.f(x, 2, {}); });
        expect_error("axis/range", [&] { (void)n.f(x, -3, {}); });
        expect_error("axis/range", [&] { (void)n.f(ca::ones({}), 0, {}); });
        expect_error("tensor/undefined", [&] { (void)n.f({}, 0, {}); });
    }
    expect_error("shape/mismatch", [&] { (void)ca::linear_recurrence(x, ca::ones({3}), 0); });
    expect_error("dtype/mismatch", [&] { (void)ca::linear_recurrence(x, x.to(ca::f64), 0); });
    expect_error("dtype/unsupported", [&] { (void)ca::linear_recurrence(x.to(ca::i32), x.to(ca::i32), 0); });
    expect_error("axis/range", [&] { (void)ca::linear_recurrence(x, x, 2); });
    expect_error("tensor/undefined", [&] { (void)ca::linear_recurrence(x, {}, 0); });
}
