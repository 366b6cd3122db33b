// Pooling over any number of spatial axes: x [N, C, sizes...] -> [N, C, positions...], where along each axis
// positions = floor((size + low + high - dilation (kernel - 1) - 1) / stride) + 1. With ceil_mode the division rounds
// up, and windows may reach past the padding as long as they start before the end of the data (as in PyTorch).
#pragma once

#include <vector>

#include "calor/random.h"
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

struct AdaptiveMaxPoolOptions {
    PerAxis size = {};  ///< of the spatial axes of the result, any size from 1; `keep` leaves one as it is
};

/// The largest element of each box, where the boxes cover the data evenly: position p of O pools the entries
/// floor(p I / O) to ceil((p + 1) I / O) of an axis of I. O may be larger than I. NaN wins over everything, ties go to
/// the first element. All dtypes; f16 and bf16 gradients add in f32. Throws ShapeError [pool/rank], [pool/empty],
/// ValueError [value/option], [value/count], [shape/overflow].
Tensor adaptive_max_pool(const Tensor& x, const AdaptiveMaxPoolOptions& options, const Where& where = Where::current());
/// The same with the place of each value.
MaxPoolResult adaptive_max_pool_with_indices(const Tensor& x, const AdaptiveMaxPoolOptions& options,
                                             const Where& where = Where::current());

struct FractionalMaxPoolOptions {
    PerAxis kernel = {};             ///< 1 or larger
    PerAxis size = {};               ///< of the spatial axes of the result, or
    std::vector<double> ratio = {};  ///< the result's size over the input's, rounded down; one for all axes or one each
    Tensor samples = {};             ///< [N, C, axes] in [0, 1): where the boxes start; drawn unless given
};

/// The largest element of boxes whose starts are drawn (Graham, Fractional max-pooling, 2014): with u the sample of an
/// axis of I entries and r = (I - kernel) / (O - 1), position p starts at int((p + u) r) - int(u r), the last one at
/// I - kernel. Samples belong to the axes in order (PyTorch's to two axes in reverse). The numbers come from
/// `generator`. Gradients, ties, NaN and dtypes as adaptive_max_pool(). Throws as it does, ShapeError
/// [pool/fractional-size], [shape/mismatch], DTypeError [dtype/unsupported].
MaxPoolResult fractional_max_pool(const Tensor& x, const FractionalMaxPoolOptions& options,
                                  Generator& generator = default_generator(), const Where& where = Where::current());

/// The values put back at their indices, zeros elsewhere: [N, C, positions...] -> [N, C, sizes...]. Where several
/// values have one index (windows overlap) the last one in row-major order stays, and only it has a gradient. Indices
/// are checked when it runs. Throws ShapeError [pool/rank], [shape/mismatch], [shape/negative], DTypeError
/// [dtype/unsupported], ValueError [value/count], [index/range], [shape/overflow].
Tensor max_unpool(const Tensor& values, const Tensor& indices, const Dims& sizes,
                  const Where& where = Where::current());

struct LpPoolOptions {
    double p = 2;                ///< above 0; infinity: the largest magnitude
    PerAxis kernel = {};         ///< 1 or larger
    PerAxis stride = {};         ///< 1 or larger; the kernel unless given
    WindowPadding padding = {};  ///< zeros, less than the window's extent; none unless given
    PerAxis dilation = {};       ///< 1 or larger; 1 unless given
    bool ceil_mode = false;
};

/// (sum |x|^p)^(1/p) over each window; what lies past the data adds nothing. The gradient of a window of zeros is 0.
/// Floating dtypes; f16 and bf16 compute in f32. (PyTorch sums x^p without the magnitude, and scales windows that
/// ceil_mode cuts.) Throws as max_pool does, DTypeError [dtype/unsupported].
Tensor lp_pool(const Tensor& x, const LpPoolOptions& options, const Where& where = Where::current());

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
