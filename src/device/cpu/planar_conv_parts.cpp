// The geometry of planes, and copies.
#include "device/cpu/planar_conv_parts.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/convert.h"
#include "device/cpu/transpose.h"

namespace calor::cpu::planar {
namespace {

using direct::spatial;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

Dims pitches(const Dims& extents) {
    Dims pitch(extents.rank(), 1);
    for (std::int64_t i = extents.rank() - 1; i > 0; --i) pitch[i - 1] = pitch[i] * extents[i];
    return pitch;
}

/// Forward and the weight gradient: tap k of result q reads q stride + k dilation, which is (k dilation) / stride past
/// q in the plane of its remainder.
Plan gather_plan(const Problem& p, const Dims& weight_strides) {
    Plan plan;
    Planes& planes = plan.planes;
    const std::int64_t n = p.axes();
    const Dims sizes = spatial(*p.y.shape), kernel = spatial(*p.w.shape);
    std::vector<std::vector<std::int64_t>> phases(static_cast<std::size_t>(n));
    Dims counts;
    for (std::int64_t i = 0; i < n; ++i) {
        auto& list = phases[static_cast<std::size_t>(i)];
        for (std::int64_t k = 0; k < kernel[i]; ++k) list.push_back(k * p.s.dilation[i] % p.s.stride[i]);
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
        counts.push_back(std::ssize(list));
        planes.low.push_back(-p.s.pad_low[i]);
        planes.step.push_back(p.s.stride[i]);
        planes.extents.push_back(sizes[i] + (kernel[i] - 1) * p.s.dilation[i] / p.s.stride[i]);
    }
    planes.pitch = pitches(planes.extents);
    Dims index(n, 0);
    do {
        Dims phase;
        for (std::int64_t i = 0; i < n; ++i)
            phase.push_back(phases[static_cast<std::size_t>(i)][static_cast<std::size_t>(index[i])]);
        planes.phases.push_back(std::move(phase));
    } while (next(index, counts));
    Pass pass{{}, sizes, Dims(n, 0), Dims(n, 1)};
    index = Dims(n, 0);
    do {
        Tap tap{0, 0, 0};
        for (std::int64_t i = 0; i < n; ++i) {
            const auto& list = phases[static_cast<std::size_t>(i)];
            const std::int64_t reach = index[i] * p.s.dilation[i];
            tap.plane = tap.plane * counts[i] +
                        (std::lower_bound(list.begin(), list.end(), reach % p.s.stride[i]) - list.begin());
            tap.at += reach / p.s.stride[i] * planes.pitch[i];
            tap.weight += index[i] * weight_strides[i];
        }
        pass.taps.push_back(tap);
    } while (next(index, kernel));
    plan.passes.push_back(std::move(pass));
    return plan;
}

/// The input gradient: gx[f + m stride] takes tap k from gy[m + (f + pad - k dilation) / stride] where that divides.
Plan scatter_plan(const Problem& p, const Dims& weight_strides) {
    Plan plan;
    Planes& planes = plan.planes;
    const std::int64_t n = p.axes();
    const direct::Window window = direct::window_of(p);
    planes.low = window.low;
    planes.step = Dims(n, 1);
    planes.extents = window.extents;
    planes.pitch = pitches(planes.extents);
    planes.phases.push_back(Dims(n, 0));
    Dims counts = p.s.stride;  // a stride beyond the input has phases without results
    for (std::int64_t i = 0; i < n; ++i) counts[i] = std::min(counts[i], p.x.size(i + 2));
    Dims f(n, 0);
    do {
        Pass pass{{{0, 0, 0}}, {}, f, p.s.stride};
        for (std::int64_t i = 0; i < n; ++i) {
            pass.sizes.push_back(ceil_div(p.x.size(i + 2) - f[i], p.s.stride[i]));
            std::vector<Tap> longer;
            for (const Tap& tap : pass.taps) {
                for (std::int64_t k = p.w.size(i + 2); k-- > 0;) {  // from the last: in the order of memory
                    const std::int64_t reach = f[i] + p.s.pad_low[i] - k * p.s.dilation[i];
                    if (reach % p.s.stride[i] != 0) continue;
                    longer.push_back({0, tap.at + (reach / p.s.stride[i] - window.low[i]) * planes.pitch[i],
                                      tap.weight + k * weight_strides[i]});
                }
            }
            pass.taps = std::move(longer);
        }
        plan.passes.push_back(std::move(pass));
    } while (next(f, counts));
    return plan;
}

/// Rows of adjacent elements, converted by loops that know the processor.
template <class T> void widen_row(const T* from, float* to, std::int64_t count) {
    if constexpr (std::is_same_v<T, float>) {
        std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
    } else if constexpr (std::is_same_v<T, bfloat16>) {
        kernels().widen(&from->bits, to, count);
    } else {
        static const TileKernel convert = find_convert(dtype_of<T>, f32);
        const void* const in[] = {from};
        convert(in, to, count, nullptr);
    }
}

template <class T> void narrow_row(const float* from, T* to, std::int64_t count) {
    if constexpr (std::is_same_v<T, float>) {
        std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
    } else if constexpr (std::is_same_v<T, bfloat16>) {
        kernels().narrow(from, &to->bits, count);
    } else {
        static const TileKernel convert = find_convert(f32, dtype_of<T>);
        const void* const in[] = {from};
        convert(in, to, count, nullptr);
    }
}

constexpr std::int64_t tile_pixels = 32, tile_channels = 64;

/// Calls body(tile, channel, channels, pixel, pixels) for pieces of both axes, with memory for f32 [pixels][channels].
template <class F> void for_tiles(std::int64_t pixels, std::int64_t channels, const F& body) {
    alignas(64) float tile[tile_pixels * tile_channels];
    for (std::int64_t c = 0; c < channels; c += tile_channels)
        for (std::int64_t i = 0; i < pixels; i += tile_pixels)
            body(tile, c, std::min(tile_channels, channels - c), i, std::min(tile_pixels, pixels - i));
}

/// to[c * to_step + i] = from[i * from_step + c].
template <class T>
void split_channels(const T* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t pixels,
                    std::int64_t channels) {
    if constexpr (!std::is_same_v<T, float16>) return transpose(from, from_step, to, to_step, pixels, channels);
    for_tiles(pixels, channels,
              [&](float* tile, std::int64_t c, std::int64_t some, std::int64_t i, std::int64_t count) {
                  for (std::int64_t r = 0; r < count; ++r)
                      widen_row(from + (i + r) * from_step + c, tile + r * tile_channels, some);
                  transpose(tile, tile_channels, to + c * to_step + i, to_step, count, some);
              });
}

/// to[i * to_step + c] = from[c * from_step + i].
template <class T>
void join_channels(const float* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t pixels,
                   std::int64_t channels) {
    if constexpr (!std::is_same_v<T, float16>) return transpose(from, from_step, to, to_step, channels, pixels);
    for_tiles(pixels, channels,
              [&](float* tile, std::int64_t c, std::int64_t some, std::int64_t i, std::int64_t count) {
                  transpose(from + c * from_step + i, from_step, tile, tile_channels, some, count);
                  for (std::int64_t r = 0; r < count; ++r)
                      narrow_row(tile + r * tile_channels, to + (i + r) * to_step + c, some);
              });
}

template <class T> void copy_row(const T* from, std::int64_t from_step, float* to, std::int64_t count) {
    if (from_step == 1) return widen_row(from, to, count);
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i * from_step]);
}

