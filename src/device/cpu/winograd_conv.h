// Convolution by Winograd's minimal filtering in f32: kernels whose last two axes are 3 x 3 with stride 1, any number
// of axes before them, in three roles. Along those two axes 4 x 4 results take 36 products a channel in place of 144;
// axes before them are sums in the transformed domain. Channels are whole vectors, one group. Sums have one order,
// whatever the number of threads. Rounding: results differ from the exact ones by less than 1e-5 of the sum of the
// products' magnitudes, or of their neighbours' in the tile where that is much larger (4e-7 was the most in 300 tiles
// of 64 channels). An infinity or NaN spreads to the 4 x 4 results computed with it.
#pragma once

#include "device/cpu/conv_types.h"
#include "device/view.h"

namespace calor::cpu::winograd {

/// Null when the functions below run this, else why not, a text that lives for ever. Shapes, dtypes and strides as for
/// direct::why_not().
const char* why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                    const ConvSettings& settings);

/// Whether this is expected to be faster than direct:: and oneDNN, from measurements on AVX2.
bool is_preferred(ConvRole role, const View& x, const View& w, const View& y, const ConvSettings& settings);

/// As in direct::. All throw std::runtime_error for what why_not() refuses.
void forward(const View& x, const View& w, const View* bias, const View& y, const ConvSettings& settings);
void input_grad(const View& gy, const View& w, const View& gx, const ConvSettings& settings,
                const View* bias = nullptr);
void weight_grad(const View& x, const View& gy, const View& gw, const View* gbias, const ConvSettings& settings);

}  // namespace calor::cpu::winograd
