// Convolution by our own kernels: any number of spatial axes, any stride, dilation, padding (each side on its own, also
// negative) and groups, in its three roles. Activations are worked on channels-last; one tile of pixels by output
// channels is held in registers and sums over channels and taps (Cong and Xiao's GEMM view of convolution without the
// matrix of patches: a table of offsets takes its place). Sums have one order, whatever the number of threads.
#pragma once

#include "device/cpu/conv_types.h"
#include "device/view.h"

namespace calor::cpu::direct {

/// Null when the functions below run this, else why not, a text that lives for ever. Shapes are x [N, C, S...],
/// w [O, C/g, K...], y [N, O, S'...], bias [O] ([C] for the input gradient) or null. Dtypes f32, bf16, f16, the same
/// everywhere, but a weight gradient and its bias may be f32 (f32 inside, rounded once). Inputs have any strides;
/// fastest are channels-last x and y. Results may not overlap themselves.
const char* why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                    const ConvSettings& settings);

/// Whether this is expected to be faster than oneDNN, from measurements on AVX2 (bench/notes/conv-cpu.md): for whole
/// vectors of channels and more than one tap, the weight gradient in any format, the others on 1 axis and with
/// channels-last activations on 2, but for input gradients of small images. Beyond 3 axes oneDNN does not go: always
/// true.
bool is_preferred(ConvRole role, const View& x, const View& w, const View& y, const ConvSettings& settings);

/// y = x * w + bias, then max(y, 0) when `relu`. Throws std::runtime_error for what why_not() refuses, as do the
/// others.
void forward(const View& x, const View& w, const View* bias, const View& y, const ConvSettings& settings,
             bool relu = false);
/// gx = the gradient with respect to x, plus bias; also the transposed convolution of gy.
void input_grad(const View& gy, const View& w, const View& gx, const ConvSettings& settings,
                const View* bias = nullptr);
/// gw = the gradient with respect to w; `gbias` [O] gets the sum of gy over everything but O.
void weight_grad(const View& x, const View& gy, const View& gw, const View* gbias, const ConvSettings& settings);

}  // namespace calor::cpu::direct
