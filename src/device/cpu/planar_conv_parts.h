// Parts that the roles of the planar convolution share: how a source lies as planes, and the copies to planes and back.
// Included by the planar_conv*.cpp files alone.
#pragma once

#include <cstdint>
#include <vector>

#include "device/cpu/direct_conv_parts.h"
#include "device/cpu/planar_conv_kernels.h"

namespace calor::cpu::planar {

using direct::Offsets;
using direct::Problem;

/// Planes of one channel: plane number f holds the source positions low + phases[f] + m * step, m < extents.
struct Planes {
    Dims low, step, extents;
    Dims pitch;  ///< distances within a plane; the last is 1
    std::vector<Dims> phases;
    std::int64_t axes() const { return low.rank(); }
    std::int64_t count() const { return static_cast<std::int64_t>(phases.size()); }
};

/// Where a tap reads, for the result at the origin, and where its weight lies.
struct Tap {
    std::int64_t plane, at, weight;
};

/// Results at positions first + m * step, m < sizes, all of which have the same taps.
struct Pass {
    std::vector<Tap> taps;
    Dims sizes, first, step;
};

/// The planes that a role reads (x, or gy for the input gradient) and its passes: one, or one a phase of the stride.
struct Plan {
    Planes planes;
    std::vector<Pass> passes;
    std::int64_t rows = 0;   ///< results along axis 0, of the longest pass
    std::int64_t reach = 0;  ///< a band of results reads so many rows more
};

/// `weight_strides` are the distances between taps along the spatial axes.
Plan make_plan(const Problem& p, const Dims& weight_strides);

/// Counts through `sizes`, the last axis fastest; false after the last.
bool next(Dims& index, const Dims& sizes);

/// Distance from the first result of a band of `rows` rows to past its last one.
std::int64_t length_of(const Planes& planes, const Dims& sizes, std::int64_t rows);

/// A part of an array: some channels of an image, `rows` rows of axis 0 from `row` on, counted as the planes do.
struct Part {
    std::int64_t image, channel, channels, row, rows;
};

/// Copies the part to planes [channel][phase], `plane_step` apart, with zeros outside of the array.
void to_planes(const View& from, const Planes& planes, const Part& part, float* to, std::int64_t plane_step);

/// Copies results [channel], `plane_step` apart, to where they belong.
void from_planes(const float* from, std::int64_t plane_step, const Planes& planes, const Pass& pass, const Part& part,
                 const View& to);

/// How many groups are worked on together, so that the channels of a pixel that lie side by side are read and written
/// together.
std::int64_t groups_together(const Problem& p);

void run_weight_grad(const Problem& p);

}  // namespace calor::cpu::planar
