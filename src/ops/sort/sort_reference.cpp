// The reference: indices in a stable order by comparison.
#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/sort/lines.h"
#include "ops/sort/sort.h"

namespace calor::ops {
namespace {

/// Strictly before, with NaN after all numbers.
template <class T> bool before(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        return a < b;
    } else {
        const auto x = static_cast<double>(a), y = static_cast<double>(b);
        return x < y || (x == x && y != y);
    }
}

template <class T> void reference(const graph::Call& c) {
    const auto& a = c.attrs<SortAttributes>();
    const View &x = c.inputs[0], &values = c.outputs[0], &indices = c.outputs[1];
    const std::int64_t n = x.size(a.axis), lines = values.count() == 0 ? 0 : values.count() / a.keep;
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (std::int64_t line = 0; line < lines; ++line) {
        const T* from = x.as<T>() + line_offset(x, a.axis, line);
        const std::int64_t step = x.stride(a.axis);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
            return a.descending ? before(from[j * step], from[i * step]) : before(from[i * step], from[j * step]);
        });
        T* value = values.as<T>() + line_offset(values, a.axis, line);
        std::int64_t* index = indices.as<std::int64_t>() + line_offset(indices, a.axis, line);
        for (std::int64_t k = 0; k < a.keep; ++k) {
            const std::int64_t at = order[static_cast<std::size_t>(k)];
            value[k * values.stride(a.axis)] = from[at * step];
            index[k * indices.stride(a.axis)] = at;
        }
    }
}

}  // namespace

void sort_reference(const graph::Call& c) {
    switch (c.inputs[0].dtype) {
        case f64: return reference<double>(c);
        case f32: return reference<float>(c);
        case f16: return reference<float16>(c);
        case bf16: return reference<bfloat16>(c);
        case i64: return reference<std::int64_t>(c);
        case i32: return reference<std::int32_t>(c);
        case i16: return reference<std::int16_t>(c);
        case i8: return reference<std::int8_t>(c);
        case u64: return reference<std::uint64_t>(c);
        case u32: return reference<std::uint32_t>(c);
        case u16: return reference<std::uint16_t>(c);
        case u8:
        case boolean: return reference<std::uint8_t>(c);
    }
}

}  // namespace calor::ops
