// Max pooling over boxes that are not a sliding window: adaptive pooling, where the boxes cover the data evenly, and
// fractional pooling, where their starts are drawn. Results: values and i64 row-major positions among the spatial axes.
#pragma once

#include "ops/window.h"

namespace calor::ops::pool {

struct BoxAttributes {
    Dims sizes, positions;
    Dims kernel;  ///< of fractional pooling, whose second input are the samples [N, C, axes]; else empty
    friend bool operator==(const BoxAttributes&, const BoxAttributes&) = default;
};

/// The entries [begin, end) of an axis that a position pools.
struct Interval {
    std::int64_t begin, end;
};
/// Position p of O over I entries: floor(p I / O) to ceil((p + 1) I / O).
Interval adaptive_interval(std::int64_t p, std::int64_t outputs, std::int64_t inputs);
/// Position p of O: int((p + u) r) - int(u r) with r = (I - k) / (O - 1), the last one at I - k.
Interval fractional_interval(std::int64_t p, std::int64_t outputs, std::int64_t inputs, std::int64_t kernel,
                             double sample);

const char* box_why_not(const graph::Call& call);
void box_rows(const graph::Call& call);
void box_reference(const graph::Call& call);
void box_on_gpu(const graph::Call& call);

}  // namespace calor::ops::pool
