// A row of the elementwise table: everything about one elementwise operation. From it come the operation's descriptor, its CPU
// loop, its GPU text, its gradient, its tests and its line in the documentation.
#pragma once

#include <span>
#include <string_view>

#include "graph/operation.h"

namespace calor::ops {

/// Which dtypes an operation takes, and what it does with the others.
enum class Accepts : std::uint8_t {
    floating,   ///< f64 f32 f16 bf16; integers and bool are converted to f32
    numeric,    ///< floats and integers; bool is refused
    any,        ///< every dtype
    integral,   ///< integers and bool
    boolean,    ///< converted to bool by x != 0
};
enum class Gives : std::uint8_t { same, boolean };

struct Row {
    std::string_view name;
    int arity = 1;
    Accepts accepts = Accepts::floating;
    Gives gives = Gives::same;
    const char* text = nullptr;  ///< kernel expression over a, b, c and the parameters p0..p3
    void (*gradient)(const graph::GradContext& c) = nullptr;  ///< null: zero or no derivative
    double low = -3, high = 3;   ///< where tests draw arguments
    const char* summary = nullptr;  ///< the formula, for the documentation
};

/// All rows, in the order of the documentation.
std::span<const Row> elementwise_rows();
/// The descriptor of a row; rows are found by name.
const graph::Operation& elementwise_operation(std::string_view name);

/// Up to four parameters of a row, such as the slope of leaky_relu.
struct Params {
    double value[4] = {};
    friend bool operator==(const Params&, const Params&) = default;
};

/// Applies a row after converting to the dtype that it accepts. Operands promote to a common dtype; numbers do not widen.
Tensor apply(const graph::Operation& op, const Tensor& x, const Where& where, const Params& params = {});
Tensor apply(const graph::Operation& op, const Operand& a, const Operand& b, const Where& where,
             const Params& params = {});
/// where(c, a, b): c is bool, a and b promote.
Tensor apply_where(const Tensor& condition, const Operand& a, const Operand& b, const Where& where);
/// Three operands of one dtype (lerp).
Tensor apply(const graph::Operation& op, const Operand& a, const Operand& b, const Operand& c, const Where& where);

/// The shape to which all of `shapes` broadcast. Throws ShapeError [shape/broadcast].
Shape broadcast_shape(std::string_view operation, std::span<const Tensor> inputs, const Where& where);

}  // namespace calor::ops
