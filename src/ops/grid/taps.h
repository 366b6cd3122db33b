// The taps of a block of points: which elements each point reads or writes, and with which weights. Made once and used
// for all channels. Tables run along the points, so that everything here vectorises over them.
#pragma once

#include <vector>

#include "ops/grid/grid.h"
#include "ops/grid/weights.h"

namespace calor::ops::grid {

/// Points of a block.
inline constexpr std::int64_t block = 64;

/// What is sampled, as the taps see it. With `slopes` every tap has 1 + R weights: W_d and, for each axis, W_d with one
/// more derivative along it; else W_d alone.
template <class T> struct Lattice {
    GridMode mode = GridMode::linear;
    GridPadding padding = GridPadding::zeros;
    bool slopes = false;
    std::vector<AxisRule<T>> axes;
    std::int64_t rank() const { return std::ssize(axes); }
    std::int64_t sets() const { return slopes ? 1 + rank() : 1; }
    /// Taps of a point.
    std::int64_t taps() const;
    /// Points that one block may have.
    std::int64_t points() const;
    /// Whether offsets fit in 32 bits.
    bool narrow() const;
};

/// `strides` are those of the memory that holds the elements, one a spatial axis, 0 or larger.
template <class T> Lattice<T> make_lattice(const Attributes& a, std::span<const std::int64_t> strides, bool slopes);

/// One axis of a block.
template <class T> struct AxisTaps {
    alignas(64) T first[block];      ///< number of the first tap, whole
    alignas(64) T weight[4][block];  ///< of each tap
    alignas(64) T slope[4][block];   ///< with one more derivative
};

template <class T> struct Taps {
    explicit Taps(const Lattice<T>& lattice);
    std::vector<AxisTaps<T>> axes;
    std::int64_t count = 0, pitch = 0;  ///< taps of a point; points a line of the tables
    std::int64_t sets = 1;
    bool narrow = true;
    bool pairs = false;  ///< taps 2 i and 2 i + 1 of a point that has all of them are neighbours in memory
    std::vector<std::int32_t> offset32;  ///< of tap t of point p at t pitch + p, when narrow; negative: outside
    std::vector<std::int64_t> offset64;  ///< the same when not
    std::vector<T> weight;               ///< set s of tap t of point p at (s count + t) pitch + p
    const T* weights(std::int64_t set, std::int64_t tap) const { return weight.data() + (set * count + tap) * pitch; }
};

/// Calls f with the table of offsets.
template <class T, class F> inline void with_offsets(const Taps<T>& taps, const F& f) {
    if (taps.narrow) return f(taps.offset32.data());
    f(taps.offset64.data());
}

}  // namespace calor::ops::grid
