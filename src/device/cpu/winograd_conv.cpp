// Convolution and its input gradient: sources to 36 planes, a sum over channels and the other axes' taps in each (by
// the kernels of the direct convolution), planes to results. The input gradient is the convolution of gy with the taps
// in reverse order.
#include "device/cpu/winograd_conv.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "calor/device.h"
#include "device/cpu/direct_conv_classes.h"
#include "device/cpu/direct_conv_kernels.h"
#include "device/cpu/parallel.h"
#include "device/cpu/winograd_conv_parts.h"

namespace calor::cpu::winograd {
namespace {

/// Transformed weights: panels[point][panel][tap of the other axes][input channel][width], zeros past the outputs.
class Weights {
public:
    Weights(const Problem& p, const Frame& f)
        : width_(direct::kernels().width),
          panels_((f.out + width_ - 1) / width_),
          point_(panels_ * f.kernels * f.in * width_),
          floats_(points * point_ * size_of(f32)) {
        const bool back = p.role == ConvRole::input_grad;
        const direct::FloatWeights w(p.w);
        const std::int64_t out_step = w.strides[back ? 1 : 0], in_step = w.strides[back ? 0 : 1];
        Dims steps = direct::spatial(w.strides);
        std::int64_t base = 0;
        for (std::int64_t a = 0; back && a < p.axes(); ++a) {
            base += (p.w.size(a + 2) - 1) * steps[a];
            steps[a] = -steps[a];
        }
        const std::int64_t n = p.axes();
        const Offsets outer = direct::grid(f.outer_kernel, Dims(std::span(steps.begin(), steps.end() - 2)), base);
        const Offsets inner = direct::grid({taps, taps}, {steps[n - 2], steps[n - 1]});
        const std::int64_t rows = panels_ * f.kernels * f.in;
        parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end) {
            std::vector<float> row(static_cast<std::size_t>(taps * taps * width_));
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t first = i / (f.kernels * f.in) * width_, some = std::min(width_, f.out - first);
                const float* const from = w.data + first * out_step + i % f.in * in_step +
                                          outer[static_cast<std::size_t>(i / f.in % f.kernels)];
                float* to = row.data();
                for (const std::int32_t at : inner) {
                    for (std::int64_t o = 0; o < some; ++o) to[o] = from[at + o * out_step];
                    std::fill(to + some, to + width_, 0.0F);
                    to += width_;
                }
                kernels().spread_taps(row.data(), width_, floats_.floats() + i * width_, point_);
            }
        });
    }
    const float* of(std::int64_t point) const { return floats_.floats() + point * point_; }

private:
    std::int64_t width_, panels_, point_;
    Scratch floats_;
};

/// The pixels of one image of a chunk: a tile of a result plane each.
class Tables {
public:
    Tables(const Problem& p, const Frame& f, std::int64_t tiles, std::int64_t step)
        : classes(reads_of(p, f, tiles), f.in, 0.999) {
        Dims steps = f.plane_steps(), sizes = f.outer_result, places(sizes.rank(), tiles * f.out);
        for (std::int64_t a = steps.rank(); a-- > 0;) {
            steps[a] *= tiles * step;
            if (a + 1 < steps.rank()) places[a] = places[a + 1] * sizes[a + 1];
        }
        tap_at = direct::with_channels(direct::grid(f.outer_kernel, direct::times(steps, outer_dilation(f))), f.in);
        sizes.push_back(tiles);
        steps.push_back(step);
        places.push_back(f.out);
        in_at = direct::grid(sizes, steps);
        out_at = direct::grid(sizes, places);
        if (classes.list().empty()) return;
        in_at = classes.sorted(in_at);
        out_at = classes.sorted(out_at);
    }
    Offsets tap_at, in_at, out_at;
    direct::PixelClasses classes;

private:
    static Dims outer_dilation(const Frame& f) { return Dims(std::span(f.dilation.begin(), f.dilation.end() - 2)); }
    static std::vector<direct::AxisReads> reads_of(const Problem& p, const Frame& f, std::int64_t tiles) {
        std::vector<direct::AxisReads> reads;
        for (std::int64_t a = 0; a + 2 < p.axes(); ++a) {
            reads.push_back({{}, f.outer_result[a], 1, f.low[a], f.source.size(a + 2)});
            for (std::int64_t t = 0; t < f.outer_kernel[a]; ++t) reads.back().taps.push_back(t * f.dilation[a]);
        }
        reads.push_back({{0}, tiles, 1, 0, tiles});
        return reads;
    }
};

