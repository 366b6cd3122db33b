// What several families need: axes, common checks, a copy for views that strides cannot express.
#pragma once

#include <span>
#include <string_view>

#include "graph/operation.h"

namespace calor::ops {

/// `axis` in [0, rank). Throws ValueError [axis/range] naming the operation.
std::int64_t normalize_axis(std::string_view operation, std::int64_t axis, std::int64_t rank, const Where& where);
/// Sorted distinct axes in [0, rank); an empty list means all. Throws ValueError [axis/range], [axis/duplicate].
Axes normalize_axes(std::string_view operation, const Axes& axes, std::int64_t rank, const Where& where);
/// One value per axis: a single number is repeated. Throws ValueError [value/count].
Dims per_axis(std::string_view operation, std::string_view option, const PerAxis& values, std::int64_t count,
              std::int64_t otherwise, const Where& where);
void check_defined(std::string_view operation, const Tensor& t, std::string_view argument, const Where& where);

/// Copies the elements of a strided view to another view of the same shape and dtype.
void copy_view(const View& from, const View& to);

/// channels_last when the first input lies so in memory.
graph::Format format_of_input(const graph::Call& call);

}  // namespace calor::ops
