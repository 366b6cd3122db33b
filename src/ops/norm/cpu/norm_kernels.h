// Loops of normalize and its gradient over dense tiles of f64, f32, f16 or bf16. Rows belong to one group; columns to
// one group each. Numbers beside the elements (weight, bias, mean, scale, ...) stand in arrays of the compute dtype in
// the order of pairs, with norm_padding more elements behind. x' is (x - mean) / sqrt(variance + epsilon).
#pragma once

#include <cstdint>

#include "calor/dtype.h"

namespace calor::ops {

/// Where number i of an array stands in the order of pairs: as it is for evens == 0; else in runs of 2 * evens the even
/// ones come first, as vectors of bf16 are taken apart.
constexpr std::int64_t place_in_pairs(std::int64_t i, std::int64_t evens) {
    if (evens == 0) return i;
    const std::int64_t within = i % (2 * evens);
    return i - within + within / 2 + within % 2 * evens;
}

struct NormKernels {
    /// y = (x - mean) scale + shift, or (x - mean) scale weight[i] + bias[i]; weight and bias are both null or neither.
    void (*row)(const void* x, void* y, std::int64_t n, double mean, double scale, double shift, const void* weight,
                const void* bias) = nullptr;
    /// y = (x - mean[j]) scale[j] + shift[j]
    void (*columns)(const void* x, std::int64_t x_stride, void* y, std::int64_t y_stride, std::int64_t rows,
                    std::int64_t width, const void* mean, const void* scale, const void* shift) = nullptr;
    /// sums[0] += sum(c), sums[1] += sum(c (x - mean)) with c = g or g weight[i]. With a weight, also
    /// weight_sums[i] += g (x - mean) scale, bias_sums[i] += g.
    void (*row_sums)(const void* g, const void* x, std::int64_t n, double mean, double scale, const void* weight,
                     double* sums, void* weight_sums, void* bias_sums) = nullptr;
    /// first[j] += sum(g), second[j] += sum(g (x - mean[j])). width <= norm_columns, rows <= norm_rows.
    void (*column_sums)(const void* g, std::int64_t g_stride, const void* x, std::int64_t x_stride, std::int64_t rows,
                        std::int64_t width, const void* mean, double* first, double* second) = nullptr;
    /// gx = a g - b - (x - mean) c, with a weight a g weight[i]
    void (*row_grad)(const void* g, const void* x, void* gx, std::int64_t n, double mean, double a, double b, double c,
                     const void* weight) = nullptr;
    /// gx = a[j] g - b[j] - (x - mean[j]) c[j]
    void (*column_grad)(const void* g, std::int64_t g_stride, const void* x, std::int64_t x_stride, void* gx,
                        std::int64_t gx_stride, std::int64_t rows, std::int64_t width, const void* mean, const void* a,
                        const void* b, const void* c) = nullptr;
    std::int64_t evens = 0;  ///< of the order of pairs
};

/// Bounds of a tile.
inline constexpr std::int64_t norm_row = 4096, norm_columns = 512, norm_rows = 32;
/// Elements of a pair of vectors at most: what kernels may touch behind the end of an array.
inline constexpr std::int64_t norm_padding = 64;

const NormKernels& find_norm_kernels(DType dtype);

}  // namespace calor::ops
