// Convolution and its input gradient on planes. A job is a band of rows of some groups of one image: its planes are
// made, every pass is computed, results go back. With large kernels three rows of results share what they read: the
// input row r holds tap r - j of the row j, so that one load serves three products.
#include "device/cpu/planar_conv.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "calor/device.h"
#include "device/cpu/parallel.h"
#include "device/cpu/planar_conv_parts.h"

namespace calor::cpu::planar {
namespace {

constexpr std::int64_t cached_floats = 3 << 14;  // planes and results of a job: 192 KiB
constexpr std::int64_t most_outputs = 4;         // of one call of the kernel
constexpr std::int64_t rows_together = 3;

struct Sizes {
    std::int64_t inner, outputs;  ///< channels of a group that are read, that result
};
Sizes sizes_of(const Problem& p) {
    if (p.role == ConvRole::input_grad) return {p.group_out(), p.group_in()};
    return {p.group_in(), p.group_out()};
}

/// Input rows [first, past) of a group of result rows, of which results [output, output + outputs) have taps there.
struct Segment {
    std::int64_t first, past, output, outputs, weights;  ///< weights: where theirs begin in a group's table
};

/// How `rows` adjacent result rows are computed together.
std::vector<Segment> segments_of(std::int64_t rows, std::int64_t kernel_rows, std::int64_t columns,
                                 std::int64_t& weights) {
    std::vector<Segment> all;
    for (std::int64_t r = 0; r < kernel_rows + rows - 1; ++r) {
        const std::int64_t output = std::max<std::int64_t>(0, r - kernel_rows + 1);
        const std::int64_t outputs = std::min(r, rows - 1) - output + 1;
        if (!all.empty() && all.back().output == output && all.back().outputs == outputs) {
            ++all.back().past;
        } else {
            all.push_back({r, r + 1, output, outputs, weights});
        }
        weights += columns * outputs;
    }
    return all;
}

/// A pass with its tables and weights as the kernel wants them.
class Prepared {
public:
    Prepared(const Problem& p, const Plan& plan, const Pass& pass, const direct::FloatWeights& w,
             std::int64_t plane_step)
        : pass_(pass), planes_(plan.planes), sizes_(sizes_of(p)) {
        const bool back = p.role == ConvRole::input_grad;
        inner_step_ = w.strides[back ? 0 : 1];
        output_step_ = w.strides[back ? 1 : 0];
        group_step_ = w.strides[0] * p.group_out();
        std::stable_sort(pass_.taps.begin(), pass_.taps.end(), [](const Tap& a, const Tap& b) {
            return a.plane != b.plane ? a.plane < b.plane : a.at < b.at;
        });
        const std::int64_t channel_step = planes_.count() * plane_step;
        for (std::int64_t c = 0; c < sizes_.inner; ++c)
            for (const Tap& tap : pass_.taps)
                tap_at_.push_back(static_cast<std::int32_t>(c * channel_step + tap.plane * plane_step + tap.at));
        kernel_rows_ = shared_rows();
        make_blocks();
        const std::int64_t taps = std::ssize(tap_at_);
        group_floats_ = kernel_rows_ == 0 ? taps * sizes_.outputs : 0;
        if (kernel_rows_ != 0) {
            for (std::int64_t rows = 1; rows <= rows_together; ++rows)
                segments_.push_back(segments_of(rows, kernel_rows_, taps / kernel_rows_, group_floats_));
        }
        weights_ = Scratch(std::max<std::int64_t>(1, p.s.groups * group_floats_) * size_of(f32));
        parallel_for(p.s.groups, std::max<std::int64_t>(1, 16384 / (group_floats_ + 1)),
                     [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t g = begin; g < end; ++g) {
                             float* const to = weights_.floats() + g * group_floats_;
                             if (!blocks_.empty()) {
                                 fill_block_weights(w.data + g * group_step_, to);
                             } else if (kernel_rows_ == 0) {
                                 fill_blocks(w.data + g * group_step_, to);
                             } else {
                                 fill_rows(w.data + g * group_step_, to);
                             }
                         }
                     });
    }

    const Pass& pass() const { return pass_; }

