// Depthwise convolution of channels-last arrays: vectors run along the channels, operands are read and written where
// they lie (f32 and bf16; f16 and very few channels by way of an f32 copy), and padding is left out instead of written.
// Sums have one order, whatever the number of threads.
#pragma once

#include "device/cpu/conv_types.h"
#include "device/view.h"

namespace calor::cpu::lanes {

/// Null when the functions below run this, else why not, a text that lives for ever. One input and one output channel a
/// group; otherwise as planar::why_not().
const char* why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                    const ConvSettings& settings);

/// Whether this is expected to be faster than planar:: and oneDNN, from measurements on AVX2.
bool is_preferred(ConvRole role, const View& x, const View& w, const View& y, const ConvSettings& settings);

/// As in direct::. All throw std::runtime_error for what why_not() refuses.
void forward(const View& x, const View& w, const View* bias, const View& y, const ConvSettings& settings);
void input_grad(const View& gy, const View& w, const View& gx, const ConvSettings& settings);
void weight_grad(const View& x, const View& gy, const View& gw, const View* gbias, const ConvSettings& settings);

}  // namespace calor::cpu::lanes
