// cummax and cummin: values and the latest position that holds them. Several lines are walked side by side, which hides
// the latency of the comparisons, or follows memory where neighbouring lines lie side by side.
#include <algorithm>
#include <type_traits>

#include "device/cpu/parallel.h"
#include "ops/scan/cpu/extreme_lines.h"
#include "ops/scan/scan.h"

namespace calor::ops::scan {
namespace {

constexpr std::int64_t most_lines = 64;
constexpr std::int64_t thread_elements = 8192;
constexpr std::int64_t cached_bytes = std::int64_t{16} << 20;  ///< results beyond are written around the caches

/// `count` lines side by side, from their first elements in the order of travel.
template <class T, bool Largest>
void walk(const Attributes& a, const View& x, const View& values, const View& indices, std::int64_t first,
          std::int64_t count) {
    const std::int64_t n = x.size(a.axis);
    const T* from[most_lines];
    T* to[most_lines];
    std::int64_t *places[most_lines], at[most_lines] = {};
    T best[most_lines] = {};
    const LineOffsets x_at(x, a.axis), value_at(values, a.axis), index_at(indices, a.axis);
    for (std::int64_t j = 0; j < count; ++j) {
        from[j] = x.as<T>() + x_at(first + j);
        to[j] = values.as<T>() + value_at(first + j);
        places[j] = indices.as<std::int64_t>() + index_at(first + j);
    }
    for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t i = a.reverse ? n - 1 - k : k;
        const std::int64_t source = i * x.stride(a.axis), target = i * values.stride(a.axis),
                           place = i * indices.stride(a.axis);
        for (std::int64_t j = 0; j < count; ++j) {
            const T own = from[j][source];
            const bool taken = k == 0 || replaces<Largest>(Comparable<T>(own), Comparable<T>(best[j]));
            best[j] = taken ? own : best[j];
            at[j] = taken ? i : at[j];
            to[j][target] = best[j];
            places[j][place] = at[j];
        }
    }
}

/// Lines of x that lie densely, as those of the results do.
template <class T, bool Largest> void dense_lines(const graph::Call& c) {
    const auto& a = c.attrs<Attributes>();
    const View &x = c.inputs[0], &values = c.outputs[0], &indices = c.outputs[1];
    const std::int64_t n = x.size(a.axis);
    const LineOffsets x_at(x, a.axis), value_at(values, a.axis), index_at(indices, a.axis);
    const ExtremeLine line = find_extreme_line(x.dtype, Largest);
    const bool past_caches = x.count() * (size_of(x.dtype) + 8) > cached_bytes;
    cpu::parallel_for(x.count() / n, std::max<std::int64_t>(1, thread_elements / n),
                      [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t l = begin; l < end; ++l) {
                              line(x.as<T>() + x_at(l), values.as<T>() + value_at(l),
                                   indices.as<std::int64_t>() + index_at(l), n, a.reverse, past_caches);
                          }
                      });
}

template <class T, bool Largest> void extremes(const graph::Call& c) {
    const auto& a = c.attrs<Attributes>();
    const View& x = c.inputs[0];
    const std::int64_t n = x.size(a.axis), lines = x.count() == 0 ? 0 : x.count() / n;
    const bool dense = x.stride(a.axis) == 1 && c.outputs[0].stride(a.axis) == 1 && c.outputs[1].stride(a.axis) == 1;
    if (dense && lines > 0) return dense_lines<T, Largest>(c);
    const std::int64_t side_by_side = most_lines;
    const std::int64_t groups = (lines + side_by_side - 1) / side_by_side;
    const std::int64_t grain = std::max<std::int64_t>(1, thread_elements / std::max<std::int64_t>(1, n * side_by_side));
    cpu::parallel_for(groups, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t g = begin; g < end; ++g) {
            const std::int64_t first = g * side_by_side;
            walk<T, Largest>(a, x, c.outputs[0], c.outputs[1], first, std::min(side_by_side, lines - first));
        }
    });
}

template <class T, bool Largest> void reference(const graph::Call& c) {
    const auto& a = c.attrs<Attributes>();
    const View &x = c.inputs[0], &values = c.outputs[0], &indices = c.outputs[1];
    const std::int64_t n = x.size(a.axis), lines = x.count() == 0 ? 0 : x.count() / n;
    for (std::int64_t line = 0; line < lines; ++line) {
        const T* from = x.as<T>() + LineOffsets(x, a.axis)(line);
        std::int64_t best = a.reverse ? n - 1 : 0;
        for (std::int64_t k = 0; k < n; ++k) {
            const std::int64_t i = a.reverse ? n - 1 - k : k, step = x.stride(a.axis);
            if (replaces<Largest>(Comparable<T>(from[i * step]), Comparable<T>(from[best * step]))) best = i;
            values.as<T>()[LineOffsets(values, a.axis)(line) + i * values.stride(a.axis)] = from[best * step];
            indices.as<std::int64_t>()[LineOffsets(indices, a.axis)(line) + i * indices.stride(a.axis)] = best;
        }
    }
}

