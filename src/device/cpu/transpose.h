// Transposition of small matrices of floats: what turns channels-last rows into planes and back.
#pragma once

#include <cstdint>

namespace calor::cpu {

/// to[c * to_step + r] = from[r * from_step + c] for r < rows, c < columns. The two don't overlap.
void transpose(const float* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns);

}  // namespace calor::cpu
