// The gradient of the CTC gradient. With the states' logarithmic scores E [T, N, L] (L = 2 S + 1), their forward
// variables A and the transition weights W_k[t](s) = exp(A[t-1](s - k) + E[t](s) - A[t](s)), k = 0, 1, 2, everything is
// made of two operations that are closed under differentiation:
//   ctc_alpha   A of E; its gradient is r = band'(W, u)
//   ctc_band    h[t](s) = b[t](s) + sum over k of W_k[t](s) h[t-1](s - k), or its transpose, walked backward in time
// The posteriors are r = band'(W, seed) with the seed at the last frame. The product of the Hessian, which is
// symmetric, with a cotangent v is the derivative of p - r in the direction v.
#include <cmath>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/index.h"
#include "calor/reduce.h"
#include "calor/softmax.h"
#include "calor/view.h"
#include "device/cpu/parallel.h"
#include "ops/ctc/problem.h"
#include "ops/registry.h"

namespace calor::ops::ctc {
namespace {

using graph::GradContext;

constexpr double unreachable = -1e30;

/// An element of a view [T, N, L] of type T.
template <class T> class Table {
public:
    explicit Table(const View& v) : data_(v.as<T>()), t_(v.stride(0)), n_(v.stride(1)), s_(v.stride(2)) {}
    T& operator()(std::int64_t t, std::int64_t n, std::int64_t s) const { return data_[t * t_ + n * n_ + s * s_]; }

private:
    T* data_;
    std::int64_t t_, n_, s_;
};

bool skips(std::span<const std::int64_t> labels, std::int64_t s) {
    const auto i = static_cast<std::size_t>(s / 2);
    return s % 2 == 1 && i >= 1 && i < labels.size() && labels[i] != labels[i - 1];
}

template <class T> void run_alpha(const graph::Call& c) {
    const Problem& p = *c.attrs<Attributes>().problem;
    const std::int64_t frames = c.inputs[0].size(0), states = c.inputs[0].size(2);
    const Table<T> e(c.inputs[0]), a(c.outputs[0]);
    const auto exponential = [](T x, T top) { return std::exp(x - top); };
    cpu::parallel_for(p.samples(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
            for (std::int64_t t = 0; t < frames; ++t) {
                for (std::int64_t s = 0; s < states; ++s) {
                    constexpr auto none = static_cast<T>(unreachable);
                    T stay = none, step = none, skip = none;
                    if (t == 0) {
                        if (s < 2 && p.frames_of(n) > 0) stay = 0;
                    } else {
                        stay = a(t - 1, n, s);
                        if (s >= 1) step = a(t - 1, n, s - 1);
                        if (s >= 2 && skips(p.labels_of(n), s)) skip = a(t - 1, n, s - 2);
                    }
                    if (t >= p.frames_of(n)) {
                        a(t, n, s) = stay;
                        continue;
                    }
                    const T top = std::max(stay, std::max(step, skip));
                    const T sum = exponential(stay, top) + exponential(step, top) + exponential(skip, top);
                    const T value = top + std::log(sum) + e(t, n, s);
                    a(t, n, s) = top > none / 2 && value > none / 2 ? value : none;
                }
            }
        }
    });
}

template <class T> void run_band(const graph::Call& c) {
    const bool transposed = c.attrs<BandAttributes>().transposed;
    const View& shape = c.outputs[0];
    const std::int64_t frames = shape.size(0), samples = shape.size(1), states = shape.size(2);
    const Table<T> w[3] = {Table<T>(c.inputs[0]), Table<T>(c.inputs[1]), Table<T>(c.inputs[2])};
    const Table<T> b(c.inputs[3]), h(c.outputs[0]);
    cpu::parallel_for(samples, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
            for (std::int64_t i = 0; i < frames; ++i) {
                const std::int64_t t = transposed ? frames - 1 - i : i;
                for (std::int64_t s = 0; s < states; ++s) {
                    T sum = b(t, n, s);
                    for (std::int64_t k = 0; k < 3 && i > 0; ++k) {
                        if (transposed && s + k < states) sum += w[k](t + 1, n, s + k) * h(t + 1, n, s + k);
                        if (!transposed && s >= k) sum += w[k](t, n, s) * h(t - 1, n, s - k);
                    }
                    h(t, n, s) = sum;
                }
            }
        }
    });
}

const graph::Implementation alpha_list[] = {{.name = "reference", .run = [](const graph::Call& c) {
                                                 if (c.outputs[0].dtype == f64) return run_alpha<double>(c);
                                                 run_alpha<float>(c);
                                             }}};
const graph::Implementation band_list[] = {{.name = "reference", .run = [](const graph::Call& c) {
                                                if (c.outputs[0].dtype == f64) return run_band<double>(c);
                                                run_band<float>(c);
                                            }}};

