// The text of a fused elementwise program in the dialect. What a variant depends on: the steps with their dtypes, how
// each input is reached, the rank of the walk and the elements a thread takes at once; not on sizes or parameters.
#pragma once

#include "device/elementwise.h"
#include "device/gpu/dialect.h"
#include "device/gpu/walk.h"

namespace calor::gpu {

/// How the elements of an input are found.
enum class Access : std::uint8_t {
    linear,        ///< in the order of the results: at the same place
    constant,      ///< one element for all
    row,           ///< neighbours along the last axis
    row_constant,  ///< one element for the last axis
    strided,       ///< anywhere
};

struct EmitPlan {
    Walk walk;  ///< strides: one list an input
    std::vector<Access> access;
    int vector = 1;     ///< elements a thread takes at once
    bool flat = false;  ///< every input is linear or constant
    std::string key;    ///< the variant
    std::uint32_t dtypes = 0;
};
EmitPlan plan_program(const ElementwiseProgram& program, std::span<const View> inputs, std::span<const View> outputs);

/// A kernel named "fused" with the parameters: INOUT each input, INOUT each output, SIZE(count), VALUE each used
/// parameter (see program_parameters), and unless the plan is flat LAYOUT(rank, inputs that need one, l).
std::string emit_program(const ElementwiseProgram& program, const EmitPlan& plan);

/// A parameter that some step's text reads.
struct UsedParameter {
    std::size_t step;
    int index;
    DType dtype;  ///< in which the step computes
};
std::vector<UsedParameter> program_parameters(const ElementwiseProgram& program);

/// Whether an input needs strides in the layout.
inline bool needs_layout(Access a) { return a != Access::linear && a != Access::constant; }

/// The expression that converts `value` of a compute dtype to another dtype; a half result is an f32 whose rounding to
/// 16 bits is the right one.
std::string cast_expression(DType from, DType to, const std::string& value);

}  // namespace calor::gpu
