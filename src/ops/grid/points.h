// How operands lie in memory: [N, C, points] with any strides, cut into blocks of points that are read and written as
// tiles of rows of channels (rows.h).
#pragma once

#include <initializer_list>

#include "ops/grid/rows.h"

namespace calor::ops::grid {

/// An operand [N, C, points] (or a grid [N, R, points]); strides in elements. Blocks of points lie in runs, in which
/// neighbours have the distance p.
struct Array {
    std::byte* data = nullptr;
    DType dtype = f32;
    std::int64_t n = 0, c = 0, p = 0;
    Dims outer;  ///< strides of the axes that number the runs
    std::byte* at(std::int64_t in, std::int64_t ic, std::int64_t ip) const {
        return data + (in * n + ic * c + ip * p) * size_of(dtype);
    }
};

/// The points of some operands: all in one run where all their axes merge to one, else the last axis is a run.
struct Runs {
    Dims outer;  ///< sizes of the axes that number the runs
    std::int64_t count = 1, length = 1;
};
/// Where an operand has its points' axes: [first, last); `channel` is its axis of channels or coordinates.
struct Operand {
    const View& view;
    std::int64_t channel, first, last;
};
Runs make_runs(std::initializer_list<Operand> operands);
Array make_array(const Operand& operand, const Runs& runs);
/// The array from the first point of a run on.
Array run_of(const Array& array, const Runs& runs, std::int64_t run);

/// Cuts (sample, run, points) into numbered blocks.
struct Blocks {
    Blocks(const Runs& runs, std::int64_t points) : points(points), in_run((runs.length + points - 1) / points) {
        in_sample = in_run * runs.count;
    }
    std::int64_t points, in_run, in_sample = 0;
};
struct BlockPlace {
    std::int64_t sample, run, first, count;
};
inline BlockPlace place_of(const Blocks& b, const Runs& runs, std::int64_t number) {
    const std::int64_t sample = number / b.in_sample, rest = number % b.in_sample;
    const std::int64_t first = rest % b.in_run * b.points;
    return {sample, rest / b.in_run, first, std::min(b.points, runs.length - first)};
}

/// Channels [c, c + channels) of points [p, p + count) of sample n to tile[point tile_stride + channel]; channels from
/// there up to `width` become 0.
template <class T>
void load_tile(const Array& from, std::int64_t n, std::int64_t c, std::int64_t channels, std::int64_t p,
               std::int64_t count, T* tile, std::int64_t tile_stride, std::int64_t width);
/// The reverse; halves are rounded.
template <class T>
void store_tile(const T* tile, std::int64_t tile_stride, const Array& to, std::int64_t n, std::int64_t c,
                std::int64_t channels, std::int64_t p, std::int64_t count);

/// Entries of points [p, p + count) of sample n, entry i of the axis c at lines[i line_stride].
template <class T>
void load_lines(const Array& from, std::int64_t n, std::int64_t entries, std::int64_t p, std::int64_t count, T* lines,
                std::int64_t line_stride = block);
template <class T>
void store_lines(const T* lines, const Array& to, std::int64_t n, std::int64_t entries, std::int64_t p,
                 std::int64_t count, std::int64_t line_stride = block);

/// Samples [n, n + count) of x [N, C, sizes...] to rows [count, elements, padded_channels(C)], and back.
template <class T> void pack_rows(const View& x, std::int64_t n, std::int64_t count, T* rows);
template <class T> void unpack_rows(const T* rows, const View& x, std::int64_t n, std::int64_t count);
/// The same to lines [count, C, elements].
template <class T> void pack_lines(const View& x, std::int64_t n, std::int64_t count, T* lines);
template <class T> void unpack_lines(const T* lines, const View& x, std::int64_t n, std::int64_t count);

}  // namespace calor::ops::grid