template <class T> void run(const graph::Call& c, bool largest, bool plain) {
    if (plain) return largest ? reference<T, true>(c) : reference<T, false>(c);
    return largest ? extremes<T, true>(c) : extremes<T, false>(c);
}

void dispatch(const graph::Call& c, bool largest, bool plain) {
    switch (c.inputs[0].dtype) {
        case f64: return run<double>(c, largest, plain);
        case f32: return run<float>(c, largest, plain);
        case f16: return run<float16>(c, largest, plain);
        case bf16: return run<bfloat16>(c, largest, plain);
        case i64: return run<std::int64_t>(c, largest, plain);
        case i32: return run<std::int32_t>(c, largest, plain);
        case i16: return run<std::int16_t>(c, largest, plain);
        case i8: return run<std::int8_t>(c, largest, plain);
        case u64: return run<std::uint64_t>(c, largest, plain);
        case u32: return run<std::uint32_t>(c, largest, plain);
        case u16: return run<std::uint16_t>(c, largest, plain);
        case u8:
        case boolean: return run<std::uint8_t>(c, largest, plain);
    }
    fail_internal("a running extreme of an unknown dtype");
}

/// One line of the gradient, as below.
template <class T, class Sum>
void spread_line(const T* g, std::int64_t g_step, const std::int64_t* indices, T* y, std::int64_t n, bool reverse) {
    Sum sum = 0;
    std::int64_t extreme = reverse ? n - 1 : 0;
    for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t i = reverse ? n - 1 - k : k;
        y[i] = T(0);
        if (k > 0 && indices[i] == i) {
            y[extreme] = static_cast<T>(sum);
            extreme = i;
            sum = 0;
        }
        sum += static_cast<Sum>(g[i * g_step]);
    }
    y[extreme] = static_cast<T>(sum);
}

/// The gradient: what flows into a run of results that share an extreme goes to where it stands. In the order of travel
/// a run begins at its extreme, whose index is its own position.
template <class T> void spread_back(const graph::Call& c) {
    using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto& a = c.attrs<Attributes>();
    const View &g = c.inputs[0], &indices = c.inputs[1], &y = c.outputs[0];
    const std::int64_t n = y.size(a.axis), lines = y.count() == 0 ? 0 : y.count() / n;
    const std::int64_t group = y.stride(a.axis) == 1 ? 1 : most_lines;  // lines side by side where memory is so
    const LineOffsets g_at(g, a.axis), index_at(indices, a.axis), y_at(y, a.axis);
    const std::int64_t grain = std::max<std::int64_t>(1, thread_elements / std::max<std::int64_t>(1, n * group));
    cpu::parallel_for((lines + group - 1) / group, grain, [&](std::int64_t begin, std::int64_t end) {
        const T* from[most_lines];
        const std::int64_t* places[most_lines];
        T *to[most_lines], *extreme[most_lines];
        Sum sum[most_lines];
        for (std::int64_t first = begin * group; first < std::min(end * group, lines); first += group) {
            const std::int64_t count = std::min(group, lines - first);
            if (group == 1 && indices.stride(a.axis) == 1) {
                spread_line<T, Sum>(g.as<T>() + g_at(first), g.stride(a.axis),
                                    indices.as<std::int64_t>() + index_at(first), y.as<T>() + y_at(first), n,
                                    a.reverse);
                continue;
            }
            for (std::int64_t j = 0; j < count; ++j) {
                from[j] = g.as<T>() + g_at(first + j);
                places[j] = indices.as<std::int64_t>() + index_at(first + j);
                to[j] = extreme[j] = y.as<T>() + y_at(first + j);
            }
            for (std::int64_t k = 0; k < n; ++k) {
                const std::int64_t i = a.reverse ? n - 1 - k : k;
                for (std::int64_t j = 0; j < count; ++j) {
                    T* own = to[j] + i * y.stride(a.axis);
                    *own = T(0);
                    if (k == 0 || places[j][i * indices.stride(a.axis)] == i) {
                        if (k > 0) *extreme[j] = static_cast<T>(sum[j]);
                        extreme[j] = own;
                        sum[j] = 0;
                    }
                    sum[j] += static_cast<Sum>(from[j][i * g.stride(a.axis)]);
                }
            }
            for (std::int64_t j = 0; j < count; ++j) *extreme[j] = static_cast<T>(sum[j]);
        }
    });
}

}  // namespace

void run_extremes_gradient(const graph::Call& c) {
    switch (c.outputs[0].dtype) {
        case f64: return spread_back<double>(c);
        case f32: return spread_back<float>(c);
        case f16: return spread_back<float16>(c);
        case bf16: return spread_back<bfloat16>(c);
        default: fail_internal("the gradient of a running extreme is not floating");
    }
}
void run_extremes(const graph::Call& c, bool largest) { dispatch(c, largest, false); }
void run_extremes_reference(const graph::Call& c, bool largest) { dispatch(c, largest, true); }

}  // namespace calor::ops::scan
