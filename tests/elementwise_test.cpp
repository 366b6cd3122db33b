// The elementwise table: every row over its dtypes and over odd layouts against plain definitions; gradients of first
// and second order; what happens at special values; wrong inputs. The rows themselves say what is tested.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "calor/calor.h"
#include "elementwise_calls.h"
#include "gradient_check.h"
#include "graph/node.h"

namespace ca = calor;
using ca::DType;
using ca::Shape;
using ca::Tensor;
using ca::ops::Accepts;
using ca::ops::Gives;
using ca::ops::Row;
using ca::testing::Real;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

constexpr DType all_dtypes[] = {ca::f64, ca::f32, ca::f16, ca::bf16, ca::i64, ca::i32,    ca::i16,
                                ca::i8,  ca::u64, ca::u32, ca::u16,  ca::u8,  ca::boolean};

bool accepts(const Row& row, DType dtype) {
    switch (row.accepts) {
        case Accepts::any:
        case Accepts::floating: return true;
        case Accepts::numeric: return dtype != ca::boolean;
        case Accepts::integral: return !ca::is_floating(dtype);
        case Accepts::integer: return ca::is_integer(dtype);
    }
    return false;
}

DType result_dtype(const Row& row, DType dtype) {
    if (row.gives == Gives::boolean) return ca::boolean;
    if (row.name == "nextafter_f16") return ca::f16;
    if (row.name == "nextafter_bf16") return ca::bf16;
    if (row.name == "relu") return dtype == ca::boolean ? ca::f32 : dtype;
    return row.accepts == Accepts::floating && !ca::is_floating(dtype) ? ca::f32 : dtype;
}

std::vector<double> parameters(const Row& row) {
    std::vector<double> p(4, 0.0);
    for (std::size_t i = 0; i < 3; ++i) p[i] = row.parameters[i].sample;
    return p;
}

/// Arguments from the row's domain: whole numbers for integer types, at least 0 for unsigned ones.
Tensor draw(const Row& row, DType dtype, const Shape& shape, std::uint32_t seed) {
    std::mt19937 engine(seed);
    std::vector<double> values(static_cast<std::size_t>(ca::numel(shape)));
    const double low = ca::is_unsigned_integer(dtype) ? std::max(0.0, row.low) : row.low;
    for (double& v : values) {
        v = low + (row.high - low) * (static_cast<double>(engine()) / 4294967296.0);
        if (!ca::is_floating(dtype)) v = std::clamp(std::round(v), std::ceil(low), std::floor(row.high));
        if (dtype == ca::boolean) v = static_cast<double>(engine() % 2);
    }
    return ca::tensor(values, shape).to(dtype).eval();
}

std::vector<Tensor> operands(const Row& row, DType dtype, std::span<const Shape> shapes, std::uint32_t seed) {
    std::vector<Tensor> x;
    for (int i = 0; i < row.arity; ++i) {
        const bool condition = row.name == "where" && i == 0;
        x.push_back(draw(row, condition ? ca::boolean : dtype, shapes[static_cast<std::size_t>(i)],
                         seed + 17 * static_cast<std::uint32_t>(i)));
    }
    return x;
}

double tolerance(DType dtype) {
    switch (dtype) {
        case ca::f64: return 4e-14;
        case ca::f32: return 1e-6;
        case ca::f16: return 1.0 / 1024;
        case ca::bf16: return 1.0 / 128;
        default: return 0;
    }
}

/// The definition's value as an integer dtype holds it.
double wrapped(Real value, DType dtype) {
    const auto whole = static_cast<std::int64_t>(value);
    if (dtype == ca::boolean) return static_cast<double>(whole & 1);
    const Tensor t = ca::tensor(std::vector<std::int64_t>{whole}).to(dtype);
    return t.to(ca::f64).to_vector<double>()[0];
}

