// The product is cut into tiles of c. A task computes one tile: for each block of the inner axis it packs panels of a
// (micro rows wide) and of b (micro columns wide) into its scratch memory, multiplies them panel by panel in registers,
// and adds to the tile; the finished tile goes to c. With few tiles and a long inner axis, the inner axis is cut as
// well, at places that depend on the shape alone, and the parts are added in order.
#include "device/cpu/gemm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/gemm.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "calor/device.h"
#include "device/cpu/parallel.h"
#include "device/cpu/scratch.h"
#include "device/cpu/vectorize.h"

#ifndef CALOR_GEMM_TASK
#define CALOR_GEMM_TASK
namespace calor::cpu {

inline constexpr std::int64_t micro_rows = 6;
inline constexpr std::int64_t inner_block = 256;

/// One tile of c: rows [row, row + rows), columns, inner range, of one product. `tile` is [rows, columns] of scratch.
template <class T> struct Task {
    std::int64_t row, rows, column, columns, inner, inners, batch;
    T *tile, *panels_a, *panels_b;
};

}  // namespace calor::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T> constexpr std::int64_t micro_columns() {
    if constexpr (std::is_floating_point_v<T>) {
        return 2 * static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
    } else {
        return 8;
    }
}

bool consecutive(const std::int64_t* offsets, std::int64_t n) {
    for (std::int64_t i = 1; i < n; ++i) {
        if (offsets[i] != offsets[i - 1] + 1) return false;
    }
    return true;
}

/// n neighbours, widened if need be.
template <class T, class S> HWY_INLINE void copy_run(const S* from, T* to, std::int64_t n) {
    if constexpr (std::is_same_v<S, T>) {
        std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
    } else {
        CALOR_VECTORIZE
        for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
    }
}

/// out[panel][p][lane] = data[outer[panel * width + lane] + inner[p]], zeros past the end.
template <class T, std::int64_t width, class S>
void pack(const S* data, const std::int64_t* outer, std::int64_t outers, const std::int64_t* inner, std::int64_t inners,
          T* out) {
    const bool inner_dense = consecutive(inner, inners);
    for (std::int64_t first = 0; first < outers; first += width, out += width * inners) {
        const std::int64_t lanes = std::min(width, outers - first);
        const std::int64_t* at = outer + first;
        if (lanes < width) std::memset(out, 0, static_cast<std::size_t>(width * inners) * sizeof(T));
        if (lanes == width && consecutive(at, width)) {
            for (std::int64_t p = 0; p < inners; ++p) copy_run(data + at[0] + inner[p], out + p * width, width);
        } else if (inner_dense) {
            for (std::int64_t l = 0; l < lanes; ++l) {
                const S* from = data + at[l] + inner[0];
                for (std::int64_t p = 0; p < inners; ++p) out[p * width + l] = static_cast<T>(from[p]);
            }
        } else {
            for (std::int64_t p = 0; p < inners; ++p) {
                const S* from = data + inner[p];
                for (std::int64_t l = 0; l < lanes; ++l) out[p * width + l] = static_cast<T>(from[at[l]]);
            }
        }
    }
}