    /// One group: results [output], `out_step` apart, from the planes at `in`. Input rows outside of [inside_first,
    /// inside_past) are zeros.
    void run(const float* in, std::int64_t group, const float* bias, float* out, std::int64_t out_step,
             std::int64_t rows, std::int64_t inside_first, std::int64_t inside_past) const {
        const float* const weights = weights_.floats() + group * group_floats_;
        if (kernel_rows_ != 0) return run_rows(in, weights, bias, out, rows, inside_first, inside_past);
        if (!blocks_.empty()) return run_blocks(in, group, bias, out, f32, planes_.pitch, rows);
        Convolve c{};
        c.in = in;
        c.tap_at = tap_at_.data();
        c.taps = std::ssize(tap_at_);
        c.length = length_of(planes_, pass_.sizes, rows);
        c.out_step = out_step;
        const std::int64_t blocks = output_blocks();
        for (std::int64_t b = 0; b < blocks; ++b) {
            const std::int64_t first = sizes_.outputs * b / blocks;
            c.outputs = sizes_.outputs * (b + 1) / blocks - first;
            c.weights = weights + first * c.taps;
            c.bias = bias != nullptr ? bias + first : nullptr;
            c.out = out + first * out_step;
            kernels().convolve(c);
        }
    }

    /// Whether run_blocks() writes where the results belong.
    bool in_place(const View& result) const {
        const std::int64_t last = planes_.axes() - 1;
        return !blocks_.empty() && result.dtype != f16 && pass_.step[last] * result.stride(last + 2) == 1;
    }

    /// By blocks of taps: results lie `out_pitch` apart along each axis.
    void run_blocks(const float* in, std::int64_t group, const float* bias, void* out, DType dtype,
                    const Dims& out_pitch, std::int64_t rows) const {
        const std::int64_t n = planes_.axes();
        ConvolveRows c{};
        c.in_pitch = planes_.pitch[n - 2];
        c.blocks = blocks_.data();
        c.count = std::ssize(blocks_);
        c.weights = weights_.floats() + group * group_floats_;
        c.bias = bias != nullptr ? *bias : 0.0F;
        c.half = dtype == bf16;
        c.out_pitch = out_pitch[n - 2];
        c.rows = n == 2 ? rows : pass_.sizes[n - 2];
        c.length = pass_.sizes[n - 1];
        Dims outer = pass_.sizes, index(n, 0);
        outer[0] = n == 2 ? 1 : rows;
        outer[n - 1] = outer[n - 2] = 1;
        do {
            std::int64_t at = 0, to = 0;
            for (std::int64_t i = 0; i + 2 < n; ++i) {
                at += index[i] * planes_.pitch[i];
                to += index[i] * out_pitch[i];
            }
            c.in = in + at;
            c.out = static_cast<char*>(out) + to * size_of(dtype);
            kernels().convolve_rows(c);
        } while (next(index, outer));
    }

private:
    std::int64_t output_blocks() const { return (sizes_.outputs + most_outputs - 1) / most_outputs; }

    /// How many rows the kernel has, when result rows are to share what they read; else 0.
    std::int64_t shared_rows() const {
        constexpr std::int64_t least_rows = 7, least_columns = 8;  // sums of a row must not reach the next one
        if (planes_.axes() != 2 || sizes_.inner != 1 || sizes_.outputs != 1 || pass_.taps.empty()) return 0;
        const std::int64_t pitch = planes_.pitch[0];
        if (pitch < (pass_.sizes[1] + margin - 1) / margin * margin) return 0;
        std::int64_t columns = 0;
        const std::vector<Tap>& taps = pass_.taps;
        while (columns < std::ssize(taps) && taps[static_cast<std::size_t>(columns)].at / pitch == taps[0].at / pitch)
            ++columns;
        const std::int64_t rows = std::ssize(taps) / columns;
        if (rows < least_rows || columns < least_columns || rows * columns != std::ssize(taps)) return 0;
        for (std::size_t i = static_cast<std::size_t>(columns); i < taps.size(); ++i) {
            const Tap& above = taps[i - static_cast<std::size_t>(columns)];
            if (taps[i].plane != above.plane || taps[i].at != above.at + pitch) return 0;
        }
        return rows;
    }