/// products[point][image][plane][tile][output] of a chunk.
void run_products(const Frame& f, const Chunk& chunk, const Tables& t, const Weights& weights, const float* data,
                  std::int64_t data_point, std::int64_t step, float* products, std::int64_t product_point) {
    direct::Gather g{};
    g.in_at = t.in_at.data();
    g.out_at = t.out_at.data();
    g.pixels = f.outer * chunk.tiles;
    g.in_image = f.planes * chunk.tiles * step;
    g.out_image = g.pixels * f.out;
    g.tap_at = t.tap_at.data();
    g.taps = std::ssize(t.tap_at);
    g.outputs = f.out;
    if (!t.classes.list().empty()) {
        g.classes = t.classes.list().data();
        g.run_length = t.classes.run_length();
    }
    const auto gather = [&](std::int64_t point, std::int64_t begin, std::int64_t end) {
        direct::Gather at_point = g;
        at_point.in = data + point * data_point;
        at_point.out = products + point * product_point;
        at_point.panels = weights.of(point);
        direct::kernels().gather(at_point, begin, end);
    };
    const std::int64_t pixels = chunk.images * g.pixels, blocks = (pixels + direct::segment - 1) / direct::segment;
    // Pixels that read fewer taps than others are work of unequal size; points are not.
    if (blocks >= 4 * thread_count() && g.classes == nullptr) {
        parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t point = 0; point < points; ++point)
                gather(point, begin * direct::segment, std::min(pixels, end * direct::segment));
        });
        return;
    }
    parallel_for(points * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
        while (begin < end) {
            const std::int64_t point = begin / blocks, until = std::min(end, (point + 1) * blocks);
            gather(point, begin % blocks * direct::segment,
                   std::min(pixels, (until - point * blocks) * direct::segment));
            begin = until;
        }
    });
}

void run_collect(const Frame& f, const Chunk& chunk, const Results& results, const Offsets& at,
                 const std::vector<std::int64_t>& planes, const float* bias, const float* products,
                 std::int64_t product_point) {
    const std::int64_t bytes = size_of(results.half ? bf16 : f32);
    parallel_for(chunk.count(f.outer), std::max<std::int64_t>(1, 512 / f.out),
                 [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                         const std::int64_t image = chunk.image + i / chunk.tiles / f.outer;
                         const std::int64_t plane = planes[static_cast<std::size_t>(i / chunk.tiles % f.outer)];
                         kernels().collect({products + i * f.out, product_point, bias,
                                            results.data + (image * results.strides[0] + plane) * bytes, results.half,
                                            at.data() + (chunk.tile + i % chunk.tiles) * tile * tile, f.out});
                     }
                 });
}

