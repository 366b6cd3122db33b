// The weight gradient on planes: gw[o][k] = sum over images, then positions p, of gy[o][p] x[tap_at[k] + p], where gy
// is laid out with the distances of the planes of x and zeros between its rows. Where one output channel meets one
// input channel, rows of taps take the place of outputs: gy moved down by j rows meets the taps of the row below by j.
// Bands of images are dealt to a few partial sums, which are added in order at the end; how many depends on shapes
// alone.
#include <algorithm>

#include "device/cpu/parallel.h"
#include "device/cpu/planar_conv_parts.h"

namespace calor::cpu::planar {
namespace {

constexpr std::int64_t cached_floats = 3 << 14;  // planes of x and gy of a job: 192 KiB
constexpr std::int64_t wanted_jobs = 16;         // when there are few groups, bands make up for them

/// One call of the kernel a group: which gradients meet which taps.
struct Meeting {
    Offsets grad_at, in_at;
    std::vector<std::int64_t> weights;       ///< [gradient][tap]: where the result belongs in the group's weights
    std::int64_t row_low = 0, row_high = 0;  ///< least and most rows of axis 0 by which its taps lie below
    std::int64_t rows = 1;                   ///< of gradients that meet; 1 when they are channels
    std::int64_t sums = 0;                   ///< where its sums begin, in vectors
};

struct WeightGrad {
    WeightGrad(const Problem& problem, Plan made) : p(problem), plan(std::move(made)) {}
    const Problem& p;
    Plan plan;
    std::int64_t together = 1, blocks = 1, band_rows = 1, bands = 1, parts = 1;
    std::int64_t row_axis = 0;  ///< the axis before the last
    std::int64_t plane_step = 0, group_step = 0, grad_front = 0, grad_step = 0;
    std::vector<Meeting> meetings;
    std::int64_t group_sums = 0;  ///< vectors
    Scratch sums;                 ///< [part][group][sum][lane]
    std::vector<double> bias;     ///< [part][channel]
    const Pass& pass() const { return plan.passes[0]; }
    float* sums_of(std::int64_t part, std::int64_t group) const {
        return sums.floats() + (part * p.s.groups + group) * group_sums * kernels().lanes;
    }
};

struct Cut {
    std::int64_t begin, end;
};
/// [0, count) in as few pieces as have at most `most` each, of equal size.
std::vector<Cut> cuts(std::int64_t count, std::int64_t most) {
    const std::int64_t pieces = (count + most - 1) / most;
    std::vector<Cut> all;
    for (std::int64_t i = 0; i < pieces; ++i) all.push_back({count * i / pieces, count * (i + 1) / pieces});
    return all;
}

/// Rows of taps may stand for outputs when neighbours are one row apart in the same plane.
bool rows_meet(const Problem& p) {
    const std::int64_t axis = p.axes() - 2;
    return axis >= 0 && p.group_in() == 1 && p.group_out() == 1 && p.s.stride[axis] == 1 && p.s.dilation[axis] == 1 &&
           p.w.size(axis + 2) > 1;
}

constexpr std::int64_t rows_together = 3, columns_together = 4;

void meet_rows(WeightGrad& g) {
    const std::int64_t axis = g.row_axis, columns = g.p.w.size(axis + 3), rows = g.p.w.size(axis + 2);
    const std::int64_t pitch = g.plan.planes.pitch[axis];
    const std::vector<Tap>& taps = g.pass().taps;  // the last axis fastest
    for (std::int64_t first = 0; first < std::ssize(taps); first += rows * columns) {
        for (const Cut& r : cuts(rows, rows_together)) {
            for (const Cut& c : cuts(columns, columns_together)) {
                Meeting m;
                m.rows = r.end - r.begin;
                for (std::int64_t j = 0; j < m.rows; ++j) {
                    m.grad_at.push_back(static_cast<std::int32_t>(-j * pitch));
                    for (std::int64_t k = c.begin; k < c.end; ++k)
                        m.weights.push_back(taps[static_cast<std::size_t>(first + (r.begin + j) * columns + k)].weight);
                }
                for (std::int64_t k = c.begin; k < c.end; ++k) {
                    const Tap& tap = taps[static_cast<std::size_t>(first + r.begin * columns + k)];
                    m.in_at.push_back(static_cast<std::int32_t>(tap.plane * g.plane_step + tap.at));
                    m.row_low = m.row_high = tap.at / g.plan.planes.pitch[0];
                }
                g.meetings.push_back(std::move(m));
            }
        }
    }
}

void meet_channels(WeightGrad& g, const Strides& weight_strides) {
    const std::vector<Tap>& taps = g.pass().taps;
    const std::int64_t count = std::ssize(taps);
    const std::int64_t most_outputs = g.p.group_out() == 1   ? 1
                                      : g.p.group_out() == 2 ? 2
                                      : g.p.group_out() == 3 ? 3
                                                             : 4;
    for (const Cut& o : cuts(g.p.group_out(), most_outputs)) {
        for (const Cut& k : cuts(count * g.p.group_in(), most_sums / most_outputs)) {
            Meeting m;
            for (std::int64_t j = o.begin; j < o.end; ++j) {
                m.grad_at.push_back(static_cast<std::int32_t>(j * g.grad_step));
                for (std::int64_t i = k.begin; i < k.end; ++i)
                    m.weights.push_back(j * weight_strides[0] + i / count * weight_strides[1] +
                                        taps[static_cast<std::size_t>(i % count)].weight);
            }
            m.row_low = g.plan.reach;
            for (std::int64_t i = k.begin; i < k.end; ++i) {
                const Tap& tap = taps[static_cast<std::size_t>(i % count)];
                m.in_at.push_back(
                    static_cast<std::int32_t>((i / count * g.plan.planes.count() + tap.plane) * g.plane_step + tap.at));
                m.row_low = std::min(m.row_low, tap.at / g.plan.planes.pitch[0]);
                m.row_high = std::max(m.row_high, tap.at / g.plan.planes.pitch[0]);
            }
            g.meetings.push_back(std::move(m));
        }
    }
}

WeightGrad make_weight_grad(const Problem& p, const Strides& weight_strides) {
    WeightGrad g(p, make_plan(p, direct::spatial(weight_strides)));
    const Planes& planes = g.plan.planes;
    const bool rows = rows_meet(p);
    g.row_axis = rows ? p.axes() - 2 : 0;
    g.together = groups_together(p);
    g.blocks = (p.s.groups + g.together - 1) / g.together;
    const std::int64_t pitch = planes.pitch[0], x_planes = g.together * p.group_in() * planes.count();
    const std::int64_t gy_planes = g.together * p.group_out();
    const std::int64_t fit = (cached_floats - x_planes * g.plan.reach * pitch) / ((x_planes + gy_planes) * pitch);
    std::int64_t band = std::max({fit, g.plan.reach, std::int64_t{1}});
    if (p.images() * g.blocks < wanted_jobs)
        band = std::min(band, std::max<std::int64_t>(1, g.plan.rows * p.images() * g.blocks / wanted_jobs));
    g.bands = (g.plan.rows + band - 1) / band;
    g.band_rows = (g.plan.rows + g.bands - 1) / g.bands;
    g.bands = (g.plan.rows + g.band_rows - 1) / g.band_rows;
    g.parts = std::clamp<std::int64_t>((wanted_jobs + g.blocks - 1) / g.blocks, 1, p.images() * g.bands);
    g.plane_step = (g.band_rows + g.plan.reach) * pitch;
    g.group_step = p.group_in() * planes.count() * g.plane_step;
    g.grad_front = rows ? (rows_together - 1) * planes.pitch[g.row_axis] : 0;
    g.grad_step = g.band_rows * pitch + 2 * g.grad_front + margin;
    if (rows) {
        meet_rows(g);
    } else {
        meet_channels(g, weight_strides);
    }
    for (Meeting& m : g.meetings) {
        m.sums = g.group_sums;
        g.group_sums += std::ssize(m.weights);
    }
    const std::int64_t floats = g.parts * p.s.groups * g.group_sums * kernels().lanes;
    g.sums = Scratch(floats * size_of(f32));
    parallel_for(floats, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        std::fill(g.sums.floats() + begin, g.sums.floats() + end, 0.0F);
    });
    if (p.bias != nullptr) g.bias.assign(static_cast<std::size_t>(g.parts * p.w.size(0)), 0.0);
    return g;
}

/// One group: adds a band to its sums. Input rows outside of [inside_first, inside_past) of the band are zeros.
void add_band(const WeightGrad& g, const float* in, const float* grad, std::int64_t rows, std::int64_t inside_first,
              std::int64_t inside_past, float* sums) {
    const Planes& planes = g.plan.planes;
    const std::int64_t length = length_of(planes, g.pass().sizes, rows), pitch = planes.pitch[0];
    for (const Meeting& m : g.meetings) {
        // Past the last row of gradients come those of the moved ones, then zeros.
        const std::int64_t all = length + (m.rows - 1) * planes.pitch[g.row_axis];
        const std::int64_t begin = std::max<std::int64_t>(0, (inside_first - m.row_high) * pitch);
        const std::int64_t end = std::min(all, (inside_past - m.row_low) * pitch);
        if (end <= begin) continue;
        kernels().correlate({grad + begin, in + begin, m.grad_at.data(), m.in_at.data(), std::ssize(m.grad_at),
                             std::ssize(m.in_at), end - begin, sums + m.sums * kernels().lanes});
    }
}

/// Copies a band of gradients to the distances of the planes of x. The zeros between its rows are there already.
void place_grad(const WeightGrad& g, const Part& part, float* to) {
    Planes planes = g.plan.planes;
    const std::int64_t length = length_of(planes, g.pass().sizes, part.rows);
    planes.low = Dims(planes.axes(), 0);
    planes.step = Dims(planes.axes(), 1);
    planes.phases = {Dims(planes.axes(), 0)};
    planes.extents = g.pass().sizes;
    for (std::int64_t c = 0; c < part.channels; ++c) {
        float* const behind = to + c * g.grad_step + length;
        std::fill(behind, behind + g.grad_front + margin, 0.0F);
    }
    to_planes(g.p.y, planes, part, to, g.grad_step);
}

/// A part adds its bands, of all images, for one block of groups.
void add_part(WeightGrad& g, std::int64_t part, std::int64_t block, float* in, float* grad) {
    const Problem& p = g.p;
    const std::int64_t group = block * g.together, groups = std::min(g.together, p.s.groups - group);
    const bool dense = g.plan.planes.step[0] == 1;
    for (std::int64_t unit = part; unit < p.images() * g.bands; unit += g.parts) {
        const std::int64_t image = unit / g.bands, row = unit % g.bands * g.band_rows;
        const std::int64_t rows = std::min(g.band_rows, g.plan.rows - row), low = -g.plan.planes.low[0] - row;
        to_planes(p.x, g.plan.planes, {image, group * p.group_in(), groups * p.group_in(), row, rows + g.plan.reach},
                  in, g.plane_step);
        place_grad(g, {image, group * p.group_out(), groups * p.group_out(), row, rows}, grad + g.grad_front);
        for (std::int64_t i = 0; i < groups; ++i) {
            const float* const gy = grad + i * p.group_out() * g.grad_step + g.grad_front;
            add_band(g, in + i * g.group_step, gy, rows, dense ? std::max<std::int64_t>(low, 0) : 0,
                     dense ? low + p.x.size(2) : rows + g.plan.reach, g.sums_of(part, group + i));
            if (g.bias.empty()) continue;
            const std::int64_t length = length_of(g.plan.planes, g.pass().sizes, rows);
            for (std::int64_t o = 0; o < p.group_out(); ++o)
                g.bias[static_cast<std::size_t>(part * p.w.size(0) + (group + i) * p.group_out() + o)] +=
                    kernels().total(gy + o * g.grad_step, length);
        }
    }
}

/// Adds parts, then lanes, in order.
void write_group(const WeightGrad& g, std::int64_t group, float* to) {
    const std::int64_t lanes = kernels().lanes;
    float* const total = g.sums_of(0, group);
    for (std::int64_t part = 1; part < g.parts; ++part) {
        const float* const more = g.sums_of(part, group);
        for (std::int64_t i = 0; i < g.group_sums * lanes; ++i) total[i] += more[i];
    }
    for (const Meeting& m : g.meetings) {
        const float* from = total + m.sums * lanes;
        for (const std::int64_t at : m.weights) {
            float sum = 0;
            for (std::int64_t lane = 0; lane < lanes; ++lane) sum += *from++;
            to[at] = sum;
        }
    }
}

}  // namespace

