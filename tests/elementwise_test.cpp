// The elementwise table: every row over its dtypes and over odd layouts against plain definitions; gradients of first
// and second order; wrong inputs. The rows themselves say what is tested.
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

/// Whether the kernel expression names an operand or parameter (as a word of its own).
bool names(std::string_view text, std::string_view word) {
    const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) {
        const bool starts = at == 0 || !is_word(text[at - 1]);
        const std::size_t end = at + word.size();
        if (starts && (end == text.size() || !is_word(text[end]))) return true;
    }
    return false;
}

TEST(ElementwiseTable, KernelTextsNameTheirOperandsAndParameters) {
    for (const Row& row : ca::ops::elementwise_rows()) {
        const char* const operand_names[] = {"a", "b", "c"};
        const char* const parameter_names[] = {"p0", "p1", "p2"};
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(names(row.text, operand_names[i]), i < row.arity) << row.name;
            EXPECT_EQ(names(row.text, parameter_names[i]), row.parameters[i].name != nullptr) << row.name;
        }
    }
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

TEST(ElementwiseTable, NaNGoesThrough) {
    const Tensor x = ca::tensor({std::nanf("")});
    for (const Row& row : ca::ops::elementwise_rows()) {
        if (row.gives == Gives::boolean || !accepts(row, ca::f32) || row.name == "where" || row.name == "pow") continue;
        const std::vector<Tensor> in(static_cast<std::size_t>(row.arity), x);
        const Tensor y = ca::testing::elementwise_calls().at(row.name)(in, parameters(row).data());
        EXPECT_TRUE(std::isnan(y.to(ca::f32).item<float>())) << row.name;
    }
}

}  // namespace
