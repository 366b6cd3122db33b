// Sliding windows as tensors (im2col) and their adjoint, and the exchange of channels for resolution, over any number
// of axes. A window of an axis has positions = floor((size + low + high - dilation (kernel - 1) - 1) / stride) + 1.
#pragma once

#include "calor/tensor.h"
#include "calor/window.h"

namespace calor {

struct WindowsOptions {
    PerAxis kernel = {};         ///< 1 or larger
    PerAxis stride = {};         ///< 1 or larger; 1 unless given
    WindowPadding padding = {};  ///< zeros around x; none unless given
    PerAxis dilation = {};       ///< 1 or larger; 1 unless given
    Axes axes = {};              ///< the axes that windows slide over; all but the first two unless given
};

/// Every window: x with the sizes of the axes replaced by their positions, followed by one axis a kernel:
/// y[.., p, .., k] = x[.., p * stride + k * dilation - low, ..]. A strided view that copies nothing, unless there is
/// padding. Any dtype and rank, differentiable to any order. Throws ValueError [value/option], [value/count],
/// [axis/range], [axis/duplicate], [shape/overflow], ShapeError [unfold/kernel-too-large], [shape/rank] when x has no
/// spatial axes.
Tensor windows(const Tensor& x, const WindowsOptions& options, const Where& where = Where::current());

struct UnfoldOptions {
    PerAxis kernel = {};         ///< 1 or larger
    PerAxis stride = {};         ///< 1 or larger; 1 unless given
    WindowPadding padding = {};  ///< zeros; none unless given
    PerAxis dilation = {};       ///< 1 or larger; 1 unless given
};

/// Windows as columns of a matrix (im2col): x [N, C, spatial...] -> [N, C * taps, positions], both row-major. Throws as
/// windows().
Tensor unfold(const Tensor& x, const UnfoldOptions& options, const Where& where = Where::current());
/// The adjoint of unfold: columns [N, C * taps, positions] -> [N, C, sizes...], where elements that lie in several
/// windows add up, and what lies in the padding is dropped. Sums run in a fixed order; f16 and bf16 add in f32 and
/// round once, integers wrap. Not for bool. Throws as windows(), ShapeError [fold/columns], DTypeError
/// [dtype/unsupported].
Tensor fold(const Tensor& columns, const Dims& sizes, const UnfoldOptions& options,
            const Where& where = Where::current());

/// Channels become resolution: x [N, C * r1 * r2 .., s1, s2 ..] -> [N, C, s1 * r1, s2 * r2 ..] with
/// y[n, c, s * r + i] = x[n, (c * r1 + i1) * r2 + i2 .., s] (Shi et al., CVPR 2016). Any number of spatial axes; one
/// factor for all or one each. Throws ValueError [value/option], [value/count], ShapeError [shuffle/channels],
/// [shape/rank].
Tensor pixel_shuffle(const Tensor& x, const PerAxis& factors, const Where& where = Where::current());
/// The inverse: x [N, C, s1 * r1, ..] -> [N, C * r1 .., s1, ..]. Throws as pixel_shuffle(), ShapeError [shuffle/sizes].
Tensor pixel_unshuffle(const Tensor& x, const PerAxis& factors, const Where& where = Where::current());

}  // namespace calor
