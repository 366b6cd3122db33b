// The elementwise table: comparisons, classes of numbers, logic and bits. None of them is differentiable.
#include "ops/elementwise/row.h"

namespace calor::ops {
namespace {

constexpr auto any = Accepts::any;
constexpr auto same = Gives::same;
constexpr auto truth = Gives::boolean;

const Row rows[] = {
    {"isnan", 1, Accepts::floating, truth, "isnan(a)", {}, -3, 3, "whether x is NaN"},
    {"isinf", 1, Accepts::floating, truth, "isinf(a)", {}, -3, 3, "whether x is infinite"},
    {"isfinite", 1, Accepts::floating, truth, "isfinite(a)", {}, -3, 3, "whether x is neither infinite nor NaN"},
    {"eq", 2, any, truth, "a == b", {}, -3, 3, "a = b"},
    {"ne", 2, any, truth, "a != b", {}, -3, 3, "a != b"},
    {"lt", 2, any, truth, "a < b", {}, -3, 3, "a < b"},
    {"le", 2, any, truth, "a <= b", {}, -3, 3, "a <= b"},
    {"gt", 2, any, truth, "a > b", {}, -3, 3, "a > b"},
    {"ge", 2, any, truth, "a >= b", {}, -3, 3, "a >= b"},
    {"logical_and", 2, any, truth, "(a != 0) && (b != 0)", {}, -3, 3, "a != 0 and b != 0"},
    {"logical_or", 2, any, truth, "(a != 0) || (b != 0)", {}, -3, 3, "a != 0 or b != 0"},
    {"logical_xor", 2, any, truth, "(a != 0) != (b != 0)", {}, -3, 3, "either a != 0 or b != 0"},
    {"logical_not", 1, any, truth, "a == 0", {}, -3, 3, "x = 0"},
    {"bitwise_and", 2, Accepts::integral, same, "a & b", {}, -3, 3, "the bits set in a and b"},
    {"bitwise_or", 2, Accepts::integral, same, "a | b", {}, -3, 3, "the bits set in a or b"},
    {"bitwise_xor", 2, Accepts::integral, same, "a ^ b", {}, -3, 3, "the bits set in either a or b"},
    {"bitwise_not", 1, Accepts::integral, same, "calor_bitwise_not(a)", {}, -3, 3, "the bits not set in x"},
    {"shift_left", 2, Accepts::integer, same, "calor_shift_left(a, b)", {}, 0, 7, "a 2^b"},
    {"shift_right", 2, Accepts::integer, same, "calor_shift_right(a, b)", {}, 0, 7, "floor(a / 2^b)"},
};

}  // namespace

std::span<const Row> comparison_rows() { return rows; }

}  // namespace calor::ops
