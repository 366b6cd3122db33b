// copy_view: moves the elements of one strided view to another. Axes that lie behind each other in both are joined, the
// walk follows the target's memory, and where source and target run along different axes (a transposition) small square
// blocks keep both sides in the first cache.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "ops/support.h"

namespace calor::ops {
namespace {

/// Both views as one list of joined axes, outermost first; strides in elements.
struct Plan {
    Dims sizes, from, to;
};

Plan join_axes(const View& from, const View& to) {
    Dims order;
    for (std::int64_t a = 0; a < from.rank(); ++a) {
        if (from.size(a) != 1) order.push_back(a);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return std::abs(to.stride(a)) > std::abs(to.stride(b)); });
    Plan plan;
    for (const std::int64_t a : order) {
        const std::int64_t last = plan.sizes.rank() - 1, size = from.size(a);
        if (last >= 0 && plan.from[last] == from.stride(a) * size && plan.to[last] == to.stride(a) * size) {
            plan.sizes[last] *= size;
            plan.from[last] = from.stride(a);
            plan.to[last] = to.stride(a);
        } else {
            plan.sizes.push_back(size);
            plan.from.push_back(from.stride(a));
            plan.to.push_back(to.stride(a));
        }
    }
    if (plan.sizes.empty()) {
        plan.sizes.push_back(1);
        plan.from.push_back(1);
        plan.to.push_back(1);
    }
    return plan;
}

/// Walks the positions of `sizes` in order from a given one and keeps both offsets.
struct Walk {
    const Plan& plan;
    std::int64_t axes;  ///< the leading ones
    Dims index;
    std::int64_t from = 0, to = 0;

    Walk(const Plan& p, std::int64_t count, std::int64_t at) : plan(p), axes(count), index(count, 0) {
        for (std::int64_t a = axes - 1; a >= 0; --a) {
            index[a] = at % plan.sizes[a];
            at /= plan.sizes[a];
            from += index[a] * plan.from[a];
            to += index[a] * plan.to[a];
        }
    }
    void next() {
        for (std::int64_t a = axes - 1; a >= 0; --a) {
            from += plan.from[a];
            to += plan.to[a];
            if (++index[a] < plan.sizes[a]) return;
            from -= plan.from[a] * plan.sizes[a];
            to -= plan.to[a] * plan.sizes[a];
            index[a] = 0;
        }
    }
};

void copy_row(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step, std::int64_t size,
              std::int64_t n) {
    if (to_step == 1) {
        cpu::gather(to, from, from_step, size, n);
    } else if (from_step == 1) {
        cpu::scatter(to, to_step, from, size, n);
    } else {
        for (std::int64_t i = 0; i < n; ++i) {
            std::memcpy(to + i * to_step * size, from + i * from_step * size, static_cast<std::size_t>(size));
        }
    }
}

/// Short rows cost more than they copy: the longest-reaching loop goes over another axis, whose target lines lie
/// closest.
void lengthen_rows(Plan& plan) {
    const std::int64_t last = plan.sizes.rank() - 1;
    std::int64_t best = -1;
    for (std::int64_t a = 0; a < last; ++a) {
        if (plan.sizes[a] >= 8 && (best < 0 || std::abs(plan.to[a]) < std::abs(plan.to[best]))) best = a;
    }
    if (plan.sizes[last] >= 8 || best < 0) return;
    for (Dims* list : {&plan.sizes, &plan.from, &plan.to}) {
        const std::int64_t moved = (*list)[best];
        list->erase(best);
        list->push_back(moved);
    }
}

constexpr std::int64_t row_piece = 1 << 15;

void copy_rows(const Plan& plan, const std::byte* from, std::byte* to, std::int64_t size) {
    const std::int64_t last = plan.sizes.rank() - 1, inner = plan.sizes[last];
    std::int64_t rows = 1;
    for (std::int64_t a = 0; a < last; ++a) rows *= plan.sizes[a];
    if (inner > row_piece) {  // long rows are cut, so that one row still keeps all threads busy
        const std::int64_t pieces = (inner + row_piece - 1) / row_piece;
        cpu::parallel_for(rows * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t unit = begin; unit < end; ++unit) {
                const Walk walk(plan, last, unit / pieces);
                const std::int64_t first = unit % pieces * row_piece;
                copy_row(to + (walk.to + first * plan.to[last]) * size, plan.to[last],
                         from + (walk.from + first * plan.from[last]) * size, plan.from[last], size,
                         std::min(row_piece, inner - first));
            }
        });
        return;
    }
    cpu::parallel_for(rows, std::max<std::int64_t>(1, row_piece / inner), [&](std::int64_t begin, std::int64_t end) {
        Walk walk(plan, last, begin);
        for (std::int64_t row = begin; row < end; ++row, walk.next()) {
            copy_row(to + walk.to * size, plan.to[last], from + walk.from * size, plan.from[last], size, inner);
        }
    });
}

