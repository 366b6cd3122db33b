// Rewriting of convolutions: which axes go, and how a problem falls into two.
#include "ops/conv/conv_problem.h"

#include <algorithm>
#include <cstddef>

namespace calor::ops::conv {
namespace {

/// dilation (kernel - 1) + 1
std::int64_t extent(const Problem& p, std::int64_t a) { return p.settings.dilation[a] * (p.w.size(a + 2) - 1) + 1; }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }

/// The kernel does not see the axis: position i of y reads position i of x.
bool is_pointwise(const Problem& p, std::int64_t a) {
    const cpu::ConvSettings& s = p.settings;
    return p.w.size(a + 2) == 1 && s.pad_low[a] == 0 && p.x.size(a + 2) == p.y.size(a + 2) &&
           (s.stride[a] == 1 || p.x.size(a + 2) == 1);
}

void remove_axis(Problem& p, std::int64_t a) {
    for (Array* array : {&p.x, &p.w, &p.y}) {
        array->shape.erase(a + 2);
        array->strides.erase(a + 2);
    }
    for (Dims* list : {&p.settings.stride, &p.settings.dilation, &p.settings.pad_low, &p.settings.pad_high})
        list->erase(a);
}

/// Position j reads entry j stride: takes only those entries, if all exist.
void read_every(Problem& p, std::int64_t a) {
    const std::int64_t stride = p.settings.stride[a], count = p.y.size(a + 2);
    if (count == 0 || (count - 1) * stride >= p.x.size(a + 2)) return;
    p.x.strides[a + 2] *= stride;
    p.x.shape[a + 2] = count;
    p.settings.stride[a] = 1;
    p.settings.pad_high[a] = 0;
}

/// Whether axes `outer` and `inner` can be walked as one.
bool mergeable(const Array& array, std::int64_t outer, std::int64_t inner) {
    return array.size(outer) == 1 || array.size(inner) == 1 ||
           array.stride(outer) == array.size(inner) * array.stride(inner);
}
bool mergeable(const Problem& p, std::int64_t outer, std::int64_t inner) {
    return mergeable(p.x, outer, inner) && mergeable(p.y, outer, inner);
}

/// Makes `inner` part of `outer`; it is left with size 1.
void merge(Array& array, std::int64_t outer, std::int64_t inner) {
    if (array.size(inner) != 1) array.strides[outer] = array.stride(inner);
    array.shape[outer] *= array.size(inner);
    array.shape[inner] = 1;
}
void merge(Problem& p, std::int64_t outer, std::int64_t inner) {
    merge(p.x, outer, inner);
    merge(p.y, outer, inner);
    if (inner >= 2) remove_axis(p, inner - 2);
}

/// Positions [begin, end) along axis a of y, and what of x they read.
Problem part_of_output(Problem p, std::int64_t a, std::int64_t begin, std::int64_t end) {
    cpu::ConvSettings& s = p.settings;
    const std::int64_t size = p.x.size(a + 2), first = begin * s.stride[a] - s.pad_low[a];
    const std::int64_t last = (end - 1) * s.stride[a] - s.pad_low[a] + extent(p, a);
    const std::int64_t from = std::clamp<std::int64_t>(first, 0, size - 1);
    p.x.keep(a + 2, from, std::clamp(last, from + 1, size));
    p.y.keep(a + 2, begin, end);
    s.pad_low[a] = from - first;
    s.pad_high[a] = (end - begin - 1) * s.stride[a] + extent(p, a) - p.x.size(a + 2) - s.pad_low[a];
    return p;
}

/// Positions [begin, end) along axis a of x, and the part of y that reads them.
Problem part_of_input(Problem p, std::int64_t a, std::int64_t begin, std::int64_t end) {
    cpu::ConvSettings& s = p.settings;
    const std::int64_t stride = s.stride[a], count = p.y.size(a + 2), low = s.pad_low[a];
    std::int64_t from = std::clamp<std::int64_t>(ceil_div(begin + low - extent(p, a) + 1, stride), 0, count - 1);
    while (from > 0 && low + begin < from * stride) --from;  // padding stays 0 or larger
    const std::int64_t until = std::clamp((end - 1 + low) / stride + 1, from + 1, count);
    p.x.keep(a + 2, begin, end);
    p.y.keep(a + 2, from, until);
    s.pad_low[a] = low + begin - from * stride;
    const std::int64_t high = (until - from - 1) * stride + extent(p, a) - (end - begin) - s.pad_low[a];
    s.pad_high[a] = high < 0 ? std::min<std::int64_t>(0, high + stride - 1) : high;  // the size may have a remainder
    return p;
}

}  // namespace

void Array::keep(std::int64_t axis, std::int64_t begin, std::int64_t end) {
    data = static_cast<std::byte*>(data) + begin * strides[axis] * size_of(dtype);
    shape[axis] = end - begin;
}

Problem problem_of(Role role, const graph::Call& call) {
    const auto& [window, groups, sizes, with_bias] = call.attrs<Attributes>();
    const Operands o = operands(role, call);
    Problem p{role,       Array(o.x), Array(o.w),
              Array(o.y), {},         {window.stride, window.dilation, window.pad_low, window.pad_high, groups}};
    if (o.bias) p.bias = Array(*o.bias);
    return p;
}

Problem simplified(Problem p) {
    for (std::int64_t a = 0; a < p.axes() && p.role != Role::input_grad; ++a) {
        if (p.w.size(a + 2) == 1 && p.settings.stride[a] > 1 && p.settings.pad_low[a] == 0) read_every(p, a);
    }
    for (std::int64_t a = p.axes(); a-- > 0;) {
        if (p.axes() > 1 && is_pointwise(p, a) && p.x.size(a + 2) == 1) remove_axis(p, a);
    }
    for (std::int64_t a = p.axes() - 1; a-- > 0;) {
        if (is_pointwise(p, a) && is_pointwise(p, a + 1) && mergeable(p, a + 2, a + 3)) merge(p, a + 2, a + 3);
    }
    for (std::int64_t a = 0; a < p.axes() && p.axes() > 1;) {
        if (is_pointwise(p, a) && mergeable(p, 0, a + 2)) {
            merge(p, 0, a + 2);
            a = 0;
        } else {
            ++a;
        }
    }
    return p;
}

std::optional<std::pair<Problem, Problem>> halves(const Problem& p) {
    if (const std::int64_t batch = p.x.size(0); batch > 1) {
        std::pair<Problem, Problem> both{p, p};
        for (Array* array : {&both.first.x, &both.first.y}) array->keep(0, 0, batch / 2);
        for (Array* array : {&both.second.x, &both.second.y}) array->keep(0, batch / 2, batch);
        return both;
    }
    const Array& positions = p.role == Role::input_grad ? p.x : p.y;
    std::int64_t longest = 0;
    for (std::int64_t a = 1; a < p.axes(); ++a) {
        if (positions.size(a + 2) > positions.size(longest + 2)) longest = a;
    }
    const std::int64_t count = positions.size(longest + 2);
    if (count < 2) return std::nullopt;
    const auto part = p.role == Role::input_grad ? part_of_input : part_of_output;
    return std::pair{part(p, longest, 0, count / 2), part(p, longest, count / 2, count)};
}

}  // namespace calor::ops::conv
