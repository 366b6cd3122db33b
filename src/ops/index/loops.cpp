// Loops over index tensors of any strides. Writes along the indexed axis happen in the order of the indices: threads
// share out the other axes, or, where these are few, the places that are written to.
#include <algorithm>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "ops/index/indices.h"

namespace calor::index {
namespace {

/// Calls body.operator()<I>() with the type of the indices.
template <class F> void with_index_type(const View& indices, const F& body) {
    indices.dtype == i32 ? body(std::int32_t{}) : body(std::int64_t{});
}
/// Calls body with an unsigned integer of the element's size.
template <class F> void with_size(DType dtype, const F& body) {
    switch (size_of(dtype)) {
        case 1: return body(std::uint8_t{});
        case 2: return body(std::uint16_t{});
        case 4: return body(std::uint32_t{});
        default: return body(std::uint64_t{});
    }
}
/// Calls body with a type whose addition wraps or rounds as the dtype's; halves are handled before.
template <class F> void with_sum_type(DType dtype, const F& body) {
    if (dtype == f64) return body(double{});
    if (dtype == f32) return body(float{});
    with_size(dtype, body);
}

template <class T, class I> void gather_as(const View& x, const View& indices, const View& y, std::int64_t axis) {
    const std::int64_t last = indices.rank() - 1, inner = indices.size(last), count = indices.count();
    Strides from = *x.strides;  // the indexed axis is walked by the indices
    from[axis] = 0;
    const std::int64_t along = x.stride(axis), step = from[last], index_step = indices.stride(last);
    cpu::parallel_for(count / inner, std::max<std::int64_t>(1, 16384 / inner),
                      [&](std::int64_t begin, std::int64_t end) {
                          Rows<2> rows(*indices.shape, {&from, indices.strides});
                          rows.seek(begin);
                          T* out = y.as<T>() + begin * inner;
                          for (std::int64_t row = begin; row < end; ++row, rows.next(), out += inner) {
                              const T* in = x.as<T>() + rows.offset[0];
                              const I* at = indices.as<I>() + rows.offset[1];
                              for (std::int64_t j = 0; j < inner; ++j) {
                                  out[j] = in[j * step + static_cast<std::int64_t>(at[j * index_step]) * along];
                              }
                          }
                      });
}

/// The axes of an index tensor apart: lines (all other axes), columns (the last other axis when it isn't indexed), and
/// the indexed axis itself.
struct Lines {
    Shape shape;                    ///< the other axes, columns last
    Strides target, index, source;  ///< of the other axes
    std::int64_t columns = 1, lines = 1, length = 0;
    std::int64_t target_along = 0, index_along = 0, source_along = 0;