void expect_definition(const Row& row, const Tensor& got, const std::vector<Tensor>& x, const std::string& what) {
    const auto definition = ca::testing::elementwise_definition(row.name);
    if (!definition) return;  // nextafter: a test of its own
    const auto p = parameters(row);
    std::vector<std::vector<double>> values;
    for (const Tensor& t : x) values.push_back(ca::expand(t, got.shape()).to(ca::f64).to_vector<double>());
    const std::vector<double> y = got.to(ca::f64).to_vector<double>();
    for (std::size_t i = 0; i < y.size(); ++i) {
        Real at[3] = {};
        for (std::size_t k = 0; k < x.size(); ++k) at[k] = values[k][i];
        const Real exact = definition(at, p.data());
        if (ca::is_floating(got.dtype())) {
            const auto expected = static_cast<double>(exact);
            if (y[i] == expected || (std::isnan(y[i]) && std::isnan(expected))) continue;
            ASSERT_NEAR(y[i], expected, tolerance(got.dtype()) * std::max(std::abs(expected), 0.05))
                << what << " at " << i;
        } else {
            ASSERT_EQ(y[i], wrapped(exact, got.dtype())) << what << " at " << i;
        }
    }
}

std::string bytes_of(const Tensor& t) {
    const Tensor dense = t.eval();
    const auto bits = ca::size_of(t.dtype());
    std::string out(static_cast<std::size_t>(t.numel() * bits), '\0');
    const auto copy = [&](auto like) {
        const auto v = dense.to_vector<decltype(like)>();
        std::memcpy(out.data(), v.data(), out.size());
    };
    switch (t.dtype()) {
        case ca::f64: copy(0.0); break;
        case ca::f32: copy(0.0f); break;
        case ca::f16: copy(ca::float16()); break;
        case ca::bf16: copy(ca::bfloat16()); break;
        case ca::i64: copy(std::int64_t{}); break;
        case ca::i32: copy(std::int32_t{}); break;
        case ca::boolean: return bytes_of(t.to(ca::u8));
        case ca::u8: copy(std::uint8_t{}); break;
        default: ADD_FAILURE() << "unexpected dtype";
    }
    return out;
}

TEST(ElementwiseTable, EveryRowHasACallAndADefinition) {
    std::map<std::string_view, int> seen;
    for (const Row& row : ca::ops::elementwise_rows()) {
        EXPECT_EQ(++seen[row.name], 1) << row.name;
        EXPECT_TRUE(ca::testing::elementwise_calls().contains(row.name)) << row.name;
        const bool defined = static_cast<bool>(ca::testing::elementwise_definition(row.name));
        EXPECT_NE(defined, row.name.starts_with("nextafter")) << row.name;
        EXPECT_TRUE(row.text && row.formula) << row.name;
    }
    EXPECT_EQ(seen.size(), ca::testing::elementwise_calls().size());
}

TEST(ElementwiseTable, EveryRowOfEveryDType) {
    const Shape shapes[] = {{3, 1, 5}, {4, 1}, {5}};
    for (const Row& row : ca::ops::elementwise_rows()) {
        for (const DType dtype : all_dtypes) {
            const std::string what = std::string(row.name) + " of " + std::string(ca::name_of(dtype));
            const std::vector<Tensor> x = operands(row, dtype, shapes, 3);
            const auto call = [&] { return ca::testing::elementwise_calls().at(row.name)(x, parameters(row).data()); };
            if (!accepts(row, dtype)) {
                if (row.name == "add" || row.name == "mul" || row.name == "clamp") continue;  // bool: see LogicOfBool
                ca::testing::expect_error("dtype/unsupported", call);
                continue;
            }
            const Tensor y = call();
            ASSERT_EQ(y.dtype(), result_dtype(row, dtype)) << what;
            const Shape full[] = {{3, 1, 5}, {3, 4, 5}, {3, 4, 5}};
            ASSERT_EQ(y.shape(), full[row.arity - 1]) << what;
            std::vector<Tensor> converted;
            for (const Tensor& t : x) {
                const bool as_float = row.accepts == Accepts::floating && !ca::is_floating(dtype);
                converted.push_back(as_float ? t.to(ca::f32) : t);
            }
            expect_definition(row, y, converted, what);
        }
    }
}

