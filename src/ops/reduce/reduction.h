// The reductions that kernels know, and what a kernel offers to the engine. An accumulator ("state") takes up runs of
// elements; states merge in a fixed order, so that a result does not depend on the number of threads.
#pragma once

#include <cstdint>

#include "calor/dtype.h"
#include "calor/shape.h"

namespace calor::ops {

enum class Reduction : std::uint8_t {
    sum,
    mean,
    prod,
    max,
    min,
    argmax,
    argmin,
    any,
    all,
    logsumexp,
    var,
    std,
    norm,  ///< p = 1, 2, inf, -inf
};

/// Attributes of every reduction. Axes are sorted and in range.
struct ReduceAttributes {
    Reduction kind = Reduction::sum;
    Axes axes;
    double parameter = 0;  ///< var, std: the correction; norm: p
    friend bool operator==(const ReduceAttributes&, const ReduceAttributes&) = default;
};

/// Count, mean and sum of squared deviations.
struct Moments {
    double count = 0, mean = 0, squares = 0;
    /// Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979.
    void merge(const Moments& other) {
        if (other.count == 0) return;
        if (count == 0) {
            *this = other;
            return;
        }
        const double both = count + other.count, delta = other.mean - mean;
        mean += delta * (other.count / both);
        squares += other.squares + delta * delta * (count * (other.count / both));
        count = both;
    }
};

/// Elements of a row, rows of a column tile, and columns of a column tile that a kernel takes up at most in one call.
inline constexpr std::int64_t row_piece = 4096, rows_piece = 128, most_columns = 1024;

/// One reduction over one dtype. Elements arrive dense along rows, those of a half type widened to f32 unless `half`.
struct ReduceKernel {
    std::int64_t state_bytes = 0;
    void (*init)(void* states, std::int64_t n) = nullptr;
    /// Row i of `count` rows (n <= row_piece elements each, `stride` apart) goes into state i * state_step (0 or 1).
    /// `position` is the index of the first element among the reduced ones; with state_step 0 it grows by n a row.
    void (*rows)(const void* x, std::int64_t stride, std::int64_t count, std::int64_t n, void* states,
                 std::int64_t state_step, std::int64_t position) = nullptr;
    /// Column j of rows <= rows_piece rows goes into state j < width <= most_columns.
    void (*columns)(const void* x, std::int64_t stride, std::int64_t rows, std::int64_t width, void* states,
                    std::int64_t position) = nullptr;
    void (*merge)(void* into, const void* from, std::int64_t n) = nullptr;
    /// Results in the compute type of the output. `count` elements were reduced.
    void (*finish)(const void* states, std::int64_t n, void* out, double count, double parameter) = nullptr;
    bool half = false;  ///< rows and columns take the f16 or bf16 that the kernel was asked for
};

/// The kernel for elements of a dtype (bool as bytes); null for combinations that the public functions never
/// ask for.
const ReduceKernel* find_reduce_kernel(Reduction kind, DType dtype, double parameter);

}  // namespace calor::ops
