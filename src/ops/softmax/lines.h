// Operations along one axis whose result has the shape of the inputs: softmax and its relatives. Rows (the axis is
// dense) and columns (another axis is dense) have kernels of their own; tiles of other layouts, and columns of half
// types, are made dense first.
#pragma once

#include <span>

#include "graph/operation.h"

namespace calor::ops {

/// Kernels of one dtype. Inputs and the output are dense along rows, in the dtype itself; in columns, in its compute
/// dtype, line j is the j-th of `width` neighbours, and element k of it stands k * stride further on. The output may
/// equal an input.
struct LineKernels {
    void (*row)(const void* const* in, void* out, std::int64_t n, void* work) = nullptr;
    void (*columns)(const void* const* in, const std::int64_t* in_strides, void* out, std::int64_t out_stride,
                    std::int64_t n, std::int64_t width) = nullptr;
    bool works = false;  ///< rows need `work`: n + 64 elements of the compute dtype
};

/// Widest tile that a column kernel gets.
inline constexpr std::int64_t most_lines = 256;

/// Runs the kernels over every line along `axis`; one or two inputs of the output's shape.
void run_lines(std::span<const View> inputs, const View& output, std::int64_t axis, const LineKernels& kernels);

}  // namespace calor::ops