/// The same elements behind other strides: transposed, backward, with gaps, one element for a whole axis.
Tensor laid_out(const Tensor& x, int kind) {
    const Shape shape = x.shape();  // [r, c]
    const std::int64_t size = ca::size_of(x.dtype()), rows = shape[0], columns = shape[1];
    ca::Layout layout;
    switch (kind) {
        case 0: layout = {{columns, 1}, 0}; break;
        case 1: layout = {{1, rows}, 0}; break;
        case 2: layout = {{-columns, -1}, rows * columns - 1}; break;
        case 3: layout = {{2 * columns, 2}, 1}; break;
        case 4: layout = {{0, 1}, 0}; break;
        default: layout = {{1, 0}, 0}; break;
    }
    auto storage = ca::backend(ca::Device{}).allocate(size * (2 * rows * columns + 2), "test", ca::Where::current());
    std::memset(storage->data, 0, static_cast<std::size_t>(size * (2 * rows * columns + 2)));
    const std::string dense = bytes_of(x);
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
            const std::int64_t to = layout.offset + i * layout.strides[0] + j * layout.strides[1];
            std::memcpy(static_cast<char*>(storage->data) + to * size, dense.data() + (i * columns + j) * size,
                        static_cast<std::size_t>(size));
        }
    }
    return ca::graph::make_value(std::move(storage), layout, shape, x.dtype(), {}, ca::Where::current());
}

TEST(ElementwiseTable, EveryRowOverEveryLayout) {
    const Shape shapes[] = {{7, 37}, {7, 37}, {7, 37}};
    for (const Row& row : ca::ops::elementwise_rows()) {
        for (const DType dtype : {ca::f32, ca::f16, ca::i32}) {
            if (!accepts(row, dtype)) continue;
            const auto& call = ca::testing::elementwise_calls().at(row.name);
            const std::vector<Tensor> x = operands(row, dtype, shapes, 5);
            for (int kind = 0; kind < 6; ++kind) {
                std::vector<Tensor> odd, dense;
                for (std::size_t i = 0; i < x.size(); ++i) {
                    odd.push_back(laid_out(x[i], (kind + static_cast<int>(i) * (kind % 2)) % 6));
                    dense.push_back(laid_out(odd.back(), 0));
                }
                EXPECT_EQ(bytes_of(call(odd, parameters(row).data())), bytes_of(call(dense, parameters(row).data())))
                    << row.name << " of " << ca::name_of(dtype) << ", layout " << kind;
            }
        }
    }
}

TEST(ElementwiseTable, EveryRowOfNothing) {
    const Shape shapes[] = {{2, 0, 3}, {1, 3}, {1, 1, 3}};
    for (const Row& row : ca::ops::elementwise_rows()) {
        for (const DType dtype : {ca::f32, ca::i32}) {
            if (!accepts(row, dtype)) continue;
            const Tensor y =
                ca::testing::elementwise_calls().at(row.name)(operands(row, dtype, shapes, 5), parameters(row).data());
            EXPECT_EQ(y.shape(), (Shape{2, 0, 3})) << row.name;
            EXPECT_EQ(y.eval().numel(), 0) << row.name;
        }
        if (!row.differentiable()) continue;
        std::vector<Tensor> x = operands(row, ca::f32, shapes, 5);
        for (Tensor& t : x) {
            if (ca::is_floating(t.dtype())) t = t.requires_grad();
        }
        const auto grads =
            ca::backward(ca::sum(ca::testing::elementwise_calls().at(row.name)(x, parameters(row).data())));
        for (const Tensor& t : x) {
            if (!t.tracked()) continue;
            for (const float g : grads[t].to_vector<float>()) EXPECT_EQ(g, 0.f) << row.name;
        }
    }
}

TEST(ElementwiseTable, GradientsOfFirstAndSecondOrder) {
    const Shape shapes[] = {{3, 4}, {4}, {3, 1}};
    for (const Row& row : ca::ops::elementwise_rows()) {
        if (!row.differentiable()) continue;
        SCOPED_TRACE(std::string(row.name));
        std::vector<Tensor> x = operands(row, ca::f64, shapes, 11);
        const bool choice = row.name == "where";
        const Tensor condition = x[0];
        if (choice) x.erase(x.begin());
        ca::testing::expect_gradients(
            [&](std::vector<Tensor> in) {
                if (choice) in.insert(in.begin(), condition);
                return std::vector<Tensor>{ca::testing::elementwise_calls().at(row.name)(in, parameters(row).data())};
            },
            x);
    }
}

