#include "ops/norm/geometry.h"

#include <algorithm>

#include "ops/norm/cpu/norm_kernels.h"

namespace calor::ops {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Axes of `layout` of more than one element, outermost first.
std::vector<std::int64_t> memory_order(const View& layout) {
    std::vector<std::int64_t> order;
    for (std::int64_t a = 0; a < layout.rank(); ++a) {
        if (layout.size(a) != 1) order.push_back(a);
    }
    std::ranges::stable_sort(order,
                             [&](std::int64_t a, std::int64_t b) { return layout.stride(a) > layout.stride(b); });
    return order;
}

struct Position {
    std::int64_t offset = 0, affine = 0, group = 0;
};
/// The position of an index along axes [0, count).
Position position_of(const std::vector<NormAxis>& axes, std::int64_t count, std::int64_t index) {
    Position p;
    for (std::int64_t a = count - 1; a >= 0; --a) {
        const NormAxis& axis = axes[static_cast<std::size_t>(a)];
        const std::int64_t i = index % axis.size;
        index /= axis.size;
        p.offset += i * axis.stride;
        p.affine += i * axis.affine;
        p.group += i * axis.group;
    }
    return p;
}

std::int64_t product(const std::vector<NormAxis>& axes, std::size_t count) {
    std::int64_t n = 1;
    for (std::size_t a = 0; a < count; ++a) n *= axes[a].size;
    return n;
}

/// Merged axes, outermost first.
struct Run : NormAxis {
    bool reduced = false;
    Axes axes;  ///< of the tensor
};

std::vector<Run> merged_axes(const View& layout, const NormAttributes& attributes) {
    const Strides affine = affine_strides(layout, attributes.affine);
    Shape group_shape = *layout.shape;
    for (const std::int64_t a : attributes.axes) group_shape[a] = 1;
    const Strides groups = contiguous_strides(group_shape);
    std::vector<Run> runs;
    for (const std::int64_t a : memory_order(layout)) {
        Run run;
        run.reduced = std::ranges::find(attributes.axes, a) != attributes.axes.end();
        static_cast<NormAxis&>(run) = {layout.size(a), layout.stride(a), affine[a], run.reduced ? 0 : groups[a]};
        if (!runs.empty()) {
            const Run& outer = runs.back();
            if (outer.reduced == run.reduced && outer.stride == run.stride * run.size &&
                outer.affine == run.affine * run.size && outer.group == run.group * run.size) {
                run.size *= outer.size;
                run.axes = outer.axes;
                runs.pop_back();
            }
        }
        run.axes.push_back(a);
        runs.push_back(run);
    }
    return runs;
}

/// How many of the innermost runs make the columns; 0: rows.
std::size_t count_columns(const std::vector<Run>& runs) {
    if (runs.empty()) return 0;
    const std::size_t last = runs.size() - 1;
    if (!runs[last].reduced) return 1;
    const bool beside =
        last > 1 && runs[last].size < 64 && !runs[last - 1].reduced && runs[last - 1].stride == runs[last].size;
    bool others = false, uniform = true;
    for (std::size_t i = 0; i < last; ++i) {
        others = others || runs[i].reduced;
        uniform = uniform && (!runs[i].reduced || runs[i].affine == 0);
    }
    return beside && others && uniform ? 2 : 0;
}

void divide(NormGeometry& g) {
    g.groups = product(g.kept, g.kept.size());
    g.group_size = product(g.reduced, g.reduced.size());
    for (const NormAxis& a : g.reduced) g.uniform = g.uniform && a.affine == 0;
    const std::int64_t run = g.reduced.back().size, outer = g.group_size / run;
    if (g.rows) {
        g.per_run = divide_up(run, norm_row);
        g.pieces = outer * g.per_run;
        g.blocks = g.groups;
        return;
    }
    g.width = product(g.columns, g.columns.size());
    g.column_blocks = divide_up(g.width, norm_columns);
    g.blocks = g.groups * g.column_blocks;
    if (g.width < 64 && g.reduced.size() == 1 && g.reduced[0].stride == g.width) g.fold = std::min(128 / g.width, run);
    g.per_run = divide_up(run / g.fold, norm_rows) + (run % g.fold != 0 ? 1 : 0);
    g.pieces = outer * g.per_run;
    const std::int64_t shared = g.columns.size() == 2 ? g.columns[1].size : 1;
    g.groups *= g.width / shared;
    g.group_size *= shared;
}

}  // namespace

