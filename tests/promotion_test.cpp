// Type promotion and the pages made from it and from the elementwise table. With CALOR_WRITE_DOCS set the tests write
// the pages instead of comparing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "calor/calor.h"
#include "gradient_check.h"
#include "ops/elementwise/row.h"

namespace ca = calor;
using ca::DType;
using ca::Tensor;

namespace {

constexpr DType all_dtypes[] = {ca::f64, ca::f32, ca::f16, ca::bf16, ca::i64, ca::i32,    ca::i16,
                                ca::i8,  ca::u64, ca::u32, ca::u16,  ca::u8,  ca::boolean};

const std::string docs = std::string(CALOR_SOURCE_DIR) + "/docs/";

std::string read(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

void expect_page(const std::string& name, const std::string& text) {
    if (std::getenv("CALOR_WRITE_DOCS")) std::ofstream(docs + name) << text;
    EXPECT_EQ(read(docs + name), text) << "docs/" << name << " is out of date: CALOR_WRITE_DOCS=1 writes it";
}

DType named(const std::string& name) {
    for (const DType t : all_dtypes) {
        if (name == ca::name_of(t)) return t;
    }
    ADD_FAILURE() << "no dtype is called '" << name << "'";
    return ca::f32;
}

std::vector<std::string> cells(const std::string& line) {
    std::vector<std::string> out;
    std::stringstream stream(line.substr(1));
    for (std::string cell; std::getline(stream, cell, '|');) {
        std::erase_if(cell, [](char c) { return c == ' ' || c == '*'; });
        out.push_back(cell);
    }
    return out;
}

TEST(Promotion, EveryCellOfTheTable) {
    std::ifstream page(docs + "promotion.md");
    std::vector<std::vector<std::string>> table;
    for (std::string line; std::getline(page, line);) {
        if (line.starts_with("| ") && cells(line).size() == 14) table.push_back(cells(line));
    }
    ASSERT_EQ(table.size(), 14u);
    for (std::size_t r = 1; r < table.size(); ++r) {
        const DType a = named(table[r][0]);
        for (std::size_t c = 1; c < table[r].size(); ++c) {
            const DType b = named(table[0][c]), expected = named(table[r][c]);
            const std::string what = table[r][0] + " with " + table[0][c];
            EXPECT_EQ(ca::promote(a, b), expected) << what;
            const Tensor x = ca::zeros({2}, a), y = ca::ones({2}, b);
            EXPECT_EQ((x + y).dtype(), expected) << what;
            EXPECT_EQ(ca::where(ca::ones({2}, ca::boolean), x, y).dtype(), expected) << what;
            EXPECT_EQ((x / y).dtype(), ca::is_floating(expected) ? expected : ca::f32) << what;
            EXPECT_EQ(ca::lt(x, y).dtype(), ca::boolean) << what;
        }
    }
}

TEST(Promotion, NumbersNeverWiden) {
    for (const DType t : all_dtypes) {
        const Tensor x = ca::ones({2}, t);
        EXPECT_EQ((x + true).dtype(), t);
        EXPECT_EQ((x + 1).dtype(), t == ca::boolean ? ca::i64 : t);
        EXPECT_EQ((1.5 * x).dtype(), ca::is_floating(t) ? t : ca::f32);
    }
    EXPECT_EQ((-ca::Operand(3)).item<std::int64_t>(), -3);
    EXPECT_EQ(ca::add(true, false).dtype(), ca::boolean);
    EXPECT_EQ(ca::add(1, 2).dtype(), ca::i64);
    EXPECT_EQ(ca::add(1, 2.5).dtype(), ca::f32);
    EXPECT_EQ(ca::where(ca::ones({1}, ca::boolean), true, false).dtype(), ca::boolean);
}

TEST(Promotion, NumbersThatDoNotFit) {
    const Tensor u = ca::tensor(std::vector<std::uint8_t>{200});
    ca::testing::expect_error("value/scalar", [&] { (void)(u + 300); });
    ca::testing::expect_error("value/scalar", [&] { (void)(u - -1); });
    ca::testing::expect_error("value/scalar", [&] { (void)ca::maximum(u, -1); });
    ca::testing::expect_error("value/scalar",
                              [&] { (void)(ca::ones({1}, ca::i64) + std::uint64_t{1} * (std::uint64_t{1} << 63)); });
    EXPECT_EQ((u + 100).to_vector<std::uint8_t>()[0], 44);
    const Tensor i = ca::tensor(std::vector<std::int32_t>{2});
    EXPECT_EQ((i + 1.5).to_vector<float>()[0], 3.5f);
    EXPECT_EQ((ca::ones({1}, ca::f16) + 1e10).to(ca::f32).item<float>(), std::numeric_limits<float>::infinity());
    EXPECT_EQ((ca::ones({1}, ca::u64) * (std::uint64_t{1} << 63)).item<std::uint64_t>(), std::uint64_t{1} << 63);
}

TEST(Promotion, MixedSignsMeetInASignedType) {
    const Tensor big = ca::tensor(std::vector<std::uint32_t>{4000000000u}),
                 minus = ca::tensor(std::vector<std::int32_t>{-1});
    EXPECT_EQ((big + minus).item<std::int64_t>(), 3999999999);
    EXPECT_EQ(
        (ca::tensor(std::vector<std::uint8_t>{255}) + ca::tensor(std::vector<std::int8_t>{-128})).item<std::int16_t>(),
        127);
    EXPECT_TRUE(ca::gt(big, minus).to(ca::u8).item<std::uint8_t>());
    EXPECT_EQ((ca::full({}, 1.5, ca::f16) * ca::full({}, 3, ca::bf16)).item<float>(), 4.5f);
}

std::string promotion_page() {
    std::string text =
        "# Type promotion\n\n"
        "Two tensors of different dtypes meet in one: bool < integers < floats.\n\n"
        "- Floats: the wider one; f16 with bf16 gives f32, since neither holds the other.\n"
        "- A float with an integer or bool keeps the float.\n"
        "- Integers of one sign: the wider one. Of both signs: the smallest signed type that holds both; beside u64 "
        "there is\n"
        "  none, so i64 it is, where values from 2^63 on wrap.\n"
        "- bool with bool stays bool: `a + b` is `logical_or(a, b)`, `a * b` is `logical_and(a, b)`, the other "
        "arithmetic\n"
        "  refuses bool.\n\n|";
    text += "          |";
    const auto pad = [](std::string cell) {
        cell.resize(std::max<std::size_t>(cell.size(), 4), ' ');
        return cell;
    };
    for (const DType b : all_dtypes) text += " " + pad(std::string(ca::name_of(b))) + " |";
    text += "\n|----------|";
    for (std::size_t i = 0; i < std::size(all_dtypes); ++i) text += "------|";
    text += "\n";
    for (const DType a : all_dtypes) {
        std::string name = "**" + std::string(ca::name_of(a)) + "**";
        name.resize(8, ' ');
        text += "| " + name + " |";
        for (const DType b : all_dtypes) text += " " + pad(std::string(ca::name_of(ca::promote(a, b)))) + " |";
        text += "\n";
    }
    text +=
        "\n## Numbers\n\n"
        "A C++ number beside a tensor never widens it: `x + 1`, `x * 0.5` have the dtype of `x`. Only its kind counts, "
        "and only\n"
        "upwards: a floating number with an integer or bool tensor gives f32, an integer number with a bool tensor "
        "gives i64.\n"
        "A number that the tensor's integer dtype cannot hold is an error (`value/scalar`): `u8 + 300` does not wrap "
        "in silence.\n"
        "Floating dtypes take any number and round it: `f16 + 1e10` is infinite.\n\n"
        "Beside f16 and bf16 a number keeps the precision of f32, in which their arithmetic runs: `x / sqrt(128)` "
        "divides by\n"
        "11.3137, not by the nearest bf16. To round it first, say so: `x / scalar(sqrt(128), bf16)`. Comparisons, "
        "minimum and\n"
        "maximum see the number as the tensor would store it, so that `eq(x, 0.1)` finds the elements that were stored "
        "as 0.1.\n\n"
        "## What operations do with the common dtype\n\n"
        "- Functions of real numbers (`div`, `exp`, `sigmoid`, ...) convert integers and bool to f32.\n"
        "- Comparisons and logic give bool.\n"
        "- f16 and bf16 are storage: the value is computed in f32 and rounded once. Inside a fused chain it stays f32 "
        "until it is\n"
        "  stored; explicit casts and comparisons always see the rounded value, and `StrictRounding` rounds after "
        "every step.\n"
        "- Integers wrap in their own width before they widen: `(u8 200 + 100).to(i32)` is 44.\n"
        "- docs/elementwise.md lists every operation.\n";
    return text;
}

TEST(Pages, Promotion) { expect_page("promotion.md", promotion_page()); }

std::string accepted(const ca::ops::Row& row) {
    switch (row.accepts) {
        case ca::ops::Accepts::any: return "all";
        case ca::ops::Accepts::numeric: return "floats, integers";
        case ca::ops::Accepts::integral: return "integers, bool";
        case ca::ops::Accepts::integer: return "integers";
        case ca::ops::Accepts::floating: break;
    }
    return "floats; others as f32";
}

std::string derivative(const ca::ops::Row& row) {
    if (!row.differentiable()) return "none";
    const bool zero = row.partials[0] == ca::ops::zero_partial;
    return zero ? "0" : "yes";
}

std::string elementwise_page() {
    std::string text =
        "# Elementwise operations\n\n"
        "Made from the elementwise table. Operands broadcast and promote (docs/promotion.md); a single operand is x. "
        "The\n"
        "derivative is there to any order, 0 (between jumps), or none: the result does not depend on its operands "
        "smoothly.\n\n"
        "| operation | value | dtypes | result | derivative |\n|---|---|---|---|---|\n";
    for (const ca::ops::Row& row : ca::ops::elementwise_rows()) {
        std::string name(row.name), value(row.formula);
        for (const auto& p : row.parameters) {
            if (p.name) name += std::string(name.find('(') == std::string::npos ? "(" : ", ") + p.name;
        }
        if (name.find('(') != std::string::npos) name += ")";
        for (std::size_t at = 0; (at = value.find('|', at)) != std::string::npos; at += 2) value.insert(at, 1, '\\');
        text += "| " + name + " | " + value + " | " + accepted(row) + " | " +
                (row.gives == ca::ops::Gives::boolean ? "bool" : "same") + " | " + derivative(row) + " |\n";
    }
    return text;
}

TEST(Pages, Elementwise) { expect_page("elementwise.md", elementwise_page()); }

}  // namespace