void run_gather(const Problem& p) {
    const Frame f(p);
    const Weights weights(p, f);
    const std::int64_t step = pixel_step(f.in);
    const std::vector<Chunk> chunks = chunks_of(f, points * (f.planes * step + f.outer * f.out));
    std::int64_t most = 0, images = 0;
    for (const Chunk& chunk : chunks) {
        most = std::max(most, chunk.images * chunk.tiles);
        images = std::max(images, chunk.images);
    }
    const Pixels pixels(f.source, images);
    const Results results(f.result);
    const Offsets from = f.source_pixels(pixels.strides), to = f.result_pixels(results.strides);
    const std::vector<std::int64_t> planes = f.source_planes(pixels.strides), places = f.result_planes(results.strides);
    const std::vector<float> bias = direct::dense_bias(p.bias);
    const std::int64_t data_point = point_step(most * f.planes * step),
                       product_point = point_step(most * f.outer * f.out);
    const Scratch memory(points * (data_point + product_point) * size_of(f32));
    float *const data = memory.floats(), *const products = data + points * data_point;
    std::optional<Tables> tables;
    std::int64_t tiles = 0;
    const char* first = nullptr;
    for (const Chunk& chunk : chunks) {
        if (chunk.tile == 0) first = pixels.get(chunk.image, chunk.images);
        if (chunk.tiles != tiles) tables.emplace(p, f, chunk.tiles, step);
        tiles = chunk.tiles;
        run_spread({chunk, pixels, first, from, planes, f.in, step, data_point, tables->classes.list().empty(), false},
                   data);
        run_products(f, chunk, *tables, weights, data, data_point, step, products, product_point);
        run_collect(f, chunk, results, to, places, bias.empty() ? nullptr : bias.data(), products, product_point);
    }
    results.give_back();
}

const char* check_winograd(const Problem& p) {
    if (const char* reason = direct::check(p)) return reason;
    const std::int64_t n = p.axes(), lanes = kernels().lanes;
    if (n < 2 || p.w.size(n) != taps || p.w.size(n + 1) != taps) return "kernels other than 3 x 3 along the last axes";
    if (p.s.groups != 1) return "groups";
    if (p.w.size(0) % lanes != 0 || p.w.size(1) % lanes != 0) return "channels that are not whole vectors";
    for (std::int64_t a = 0; a < n; ++a) {
        if (p.s.stride[a] != 1) return "strides";
        if (a + 2 >= n && p.s.dilation[a] != 1) return "dilation along the last axes";
    }
    const Frame f(p);
    constexpr std::int64_t most = std::int64_t{1} << 26;  // transformed numbers of one tile
    if (points * (f.planes * pixel_step(f.in) + f.outer * pixel_step(f.out)) > most) return "very many planes";
    return nullptr;
}

void require(const Problem& p) {
    if (const char* reason = check_winograd(p))
        throw std::runtime_error(std::string("Winograd convolution: ") + reason);
}

}  // namespace

const char* why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                    const ConvSettings& settings) {
    return check_winograd({role, x, w, y, bias, settings});
}

bool is_preferred(ConvRole role, const View& x, const View& w, const View& y, const ConvSettings& settings) {
    const std::int64_t n = settings.stride.rank();
    if (n < 2 || w.size(n) != taps || w.size(n + 1) != taps || settings.groups != 1) return false;
    if (w.size(0) < 8 || w.size(1) < 8) return false;
    // Tiles at the edge are computed whole, and weights are transformed once a call.
    const View& result = role == ConvRole::input_grad ? x : y;
    const auto tiles = [&](std::int64_t axis) { return (result.size(axis) + tile - 1) / tile; };
    const std::int64_t all = tiles(n) * tiles(n + 1), pixels = result.size(n) * result.size(n + 1);
    std::int64_t planes = result.size(0);
    for (std::int64_t a = 2; a < n; ++a) planes *= result.size(a);
    return 2 * points * all <= taps * taps * pixels && all * planes >= 16;
}

void forward(const View& x, const View& w, const View* bias, const View& y, const ConvSettings& settings) {
    const Problem p{ConvRole::forward, x, w, y, bias, settings};
    require(p);
    run_gather(p);
}

void input_grad(const View& gy, const View& w, const View& gx, const ConvSettings& settings, const View* bias) {
    const Problem p{ConvRole::input_grad, gx, w, gy, bias, settings};
    require(p);
    run_gather(p);
}

void weight_grad(const View& x, const View& gy, const View& gw, const View* gbias, const ConvSettings& settings) {
    const Problem p{ConvRole::weight_grad, x, gw, gy, gbias, settings};
    require(p);
    winograd::run_weight_grad(p);
}

}  // namespace calor::cpu::winograd