graph::Specs infer_same(const graph::InferContext& c) { return {{c.inputs[0].shape(), c.inputs[0].dtype()}}; }

/// y[t](s) = x[t - time](s - state); `fill` comes in.
Tensor moved(const Tensor& x, std::int64_t time, std::int64_t state, double fill, const Where& at) {
    if (x.size(0) <= std::abs(time) || x.size(2) <= std::abs(state)) return full(x.shape(), fill, x.dtype(), at);
    return pad(x, {{time, -time}, {0, 0}, {state, -state}}, fill, at);
}

using Weights = std::array<Tensor, 3>;

void band_gradient(const GradContext& c);
const graph::Operation band_operation{
    .name = "ctc_band",
    .infer = infer_same,
    .gradient = band_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(band_list); },
    .gpu_implementations = band_on_gpu};

Tensor band(const Weights& w, const Tensor& b, bool transposed, const Where& where) {
    return graph::record(band_operation, BandAttributes{transposed}, {w[0], w[1], w[2], b}, where);
}

/// db = band'(W, u), dW_k[t](s) = db[t](s) h[t-1](s - k); with the transpose the two change places.
void band_gradient(const GradContext& c) {
    const bool transposed = c.attrs<BandAttributes>().transposed;
    const Tensor back = band({c.inputs[0], c.inputs[1], c.inputs[2]}, c.cotangent(), !transposed, c.where);
    const Tensor &late = transposed ? c.outputs[0] : back, &early = transposed ? back : c.outputs[0];
    for (std::size_t k = 0; k < 3; ++k) {
        if (!c.needs[k]) continue;
        c.grads[k] = mul(late, moved(early, 1, static_cast<std::int64_t>(k), 0, c.where), c.where);
    }
    c.grads[3] = back;
}

/// What is constant in a problem, as tensors: of states [1, N, L], of frames [T, N, 1].
struct Masks {
    Tensor classes;  ///< i64 [T, N, L]: the class of a state
    Tensor counts;   ///< the frames that count
    Tensor skips;    ///< the states that are reached from two before
    Tensor last;     ///< [N, L]: where paths end
};
Masks make_masks(const Problem& p, std::int64_t frames, const Where& where) {
    std::int64_t most = 0;
    const std::int64_t samples = p.samples();
    for (std::int64_t n = 0; n < samples; ++n) most = std::max(most, std::ssize(p.labels_of(n)));
    const std::int64_t states = 2 * most + 1;
    std::vector<std::int64_t> classes;
    std::vector<std::uint8_t> counts, skip, last;
    for (std::int64_t n = 0; n < samples; ++n) {
        const auto labels = p.labels_of(n);
        const std::int64_t end = 2 * std::ssize(labels);
        for (std::int64_t s = 0; s < states; ++s) {
            classes.push_back(s % 2 == 1 && s < end ? labels[static_cast<std::size_t>(s / 2)] : p.blank);
            skip.push_back(skips(labels, s) ? 1 : 0);
            last.push_back(s == end || s == end - 1 ? 1 : 0);
        }
    }
    for (std::int64_t t = 0; t < frames; ++t) {
        for (std::int64_t n = 0; n < samples; ++n) counts.push_back(t < p.frames_of(n) ? 1 : 0);
    }
    const auto flags = [&](const std::vector<std::uint8_t>& values, const Shape& shape) {
        return tensor(values, shape, where).to(boolean, where);
    };
    return {expand(tensor(classes, {1, samples, states}, where), {frames, samples, states}, where),
            flags(counts, {frames, samples, 1}), flags(skip, {1, samples, states}), flags(last, {samples, states})};
}

/// W of E and A: 0 into and out of what cannot be reached.
Weights transitions(const Tensor& e, const Tensor& a, const Masks& m, const Where& at) {
    Weights w;
    const Tensor reached = gt(a, unreachable / 2, at);
    for (std::size_t k = 0; k < 3; ++k) {
        const Tensor from = moved(a, 1, static_cast<std::int64_t>(k), unreachable, at);
        Tensor open = logical_and(reached, gt(from, unreachable / 2, at), at);
        if (k > 0) open = logical_and(open, m.counts, at);
        if (k == 2) open = logical_and(open, m.skips, at);
        const Tensor exponent = where(open, sub(add(from, e, at), a, at), 0, at);
        w[k] = where(open, exp(exponent, at), 0, at);
    }
    return w;
}

void alpha_gradient(const GradContext& c) {
    const Problem& p = *c.attrs<Attributes>().problem;
    const Tensor &e = c.inputs[0], &a = c.outputs[0];
    const Masks m = make_masks(p, e.size(0), c.where);
    const Weights w = transitions(where(m.counts, e, 0, c.where), a, m, c.where);
    const Tensor back = band(w, c.cotangent(), true, c.where);
    const Tensor open = logical_and(m.counts, gt(a, unreachable / 2, c.where), c.where);
    c.grads[0] = where(open, back, 0, c.where);
}

