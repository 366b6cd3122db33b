// The reference: the tables of forward and backward variables (Graves et al. 2006, section 4.1) in f64, in logarithms,
// over the 2 S + 1 states blank, label 1, blank, ..., label S, blank.
#include <cmath>
#include <vector>

#include "ops/ctc/problem.h"

namespace calor::ops::ctc {
namespace {

double add(double a, double b) {
    const double top = std::fmax(a, b);
    return top == -HUGE_VAL ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
}

template <class T> double read(const View& v, std::int64_t at) {
    if constexpr (std::is_same_v<T, double>) return v.as<double>()[at];
    if constexpr (!std::is_same_v<T, double>) return static_cast<double>(static_cast<float>(v.as<T>()[at]));
}
double read_wide(const View& v, std::int64_t at) {
    return v.dtype == f64 ? v.as<double>()[at] : static_cast<double>(v.as<float>()[at]);
}
void write_wide(const View& v, std::int64_t at, double value) {
    if (v.dtype == f64) {
        v.as<double>()[at] = value;
    } else {
        v.as<float>()[at] = static_cast<float>(value);
    }
}

/// One sample.
template <class T> struct Sample {
    const Problem& p;
    const View& x;
    std::int64_t n, frames, classes, states;
    std::vector<std::int64_t> names;  ///< the class of a state
    std::vector<double> sums;         ///< of a frame, 0 for log-probabilities

    Sample(const Problem& problem, const View& view, std::int64_t sample)
        : p(problem), x(view), n(sample), frames(p.frames_of(n)), classes(x.size(2)) {
        for (const std::int64_t label : p.labels_of(n)) {
            names.push_back(p.blank);
            names.push_back(label);
        }
        names.push_back(p.blank);
        states = std::ssize(names);
        for (std::int64_t t = 0; t < frames; ++t) {
            double sum = p.logits ? -HUGE_VAL : 0;
            for (std::int64_t k = 0; k < classes && p.logits; ++k) sum = add(sum, score(t, k));
            sums.push_back(sum);
        }
    }
    double score(std::int64_t t, std::int64_t k) const {
        return read<T>(x, t * x.stride(0) + n * x.stride(1) + k * x.stride(2));
    }
    std::int64_t name(std::int64_t s) const { return names[static_cast<std::size_t>(s)]; }
    double emission(std::int64_t t, std::int64_t s) const {
        return score(t, name(s)) - sums[static_cast<std::size_t>(t)];
    }
    bool skips(std::int64_t s) const { return s >= 2 && name(s) != p.blank && name(s) != name(s - 2); }

    using Table = std::vector<std::vector<double>>;
    Table table() const {
        return Table(static_cast<std::size_t>(frames),
                     std::vector<double>(static_cast<std::size_t>(states), -HUGE_VAL));
    }
    /// alpha(t, s): frames 0 ... t, ending in state s.
    Table forward() const {
        Table alpha = table();
        for (std::size_t t = 0; t < alpha.size(); ++t) {
            for (std::int64_t s = 0; s < states; ++s) {
                const auto i = static_cast<std::size_t>(s);
                double sum = t == 0 && s < 2 ? 0 : -HUGE_VAL;
                if (t > 0) {
                    sum = alpha[t - 1][i];
                    if (s >= 1) sum = add(sum, alpha[t - 1][i - 1]);
                    if (skips(s)) sum = add(sum, alpha[t - 1][i - 2]);
                }
                alpha[t][i] = sum + emission(static_cast<std::int64_t>(t), s);
            }
        }
        return alpha;
    }
    /// beta(t, s): frames t + 1 ... to the end, from state s on.
    Table backward() const {
        Table beta = table();
        for (std::int64_t t = frames - 1; t >= 0; --t) {
            const auto row = static_cast<std::size_t>(t);
            for (std::int64_t s = 0; s < states; ++s) {
                double sum = t == frames - 1 && s >= states - 2 ? 0 : -HUGE_VAL;
                for (std::int64_t to = s; to <= s + 2 && to < states && t < frames - 1; ++to) {
                    if (to == s + 2 && !skips(to)) continue;
                    sum = add(sum, beta[row + 1][static_cast<std::size_t>(to)] + emission(t + 1, to));
                }
                beta[row][static_cast<std::size_t>(s)] = sum;
            }
        }
        return beta;
    }
    double log_probability(const Table& alpha) const {
        for (std::int64_t t = 0; t < frames; ++t) {
            const double sum = sums[static_cast<std::size_t>(t)];
            if (!std::isfinite(sum)) return NAN;
            for (std::int64_t s = 0; s < states; ++s) {
                if (!(emission(t, s) < HUGE_VAL)) return NAN;
            }
        }
        if (frames == 0) return states == 1 ? 0 : -HUGE_VAL;
        const std::vector<double>& last = alpha.back();
        return states == 1 ? last[0] : add(last[last.size() - 1], last[last.size() - 2]);
    }
};

template <class T> void forward(const graph::Call& c) {
    const Problem& p = *c.attrs<Attributes>().problem;
    for (std::int64_t n = 0; n < p.samples(); ++n) {
        const Sample<T> sample(p, c.inputs[0], n);
        write_wide(c.outputs[0], n * c.outputs[0].stride(0), 0 - sample.log_probability(sample.forward()));
        for (std::int64_t t = 0; p.logits && t < c.inputs[0].size(0); ++t) {
            const View& sums = c.outputs[1];
            write_wide(sums, t * sums.stride(0) + n * sums.stride(1),
                       t < sample.frames ? sample.sums[static_cast<std::size_t>(t)] : 0);
        }
    }
}

template <class T> void backward(const graph::Call& c) {
    const Problem& p = *c.attrs<Attributes>().problem;
    const View &x = c.inputs[0], &y = c.outputs[0];
    for (std::int64_t n = 0; n < p.samples(); ++n) {
        const Sample<T> sample(p, x, n);
        const auto alpha = sample.forward(), beta = sample.backward();
        const double total = sample.log_probability(alpha), g = read_wide(c.inputs[2], n * c.inputs[2].stride(0));
        for (std::int64_t t = 0; t < x.size(0); ++t) {
            std::vector<double> row(static_cast<std::size_t>(sample.classes), 0.0);
            const auto at = static_cast<std::size_t>(t);
            for (std::int64_t k = 0; k < sample.classes && t < sample.frames && p.logits; ++k)
                row[static_cast<std::size_t>(k)] = std::exp(sample.score(t, k) - sample.sums[at]);
            for (std::size_t s = 0; s < sample.names.size() && t < sample.frames; ++s)
                row[static_cast<std::size_t>(sample.names[s])] -= std::exp(alpha[at][s] + beta[at][s] - total);
            for (std::int64_t k = 0; k < sample.classes; ++k) {
                double value = t < sample.frames ? g * row[static_cast<std::size_t>(k)] : 0;
                if (total == -HUGE_VAL) value = 0;
                if (std::isnan(total) && t < sample.frames) value = NAN;
                T& to = y.as<T>()[t * y.stride(0) + n * y.stride(1) + k * y.stride(2)];
                if constexpr (std::is_same_v<T, double>) to = value;
                if constexpr (!std::is_same_v<T, double>) to = T(static_cast<float>(value));
            }
        }
    }
}

template <template <class> class Run> void dispatch(const graph::Call& c) {
    switch (c.inputs[0].dtype) {
        case f64: return Run<double>()(c);
        case f32: return Run<float>()(c);
        case f16: return Run<float16>()(c);
        case bf16: return Run<bfloat16>()(c);
        default: fail_internal("a CTC loss of scores that are not floating");
    }
}
template <class T> struct Forward {
    void operator()(const graph::Call& c) const { forward<T>(c); }
};
template <class T> struct Backward {
    void operator()(const graph::Call& c) const { backward<T>(c); }
};

}  // namespace

void run_forward_reference(const graph::Call& c) { dispatch<Forward>(c); }
void run_backward_reference(const graph::Call& c) { dispatch<Backward>(c); }

}  // namespace calor::ops::ctc
