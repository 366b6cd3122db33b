// What the scans share: their kinds, attributes, and the walk over lines that their kernels are called from.
#pragma once

#include <span>

#include "graph/operation.h"

namespace calor::ops::scan {

enum class Kind : std::uint8_t { sum, product, logsumexp, recurrence };

struct Attributes {
    Kind kind = Kind::sum;
    std::int64_t axis = 0;
    bool reverse = false;
    bool exclusive = false;  ///< sum and product
    bool lag = false;        ///< recurrence: the factor stands beside the element that it multiplies, a_{i-1} h_{i-1}
    friend bool operator==(const Attributes&, const Attributes&) = default;
};

/// The lines are walked in vectors (scan_lines.cpp).
void run_lines(const graph::Call& call);
/// Plain loops (scan_reference.cpp).
void run_reference(const graph::Call& call);
/// cummax and cummin (extremes.cpp).
void run_extremes(const graph::Call& call, bool largest);
void run_extremes_reference(const graph::Call& call, bool largest);
/// Of cotangents and indices.
void run_extremes_gradient(const graph::Call& call);

/// On GPUs (scan_gpu.cpp).
std::span<const graph::Implementation> scan_on_gpu();
std::span<const graph::Implementation> cummax_on_gpu();
std::span<const graph::Implementation> cummin_on_gpu();
std::span<const graph::Implementation> extreme_gradient_on_gpu();

/// The offsets of the lines of a view along an axis: line number -> offset of its first element.
class LineOffsets {
public:
    LineOffsets(const View& view, std::int64_t axis) : view_(view), axis_(axis) {}
    std::int64_t operator()(std::int64_t line) const {
        std::int64_t at = 0;
        for (std::int64_t a = view_.rank() - 1; a >= 0; --a) {
            if (a == axis_) continue;
            at += line % view_.size(a) * view_.stride(a);
            line /= view_.size(a);
        }
        return at;
    }

private:
    const View& view_;
    std::int64_t axis_;
};

}  // namespace calor::ops::scan