    /// Cuts the taps into blocks of adjacent rows, when results have one channel and that saves reading.
    void make_blocks() {
        const std::int64_t n = planes_.axes();
        const std::vector<Tap>& taps = pass_.taps;
        if (n < 2 || sizes_.outputs != 1 || taps.empty() || kernel_rows_ != 0) return;
        const std::int64_t pitch = planes_.pitch[n - 2], count = std::ssize(taps);
        const auto tap = [&](std::int64_t i) -> const Tap& { return taps[static_cast<std::size_t>(i)]; };
        std::int64_t reads = 0;
        for (std::int64_t first = 0; first < count;) {
            std::int64_t columns = 1;
            while (first + columns < count && tap(first + columns).plane == tap(first).plane &&
                   tap(first + columns).at / pitch == tap(first).at / pitch)
                ++columns;
            std::int64_t past = first + columns;
            while (past < count && tap(past).plane == tap(first).plane &&
                   tap(past).at == tap(past - columns).at + pitch)
                ++past;
            const std::int64_t rows = (past - first) / columns;
            for (std::int64_t r = 0; r < rows; r += 3) {
                for (std::int64_t c = 0; c < columns; c += 3) {
                    Block b{{0, 0, 0},
                            static_cast<std::int32_t>(std::min<std::int64_t>(3, rows - r)),
                            static_cast<std::int32_t>(std::min<std::int64_t>(3, columns - c))};
                    for (std::int64_t i = 0; i < b.columns; ++i)
                        b.at[i] = tap_at_[static_cast<std::size_t>(first + r * columns + c + i)];
                    for (std::int64_t i = 0; i < b.rows; ++i)
                        for (std::int64_t k = 0; k < b.columns; ++k)
                            block_taps_.push_back(first + (r + i) * columns + c + k);
                    reads += (2 * b.rows + 3) * b.columns;
                    blocks_.push_back(b);
                }
            }
            first += rows * columns;
        }
        if (reads > 4 * count) {
            blocks_.clear();
            return;
        }
        const std::int64_t blocks = std::ssize(blocks_);
        for (std::int64_t channel = 1; channel < sizes_.inner; ++channel) {
            for (std::int64_t i = 0; i < blocks; ++i) {
                Block b = blocks_[static_cast<std::size_t>(i)];
                const std::int32_t more = tap_at_[static_cast<std::size_t>(channel * count)] - tap_at_[0];
                for (std::int64_t k = 0; k < b.columns; ++k) b.at[k] += more;
                blocks_.push_back(b);
            }
        }
    }

    /// [channel][block][row][column].
    void fill_block_weights(const float* w, float* to) const {
        for (std::int64_t c = 0; c < sizes_.inner; ++c)
            for (const std::int64_t t : block_taps_)
                *to++ = w[c * inner_step_ + pass_.taps[static_cast<std::size_t>(t)].weight];
    }

    /// [block][inner channel][tap][outputs of the block].
    void fill_blocks(const float* w, float* to) const {
        const std::int64_t blocks = output_blocks();
        for (std::int64_t b = 0; b < blocks; ++b) {
            const std::int64_t first = sizes_.outputs * b / blocks, past = sizes_.outputs * (b + 1) / blocks;
            for (std::int64_t c = 0; c < sizes_.inner; ++c)
                for (const Tap& tap : pass_.taps)
                    for (std::int64_t o = first; o < past; ++o)
                        *to++ = w[c * inner_step_ + tap.weight + o * output_step_];
        }
    }

    /// For every number of rows: [input row][column][results that it has taps for].
    void fill_rows(const float* w, float* to) const {
        const std::int64_t columns = std::ssize(tap_at_) / kernel_rows_;
        for (const auto& segments : segments_)
            for (const Segment& s : segments)
                for (std::int64_t r = s.first; r < s.past; ++r)
                    for (std::int64_t column = 0; column < columns; ++column)
                        for (std::int64_t j = s.output; j < s.output + s.outputs; ++j)
                            *to++ = w[pass_.taps[static_cast<std::size_t>((r - j) * columns + column)].weight];
    }

