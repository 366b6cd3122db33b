// The inner loops of sampling, for a block of points. Elements are moved in rows: all channels of one place, side by
// side (an array in channels-last order); or in lines: one channel of all points.
#pragma once

#include "ops/grid/taps.h"

namespace calor::ops::grid {

/// Channels of an array in channels-last order: so many that vectors have no rest. The same for every instruction set.
template <class T> constexpr std::int64_t padded_channels(std::int64_t channels) {
    constexpr std::int64_t half = 16 / sizeof(T), whole = 32 / sizeof(T);
    if (channels <= half) return channels == 0 ? 0 : half;
    return (channels + whole - 1) / whole * whole;
}

/// Taps of `count` points from their coordinates, axis a at coordinates[a block].
template <class T>
using TapsKernel = void (*)(const Lattice<T>& lattice, const T* coordinates, std::int64_t count, Taps<T>& taps);
template <class T> TapsKernel<T> taps_kernel();

/// Rows of one of padded_channels() channels, or of a multiple of the larger vectors.
template <class T> struct RowKernels {
    /// tile[p tile_stride + c] = sum over the taps t of p of weight[t] x[offset[t] + c]
    void (*gather)(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t channels, T* tile,
                   std::int64_t tile_stride);
    /// x[offset[t] + c] += weight[t] tile[p tile_stride + c]
    void (*scatter)(const Taps<T>& taps, std::int64_t count, T* x, std::int64_t channels, const T* tile,
                    std::int64_t tile_stride);
    /// out[s block + p] = sum over t, c of weight[s, t] x[offset[t] + c] tile[p tile_stride + c], for all sets s
    void (*dots)(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t channels, const T* tile,
                 std::int64_t tile_stride, T* out);
    /// to[j to_stride + i] = from[i from_stride + j]
    void (*transpose)(const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, T* to,
                      std::int64_t to_stride);
};
template <class T> const RowKernels<T>& row_kernels();

/// The same with x[offset[t] + c x_stride] and lines[c line_stride + p].
template <class T> struct LineKernels {
    void (*gather)(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t x_stride, std::int64_t channels,
                   T* lines, std::int64_t line_stride);
    void (*scatter)(const Taps<T>& taps, std::int64_t count, T* x, std::int64_t x_stride, std::int64_t channels,
                    const T* lines, std::int64_t line_stride);
    void (*dots)(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t x_stride, std::int64_t channels,
                 const T* lines, std::int64_t line_stride, T* out);
};
template <class T> const LineKernels<T>& line_kernels();

/// Tiles [points, channels] from and to planes [channels, points] of f16 or bf16; both numbers are multiples of 8,
/// there are at most `block` points. Null where the instruction set has nothing for it.
struct HalfTiles {
    void (*load)(const std::uint16_t* from, std::int64_t from_stride, std::int64_t channels, std::int64_t points,
                 float* to, std::int64_t to_stride) = nullptr;
    void (*store)(const float* from, std::int64_t from_stride, std::int64_t channels, std::int64_t points,
                  std::uint16_t* to, std::int64_t to_stride) = nullptr;
};
HalfTiles find_half_tiles(DType dtype);

}  // namespace calor::ops::grid