TEST(ElementwiseTable, RowsWithoutGradientCutTheGraph) {
    const Shape shapes[] = {{3}, {3}, {3}};
    for (const Row& row : ca::ops::elementwise_rows()) {
        if (row.differentiable() || !accepts(row, ca::f32)) continue;
        std::vector<Tensor> x = operands(row, ca::f32, shapes, 11);
        for (Tensor& t : x) t = t.requires_grad();
        EXPECT_FALSE(ca::testing::elementwise_calls().at(row.name)(x, parameters(row).data()).tracked()) << row.name;
    }
}

TEST(ElementwiseTable, EveryRowTwiceGivesTheSameBits) {
    const Shape shapes[] = {{70001}, {70001}, {70001}};
    for (const Row& row : ca::ops::elementwise_rows()) {
        const DType dtype = accepts(row, ca::f32) ? ca::f32 : ca::i32;
        const std::vector<Tensor> x = operands(row, dtype, shapes, 7);
        const auto run = [&] {
            return bytes_of(ca::testing::elementwise_calls().at(row.name)(x, parameters(row).data()));
        };
        EXPECT_EQ(run(), run()) << row.name;
    }
}

TEST(ElementwiseTable, UndefinedOperandsAreRefused) {
    const Shape shapes[] = {{2}, {2}, {2}};
    for (const Row& row : ca::ops::elementwise_rows()) {
        if (row.name.starts_with("nextafter_")) continue;
        for (int i = 0; i < row.arity; ++i) {
            std::vector<Tensor> x = operands(row, accepts(row, ca::f32) ? ca::f32 : ca::i32, shapes, 7);
            x[static_cast<std::size_t>(i)] = Tensor();
            if (row.name == "clamp") continue;  // its call asks for the dtype first; see below
            ca::testing::expect_error("tensor/undefined", [&] {
                (void)ca::testing::elementwise_calls().at(row.name)(x, parameters(row).data());
            });
        }
    }
    ca::testing::expect_error("tensor/undefined", [] { (void)ca::clamp(Tensor(), 0, 1); });
}

TEST(ElementwiseTable, ShapesThatDoNotBroadcastAreRefused) {
    const Shape shapes[] = {{2, 3}, {2, 4}, {3}};
    for (const Row& row : ca::ops::elementwise_rows()) {
        if (row.arity < 2) continue;
        const std::vector<Tensor> x = operands(row, accepts(row, ca::f32) ? ca::f32 : ca::i32, shapes, 7);
        ca::testing::expect_error(
            "shape/broadcast", [&] { (void)ca::testing::elementwise_calls().at(row.name)(x, parameters(row).data()); });
    }
}

// ---- values and derivatives at special places ----

std::vector<double> values(const Tensor& t) { return t.to(ca::f64).to_vector<double>(); }
Tensor numbers(std::initializer_list<double> v) { return ca::tensor(std::vector<double>(v)); }

std::vector<double> derivative(const ca::TensorFunction& f, const Tensor& x) {
    return values(ca::grad([&](const Tensor& t) { return ca::sum(f(t)); })(x));
}
std::pair<std::vector<double>, std::vector<double>> derivatives(Tensor (*f)(const ca::Operand&, const ca::Operand&,
                                                                            const ca::Where&),
                                                                const Tensor& a, const Tensor& b) {
    const Tensor x = a.requires_grad(), y = b.requires_grad();
    const auto g = ca::backward(ca::sum(f(x, y, ca::Where::current())));
    return {values(g[x]), values(g[y])};
}

using V = std::vector<double>;

