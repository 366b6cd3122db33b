// The tables that the kernel files contribute: a row names an operation and gives its loop for every compute dtype.
// Rows of the same name from different files complete each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "calor/dtype.h"
#include "device/elementwise.h"

namespace calor::cpu {

struct OpRow {
    std::string_view name;
    std::array<TileKernel, dtype_count> kernels = {};

    constexpr void set(DType compute, TileKernel kernel) { kernels[static_cast<std::size_t>(compute)] = kernel; }
};

using OpRows = std::span<const OpRow>;

// Each takes the mask of Highway targets that may run and answers with the rows of the best one.
OpRows integer_rows(std::int64_t targets);        ///< integer_arithmetic.cpp: add ... clamp, bits, where
OpRows integer_division_rows();                   ///< integer_division.cpp: floor_divide, remainder, fmod, pow
OpRows comparison_rows(std::int64_t targets);     ///< comparison.cpp: eq ... ge, logical_*, isnan ...
OpRows float_rows(std::int64_t targets);          ///< float_arithmetic.cpp: add ... lerp, piecewise activations
OpRows exponential_rows(std::int64_t targets);    ///< exponential_f32.cpp: exp, log, tanh, sigmoid and their kin
OpRows gaussian_rows(std::int64_t targets);       ///< gaussian_f32.cpp: erf, erfc, gelu, gelu_tanh
OpRows trigonometric_rows(std::int64_t targets);  ///< trigonometric_f32.cpp
OpRows logarithmic_rows(std::int64_t targets);    ///< logarithmic_f32.cpp: hyperbolic, log2, pow, hypot ...
OpRows scalar_rows();                             ///< scalar_float.cpp: everything else, through the C library

}  // namespace calor::cpu
