// What a row of results of the depthwise convolution reads: padding is left out, so a row comes in pieces that read the
// same taps. Included by the lanes_conv*.cpp files alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/cpu/direct_conv_parts.h"

namespace calor::cpu::lanes {

using direct::Offsets;
using direct::Problem;

/// Result m of an axis reads source position m * step + at for every tap, where that is in [0, inside). Taps are in the
/// order of memory. It lies at position first + m * out_step of the result.
struct Tap {
    std::int64_t at, number;
};
struct Axis {
    std::int64_t size, step, inside, first, out_step;
    std::vector<Tap> taps;
};
using Pass = std::vector<Axis>;

/// Forward and the weight gradient have one pass, the input gradient one a phase of the stride.
std::vector<Pass> passes_of(const Problem& p);

/// Results [begin, end) of a row, which read the same taps.
struct Piece {
    std::int64_t begin, end;
    Offsets tap_at, where;  ///< in the source, from the row's origin; in the weights or sums
    bool strips;            ///< as the kernels want it: three adjacent taps a row of the kernel
};

/// The pieces of rows. Neighbouring rows mostly have the same: they are made anew when the taps change.
class Rows {
public:
    /// `source`: distances of the source along the spatial axes; `padded`: of taps in the weights or sums.
    Rows(const Pass& pass, const Dims& kernel, const Dims& source, std::int64_t padded);
    /// Of the row at `index` along the axes before the last.
    const std::vector<Piece>& at(const Dims& index);

private:
    void make();

    const Pass& pass_;
    Dims kernel_, source_;
    std::int64_t padded_;
    std::vector<std::int64_t> bounds_, first_, count_;
    std::vector<Piece> pieces_;
};

/// The rows of a pass, all images, wide ones in parts.
struct Units {
    static constexpr std::int64_t most_columns = 256;

    Units(const Pass& pass, std::int64_t images);
    struct Unit {
        std::int64_t image, begin, end;
        Dims index;
    };
    Unit at(std::int64_t i) const;
    Dims outer;
    std::int64_t columns, parts = 1, count = 0;
};

}  // namespace calor::cpu::lanes