TEST(ElementwiseSpecial, DerivativesAtKinks) {
    const Tensor x = numbers({-1, 0, 2});
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::abs(t); }, x), (V{-1, 0, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::sign(t); }, x), (V{0, 0, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::relu(t); }, x), (V{0, 0, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::clamp(t, -1, 2); }, x), (V{1, 1, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::clamp(t, 0); }, x), (V{0, 1, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::clamp(t, {}, 0); }, x), (V{1, 1, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::hardtanh(t, -1, 2); }, x), (V{0, 1, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::relu6(t); }, numbers({0, 3, 6})), (V{0, 1, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::leaky_relu(t, 0.5); }, x), (V{0.5, 0.5, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::hard_sigmoid(t); }, numbers({-3, 3})), (V{0, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::hard_swish(t); }, numbers({-4, -3, 3, 4})),
              (V{0, -0.5, 1.5, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::softshrink(t, 1); }, x), (V{0, 0, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::hardshrink(t, 1); }, x), (V{0, 0, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::threshold(t, 0, 5); }, x), (V{0, 0, 1}));
}

TEST(ElementwiseSpecial, TiesOfMinimumAndMaximumShareTheGradient) {
    const auto [a, b] = derivatives(ca::minimum, numbers({1, 2, 3}), numbers({2, 2, 2}));
    EXPECT_EQ(a, (V{1, 0.5, 0}));
    EXPECT_EQ(b, (V{0, 0.5, 1}));
    const auto [c, d] = derivatives(ca::maximum, numbers({1, 2, 3}), numbers({2, 2, 2}));
    EXPECT_EQ(c, (V{0, 0.5, 1}));
    EXPECT_EQ(d, (V{1, 0.5, 0}));
}

TEST(ElementwiseSpecial, PowAtZero) {
    const auto [base, exponent] = derivatives(ca::pow, numbers({0, 0, 0, 0}), numbers({0, 1, 2, 3}));
    EXPECT_EQ(base, (V{0, 1, 0, 0}));
    EXPECT_EQ(exponent, (V{0, 0, 0, 0}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::pow(t, 1); }, numbers({0, -2})), (V{1, 1}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::pow(t, 0); }, numbers({0, -2})), (V{0, 0}));
    const ca::TensorFunction slope = [](const Tensor& t) {
        return ca::grad([](const Tensor& u) { return ca::sum(ca::pow(u, numbers({1, 2, 3}))); })(t);
    };
    EXPECT_EQ(derivative(slope, numbers({0, 0, 0})), (V{0, 2, 0}));
    EXPECT_EQ(values(ca::pow(numbers({0, -8, 2, nan}), numbers({0, 2, -1, 0}))), (V{1, 64, 0.5, 1}));
}

TEST(ElementwiseSpecial, GradientsAtTheOrigin) {
    const auto [a, b] = derivatives(ca::hypot, numbers({0, 3}), numbers({0, 4}));
    EXPECT_EQ(a, (V{0, 0.6}));
    EXPECT_EQ(b, (V{0, 0.8}));
    const auto [c, d] = derivatives(ca::atan2, numbers({0, 1e200}), numbers({0, 1e200}));
    EXPECT_EQ(c[0], 0);
    EXPECT_EQ(d[0], 0);
    EXPECT_NEAR(c[1], 5e-201, 1e-214);
    EXPECT_NEAR(d[1], -5e-201, 1e-214);
    const auto [x, y] = derivatives(ca::xlogy, numbers({0, 0, 2}), numbers({0, -1, 4}));
    EXPECT_EQ(x, (V{0, 0, std::log(4.0)}));
    EXPECT_EQ(y, (V{0, 0, 0.5}));
    const auto [p, q] = derivatives(ca::logaddexp, numbers({-infinity, -infinity, 1}), numbers({-infinity, 0, 1}));
    EXPECT_EQ(p, (V{0.5, 0, 0.5}));
    EXPECT_EQ(q, (V{0.5, 1, 0.5}));
    EXPECT_EQ(derivative([](const Tensor& t) { return ca::sqrt(t); }, numbers({0, 4})), (V{infinity, 0.25}));
}

/// Equal up to what only f64 can hold.
void expect_near(const V& got, const V& expected, DType dtype) {
    for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], expected[i], 1e-100) << ca::name_of(dtype) << " " << i;
}

