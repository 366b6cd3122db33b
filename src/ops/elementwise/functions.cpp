// The public functions of the elementwise table.
#include "calor/elementwise.h"

#include "ops/elementwise/row.h"

namespace calor {
namespace {

using ops::apply;

}  // namespace

Tensor add(const Operand& a, const Operand& b, const Where& where) {
    static const auto& op = ops::elementwise_operation("add");
    return apply(op, a, b, where);
}
Tensor sub(const Operand& a, const Operand& b, const Where& where) {
    static const auto& op = ops::elementwise_operation("sub");
    return apply(op, a, b, where);
}
Tensor mul(const Operand& a, const Operand& b, const Where& where) {
    static const auto& op = ops::elementwise_operation("mul");
    return apply(op, a, b, where);
}
Tensor div(const Operand& a, const Operand& b, const Where& where) {
    static const auto& op = ops::elementwise_operation("div");
    return apply(op, a, b, where);
}
Tensor gt(const Operand& a, const Operand& b, const Where& where) {
    static const auto& op = ops::elementwise_operation("gt");
    return apply(op, a, b, where);
}
Tensor neg(const Tensor& x, const Where& where) {
    static const auto& op = ops::elementwise_operation("neg");
    return apply(op, x, where);
}
Tensor exp(const Tensor& x, const Where& where) {
    static const auto& op = ops::elementwise_operation("exp");
    return apply(op, x, where);
}
Tensor relu(const Tensor& x, const Where& where) {
    static const auto& op = ops::elementwise_operation("relu");
    return apply(op, x, where);
}
Tensor where(const Tensor& condition, const Operand& a, const Operand& b, const Where& at) {
    return ops::apply_where(condition, a, b, at);
}

}  // namespace calor
