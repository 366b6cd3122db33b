// Products of matrices with few columns: vectors run along the inner axis, and each result is the sum of a vector's
// lanes.
#pragma once

#include <cstdint>

namespace calor::cpu {

/// c[i][j] = bias[j] + sum over p of a[i][p] * b[j][p]: rows of a and of b (the columns of the product) are adjacent
/// numbers, as many as whole vectors.
struct Dots {
    const float *a, *b, *bias;  ///< bias: a number a column, or null
    float* c;
    std::int64_t a_row, b_column, c_row;
    std::int64_t columns, inner;
};

struct DotKernels {
    std::int64_t lanes;
    /// Rows [first_row, past_row), four at least.
    void (*dots)(const Dots& d, std::int64_t first_row, std::int64_t past_row);
};

/// The kernels for this processor.
const DotKernels& dot_kernels();

}  // namespace calor::cpu
