// Operands where they lie, weights tap by tap, rows over threads.
#include "device/cpu/lanes_conv.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "calor/device.h"
#include "device/cpu/lanes_conv_kernels.h"
#include "device/cpu/lanes_conv_rows.h"
#include "device/cpu/parallel.h"

namespace calor::cpu::lanes {
namespace {

constexpr std::int64_t wanted_parts = 16;  // partial sums of the weight gradient

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

/// Where the kernels read and write an array: in place, or in a dense f32 copy (of f16, or of fewer channels than a
/// vector has).
class Operand {
public:
    Operand(const View& v, bool input) : given_(v), channels(v.size(1)), strides(*v.strides), dtype(v.dtype) {
        data = static_cast<char*>(v.data);
        if (v.dtype != f16 && channels >= (v.dtype == bf16 ? 2 : 1) * kernels().lanes) return;
        channels = std::max(channels, kernels().lanes);
        strides[1] = 1;
        std::int64_t step = channels;
        for (std::int64_t i = v.rank(); i-- > 0;) {
            if (i == 1) continue;
            strides[i] = step;
            step *= v.size(i);
        }
        copy_ = Scratch(step * size_of(f32));
        dtype = f32;
        data = copy_.bytes();
        if (!input) return;
        if (channels > v.size(1)) std::fill(copy_.floats(), copy_.floats() + step, 0.0F);
        pack(v, copy_.floats(), strides);
    }
    void give_back() const {
        if (copy_.floats() != nullptr) unpack(copy_.floats(), strides, given_);
    }
    char* at(std::int64_t element) const { return data + element * size_of(dtype); }

private:
    const View& given_;
    Scratch copy_;

public:
    std::int64_t channels;
    Strides strides;
    DType dtype;
    char* data;
};

/// [tap][padded channels] in the order of the kernels, and likewise the bias.
struct Weights {
    Weights(const Problem& p, const Operand& source) : places(source.channels) {
        const std::int64_t lanes = kernels().lanes;
        const bool half = source.dtype == bf16;
        const std::int64_t block = half ? 2 * lanes : lanes, padded = round_up(source.channels, block);
        for (std::int64_t place = 0; place < padded; ++place) {
            const std::int64_t first = std::min(place / block * block, source.channels - block), i = place % block;
            channels_.push_back(first + (!half ? i : i < lanes ? 2 * i : 2 * (i - lanes) + 1));
        }
        places = padded;
        const direct::FloatWeights w(p.w);
        const Offsets at = direct::grid(direct::spatial(*p.w.shape), direct::spatial(w.strides));
        taps = Scratch(std::ssize(at) * places * size_of(f32));
        float* to = taps.floats();
        for (const std::int32_t tap : at)
            for (const std::int64_t c : channels_) *to++ = c < p.x.size(1) ? w.data[c * w.strides[0] + tap] : 0.0F;
        const std::vector<float> dense = direct::dense_bias(p.bias);
        if (dense.empty()) return;
        for (const std::int64_t c : channels_)
            bias.push_back(c < p.x.size(1) ? dense[static_cast<std::size_t>(c)] : 0.0F);
    }
    std::int64_t places;
    Scratch taps;
    std::vector<float> bias;

private:
    std::vector<std::int64_t> channels_;
};

/// Of a row's origin: `along(axis)` are positions a result index.
template <class Along>
std::int64_t origin(const Strides& strides, const Units::Unit& u, std::int64_t start, const Along& along) {
    std::int64_t at = u.image * strides[0] + start;
    for (std::int64_t i = 0; i < u.index.rank(); ++i) at += u.index[i] * along(i) * strides[i + 2];
    return at;
}

/// Whether a pass has three rows of taps, one after another, so that two adjacent rows of results read four.
bool rows_pair(const Pass& pass) {
    if (pass.size() < 2 || pass.back().step != 1) return false;
    const Axis& axis = pass[pass.size() - 2];
    return axis.step == 1 && axis.taps.size() == 3 && axis.taps[1].at == axis.taps[0].at + 1 &&
           axis.taps[2].at == axis.taps[1].at + 1;
}

/// Whether unit `u` and the one after it are whole rows, one below the other, that read all taps.
bool is_pair(const Pass& pass, const Units& units, const Units::Unit& u) {
    const auto outer = static_cast<std::int64_t>(pass.size()) - 2;
    const Axis& axis = pass[static_cast<std::size_t>(outer)];
    const std::int64_t row = u.index[outer], first = row + axis.taps[0].at;
    return units.parts == 1 && row + 1 < axis.size && first >= 0 && first + 3 < axis.inside;
}

/// A piece of two adjacent rows. False where its taps don't allow that.
bool run_two_rows(const Convolve& c, const Piece& piece, std::int64_t in_row, std::int64_t out_row) {
    if (!piece.strips || c.taps != 9 || c.pixels < 4) return false;
    kernels().two_rows({static_cast<const char*>(c.in) + piece.tap_at[0] * size_of(c.half ? bf16 : f32), c.out, c.half,
                        in_row, c.in_pixel, out_row, c.out_pixel, c.pixels, c.channels, c.weight_at, c.weights,
                        c.bias});
    return true;
}

void run_gather(const Problem& p) {
    const Operand source(p.role == ConvRole::input_grad ? p.y : p.x, true), result(p.result(), false);
    const std::int64_t last = p.axes() - 1;
    const Weights weights(p, source);
    const Dims kernel = direct::spatial(*p.w.shape), steps = direct::spatial(source.strides);
    for (const Pass& pass : passes_of(p)) {
        const Units units(pass, p.images());
        std::int64_t start = 0, taps = 1;
        for (std::size_t i = 0; i < pass.size(); ++i) {
            start += pass[i].first * result.strides[static_cast<std::int64_t>(i) + 2];
            taps *= std::ssize(pass[i].taps);
        }
        const std::int64_t work = std::min(units.columns, Units::most_columns) * source.channels * (taps + 4);
        parallel_for(
            units.count, std::max<std::int64_t>(1, (1 << 16) / work), [&](std::int64_t begin, std::int64_t end) {
                Rows rows(pass, kernel, steps, weights.places);
                Convolve c{};
                c.half = source.dtype == bf16;
                c.in_pixel = pass.back().step * source.strides[last + 2];
                c.out_pixel = pass.back().out_step * result.strides[last + 2];
                c.channels = source.channels;
                c.weights = weights.taps.floats();
                c.bias = weights.bias.empty() ? nullptr : weights.bias.data();
                const bool pairs = rows_pair(pass);
                const std::int64_t in_row = last > 0 ? source.strides[last + 1] : 0;
                const std::int64_t out_row =
                    last > 0 ? pass[static_cast<std::size_t>(last - 1)].out_step * result.strides[last + 1] : 0;
                for (std::int64_t i = begin; i < end; ++i) {
                    const Units::Unit u = units.at(i);
                    const bool two = pairs && i + 1 < end && is_pair(pass, units, u);
                    const auto axis = [&](std::int64_t a) -> const Axis& { return pass[static_cast<std::size_t>(a)]; };
                    const std::int64_t from =
                        origin(source.strides, u, 0, [&](std::int64_t a) { return axis(a).step; });
                    const std::int64_t to =
                        origin(result.strides, u, start, [&](std::int64_t a) { return axis(a).out_step; });
                    for (const Piece& piece : rows.at(u.index)) {
                        const std::int64_t first = std::max(piece.begin, u.begin);
                        c.pixels = std::min(piece.end, u.end) - first;
                        if (c.pixels <= 0) continue;
                        c.in = source.at(from + first * c.in_pixel);
                        c.out = result.at(to + first * c.out_pixel);
                        c.tap_at = piece.tap_at.data();
                        c.weight_at = piece.where.data();
                        c.taps = std::ssize(piece.tap_at);
                        c.strips = piece.strips;
                        if (two && run_two_rows(c, piece, in_row, out_row)) continue;
                        kernels().convolve(c);
                        if (!two) continue;
                        c.in = source.at(from + in_row + first * c.in_pixel);
                        c.out = result.at(to + out_row + first * c.out_pixel);
                        kernels().convolve(c);
                    }
                    if (two) ++i;
                }
            });
    }
    result.give_back();
}

/// Adds units [begin, end) to sums [tap][padded], the bias's in the row after the last tap.
void add_units(const Problem& p, const Pass& pass, const Units& units, const Operand& x, const Operand& y,
               std::int64_t begin, std::int64_t end, std::int64_t padded, float* sums) {
    const std::int64_t last = p.axes() - 1;
    Rows rows(pass, direct::spatial(*p.w.shape), direct::spatial(x.strides), padded);
    Correlate c{};
    c.half = x.dtype == bf16;
    c.grad_pixel = y.strides[last + 2];
    c.in_pixel = pass.back().step * x.strides[last + 2];
    c.channels = x.channels;
    if (last > 0) {
        c.next_in = pass[static_cast<std::size_t>(last - 1)].step * x.strides[last + 1];
        c.next_grad = y.strides[last + 1];
    }
    for (std::int64_t i = begin; i < end; ++i) {
        const Units::Unit u = units.at(i);
        const std::int64_t from =
            origin(x.strides, u, 0, [&](std::int64_t a) { return pass[static_cast<std::size_t>(a)].step; });
        const std::int64_t grad = origin(y.strides, u, 0, [](std::int64_t) { return 1; });
        c.sums = sums;
        for (const Piece& piece : rows.at(u.index)) {
            const std::int64_t first = std::max(piece.begin, u.begin);
            c.pixels = std::min(piece.end, u.end) - first;
            if (c.pixels <= 0 || piece.tap_at.empty()) continue;
            c.in = x.at(from + first * c.in_pixel);
            c.grad = y.at(grad + first * c.grad_pixel);
            c.tap_at = piece.tap_at.data();
            c.sum_at = piece.where.data();
            c.taps = std::ssize(piece.tap_at);
            c.strips = piece.strips;
            kernels().correlate(c);
        }
        if (p.bias == nullptr) continue;
        c.pixels = u.end - u.begin;
        c.grad = y.at(grad + u.begin * c.grad_pixel);
        c.sums = sums + direct::product(direct::spatial(*p.w.shape)) * padded;
        kernels().total(c);
    }
}

void run_weight_grad(const Problem& p) {
    const Operand x(p.x, true), y(p.y, true);
    const Pass pass = passes_of(p)[0];
    const Units units(pass, p.images());
    const std::int64_t lanes = kernels().lanes, padded = round_up(x.channels, lanes);
    const std::int64_t taps = direct::product(direct::spatial(*p.w.shape)), floats = (taps + 1) * padded;
    const std::int64_t parts = std::min(wanted_parts, units.count);
    const Scratch sums(parts * floats * size_of(f32));
    parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
        std::fill(sums.floats() + begin * floats, sums.floats() + end * floats, 0.0F);
        for (std::int64_t part = begin; part < end; ++part)
            add_units(p, pass, units, x, y, units.count * part / parts, units.count * (part + 1) / parts, padded,
                      sums.floats() + part * floats);
    });
    float* const total = sums.floats();
    for (std::int64_t part = 1; part < parts; ++part) {
        const float* const more = total + part * floats;
        for (std::int64_t i = 0; i < floats; ++i) total[i] += more[i];
    }
    const std::int64_t tail = x.channels / lanes * lanes, back = lanes - x.channels % lanes;
    const auto place = [&](std::int64_t channel) { return channel < tail ? channel : channel + back; };
    const bool direct_result = p.w.dtype == f32;
    const Strides strides = direct_result ? *p.w.strides : dense_like(*p.w.shape, *p.w.strides);
    const Scratch copy(direct_result ? 0 : direct::product(*p.w.shape) * size_of(f32));
    float* const to = direct_result ? p.w.as<float>() : copy.floats();
    const Offsets at = direct::grid(direct::spatial(*p.w.shape), direct::spatial(strides));
    for (std::size_t k = 0; k < at.size(); ++k)
        for (std::int64_t c = 0; c < p.x.size(1); ++c)
            to[c * strides[0] + at[k]] = total[static_cast<std::int64_t>(k) * padded + place(c)];
    if (!direct_result) unpack(to, strides, p.w);
    if (p.bias == nullptr) return;
    std::vector<float> bias;
    for (std::int64_t c = 0; c < p.x.size(1); ++c) bias.push_back(total[taps * padded + place(c)]);
    unpack(bias.data(), Dims{1}, *p.bias);
}

const char* check_lanes(const Problem& p) {
    if (const char* reason = direct::check(p)) return reason;
    if (p.group_in() != 1 || p.group_out() != 1) return "groups of several channels";
    for (const View* v : {&p.x, &p.y})
        if (v->stride(1) != 1 && v->size(1) != 1) return "channels that are not adjacent";
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    const View& source = p.role == ConvRole::input_grad ? p.y : p.x;
    const direct::Window window = direct::window_of(p);
    std::int64_t room = most;
    for (std::int64_t i = 0; i < p.axes(); ++i) {
        const std::int64_t step = std::max<std::int64_t>(std::abs(source.stride(i + 2)), 1);
        if (window.extents[i] > room / step) return "distances of 2^31 elements or more";
        room -= window.extents[i] * step;
    }
    if (direct::product(direct::spatial(*p.w.shape)) > most / (p.x.size(1) + 64))
        return "weights of 2^31 elements or more";
    return nullptr;
}

void require(const Problem& p) {
    if (const char* reason = check_lanes(p)) throw std::runtime_error(std::string("lanes convolution: ") + reason);
}

}  // namespace

const char* why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                    const ConvSettings& settings) {
    return check_lanes({role, x, w, y, bias, settings});
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
