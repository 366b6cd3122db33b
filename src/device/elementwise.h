// Elementwise programs: what the executor hands to a device for a chain of fused elementwise operations.
// Values are numbered: first the inputs, then one value a step.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "calor/dtype.h"
#include "calor/shape.h"

namespace calor {

/// One step over a tile. in[k]: contiguous values of the compute dtype (or as the row says); out: contiguous, may equal
/// one of the inputs exactly. n >= 0. params: up to 4 scalars of the operation.
using TileKernel = void (*)(const void* const* in, void* out, std::int64_t n, const double* params);

/// The device side of a row of the elementwise table.
struct ElementwiseTraits {
    std::string_view name;
    TileKernel (*kernel)(std::string_view name, DType compute) = nullptr;  ///< CPU loop for a compute dtype
    const char* text = nullptr;                                            ///< GPU expression over a, b, c and p0..p3
    bool reads_rounded = false;  ///< comparisons: half inputs are rounded to storage before the step
    bool cast = false;           ///< an explicit conversion: always rounds
};

struct ElementwiseStep {
    const ElementwiseTraits* traits = nullptr;
    DType operand = f32;  ///< storage dtype of the operation's (last) input; its compute type selects the kernel
    DType result = f32;   ///< storage dtype of the value
    bool round = false;   ///< round a half result to storage precision even though it stays in a register
    int inputs[3] = {-1, -1, -1};  ///< value numbers
    double params[4] = {};
};

struct ElementwiseProgram {
    Shape shape;
    std::vector<DType> inputs;  ///< storage dtypes of the inputs
    std::vector<ElementwiseStep> steps;
    std::vector<int> outputs;  ///< value numbers that are stored, in the order of the output views
};

}  // namespace calor
