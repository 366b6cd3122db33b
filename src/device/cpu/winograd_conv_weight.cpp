// The weight gradient: x and gy to 36 planes, products of both summed over tiles in each (by the kernels of the direct
// convolution), planes to 3 x 3 taps. A thread has points and panels of outputs to itself, so every sum has one order.
#include <algorithm>

#include "device/cpu/direct_conv_kernels.h"
#include "device/cpu/parallel.h"
#include "device/cpu/winograd_conv_parts.h"

namespace calor::cpu::winograd {
namespace {

constexpr std::int64_t block = 96;       // pixels whose products are summed in registers
constexpr std::int64_t bias_parts = 16;  // partial sums of the bias gradient

/// sums[point][panel][tap of the other axes][input channel][width].
struct Sums {
    explicit Sums(const Frame& f)
        : width(direct::kernels().width),
          panels((f.out + width - 1) / width),
          panel(f.kernels * f.in * width),
          point(panels * panel),
          memory(points * point * size_of(f32)) {
        parallel_for(points * panels, 1, [&](std::int64_t begin, std::int64_t end) {
            std::fill(memory.floats() + begin * panel, memory.floats() + end * panel, 0.0F);
        });
    }
    std::int64_t width, panels, panel, point;
    Scratch memory;
};

struct Steps {
    std::int64_t in, out, in_point, out_point;
};

/// Adds the products of a chunk.
void add_products(const Frame& f, const Chunk& chunk, const Steps& steps, const float* data, const float* grads,
                  const Sums& sums) {
    const Dims dilation(std::span(f.dilation.begin(), f.dilation.end() - 2));
    Dims plane_steps = f.plane_steps(), sizes{chunk.images}, in_steps{f.planes * chunk.tiles * steps.in};
    for (std::int64_t a = 0; a < plane_steps.rank(); ++a) {
        plane_steps[a] *= chunk.tiles * steps.in;
        sizes.push_back(f.outer_result[a]);
        in_steps.push_back(plane_steps[a]);
    }
    const Offsets tap_at =
        direct::with_channels(direct::grid(f.outer_kernel, direct::times(plane_steps, dilation)), f.in);
    sizes.push_back(chunk.tiles);
    in_steps.push_back(steps.in);
    const Offsets in_at = direct::grid(sizes, in_steps);
    const auto pixels = std::ssize(in_at);
    const std::int64_t blocks = (pixels + block - 1) / block;
    parallel_for(points * sums.panels, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t point = i / sums.panels, output = i % sums.panels * sums.width;
            for (std::int64_t b = 0; b < blocks; ++b) {
                const std::int64_t q = pixels * b / blocks, count = pixels * (b + 1) / blocks - q;
                const direct::Outer outer{data + point * steps.in_point,
                                          in_at.data() + q,
                                          grads + point * steps.out_point + q * steps.out + output,
                                          steps.out,
                                          count,
                                          tap_at.data(),
                                          sums.memory.floats() + i * sums.panel,
                                          std::min(sums.width, f.out - output)};
                direct::kernels().outer(outer, 0, std::ssize(tap_at));
            }
        }
    });
}

void write_weights(const Problem& p, const Frame& f, const Sums& sums) {
    const bool in_place = p.w.dtype == f32;
    const Strides strides = in_place ? *p.w.strides : dense_like(*p.w.shape, *p.w.strides);
    const Scratch copy(in_place ? 0 : direct::product(*p.w.shape) * size_of(f32));
    float* const result = in_place ? p.w.as<float>() : copy.floats();
    const Dims steps = direct::spatial(strides);
    const std::int64_t n = p.axes();
    const Offsets outer = direct::grid(f.outer_kernel, Dims(std::span(steps.begin(), steps.end() - 2)));
    const Offsets inner = direct::grid({taps, taps}, {steps[n - 2], steps[n - 1]});
    parallel_for(sums.panels * f.kernels * f.in, 64, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> row(static_cast<std::size_t>(taps * taps * sums.width));
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = i / (f.kernels * f.in) * sums.width, some = std::min(sums.width, f.out - first);
            kernels().collect_taps(sums.memory.floats() + i * sums.width, sums.point, sums.width, row.data());
            float* const to = result + first * strides[0] + i % f.in * strides[1] +
                              outer[static_cast<std::size_t>(i / f.in % f.kernels)];
            const float* from = row.data();
            for (const std::int32_t at : inner) {
                for (std::int64_t o = 0; o < some; ++o) to[at + o * strides[0]] = from[o];
                from += sums.width;
            }
        }
    });
    if (!in_place) unpack(result, strides, p.w);
}