/// tile[i][j] (+)= panel_a[.][i] panel_b[.][j] for a whole micro tile, vectors.
template <class T> void multiply(const T* a, const T* b, std::int64_t inners, T* tile, std::int64_t pitch, bool add) {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    constexpr std::int64_t half = micro_columns<T>() / 2;
    V c00 = hn::Zero(d), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
    V c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
    for (std::int64_t p = 0; p < inners; ++p, a += micro_rows, b += 2 * half) {
        const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + half);
        V row = hn::Set(d, a[0]);
        c00 = hn::MulAdd(row, b0, c00);
        c01 = hn::MulAdd(row, b1, c01);
        row = hn::Set(d, a[1]);
        c10 = hn::MulAdd(row, b0, c10);
        c11 = hn::MulAdd(row, b1, c11);
        row = hn::Set(d, a[2]);
        c20 = hn::MulAdd(row, b0, c20);
        c21 = hn::MulAdd(row, b1, c21);
        row = hn::Set(d, a[3]);
        c30 = hn::MulAdd(row, b0, c30);
        c31 = hn::MulAdd(row, b1, c31);
        row = hn::Set(d, a[4]);
        c40 = hn::MulAdd(row, b0, c40);
        c41 = hn::MulAdd(row, b1, c41);
        row = hn::Set(d, a[5]);
        c50 = hn::MulAdd(row, b0, c50);
        c51 = hn::MulAdd(row, b1, c51);
    }
    const auto put = [&](std::int64_t i, V left, V right) {
        T* to = tile + i * pitch;
        if (add) {
            left = hn::Add(left, hn::LoadU(d, to));
            right = hn::Add(right, hn::LoadU(d, to + half));
        }
        hn::StoreU(left, d, to);
        hn::StoreU(right, d, to + half);
    };
    put(0, c00, c01);
    put(1, c10, c11);
    put(2, c20, c21);
    put(3, c30, c31);
    put(4, c40, c41);
    put(5, c50, c51);
}

/// The same for integers: plain loops.
template <class T>
void multiply_integers(const T* a, const T* b, std::int64_t inners, T* tile, std::int64_t pitch, bool add) {
    constexpr std::int64_t width = micro_columns<T>();
    T sums[micro_rows][width] = {};
    for (std::int64_t p = 0; p < inners; ++p, a += micro_rows, b += width) {
        for (std::int64_t i = 0; i < micro_rows; ++i) {
            for (std::int64_t j = 0; j < width; ++j) sums[i][j] += a[i] * b[j];
        }
    }
    for (std::int64_t i = 0; i < micro_rows; ++i) {
        for (std::int64_t j = 0; j < width; ++j) tile[i * pitch + j] = sums[i][j] + (add ? tile[i * pitch + j] : T(0));
    }
}

template <class T> void compute(const Gemm<T>& g, const Task<T>& t) {
    constexpr std::int64_t width = micro_columns<T>();
    const std::int64_t pitch = (t.columns + width - 1) / width * width;
    const std::int64_t a_start = g.a_batch ? g.a_batch[t.batch] : 0, b_start = g.b_batch ? g.b_batch[t.batch] : 0;
    const auto pack_a = [&](const auto* a, std::int64_t first, std::int64_t inners) {
        pack<T, micro_rows>(a + a_start, g.a_row + t.row, t.rows, g.a_inner + first, inners, t.panels_a);
    };
    const auto pack_b = [&](const auto* b, std::int64_t first, std::int64_t inners) {
        pack<T, width>(b + b_start, g.b_column + t.column, t.columns, g.b_inner + first, inners, t.panels_b);
    };
    for (std::int64_t p = 0; p < t.inners; p += inner_block) {
        const std::int64_t inners = std::min(inner_block, t.inners - p), first = t.inner + p;
        if constexpr (std::is_same_v<T, float>) {
            g.a_bf16 ? pack_a(g.a_bf16, first, inners) : pack_a(g.a, first, inners);
            g.b_bf16 ? pack_b(g.b_bf16, first, inners) : pack_b(g.b, first, inners);
        } else {
            pack_a(g.a, first, inners);
            pack_b(g.b, first, inners);
        }
        for (std::int64_t j = 0; j < t.columns; j += width) {
            for (std::int64_t i = 0; i < t.rows; i += micro_rows) {
                const T *pa = t.panels_a + i * inners, *pb = t.panels_b + j * inners;
                T* to = t.tile + i * pitch + j;
                if constexpr (std::is_floating_point_v<T>) {
                    multiply(pa, pb, inners, to, pitch, p > 0);
                } else {
                    multiply_integers(pa, pb, inners, to, pitch, p > 0);
                }
            }
        }
    }
    if (t.inners == 0) std::fill(t.tile, t.tile + (t.rows + micro_rows - 1) / micro_rows * micro_rows * pitch, T(0));
}

