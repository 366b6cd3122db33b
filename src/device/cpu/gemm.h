// Matrix products of our own, for dtypes and shapes that vendor libraries leave out. Operands are given by tables of
// offsets, one a row and one a column: strides of any kind, transposition, and the windows of a convolution are all one
// case, and the packing of blocks reads the data where it lies.
//
//   c[c_row[i] + c_column[j]] = bias + sum over p < k of a[a_row[i] + a_inner[p]] * b[b_inner[p] + b_column[j]]
//
// Sums run over p in one fixed order, in blocks, whatever the number of threads: the same operands give the same bits.
#pragma once

#include <cstdint>

#include "calor/dtype.h"

namespace calor::cpu {

/// Products of one shape. Tables are in elements. Products are numbered: number g starts at a + a_batch[g] and so on.
/// T is float, double, std::uint32_t or std::uint64_t (integers wrap; narrower ones are widened by the caller).
template <class T> struct Gemm {
    std::int64_t m = 0, n = 0, k = 0, batch = 1;
    const T *a = nullptr, *b = nullptr;
    const bfloat16 *a_bf16 = nullptr, *b_bf16 = nullptr;  ///< in place of a and b, for T = float
    T* c = nullptr;
    const std::int64_t *a_row = nullptr, *a_inner = nullptr, *b_inner = nullptr, *b_column = nullptr;
    const std::int64_t *c_row = nullptr, *c_column = nullptr;
    const std::int64_t *a_batch = nullptr, *b_batch = nullptr, *c_batch = nullptr;  ///< null: all 0
    const T* row_bias = nullptr;                                                    ///< [batch, m], or null
    const T* column_bias = nullptr;                                                 ///< [n], or null
    bool accumulate = false;                                                        ///< adds to c
};

void gemm(const Gemm<float>& problem);
void gemm(const Gemm<double>& problem);
void gemm(const Gemm<std::uint32_t>& problem);
void gemm(const Gemm<std::uint64_t>& problem);

}  // namespace calor::cpu
