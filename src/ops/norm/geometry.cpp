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
    const NormAxis& columns = g.kept.back();
    g.column_blocks = divide_up(columns.size, norm_columns);
    g.blocks = g.groups / columns.size * g.column_blocks;
    if (columns.size < 64 && g.reduced.size() == 1 && g.reduced[0].stride == columns.size) {
        g.fold = std::min(128 / columns.size, run);
    }
    g.per_run = divide_up(run / g.fold, norm_rows) + (run % g.fold != 0 ? 1 : 0);
    g.pieces = outer * g.per_run;
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
    const Strides affine = affine_strides(layout, attributes.affine);
    Shape group_shape = *layout.shape;
    for (const std::int64_t a : attributes.axes) group_shape[a] = 1;
    const Strides groups = contiguous_strides(group_shape);
    bool last_reduced = true, any = false;
    for (const std::int64_t a : memory_order(layout)) {
        const bool reduced = std::ranges::find(attributes.axes, a) != attributes.axes.end();
        auto& list = reduced ? g.reduced : g.kept;
        const NormAxis axis{layout.size(a), layout.stride(a), affine[a], reduced ? 0 : groups[a]};
        const bool merges = any && reduced == last_reduced && list.back().stride == axis.stride * axis.size &&
                            list.back().affine == axis.affine * axis.size &&
                            list.back().group == axis.group * axis.size;
        const std::int64_t outer = merges ? list.back().size : 1;
        if (merges) list.pop_back();
        list.push_back(axis);
        list.back().size *= outer;
        last_reduced = reduced;
        any = true;
    }
    g.rows = !any || last_reduced;
    if (g.reduced.empty()) g.reduced.emplace_back();
    divide(g);
    return g;
}

std::int64_t NormGeometry::elements_per_block() const {
    return rows ? group_size : group_size * std::min(kept.back().size, norm_columns);
}

std::int64_t NormGeometry::columns_of(std::int64_t block) const {
    if (rows) return 1;
    return std::min(norm_columns, kept.back().size - block % column_blocks * norm_columns);
}

NormGeometry::Place NormGeometry::place(std::int64_t block, std::int64_t column) const {
    if (rows) {
        const Position p = position_of(kept, std::ssize(kept), block);
        return {p.group, p.affine};
    }
    const Position p = position_of(kept, std::ssize(kept) - 1, block / column_blocks);
    const std::int64_t j = block % column_blocks * norm_columns + column;
    return {p.group + j * kept.back().group, p.affine + j * kept.back().affine};
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
    const Position base = position_of(kept, std::ssize(kept) - 1, block / column_blocks);
    const std::int64_t offset = base.offset + outer.offset + block % column_blocks * norm_columns;
    const std::int64_t width = columns_of(block), folded = run.size / fold, begin = part * norm_rows;
    if (begin >= folded && run.size % fold != 0) {  // the rows that are fewer than a fold
        return {offset + folded * fold * run.stride, 1, width * (run.size % fold), 0, 0};
    }
    return {offset + begin * fold * run.stride, std::min(norm_rows, folded - begin), width * fold, fold * run.stride,
            0};
}

}  // namespace calor::ops