TEST(ElementwiseSpecial, ActivationsFarOut) {
    const ca::StrictRounding strict;
    for (const DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
        const double most = dtype == ca::f16 ? 60000 : 1e30;
        const Tensor t = numbers({-most, -300, 300, most}).to(dtype);
        const auto expect = [&](const ca::TensorFunction& f, const V& slopes) {
            expect_near(derivative(f, t), slopes, dtype);
        };
        const V step = {0, 0, 1, 1}, none = {0, 0, 0, 0};
        expect([](const Tensor& u) { return ca::silu(u); }, step);
        expect([](const Tensor& u) { return ca::mish(u); }, step);
        expect([](const Tensor& u) { return ca::gelu(u); }, step);
        expect([](const Tensor& u) { return ca::gelu(u, ca::Gelu::tanh); }, step);
        expect([](const Tensor& u) { return ca::softplus(u); }, step);
        expect([](const Tensor& u) { return ca::elu(u); }, step);
        expect([](const Tensor& u) { return ca::sigmoid(u); }, none);
        expect([](const Tensor& u) { return ca::tanh(u); }, none);
        expect([](const Tensor& u) { return ca::log_sigmoid(u); }, {1, 1, 0, 0});
    }
}

TEST(ElementwiseSpecial, NaNGoesThrough) {
    const Tensor x = numbers({nan}).to(ca::f32);
    for (const Row& row : ca::ops::elementwise_rows()) {
        if (row.gives == Gives::boolean || !accepts(row, ca::f32) || row.name == "where" || row.name == "pow") continue;
        const std::vector<Tensor> in(static_cast<std::size_t>(row.arity), x);
        const Tensor y = ca::testing::elementwise_calls().at(row.name)(in, parameters(row).data());
        EXPECT_TRUE(std::isnan(values(y)[0])) << row.name;
    }
}

TEST(ElementwiseSpecial, DerivativesOfLgammaToAnyOrder) {
    ca::TensorFunction f = [](const Tensor& t) { return ca::lgamma(t); };
    for (int order = 1; order <= 6; ++order) {
        f = [inner = f](const Tensor& t) { return ca::grad([&](const Tensor& u) { return ca::sum(inner(u)); })(t); };
    }
    // psi^(5)(1) = 5! zeta(6), psi^(5)(1/2) = 63 * 5! zeta(6).
    constexpr double zeta6 = 1.0173430619844491397;
    const V y = values(f(numbers({1, 0.5})));
    EXPECT_NEAR(y[0], 120 * zeta6, 1e-10);
    EXPECT_NEAR(y[1], 63 * 120 * zeta6, 1e-8);
}

TEST(ElementwiseSpecial, PolygammaOfNegativeNumbersFollowsTheRecurrence) {
    for (int n = 2; n <= 5; ++n) {
        const Tensor x = numbers({-0.3, -1.7, -12.4, -5000.25});
        const V here = values(ca::polygamma(n, x)), next = values(ca::polygamma(n, x + 1)), at = values(x);
        for (std::size_t i = 0; i < at.size(); ++i) {
            const double step = (n % 2 == 0 ? 1 : -1) * std::tgamma(n + 1.0) / std::pow(at[i], n + 1.0);
            EXPECT_NEAR(next[i] - here[i], step, 1e-11 * std::abs(here[i])) << n << " " << at[i];
        }
    }
    EXPECT_EQ(values(ca::polygamma(3, numbers({0, -2})))[0], infinity);
    EXPECT_TRUE(std::isnan(values(ca::polygamma(2, numbers({-2})))[0]));
    EXPECT_EQ(values(ca::polygamma(2, numbers({infinity})))[0], 0);
    EXPECT_EQ(values(ca::polygamma(0, numbers({1.5}))), values(ca::digamma(numbers({1.5}))));
    EXPECT_EQ(values(ca::polygamma(1, numbers({1.5}))), values(ca::trigamma(numbers({1.5}))));
    ca::testing::expect_error("value/option", [] { (void)ca::polygamma(-1, numbers({1})); });
}

