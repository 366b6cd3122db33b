// The geometry of planes, and copies.
#include "device/cpu/planar_conv_parts.h"

#include <algorithm>
#include <bit>

#include "device/cpu/transpose.h"
#include "device/cpu/vectorize.h"

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

inline float widen(float v) { return v; }
inline float widen(bfloat16 v) { return v; }
inline float widen(float16 h) {
    const std::uint32_t magnitude = h.bits & 0x7fffU, sign = static_cast<std::uint32_t>(h.bits & 0x8000U) << 16;
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
    const std::uint32_t special = magnitude >= 0x7c00U ? 0x7f800000U : 0U;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

template <class T> inline T narrow(float v) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        const auto u = std::bit_cast<std::uint32_t>(v);
        const std::uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
        const bool nan = (u & 0x7fffffffU) > 0x7f800000U;
        bfloat16 result;
        result.bits = static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40U : rounded);
        return result;
    } else {
        return T(v);
    }
}

constexpr std::int64_t tile_pixels = 32, tile_channels = 64;

/// to[c * to_step + i] = from[i * from_step + c].
template <class T>
void split_channels(const T* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t pixels,
                    std::int64_t channels) {
    if constexpr (std::is_same_v<T, float>) {
        transpose(from, from_step, to, to_step, pixels, channels);
    } else {
        alignas(64) float tile[tile_pixels * tile_channels];
        for (std::int64_t c = 0; c < channels; c += tile_channels) {
            const std::int64_t some = std::min(tile_channels, channels - c);
            for (std::int64_t i = 0; i < pixels; i += tile_pixels) {
                const std::int64_t count = std::min(tile_pixels, pixels - i);
                for (std::int64_t r = 0; r < count; ++r) {
                    const T* const in = from + (i + r) * from_step + c;
                    float* const out = tile + r * tile_channels;
                    CALOR_VECTORIZE
                    for (std::int64_t j = 0; j < some; ++j) out[j] = widen(in[j]);
                }
                transpose(tile, tile_channels, to + c * to_step + i, to_step, count, some);
            }
        }
    }
}

/// to[i * to_step + c] = from[c * from_step + i].
template <class T>
void join_channels(const float* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t pixels,
                   std::int64_t channels) {
    if constexpr (std::is_same_v<T, float>) {
        transpose(from, from_step, to, to_step, channels, pixels);
    } else {
        alignas(64) float tile[tile_pixels * tile_channels];
        for (std::int64_t c = 0; c < channels; c += tile_channels) {
            const std::int64_t some = std::min(tile_channels, channels - c);
            for (std::int64_t i = 0; i < pixels; i += tile_pixels) {
                const std::int64_t count = std::min(tile_pixels, pixels - i);
                transpose(from + c * from_step + i, from_step, tile, tile_channels, some, count);
                for (std::int64_t r = 0; r < count; ++r) {
                    const float* const in = tile + r * tile_channels;
                    T* const out = to + (i + r) * to_step + c;
                    CALOR_VECTORIZE
                    for (std::int64_t j = 0; j < some; ++j) out[j] = narrow<T>(in[j]);
                }
            }
        }
    }
}

template <class T> void copy_row(const T* from, std::int64_t from_step, float* to, std::int64_t count) {
    if (from_step == 1) {
        CALOR_VECTORIZE
        for (std::int64_t i = 0; i < count; ++i) to[i] = widen(from[i]);
    } else if (from_step == 2) {
        CALOR_VECTORIZE
        for (std::int64_t i = 0; i < count; ++i) to[i] = widen(from[2 * i]);
    } else {
        for (std::int64_t i = 0; i < count; ++i) to[i] = widen(from[i * from_step]);
    }
}

template <class T> void store_row(const float* from, T* to, std::int64_t to_step, std::int64_t count) {
    if (to_step == 1) {
        CALOR_VECTORIZE
        for (std::int64_t i = 0; i < count; ++i) to[i] = narrow<T>(from[i]);
    } else {
        for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = narrow<T>(from[i]);
    }
}

