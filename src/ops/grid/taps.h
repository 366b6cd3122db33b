// The taps of a block of points: which elements each point reads or writes, and with which weights. Made once and used
// for all channels. Elements outside of the input (padding with zeros) have no tap.
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
    /// At most so many taps a point.
    std::int64_t most_taps() const;
    /// Points that one block should have.
    std::int64_t points() const;
};

/// `strides` are those of the memory that holds the elements, one a spatial axis.
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
    std::vector<std::int64_t> start;   ///< taps of point p: [start[p], start[p + 1])
    std::vector<std::int64_t> offset;  ///< of each tap's element
    std::vector<T> weight;             ///< set s of tap t at s capacity + t
    std::int64_t capacity = 0;
};

/// The taps of `count` points from those of the axes, which are already in `taps.axes`. Row-major order of the taps.
template <class T> void combine(const Lattice<T>& lattice, std::int64_t count, Taps<T>& taps);

}  // namespace calor::ops::grid
