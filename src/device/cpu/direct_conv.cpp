// Convolution and its input gradient: both gather, for an output pixel, from the taps of an input around it.
//   forward      y[q] = sum over taps t of xp[q stride + t dilation] w[t]
//   input_grad   for every phase f in [0, stride): gx[f + m stride] = sum over the taps with
//                (f + pad - t dilation) divisible by the stride of gyp[m + that / stride] w[t]'
#include "device/cpu/direct_conv.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "calor/device.h"
#include "device/cpu/convert.h"
#include "device/cpu/direct_conv_classes.h"
#include "device/cpu/direct_conv_kernels.h"
#include "device/cpu/direct_conv_parts.h"
#include "device/cpu/parallel.h"
#include "device/cpu/transpose.h"

namespace calor::cpu::direct {
namespace {

constexpr std::int64_t chunk_floats = 1 << 21;   // copies of images that all threads share
constexpr std::int64_t cached_floats = 1 << 16;  // copies of images that one thread works on

/// One phase's taps: where they read, relative to the pixel, and where their weights lie.
struct Taps {
    Offsets in_at, weight_at;
};

/// panels[group][panel][tap][inner channel][width] = w at the tap, output and inner channel; zeros past the outputs.
Scratch make_panels(const Taps& taps, const FloatWeights& w, std::int64_t groups, std::int64_t inner,
                    std::int64_t outputs, std::int64_t inner_step, std::int64_t output_step, std::int64_t group_step) {
    const std::int64_t width = kernels().width, panels = (outputs + width - 1) / width;
    const auto count = static_cast<std::int64_t>(taps.weight_at.size());
    Scratch buffer(groups * panels * count * inner * width * size_of(f32));
    bool adjacent = true;  // the taps of a channel
    for (std::int64_t t = 0; t < count; ++t)
        adjacent = adjacent && taps.weight_at[static_cast<std::size_t>(t)] == taps.weight_at[0] + t;
    const auto fill_panel = [&](const float* from, float* to, std::int64_t some) {
        for (std::int64_t t = 0; t < count; ++t) {
            float* const row = to + t * inner * width;
            const float* const source = from + taps.weight_at[static_cast<std::size_t>(t)];
            if (inner_step == 1) {
                transpose(source, output_step, row, width, some, inner);
            } else if (!adjacent) {
                for (std::int64_t c = 0; c < inner; ++c)
                    for (std::int64_t o = 0; o < some; ++o)
                        row[c * width + o] = source[c * inner_step + o * output_step];
            }
        }
        if (inner_step == 1 || !adjacent || count == 0) return;
        for (std::int64_t c = 0; c < inner; ++c)
            transpose(from + taps.weight_at[0] + c * inner_step, output_step, to + c * width, inner * width, some,
                      count);
    };
    parallel_for(groups * panels, std::max<std::int64_t>(1, 16384 / (count * inner * width + 1)),
                 [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                         const std::int64_t first = i % panels * width, some = std::min(width, outputs - first);
                         float* const to = buffer.floats() + i * count * inner * width;
                         if (some < width) std::fill(to, to + count * inner * width, 0.0F);
                         fill_panel(w.data + i / panels * group_step + first * output_step, to, some);
                     }
                 });
    return buffer;
}

/// bias[group][panel][width], zeros past the outputs.
std::vector<float> padded_bias(const View* bias, std::int64_t groups, std::int64_t outputs) {
    if (bias == nullptr) return {};
    const std::vector<float> dense = dense_bias(bias);
    const std::int64_t width = kernels().width, padded = (outputs + width - 1) / width * width;
    std::vector<float> all(static_cast<std::size_t>(groups * padded));
    for (std::int64_t g = 0; g < groups; ++g)
        std::copy_n(dense.begin() + g * outputs, outputs, all.begin() + g * padded);
    return all;
}

/// The output pixels of one phase: a grid of `sizes` in the output, and where each starts to read in the input.
struct Phase {
    Taps taps;
    Dims sizes, in_steps, out_steps;
    std::int64_t in_base = 0, out_base = 0;
    std::vector<AxisReads> reads;
};

/// A phase with its tables and weights laid out for the kernel.
class Prepared {
public:
    Prepared(const Problem& p, const Phase& phase, const Input& input, const Output& output, const FloatWeights& w,
             const std::vector<float>& bias)
        : out_(output.data), rounded_(output.rounded), bias_(bias), classes_(phase.reads, inner_channels(p)) {
        const bool back = p.role == ConvRole::input_grad;
        inner_ = inner_channels(p);
        outputs_ = back ? p.group_in() : p.group_out();
        panel_floats_ = (outputs_ + kernels().width - 1) / kernels().width * kernels().width;
        panels_ = make_panels(phase.taps, w, p.s.groups, inner_, outputs_, w.strides[back ? 0 : 1],
                              w.strides[back ? 1 : 0], w.strides[0] * p.group_out());
        taps_ = with_channels(phase.taps.in_at, inner_);
        in_at_ = grid(phase.sizes, phase.in_steps, phase.in_base);
        out_at_ = grid(phase.sizes, phase.out_steps, phase.out_base);
        if (!classes_.list().empty()) {
            in_at_ = classes_.sorted(in_at_);
            out_at_ = classes_.sorted(out_at_);
            base_.classes = classes_.list().data();
            base_.run_length = classes_.run_length();
        }
        base_.in_at = in_at_.data();
        base_.out_at = out_at_.data();
        base_.pixels = static_cast<std::int64_t>(in_at_.size());
        base_.in_image = input.image;
        base_.out_image = output.strides[0];
        base_.tap_at = taps_.data();
        base_.taps = static_cast<std::int64_t>(taps_.size());
        base_.outputs = outputs_;
        base_.relu = p.relu;
        const DType dtype = (back ? p.x : p.y).dtype;
        if (rounded_ != nullptr && dtype != bf16) base_.round = find_convert(f32, dtype);
    }
    std::int64_t pixels() const { return base_.pixels; }
    /// Products for one pixel and group, roughly.
    std::int64_t work() const { return (base_.taps + 8) * panel_floats_; }

