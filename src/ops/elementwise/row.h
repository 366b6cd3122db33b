// A row of the elementwise table: everything about one elementwise operation. From it come the operation's descriptor,
// its CPU loop, its GPU text, its gradient, its tests and its line in the documentation.
#pragma once

#include <span>
#include <string_view>

#include "graph/operation.h"
#include "ops/elementwise/term.h"

namespace calor::ops {

/// Which dtypes an operation takes, and what it does with the others.
enum class Accepts : std::uint8_t {
    floating,  ///< f64 f32 f16 bf16; integers and bool are converted to f32
    numeric,   ///< floats and integers; bool is refused
    any,       ///< every dtype
    integral,  ///< integers and bool; floats are refused
    integer,   ///< integers only
};
enum class Gives : std::uint8_t { same, boolean };

/// A number that belongs to the call, such as the slope of leaky_relu.
struct Parameter {
    const char* name = nullptr;  ///< null: there is none
    double sample = 0;           ///< what tests use
};

struct Row {
    std::string_view name;
    int arity = 1;
    Accepts accepts = Accepts::floating;
    Gives gives = Gives::same;
    /// Kernel expression over a, b, c and the parameters p0..p3: C, with the functions of OpenCL C and CUDA C and the
    /// dialect's own, which begin with calor_ and exist for every dtype that the row takes (device/gpu/dialect).
    const char* text = nullptr;
    /// Cotangent of each operand. All null: not differentiable. `zero_partial`: differentiable, with derivative 0.
    Partial partials[3] = {};
    double low = -3, high = 3;      ///< where tests draw arguments: the function is smooth there
    const char* formula = nullptr;  ///< for the documentation
    Parameter parameters[3] = {};
    /// The CPU loop; null: find_tile_kernel of the row's name.
    TileKernel (*kernel)(std::string_view name, DType compute) = nullptr;

    bool differentiable() const { return partials[0] || partials[1] || partials[2]; }
};

/// Parts of the table, in the order of the documentation.
std::span<const Row> arithmetic_rows();
std::span<const Row> function_rows();
std::span<const Row> comparison_rows();
std::span<const Row> activation_rows();
/// All rows.
std::span<const Row> elementwise_rows();

/// The descriptor of a row; rows are found by name.
const graph::Operation& elementwise_operation(std::string_view name);

/// A row's name as a template argument: operation_of<"exp">() is found once.
template <std::size_t N> struct RowName {
    char text[N] = {};
    constexpr RowName(const char (&name)[N]) {  // NOLINT: a literal is a name
        for (std::size_t i = 0; i < N; ++i) text[i] = name[i];
    }
};
template <RowName name> const graph::Operation& operation_of() {
    static const graph::Operation& operation = elementwise_operation({name.text, sizeof name.text - 1});
    return operation;
}

/// Applies a row after converting to the dtype that it accepts. Operands promote to a common dtype; numbers do not
/// widen, and beside f16 and bf16 they stay in f32, which those compute in.
Tensor apply(const graph::Operation& op, const Tensor& x, const Where& where, const Params& params = {});
Tensor apply(const graph::Operation& op, const Operand& a, const Operand& b, const Where& where);
/// Three operands of one dtype (lerp).
Tensor apply(const graph::Operation& op, const Operand& a, const Operand& b, const Operand& c, const Where& where);
/// where(c, a, b): c is bool, a and b promote.
Tensor apply_where(const Tensor& condition, const Operand& a, const Operand& b, const Where& where);

/// The common dtype of tensors and numbers: numbers only lift a lower category (bool < integer < floating). Without any
/// tensor it is f32, i64 or bool. Throws ValueError [tensor/undefined].
DType common_dtype(std::string_view operation, std::span<const Operand* const> operands, const Where& where);

/// The shape to which all of `shapes` broadcast. Throws ShapeError [shape/broadcast].
Shape broadcast_shape(std::string_view operation, std::span<const Tensor> inputs, const Where& where);

/// CPU loops that the table brings itself.
TileKernel find_special_kernel(std::string_view name, DType compute);

}  // namespace calor::ops
