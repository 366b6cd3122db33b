// Operations along one axis whose result has the shape of the inputs: softmax and its relatives. Rows (the axis is
// dense) and columns (another axis is dense) have kernels of their own; tiles of other layouts and of half types are
// made dense first.
#pragma once

#include <span>

#include "graph/operation.h"

namespace calor::ops {

/// Kernels over one compute dtype. Inputs and the output are dense along rows; in columns line j is the j-th of `width`
/// neighbours, and element k of it stands k * stride further on. The output may equal an input.
struct LineKernels {
    void (*row)(const void* const* in, void* out, std::int64_t n) = nullptr;
    void (*columns)(const void* const* in, const std::int64_t* in_strides, void* out, std::int64_t out_stride,
                    std::int64_t n, std::int64_t width) = nullptr;
};

/// Widest tile that a column kernel gets.
inline constexpr std::int64_t most_lines = 256;

/// Runs the kernels over every line along `axis`; one or two inputs of the output's shape.
void run_lines(std::span<const View> inputs, const View& output, std::int64_t axis, const LineKernels& kernels);

}  // namespace calor::ops
