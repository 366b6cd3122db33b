// The loops: axes of size 1 go, neighbours that lie alike in both arrays merge, the innermost axis is the dense array's
// fastest; threads share the rows.
#include "device/cpu/pack.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <vector>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/transpose.h"
#include "device/cpu/vectorize.h"

namespace calor::cpu {
namespace {

constexpr std::int64_t parallel_elements = 1 << 15;
constexpr std::int64_t edge = 16;  // of the tiles in which arrays are transposed

struct Axis {
    std::int64_t size, dense, other;
};

/// Axes from the outermost to the innermost of the dense array, merged where both arrays allow it.
std::vector<Axis> merged_axes(const Shape& shape, const Strides& dense, const Strides& other) {
    std::vector<Axis> axes;
    for (std::int64_t i = 0; i < shape.rank(); ++i)
        if (shape[i] != 1) axes.push_back({shape[i], dense[i], other[i]});
    std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.dense > b.dense; });
    std::vector<Axis> merged;
    for (const Axis& axis : axes) {
        if (!merged.empty() && merged.back().dense == axis.dense * axis.size &&
            merged.back().other == axis.other * axis.size) {
            merged.back() = {merged.back().size * axis.size, axis.dense, axis.other};
        } else {
            merged.push_back(axis);
        }
    }
    if (merged.empty()) merged.push_back({1, 1, 1});
    return merged;
}

struct Place {
    std::int64_t dense = 0, other = 0;
};

/// Walks over axes [0, count) from a linear index on; stepping costs less than dividing.
class Walk {
public:
    Walk(const std::vector<Axis>& axes, std::size_t count, std::int64_t start)
        : axes_(axes), index_(static_cast<std::int64_t>(count), 0) {
        for (std::size_t i = count; i-- > 0;) {
            const std::int64_t here = start % axes[i].size;
            index_[static_cast<std::int64_t>(i)] = here;
            at_.dense += here * axes[i].dense;
            at_.other += here * axes[i].other;
            start /= axes[i].size;
        }
    }
    const Place& at() const { return at_; }
    void next() {
        for (std::int64_t i = index_.rank(); i-- > 0;) {
            const Axis& axis = axes_[static_cast<std::size_t>(i)];
            at_.dense += axis.dense;
            at_.other += axis.other;
            if (++index_[i] < axis.size) return;
            at_.dense -= axis.size * axis.dense;
            at_.other -= axis.size * axis.other;
            index_[i] = 0;
        }
    }

private:
    const std::vector<Axis>& axes_;
    Dims index_;
    Place at_;
};

std::int64_t sizes_of(const std::vector<Axis>& axes, std::size_t count) {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < count; ++i) product *= axes[i].size;
    return product;
}

/// `count` rows of `size` elements, at these offsets and distances.
struct RowRun {
    std::int64_t dense, other, size, count, dense_step, other_step;
};

/// Calls rows(RowRun) for runs of rows of the innermost axis that together are everything.
template <class Rows> void for_rows(const std::vector<Axis>& axes, Rows&& rows) {
    constexpr std::int64_t piece = 1 << 14;
    const Axis& inner = axes.back();
    const std::size_t outer = axes.size() - 1;
    const std::int64_t pieces = (inner.size + piece - 1) / piece;
    const std::int64_t grain = std::max<std::int64_t>(1, parallel_elements / 2 / std::min(piece, inner.size));
    if (pieces > 1 || outer == 0) {
        parallel_for(sizes_of(axes, outer) * pieces, grain, [&](std::int64_t first, std::int64_t last) {
            Walk walk(axes, outer, first / pieces);
            for (std::int64_t r = first, part = first % pieces; r < last; ++r) {
                const std::int64_t begin = part * piece;
                rows(RowRun{walk.at().dense + begin * inner.dense, walk.at().other + begin * inner.other,
                            std::min(piece, inner.size - begin), 1, 0, 0});
                if (++part < pieces) continue;
                part = 0;
                walk.next();
            }
        });
        return;
    }
    const Axis& next = axes[outer - 1];
    parallel_for(sizes_of(axes, outer), grain, [&](std::int64_t first, std::int64_t last) {
        Walk walk(axes, outer - 1, first / next.size);
        for (std::int64_t r = first, i = first % next.size; r < last;) {
            const std::int64_t count = std::min(last - r, next.size - i);
            rows(RowRun{walk.at().dense + i * next.dense, walk.at().other + i * next.other, inner.size, count,
                        next.dense, next.other});
            r += count;
            i = 0;
            walk.next();
        }
    });
}

