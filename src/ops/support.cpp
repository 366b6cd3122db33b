#include "ops/support.h"

#include <algorithm>

namespace calor::ops {

void check_defined(std::string_view operation, const Tensor& t, std::string_view argument, const Where& where) {
    if (!t.defined()) fail("tensor/undefined", operation, where, {{"argument", argument}});
}

std::int64_t normalize_axis(std::string_view operation, std::int64_t axis, std::int64_t rank, const Where& where) {
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) {
        fail("axis/range", operation, where, {{"axis", axis}, {"rank", rank}, {"low", -rank}, {"high", rank - 1}});
    }
    return at;
}

Axes normalize_axes(std::string_view operation, const Axes& axes, std::int64_t rank, const Where& where) {
    Axes all;
    if (axes.empty()) {
        for (std::int64_t a = 0; a < rank; ++a) all.push_back(a);
        return all;
    }
    for (const std::int64_t a : axes) {
        const std::int64_t at = normalize_axis(operation, a, rank, where);
        if (std::ranges::find(all, at) != all.end())
            fail("axis/duplicate", operation, where, {{"axis", a}, {"axes", axes}});
        all.push_back(at);
    }
    std::ranges::sort(all);
    return all;
}

Dims per_axis(std::string_view operation, std::string_view option, const PerAxis& values, std::int64_t count,
              std::int64_t otherwise, const Where& where) {
    if (!values.given()) return Dims(count, otherwise);
    if (values.scalar()) return Dims(count, values.values()[0]);
    if (values.values().rank() != count) {
        fail("value/count", operation, where,
             {{"option", option}, {"got", values.values().rank()}, {"expected", count}});
    }
    return values.values();
}

graph::Format format_of_input(const graph::Call& call) {
    const View& x = call.inputs[0];
    if (x.rank() < 3 || x.contiguous()) return graph::Format::plain;
    std::int64_t expected = x.size(1);
    bool last = x.stride(1) == 1 || x.size(1) == 1;
    for (std::int64_t a = x.rank() - 1; a != 1 && last; a = a == 2 ? 0 : a - 1) {
        last = x.size(a) == 1 || x.stride(a) == expected;
        expected *= x.size(a);
        if (a == 0) break;
    }
    return last ? graph::Format::channels_last : graph::Format::plain;
}

}  // namespace calor::ops
