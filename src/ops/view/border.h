// Padding with entries of the data itself: a gather with one table an axis. Position i of the padded axis reads entry
// border_source(mode, i - low, n). The adjoint adds up, for every entry, the positions that read it.
#pragma once

#include "calor/view.h"
#include "ops/support.h"

namespace calor::ops {

struct BorderAttributes {
    PadMode mode = PadMode::reflect;
    Shape inner;     ///< of the data
    Dims low, high;  ///< positions before and after it, 0 or more
    Shape outer() const {
        Shape shape = inner;
        for (std::int64_t a = 0; a < shape.rank(); ++a) shape[a] += low[a] + high[a];
        return shape;
    }
    friend bool operator==(const BorderAttributes&, const BorderAttributes&) = default;
};

/// The entry in [0, n) that position i (negative before the data) repeats; n is at least 1.
std::int64_t border_source(PadMode mode, std::int64_t i, std::int64_t n);

/// Data and padded data side by side, axis by axis in the order in which the target lies in memory. Axes that nothing
/// is done to are joined where both lie without gaps.
struct BorderAxis {
    std::int64_t inner = 1, outer = 1, low = 0;
    std::int64_t inner_stride = 1, outer_stride = 1;
    std::vector<std::int64_t> source;  ///< the entry of every position; empty where nothing is padded
    bool padded() const { return !source.empty(); }
};
std::vector<BorderAxis> border_axes(const BorderAttributes& attributes, const View& inner, const View& outer,
                                    const View& target);

/// The paths: by rows of the target, and one element at a time.
void border_rows(const graph::Call& call);
void border_reference(const graph::Call& call);
void border_grad_rows(const graph::Call& call);
void border_grad_reference(const graph::Call& call);
void border_on_gpu(const graph::Call& call);
void border_grad_on_gpu(const graph::Call& call);

}  // namespace calor::ops