    void run_rows(const float* in, const float* weights, const float* bias, float* out, std::int64_t rows,
                  std::int64_t inside_first, std::int64_t inside_past) const {
        const std::int64_t pitch = planes_.pitch[0], columns = std::ssize(tap_at_) / kernel_rows_;
        const std::int64_t top = pass_.taps[0].at / pitch;  // rows from a result to its first tap
        std::fill(out, out + rows * pitch + margin, bias != nullptr ? *bias : 0.0F);
        Convolve c{};
        c.accumulate = true;
        c.length = pass_.sizes[1];
        c.out_step = pitch;
        for (std::int64_t q = 0; q < rows;) {
            const std::int64_t together = std::min(rows_together, rows - q);
            for (const Segment& s : segments_[static_cast<std::size_t>(together - 1)]) {
                const std::int64_t first = std::max(s.first, inside_first - top - q);
                const std::int64_t past = std::min(s.past, inside_past - top - q);
                if (past <= first) continue;
                // Row r of the group lies where the first result row has tap r (with r < kernel_rows_), or one or two
                // rows below its last tap.
                const std::int64_t down = std::min(first, kernel_rows_ - 1);
                const std::int64_t shift = first - down;
                c.in = in + (q + shift) * pitch;
                c.tap_at = tap_at_.data() + down * columns;
                c.taps = (past - first) * columns;
                c.weights = weights + s.weights + (first - s.first) * columns * s.outputs;
                c.outputs = s.outputs;
                c.out = out + (q + s.output) * pitch;
                kernels().convolve(c);
            }
            q += together;
        }
    }

    Pass pass_;
    const Planes& planes_;
    Sizes sizes_;
    std::int64_t inner_step_ = 0, output_step_ = 0, group_step_ = 0, group_floats_ = 0, kernel_rows_ = 0;
    std::vector<Block> blocks_;
    std::vector<std::int64_t> block_taps_;
    Offsets tap_at_;
    std::vector<std::vector<Segment>> segments_;
    Scratch weights_;
};

/// Bands of rows: few enough to stay in the cache, enough of them for all threads.
std::int64_t rows_of_band(const Plan& plan, std::int64_t inner, std::int64_t outputs, std::int64_t jobs) {
    const std::int64_t planes = inner * plan.planes.count(), pitch = plan.planes.pitch[0];
    const std::int64_t fit = (cached_floats - planes * plan.reach * pitch) / ((planes + outputs) * pitch);
    std::int64_t rows = std::max({fit, plan.reach, std::int64_t{1}});
    const std::int64_t wanted = 2 * thread_count();
    if (jobs < wanted) rows = std::min(rows, std::max<std::int64_t>(1, plan.rows * jobs / wanted));
    const std::int64_t bands = (plan.rows + rows - 1) / rows;
    return (plan.rows + bands - 1) / bands;
}

void run_gather(const Problem& p) {
    const bool back = p.role == ConvRole::input_grad;
    const direct::FloatWeights w(p.w);
    const Plan plan = make_plan(p, direct::spatial(w.strides));
    const View &source = back ? p.y : p.x, &result = p.result();
    const Sizes sizes = sizes_of(p);
    const std::int64_t together = groups_together(p), blocks = (p.s.groups + together - 1) / together;
    const std::int64_t rows = rows_of_band(plan, together * sizes.inner, together * sizes.outputs, p.images() * blocks);
    const std::int64_t bands = (plan.rows + rows - 1) / rows, pitch = plan.planes.pitch[0];
    const std::int64_t plane_step = (rows + plan.reach) * pitch, group_step = plane_step * plan.planes.count();
    const std::int64_t out_step = rows * pitch + margin;
    const std::vector<float> bias = direct::dense_bias(p.bias);
    std::vector<Prepared> prepared;
    for (const Pass& pass : plan.passes) prepared.emplace_back(p, plan, pass, w, plane_step);
    const std::int64_t planes_floats = together * sizes.inner * group_step;
    parallel_for(p.images() * blocks * bands, 1, [&](std::int64_t begin, std::int64_t end) {
        const Scratch memory((planes_floats + 2 * pitch + margin + together * sizes.outputs * out_step) * size_of(f32));
        float *const in = memory.floats(), *const out = in + planes_floats + 2 * pitch + margin;
        std::fill(in + planes_floats, out, 0.0F);
        for (std::int64_t job = begin; job < end; ++job) {
            const std::int64_t image = job / (blocks * bands), group = job / bands % blocks * together,
                               row = job % bands * rows;
            const std::int64_t groups = std::min(together, p.s.groups - group);
            const std::int64_t here = std::min(rows, plan.rows - row);
            to_planes(source, plan.planes, {image, group * sizes.inner, groups * sizes.inner, row, here + plan.reach},
                      in, plane_step);
            const std::int64_t low = -plan.planes.low[0] - row;  // of the array's first row, without a step
            for (const Prepared& pass : prepared) {
                const std::int64_t some = std::min(here, pass.pass().sizes[0] - row);
                if (some <= 0) continue;
                if (pass.in_place(result)) {
                    const Dims steps = direct::times(pass.pass().step, direct::spatial(*result.strides));
                    std::int64_t at = image * result.stride(0) + row * steps[0];
                    for (std::int64_t i = 0; i < steps.rank(); ++i) at += pass.pass().first[i] * result.stride(i + 2);
                    for (std::int64_t g = group; g < group + groups; ++g)
                        pass.run_blocks(in + (g - group) * sizes.inner * group_step, g,
                                        bias.empty() ? nullptr : bias.data() + g,
                                        result.as<std::byte>() + (at + g * result.stride(1)) * size_of(result.dtype),
                                        result.dtype, steps, some);
                    continue;
                }
                for (std::int64_t g = 0; g < groups; ++g)
                    pass.run(in + g * sizes.inner * group_step, group + g,
                             bias.empty() ? nullptr : bias.data() + (group + g) * sizes.outputs,
                             out + g * sizes.outputs * out_step, out_step, some,
                             plan.planes.step[0] == 1 ? std::max<std::int64_t>(low, 0) : 0,
                             plan.planes.step[0] == 1 ? low + source.size(2) : here + plan.reach);
                from_planes(out, out_step, plan.planes, pass.pass(),
                            {image, group * sizes.outputs, groups * sizes.outputs, row, some}, result);
            }
        }
    });
}

const char* check_planes(const Problem& p) {
    if (const char* reason = direct::check(p)) return reason;
    const Plan plan = make_plan(p, direct::spatial(*p.w.strides));
    const std::int64_t channels = groups_together(p) * std::max(p.group_in(), p.group_out());
    std::int64_t floats = channels * plan.planes.count();
    for (const std::int64_t e : plan.planes.extents) {
        if (e > std::numeric_limits<std::int32_t>::max() / 2 / floats) return "planes of 2^30 elements or more";
        floats *= e;
    }
    return nullptr;
}

void require(const Problem& p) {
    if (const char* reason = check_planes(p)) throw std::runtime_error(std::string("planar convolution: ") + reason);
}

}  // namespace

