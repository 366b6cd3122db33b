// Checks and reductions that the losses share.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "calor/nn/loss.h"

namespace calor::nn {

/// Throws ValueError [tensor/undefined] at the first tensor without a value.
void check_defined(std::string_view operation, std::initializer_list<std::pair<const Tensor*, const char*>> tensors,
                   const Where& where);
/// Throws DTypeError [dtype/unsupported] unless the dtype is floating.
void check_floating(std::string_view operation, const Tensor& t, std::string_view argument, const Where& where);
/// The losses reduced as asked for.
Tensor reduced(const Tensor& losses, Reduction reduction, const Where& where);

}  // namespace calor::nn
