// Deformable convolution inside: a convolution over columns that are sampled from the input.
//   deform_conv       x, offset, weight (, mask) (, bias) -> y
//   deform_conv_grad  x, offset, weight, gy (, mask) -> gradients of x, offset, weight (, mask), in bounded memory;
//                     what is not asked for is empty
// Gradients that are recorded to be differentiated again are made of the sampling roles and products instead, which
// have gradients of any order.
#pragma once

#include "ops/support.h"
#include "ops/window.h"

namespace calor::ops::deform {

struct Attributes {
    Window window;
    std::int64_t groups = 1, offset_groups = 1;
    Dims sizes, positions;  ///< spatial sizes of x and of y
    bool mask = false, bias = false;
    bool wants_x = false, wants_offset = false,
         wants_weight = false;  ///< of deform_conv_grad; the mask's with the offset's
    friend bool operator==(const Attributes&, const Attributes&) = default;
};

/// The numbers that all implementations need.
struct Sizes {
    std::int64_t samples, channels, elements, out, taps, axes, points;
    std::int64_t per_group;   ///< channels of a weight group
    std::int64_t per_offset;  ///< channels of an offset group
};
Sizes sizes_of(const Attributes& a, std::int64_t samples, std::int64_t channels, std::int64_t out);

/// The operands of a call by their meaning; null where there is none.
struct Operands {
    const View &x, &offset, &weight;
    const View *mask, *bias;
    const View& y;                               ///< the result, or its gradient
    const View *gx, *goffset, *gweight, *gmask;  ///< of deform_conv_grad
};
Operands operands(bool backward, const graph::Call& call);

void gradient(const graph::GradContext& c);

/// deform_conv_grad as a recorded node; results 0 to 3.
Tensor record_backward(Attributes a, std::span<const Tensor> inputs, const Where& where);

void run_fast(bool backward, const graph::Call& call);
void run_reference(bool backward, const graph::Call& call);
void run_on_gpu(bool backward, const graph::Call& call);

}  // namespace calor::ops::deform