const char* why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                    const ConvSettings& settings) {
    return check_planes({role, x, w, y, bias, settings});
}

bool is_preferred_for_planes(ConvRole role, const Shape& w, std::int64_t groups) {
    const std::int64_t inputs = w[1], outputs = w[0] / groups;
    if (groups > 1) return std::max(inputs, outputs) <= 8;
    if (role == ConvRole::weight_grad) return inputs == 1;
    // A single image that results is a matter of matrices: oneDNN's GEMM is as fast.
    return role == ConvRole::input_grad ? inputs > 1 && inputs <= 4 : outputs <= 4;
}

bool is_preferred(ConvRole role, const View& x, const View& w, const View& y, const ConvSettings& settings) {
    const View& source = role == ConvRole::input_grad ? y : x;
    const auto is_last = [](const View& v) { return v.stride(1) == 1 && v.size(1) > 1; };
    const bool last = is_last(source);
    if (settings.groups == 1 && w.size(1) == 1 && role != ConvRole::forward)  // an image of one channel
        return is_last(y) == (role == ConvRole::input_grad);
    if (!is_preferred_for_planes(role, *w.shape, settings.groups)) return false;
    const bool depthwise = w.size(1) == 1 && w.size(0) == settings.groups;
    const std::int64_t taps = direct::product(direct::spatial(*w.shape));
    // oneDNN has kernels for these, with vectors of channels.
    const bool elsewhere = depthwise && last && role != ConvRole::weight_grad && x.dtype == f32 && x.rank() <= 4;
    return !elsewhere || taps > 49;
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
    planar::run_weight_grad(p);
}

}  // namespace calor::cpu::planar