void run_weight_grad(const Problem& p) {
    const bool in_place = p.w.dtype == f32;
    const Strides strides = in_place ? *p.w.strides : dense_like(*p.w.shape, *p.w.strides);
    const Scratch copy(in_place ? 0 : direct::product(*p.w.shape) * size_of(f32));
    float* const result = in_place ? p.w.as<float>() : copy.floats();
    WeightGrad g = make_weight_grad(p, strides);
    const std::int64_t in_floats = g.together * g.group_step + g.grad_front + margin;
    const std::int64_t grad_floats = g.together * p.group_out() * g.grad_step + g.grad_front + margin;
    parallel_for(g.parts * g.blocks, 1, [&](std::int64_t begin, std::int64_t end) {
        const Scratch memory((in_floats + grad_floats) * size_of(f32));
        std::fill(memory.floats(), memory.floats() + in_floats + grad_floats, 0.0F);
        for (std::int64_t i = begin; i < end; ++i)
            add_part(g, i / g.blocks, i % g.blocks, memory.floats(), memory.floats() + in_floats);
    });
    parallel_for(p.s.groups, std::max<std::int64_t>(1, (1 << 14) / (g.group_sums * g.parts)),
                 [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t group = begin; group < end; ++group)
                         write_group(g, group, result + group * p.group_out() * strides[0]);
                 });
    if (!in_place) unpack(result, strides, p.w);
    if (p.bias == nullptr) return;
    std::vector<float> bias(static_cast<std::size_t>(p.w.size(0)));
    for (std::size_t o = 0; o < bias.size(); ++o) {
        double sum = 0;
        for (std::int64_t part = 0; part < g.parts; ++part)
            sum += g.bias[static_cast<std::size_t>(part) * bias.size() + o];
        bias[o] = static_cast<float>(sum);
    }
    unpack(bias.data(), Dims{1}, *p.bias);
}

}  // namespace calor::cpu::planar