/// Adds the rows of a chunk's images to [part][channel]; which part a row goes to depends on shapes alone.
void add_bias(const Frame& f, const Chunk& chunk, const Pixels& pixels, const char* first, double* sums) {
    const std::int64_t last = f.result.rank() - 1, columns = f.result.size(last);
    const std::int64_t lines = f.result.size(last - 1), rows = chunk.images * f.outer * lines;
    const std::vector<std::int64_t> planes = f.result_planes(pixels.strides);
    parallel_for(bias_parts, 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> row(static_cast<std::size_t>(f.out));
        for (std::int64_t part = begin; part < end; ++part) {
            for (std::int64_t i = rows * part / bias_parts; i < rows * (part + 1) / bias_parts; ++i) {
                std::fill(row.begin(), row.end(), 0.0F);
                const std::int64_t at = i / lines / f.outer * pixels.strides[0] +
                                        planes[static_cast<std::size_t>(i / lines % f.outer)] +
                                        i % lines * pixels.strides[last - 1];
                kernels().total(first + at * size_of(pixels.half ? bf16 : f32), pixels.half, pixels.strides[last],
                                columns, f.out, row.data());
                for (std::int64_t c = 0; c < f.out; ++c)
                    sums[part * f.out + c] += static_cast<double>(row[static_cast<std::size_t>(c)]);
            }
        }
    });
}

}  // namespace

void run_weight_grad(const Problem& p) {
    const Frame f(p);
    Steps steps{pixel_step(f.in), pixel_step(f.out), 0, 0};
    const std::vector<Chunk> chunks = chunks_of(f, points * (f.planes * steps.in + f.outer * steps.out));
    std::int64_t most = 0, images = 0;
    for (const Chunk& chunk : chunks) {
        most = std::max(most, chunk.images * chunk.tiles);
        images = std::max(images, chunk.images);
    }
    const Pixels x(p.x, images), y(p.y, images);
    const Offsets data_at = f.source_pixels(x.strides), grads_at = f.result_pixels(y.strides);
    const std::vector<std::int64_t> data_planes = f.source_planes(x.strides), grad_planes = f.result_planes(y.strides);
    steps.in_point = point_step(most * f.planes * steps.in);
    steps.out_point = point_step(most * f.outer * steps.out);
    const Scratch memory(points * (steps.in_point + steps.out_point) * size_of(f32));
    float *const data = memory.floats(), *const grads = data + points * steps.in_point;
    const Sums sums(f);
    std::vector<double> bias(p.bias != nullptr ? static_cast<std::size_t>(bias_parts * f.out) : 0);
    const char *first_x = nullptr, *first_y = nullptr;
    for (const Chunk& chunk : chunks) {
        if (chunk.tile == 0) {
            first_x = x.get(chunk.image, chunk.images);
            first_y = y.get(chunk.image, chunk.images);
            if (!bias.empty()) add_bias(f, chunk, y, first_y, bias.data());
        }
        run_spread({chunk, x, first_x, data_at, data_planes, f.in, steps.in, steps.in_point, true, false}, data);
        run_spread({chunk, y, first_y, grads_at, grad_planes, f.out, steps.out, steps.out_point, false, true}, grads);
        add_products(f, chunk, steps, data, grads, sums);
    }
    write_weights(p, f, sums);
    if (p.bias == nullptr) return;
    std::vector<float> total(static_cast<std::size_t>(f.out));
    for (std::int64_t c = 0; c < f.out; ++c) {
        double sum = 0;
        for (std::int64_t part = 0; part < bias_parts; ++part) sum += bias[static_cast<std::size_t>(part * f.out + c)];
        total[static_cast<std::size_t>(c)] = static_cast<float>(sum);
    }
    unpack(total.data(), Dims{1}, *p.bias);
}

}  // namespace calor::cpu::winograd
