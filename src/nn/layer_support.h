// Checks of options and the default initial values that the layers share.
#pragma once

#include <cstdint>
#include <string_view>

#include "calor/nn/parameter.h"
#include "calor/shape.h"

namespace calor::nn {

/// Throws ValueError [value/option] unless `got` is at least `least`.
void check_at_least(std::string_view layer, std::string_view option, std::int64_t got, std::int64_t least,
                    const Where& where);
/// The option as one number an axis. Throws ValueError [value/count], [value/option].
Dims check_per_axis(std::string_view layer, std::string_view option, const PerAxis& given, std::int64_t axes,
                    std::int64_t fallback, const Where& where);
/// Uniform in 1 / sqrt(fan) either side of 0: what PyTorch's Kaiming initialisation with slope sqrt 5 amounts to.
Parameter default_parameter(const Shape& shape, std::int64_t fan, DType dtype, const Where& where);

}  // namespace calor::nn