template <class T> void store_row(const float* from, T* to, std::int64_t to_step, std::int64_t count) {
    if (to_step == 1) return narrow_row(from, to, count);
    for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = T(from[i]);
}

/// Zeros; mostly none or one.
inline void clear(float* to, std::int64_t count) {
    if (count == 1) {
        *to = 0;
    } else if (count > 1) {
        std::fill(to, to + count, 0.0F);
    }
}

/// The indices [begin, end) along an axis whose source positions are inside.
struct Range {
    std::int64_t begin, end;
};
Range inside(const Planes& planes, const Dims& phase, std::int64_t axis, std::int64_t size) {
    const std::int64_t at = planes.low[axis] + phase[axis], step = planes.step[axis];
    return {ceil_div(-at, step), ceil_div(size - at, step)};
}

/// The part's indices along an axis.
Range part_range(const Part& part, std::int64_t axis, std::int64_t extent) {
    return axis == 0 ? Range{part.row, part.row + part.rows} : Range{0, extent};
}

/// The axes before the last two, of which axis 0 has only the part's rows; 1 for the others.
Dims outer_sizes(const Dims& extents, std::int64_t rows) {
    Dims sizes(std::max<std::int64_t>(extents.rank() - 2, 1), 1);
    for (std::int64_t i = 0; i + 2 < extents.rank(); ++i) sizes[i] = i == 0 ? rows : extents[i];
    return sizes;
}

