// The inner loops of the direct convolution. Everything that varies (rank, strides, dilation, padding) is in tables of
// offsets, so that one kernel serves every number of axes. Offsets are in floats.
//   gather:  out[p][o] = sum over k of in[in_at[p] + tap_at[k]] * weights[k][o]
//   outer:   sums[k][o] += sum over p of in[in_at[p] + tap_at[k]] * grad[p][o]
// Both hold a tile of 6 by 2 vectors in registers. `width` = 2 vectors; a panel is one block of `width` outputs.
#pragma once

#include <cstdint>

#include "device/elementwise.h"

namespace calor::cpu::direct {

/// Pixels up to `end` (of one image) that read the taps of some runs alone.
struct PixelClass {
    std::int64_t end;
    const std::int32_t* runs;  ///< first taps
    std::int64_t count;
};

/// Pixels of a segment take their turns together.
inline constexpr std::int64_t segment = 96;

/// Pixels [begin, end) of a problem with `images` * `pixels` of them, all outputs of a group.
struct Gather {
    const float* in;
    float* out;
    const std::int32_t *in_at, *out_at;  ///< `pixels` entries, for one image
    std::int64_t pixels, in_image, out_image;
    const std::int32_t* tap_at;  ///< `taps` entries
    std::int64_t taps;
    const float* panels;  ///< [panel][tap][width], zeros past the last output
    const float* bias;    ///< `width`-padded as the panels, or null
    std::int64_t outputs;
    bool relu;
    const PixelClass* classes;  ///< in order, the last one ends at `pixels`; null: every pixel reads every tap
    std::int64_t run_length;    ///< taps of a run
    /// Null, or where results go in 16 bits, at the same offsets as in `out`: as bf16 out of the registers, as f16 by
    /// `round`. `rows` has room for a segment of sums.
    std::uint16_t* rounded;
    TileKernel round;  ///< null for bf16
    float* rows;
};

/// Adds `pixels` of one image to rows of `sums` [tap][width] of one panel.
struct Outer {
    const float* in;            ///< the image
    const std::int32_t* in_at;  ///< of the first pixel
    const float* grad;          ///< [pixel][grad_step], of which `width` are used; zeros past the last output
    std::int64_t grad_step, pixels;
    const std::int32_t* tap_at;
    float* sums;
    std::int64_t outputs;  ///< of the panel, at most `width`
};

struct Kernels {
    std::int64_t width;
    void (*gather)(const Gather& g, std::int64_t begin, std::int64_t end);
    void (*outer)(const Outer& g, std::int64_t first_tap, std::int64_t last_tap);
};

/// The kernels for this processor.
const Kernels& kernels();

}  // namespace calor::cpu::direct