/// When the two arrays are contiguous along different axes: moves the other array's one to the place before the last.
bool is_transposed(std::vector<Axis>& axes) {
    if (axes.back().dense != 1 || axes.back().other == 1 || axes.back().size < 4) return false;
    for (std::size_t i = 0; i + 1 < axes.size(); ++i)
        if (axes[i].other == 1 && axes[i].size >= 4) {
            std::rotate(axes.begin() + static_cast<std::ptrdiff_t>(i),
                        axes.begin() + static_cast<std::ptrdiff_t>(i) + 1, axes.end() - 1);
            return true;
        }
    return false;
}

/// Calls tile(dense offset, other offset, columns, rows) for small tiles of the last two axes: what a tile reads and
/// writes stays in the first-level cache.
template <class Tile> void for_tiles(const std::vector<Axis>& axes, Tile&& tile) {
    const Axis &row = axes[axes.size() - 2], &column = axes.back();
    const std::size_t outer = axes.size() - 2;
    const std::int64_t rows = (row.size + edge - 1) / edge, columns = (column.size + edge - 1) / edge;
    parallel_for(sizes_of(axes, outer) * rows * columns, parallel_elements / 2 / (edge * edge),
                 [&](std::int64_t first, std::int64_t last) {
                     Walk walk(axes, outer, first / (rows * columns));
                     std::int64_t r = first / columns % rows * edge, c = first % columns * edge;
                     for (std::int64_t t = first; t < last; ++t) {
                         const Place& at = walk.at();
                         tile(at.dense + r * row.dense + c * column.dense, at.other + r * row.other + c * column.other,
                              std::min(edge, column.size - c), std::min(edge, row.size - r));
                         c += edge;
                         if (c < column.size) continue;
                         c = 0;
                         r += edge;
                         if (r < row.size) continue;
                         r = 0;
                         walk.next();
                     }
                 });
}

/// A half as float without branches: the multiplication rebiases the exponent and normalises subnormal numbers.
inline float widen(float16 h) {
    const std::uint32_t magnitude = h.bits & 0x7fffU, sign = static_cast<std::uint32_t>(h.bits & 0x8000U) << 16;
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
    const std::uint32_t special = magnitude >= 0x7c00U ? 0x7f800000U : 0U;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}
inline float widen(bfloat16 b) { return b; }
inline float widen(float f) { return f; }

template <class T> void pack_as(const View& from, float* to, const Strides& to_strides) {
    auto axes = merged_axes(*from.shape, to_strides, *from.strides);
    const auto* source = static_cast<const T*>(from.data);
    if (is_transposed(axes)) {
        const std::int64_t to_step = axes[axes.size() - 2].dense, from_step = axes.back().other;
        for_tiles(axes, [=](std::int64_t dense, std::int64_t other, std::int64_t columns, std::int64_t rows) {
            if constexpr (!std::is_same_v<T, float16>) {
                transpose(source + other, from_step, to + dense, to_step, columns, rows);
            } else {
                alignas(64) float wide[edge * edge];
                for (std::int64_t c = 0; c < columns; ++c) {
                    const T* const in = source + other + c * from_step;
                    float* const out = wide + c * edge;
                    CALOR_VECTORIZE
                    for (std::int64_t r = 0; r < rows; ++r) out[r] = widen(in[r]);
                }
                transpose(wide, edge, to + dense, to_step, columns, rows);
            }
        });
        return;
    }
    const std::int64_t to_step = axes.back().dense, from_step = axes.back().other;
    const TileKernel convert = find_convert(dtype_of<T>, f32);
    for_rows(axes, [=](const RowRun& r) {
        float* out = to + r.dense;
        const T* in = source + r.other;
        if constexpr (std::is_same_v<T, bfloat16>)
            if (to_step == 1 && from_step == 1)
                return convert_rows(in, r.other_step, out, r.dense_step, r.count, r.size);
        for (std::int64_t row = 0; row < r.count; ++row, out += r.dense_step, in += r.other_step) {
            if (to_step == 1 && from_step == 1) {
                const void* const source_row[] = {in};
                convert(source_row, out, r.size, nullptr);
            } else {
                for (std::int64_t i = 0; i < r.size; ++i) out[i * to_step] = widen(in[i * from_step]);
            }
        }
    });
}

