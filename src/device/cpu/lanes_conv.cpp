// Jobs, copies of bands, weights and sums in the order of the channels.
#include "device/cpu/lanes_conv.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "calor/device.h"
#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/planar_conv_parts.h"

namespace calor::cpu::lanes {
namespace {

using direct::Offsets;
using direct::Problem;
using planar::kernels;
using planar::Part;
using planar::Pass;
using planar::Plan;
using planar::Planes;
using planar::Tap;

constexpr std::int64_t cached_floats = 5 << 14;  // pixels and results of a job: 320 KiB
constexpr std::int64_t most_channels = 128;      // of a job
constexpr std::int64_t wanted_parts = 16;        // partial sums of the weight gradient, over all blocks of channels

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

void widen_row(const View& from, std::int64_t at, float* to, std::int64_t count) {
    if (from.dtype == f32) {
        std::memcpy(to, from.as<const float>() + at, static_cast<std::size_t>(count) * sizeof(float));
    } else if (from.dtype == bf16) {
        kernels().widen(from.as<const std::uint16_t>() + at, to, count);
    } else {
        const void* const in[] = {from.as<const std::uint16_t>() + at};
        find_convert(from.dtype, f32)(in, to, count, nullptr);
    }
}

void narrow_row(const float* from, const View& to, std::int64_t at, std::int64_t count) {
    if (to.dtype == f32) {
        std::memcpy(to.as<float>() + at, from, static_cast<std::size_t>(count) * sizeof(float));
    } else if (to.dtype == bf16) {
        kernels().narrow(from, to.as<std::uint16_t>() + at, count);
    } else {
        const void* const in[] = {from};
        find_convert(f32, to.dtype)(in, to.as<std::uint16_t>() + at, count, nullptr);
    }
}

/// Calls row(index) for all axes but the last, of which axis 0 has `rows`; once when there is a single axis.
template <class Row> void for_rows(const Dims& extents, std::int64_t rows, const Row& row) {
    Dims sizes = extents;
    sizes[0] = rows;
    sizes[extents.rank() - 1] = 1;
    Dims index(extents.rank(), 0);
    do row(index);
    while (planar::next(index, sizes));
}

/// Copies the part's pixels to [phase][position][pixel floats], zeros outside of the array. Channels past the part's
/// keep what they hold.
void to_pixels(const View& from, const Planes& planes, const Part& part, float* to, std::int64_t plane_step,
               std::int64_t pixel) {
    const std::int64_t n = planes.axes(), last = n - 1;
    const std::int64_t start = part.image * from.stride(0) + part.channel * from.stride(1);
    const std::int64_t column_begin = n == 1 ? part.row : 0;
    const std::int64_t columns = n == 1 ? part.rows : planes.extents[last];
    for (const Dims& phase : planes.phases) {
        for_rows(planes.extents, part.rows, [&](const Dims& index) {
            std::int64_t at = start, target = 0;
            bool any = true;
            for (std::int64_t i = 0; i < last; ++i) {
                const std::int64_t m = index[i] + (i == 0 ? part.row : 0);
                const std::int64_t source = planes.low[i] + phase[i] + m * planes.step[i];
                any = any && source >= 0 && source < from.size(i + 2);
                at += source * from.stride(i + 2);
                target += index[i] * planes.pitch[i];
            }
            if (n == 1 && index[0] > 0) return;
            float* row = to + target * pixel;
            const std::int64_t first = planes.low[last] + phase[last] + column_begin * planes.step[last];
            const std::int64_t step = planes.step[last], size = any ? from.size(last + 2) : 0;
            const std::int64_t before =
                std::clamp<std::int64_t>(first < 0 ? (-first + step - 1) / step : 0, 0, columns);
            const std::int64_t past =
                first < size ? std::clamp((size - first + step - 1) / step, before, columns) : before;
            std::fill(row, row + before * pixel, 0.0F);
            std::fill(row + past * pixel, row + columns * pixel, 0.0F);
            at += (first + before * step) * from.stride(last + 2);
            const std::int64_t distance = step * from.stride(last + 2);
            row += before * pixel;
            if (distance == pixel && part.channels == pixel) {
                widen_row(from, at, row, (past - before) * pixel);
            } else {
                for (std::int64_t i = before; i < past; ++i, at += distance, row += pixel)
                    widen_row(from, at, row, part.channels);
            }
        });
        to += plane_step * pixel;
    }
}

/// A pass with its tables, and weights [tap][channels].
struct Prepared {
    const Pass* pass;
    Offsets tap_at;
    bool squares = false;
    Scratch weights;
};

/// Where results of a pass lie in the result.
std::int64_t place_of(const Pass& pass, const View& result, const Dims& index, std::int64_t image, std::int64_t row) {
    std::int64_t at = image * result.stride(0);
    for (std::int64_t i = 0; i < index.rank(); ++i) {
        const std::int64_t m = index[i] + (i == 0 ? row : 0);
        at += (pass.first[i] + m * pass.step[i]) * result.stride(i + 2);
    }
    return at;
}

/// Puts taps in squares of 3 (along the row) by 3, when they are such squares.
bool make_squares(std::vector<Tap>& taps, const Planes& planes) {
    const std::int64_t n = planes.axes();
    if (n < 2 || taps.empty() || taps.size() % 9 != 0) return false;
    std::vector<Tap> turned;
    const std::int64_t down = taps[3].at - taps[0].at;
    for (std::size_t i = 0; i < taps.size(); ++i) {
        const Tap& first = taps[i / 9 * 9];
        const std::int64_t row = static_cast<std::int64_t>(i % 9 / 3), column = static_cast<std::int64_t>(i % 3);
        if (taps[i].plane != first.plane || taps[i].at != first.at + row * down + column) return false;
        turned.push_back(taps[i / 9 * 9 + i % 3 * 3 + i % 9 / 3]);
    }
    taps = turned;
    return true;
}

std::vector<float> dense_bias(const View* bias, std::int64_t padded) {
    if (bias == nullptr) return {};
    std::vector<float> dense(static_cast<std::size_t>(padded), 0.0F);
    pack(*bias, dense.data(), Dims{1});
    return dense;
}

/// How a problem is cut into jobs, and where a job's pixels lie.
struct Cut {
    std::int64_t channels, blocks, pixel;  ///< of a job; how many; floats of a pixel
    std::int64_t rows, bands, plane_step;  ///< plane_step in pixels
};

Cut cut_of(const Problem& p, const Plan& plan, std::int64_t jobs) {
    Cut cut{};
    const std::int64_t all = p.x.size(1);
    cut.blocks = (all + most_channels - 1) / most_channels;
    cut.channels = round_up((all + cut.blocks - 1) / cut.blocks, planar::margin);
    cut.blocks = (all + cut.channels - 1) / cut.channels;
    // Pixels a multiple of 256 bytes apart would share a few sets of the first-level cache.
    cut.pixel = cut.channels + (cut.channels % 64 == 0 ? planar::margin : 0);
    const std::int64_t pitch = plan.planes.pitch[0], planes = plan.planes.count();
    const std::int64_t fit = (cached_floats / cut.pixel - planes * plan.reach * pitch) / ((planes + 1) * pitch);
    std::int64_t rows = std::max({fit, plan.reach, std::int64_t{1}});
    const std::int64_t mine = p.images() * cut.blocks;
    if (mine < jobs) rows = std::min(rows, std::max<std::int64_t>(1, plan.rows * mine / jobs));
    cut.bands = (plan.rows + rows - 1) / rows;
    cut.rows = (plan.rows + cut.bands - 1) / cut.bands;
    cut.bands = (plan.rows + cut.rows - 1) / cut.rows;
    cut.plane_step = (cut.rows + plan.reach) * pitch;
    return cut;
}

Prepared prepare(const Problem& p, const Plan& plan, const Pass& pass, const Cut& cut, const float* weights,
                 const Strides& strides) {
    Prepared made{&pass, {}, false, {}};
    std::vector<Tap> taps = pass.taps;
    std::stable_sort(taps.begin(), taps.end(),
                     [](const Tap& a, const Tap& b) { return a.plane != b.plane ? a.plane < b.plane : a.at < b.at; });
    made.squares = make_squares(taps, plan.planes);
    const std::int64_t padded = cut.blocks * cut.channels, all = p.x.size(1);
    made.weights = Scratch((std::ssize(taps) * padded + 1) * size_of(f32));
    float* to = made.weights.floats();
    for (const Tap& tap : taps) {
        made.tap_at.push_back(static_cast<std::int32_t>((tap.plane * cut.plane_step + tap.at) * cut.pixel));
        for (std::int64_t c = 0; c < all; ++c) to[c] = weights[c * strides[0] + tap.weight];
        std::fill(to + all, to + padded, 0.0F);
        to += padded;
    }
    return made;
}

/// f32 weights with any strides.
struct Weights {
    explicit Weights(const View& v) : data(v.as<float>()), strides(*v.strides) {
        if (v.dtype == f32) return;
        strides = dense_like(*v.shape, *v.strides);
        copy = Scratch(direct::product(*v.shape) * size_of(f32));
        pack(v, copy.floats(), strides);
        data = copy.floats();
    }
    const float* data;
    Strides strides;
    Scratch copy;
};

/// The results of a pass over a band of one block of channels.
void run_pass(const Prepared& made, const Plan& plan, const Cut& cut, const Part& part, const float* in,
              const float* bias, float* rows_out, const View& result) {
    const Pass& pass = *made.pass;
    const std::int64_t n = plan.planes.axes(), last = n - 1;
    const std::int64_t step = pass.step[last] * result.stride(last + 2);
    const bool in_place = result.dtype == f32 && part.channels % kernels().lanes == 0;
    planar::ConvolveLanes c{};
    c.in_pixel = cut.pixel;
    c.tap_at = made.tap_at.data();
    c.taps = std::ssize(made.tap_at);
    c.squares = made.squares;
    c.weights = made.weights.floats() + part.channel;
    c.weight_step = cut.blocks * cut.channels;
    c.bias = bias != nullptr ? bias + part.channel : nullptr;
    c.pixels = n == 1 ? part.rows : pass.sizes[last];
    c.channels = part.channels;
    c.out_pixel = in_place ? step : cut.channels;
    const bool together = step == cut.channels && part.channels == cut.channels;
    for_rows(pass.sizes, n == 1 ? 1 : part.rows, [&](const Dims& index) {
        std::int64_t at = 0;
        for (std::int64_t i = 0; i < last; ++i) at += index[i] * plan.planes.pitch[i];
        c.in = in + at * cut.pixel;
        const std::int64_t to = place_of(pass, result, index, part.image, part.row) + part.channel * result.stride(1);
        c.out = in_place ? result.as<float>() + to : rows_out;
        kernels().convolve_lanes(c);
        if (in_place) return;
        if (together) return narrow_row(rows_out, result, to, c.pixels * cut.channels);
        for (std::int64_t i = 0; i < c.pixels; ++i)
            narrow_row(rows_out + i * cut.channels, result, to + i * step, part.channels);
    });
}

void run_gather(const Problem& p) {
    const View &source = p.role == ConvRole::input_grad ? p.y : p.x, &result = p.result();
    const Weights w(p.w);
    const Plan plan = planar::make_plan(p, direct::spatial(w.strides));
    const Cut cut = cut_of(p, plan, 2 * thread_count());
    const std::vector<float> bias = dense_bias(p.bias, cut.blocks * cut.channels);
    std::vector<Prepared> prepared;
    for (const Pass& pass : plan.passes) prepared.push_back(prepare(p, plan, pass, cut, w.data, w.strides));
    std::int64_t longest = 1;
    for (const Pass& pass : plan.passes)
        longest = std::max(longest, plan.planes.axes() == 1 ? cut.rows : pass.sizes[plan.planes.axes() - 1]);
    const std::int64_t in_floats = plan.planes.count() * cut.plane_step * cut.pixel + planar::margin;
    parallel_for(p.images() * cut.blocks * cut.bands, 1, [&](std::int64_t begin, std::int64_t end) {
        const Scratch memory((in_floats + longest * cut.channels + planar::margin) * size_of(f32));
        float *const in = memory.floats(), *const out = in + in_floats;
        std::fill(in, out, 0.0F);
        for (std::int64_t job = begin; job < end; ++job) {
            const std::int64_t image = job / (cut.blocks * cut.bands), row = job % cut.bands * cut.rows;
            const std::int64_t channel = job / cut.bands % cut.blocks * cut.channels;
            const std::int64_t channels = std::min(cut.channels, p.x.size(1) - channel);
            const std::int64_t here = std::min(cut.rows, plan.rows - row);
            to_pixels(source, plan.planes, {image, channel, channels, row, here + plan.reach}, in, cut.plane_step,
                      cut.pixel);
            for (const Prepared& made : prepared) {
                const std::int64_t some = std::min(here, made.pass->sizes[0] - row);
                if (some > 0)
                    run_pass(made, plan, cut, {image, channel, channels, row, some}, in,
                             bias.empty() ? nullptr : bias.data(), out, result);
            }
        }
    });
}

void run_weight_grad(const Problem& p) {
    const Strides strides = p.w.dtype == f32 ? *p.w.strides : dense_like(*p.w.shape, *p.w.strides);
    const Scratch copy(p.w.dtype == f32 ? 0 : direct::product(*p.w.shape) * size_of(f32));
    float* const to = p.w.dtype == f32 ? p.w.as<float>() : copy.floats();
    const Plan plan = planar::make_plan(p, direct::spatial(strides));
    const Pass& pass = plan.passes[0];
    const Cut cut = cut_of(p, plan, wanted_parts);
    const std::int64_t n = plan.planes.axes(), last = n - 1, padded = cut.blocks * cut.channels;
    const std::int64_t units = p.images() * cut.bands, taps = std::ssize(pass.taps);
    const std::int64_t parts = std::clamp<std::int64_t>((wanted_parts + cut.blocks - 1) / cut.blocks, 1, units);
    const std::int64_t rows = taps + 1;  // the last one is the bias's
    const Scratch sums(parts * rows * padded * size_of(f32));
    std::fill(sums.floats(), sums.floats() + parts * rows * padded, 0.0F);
    Offsets tap_at;
    for (const Tap& tap : pass.taps)
        tap_at.push_back(static_cast<std::int32_t>((tap.plane * cut.plane_step + tap.at) * cut.pixel));
    const std::int64_t in_floats = plan.planes.count() * cut.plane_step * cut.pixel + planar::margin;
    const std::int64_t columns = n == 1 ? cut.rows : pass.sizes[last];
    const std::vector<float> ones(static_cast<std::size_t>(cut.channels + planar::margin), 1.0F);
    parallel_for(parts * cut.blocks, 1, [&](std::int64_t begin, std::int64_t end) {
        const Scratch memory((in_floats + columns * cut.channels + planar::margin) * size_of(f32));
        float *const in = memory.floats(), *const grad = in + in_floats;
        std::fill(in, grad + columns * cut.channels + planar::margin, 0.0F);
        for (std::int64_t job = begin; job < end; ++job) {
            const std::int64_t channel = job % cut.blocks * cut.channels, part = job / cut.blocks;
            const std::int64_t channels = std::min(cut.channels, p.x.size(1) - channel);
            // Whole vectors of f32 are used where they lie.
            const bool in_place = p.y.dtype == f32 && channels % planar::margin == 0;
            planar::CorrelateLanes c{};
            c.grad = grad;
            c.grad_pixel = cut.channels;
            c.sums_step = padded;
            c.channels = channels;
            float* const mine = sums.floats() + part * rows * padded + channel;
            for (std::int64_t unit = part; unit < units; unit += parts) {
                const std::int64_t image = unit / cut.bands, row = unit % cut.bands * cut.rows;
                const std::int64_t here = std::min(cut.rows, plan.rows - row);
                to_pixels(p.x, plan.planes, {image, channel, channels, row, here + plan.reach}, in, cut.plane_step,
                          cut.pixel);
                c.pixels = n == 1 ? here : columns;
                for_rows(pass.sizes, n == 1 ? 1 : here, [&](const Dims& index) {
                    std::int64_t at = place_of(pass, p.y, index, image, row) + channel * p.y.stride(1), from = 0;
                    if (in_place) {
                        c.grad = p.y.as<const float>() + at;
                        c.grad_pixel = p.y.stride(last + 2);
                    } else {
                        for (std::int64_t i = 0; i < c.pixels; ++i, at += p.y.stride(last + 2))
                            widen_row(p.y, at, grad + i * cut.channels, channels);
                    }
                    for (std::int64_t i = 0; i < last; ++i) from += index[i] * plan.planes.pitch[i];
                    c.in = in + from * cut.pixel;
                    c.in_pixel = cut.pixel;
                    c.tap_at = tap_at.data();
                    c.taps = taps;
                    c.sums = mine;
                    kernels().correlate_lanes(c);
                    if (p.bias == nullptr) return;
                    static constexpr std::int32_t here_at = 0;
                    c.in = ones.data();
                    c.in_pixel = 0;
                    c.tap_at = &here_at;
                    c.taps = 1;
                    c.sums = mine + taps * padded;
                    kernels().correlate_lanes(c);
                });
            }
        }
    });
    std::vector<float> bias(static_cast<std::size_t>(p.x.size(1)));
    for (std::int64_t k = 0; k < rows; ++k) {
        for (std::int64_t c = 0; c < p.x.size(1); ++c) {
            float sum = 0;
            for (std::int64_t part = 0; part < parts; ++part) sum += sums.floats()[(part * rows + k) * padded + c];
            if (k < taps) {
                to[c * strides[0] + pass.taps[static_cast<std::size_t>(k)].weight] = sum;
            } else {
                bias[static_cast<std::size_t>(c)] = sum;
            }
        }
    }
    if (p.w.dtype != f32) unpack(to, strides, p.w);
    if (p.bias != nullptr) unpack(bias.data(), Dims{1}, *p.bias);
}

const char* check_pixels(const Problem& p) {
    if (const char* reason = direct::check(p)) return reason;
    if (p.group_in() != 1 || p.group_out() != 1) return "groups of several channels";
    for (const View* v : {&p.x, &p.y})
        if (v->stride(1) != 1 && v->size(1) != 1) return "channels that are not adjacent";
    const Plan plan = planar::make_plan(p, direct::spatial(*p.w.strides));
    std::int64_t floats = 2 * most_channels * plan.planes.count();
    for (const std::int64_t e : plan.planes.extents) {
        if (e > std::numeric_limits<std::int32_t>::max() / 2 / floats) return "planes of 2^30 elements or more";
        floats *= e;
    }
    return nullptr;
}

void require(const Problem& p) {
    if (const char* reason = check_pixels(p)) throw std::runtime_error(std::string("lanes convolution: ") + reason);
}

}  // namespace

const char* why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                    const ConvSettings& settings) {
    return check_pixels({role, x, w, y, bias, settings});
}

bool is_preferred(ConvRole role, const View& x, const View& w, const View&, const ConvSettings& settings) {
    if (w.size(1) != 1 || w.size(0) != settings.groups) return false;
    if (x.size(1) < 8 || direct::product(direct::spatial(*w.shape)) > 49) return false;
    return role == ConvRole::weight_grad || x.dtype != f32 || x.rank() > 4;
}

void forward(const View& x, const View& w, const View* bias, const View& y, const ConvSettings& settings) {
    const Problem p{ConvRole::forward, x, w, y, bias, settings};
    require(p);
    run_gather(p);
}

void input_grad(const View& gy, const View& w, const View& gx, const ConvSettings& settings) {
    const Problem p{ConvRole::input_grad, gx, w, gy, nullptr, settings};
    require(p);
    run_gather(p);
}

void weight_grad(const View& x, const View& gy, const View& gw, const View* gbias, const ConvSettings& settings) {
    const Problem p{ConvRole::weight_grad, x, gw, gy, gbias, settings};
    require(p);
    lanes::run_weight_grad(p);
}

}  // namespace calor::cpu::lanes
