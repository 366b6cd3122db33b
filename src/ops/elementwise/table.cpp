// The elementwise table.
#include "calor/elementwise.h"
#include "ops/elementwise/row.h"

namespace calor::ops {
namespace {

using graph::GradContext;

constexpr auto numeric = Accepts::numeric;
constexpr auto floating = Accepts::floating;

const Row table[] = {
    {"add", 2, Accepts::any, Gives::same, "a + b",
     [](const GradContext& c) {
         c.grads[0] = c.cotangent();
         c.grads[1] = c.cotangent();
     },
     -3, 3, "a + b"},
    {"sub", 2, numeric, Gives::same, "a - b",
     [](const GradContext& c) {
         c.grads[0] = c.cotangent();
         if (c.needs[1]) c.grads[1] = neg(c.cotangent(), c.where);
     },
     -3, 3, "a - b"},
    {"mul", 2, Accepts::any, Gives::same, "a * b",
     [](const GradContext& c) {
         if (c.needs[0]) c.grads[0] = mul(c.cotangent(), c.inputs[1], c.where);
         if (c.needs[1]) c.grads[1] = mul(c.cotangent(), c.inputs[0], c.where);
     },
     -3, 3, "a b"},
    {"div", 2, floating, Gives::same, "a / b",
     [](const GradContext& c) {
         if (c.needs[0]) c.grads[0] = div(c.cotangent(), c.inputs[1], c.where);
         if (c.needs[1]) {
             c.grads[1] = neg(div(mul(c.cotangent(), c.outputs[0], c.where), c.inputs[1], c.where), c.where);
         }
     },
     0.5, 3, "a / b"},
    {"neg", 1, numeric, Gives::same, "-a",
     [](const GradContext& c) { c.grads[0] = neg(c.cotangent(), c.where); }, -3, 3, "-x"},
    {"exp", 1, floating, Gives::same, "exp(a)",
     [](const GradContext& c) { c.grads[0] = mul(c.cotangent(), c.outputs[0], c.where); }, -3, 3, "e^x"},
    {"relu", 1, numeric, Gives::same, "max(a, 0)",
     [](const GradContext& c) { c.grads[0] = where(gt(c.inputs[0], 0, c.where), c.cotangent(), 0, c.where); }, -3, 3,
     "max(x, 0)"},
    {"gt", 2, Accepts::any, Gives::boolean, "a > b", nullptr, -3, 3, "a > b"},
    {"where", 3, Accepts::any, Gives::same, "a ? b : c",
     [](const GradContext& c) {
         if (c.needs[1]) c.grads[1] = where(c.inputs[0], c.cotangent(), 0, c.where);
         if (c.needs[2]) c.grads[2] = where(c.inputs[0], 0, c.cotangent(), c.where);
     },
     -3, 3, "condition ? a : b"},
};

}  // namespace

std::span<const Row> elementwise_rows() { return table; }

}  // namespace calor::ops
