// Ranges and matrices on GPUs.
#pragma once

#include "graph/operation.h"

namespace calor::ops {

/// first + i distance, in integers that wrap.
void whole_range_on_gpu(const graph::Call& c, std::uint64_t first, std::uint64_t distance);
void range_on_gpu(const graph::Call& c, double start, double step);
/// Powers of `base` unless it is 0.
void spaced_on_gpu(const graph::Call& c, double start, double stop, double step, double base);
void eye_on_gpu(const graph::Call& c, std::int64_t diagonal);
void triangle_on_gpu(const graph::Call& c, std::int64_t diagonal, bool upper);

}  // namespace calor::ops