    /// One group of pixels [begin, end), counted from the first pixel of image `first`, which lies at `in`.
    void run(const float* in, std::int64_t first, std::int64_t group, std::int64_t begin, std::int64_t end) const {
        Gather g = base_;
        g.in = in + group * inner_;
        const std::int64_t out = first * base_.out_image + group * outputs_;
        const Scratch rows(rounded_ != nullptr ? segment * outputs_ * size_of(f32) : 0);
        if (rounded_ != nullptr) {
            g.rounded = rounded_ + out;
            g.rows = rows.floats();
        } else {
            g.out = out_ + out;
        }
        g.panels = panels_.floats() + group * panel_floats_ * g.taps;
        g.bias = bias_.empty() ? nullptr : bias_.data() + group * panel_floats_;
        kernels().gather(g, begin, end);
    }

private:
    static std::int64_t inner_channels(const Problem& p) {
        return p.role == ConvRole::input_grad ? p.group_out() : p.group_in();
    }

    float* out_;
    std::uint16_t* rounded_;
    const std::vector<float>& bias_;
    PixelClasses classes_;
    std::int64_t inner_ = 0, outputs_ = 0, panel_floats_ = 0;
    Scratch panels_;
    Offsets taps_, in_at_, out_at_;
    Gather base_{};
};

Phase forward_phase(const Problem& p, const Window& window, const Input& input, const Output& output,
                    const FloatWeights& w) {
    Phase phase;
    for (std::int64_t i = 0; i < p.axes(); ++i) {
        AxisReads reads{{}, p.y.size(i + 2), p.s.stride[i], window.low[i], p.x.size(i + 2)};
        for (std::int64_t t = 0; t < p.w.size(i + 2); ++t) reads.taps.push_back(t * p.s.dilation[i]);
        phase.reads.push_back(std::move(reads));
    }
    phase.taps = {grid(spatial(*p.w.shape), times(input.steps, p.s.dilation)),
                  grid(spatial(*p.w.shape), spatial(w.strides))};
    phase.sizes = spatial(*p.y.shape);
    phase.in_steps = times(input.steps, p.s.stride);
    phase.out_steps = spatial(output.strides);
    return phase;
}

/// The taps of axis `i` that reach phase f, and the output pixel they read for the phase's first pixel.
struct AxisTap {
    std::int64_t tap, at;
};

std::vector<AxisTap> axis_taps(const Problem& p, std::int64_t i, std::int64_t f, std::int64_t low) {
    std::vector<AxisTap> taps;
    for (std::int64_t t = 0; t < p.w.size(i + 2); ++t) {
        const std::int64_t distance = f + p.s.pad_low[i] - t * p.s.dilation[i];
        if (distance % p.s.stride[i] == 0) taps.push_back({t, distance / p.s.stride[i] - low});
    }
    return taps;
}

std::vector<Phase> backward_phases(const Problem& p, const Window& window, const Input& input, const Output& output,
                                   const FloatWeights& w) {
    std::vector<Phase> phases;
    const std::int64_t n = p.axes();
    Dims phase_count = p.s.stride;  // a stride beyond the input has phases without pixels
    for (std::int64_t i = 0; i < n; ++i) phase_count[i] = std::min(phase_count[i], p.x.size(i + 2));
    Dims f(n, 0);
    for (std::int64_t count = product(phase_count); count > 0; --count) {
        Phase phase;
        phase.taps.in_at = phase.taps.weight_at = {0};
        phase.in_steps = input.steps;
        phase.out_steps = times(spatial(output.strides), p.s.stride);
        for (std::int64_t i = 0; i < n; ++i) {
            phase.sizes.push_back((p.x.size(i + 2) - f[i] + p.s.stride[i] - 1) / p.s.stride[i]);
            phase.out_base += f[i] * output.strides[i + 2];
            const std::vector<AxisTap> taps = axis_taps(p, i, f[i], window.low[i]);
            AxisReads reads{{}, phase.sizes[i], 1, window.low[i], p.y.size(i + 2)};
            for (const AxisTap& tap : taps) reads.taps.push_back(tap.at);
            phase.reads.push_back(std::move(reads));
            Taps longer;
            for (std::size_t k = 0; k < phase.taps.in_at.size(); ++k)
                for (const AxisTap& tap : taps) {
                    longer.in_at.push_back(phase.taps.in_at[k] + static_cast<std::int32_t>(tap.at * input.steps[i]));
                    longer.weight_at.push_back(phase.taps.weight_at[k] +
                                               static_cast<std::int32_t>(tap.tap * w.strides[i + 2]));
                }
            phase.taps = std::move(longer);
        }
        phases.push_back(std::move(phase));
        for (std::int64_t i = n; i-- > 0;) {
            if (++f[i] < phase_count[i]) break;
            f[i] = 0;
        }
    }
    return phases;
}

/// Threads take images, which they copy to where their caches hold them.
void run_by_image(const Problem& p, const std::vector<Prepared>& phases, const Input& input, std::int64_t together) {
    parallel_for((p.images() + together - 1) / together, 1, [&](std::int64_t begin, std::int64_t end) {
        const Room room(input, together);
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = i * together, images = std::min(together, p.images() - first);
            const float* const in = room.get(first, images);
            for (const Prepared& phase : phases)
                for (std::int64_t group = 0; group < p.s.groups; ++group)
                    phase.run(in, first, group, 0, images * phase.pixels());
        }
    });
}