/// Some rows of one plane: `rows` from row `first` on, each with `left` zeros, `count` elements, `right` zeros.
struct RowCopy {
    std::int64_t from_row, from_step, to_row, channel_from, channel_to, channels;
    std::int64_t left, count, right;
    bool split;
};

template <class T> void copy_rows(const RowCopy& r, const T* from, float* to, std::int64_t rows) {
    if (!r.split && r.from_step == 1 && !std::is_same_v<T, float16>) {
        for (std::int64_t c = 0; c < r.channels; ++c)
            kernels().pad_rows({from + c * r.channel_from, std::is_same_v<T, bfloat16>, r.from_row,
                                to + c * r.channel_to, r.to_row, rows, r.left, r.count, r.right});
        return;
    }
    for (std::int64_t i = 0; i < rows; ++i, from += r.from_row, to += r.to_row) {
        for (std::int64_t c = 0; c < r.channels; ++c) {
            float* const row = to + c * r.channel_to;
            clear(row, r.left);
            clear(row + r.left + r.count, r.right);
            if (!r.split) copy_row(from + c * r.channel_from, r.from_step, row + r.left, r.count);
        }
        if (r.split) split_channels(from, r.from_step, to + r.left, r.channel_to, r.count, r.channels);
    }
}

void clear_rows(const RowCopy& r, float* to, std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; ++i, to += r.to_row)
        for (std::int64_t c = 0; c < r.channels; ++c) clear(to + c * r.channel_to, r.left + r.count + r.right);
}

template <class T>
void to_planes_as(const View& from, const Planes& planes, const Part& part, float* to, std::int64_t plane_step) {
    const std::int64_t n = planes.axes(), last = n - 1, row_axis = n - 2;
    const T* const image = from.as<const T>() + part.image * from.stride(0) + part.channel * from.stride(1);
    const Dims outer = outer_sizes(planes.extents, part.rows);
    const Range columns = part_range(part, last, planes.extents[last]);
    const Range rows = n == 1 ? Range{0, 1} : part_range(part, row_axis, planes.extents[row_axis]);
    RowCopy r{};
    r.from_step = planes.step[last] * from.stride(last + 2);
    r.from_row = n == 1 ? 0 : planes.step[row_axis] * from.stride(row_axis + 2);
    r.to_row = n == 1 ? 0 : planes.pitch[row_axis];
    r.channel_from = from.stride(1);
    r.channel_to = planes.count() * plane_step;
    r.channels = part.channels;
    r.split = from.stride(1) == 1 && part.channels > 1;
    for (std::int64_t f = 0; f < planes.count(); ++f, to += plane_step) {
        const Dims& phase = planes.phases[static_cast<std::size_t>(f)];
        const Range wide = inside(planes, phase, last, from.size(last + 2));
        const std::int64_t begin = std::clamp(wide.begin, columns.begin, columns.end);
        const std::int64_t end = std::clamp(wide.end, begin, columns.end);
        r.left = begin - columns.begin;
        r.count = end - begin;
        r.right = columns.end - end;
        Range high = n == 1 ? rows : inside(planes, phase, row_axis, from.size(row_axis + 2));
        high.begin = std::clamp(high.begin, rows.begin, rows.end);
        high.end = std::clamp(high.end, high.begin, rows.end);
        std::int64_t start = (planes.low[last] + phase[last]) * from.stride(last + 2) + begin * r.from_step;
        if (n > 1)
            start += (planes.low[row_axis] + phase[row_axis]) * from.stride(row_axis + 2) + high.begin * r.from_row;
        Dims index(outer.rank(), 0);
        do {
            std::int64_t offset = start;
            float* target = to;
            bool any = r.count > 0;
            for (std::int64_t i = 0; i < row_axis; ++i) {
                const std::int64_t m = index[i] + (i == 0 ? part.row : 0);
                const std::int64_t at = planes.low[i] + phase[i] + m * planes.step[i];
                any = any && at >= 0 && at < from.size(i + 2);
                offset += at * from.stride(i + 2);
                target += index[i] * planes.pitch[i];
            }
            const std::int64_t above = any ? high.begin - rows.begin : rows.end - rows.begin;
            clear_rows(r, target, above);
            if (!any) continue;
            const std::int64_t count = high.end - high.begin;
            if (count > 0) copy_rows(r, image + offset, target + above * r.to_row, count);
            clear_rows(r, target + (above + count) * r.to_row, rows.end - high.end);
        } while (next(index, outer));
    }
}

