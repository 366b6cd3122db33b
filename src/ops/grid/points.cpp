// Blocks of points of operands of any layout and dtype, to and from rows of channels.
#include "ops/grid/points.h"

#include <algorithm>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"

namespace calor::ops::grid {
namespace {

/// Whether all points have one distance from their neighbours, and which.
bool merges(const Operand& o, std::int64_t& step) {
    std::int64_t run = 0;
    step = 1;
    for (std::int64_t a = o.last - 1; a >= o.first; --a) {
        if (o.view.size(a) == 1) continue;
        if (run == 0) {
            step = o.view.stride(a);
            run = 1;
        } else if (o.view.stride(a) != step * run) {
            return false;
        }
        run *= o.view.size(a);
    }
    return true;
}

}  // namespace

Runs make_runs(std::initializer_list<Operand> operands) {
    std::int64_t step = 0;
    const Operand& any = *operands.begin();
    const bool all = std::all_of(operands.begin(), operands.end(), [&](const Operand& o) { return merges(o, step); });
    Runs runs;
    for (std::int64_t a = any.first; a < any.last; ++a) {
        if (all) {
            runs.length *= any.view.size(a);
        } else if (a + 1 == any.last) {
            runs.length = any.view.size(a);
        } else {
            runs.outer.push_back(any.view.size(a));
            runs.count *= any.view.size(a);
        }
    }
    return runs;
}

Array make_array(const Operand& o, const Runs& runs) {
    Array array{o.view.as<std::byte>(), o.view.dtype, o.view.stride(0), o.view.stride(o.channel), 1, {}};
    if (runs.outer.empty() && merges(o, array.p)) return array;
    for (std::int64_t a = o.first; a + 1 < o.last; ++a) array.outer.push_back(o.view.stride(a));
    array.p = o.view.stride(o.last - 1);
    return array;
}

Array run_of(const Array& array, const Runs& runs, std::int64_t run) {
    Array moved = array;
    for (std::int64_t a = runs.outer.rank() - 1; a >= 0; --a) {
        moved.data += run % runs.outer[a] * array.outer[a] * size_of(array.dtype);
        run /= runs.outer[a];
    }
    return moved;
}

namespace {

/// n elements with a stride, converted to T without one. `packed` holds n elements of any dtype.
template <class T>
void read_line(const void* from, DType dtype, std::int64_t step, std::int64_t n, T* to, std::byte* packed) {
    if (step != 1) {
        cpu::gather(packed, from, step, size_of(dtype), n);
        from = packed;
    }
    cpu::find_convert(dtype, dtype_of<T>)(&from, to, n, nullptr);
}
template <class T>
void write_line(const T* from, std::int64_t n, void* to, DType dtype, std::int64_t step, std::byte* packed) {
    const void* source = from;
    void* target = step == 1 ? to : packed;
    cpu::find_convert(dtype_of<T>, dtype)(&source, target, n, nullptr);
    if (step != 1) cpu::scatter(to, step, packed, size_of(dtype), n);
}

/// The kernels that move whole blocks of halves, where they lie in planes.
HalfTiles half_tiles_of(const Array& a, std::int64_t count) {
    return is_half(a.dtype) && a.p == 1 && count % 8 == 0 ? find_half_tiles(a.dtype) : HalfTiles();
}

/// Channels whose lines go through a buffer together.
constexpr std::int64_t lines = 8;

}  // namespace

template <class T>
void load_tile(const Array& from, std::int64_t n, std::int64_t c, std::int64_t channels, std::int64_t p,
               std::int64_t count, T* tile, std::int64_t tile_stride, std::int64_t width) {
    const bool same = from.dtype == dtype_of<T>;
    if (from.c == 1 && channels > 1) {
        std::byte none[1];
        const bool dense = from.p == channels && tile_stride == channels;
        if (dense) read_line(from.at(n, c, p), from.dtype, 1, count * channels, tile, none);
        for (std::int64_t i = 0; !dense && i < count; ++i) {
            read_line(from.at(n, c, p + i), from.dtype, 1, channels, tile + i * tile_stride, none);
        }
    } else if (same && from.p == 1) {
        row_kernels<T>().transpose(reinterpret_cast<const T*>(from.at(n, c, p)), from.c, channels, count, tile,
                                   tile_stride);
    } else {
        alignas(64) T wide[lines * block];
        alignas(64) std::byte packed[block * 8];
        std::int64_t first = 0;
        if constexpr (sizeof(T) == 4) {
            const HalfTiles halves = half_tiles_of(from, count);
            const std::int64_t whole = channels / 8 * 8;
            if (halves.load && whole > 0) {
                halves.load(reinterpret_cast<const std::uint16_t*>(from.at(n, c, p)), from.c, whole, count, tile,
                            tile_stride);
                first = whole;
            }
        }
        for (; first < channels; first += lines) {
            const std::int64_t some = std::min(lines, channels - first);
            for (std::int64_t i = 0; i < some; ++i) {
                read_line(from.at(n, c + first + i, p), from.dtype, from.p, count, wide + i * block, packed);
            }
            row_kernels<T>().transpose(wide, block, some, count, tile + first, tile_stride);
        }
    }
    for (std::int64_t i = 0; i < count && channels < width; ++i) {
        std::fill(tile + i * tile_stride + channels, tile + i * tile_stride + width, T(0));
    }
}

template <class T>
void store_tile(const T* tile, std::int64_t tile_stride, const Array& to, std::int64_t n, std::int64_t c,
                std::int64_t channels, std::int64_t p, std::int64_t count) {
    if (to.c == 1 && channels > 1) {
        std::byte none[1];
        const bool dense = to.p == channels && tile_stride == channels;
        if (dense) write_line(tile, count * channels, to.at(n, c, p), to.dtype, 1, none);
        for (std::int64_t i = 0; !dense && i < count; ++i) {
            write_line(tile + i * tile_stride, channels, to.at(n, c, p + i), to.dtype, 1, none);
        }
        return;
    }
    if (to.dtype == dtype_of<T> && to.p == 1) {
        row_kernels<T>().transpose(tile, tile_stride, count, channels, reinterpret_cast<T*>(to.at(n, c, p)), to.c);
        return;
    }
    alignas(64) T wide[lines * block];
    alignas(64) std::byte packed[block * 8];
    std::int64_t first = 0;
    if constexpr (sizeof(T) == 4) {
        const HalfTiles halves = half_tiles_of(to, count);
        const std::int64_t whole = channels / 8 * 8;
        if (halves.store && whole > 0) {
            halves.store(tile, tile_stride, whole, count, reinterpret_cast<std::uint16_t*>(to.at(n, c, p)), to.c);
            first = whole;
        }
    }
    for (; first < channels; first += lines) {
        const std::int64_t some = std::min(lines, channels - first);
        row_kernels<T>().transpose(tile + first, tile_stride, count, some, wide, block);
        for (std::int64_t i = 0; i < some; ++i) {
            write_line(wide + i * block, count, to.at(n, c + first + i, p), to.dtype, to.p, packed);
        }
    }
}

namespace {

/// Calls f with a step that the compiler knows where it is 1, 2 or 3.
template <class F> void with_step(std::int64_t step, const F& f) {
    switch (step) {
        case 1: return f(std::integral_constant<std::int64_t, 1>());
        case 2: return f(std::integral_constant<std::int64_t, 2>());
        case 3: return f(std::integral_constant<std::int64_t, 3>());
        default: return f(step);
    }
}
template <class T> void read_steps(const T* from, std::int64_t step, std::int64_t count, T* line) {
    with_step(step, [&](auto s) {
        for (std::int64_t k = 0; k < count; ++k) line[k] = from[k * s];
    });
}
template <class T> void write_steps(const T* line, std::int64_t count, T* to, std::int64_t step) {
    with_step(step, [&](auto s) {
        for (std::int64_t k = 0; k < count; ++k) to[k * s] = line[k];
    });
}

/// Whether the entries of a point lie side by side, and points one behind the other, as the coordinates of a grid do.
bool interleaved(const Array& a, std::int64_t entries) {
    return entries <= most_axes && a.p == entries && (a.c == 1 || a.c == -1);
}
/// Place of entry i among those of a point.
std::int64_t place_in(const Array& a, std::int64_t entries, std::int64_t i) { return a.c < 0 ? entries - 1 - i : i; }

}  // namespace

template <class T>
void load_lines(const Array& from, std::int64_t n, std::int64_t entries, std::int64_t p, std::int64_t count, T* lines,
                std::int64_t line_stride) {
    alignas(64) T wide[block * most_axes];
    alignas(64) std::byte packed[block * 8];
    const bool together = interleaved(from, entries), same = from.dtype == dtype_of<T>;
    const void* first = from.at(n, from.c < 0 ? entries - 1 : 0, p);
    if (together && !same) cpu::find_convert(from.dtype, dtype_of<T>)(&first, wide, count * entries, nullptr);
    for (std::int64_t i = 0; i < entries; ++i) {
        T* line = lines + i * line_stride;
        if (together && !same) {
            read_steps(wide + place_in(from, entries, i), entries, count, line);
        } else if (same) {
            read_steps(reinterpret_cast<const T*>(from.at(n, i, p)), from.p, count, line);
        } else {
            read_line(from.at(n, i, p), from.dtype, from.p, count, line, packed);
        }
    }
}

template <class T>
void store_lines(const T* lines, const Array& to, std::int64_t n, std::int64_t entries, std::int64_t p,
                 std::int64_t count, std::int64_t line_stride) {
    alignas(64) T wide[block * most_axes];
    alignas(64) std::byte packed[block * 8];
    const bool together = interleaved(to, entries), same = to.dtype == dtype_of<T>;
    for (std::int64_t i = 0; i < entries; ++i) {
        const T* line = lines + i * line_stride;
        if (together && !same) {
            write_steps(line, count, wide + place_in(to, entries, i), entries);
        } else if (same) {
            write_steps(line, count, reinterpret_cast<T*>(to.at(n, i, p)), to.p);
        } else {
            write_line(line, count, to.at(n, i, p), to.dtype, to.p, packed);
        }
    }
    if (!together || same) return;
    const void* source = wide;
    cpu::find_convert(dtype_of<T>, to.dtype)(&source, to.at(n, to.c < 0 ? entries - 1 : 0, p), count * entries,
                                             nullptr);
}

namespace {

/// body(array of the run, sample, first, count, number of the sample from n on, place of the first point in it)
template <class Body> void for_blocks(const View& x, std::int64_t n, std::int64_t count, const Body& body) {
    const Operand operand{x, 1, 2, x.rank()};
    const Runs runs = make_runs({operand});
    const Array array = make_array(operand, runs);
    const Blocks blocks(runs, block);
    cpu::parallel_for(count * blocks.in_sample, std::max<std::int64_t>(1, 256 / std::max<std::int64_t>(1, x.size(1))),
                      [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t u = begin; u < end; ++u) {
                              const BlockPlace at = place_of(blocks, runs, u);
                              body(run_of(array, runs, at.run), n + at.sample, at.first, at.count, at.sample,
                                   at.run * runs.length + at.first);
                          }
                      });
}

/// What is packed: channels, elements of one, and their padded number in a row.
template <class T> struct Packed {
    explicit Packed(const View& x) : channels(x.size(1)), width(padded_channels<T>(x.size(1))) {
        for (std::int64_t a = 2; a < x.rank(); ++a) elements *= x.size(a);
    }
    std::int64_t channels, width, elements = 1;
};

}  // namespace