/// Edge of a square block: at least a cache line of either side.
template <class T> constexpr std::int64_t block = sizeof(T) < 4 ? 64 : 32;

/// One block of a transposition: rows along the source's dense axis, columns along the target's. It goes through a
/// buffer, so that each cache line of source and target is walked once, in one go: lines a power of two apart would
/// evict each other.
template <class T>
void copy_block(const std::byte* from, std::int64_t from_row, std::int64_t from_column, std::byte* to,
                std::int64_t to_row, std::int64_t to_column, std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t width = block<T> + 1;
    constexpr auto size = static_cast<std::int64_t>(sizeof(T));
    T buffer[block<T> * width], line[block<T>];
    for (std::int64_t c = 0; c < columns; ++c) {
        copy_row(reinterpret_cast<std::byte*>(buffer + c * width), 1, from + c * from_column * size, from_row, size,
                 rows);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) line[c] = buffer[c * width + r];
        copy_row(to + r * to_row * size, to_column, reinterpret_cast<const std::byte*>(line), 1, size, columns);
    }
}

/// `dense` is the source's axis of smallest stride; the target's is the last one.
template <class T> void copy_blocks(Plan plan, std::int64_t dense, const std::byte* from, std::byte* to) {
    const std::int64_t last = plan.sizes.rank() - 1;
    const std::int64_t rows = plan.sizes[dense], from_row = plan.from[dense], to_row = plan.to[dense];
    const std::int64_t columns = plan.sizes[last], from_column = plan.from[last], to_column = plan.to[last];
    plan.sizes.erase(last);
    plan.from.erase(last);
    plan.to.erase(last);
    plan.sizes[dense] = (rows + block<T> - 1) / block<T>;  // the walk goes over blocks of rows
    plan.from[dense] = from_row * block<T>;
    plan.to[dense] = to_row * block<T>;
    std::int64_t units = 1;
    for (const std::int64_t size : plan.sizes) units *= size;
    constexpr auto size = static_cast<std::int64_t>(sizeof(T));
    cpu::parallel_for(units, std::max<std::int64_t>(1, row_piece / (block<T> * columns)),
                      [&](std::int64_t begin, std::int64_t end) {
                          Walk walk(plan, last, begin);
                          for (std::int64_t unit = begin; unit < end; ++unit, walk.next()) {
                              const std::int64_t height = std::min(block<T>, rows - walk.index[dense] * block<T>);
                              for (std::int64_t c = 0; c < columns; c += block<T>) {
                                  copy_block<T>(from + (walk.from + c * from_column) * size, from_row, from_column,
                                                to + (walk.to + c * to_column) * size, to_row, to_column, height,
                                                std::min(block<T>, columns - c));
                              }
                          }
                      });
}

}  // namespace

void copy_view(const View& from, const View& to) {
    if (from.count() == 0) return;
    const std::int64_t size = size_of(from.dtype);
    Plan plan = join_axes(from, to);
    const auto* in = from.as<const std::byte>();
    auto* out = to.as<std::byte>();
    const std::int64_t last = plan.sizes.rank() - 1;
    std::int64_t dense = last;
    for (std::int64_t a = 0; a < last; ++a) {
        const std::int64_t stride = std::abs(plan.from[a]);
        if (stride != 0 && stride < std::abs(plan.from[dense]) && plan.sizes[a] >= 8) dense = a;
    }
    if (dense == last || plan.sizes[last] < 8) {
        lengthen_rows(plan);
        return copy_rows(plan, in, out, size);
    }
    switch (size) {
        case 1: return copy_blocks<std::uint8_t>(std::move(plan), dense, in, out);
        case 2: return copy_blocks<std::uint16_t>(std::move(plan), dense, in, out);
        case 4: return copy_blocks<std::uint32_t>(std::move(plan), dense, in, out);
        default: return copy_blocks<std::uint64_t>(std::move(plan), dense, in, out);
    }
}

}  // namespace calor::ops