/// Threads take blocks of pixels of all images; several groups are several rounds of the same pixels.
void run_by_pixel(const Problem& p, const std::vector<Prepared>& phases, const Input& input) {
    constexpr std::int64_t block = 96;
    const std::int64_t chunk =
        input.in_place() ? p.images() : std::clamp<std::int64_t>(chunk_floats / input.image, 1, p.images());
    const Room room(input, chunk);
    for (std::int64_t first = 0; first < p.images(); first += chunk) {
        const std::int64_t images = std::min(chunk, p.images() - first);
        const float* const in = room.get(first, images);
        for (const Prepared& phase : phases) {
            const std::int64_t total = images * phase.pixels(), blocks = (total + block - 1) / block;
            const std::int64_t grain = std::max<std::int64_t>(1, (1 << 17) / (phase.work() * block));
            parallel_for(blocks * p.s.groups, grain, [&](std::int64_t begin, std::int64_t end) {
                while (begin < end) {
                    const std::int64_t group = begin / blocks, until = std::min(end, (group + 1) * blocks);
                    phase.run(in, first, group, (begin - group * blocks) * block,
                              std::min(total, (until - group * blocks) * block));
                    begin = until;
                }
            });
        }
    }
}

void run_gather(const Problem& p) {
    const bool back = p.role == ConvRole::input_grad;
    const Window window = window_of(p);
    const FloatWeights w(p.w);
    const Input input(back ? p.y : p.x, window);
    const Output output(back ? p.x : p.y);
    const auto bias = padded_bias(p.bias, p.s.groups, back ? p.group_in() : p.group_out());
    std::vector<Prepared> prepared;
    if (back) {
        for (const Phase& phase : backward_phases(p, window, input, output, w))
            prepared.emplace_back(p, phase, input, output, w, bias);
    } else {
        prepared.emplace_back(p, forward_phase(p, window, input, output, w), input, output, w, bias);
    }
    const std::int64_t together = std::max<std::int64_t>(1, cached_floats / input.image);
    if (!input.in_place() && p.images() >= 2 * together * thread_count()) {
        run_by_image(p, prepared, input, together);
    } else {
        run_by_pixel(p, prepared, input);
    }
    output.give_back();
}

