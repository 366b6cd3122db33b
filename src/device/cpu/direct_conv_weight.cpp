// The weight gradient of the direct convolution: gw[t] = sum over images, then pixels q, of xp[q stride + t dilation]
// gy[q]. Images are dealt to a few partial sums, which are added in order at the end.
#include <algorithm>

#include "calor/device.h"
#include "device/cpu/direct_conv_kernels.h"
#include "device/cpu/direct_conv_parts.h"
#include "device/cpu/parallel.h"
#include "device/cpu/transpose.h"

namespace calor::cpu::direct {
namespace {

constexpr std::int64_t chunk_floats = 1 << 21;  // copies of images are made for this much at a time, or for one image
constexpr std::int64_t pixel_block = 96;        // at most: a block of a gradient panel stays in the first-level cache

/// Partial sums: image i belongs to part i % parts. The number of parts depends on shapes alone.
struct Sums {
    std::int64_t parts, panels, taps, width, stride;  ///< stride between parts, in floats
    Scratch buffer;
    float* at(std::int64_t part, std::int64_t group, std::int64_t panel) const {
        return buffer.floats() + part * stride + (group * panels + panel) * taps * width;
    }
};

Sums make_sums(const Problem& p, std::int64_t taps) {
    Sums s{};
    s.width = kernels().width;
    s.panels = (p.group_out() + s.width - 1) / s.width;
    s.taps = taps;
    s.stride = p.s.groups * s.panels * taps * s.width;
    s.parts = std::clamp<std::int64_t>(chunk_floats / s.stride, 1, std::min<std::int64_t>(p.images(), 8));
    while (p.images() < 8 * s.parts && p.images() % s.parts != 0) --s.parts;  // of equal work
    s.buffer = Scratch(s.parts * s.stride * size_of(f32));
    parallel_for(s.parts * s.stride, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        std::fill(s.buffer.floats() + begin, s.buffer.floats() + end, 0.0F);
    });
    return s;
}

/// Adds the parts in order and writes gw [O, C/g, K...], which lies at `weight_at` and `strides`.
void reduce_sums(const Problem& p, const Sums& s, const Offsets& weight_at, const Strides& strides) {
    const bool direct = p.w.dtype == f32;
    const Scratch copy(direct ? 0 : product(*p.w.shape) * size_of(f32));
    float* const out = direct ? p.w.as<float>() : copy.floats();
    const std::int64_t channels = p.group_in(), outputs = p.group_out();
    bool adjacent = true;
    for (std::size_t t = 0; t < weight_at.size(); ++t)
        adjacent = adjacent && weight_at[t] == static_cast<std::int32_t>(t);
    parallel_for(p.s.groups * s.panels, std::max<std::int64_t>(1, (1 << 16) / (s.taps * s.width * s.parts)),
                 [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                         const std::int64_t group = i / s.panels, panel = i % s.panels, first = panel * s.width;
                         float* const total = s.at(0, group, panel);
                         for (std::int64_t part = 1; part < s.parts; ++part) {
                             const float* const more = s.at(part, group, panel);
                             for (std::int64_t k = 0; k < s.taps * s.width; ++k) total[k] += more[k];
                         }
                         float* const base = out + (group * outputs + first) * strides[0];
                         const std::int64_t some = std::min(s.width, outputs - first);
                         if (adjacent) {  // the taps of a channel
                             for (std::int64_t c = 0; c < channels; ++c)
                                 transpose(total + c * s.width, channels * s.width, base + c * strides[1], strides[0],
                                           std::ssize(weight_at), some);
                             continue;
                         }
                         for (std::int64_t k = 0; k < s.taps; ++k) {
                             float* const to =
                                 base + weight_at[static_cast<std::size_t>(k / channels)] + k % channels * strides[1];
                             for (std::int64_t o = 0; o < some; ++o) to[o * strides[0]] = total[k * s.width + o];
                         }
                     }
                 });
    if (!direct) unpack(out, strides, p.w);
}