TEST(ElementwiseSpecial, NextAfterKnowsTheStorage) {
    EXPECT_EQ(values(ca::nextafter(numbers({1, 1, 0}), numbers({2, 0, -1}))),
              (V{1 + 0x1p-52, 1 - 0x1p-53, -0x1p-1074}));
    EXPECT_EQ(values(ca::nextafter(numbers({1, 1}).to(ca::f32), numbers({2, 0}).to(ca::f32))),
              (V{1 + 0x1p-23, 1 - 0x1p-24}));
    EXPECT_EQ(values(ca::nextafter(numbers({1, 1, -1, 0, 65504, 3}).to(ca::f16),
                                   numbers({2, 0, 0, -1, infinity, 3}).to(ca::f16))),
              (V{1 + 0x1p-10, 1 - 0x1p-11, -1 + 0x1p-11, -0x1p-24, infinity, 3}));
    EXPECT_EQ(values(ca::nextafter(numbers({1, 1, 0}).to(ca::bf16), numbers({2, 0, 1}).to(ca::bf16))),
              (V{1 + 0x1p-7, 1 - 0x1p-8, 0x1p-133}));
    EXPECT_EQ(values(ca::nextafter(numbers({1}).to(ca::f16), 1e10)), (V{1 + 0x1p-10}));
    EXPECT_TRUE(std::isnan(values(ca::nextafter(numbers({nan}).to(ca::f16), numbers({1}).to(ca::f16)))[0]));
}

TEST(ElementwiseSpecial, IntegersWrapAndNeverTrap) {
    const auto least = std::numeric_limits<std::int32_t>::min();
    const Tensor a = ca::tensor(std::vector<std::int32_t>{least, 7, -7, 7, 5}),
                 b = ca::tensor(std::vector<std::int32_t>{-1, 0, 2, -2, 3});
    EXPECT_EQ(ca::floor_divide(a, b).to_vector<std::int32_t>(), (std::vector<std::int32_t>{least, 0, -4, -4, 1}));
    EXPECT_EQ(ca::remainder(a, b).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 0, 1, -1, 2}));
    EXPECT_EQ(ca::fmod(a, b).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 0, -1, 1, 2}));
    EXPECT_EQ(ca::neg(a).to_vector<std::int32_t>()[0], least);
    EXPECT_EQ(ca::abs(a).to_vector<std::int32_t>()[0], least);
    EXPECT_EQ(ca::pow(ca::tensor(std::vector<std::int32_t>{2, -1, 3, 0}),
                      ca::tensor(std::vector<std::int32_t>{-1, -3, 21, -1}))
                  .to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{0, -1, 1870418611, 0}));
    EXPECT_EQ(ca::shift_left(a, ca::tensor(std::vector<std::int32_t>{1, 40, -1, 31, 2})).to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{0, 0, 0, least, 20}));
    EXPECT_EQ(ca::shift_right(a, ca::tensor(std::vector<std::int32_t>{31, 40, 99, 1, 1})).to_vector<std::int32_t>(),
              (std::vector<std::int32_t>{-1, 0, -1, 3, 2}));
}

TEST(ElementwiseSpecial, ClampOfIntegersIsExact) {
    const std::int64_t big = (std::int64_t{1} << 60) + 1;
    const Tensor x = ca::tensor(std::vector<std::int64_t>{big + 5, 0, -big - 5});
    EXPECT_EQ(ca::clamp(x, -big, big).to_vector<std::int64_t>(), (std::vector<std::int64_t>{big, 0, -big}));
    EXPECT_EQ(ca::clamp(x, 0, 9).to_vector<std::int64_t>(), (std::vector<std::int64_t>{9, 0, 0}));
    EXPECT_EQ(ca::clamp(x, {}, 9).to_vector<std::int64_t>(), (std::vector<std::int64_t>{9, 0, -big - 5}));
    EXPECT_EQ(ca::clamp(x, std::nullopt).to_vector<std::int64_t>(), x.to_vector<std::int64_t>());
    EXPECT_EQ(ca::clamp(ca::tensor({5, -5}), -1.5, 2).dtype(), ca::f32);
    EXPECT_EQ(values(ca::clamp(ca::tensor({5, -5}), -1.5, 2)), (V{2, -1.5}));
    EXPECT_EQ(values(ca::clamp(numbers({0, 5}), 3, 1)), (V{1, 1}));  // low > high: high
    ca::testing::expect_error("value/option", [] { (void)ca::clamp(numbers({1}), nan, 1); });
    ca::testing::expect_error("value/scalar",
                              [] { (void)ca::clamp(ca::tensor(std::vector<std::uint8_t>{1}), -1, 300); });
}

