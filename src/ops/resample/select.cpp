// Tables that only select: copies of elements, of any dtype. A row whose inputs are those of the row before is copied
// from it.
#include <algorithm>
#include <cstring>

#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "ops/resample/cpu/pass_kernels.h"
#include "ops/resample/plan.h"

namespace calor::ops::resample {
namespace {

/// How rows are made: elements of T, axes in the order of memory.
template <class T> void select_rows(const Plan& plan, const View& x, const View& y) {
    const auto rank = std::ssize(plan.axes);
    const PlanAxis& inner = plan.axes.back();
    std::int64_t rows = 1;
    for (const PlanAxis& a : plan.axes) rows *= &a == &inner ? 1 : a.out;
    const std::int32_t* index = inner.table ? inner.table->index.data() : nullptr;
    const auto one_row = [&](const T* from, T* to) {
        if (!index) return cpu::gather(to, from, inner.in_step, sizeof(T), inner.out);
        if (inner.in_step == 1 && select_row(*inner.table, from, to, sizeof(T))) return;
        const std::int64_t step = inner.in_step, n = inner.out;
        std::int64_t i = 0;
        for (; i + 4 <= n; i += 4) {
            const T a = from[index[i] * step], b = from[index[i + 1] * step], c = from[index[i + 2] * step],
                    d = from[index[i + 3] * step];
            to[i] = a;
            to[i + 1] = b;
            to[i + 2] = c;
            to[i + 3] = d;
        }
        for (; i < n; ++i) to[i] = from[index[i] * step];
    };
    cpu::parallel_for(rows, std::max<std::int64_t>(1, 16384 / inner.out), [&](std::int64_t begin, std::int64_t end) {
        const T* before = nullptr;
        const T* made = nullptr;
        for (std::int64_t row = begin; row < end; ++row) {
            const T* from = x.as<const T>();
            T* to = y.as<T>();
            std::int64_t rest = row;
            for (std::int64_t i = rank - 2; i >= 0; --i) {
                const PlanAxis& a = plan.axes[static_cast<std::size_t>(i)];
                const std::int64_t at = rest % a.out;
                rest /= a.out;
                from += (a.table ? a.table->index[static_cast<std::size_t>(at)] : at) * a.in_step;
                to += at * a.out_step;
            }
            if (from == before) {
                std::memcpy(to, made, static_cast<std::size_t>(inner.out) * sizeof(T));
            } else {
                one_row(from, to);
            }
            before = from;
            made = to;
        }
    });
}

}  // namespace

void run_select(const graph::Call& call) {
    const View &x = call.inputs[0], &y = call.outputs[0];
    if (y.count() == 0) return;
    const Plan plan(call, size_of(x.dtype));
    switch (size_of(x.dtype)) {
        case 1: return select_rows<std::uint8_t>(plan, x, y);
        case 2: return select_rows<std::uint16_t>(plan, x, y);
        case 4: return select_rows<std::uint32_t>(plan, x, y);
        default: return select_rows<std::uint64_t>(plan, x, y);
    }
}

}  // namespace calor::ops::resample
