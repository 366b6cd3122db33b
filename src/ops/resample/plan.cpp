#include "ops/resample/plan.h"

#include <algorithm>
#include <numeric>

#include "calor/device.h"

namespace calor::ops::resample {
namespace {

constexpr std::int64_t cached_bytes = 192 << 10;  ///< of intermediate results that stay in the second cache
constexpr std::int64_t most_bytes = 2 << 20;      ///< of those that a thread may have
constexpr std::int64_t run_tile = 4096;           ///< elements of a row that are worked on at once

}  // namespace

std::int64_t PlanAxis::most_inputs() const {
    if (!table) return tile;
    std::int64_t most = 0;
    for (std::int64_t t = 0; t < tiles(); ++t) {
        const auto [low, high] = inputs(t);
        most = std::max(most, high - low);
    }
    return most;
}

Plan::Plan(const graph::Call& call, std::int64_t compute_size) {
    const bool fixed = call.attrs<Attributes>().fixed_point;
    join_axes(call);
    order_passes(fixed);
    for (const PlanAxis& a : axes) {
        if (a.table && !fixed) divisor *= a.table->divisor;
    }
    choose_tiles(fixed ? 1 : compute_size);
}

void Plan::join_axes(const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const View &x = call.inputs[0], &y = call.outputs[0];
    std::vector<std::int64_t> order(static_cast<std::size_t>(y.rank()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto i, auto j) { return y.stride(i) > y.stride(j); });
    for (const std::int64_t i : order) {
        const PlanAxis next{x.size(i), y.size(i), x.stride(i), y.stride(i), a.table_of(i), i};
        if (!next.table && next.out == 1) continue;
        if (!axes.empty() && !next.table && !axes.back().table) {
            PlanAxis& last = axes.back();
            if (last.in_step == next.in_step * next.in && last.out_step == next.out_step * next.out) {
                last.in *= next.in;
                last.out *= next.out;
                last.in_step = next.in_step;
                last.out_step = next.out_step;
                continue;
            }
        }
        axes.push_back(next);
    }
    PlanAxis& last = axes.back();
    last.out_step = 1;  // whatever a stride says that is never taken
    if (last.in == 1) last.in_step = 1;
    staged = last.in_step != 1;
}

/// Multiply-adds of a pass and the moves around it, in vectors: a row's elements lie side by side, a column's are
/// turned.
void Plan::order_passes(bool fixed) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (axes[i].table) passes.push_back(i);
    }
    if (fixed) {  // in the order of the logical axes, the last one first
        std::ranges::sort(passes, [&](std::size_t i, std::size_t j) { return axes[i].logical > axes[j].logical; });
        return;
    }
    if (passes.size() > 4) {  // what shrinks most goes first
        std::stable_sort(passes.begin(), passes.end(), [&](std::size_t i, std::size_t j) {
            return axes[i].out * axes[j].in < axes[j].out * axes[i].in;
        });
        return;
    }
    std::vector<std::size_t> order = passes;
    double best = -1;
    do {
        double elements = 1, cost = 0;
        for (const PlanAxis& a : axes) elements *= static_cast<double>(a.in);
        for (const std::size_t i : order) {
            const PlanAxis& a = axes[i];
            const double before = elements, taps = static_cast<double>(a.table->taps()) / static_cast<double>(a.out);
            elements = elements / static_cast<double>(std::max<std::int64_t>(1, a.in)) * static_cast<double>(a.out);
            cost += elements * (taps + 2);
            if (i + 1 == axes.size()) cost += 2 * before + 3 * elements;
        }
        if (best < 0 || cost < best) {
            best = cost;
            passes = order;
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

std::int64_t Plan::footprint() const {
    std::vector<std::int64_t> sizes;
    for (const PlanAxis& a : axes) sizes.push_back(a.most_inputs());
    std::int64_t most = 0;
    for (std::size_t p = 0; p + 1 < passes.size(); ++p) {
        sizes[passes[p]] = axes[passes[p]].tile;
        std::int64_t count = 1;
        for (const std::int64_t s : sizes) count *= s;
        most = std::max(most, count);
    }
    return most;
}

void Plan::choose_tiles(std::int64_t compute_size) {
    for (PlanAxis& a : axes) a.tile = std::max<std::int64_t>(1, a.out);
    if (!axes.back().table) axes.back().tile = std::min(axes.back().tile, run_tile);
    const std::int64_t threads = thread_count();
    for (;;) {
        // Halve the axis whose halves have the least in common; the outermost of equals.
        PlanAxis* best = nullptr;
        double least = 0;
        std::int64_t elements = 1;
        for (PlanAxis& a : axes) {
            elements *= a.tile;
            if (a.tile <= (&a == &axes.back() ? 256 : 1)) continue;
            double cost = 1;
            if (a.table) {
                PlanAxis half = a;
                half.tile = (a.tile + 1) / 2;
                cost = 2.0 * static_cast<double>(half.most_inputs()) /
                       static_cast<double>(std::max<std::int64_t>(1, a.most_inputs()));
            }
            if (best && cost > least - 1e-9) continue;
            best = &a;
            least = cost;
        }
        const std::int64_t bytes = footprint() * compute_size, n = items();
        const bool cheap = least <= 1.1;
        const bool too_few = elements > 8192 && (n < threads || (cheap && n < 4 * threads));
        if (!best || !(bytes > most_bytes || (cheap && bytes > cached_bytes) || too_few)) break;
        best->tile = (best->tile + 1) / 2;
    }
    scratch = footprint();
    staging = 0;
    if (!staged) return;
    staging = 1;
    for (const PlanAxis& a : axes) staging *= a.most_inputs();
}

}  // namespace calor::ops::resample
