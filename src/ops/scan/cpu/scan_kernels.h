// Kernels of the scans. A piece is up to `chunk` elements of one line, in the order of travel; a band is the same of
// several neighbouring lines, whose elements lie side by side. A kernel scans a piece by itself and joins the state
// with it: sums start anew in every piece, so that long lines can be split among threads and still give the same bits.
#pragma once

#include <cstdint>

#include "calor/dtype.h"
#include "ops/scan/scan.h"

namespace calor::ops::scan {

/// Elements of a line that are scanned before the state is joined. A constant: results must not depend on threads.
constexpr std::int64_t chunk = 1024;
/// Lines of a band at most.
constexpr std::int64_t most_columns = 256;

/// The state of one line between pieces, two numbers of the widest type.
struct State {
    double first = 0, second = 0;  ///< sum or product or h; logsumexp: largest, scaled sum; recurrence: h, factor
    std::uint64_t whole = 0;       ///< of integers
};

struct Kernels {
    /// y = scan of x (and b) over n elements; `step` is 1 or -1: travel in memory. With y null only the state moves on.
    void (*piece)(const void* x, const void* b, void* y, std::int64_t n, std::int64_t step, State& state) = nullptr;
    /// n rows of `width` columns with these distances between rows, in the order of travel.
    void (*band)(const void* x, const void* b, void* y, std::int64_t n, std::int64_t width, const std::int64_t* strides,
                 State* states) = nullptr;
};

/// Of f32, f64, u32 or u64 (sum: also f16, bf16; logsumexp, recurrence: f32, f64).
const Kernels& find_kernels(Kind kind, bool lag, DType dtype);
/// The state of nothing.
State start_of(Kind kind);

}  // namespace calor::ops::scan