const graph::Operation alpha_operation{
    .name = "ctc_alpha",
    .infer = infer_same,
    .gradient = alpha_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(alpha_list); },
    .gpu_implementations = alpha_on_gpu};

Tensor alpha(const Attributes& a, const Tensor& e, const Where& where) {
    return graph::record(alpha_operation, a, {e}, where);
}

/// A tensor [N, L] as the last of `frames` frames, zeros before it.
Tensor at_last(const Tensor& x, std::int64_t frames, const Where& where) {
    return pad(unsqueeze(x, 0, where), {{frames - 1, 0}, {0, 0}, {0, 0}}, 0, where);
}

/// The derivative of the posteriors of the states when their scores E change by `change`; 0 for samples that cannot be
/// aligned. `possible` [1, N, 1] says which can.
Tensor posterior_change(const Attributes& attributes, const Masks& m, const Tensor& scores, const Tensor& change,
                        Tensor& possible, const Where& at) {
    const std::int64_t frames = scores.size(0), samples = scores.size(1);
    const Tensor e = where(m.counts, scores, 0, at), e_dot = where(m.counts, change, 0, at);
    const Tensor a = alpha(attributes, e, at);
    const Weights w = transitions(e, a, m, at);
    const Tensor ends = where(m.last, select(a, 0, frames - 1, at), unreachable, at);
    const Tensor aligned = gt(max(ends, {1}, true, at), unreachable / 2, at);
    possible = reshape(aligned, {1, samples, 1}, at);
    const Tensor seed = where(aligned, softmax(ends, 1, at), 0, at);
    const Tensor posterior = band(w, at_last(seed, frames, at), true, at);

    const Tensor a_dot = band(w, e_dot, false, at), end_dot = select(a_dot, 0, frames - 1, at);
    const Tensor seed_dot = mul(seed, sub(end_dot, sum(mul(seed, end_dot, at), {1}, true, at), at), at);
    Tensor source = at_last(seed_dot, frames, at);
    for (std::size_t k = 0; k < 3; ++k) {
        const auto by = static_cast<std::int64_t>(k);
        const Tensor rate = sub(add(moved(a_dot, 1, by, 0, at), e_dot, at), a_dot, at);
        source = add(source, moved(mul(mul(w[k], rate, at), posterior, at), -1, -by, 0, at), at);
    }
    return where(m.counts, band(w, source, true, at), 0, at);
}

}  // namespace

void gradient_of_gradient(const GradContext& c) {
    const auto& a = c.attrs<Attributes>();
    const Where& at = c.where;
    const Tensor x = c.inputs[0].to(c.inputs[1].dtype(), at), v = c.cotangent().to(x.dtype(), at);
    const std::int64_t samples = x.size(1);
    if (x.numel() == 0) {
        if (c.needs[0]) c.grads[0] = zeros(x.shape(), x.dtype(), at);
        if (c.needs[2]) c.grads[2] = zeros({samples}, x.dtype(), at);
        return;
    }
    if (c.needs[2]) {
        const Tensor sums = a.problem->logits ? c.inputs[3] : Tensor();
        const Tensor one = ones({samples}, x.dtype(), at);
        c.grads[2] = sum(mul(v, record_gradient(a, x, c.inputs[1], one, sums, at), at), {0, 2}, false, at);
    }
    if (!c.needs[0]) return;
    const Masks m = make_masks(*a.problem, x.size(0), at);
    Tensor possible, product;
    if (a.problem->logits) {
        const Tensor p = softmax(x, 2, at), change = sub(v, sum(mul(p, v, at), {2}, true, at), at);
        const Tensor scores = gather(log_softmax(x, 2, at), 2, m.classes, at);
        const Tensor r = posterior_change(a, m, scores, gather(change, 2, m.classes, at), possible, at);
        product = where(logical_and(m.counts, possible, at), mul(p, change, at), 0, at);
        product = scatter_add(product, 2, m.classes, neg(r, at), at);
    } else {
        const Tensor scores = gather(x, 2, m.classes, at);
        const Tensor r = posterior_change(a, m, scores, gather(v, 2, m.classes, at), possible, at);
        product = scatter_add(zeros(x.shape(), x.dtype(), at), 2, m.classes, neg(r, at), at);
    }
    c.grads[0] = mul(product, reshape(c.inputs[2], {1, samples, 1}, at), at);
}

}  // namespace calor::ops::ctc

namespace calor::ops {

Descriptors ctc_second_order_descriptors() { return {&ctc::band_operation, &ctc::alpha_operation}; }

}  // namespace calor::ops
