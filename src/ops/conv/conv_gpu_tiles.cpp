// Convolution as an implicit product of matrices on GPUs: rows are channels, columns positions (or, for the weight
// gradient, channels and taps), and the kernel of device/gpu/contraction.h follows windows by their numbers.
//
// The input gradient runs one phase of positions at a time: input positions i = q stride + r meet the taps k = k0 + u
// every only, and read output positions q + base - u move. Every phase is a dense product of its own. Along an axis
// whose taps and sizes are multiples of the stride, without padding, the phases are alike, and run together as a batch.
#include <numeric>

#include "device/gpu/contraction.h"
#include "ops/conv/conv_gpu.h"
#include "ops/conv/conv_problem.h"
#include "ops/gpu.h"

namespace calor::ops::conv {
namespace {

using gpu::BatchDigit;
using gpu::Contraction;
using gpu::Digit;

constexpr std::int64_t most_phases = 64;

/// Kernels are compiled for 1, 2, 3, 4 or 6 axes; more are compiled as they come.
std::int64_t compiled_axes(std::int64_t axes) { return axes <= 4 ? axes : std::max<std::int64_t>(axes, 6); }

/// Channels lie beside each other: they should vary fastest.
bool channels_last(const Array& a) { return a.size(1) > 1 && std::abs(a.stride(1)) == 1; }

/// Digits of a number that counts channels (or a batch) and an entry an axis.
struct Digits {
    Digits(std::int64_t axes, bool channel_fastest) : last(channel_fastest) {
        list.push_back({});
        for (std::int64_t a = 0; a < compiled_axes(axes); ++a) list.push_back({});
        list.push_back({});
    }
    void channel(const Digit& d) { list[last ? list.size() - 1 : 0] = d; }
    void axis(std::int64_t a, const Digit& d) { list[static_cast<std::size_t>(a) + 1] = d; }
    bool last;
    InlineVector<Digit, 4> list;
};

void set_sources(Contraction& c, std::int64_t axes) {
    for (std::int64_t a = 0; a < compiled_axes(axes); ++a) c.source.push_back({});
}

void set_bias(Contraction& c, const Problem& p, const View& bias) {
    if (!p.bias || p.role == Role::weight_grad) return;
    c.bias = &bias;
    c.bias_place = gpu::BiasPlace::row;
}
std::int64_t bias_step(const Problem& p) { return p.bias && p.role != Role::weight_grad ? p.bias->stride(0) : 0; }

Contraction forward(const Problem& p) {
    const cpu::ConvSettings& s = p.settings;
    const std::int64_t groups = s.groups, in = p.w.size(1), out = p.w.size(0) / groups;
    Contraction c;
    c.a = p.w.view();
    c.b = p.x.view();
    c.c = p.y.view();
    c.rows = out;
    c.a_row = p.w.stride(0);
    c.c_row = p.y.stride(1);
    c.batch = {{groups, out * p.w.stride(0), in * p.x.stride(1), out * p.y.stride(1), out * bias_step(p)}};
    Digits inner(p.axes(), channels_last(p.x)), column(p.axes(), false);
    inner.channel({in, p.w.stride(1), p.x.stride(1), 0});
    column.channel({p.y.size(0), p.x.stride(0), p.y.stride(0), 0});
    set_sources(c, p.axes());
    for (std::int64_t a = 0; a < p.axes(); ++a) {
        const std::int64_t x = p.x.stride(a + 2);
        inner.axis(a, {p.w.size(a + 2), p.w.stride(a + 2), s.dilation[a] * x, s.dilation[a]});
        column.axis(a, {p.y.size(a + 2), s.stride[a] * x, p.y.stride(a + 2), s.stride[a]});
        c.source[static_cast<std::size_t>(a)] = {p.x.size(a + 2), -s.pad_low[a]};
        c.b_start -= s.pad_low[a] * x;
    }
    c.inner = inner.list;
    c.column = column.list;
    return c;
}

Contraction weight_grad(const Problem& p) {
    const cpu::ConvSettings& s = p.settings;
    const std::int64_t groups = s.groups, in = p.w.size(1), out = p.w.size(0) / groups;
    Contraction c;
    c.a = p.y.view();
    c.b = p.x.view();
    c.c = p.w.view();
    c.rows = out;
    c.a_row = p.y.stride(1);
    c.c_row = p.w.stride(0);
    c.batch = {{groups, out * p.y.stride(1), in * p.x.stride(1), out * p.w.stride(0), 0}};
    Digits inner(p.axes(), false), column(p.axes(), channels_last(p.x));
    inner.channel({p.y.size(0), p.y.stride(0), p.x.stride(0), 0});
    column.channel({in, p.x.stride(1), p.w.stride(1), 0});
    set_sources(c, p.axes());
    for (std::int64_t a = 0; a < p.axes(); ++a) {
        const std::int64_t x = p.x.stride(a + 2);
        inner.axis(a, {p.y.size(a + 2), p.y.stride(a + 2), s.stride[a] * x, s.stride[a]});
        column.axis(a, {p.w.size(a + 2), s.dilation[a] * x, p.w.stride(a + 2), s.dilation[a]});
        c.source[static_cast<std::size_t>(a)] = {p.x.size(a + 2), -s.pad_low[a]};
        c.b_start -= s.pad_low[a] * x;
    }
    c.inner = inner.list;
    c.column = column.list;
    return c;
}

/// Whether the phases along an axis are alike.
bool phases_alike(const Problem& p, std::int64_t a) {
    const cpu::ConvSettings& s = p.settings;
    return s.stride[a] > 1 && s.dilation[a] == 1 && s.pad_low[a] == 0 && p.w.size(a + 2) % s.stride[a] == 0 &&
           p.x.size(a + 2) % s.stride[a] == 0;
}
/// How many launches the phases along an axis take.
std::int64_t phases_along(const Problem& p, std::int64_t a) {
    return phases_alike(p, a) ? 1 : std::min(p.settings.stride[a], p.x.size(a + 2));
}

/// One phase of the input gradient: residue[a] of positions along each axis (0 where the phases are alike).
Contraction phase(const Problem& p, const Dims& residue) {
    const cpu::ConvSettings& s = p.settings;
    const std::int64_t groups = s.groups, in = p.w.size(1), out = p.w.size(0) / groups;
    Contraction c;
    c.a = p.w.view();
    c.b = p.y.view();
    c.c = p.x.view();
    c.rows = in;
    c.a_row = p.w.stride(1);
    c.c_row = p.x.stride(1);
    c.batch = {{groups, out * p.w.stride(0), out * p.y.stride(1), in * p.x.stride(1), in * bias_step(p)}};
    Digits inner(p.axes(), channels_last(p.y)), column(p.axes(), false);
    inner.channel({out, p.w.stride(0), p.y.stride(1), 0});
    column.channel({p.x.size(0), p.y.stride(0), p.x.stride(0), 0});
    set_sources(c, p.axes());
    for (std::int64_t a = 0; a < p.axes(); ++a) {
        const std::int64_t x = p.x.stride(a + 2), y = p.y.stride(a + 2), w = p.w.stride(a + 2), r = residue[a];
        const std::int64_t stride = s.stride[a], divisor = std::gcd(stride, s.dilation[a]);
        const std::int64_t every = stride / divisor, move = s.dilation[a] / divisor, taps = p.w.size(a + 2);
        std::int64_t k0 = 0;  // the first tap of the phase; `every` or more: none
        while (k0 < std::min(every, taps) && (r + s.pad_low[a] - k0 * s.dilation[a]) % stride != 0) ++k0;
        const std::int64_t met = k0 < std::min(every, taps) ? (taps - 1 - k0) / every + 1 : 0;
        const std::int64_t base = met > 0 ? (r + s.pad_low[a] - k0 * s.dilation[a]) / stride : 0;
        const std::int64_t count = r < p.x.size(a + 2) ? (p.x.size(a + 2) - r - 1) / stride + 1 : 0;
        inner.axis(a, {met, every * w, -move * y, -move});
        column.axis(a, {count, y, stride * x, 1});
        c.source[static_cast<std::size_t>(a)] = {p.y.size(a + 2), base};
        c.a_start += met > 0 ? k0 * w : 0;
        c.b_start += base * y;
        c.c_start += r * x;
        if (phases_alike(p, a)) c.batch.push_back({stride, w, 0, x, 0});
    }
    c.inner = inner.list;
    c.column = column.list;
    return c;
}

/// Calls body(contraction) for every product that the problem is made of.
template <class F> void each_product(const Problem& p, const F& body) {
    if (p.role == Role::forward) return body(forward(p));
    if (p.role == Role::weight_grad) return body(weight_grad(p));
    Dims residue(p.axes(), 0);
    for (std::int64_t a = 0; a >= 0;) {
        body(phase(p, residue));
        for (a = p.axes() - 1; a >= 0 && ++residue[a] == phases_along(p, a); --a) residue[a] = 0;
    }
}

}  // namespace

const char* tiles_gpu_why_not(Role role, const graph::Call& call) {
    const Problem p = simplified(problem_of(role, call));
    if (role == Role::input_grad) {
        std::int64_t phases = 1;
        for (std::int64_t a = 0; a < p.axes() && phases <= most_phases; ++a) phases *= phases_along(p, a);
        if (phases > most_phases) return "strides that make many phases";
        return gpu::contraction_why_not(phase(p, Dims(p.axes(), 0)));
    }
    return gpu::contraction_why_not(role == Role::forward ? forward(p) : weight_grad(p));
}

void run_tiles_gpu(Role role, const graph::Call& call) {
    if (without_products_gpu(role, call)) return;
    const Problem p = simplified(problem_of(role, call));
    const View bias = p.bias ? p.bias->view() : p.w.view();
    each_product(p, [&](Contraction c) {
        set_bias(c, p, bias);
        gpu::merge_batch(c);
        gpu::contract(call.backend, c, call.operation, call.where);
    });
    const Operands o = operands(role, call);
    if (role == Role::weight_grad && o.bias) run_bias_grad_gpu(call, o.y, *o.bias);
}

}  // namespace calor::ops::conv
