// The reference: every output element on its own, the taps of all axes multiplied, summed in f64. In fixed point the
// axes go one after the other, the last one first, each rounded, as the image libraries do.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/resample/resample.h"

namespace calor::ops::resample {
namespace {

std::int64_t offset_of(const View& v, const Dims& index) {
    std::int64_t at = 0;
    for (std::int64_t a = 0; a < v.rank(); ++a) at += index[a] * v.stride(a);
    return at;
}
bool next(Dims& index, const Shape& shape) {
    for (std::int64_t a = shape.rank() - 1; a >= 0; --a) {
        if (++index[a] < shape[a]) return true;
        index[a] = 0;
    }
    return false;
}

/// The sum of one output: axes from `a` on are still to choose taps of.
template <class T>
double sum_taps(const Attributes& attributes, const View& x, const Dims& index, std::int64_t a, std::int64_t at) {
    if (a == x.rank()) return static_cast<double>(x.as<const T>()[at]);
    const Table* t = attributes.table_of(a);
    if (!t) return sum_taps<T>(attributes, x, index, a + 1, at + index[a] * x.stride(a));
    const auto o = static_cast<std::size_t>(index[a]);
    double sum = 0;
    for (auto k = static_cast<std::size_t>(t->start[o]); k < static_cast<std::size_t>(t->start[o + 1]); ++k) {
        sum += t->weight[k] * sum_taps<T>(attributes, x, index, a + 1, at + t->index[k] * x.stride(a));
    }
    return sum / t->divisor / (t->divisors.empty() ? 1 : t->divisors[o]);
}

template <class T> T rounded(double v) {
    if constexpr (std::is_same_v<T, double>) {
        return v;
    } else if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(std::clamp(std::floor(v + 0.5), 0.0, 255.0));
    } else {
        return static_cast<T>(static_cast<float>(v));
    }
}

template <class T> void sums(const graph::Call& c) {
    const auto& attributes = c.attrs<Attributes>();
    const View& y = c.outputs[0];
    Dims index(y.rank(), 0);
    do {
        y.as<T>()[offset_of(y, index)] = rounded<T>(sum_taps<T>(attributes, c.inputs[0], index, 0, 0));
    } while (next(index, *y.shape));
}

/// Tables that only select, of a dtype without arithmetic.
void select_elements(const graph::Call& c) {
    const auto& a = c.attrs<Attributes>();
    const View &x = c.inputs[0], &y = c.outputs[0];
    const std::int64_t size = size_of(y.dtype);
    Dims index(y.rank(), 0);
    do {
        Dims from = index;
        for (std::int64_t i = 0; i < y.rank(); ++i) {
            if (const Table* t = a.table_of(i)) from[i] = t->index[static_cast<std::size_t>(index[i])];
        }
        std::memcpy(y.as<char>() + offset_of(y, index) * size, x.as<char>() + offset_of(x, from) * size,
                    static_cast<std::size_t>(size));
    } while (next(index, *y.shape));
}

/// One axis of an image in fixed point.
void fixed_axis(const Table& t, std::int64_t axis, const View& x, const View& y) {
    Dims index(y.rank(), 0);
    do {
        const auto o = static_cast<std::size_t>(index[axis]);
        const std::int64_t at = offset_of(x, index) - index[axis] * x.stride(axis);
        std::int64_t sum = 1 << 21;
        for (auto k = static_cast<std::size_t>(t.start[o]); k < static_cast<std::size_t>(t.start[o + 1]); ++k) {
            sum += std::int64_t{t.fixed[k]} * x.as<const std::uint8_t>()[at + t.index[k] * x.stride(axis)];
        }
        y.as<std::uint8_t>()[offset_of(y, index)] =
            static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> 22, 0, 255));
    } while (next(index, *y.shape));
}

void fixed_axes(const graph::Call& c) {
    const auto& a = c.attrs<Attributes>();
    Ref<Storage> memory, next_memory;
    Shape shape = *c.inputs[0].shape, next_shape = shape;
    Strides strides = *c.inputs[0].strides, next_strides;
    View x = c.inputs[0];
    for (std::int64_t i = a.axes.rank() - 1; i >= 0; --i) {
        const Table& t = *a.tables[static_cast<std::size_t>(i)];
        next_shape[a.axes[i]] = t.outputs;
        next_strides = contiguous_strides(next_shape);
        View y = c.outputs[0];
        if (i > 0) {
            next_memory = graph::scratch(c, numel(next_shape));
            y = {next_memory->data, u8, &next_shape, &next_strides};
        }
        fixed_axis(t, a.axes[i], x, y);
        memory = std::move(next_memory);
        shape = next_shape;
        strides = next_strides;
        x = {y.data, u8, &shape, &strides};
    }
}

}  // namespace

void run_reference(const graph::Call& call) {
    if (call.outputs[0].count() == 0) return;
    const DType dtype = call.outputs[0].dtype;
    if (call.attrs<Attributes>().fixed_point) return fixed_axes(call);
    switch (dtype) {
        case f64: return sums<double>(call);
        case f32: return sums<float>(call);
        case f16: return sums<float16>(call);
        case bf16: return sums<bfloat16>(call);
        case u8: return sums<std::uint8_t>(call);
        default: return select_elements(call);
    }
}

}  // namespace calor::ops::resample
