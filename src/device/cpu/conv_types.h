// Convolution problems as the CPU's implementations see them.
#pragma once

#include <cstdint>

#include "calor/shape.h"

namespace calor::cpu {

/// One entry a spatial axis. Dilation 1 is dense. Padding is zeros, each side on its own.
struct ConvSettings {
    Dims stride, dilation, pad_low, pad_high;
    std::int64_t groups = 1;
};

enum class ConvRole : std::uint8_t { forward, input_grad, weight_grad };

}  // namespace calor::cpu
