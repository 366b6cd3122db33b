// The shape of a reduction once axes are merged: kept and reduced axes from the outermost to the innermost in memory.
#pragma once

#include <vector>

#include "device/view.h"

namespace calor::ops {

struct PlanAxis {
    std::int64_t size = 1, in = 0, out = 0;  ///< size and strides in elements; `out` is 0 for reduced axes
};

struct ReducePlan {
    /// rows: reduced.back() is the innermost axis; columns: kept.back() is, and reduced.back() are the rows.
    bool rows = true;
    std::vector<PlanAxis> kept, reduced;
    std::int64_t in = 0, out = 0;  ///< where the first element lies, after axes with negative strides were turned round
};

/// `ordered`: reduced axes keep their logical order.
ReducePlan plan_reduction(const View& x, const Axes& axes, const Strides& out, bool ordered);

/// The index along several axes, and the offsets that belong to it.
class PlanWalk {
public:
    PlanWalk(const PlanAxis* axes, std::int64_t count, std::int64_t at) : axes_(axes), index_(count, 0) {
        for (std::int64_t a = count - 1; a >= 0; --a) {
            index_[a] = at % axes[a].size;
            at /= axes[a].size;
            in += index_[a] * axes[a].in;
            out += index_[a] * axes[a].out;
        }
    }
    /// Positions left on the innermost axis, this one included.
    std::int64_t left() const {
        const std::int64_t last = index_.rank() - 1;
        return last < 0 ? 1 : axes_[last].size - index_[last];
    }
    /// Goes `n` <= left() positions on.
    void advance(std::int64_t n) {
        for (std::int64_t a = index_.rank() - 1; a >= 0; --a) {
            index_[a] += n;
            in += n * axes_[a].in;
            out += n * axes_[a].out;
            if (index_[a] < axes_[a].size) return;
            in -= index_[a] * axes_[a].in;
            out -= index_[a] * axes_[a].out;
            index_[a] = 0;
            n = 1;
        }
    }
    std::int64_t in = 0, out = 0;

private:
    const PlanAxis* axes_;
    Dims index_;
};

}  // namespace calor::ops
