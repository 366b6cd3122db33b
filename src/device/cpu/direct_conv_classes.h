// Pixels by what they read: near the border some taps meet nothing but padding. With small images and many axes that is
// most of the work (an image of 4^6 under a kernel of 3^6 has two taps in three outside), so pixels are put in classes
// that read the same taps, and each class runs over its own taps alone.
#pragma once

#include <vector>

#include "device/cpu/direct_conv_kernels.h"
#include "device/cpu/direct_conv_parts.h"

namespace calor::cpu::direct {

/// Along one axis: where the taps of a pixel lie, relative to the pixel's place, and which places are data.
struct AxisReads {
    std::vector<std::int64_t> taps;     ///< in order, rising or falling
    std::int64_t pixels = 0, step = 1;  ///< pixel q is at q * step
    std::int64_t low = 0, size = 0;     ///< data are the places p with 0 <= p + low < size
};

/// Taps are numbered row-major over the axes, then channels. Along the last axis all taps are read.
class PixelClasses {
public:
    PixelClasses() = default;
    /// Made when at most `worthwhile` of the taps are left.
    PixelClasses(const std::vector<AxisReads>& axes, std::int64_t channels, double worthwhile = 0.93);
    PixelClasses(const PixelClasses&) = delete;
    PixelClasses& operator=(const PixelClasses&) = delete;
    PixelClasses(PixelClasses&&) = default;
    PixelClasses& operator=(PixelClasses&&) = default;

    /// Empty when too little would be saved.
    const std::vector<PixelClass>& list() const { return classes_; }
    std::int64_t run_length() const { return run_length_; }
    /// A table with an entry a pixel, in the order of the classes.
    Offsets sorted(const Offsets& table) const;

private:
    std::int64_t row_ = 0, run_length_ = 0;
    std::vector<std::int64_t> rows_;  ///< rows of pixels, class by class
    std::vector<std::int32_t> runs_;
    std::vector<PixelClass> classes_;
};

}  // namespace calor::cpu::direct