TEST(ElementwiseSpecial, LogicOfBool) {
    const Tensor a = ca::tensor(std::vector<std::uint8_t>{0, 0, 1, 1}).to(ca::boolean),
                 b = ca::tensor(std::vector<std::uint8_t>{0, 1, 0, 1}).to(ca::boolean);
    EXPECT_EQ((a + b).dtype(), ca::boolean);
    EXPECT_EQ(values(a + b), (V{0, 1, 1, 1}));
    EXPECT_EQ(values(a * b), (V{0, 0, 0, 1}));
    EXPECT_EQ(values(ca::bitwise_not(a)), (V{1, 1, 0, 0}));
    EXPECT_EQ(values(ca::logical_not(numbers({0, nan, 2}))), (V{1, 0, 0}));
    EXPECT_EQ(values(ca::where(numbers({0, 0.25, nan}), 1, 2)), (V{2, 1, 1}));
    ca::testing::expect_error("dtype/unsupported", [&] { (void)(a - b); });
    ca::testing::expect_error("dtype/unsupported", [&] { (void)ca::bitwise_and(numbers({1}), numbers({1})); });
    ca::testing::expect_error("dtype/unsupported", [&] { (void)ca::shift_left(a, b); });
}

TEST(ElementwiseSpecial, PReluTakesASlopePerChannel) {
    const Tensor x = ca::full({2, 3, 2}, -1.0), slope = ca::tensor({1.f, 2.f, 3.f});
    EXPECT_EQ(values(ca::prelu(x, slope)), (V{-1, -1, -2, -2, -3, -3, -1, -1, -2, -2, -3, -3}));
    EXPECT_EQ(values(ca::prelu(numbers({-1, -1, -1}), slope)), (V{-1, -2, -3}));
    EXPECT_EQ(values(ca::prelu(numbers({-1, 2}), ca::scalar(0.5, ca::f64))), (V{-0.5, 2}));
    ca::testing::expect_error("shape/broadcast", [&] { (void)ca::prelu(ca::zeros({2, 4}), slope); });
}

TEST(ElementwiseSpecial, GluGatesOneHalfByTheOther) {
    const Tensor x = ca::tensor(std::vector<double>{1, -2, 0, 0, 3, 4, 0, 0}, {2, 4});
    EXPECT_EQ(values(ca::glu(x)), (V{0.5, -1, 1.5, 2}));
    EXPECT_EQ(ca::glu(x, 0).shape(), (Shape{1, 4}));
    EXPECT_EQ(ca::glu(ca::zeros({3, 0})).shape(), (Shape{3, 0}));
    ca::testing::expect_gradients([](const Tensor& t) { return ca::glu(t, 1); },
                                  ca::testing::random_tensor({3, 6, 2}, 4));
    ca::testing::expect_error("shape/mismatch", [&] { (void)ca::glu(ca::zeros({2, 3})); });
    ca::testing::expect_error("axis/range", [&] { (void)ca::glu(x, 2); });
    ca::testing::expect_error("tensor/undefined", [] { (void)ca::glu(Tensor()); });
}

TEST(ElementwiseSpecial, OptionsAreChecked) {
    const Tensor x = numbers({1});
    ca::testing::expect_error("value/option", [&] { (void)ca::leaky_relu(x, infinity); });
    ca::testing::expect_error("value/option", [&] { (void)ca::elu(x, nan); });
    ca::testing::expect_error("value/option", [&] { (void)ca::celu(x, 0); });
    ca::testing::expect_error("value/option", [&] { (void)ca::softplus(x, 0); });
    ca::testing::expect_error("value/option", [&] { (void)ca::softplus(x, 1, nan); });
    ca::testing::expect_error("value/option", [&] { (void)ca::hardtanh(x, 2, 1); });
    ca::testing::expect_error("value/option", [&] { (void)ca::softshrink(x, -1); });
    ca::testing::expect_error("value/option", [&] { (void)ca::hardshrink(x, -1); });
    ca::testing::expect_error("value/option", [&] { (void)ca::threshold(x, nan, 1); });
}

}  // namespace