template <class T> void pack_rows(const View& x, std::int64_t n, std::int64_t count, T* rows) {
    const Packed<T> d(x);
    for_blocks(x, n, count,
               [&](const Array& a, std::int64_t sample, std::int64_t p, std::int64_t some, std::int64_t number,
                   std::int64_t place) {
                   T* to = rows + (number * d.elements + place) * d.width;
                   load_tile(a, sample, 0, d.channels, p, some, to, d.width, d.width);
               });
}
template <class T> void unpack_rows(const T* rows, const View& x, std::int64_t n, std::int64_t count) {
    const Packed<T> d(x);
    for_blocks(x, n, count,
               [&](const Array& a, std::int64_t sample, std::int64_t p, std::int64_t some, std::int64_t number,
                   std::int64_t place) {
                   const T* from = rows + (number * d.elements + place) * d.width;
                   store_tile(from, d.width, a, sample, 0, d.channels, p, some);
               });
}
template <class T> void pack_lines(const View& x, std::int64_t n, std::int64_t count, T* lines) {
    const Packed<T> d(x);
    for_blocks(x, n, count,
               [&](const Array& a, std::int64_t sample, std::int64_t p, std::int64_t some, std::int64_t number,
                   std::int64_t place) {
                   load_lines(a, sample, d.channels, p, some, lines + number * d.channels * d.elements + place,
                              d.elements);
               });
}
template <class T> void unpack_lines(const T* lines, const View& x, std::int64_t n, std::int64_t count) {
    const Packed<T> d(x);
    for_blocks(x, n, count,
               [&](const Array& a, std::int64_t sample, std::int64_t p, std::int64_t some, std::int64_t number,
                   std::int64_t place) {
                   const T* from = lines + number * d.channels * d.elements + place;
                   store_lines(from, a, sample, d.channels, p, some, d.elements);
               });
}

#define CALOR_GRID_POINTS(T)                                                                                          \
    template void load_tile(const Array&, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, T*,   \
                            std::int64_t, std::int64_t);                                                              \
    template void store_tile(const T*, std::int64_t, const Array&, std::int64_t, std::int64_t, std::int64_t,          \
                             std::int64_t, std::int64_t);                                                             \
    template void load_lines(const Array&, std::int64_t, std::int64_t, std::int64_t, std::int64_t, T*, std::int64_t); \
    template void store_lines(const T*, const Array&, std::int64_t, std::int64_t, std::int64_t, std::int64_t,         \
                              std::int64_t);                                                                          \
    template void pack_rows(const View&, std::int64_t, std::int64_t, T*);                                             \
    template void unpack_rows(const T*, const View&, std::int64_t, std::int64_t);                                     \
    template void pack_lines(const View&, std::int64_t, std::int64_t, T*);                                            \
    template void unpack_lines(const T*, const View&, std::int64_t, std::int64_t);
CALOR_GRID_POINTS(float)
CALOR_GRID_POINTS(double)
#undef CALOR_GRID_POINTS

}  // namespace calor::ops::grid
