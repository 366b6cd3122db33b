// Transposition and copies of small matrices of floats, also out of bf16 and into it (to nearest, ties to even): what
// turns channels-last rows into planes and back.
#pragma once

#include <cstdint>

#include "calor/dtype.h"

namespace calor::cpu {

/// to[c * to_step + r] = from[r * from_step + c] for r < rows, c < columns. The two don't overlap.
void transpose(const float* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns);

void transpose(const bfloat16* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns);
void transpose(const float* from, std::int64_t from_step, bfloat16* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns);

/// to[r * to_step + c] = from[r * from_step + c] for r < rows, c < columns.
void convert_rows(const bfloat16* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
                  std::int64_t columns);
void convert_rows(const float* from, std::int64_t from_step, bfloat16* to, std::int64_t to_step, std::int64_t rows,
                  std::int64_t columns);

}  // namespace calor::cpu
