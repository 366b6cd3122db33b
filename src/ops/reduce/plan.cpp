#include "ops/reduce/plan.h"

#include <algorithm>

namespace calor::ops {
namespace {

struct Axis : PlanAxis {
    bool reduced = false;
};

/// Outermost first: by falling stride, axes that repeat the same memory before all others.
bool outer_to(const Axis& a, const Axis& b) {
    if ((a.in == 0) != (b.in == 0)) return a.in == 0;
    return std::abs(a.in) > std::abs(b.in);
}

std::vector<Axis> axes_of(const View& x, const Axes& reduced, const Strides& out, bool ordered, ReducePlan& plan) {
    std::vector<Axis> axes;
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        if (x.size(a) == 1) continue;
        Axis axis;
        axis.size = x.size(a);
        axis.in = x.stride(a);
        axis.reduced = std::ranges::find(reduced, a) != reduced.end();
        axis.out = axis.reduced ? 0 : out[a];
        if (axis.in < 0 && !(ordered && axis.reduced)) {
            plan.in += (axis.size - 1) * axis.in;
            plan.out += (axis.size - 1) * axis.out;
            axis.in = -axis.in;
            axis.out = -axis.out;
        }
        axes.push_back(axis);
    }
    std::vector<Axis> logical;
    std::ranges::copy_if(axes, std::back_inserter(logical), [](const Axis& a) { return a.reduced; });
    std::ranges::stable_sort(axes, outer_to);
    if (ordered) {
        auto next = logical.begin();
        for (Axis& a : axes) {
            if (a.reduced) a = *next++;
        }
    }
    return axes;
}

}  // namespace

ReducePlan plan_reduction(const View& x, const Axes& reduced, const Strides& out, bool ordered) {
    ReducePlan plan;
    std::vector<Axis> merged;
    for (const Axis& a : axes_of(x, reduced, out, ordered, plan)) {
        if (!merged.empty()) {
            Axis& outer = merged.back();
            if (outer.reduced == a.reduced && outer.in == a.in * a.size && outer.out == a.out * a.size) {
                outer.size *= a.size;
                outer.in = a.in;
                outer.out = a.out;
                continue;
            }
        }
        merged.push_back(a);
    }
    for (const Axis& a : merged) (a.reduced ? plan.reduced : plan.kept).push_back(a);
    plan.rows = !merged.empty() && merged.back().reduced;
    if (plan.reduced.empty()) plan.reduced.emplace_back();
    if (!plan.rows && plan.kept.empty()) plan.kept.emplace_back();
    return plan;
}

}  // namespace calor::ops