    Lines(const View& y, const View& indices, const View& values, std::int64_t axis)
        : shape(*indices.shape), target(*y.strides), index(*indices.strides), source(*values.strides) {
        length = shape[axis];
        target_along = target[axis];
        index_along = index[axis];
        source_along = source[axis];
        for (Dims* list : {&shape, &target, &index, &source}) {
            list->erase(axis);
            if (axis == indices.rank() - 1) list->push_back(1);  // a column of its own
        }
        columns = shape.back();
        lines = numel(shape) / std::max<std::int64_t>(columns, 1);
    }
};

/// Calls visit(place in y, place in values) for columns [begin, end) counted over all lines, in the order of the
/// indices, where the index lies in [low, high).
template <class I, class F>
void visit_columns(const Lines& l, const I* indices, std::int64_t begin, std::int64_t end, std::int64_t low,
                   std::int64_t high, const F& visit) {
    Rows<3> rows(l.shape, {&l.target, &l.index, &l.source});
    const std::int64_t target_step = l.target.back(), index_step = l.index.back(), source_step = l.source.back();
    rows.seek(begin / l.columns);
    for (std::int64_t at = begin; at < end; rows.next()) {
        const std::int64_t first = at % l.columns, stop = std::min(l.columns, first + end - at);
        for (std::int64_t k = 0; k < l.length; ++k) {
            const I* row = indices + rows.offset[1] + k * l.index_along;
            for (std::int64_t j = first; j < stop; ++j) {
                const auto i = static_cast<std::int64_t>(row[j * index_step]);
                if (i < low || i >= high) continue;
                visit(rows.offset[0] + j * target_step + i * l.target_along,
                      rows.offset[2] + j * source_step + k * l.source_along);
            }
        }
        at += stop - first;
    }
}

template <class I, class F> void visit_all(const Lines& l, const View& indices, std::int64_t size, const F& visit) {
    const std::int64_t columns = l.columns * l.lines;
    if (columns == 0 || l.length == 0) return;
    if (columns >= 16 || l.length < 65536) {
        cpu::parallel_for(columns, std::max<std::int64_t>(1, 16384 / l.length),
                          [&](std::int64_t begin, std::int64_t end) {
                              visit_columns(l, indices.as<I>(), begin, end, 0, size, visit);
                          });
    } else {
        cpu::parallel_for(size, 1024, [&](std::int64_t low, std::int64_t high) {
            visit_columns(l, indices.as<I>(), 0, columns, low, high, visit);
        });
    }
}

template <class T> void add_all(const View& y, const View& indices, const View& values, std::int64_t axis) {
    const Lines lines(y, indices, values, axis);
    with_index_type(indices, [&](auto i) {
        visit_all<decltype(i)>(lines, indices, y.size(axis), [&](std::int64_t to, std::int64_t from) {
            y.as<T>()[to] = static_cast<T>(y.as<T>()[to] + values.as<T>()[from]);
        });
    });
}

template <class H> void add_halves(const View& y, const View& indices, const View& values, std::int64_t axis) {
    const Lines lines(y, indices, values, axis);
    with_index_type(indices, [&](auto i) {
        visit_all<decltype(i)>(lines, indices, y.size(axis), [&](std::int64_t to, std::int64_t from) {
            y.as<float>()[to] += static_cast<float>(values.as<H>()[from]);
        });
    });
}

void convert_all(DType from, DType to, const void* in, void* out, std::int64_t count) {
    const TileKernel kernel = cpu::find_convert(from, to);
    cpu::parallel_for(count, 16384, [&](std::int64_t begin, std::int64_t end) {
        const void* const inputs[1] = {static_cast<const std::byte*>(in) + begin * size_of(from)};
        kernel(inputs, static_cast<std::byte*>(out) + begin * size_of(to), end - begin, nullptr);
    });
}

}  // namespace

void gather_loops(const View& x, const View& indices, const View& y, std::int64_t axis) {
    if (indices.count() == 0) return;
    with_index_type(indices, [&](auto i) {
        with_size(x.dtype, [&](auto t) { gather_as<decltype(t), decltype(i)>(x, indices, y, axis); });
    });
}

void scatter_loops(const View& y, const View& indices, const View& values, std::int64_t axis) {
    if (indices.count() == 0) return;
    const Lines lines(y, indices, values, axis);
    with_index_type(indices, [&](auto i) {
        with_size(y.dtype, [&](auto t) {
            using T = decltype(t);
            visit_all<decltype(i)>(lines, indices, y.size(axis),
                                   [&](std::int64_t to, std::int64_t from) { y.as<T>()[to] = values.as<T>()[from]; });
        });
    });
}

void scatter_add_loops(const graph::Call& c, const View& y, const View& indices, const View& values,
                       std::int64_t axis) {
    if (indices.count() == 0) return;
    if (!is_half(y.dtype)) {
        with_sum_type(y.dtype, [&](auto t) { add_all<decltype(t)>(y, indices, values, axis); });
        return;
    }
    const std::int64_t count = y.count();
    const auto sums = graph::scratch(c, checked_multiply(count, 4, c.where));
    convert_all(y.dtype, f32, y.data, sums->data, count);
    const View wide{sums->data, f32, y.shape, y.strides};
    y.dtype == f16 ? add_halves<float16>(wide, indices, values, axis)
                   : add_halves<bfloat16>(wide, indices, values, axis);
    convert_all(f32, y.dtype, sums->data, y.data, count);
}

}  // namespace calor::index
