// Convolution for problems whose groups have few channels, where vectors of channels would be mostly empty: depthwise,
// grouped, the input gradient of first layers. Vectors run along the image instead, which is copied plane by plane with
// zeros around it, band by band so that a band stays in the second-level cache; the copy converts f16 and bf16, splits
// what a stride skips, and turns channels-last into planes. Any number of spatial axes, any stride, dilation and
// padding, in three roles. Sums have one order, whatever the number of threads.
#pragma once

#include "device/cpu/conv_types.h"
#include "device/view.h"

namespace calor::cpu::planar {

/// Null when the functions below run this, else why not, a text that lives for ever. Shapes, dtypes and strides as for
/// direct::why_not().
const char* why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                    const ConvSettings& settings);

/// Whether this is expected to be faster than direct:: and oneDNN, from measurements on AVX2.
bool is_preferred(ConvRole role, const View& x, const View& w, const View& y, const ConvSettings& settings);
/// The same for arrays that are planes already, by the shape of the weight.
bool is_preferred_for_planes(ConvRole role, const Shape& w, std::int64_t groups);

/// As in direct::. All throw std::runtime_error for what why_not() refuses.
void forward(const View& x, const View& w, const View* bias, const View& y, const ConvSettings& settings);
void input_grad(const View& gy, const View& w, const View& gx, const ConvSettings& settings);
void weight_grad(const View& x, const View& gy, const View& gw, const View* gbias, const ConvSettings& settings);

}  // namespace calor::cpu::planar
