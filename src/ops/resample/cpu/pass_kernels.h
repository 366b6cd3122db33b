// Kernels of one pass: a table applied along one axis, to rows that lie one behind the other (rows), or along the rows
// themselves (columns).
#pragma once

#include "calor/dtype.h"
#include "ops/resample/table.h"

namespace calor::ops::resample {

/// Outputs [begin, end) of a table. `in` is where input `low` lies, and inputs up to `high` follow.
struct Pass {
    const Table* table = nullptr;
    std::int64_t begin = 0, end = 0, low = 0, high = 0;
    double divisor = 1;         ///< of every output of this pass
    bool divides_each = false;  ///< by the table's own divisors
};

/// Rows that columns() takes at once.
inline constexpr std::int64_t rows_at_once = 16;

/// out[j - begin][i] = sum of weight * in[index - low][i], for i < run. Steps are in elements.
using RowsKernel = void (*)(const Pass& pass, const void* in, std::int64_t in_step, void* out, std::int64_t out_step,
                            std::int64_t run);
/// The same along `count` <= 16 rows of groups of `run` elements: out[r][(j - begin) run + c] from in[r][(index - low)
/// run + c]. `scratch` has column_scratch() bytes.
using ColumnsKernel = void (*)(const Pass& pass, const void* const* in, void* const* out, std::int64_t count,
                               std::int64_t run, void* scratch);

struct PassKernels {
    RowsKernel rows = nullptr;
    ColumnsKernel columns = nullptr;
};

/// out[i] = in[index[i]] for all outputs of a table that selects, in elements of 2 or 4 bytes; false: not of a kind
/// that vectors help.
bool select_row(const Table& table, const void* in, void* out, std::int64_t element_size);

/// Kernels that read and write these dtypes: one and the same, or f32 in place of one that is narrower. `fixed`: u8 in
/// 22-bit fixed point.
PassKernels find_pass_kernels(DType in, DType out, bool fixed);
std::int64_t column_scratch(const Table& table, std::int64_t run);

}  // namespace calor::ops::resample