template <class T>
void from_planes_as(const float* from, std::int64_t plane_step, const Planes& planes, const Pass& pass,
                    const Part& part, const View& to) {
    const std::int64_t n = planes.axes(), last = n - 1, row_axis = n - 2;
    const bool join = to.stride(1) == 1 && part.channels > 1;
    const Dims outer = outer_sizes(pass.sizes, part.rows);
    const Range columns = part_range(part, last, pass.sizes[last]);
    const Range rows = n == 1 ? Range{0, 1} : part_range(part, row_axis, pass.sizes[row_axis]);
    const std::int64_t step = pass.step[last] * to.stride(last + 2), count = columns.end - columns.begin;
    const std::int64_t from_row = n == 1 ? 0 : planes.pitch[row_axis];
    const std::int64_t to_row = n == 1 ? 0 : pass.step[row_axis] * to.stride(row_axis + 2);
    T* image = to.as<T>() + part.image * to.stride(0) + part.channel * to.stride(1);
    image += pass.first[last] * to.stride(last + 2) + columns.begin * step;
    if (n > 1) image += pass.first[row_axis] * to.stride(row_axis + 2) + rows.begin * to_row;
    Dims index(outer.rank(), 0);
    do {
        const float* source = from;
        T* target = image;
        for (std::int64_t i = 0; i < row_axis; ++i) {
            const std::int64_t m = index[i] + (i == 0 ? part.row : 0);
            source += index[i] * planes.pitch[i];
            target += (pass.first[i] + m * pass.step[i]) * to.stride(i + 2);
        }
        for (std::int64_t row = rows.begin; row < rows.end; ++row, source += from_row, target += to_row) {
            if (join) {
                join_channels(source, plane_step, target, step, count, part.channels);
                continue;
            }
            for (std::int64_t c = 0; c < part.channels; ++c)
                store_row(source + c * plane_step, target + c * to.stride(1), step, count);
        }
    } while (next(index, outer));
}

}  // namespace

bool next(Dims& index, const Dims& sizes) {
    for (std::int64_t i = sizes.rank(); i-- > 0;) {
        if (++index[i] < sizes[i]) return true;
        index[i] = 0;
    }
    return false;
}

Plan make_plan(const Problem& p, const Dims& weight_strides) {
    Plan plan = p.role == ConvRole::input_grad ? scatter_plan(p, weight_strides) : gather_plan(p, weight_strides);
    for (const Pass& pass : plan.passes) {
        plan.rows = std::max(plan.rows, pass.sizes[0]);
        for (const Tap& tap : pass.taps) plan.reach = std::max(plan.reach, tap.at / plan.planes.pitch[0]);
    }
    return plan;
}

std::int64_t length_of(const Planes& planes, const Dims& sizes, std::int64_t rows) {
    std::int64_t last = (rows - 1) * planes.pitch[0];
    for (std::int64_t i = 1; i < planes.axes(); ++i) last += (sizes[i] - 1) * planes.pitch[i];
    return last + 1;
}

void to_planes(const View& from, const Planes& planes, const Part& part, float* to, std::int64_t plane_step) {
    switch (from.dtype) {
        case bf16: return to_planes_as<bfloat16>(from, planes, part, to, plane_step);
        case f16: return to_planes_as<float16>(from, planes, part, to, plane_step);
        default: return to_planes_as<float>(from, planes, part, to, plane_step);
    }
}

void from_planes(const float* from, std::int64_t plane_step, const Planes& planes, const Pass& pass, const Part& part,
                 const View& to) {
    switch (to.dtype) {
        case bf16: return from_planes_as<bfloat16>(from, plane_step, planes, pass, part, to);
        case f16: return from_planes_as<float16>(from, plane_step, planes, pass, part, to);
        default: return from_planes_as<float>(from, plane_step, planes, pass, part, to);
    }
}

std::int64_t groups_together(const Problem& p) {
    const std::int64_t least = std::min(p.group_in(), p.group_out());
    const bool apart = p.x.stride(1) != 1 && p.y.stride(1) != 1;
    const std::int64_t line = 64 / size_of(p.x.dtype);  // channels of a pixel in a cache line
    return apart || least >= line ? 1 : std::min(p.s.groups, (line + least - 1) / least);
}

}  // namespace calor::cpu::planar
