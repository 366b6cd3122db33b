// Convolution over any number of spatial axes, in its three roles: forward, input gradient (which is the transposed
// convolution) and weight gradient. Each one's gradient is made of the other two.
//
//   y[n, o, p] = bias[o] + sum over c, k of w[o, c, k] x[n, g C/groups + c, p stride + k dilation - low]
//
// with g the group of output channel o: what deep learning calls convolution (cross-correlation). Shapes: x [N, C,
// spatial...], w [O, C / groups, kernel...], bias [O], y [N, O, positions...] with positions = floor((size + low + high
// - dilation (kernel - 1) - 1) / stride) + 1 along each axis. Dtypes: floats and integers, the same for all operands;
// f16 and bf16 accumulate in f32, integers wrap in their own dtype. 8-bit integers of either sign, in any mixture, give
// i32 (and take an i32 bias), exactly: nothing saturates, nothing goes through floats.
//
// Padding puts zeros around the input, or by its mode entries of the input itself (pad() says which): reflect,
// symmetric, replicate, circular. Those modes copy the padded input.
//
// Memory beside operands and results is bounded: large problems run in pieces of about 8 million elements of x and y,
// and copies exist for one piece at a time (up to 100 MB), besides copies of the weight.
#pragma once

#include "calor/tensor.h"
#include "calor/view.h"
#include "calor/window.h"

namespace calor {

struct ConvOptions {
    PerAxis stride = {};                       ///< 1 or larger; 1 unless given
    WindowPadding padding = {};                ///< around the input; none unless given
    PadMode padding_mode = PadMode::constant;  ///< what is put there: zeros (constant), or entries of the input
    PerAxis dilation = {};                     ///< distance of neighbouring taps, 1 or larger; 1 unless given
    std::int64_t groups = 1;  ///< channels are split in so many parts that do not mix; C and O are multiples of it
};

/// Throws ShapeError [conv/rank], [conv/channels], [conv/kernel-too-large], [conv/empty], [conv/bias], ValueError
/// [conv/groups], [value/option], [value/count], [shape/overflow], DTypeError [dtype/mismatch], [dtype/unsupported].
Tensor conv(const Tensor& x, const Tensor& weight, const ConvOptions& options = {},
            const Where& where = Where::current());
/// The same plus bias[o]; an undefined bias means none.
Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options = {},
            const Where& where = Where::current());

/// The gradient of sum(conv(x, weight) * gy) with respect to x: gy [N, O, positions...], weight [O, C / groups,
/// kernel...] -> [N, C, sizes...]. `sizes` are the spatial sizes of x. Throws as conv does, and ShapeError
/// [shape/mismatch] unless conv of such an x has gy's shape.
Tensor conv_input_grad(const Tensor& gy, const Tensor& weight, const Dims& sizes, const ConvOptions& options = {},
                       const Where& where = Where::current());
/// The gradient of sum(conv(x, weight) * gy) with respect to the weight: x [N, C, sizes...], gy [N, O, positions...] ->
/// [O, C / groups, kernel...]. `kernel` are the spatial sizes of the weight. Throws like conv_input_grad.
Tensor conv_weight_grad(const Tensor& x, const Tensor& gy, const Dims& kernel, const ConvOptions& options = {},
                        const Where& where = Where::current());

struct ConvTransposeOptions {
    PerAxis stride = {};          ///< 1 or larger; 1 unless given
    WindowPadding padding = {};   ///< cropped from the result; `same` gives size * stride
    PerAxis output_padding = {};  ///< more positions at the far end, in [0, max(stride, dilation)); 0 unless given
    PerAxis output_size = {};     ///< the result's spatial sizes, in place of output_padding
    PerAxis dilation = {};        ///< 1 or larger; 1 unless given
    std::int64_t groups = 1;
};
/// Transposed convolution: the input gradient of conv as an operation of its own. x [N, C, sizes...], weight
/// [C, O / groups, kernel...] (as PyTorch has it), bias [O] or undefined -> [N, O, ...] with
/// (size - 1) stride - low - high + dilation (kernel - 1) + 1 + output_padding positions. Throws like conv.
Tensor conv_transpose(const Tensor& x, const Tensor& weight, const ConvTransposeOptions& options = {},
                      const Where& where = Where::current());
Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions& options = {}, const Where& where = Where::current());

}  // namespace calor
