// Geometry, copies, the transformation of sources.
#include "device/cpu/winograd_conv_parts.h"

#include <algorithm>

#include "device/cpu/parallel.h"

namespace calor::cpu::winograd {
namespace {

/// Transformed numbers of a chunk, for all threads: 4 MiB.
constexpr std::int64_t chunk_floats = 1 << 20;

Dims outer_of(const Dims& spatial) { return Dims(std::span(spatial.begin(), spatial.end() - 2)); }

std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

Strides channels_last(const Shape& shape) {
    Strides strides(shape.rank(), 1);
    std::int64_t step = shape[1];
    for (std::int64_t i = shape.rank(); i-- > 2;) {
        strides[i] = step;
        step *= shape[i];
    }
    strides[0] = step;
    return strides;
}

/// For every tile the offsets of size x size pixels from `low` on, tiles 4 apart.
Offsets pixels_of_tiles(std::int64_t rows, std::int64_t columns, std::int64_t size, const Dims& low, const View& v,
                        const Strides& strides) {
    const std::int64_t axis = v.rank() - 2;
    Offsets at;
    at.reserve(static_cast<std::size_t>(rows * columns * size * size));
    for (std::int64_t i = 0; i < rows * columns; ++i) {
        for (std::int64_t k = 0; k < size * size; ++k) {
            const std::int64_t y = i / columns * tile + k / size + low[0], x = i % columns * tile + k % size + low[1];
            const bool inside = y >= 0 && x >= 0 && y < v.size(axis) && x < v.size(axis + 1);
            at.push_back(inside ? static_cast<std::int32_t>(y * strides[axis] + x * strides[axis + 1]) : -1);
        }
    }
    return at;
}

}  // namespace

Frame::Frame(const Problem& p)
    : source(p.role == ConvRole::input_grad ? p.y : p.x),
      result(p.role == ConvRole::input_grad ? p.x : p.y),
      images(p.images()),
      in(source.size(1)),
      out(result.size(1)),
      low(direct::window_of(p).low),
      dilation(p.s.dilation),
      outer_kernel(outer_of(direct::spatial(*p.w.shape))),
      outer_result(outer_of(direct::spatial(*result.shape))),
      extents(outer_of(direct::window_of(p).extents)),
      planes(direct::product(extents)),
      outer(direct::product(outer_result)),
      kernels(direct::product(outer_kernel)),
      rows(ceil_div(result.size(result.rank() - 2), tile)),
      columns(ceil_div(result.size(result.rank() - 1), tile)) {}

Offsets Frame::source_pixels(const Strides& strides) const {
    const std::int64_t axis = low.rank() - 2;
    return pixels_of_tiles(rows, columns, window, {low[axis], low[axis + 1]}, source, strides);
}

Offsets Frame::result_pixels(const Strides& strides) const {
    return pixels_of_tiles(rows, columns, tile, {0, 0}, result, strides);
}

std::vector<std::int64_t> Frame::source_planes(const Strides& strides) const {
    std::vector<std::int64_t> all;
    Dims index(extents.rank(), 0);
    for (std::int64_t i = 0; i < planes; ++i) {
        std::int64_t at = 0;
        for (std::int64_t a = 0; a < extents.rank(); ++a) {
            const std::int64_t place = index[a] + low[a];
            if (place < 0 || place >= source.size(a + 2)) at = -1;
            if (at >= 0) at += place * strides[a + 2];
        }
        all.push_back(at);
        for (std::int64_t a = extents.rank(); a-- > 0;) {
            if (++index[a] < extents[a]) break;
            index[a] = 0;
        }
    }
    return all;
}

std::vector<std::int64_t> Frame::result_planes(const Strides& strides) const {
    const Offsets at = direct::grid(outer_result, outer_of(direct::spatial(strides)));
    return {at.begin(), at.end()};
}

Dims Frame::plane_steps() const {
    Dims steps(extents.rank(), 1);
    for (std::int64_t a = extents.rank() - 1; a-- > 0;) steps[a] = steps[a + 1] * extents[a + 1];
    return steps;
}

Pixels::Pixels(const View& v, std::int64_t images) : strides(*v.strides), half(v.dtype == bf16), view_(v) {
    bool forwards = v.stride(1) == 1 && v.dtype != f16;
    for (std::int64_t i = 0; i < v.rank(); ++i) forwards = forwards && v.stride(i) >= 0;
    if (forwards) return;
    half = false;
    strides = channels_last(*v.shape);
    copy_ = Scratch(images * strides[0] * size_of(f32));
}

const char* Pixels::get(std::int64_t first, std::int64_t count) const {
    const char* const from = static_cast<const char*>(view_.data) + first * view_.stride(0) * size_of(view_.dtype);
    if (copy_.floats() == nullptr) return from;
    Shape shape = *view_.shape;
    shape[0] = count;
    pack({const_cast<char*>(from), view_.dtype, &shape, view_.strides}, copy_.floats(), strides);
    return copy_.bytes();
}

Results::Results(const View& v)
    : strides(*v.strides), data(static_cast<char*>(v.data)), half(v.dtype == bf16), view_(v) {
    if (v.stride(1) == 1 && v.dtype != f16) return;
    half = false;
    strides = channels_last(*v.shape);
    copy_ = Scratch(v.size(0) * strides[0] * size_of(f32));
    data = copy_.bytes();
}

void Results::give_back() const {
    if (copy_.floats() != nullptr) unpack(copy_.floats(), strides, view_);
}

std::vector<Chunk> chunks_of(const Frame& f, std::int64_t floats) {
    const std::int64_t fit = std::max<std::int64_t>(1, chunk_floats / floats), tiles = f.tiles();
    const std::int64_t image_parts = ceil_div(f.images, std::max<std::int64_t>(1, fit / tiles));
    const std::int64_t tile_parts = ceil_div(tiles, std::min(tiles, fit));
    std::vector<Chunk> all;
    for (std::int64_t i = 0; i < image_parts; ++i) {
        const std::int64_t image = f.images * i / image_parts, past = f.images * (i + 1) / image_parts;
        for (std::int64_t t = 0; t < tile_parts; ++t) {
            const std::int64_t first = tiles * t / tile_parts;
            all.push_back({image, past - image, first, tiles * (t + 1) / tile_parts - first});
        }
    }
    return all;
}

std::int64_t pixel_step(std::int64_t channels) { return channels + (channels % 64 == 0 ? 16 : 0); }

std::int64_t point_step(std::int64_t floats) {
    constexpr std::int64_t line = 16, way = 1024;  // floats of a line, and of the lines of different sets
    const std::int64_t rounded = ceil_div(floats, line) * line;
    return rounded + ((5 * line - rounded) % way + way) % way;
}

void run_spread(const SpreadJob& job, float* to) {
    const Chunk& chunk = job.chunk;
    const auto planes = std::ssize(job.planes);
    const std::int64_t pixels = job.grads ? tile * tile : window * window;
    const std::int64_t bytes = size_of(job.pixels.half ? bf16 : f32);
    const Scratch zeros(job.channels * size_of(f32));
    std::fill(zeros.floats(), zeros.floats() + job.channels, 0.0F);
    parallel_for(chunk.count(planes), std::max<std::int64_t>(1, 512 / job.channels),
                 [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                         const std::int64_t which = i % chunk.tiles, image = i / chunk.tiles / planes;
                         const std::int64_t plane = job.planes[static_cast<std::size_t>(i / chunk.tiles % planes)];
                         float* const target = to + i * job.step;
                         if (plane < 0) {
                             for (std::int64_t k = 0; job.clear && k < points; ++k)
                                 std::fill_n(target + k * job.point, job.channels, 0.0F);
                             continue;
                         }
                         const Spread s{job.first + (image * job.pixels.strides[0] + plane) * bytes,
                                        job.pixels.half,
                                        job.at.data() + (chunk.tile + which) * pixels,
                                        zeros.bytes(),
                                        job.channels,
                                        target,
                                        job.point};
                         job.grads ? kernels().spread_grads(s) : kernels().spread_data(s);
                     }
                 });
}

}  // namespace calor::cpu::winograd
