// Moving rows of channels: the inner loops of sampling, for a block of points whose taps are known. A row is all
// channels of one place, side by side (`row`, from an array in channels-last order), or the elements of one place with
// a stride between channels (`plain`).
#pragma once

#include "ops/grid/taps.h"

namespace calor::ops::grid {

/// Channels of an array in channels-last order: so many that vectors have no rest. The same for every instruction set.
template <class T> constexpr std::int64_t padded_channels(std::int64_t channels) {
    constexpr std::int64_t half = 16 / sizeof(T), whole = 32 / sizeof(T);
    if (channels <= 1) return channels;
    return channels <= half ? half : (channels + whole - 1) / whole * whole;
}

template <class T> struct RowKernels {
    /// Taps of one axis from `count` coordinates.
    void (*axis)(const Lattice<T>& lattice, std::int64_t axis, const T* coordinates, std::int64_t count,
                 AxisTaps<T>& taps);
    /// tile[p tile_stride + c] = sum over the taps t of p of weight[t] x[offset[t] + c]
    void (*gather)(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t channels, T* tile,
                   std::int64_t tile_stride);
    /// x[offset[t] + c] += weight[t] tile[p tile_stride + c]
    void (*scatter)(const Taps<T>& taps, std::int64_t count, T* x, std::int64_t channels, const T* tile,
                    std::int64_t tile_stride);
    /// out[s block + p] = sum over t, c of weight[s, t] x[offset[t] + c] tile[p tile_stride + c], for all sets s
    void (*dots)(const Taps<T>& taps, std::int64_t sets, std::int64_t count, const T* x, std::int64_t channels,
                 const T* tile, std::int64_t tile_stride, T* out);
    /// to[j to_stride + i] = from[i from_stride + j]
    void (*transpose)(const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, T* to,
                      std::int64_t to_stride);
};
template <class T> const RowKernels<T>& row_kernels();

// The same with x[offset[t] + c x_stride], for few channels or few points.
template <class T>
void plain_gather(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t x_stride, std::int64_t channels,
                  T* tile, std::int64_t tile_stride);
template <class T>
void plain_scatter(const Taps<T>& taps, std::int64_t count, T* x, std::int64_t x_stride, std::int64_t channels,
                   const T* tile, std::int64_t tile_stride);
template <class T>
void plain_dots(const Taps<T>& taps, std::int64_t sets, std::int64_t count, const T* x, std::int64_t x_stride,
                std::int64_t channels, const T* tile, std::int64_t tile_stride, T* out);

}  // namespace calor::ops::grid