void require(const Problem& p) {
    if (const char* reason = check(p)) throw std::runtime_error(std::string("direct convolution: ") + reason);
}

/// Calls run(problem) for every group as a problem of its own.
template <class Run> void for_groups(const Problem& p, const Run& run) {
    ConvSettings settings = p.s;
    settings.groups = 1;
    Shape x_shape = *p.x.shape, w_shape = *p.w.shape, y_shape = *p.y.shape;
    x_shape[1] = p.group_in();
    w_shape[0] = y_shape[1] = p.group_out();
    const auto part = [](const View& v, const Shape& shape, std::int64_t axis, std::int64_t group) {
        char* const data = static_cast<char*>(v.data) + group * shape[axis] * v.stride(axis) * size_of(v.dtype);
        return View{data, v.dtype, &shape, v.strides};
    };
    const Shape bias_shape{p.role == ConvRole::input_grad ? p.group_in() : p.group_out()};
    for (std::int64_t group = 0; group < p.s.groups; ++group) {
        const View x = part(p.x, x_shape, 1, group), w = part(p.w, w_shape, 0, group), y = part(p.y, y_shape, 1, group);
        View bias;
        if (p.bias != nullptr) bias = part(*p.bias, bias_shape, 0, group);
        run(Problem{p.role, x, w, y, p.bias != nullptr ? &bias : nullptr, settings, p.relu});
    }
}

/// Groups whose planes lie apart: copies of one group's channels stay in the second-level cache.
bool one_by_one(const Problem& p) {
    const bool x = p.x.stride(1) != 1, y = p.y.stride(1) != 1;
    const bool apart = p.role == ConvRole::forward ? x : p.role == ConvRole::input_grad ? y : x || y;
    return apart && p.s.groups > 1 && std::min(p.group_in(), p.group_out()) >= 8;
}

}  // namespace

const char* why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                    const ConvSettings& settings) {
    return check({role, x, w, y, bias, settings});
}

bool is_preferred(ConvRole role, const View& x, const View& w, const View& y, const ConvSettings& settings) {
    const std::int64_t axes = settings.stride.rank();
    if (axes > 3) return true;
    const bool last = x.stride(1) == 1 && y.stride(1) == 1;
    const std::int64_t inputs = w.size(1), outputs = w.size(0) / settings.groups;
    if (product(spatial(*w.shape)) == 1 || outputs < 8) return false;
    if (role == ConvRole::weight_grad) {
        // First layers: gradients are read where they lie.
        const bool first = settings.groups == 1 && inputs > 1 && last && inputs * product(spatial(*w.shape)) >= 48;
        return (inputs >= 8 || first) && (settings.groups == 1 || outputs >= 16);
    }
    if (inputs < 8 || inputs % 8 != 0 || outputs % 8 != 0) return false;
    if (settings.groups > 1) {
        const bool elsewhere = last && role == ConvRole::input_grad;  // oneDNN takes channels-last as it lies
        return axes < 3 && inputs % 16 == 0 && outputs % 16 == 0 && !elsewhere;
    }
    if (role == ConvRole::input_grad && axes == 2 && x.size(3) < 32) return false;
    return axes == 1 || (axes == 2 && last);
}

void forward(const View& x, const View& w, const View* bias, const View& y, const ConvSettings& settings, bool relu) {
    const Problem p{ConvRole::forward, x, w, y, bias, settings, relu};
    require(p);
    one_by_one(p) ? for_groups(p, run_gather) : run_gather(p);
}

void input_grad(const View& gy, const View& w, const View& gx, const ConvSettings& settings, const View* bias) {
    const Problem p{ConvRole::input_grad, gx, w, gy, bias, settings};
    require(p);
    one_by_one(p) ? for_groups(p, run_gather) : run_gather(p);
}

void weight_grad(const View& x, const View& gy, const View& gw, const View* gbias, const ConvSettings& settings) {
    const Problem p{ConvRole::weight_grad, x, gw, gy, gbias, settings};
    require(p);
    one_by_one(p) ? for_groups(p, run_weight_grad) : run_weight_grad(p);
}

}  // namespace calor::cpu::direct