/// sums[width] += the sum over pixels of grad[pixel][width]: f32 within a block, f64 across.
void add_bias(const float* grad, std::int64_t step, std::int64_t count, std::int64_t width, double* sums) {
    float block[64] = {};
    for (std::int64_t i = 0; i < count; ++i, grad += step)
        for (std::int64_t o = 0; o < width; ++o) block[o] += grad[o];
    for (std::int64_t o = 0; o < width; ++o) sums[o] += static_cast<double>(block[o]);
}

/// The distance between pixels, when it is one and the same and spreads them over the first-level cache; else 0.
std::int64_t pixel_step(const Input& in, const Dims& sizes) {
    const std::int64_t last = sizes.rank() - 1, step = in.steps[last];
    std::int64_t next = step;
    for (std::int64_t i = last; i >= 0; next *= sizes[i--])
        if (sizes[i] != 1 && in.steps[i] != next) return 0;
    return step > 0 && step % 64 != 0 ? step : 0;
}

struct WeightGrad {
    const Problem& p;
    const Input &x, &gy;
    Offsets in_at, grad_at, taps;
    const Sums& sums;
    /// grad_step: distance of pixels when whole panels of the gradient are used where they lie, else 0.
    std::int64_t tap_blocks, grad_step;
    double* bias;  ///< [part][group][panel][width], or null

    static constexpr std::int64_t tap_block = 24;
    std::int64_t pixels() const { return static_cast<std::int64_t>(in_at.size()); }
    std::int64_t tiles() const { return p.s.groups * sums.panels * tap_blocks; }
};

/// to[pixel][width] = one panel of the gradient at pixels [q, q + count); zeros past the outputs.
void pack_grad(const WeightGrad& g, const float* grad, std::int64_t q, std::int64_t count, std::int64_t outputs,
               float* to) {
    const std::int64_t width = g.sums.width;
    constexpr std::int64_t piece = 8;
    const bool pieces = outputs == width && width % piece == 0;
    for (std::int64_t i = 0; i < count; ++i, to += width) {
        const float* const from = grad + g.grad_at[static_cast<std::size_t>(q + i)];
        if (pieces) {
            for (std::int64_t o = 0; o < width; o += piece) std::copy_n(from + o, piece, to + o);
        } else {
            std::fill(std::copy_n(from, outputs, to), to + width, 0.0F);
        }
    }
}

/// Tiles [from, to) of a part over one image: panel by panel of the gradient, block of taps by block.
void add_image(const WeightGrad& g, const float* in, const float* grad, std::int64_t part, std::int64_t from,
               std::int64_t to, float* packed) {
    const std::int64_t width = g.sums.width;
    const std::int64_t pieces = (g.pixels() + pixel_block - 1) / pixel_block;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const std::int64_t q = g.pixels() * piece / pieces, count = g.pixels() * (piece + 1) / pieces - q;
        for (std::int64_t tile = from; tile < to;) {
            const std::int64_t panel = tile / g.tap_blocks % g.sums.panels, group = tile / g.tap_blocks / g.sums.panels;
            const std::int64_t output = panel * width, outputs = std::min(width, g.p.group_out() - output);
            const float* b = grad + group * g.p.group_out() + output;
            std::int64_t step = g.grad_step;
            if (step != 0 && outputs == width) {
                b += g.grad_at[static_cast<std::size_t>(q)];
            } else {
                pack_grad(g, b, q, count, outputs, packed);
                b = packed;
                step = width;
            }
            const std::int64_t column = (part * g.p.s.groups + group) * g.sums.panels + panel;
            if (g.bias != nullptr && tile % g.tap_blocks == 0) add_bias(b, step, count, width, g.bias + column * width);
            const std::int64_t first = tile % g.tap_blocks, blocks = std::min(to - tile, g.tap_blocks - first);
            const Outer outer{in + group * g.p.group_in(),
                              g.in_at.data() + q,
                              b,
                              step,
                              count,
                              g.taps.data(),
                              g.sums.at(part, group, panel),
                              outputs};
            kernels().outer(outer, first * WeightGrad::tap_block,
                            std::min((first + blocks) * WeightGrad::tap_block, g.sums.taps));
            tile += blocks;
        }
    }
}