void compute_f32(const Gemm<float>& g, const Task<float>& t) { compute(g, t); }
void compute_f64(const Gemm<double>& g, const Task<double>& t) { compute(g, t); }
void compute_u32(const Gemm<std::uint32_t>& g, const Task<std::uint32_t>& t) { compute(g, t); }
void compute_u64(const Gemm<std::uint64_t>& g, const Task<std::uint64_t>& t) { compute(g, t); }

std::int64_t width_f32() { return micro_columns<float>(); }
std::int64_t width_f64() { return micro_columns<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::cpu {
namespace {

HWY_EXPORT(compute_f32);
HWY_EXPORT(compute_f64);
HWY_EXPORT(compute_u32);
HWY_EXPORT(compute_u64);
HWY_EXPORT(width_f32);
HWY_EXPORT(width_f64);

std::int64_t micro_width(const Gemm<float>&) { return HWY_DYNAMIC_DISPATCH(width_f32)(); }
std::int64_t micro_width(const Gemm<double>&) { return HWY_DYNAMIC_DISPATCH(width_f64)(); }
std::int64_t micro_width(const Gemm<std::uint32_t>&) { return 8; }
std::int64_t micro_width(const Gemm<std::uint64_t>&) { return 8; }

void compute(const Gemm<float>& g, const Task<float>& t) { HWY_DYNAMIC_DISPATCH(compute_f32)(g, t); }
void compute(const Gemm<double>& g, const Task<double>& t) { HWY_DYNAMIC_DISPATCH(compute_f64)(g, t); }
void compute(const Gemm<std::uint32_t>& g, const Task<std::uint32_t>& t) { HWY_DYNAMIC_DISPATCH(compute_u32)(g, t); }
void compute(const Gemm<std::uint64_t>& g, const Task<std::uint64_t>& t) { HWY_DYNAMIC_DISPATCH(compute_u64)(g, t); }

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// How a product is cut. Only `parts` touches the bits of the result, and it follows from the shape.
struct Cut {
    std::int64_t rows, columns, parts, part;
};

template <class T> Cut choose(const Gemm<T>& g, std::int64_t width) {
    constexpr std::int64_t most_rows = 120, most_columns = 1024 / static_cast<std::int64_t>(sizeof(T));
    Cut cut{};
    cut.rows = round_up(ceil_div(g.m, ceil_div(g.m, most_rows)), micro_rows);
    cut.columns = round_up(ceil_div(g.n, ceil_div(g.n, most_columns)), width);
    constexpr std::int64_t least_part = 8 * inner_block;
    cut.parts = 1;
    if (g.m * g.n <= 256 * 256) {
        const std::int64_t products =
            std::max<std::int64_t>(1, g.batch * ceil_div(g.m, cut.rows) * ceil_div(g.n, cut.columns));
        cut.parts = std::clamp<std::int64_t>(16 / products, 1, std::max<std::int64_t>(1, g.k / least_part));
    }
    cut.part = round_up(std::max<std::int64_t>(1, ceil_div(g.k, cut.parts)), inner_block);
    cut.parts = std::max<std::int64_t>(1, ceil_div(g.k, cut.part));
    const auto tasks = [&] { return g.batch * cut.parts * ceil_div(g.m, cut.rows) * ceil_div(g.n, cut.columns); };
    while (tasks() < 2 * thread_count() && (cut.columns > 4 * width || cut.rows > 4 * micro_rows)) {
        if (cut.columns > 4 * width) {
            cut.columns = round_up(cut.columns / 2, width);
        } else {
            cut.rows = round_up(cut.rows / 2, micro_rows);
        }
    }
    return cut;
}

/// A finished tile to c, with bias.
template <class T> void store(const Gemm<T>& g, const Task<T>& t, std::int64_t pitch) {
    T* c = g.c + (g.c_batch ? g.c_batch[t.batch] : 0);
    const std::int64_t* columns = g.c_column + t.column;
    const bool dense =
        columns[t.columns - 1] - columns[0] == t.columns - 1 && std::is_sorted(columns, columns + t.columns);
    for (std::int64_t i = 0; i < t.rows; ++i) {
        T* row = t.tile + i * pitch;
        if (g.row_bias) {
            const T bias = g.row_bias[t.batch * g.m + t.row + i];
            for (std::int64_t j = 0; j < t.columns; ++j) row[j] += bias;
        }
        if (g.column_bias) {
            for (std::int64_t j = 0; j < t.columns; ++j) row[j] += g.column_bias[t.column + j];
        }
        T* to = c + g.c_row[t.row + i];
        if (g.accumulate) {
            for (std::int64_t j = 0; j < t.columns; ++j) to[columns[j]] += row[j];
        } else if (dense) {
            std::memcpy(to + columns[0], row, static_cast<std::size_t>(t.columns) * sizeof(T));
        } else {
            for (std::int64_t j = 0; j < t.columns; ++j) to[columns[j]] = row[j];
        }
    }
}

template <class T> void run(const Gemm<T>& g) {
    if (g.m == 0 || g.n == 0 || g.batch == 0) return;
    const std::int64_t width = micro_width(g);
    const Cut cut = choose(g, width);
    const std::int64_t row_tiles = ceil_div(g.m, cut.rows), column_tiles = ceil_div(g.n, cut.columns);
    const std::int64_t tiles = g.batch * row_tiles * column_tiles;
    const std::int64_t tile_size = cut.rows * cut.columns, inner = std::min(inner_block, cut.part);
    constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
    const Scratch sums(cut.parts > 1 ? tiles * cut.parts * tile_size * bytes : 0);
    T* const partial = reinterpret_cast<T*>(sums.bytes());  // null: every tile is finished by its task
    const auto task_of = [&](std::int64_t tile) {
        const std::int64_t column = tile % column_tiles * cut.columns, row = tile / column_tiles % row_tiles * cut.rows;
        return Task<T>{row,
                       std::min(cut.rows, g.m - row),
                       column,
                       std::min(cut.columns, g.n - column),
                       0,
                       g.k,
                       tile / (column_tiles * row_tiles),
                       nullptr,
                       nullptr,
                       nullptr};
    };
    parallel_for(tiles * cut.parts, 1, [&](std::int64_t begin, std::int64_t end) {
        const Scratch scratch((tile_size + (cut.rows + cut.columns) * inner) * bytes);
        T* const memory = reinterpret_cast<T*>(scratch.bytes());
        for (std::int64_t i = begin; i < end; ++i) {
            Task<T> t = task_of(i / cut.parts);
            t.tile = partial ? partial + i * tile_size : memory;
            t.panels_a = memory + tile_size;
            t.panels_b = t.panels_a + cut.rows * inner;
            t.inner = i % cut.parts * cut.part;
            t.inners = std::min(cut.part, g.k - t.inner);
            compute(g, t);
            if (!partial) store(g, t, round_up(t.columns, width));
        }
    });
    if (!partial) return;
    parallel_for(tiles, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            Task<T> t = task_of(i);
            t.tile = partial + i * cut.parts * tile_size;
            for (std::int64_t part = 1; part < cut.parts; ++part) {
                const T* more = t.tile + part * tile_size;
                const std::int64_t used = round_up(t.rows, micro_rows) * round_up(t.columns, width);
                CALOR_VECTORIZE
                for (std::int64_t j = 0; j < used; ++j) t.tile[j] += more[j];
            }
            store(g, t, round_up(t.columns, width));
        }
    });
}

}  // namespace

void gemm(const Gemm<float>& problem) { run(problem); }
void gemm(const Gemm<double>& problem) { run(problem); }
void gemm(const Gemm<std::uint32_t>& problem) { run(problem); }
void gemm(const Gemm<std::uint64_t>& problem) { run(problem); }

}  // namespace calor::cpu
#endif