Strides affine_strides(const View& layout, const Shape& affine) {
    Strides strides(layout.rank(), 0);
    if (affine.empty()) return strides;
    std::vector<std::int64_t> order = memory_order(layout);
    std::ranges::reverse(order);
    std::int64_t next = 1;
    for (const std::int64_t a : order) {
        if (affine[a] == 1) continue;
        strides[a] = next;
        next *= affine[a];
    }
    return strides;
}

NormGeometry norm_geometry(const View& layout, const NormAttributes& attributes) {
    NormGeometry g;
    const std::vector<Run> runs = merged_axes(layout, attributes);
    const std::size_t columns = count_columns(runs);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (i + columns >= runs.size()) {
            g.columns.push_back(runs[i]);
            if (runs[i].reduced) g.column_axes = runs[i].axes;
        } else {
            (runs[i].reduced ? g.reduced : g.kept).push_back(runs[i]);
        }
    }
    g.rows = columns == 0;
    if (g.reduced.empty()) g.reduced.emplace_back();
    divide(g);
    return g;
}

std::int64_t NormGeometry::elements_per_block() const {
    return rows ? group_size : product(reduced, reduced.size()) * std::min(width, norm_columns);
}

std::int64_t NormGeometry::columns_of(std::int64_t block) const {
    return rows ? 1 : std::min(norm_columns, width - block % column_blocks * norm_columns);
}

bool NormGeometry::weights_in_pairs() const {
    if (reduced.back().affine == 0) return true;
    const auto whole = [](const NormAxis& a) { return a.affine % norm_padding == 0; };
    return std::ranges::all_of(kept, whole) && std::all_of(reduced.begin(), reduced.end() - 1, whole);
}

NormGeometry::Place NormGeometry::place(std::int64_t block, std::int64_t column) const {
    const Position outer = position_of(kept, std::ssize(kept), block / column_blocks);
    if (rows) return {outer.group, outer.affine};
    const Position inner = position_of(columns, std::ssize(columns), block % column_blocks * norm_columns + column);
    return {outer.group + inner.group, outer.affine + inner.affine};
}

NormTile NormGeometry::tile(std::int64_t block, std::int64_t piece) const {
    const NormAxis& run = reduced.back();
    const Position outer = position_of(reduced, std::ssize(reduced) - 1, piece / per_run);
    const std::int64_t part = piece % per_run;
    if (rows) {
        const Position base = position_of(kept, std::ssize(kept), block);
        const std::int64_t begin = part * norm_row;
        return {base.offset + outer.offset + begin * run.stride, 1, std::min(norm_row, run.size - begin), 0,
                base.affine + outer.affine + begin * run.affine};
    }
    const Position base = position_of(kept, std::ssize(kept), block / column_blocks);
    const std::int64_t offset = base.offset + outer.offset + block % column_blocks * norm_columns;
    const std::int64_t columns_here = columns_of(block), folded = run.size / fold, begin = part * norm_rows;
    if (begin >= folded && run.size % fold != 0) {  // the rows that are fewer than a fold
        return {offset + folded * fold * run.stride, 1, columns_here * (run.size % fold), 0, 0};
    }
    return {offset + begin * fold * run.stride, std::min(norm_rows, folded - begin), columns_here * fold,
            fold * run.stride, 0};
}

}  // namespace calor::ops
