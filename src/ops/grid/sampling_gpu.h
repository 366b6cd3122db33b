// The roles of sampling on GPUs, over any views: deformable convolution uses them with its own coordinates. x and gx
// are [N, C, sizes...]; y and h [N, C, points...]; g and gg [N, points..., R].
#pragma once

#include "ops/grid/grid.h"
#include "ops/spatial_gpu.h"

namespace calor::ops::grid {

void sample_on_gpu(const graph::Call& call, const Attributes& a, const View& x, const View& g, const View& y);
void slope_on_gpu(const graph::Call& call, const Attributes& a, const View& x, const View& g, const View& h,
                  const View& gg);
/// A gather: every element collects the taps that lie on it (device/gpu/buckets.h), in the order of the points.
void spread_on_gpu(const graph::Call& call, const Attributes& a, const View& h, const View& g, const View& gx);

void run_on_gpu(Role role, const graph::Call& call);

}  // namespace calor::ops::grid
