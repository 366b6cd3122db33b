// Transforms of Winograd's minimal filtering (Winograd 1980; Lavin and Gray, "Fast algorithms for convolutional neural
// networks", 2016) along two axes: 4 x 4 results of 3 x 3 taps from 6 x 6 products in place of 144. With points 0, a,
// -a, b, -b and infinity (Toom-Cook) a row of results is  y = A' ((G g) (B' d)), d being 6 data and g 3 taps; the
// weight gradient is the same with 4 gradients in the place of the taps and 3 results. Data lie with adjacent channels,
// products in 36 planes. Distances are in elements.
#pragma once

#include <cstdint>

namespace calor::cpu::winograd {

inline constexpr std::int64_t tile = 4, taps = 3, window = 6, points = 36;

/// Pixels of a source to 36 planes, all channels.
struct Spread {
    const void* from;
    bool half;               ///< `from` is bf16, else f32
    const std::int32_t* at;  ///< where the pixels lie (6 x 6 of data, 4 x 4 of gradients), -1 for those that are zero
    const void* zeros;       ///< as many channels of zeros
    std::int64_t channels;   ///< whole vectors
    float* to;
    std::int64_t plane;
};

/// 36 planes to a tile of results, all channels.
struct Collect {
    const float* from;
    std::int64_t plane;
    const float* bias;  ///< a number a channel, or null
    void* to;
    bool half;
    const std::int32_t* at;  ///< where the 4 x 4 pixels lie, -1 for those outside
    std::int64_t channels;
};

struct Kernels {
    std::int64_t lanes;
    void (*spread_data)(const Spread& s);   ///< B' d B
    void (*spread_grads)(const Spread& s);  ///< G g G', g being 4 x 4
    void (*collect)(const Collect& c);      ///< A' m A + bias
    /// G g G' of 3 x 3 taps of `count` numbers each (whole vectors), tap by tap, to 36 planes.
    void (*spread_taps)(const float* from, std::int64_t count, float* to, std::int64_t plane);
    /// A' m A of 36 planes: sums of the 3 x 3 taps, tap by tap.
    void (*collect_taps)(const float* from, std::int64_t plane, std::int64_t count, float* to);
    /// sums[channel] += the pixels from `from` on, `step` apart.
    void (*total)(const void* from, bool half, std::int64_t step, std::int64_t pixels, std::int64_t channels,
                  float* sums);
};

/// The kernels for this processor.
const Kernels& kernels();

}  // namespace calor::cpu::winograd