/// Adds all images. A thread takes some tiles of some parts and walks over their images in order.
void add_images(const WeightGrad& g) {
    const std::int64_t tiles = g.tiles(), parts = g.sums.parts, all = g.p.images();
    // Threads that have parts to themselves copy their images themselves; else they share copies.
    const bool own = parts % thread_count() == 0;
    const std::int64_t largest = std::max(g.x.image, g.gy.image);
    const std::int64_t chunk =
        own || (g.x.in_place() && g.gy.in_place()) ? all : std::clamp<std::int64_t>(chunk_floats / largest, 1, all);
    const Room shared_x(g.x, own ? 0 : chunk), shared_gy(g.gy, own ? 0 : chunk);
    for (std::int64_t first = 0; first < all; first += chunk) {
        const std::int64_t images = std::min(chunk, all - first);
        const float* const in = own ? nullptr : shared_x.get(first, images);
        const float* const grad = own ? nullptr : shared_gy.get(first, images);
        parallel_for(parts * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
            const Scratch packed(pixel_block * g.sums.width * size_of(f32));
            const Room room_x(g.x, own ? 1 : 0), room_gy(g.gy, own ? 1 : 0);
            for (std::int64_t part = begin / tiles; part * tiles < end; ++part) {
                const std::int64_t from = std::max<std::int64_t>(begin - part * tiles, 0);
                const std::int64_t to = std::min(end - part * tiles, tiles);
                for (std::int64_t n = ((part - first) % parts + parts) % parts; n < images; n += parts)
                    add_image(g, own ? room_x.get(first + n, 1) : in + n * g.x.image,
                              own ? room_gy.get(first + n, 1) : grad + n * g.gy.image, part, from, to, packed.floats());
            }
        });
    }
}

void write_bias(const Problem& p, const Sums& sums, const std::vector<double>& parts) {
    const std::int64_t padded = sums.panels * sums.width, columns = p.s.groups * padded;
    std::vector<float> bias(static_cast<std::size_t>(p.w.size(0)));
    for (std::int64_t o = 0; o < p.w.size(0); ++o) {
        double sum = 0;
        for (std::int64_t part = 0; part < sums.parts; ++part)
            sum += parts[static_cast<std::size_t>(part * columns + o / p.group_out() * padded + o % p.group_out())];
        bias[static_cast<std::size_t>(o)] = static_cast<float>(sum);
    }
    unpack(bias.data(), Dims{1}, *p.bias);
}

}  // namespace

void run_weight_grad(const Problem& p) {
    const Window window = window_of(p), whole{Dims(p.axes(), 0), spatial(*p.y.shape)};
    const Input x(p.x, window), gy(p.y, whole);
    const Offsets taps = with_channels(grid(spatial(*p.w.shape), times(x.steps, p.s.dilation)), p.group_in());
    const Sums sums = make_sums(p, static_cast<std::int64_t>(taps.size()));
    const std::int64_t columns = p.s.groups * sums.panels * sums.width;
    std::vector<double> bias(p.bias != nullptr ? static_cast<std::size_t>(sums.parts * columns) : 0);
    const WeightGrad g{p,
                       x,
                       gy,
                       grid(spatial(*p.y.shape), times(x.steps, p.s.stride)),
                       grid(spatial(*p.y.shape), gy.steps),
                       taps,
                       sums,
                       (sums.taps + WeightGrad::tap_block - 1) / WeightGrad::tap_block,
                       pixel_step(gy, spatial(*p.y.shape)),
                       bias.empty() ? nullptr : bias.data()};
    add_images(g);
    const Strides weight_strides = p.w.dtype == f32 ? *p.w.strides : dense_like(*p.w.shape, *p.w.strides);
    reduce_sums(p, sums, grid(spatial(*p.w.shape), spatial(weight_strides)), weight_strides);
    if (p.bias != nullptr) write_bias(p, sums, bias);
}

}  // namespace calor::cpu::direct