template <class T> void unpack_as(const float* from, const Strides& from_strides, const View& to) {
    auto axes = merged_axes(*to.shape, from_strides, *to.strides);
    auto* target = static_cast<T*>(to.data);
    if (is_transposed(axes)) {
        const std::int64_t from_step = axes[axes.size() - 2].dense, to_step = axes.back().other;
        for_tiles(axes, [=](std::int64_t dense, std::int64_t other, std::int64_t columns, std::int64_t rows) {
            if constexpr (!std::is_same_v<T, float16>) {
                transpose(from + dense, from_step, target + other, to_step, rows, columns);
            } else {
                alignas(64) float wide[edge * edge];
                transpose(from + dense, from_step, wide, edge, rows, columns);
                for (std::int64_t c = 0; c < columns; ++c) {
                    T* const out = target + other + c * to_step;
                    const float* const in = wide + c * edge;
                    CALOR_VECTORIZE
                    for (std::int64_t r = 0; r < rows; ++r) out[r] = T(in[r]);
                }
            }
        });
        return;
    }
    const std::int64_t from_step = axes.back().dense, to_step = axes.back().other;
    const TileKernel convert = find_convert(f32, dtype_of<T>);
    for_rows(axes, [=](const RowRun& r) {
        T* out = target + r.other;
        const float* in = from + r.dense;
        if constexpr (std::is_same_v<T, bfloat16>)
            if (to_step == 1 && from_step == 1)
                return convert_rows(in, r.dense_step, out, r.other_step, r.count, r.size);
        for (std::int64_t row = 0; row < r.count; ++row, out += r.other_step, in += r.dense_step) {
            if (to_step == 1 && from_step == 1) {
                const void* const source_row[] = {in};
                convert(source_row, out, r.size, nullptr);
            } else {
                for (std::int64_t i = 0; i < r.size; ++i) out[i * to_step] = T(in[i * from_step]);
            }
        }
    });
}

/// The axes in the order of their strides, the farthest apart first; ties stay in order.
Dims memory_order(const Strides& strides) {
    Dims order(strides.rank(), 0);
    for (std::int64_t i = 0; i < strides.rank(); ++i) {
        std::int64_t place = i;
        for (; place > 0 && std::abs(strides[order[place - 1]]) < std::abs(strides[i]); --place)
            order[place] = order[place - 1];
        order[place] = i;
    }
    return order;
}

}  // namespace

Strides dense_like(const Shape& shape, const Strides& strides) {
    const Dims order = memory_order(strides);
    Strides dense(shape.rank(), 1);
    std::int64_t step = 1;
    for (std::int64_t i = order.rank(); i-- > 0;) {
        dense[order[i]] = step;
        step *= shape[order[i]];
    }
    return dense;
}

bool is_regular(const Shape& shape, const Strides& strides) {
    const Dims order = memory_order(strides);
    std::int64_t extent = 1;
    for (std::int64_t i = order.rank(); i-- > 0;) {
        if (shape[order[i]] == 1) continue;
        const std::int64_t stride = strides[order[i]];
        if (stride < extent) return false;
        extent = stride * shape[order[i]];
    }
    return true;
}

void pack(const View& from, float* to, const Strides& to_strides) {
    switch (from.dtype) {
        case bf16: return pack_as<bfloat16>(from, to, to_strides);
        case f16: return pack_as<float16>(from, to, to_strides);
        default: return pack_as<float>(from, to, to_strides);
    }
}

void unpack(const float* from, const Strides& from_strides, const View& to) {
    switch (to.dtype) {
        case bf16: return unpack_as<bfloat16>(from, from_strides, to);
        case f16: return unpack_as<float16>(from, from_strides, to);
        default: return unpack_as<float>(from, from_strides, to);
    }
}

}  // namespace calor::cpu
