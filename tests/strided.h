// For tests of operations that must not care how their inputs lie in memory: the same values under several strides, and
// plain walks over indices to compute what is expected.
#pragma once

#include <numeric>
#include <vector>

#include "calor/calor.h"
#include "graph/node.h"

namespace calor::testing {

inline constexpr DType every_dtype[] = {f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean};

/// Small whole numbers, different from their neighbours, that every dtype holds exactly (bool: 0 and 1).
inline Tensor counting(const Shape& shape, DType dtype) {
    std::vector<double> values(static_cast<std::size_t>(numel(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<double>((i * 7 + 3) % (dtype == boolean ? 2 : 101));
    }
    return tensor(values, shape).to(dtype);
}

inline std::vector<double> values_of(const Tensor& t) { return t.to(f64).to_vector<double>(); }
inline Strides strides_of(const Tensor& t) { return graph::value_of(t.eval()).layout.strides; }

/// t itself, and t with its axes reversed in memory, walked backwards, and with gaps.
inline std::vector<Tensor> under_other_strides(const Tensor& t) {
    std::vector<Tensor> all{t.eval()};
    if (t.rank() == 0) return all;
    Axes reversed;
    for (std::int64_t a = t.rank() - 1; a >= 0; --a) reversed.push_back(a);
    all.push_back(permute(contiguous(permute(t, reversed)), reversed).eval());
    all.push_back(flip(contiguous(flip(t))).eval());
    all.push_back(slice(repeat(t, 3, -1), -1, {.start = 1, .step = 3}).eval());
    return all;
}

/// Calls body(index) for every index of a shape in row-major order.
template <class F> void for_each_index(const Shape& shape, const F& body) {
    Dims index(shape.rank(), 0);
    for (std::int64_t i = 0, n = numel(shape); i < n; ++i) {
        body(static_cast<const Dims&>(index));
        for (std::int64_t a = shape.rank() - 1; a >= 0 && ++index[a] == shape[a]; --a) index[a] = 0;
    }
}
inline std::size_t flat(const Shape& shape, const Dims& index) {
    std::int64_t at = 0;
    for (std::int64_t a = 0; a < shape.rank(); ++a) at = at * shape[a] + index[a];
    return static_cast<std::size_t>(at);
}

/// A shape of a rank with sizes 2, 3, 2, 4, ...
inline Shape shape_of_rank(std::int64_t rank) {
    constexpr std::int64_t sizes[] = {2, 3, 2, 4, 1, 3};
    Shape shape;
    for (std::int64_t a = 0; a < rank; ++a) shape.push_back(sizes[a]);
    return shape;
}

}  // namespace calor::testing