/// All axes but the last, of which axis 0 has only the part's rows; one row when there is a single axis.
Dims outer_sizes(const Dims& extents, std::int64_t rows) {
    Dims sizes = extents;
    sizes[0] = rows;
    if (sizes.rank() == 1) return Dims(1, 1);
    sizes.erase(sizes.rank() - 1);
    return sizes;
}

/// The indices [begin, end) along an axis whose source positions are inside.
struct Range {
    std::int64_t begin, end;
};
Range inside(const Planes& planes, const Dims& phase, std::int64_t axis, std::int64_t size) {
    const std::int64_t at = planes.low[axis] + phase[axis], step = planes.step[axis];
    return {ceil_div(-at, step), ceil_div(size - at, step)};
}

template <class T>
void to_planes_as(const View& from, const Planes& planes, const Part& part, float* to, std::int64_t plane_step) {
    const std::int64_t n = planes.axes(), last = n - 1, channel_step = planes.count() * plane_step;
    const T* const image = from.as<const T>() + part.image * from.stride(0) + part.channel * from.stride(1);
    const bool split = from.stride(1) == 1 && part.channels > 1;
    const Dims outer = outer_sizes(planes.extents, part.rows);
    const std::int64_t row_begin = n == 1 ? part.row : 0,
                       row_end = n == 1 ? part.row + part.rows : planes.extents[last];
    for (std::int64_t f = 0; f < planes.count(); ++f, to += plane_step) {
        const Dims& phase = planes.phases[static_cast<std::size_t>(f)];
        const Range range = inside(planes, phase, last, from.size(last + 2));
        const std::int64_t begin = std::clamp(range.begin, row_begin, row_end);
        const std::int64_t end = std::clamp(range.end, begin, row_end);
        Dims index(outer.rank(), 0);
        do {
            std::int64_t offset = 0;
            float* target = to;
            bool any = true;
            for (std::int64_t i = 0; i < last; ++i) {
                const std::int64_t m = index[i] + (i == 0 ? part.row : 0);
                const std::int64_t at = planes.low[i] + phase[i] + m * planes.step[i];
                any = any && at >= 0 && at < from.size(i + 2);
                offset += at * from.stride(i + 2);
                target += index[i] * planes.pitch[i];
            }
            const std::int64_t first = any ? begin : row_end, past = any ? end : row_end;
            for (std::int64_t c = 0; c < part.channels; ++c) {
                float* const row = target + c * channel_step;
                std::fill(row, row + (first - row_begin), 0.0F);
                std::fill(row + (past - row_begin), row + (row_end - row_begin), 0.0F);
            }
            if (past <= first) continue;
            const std::int64_t step = planes.step[last] * from.stride(last + 2);
            const T* const source =
                image + offset + (planes.low[last] + phase[last]) * from.stride(last + 2) + first * step;
            target += first - row_begin;
            if (split) {
                split_channels(source, step, target, channel_step, past - first, part.channels);
            } else {
                for (std::int64_t c = 0; c < part.channels; ++c)
                    copy_row(source + c * from.stride(1), step, target + c * channel_step, past - first);
            }
        } while (next(index, outer));
    }
}

template <class T>
void from_planes_as(const float* from, std::int64_t plane_step, const Planes& planes, const Pass& pass,
                    const Part& part, const View& to) {
    const std::int64_t n = planes.axes(), last = n - 1;
    T* const image = to.as<T>() + part.image * to.stride(0) + part.channel * to.stride(1);
    const bool join = to.stride(1) == 1 && part.channels > 1;
    const Dims outer = outer_sizes(pass.sizes, part.rows);
    const std::int64_t step = pass.step[last] * to.stride(last + 2);
    const std::int64_t count = n == 1 ? part.rows : pass.sizes[last];
    Dims index(outer.rank(), 0);
    do {
        const float* source = from;
        T* target = image + pass.first[last] * to.stride(last + 2) + (n == 1 ? part.row * step : 0);
        for (std::int64_t i = 0; i < last; ++i) {
            const std::int64_t m = index[i] + (i == 0 ? part.row : 0);
            source += index[i] * planes.pitch[i];
            target += (pass.first[i] + m * pass.step[i]) * to.stride(i + 2);
        }
        if (join) {
            join_channels(source, plane_step, target, step, count, part.channels);
        } else {
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
