// Deformable convolution over any number of spatial axes: a convolution whose taps are moved, at every position, by
// offsets that are data themselves.
//
//   y[n, o, p] = bias[o] + sum over c, k of w[o, c, k] mask[n, h, k, p] x(n, c, p stride + k dilation - low + offset[n,
//   h, k, :, p])
//
// with h the offset group of channel c; between its elements x is interpolated linearly, outside it is 0. Without a
// mask this is version 1 (Dai et al., Deformable Convolutional Networks, 2017), with one version 2 (Zhu et al.,
// Deformable ConvNets v2, 2019).
#pragma once

#include "calor/tensor.h"
#include "calor/window.h"

namespace calor {

struct DeformConvOptions {
    PerAxis stride = {};             ///< 1 or larger; 1 unless given
    WindowPadding padding = {};      ///< zeros around the input; none unless given
    PerAxis dilation = {};           ///< distance of neighbouring taps, 1 or larger; 1 unless given
    std::int64_t groups = 1;         ///< as in conv: parts of the channels that do not mix
    std::int64_t offset_groups = 1;  ///< parts of the input's channels with offsets of their own
    Tensor mask = {};                ///< [N, offset_groups K, positions...]: a factor for every tap; undefined: 1
    Tensor bias = {};                ///< [O]; undefined: none
};

/// x [N, C, sizes...], offset [N, offset_groups K R, positions...] for K taps (row-major) and R spatial axes, weight
/// [O, C / groups, kernel...] -> [N, O, positions...]. Channel (h K + k) R + a of the offset moves tap k of offset
/// group h along spatial axis a, outermost first (y before x), as in torchvision. All operands have one floating dtype;
/// f16 and bf16 compute in f32. An offset NaN is outside. Differentiable in all operands, to any order. The same bits
/// for any number of threads.
///
/// Workspace: one sample of x (and, for gradients, of its gradient) in f32 or f64, the weight (and its gradient), and
/// columns of C K numbers for as many positions as fit in 1 MiB, at least 64; gradients hold two such sets. Only
/// gradients that are differentiated themselves hold all columns of a batch.
///
/// Throws ShapeError [conv/rank], [conv/channels], [conv/kernel-too-large], [conv/bias], [deform/offset],
/// [deform/mask], [grid/empty], ValueError [conv/groups], [deform/groups], [value/option], [value/count],
/// [shape/overflow], DTypeError [dtype/mismatch], [dtype/unsupported].
Tensor deform_conv(const Tensor& x, const Tensor& offset, const Tensor& weight, const DeformConvOptions& options = {},
                   const Where& where = Where::current());

}  // namespace calor
