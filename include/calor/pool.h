// Pooling over any number of spatial axes: x [N, C, sizes...] -> [N, C, positions...], where along each axis
// positions = floor((size + low + high - dilation (kernel - 1) - 1) / stride) + 1. With ceil_mode the division rounds
// up, and windows may reach past the padding as long as they start before the end of the data (as in PyTorch).
#pragma once

#include "calor/tensor.h"
#include "calor/window.h"

namespace calor {

struct MaxPoolOptions {
    PerAxis kernel = {};         ///< 1 or larger
    PerAxis stride = {};         ///< 1 or larger; the kernel unless given
    WindowPadding padding = {};  ///< less than the window's extent; none unless given
    PerAxis dilation = {};       ///< 1 or larger; 1 unless given
    bool ceil_mode = false;
};

/// The largest element of each window; padding never wins. NaN wins over everything. All dtypes. The gradient goes to
/// the first of equal elements. Throws ShapeError [pool/rank], [pool/kernel-too-large], ValueError [pool/padding],
/// [value/option], [value/count], [shape/overflow].
Tensor max_pool(const Tensor& x, const MaxPoolOptions& options, const Where& where = Where::current());

struct MaxPoolResult {
    Tensor values;
    Tensor indices;  ///< i64: where each value is, as a row-major index over the spatial axes of x; -1: the window is
                     ///< empty
};
MaxPoolResult max_pool_with_indices(const Tensor& x, const MaxPoolOptions& options,
                                    const Where& where = Where::current());

struct AvgPoolOptions {
    PerAxis kernel = {};         ///< 1 or larger
    PerAxis stride = {};         ///< 1 or larger; the kernel unless given
    WindowPadding padding = {};  ///< less than the window's extent; none unless given
    PerAxis dilation = {};       ///< 1 or larger; 1 unless given
    bool ceil_mode = false;
    bool count_include_pad =
        true;  ///< padding counts as zeros (not what lies past it); else the mean is over the data alone
    std::int64_t divisor = 0;  ///< divides the sums by this number instead; 0: no
};

/// The mean of each window; 0 for one without data. Floating dtypes; f16 and bf16 sum in f32. Throws as max_pool does,
/// and DTypeError [dtype/unsupported].
Tensor avg_pool(const Tensor& x, const AvgPoolOptions& options, const Where& where = Where::current());

}  // namespace calor
