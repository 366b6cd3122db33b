// Parts that the roles of the Winograd convolution share: tiles of planes, planes by positions along the other axes,
// operands as the transforms read them, chunks whose transformed arrays stay in the cache. Included by the
// winograd_conv*.cpp files alone.
#pragma once

#include <cstdint>
#include <vector>

#include "device/cpu/direct_conv_parts.h"
#include "device/cpu/winograd_conv_kernels.h"

namespace calor::cpu::winograd {

using direct::Offsets;
using direct::Problem;

/// A role's source (x, or gy for the input gradient) and result grid (y, or gx): result q reads source position
/// q + tap * dilation + low. For the weight gradient both are sources.
struct Frame {
    explicit Frame(const Problem& p);
    const View &source, &result;
    std::int64_t images, in, out;         ///< in, out: channels
    Dims low, dilation;                   ///< all axes
    Dims outer_kernel, outer_result;      ///< the axes before the last two
    Dims extents;                         ///< planes along those: what is read, padding too
    std::int64_t planes, outer, kernels;  ///< products of extents, outer_result and outer_kernel
    std::int64_t rows, columns;           ///< of tiles in a plane
    std::int64_t tiles() const { return rows * columns; }

    /// Offsets of the 6 x 6 pixels of every tile in a plane with these distances between rows and columns; -1 outside.
    Offsets source_pixels(const Strides& strides) const;
    /// Likewise of the 4 x 4 pixels of the result's planes.
    Offsets result_pixels(const Strides& strides) const;
    /// Where planes begin in an image of the source, -1 for those in the padding; of the result.
    std::vector<std::int64_t> source_planes(const Strides& strides) const;
    std::vector<std::int64_t> result_planes(const Strides& strides) const;
    /// Distances between planes along the axes before the last two, counted in planes.
    Dims plane_steps() const;
};

/// An array with adjacent channels in f32 or bf16: as it lies, or a dense f32 copy of some images.
class Pixels {
public:
    Pixels(const View& v, std::int64_t images);
    /// Makes images [first, first + count) ready; gives the address of the first.
    const char* get(std::int64_t first, std::int64_t count) const;
    Strides strides;
    bool half = false;

private:
    const View& view_;
    Scratch copy_;
};

/// A result with adjacent channels in f32 or bf16: in place, or a dense f32 copy that give_back() converts.
class Results {
public:
    explicit Results(const View& v);
    void give_back() const;
    Strides strides;
    char* data;
    bool half = false;

private:
    const View& view_;
    Scratch copy_;
};

/// Images and tiles that are transformed together.
struct Chunk {
    std::int64_t image, images, tile, tiles;
    std::int64_t count(std::int64_t planes) const { return images * planes * tiles; }
};
/// `floats`: transformed numbers that a tile of an image takes.
std::vector<Chunk> chunks_of(const Frame& f, std::int64_t floats);

/// A distance between pixels of `channels` that spreads them over the first-level cache.
std::int64_t pixel_step(std::int64_t channels);
/// A distance between planes of transformed numbers, `floats` or a little more, likewise.
std::int64_t point_step(std::int64_t floats);

/// Transforms one kind of pixel, for run_spread().
struct SpreadJob {
    const Chunk& chunk;
    const Pixels& pixels;
    const char* first;  ///< Pixels::get()
    const Offsets& at;
    const std::vector<std::int64_t>& planes;
    std::int64_t channels, step, point;  ///< distances between pixels and points of the result
    bool clear;                          ///< zeros for planes in the padding, which are left alone otherwise
    bool grads;
};
/// to[point][image][plane][tile][channel].
void run_spread(const SpreadJob& job, float* to);

void run_weight_grad(const Problem& p);

}  // namespace calor::cpu::winograd
