// Register tiles of the planar convolution, unrolled through parameter packs. Each sum runs over taps (or positions) in
// order, whatever the tile, so that results don't depend on how the work is cut.
#include "device/cpu/planar_conv_kernels.h"

#include <algorithm>
#include <array>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/planar_conv_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace calor::cpu::planar {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr hn::CappedTag<float, 16> lanes{};
using Vector = hn::Vec<decltype(lanes)>;
constexpr std::int64_t vector_size = hn::MaxLanes(lanes);
static_assert(vector_size <= margin);

template <std::size_t count> using Indices = std::make_index_sequence<count>;

/// `outputs` by `vectors` sums; o and v count them.
template <class Os, class Vs> struct Tile;
template <std::size_t... o, std::size_t... v> struct Tile<std::index_sequence<o...>, std::index_sequence<v...>> {
    static constexpr std::size_t outputs = sizeof...(o), vectors = sizeof...(v);
    std::array<std::array<Vector, vectors>, outputs> sums;

    template <std::size_t i> HWY_INLINE void add_row(Vector w, const std::array<Vector, vectors>& x) {
        ((sums[i][v] = hn::MulAdd(w, x[v], sums[i][v])), ...);
    }
    template <std::size_t j> HWY_INLINE void add_column(const std::array<Vector, outputs>& w, Vector x) {
        ((sums[o][j] = hn::MulAdd(w[o], x, sums[o][j])), ...);
    }
    template <std::size_t i> HWY_INLINE void set_row(Vector value) { ((sums[i][v] = value), ...); }
    template <std::size_t i> HWY_INLINE void load_row(const float* from) {
        ((sums[i][v] = hn::LoadU(lanes, from + v * vector_size)), ...);
    }
    template <std::size_t i> HWY_INLINE void store_row(float* to) const {
        (hn::StoreU(sums[i][v], lanes, to + v * vector_size), ...);
    }

    /// Positions [at, at + vectors * lanes).
    static void convolve(const Convolve& c, std::int64_t at) {
        Tile t;
        float* const out = c.out + at;
        if (c.accumulate) {
            (t.template load_row<o>(out + static_cast<std::int64_t>(o) * c.out_step), ...);
        } else {
            (t.template set_row<o>(c.bias != nullptr ? hn::Set(lanes, c.bias[o]) : hn::Zero(lanes)), ...);
        }
        const float *const in = c.in + at, *w = c.weights;
        for (std::int64_t k = 0; k < c.taps; ++k, w += outputs) {
            const float* const x = in + c.tap_at[k];
            if constexpr (outputs <= vectors) {
                const std::array<Vector, outputs> ws{hn::Set(lanes, w[o])...};
                (t.template add_column<v>(ws, hn::LoadU(lanes, x + v * vector_size)), ...);
            } else {
                const std::array<Vector, vectors> xs{hn::LoadU(lanes, x + v * vector_size)...};
                (t.template add_row<o>(hn::Set(lanes, w[o]), xs), ...);
            }
        }
        (t.template store_row<o>(out + static_cast<std::int64_t>(o) * c.out_step), ...);
    }

    static void correlate(const Correlate& c) {
        Tile t;
        (t.template load_row<o>(c.sums + o * vectors * vector_size), ...);
        const std::array<const float*, outputs> grads{(c.grad + c.grad_at[o])...};
        const std::array<const float*, vectors> ins{(c.in + c.in_at[v])...};
        for (std::int64_t p = 0; p < c.length; p += vector_size) {
            if constexpr (outputs <= vectors) {
                const std::array<Vector, outputs> gs{hn::LoadU(lanes, grads[o] + p)...};
                (t.template add_column<v>(gs, hn::LoadU(lanes, ins[v] + p)), ...);
            } else {
                const std::array<Vector, vectors> xs{hn::LoadU(lanes, ins[v] + p)...};
                (t.template add_row<o>(hn::LoadU(lanes, grads[o] + p), xs), ...);
            }
        }
        (t.template store_row<o>(c.sums + o * vectors * vector_size), ...);
    }
};

template <std::size_t outputs, std::size_t vectors> using TileOf = Tile<Indices<outputs>, Indices<vectors>>;

using ConvolveTile = void (*)(const Convolve&, std::int64_t);
using CorrelateTile = void (*)(const Correlate&);

/// For 1, 2, ... vectors (or taps).
template <std::size_t outputs, std::size_t... i>
constexpr std::array<ConvolveTile, most_sums> convolve_row(std::index_sequence<i...>) {
    return {TileOf<outputs, i + 1>::convolve...};
}
template <std::size_t outputs, std::size_t... i>
constexpr std::array<CorrelateTile, most_sums> correlate_row(std::index_sequence<i...>) {
    return {TileOf<outputs, i + 1>::correlate...};
}
constexpr std::array<std::array<ConvolveTile, most_sums>, 4> convolve_tiles{
    convolve_row<1>(Indices<12>()), convolve_row<2>(Indices<6>()), convolve_row<3>(Indices<4>()),
    convolve_row<4>(Indices<3>())};
constexpr std::array<std::array<CorrelateTile, most_sums>, 4> correlate_tiles{
    correlate_row<1>(Indices<12>()), correlate_row<2>(Indices<6>()), correlate_row<3>(Indices<4>()),
    correlate_row<4>(Indices<3>())};

void convolve(const Convolve& c) {
    const auto& tiles = convolve_tiles[static_cast<std::size_t>(c.outputs - 1)];
    const std::int64_t vectors = (c.length + vector_size - 1) / vector_size, most = most_sums / c.outputs;
    const std::int64_t blocks = (vectors + most - 1) / most;
    for (std::int64_t i = 0; i < blocks; ++i) {
        const std::int64_t begin = vectors * i / blocks, end = vectors * (i + 1) / blocks;
        tiles[static_cast<std::size_t>(end - begin - 1)](c, begin * vector_size);
    }
}

/// One vector of `sizeof...(j)` adjacent result rows.
template <class Js> struct Rows;
template <std::size_t... j> struct Rows<std::index_sequence<j...>> {
    static constexpr std::size_t count = sizeof...(j);
    std::array<Vector, count> sums;

    /// Input row r holds tap row r - i of result row i.
    template <std::size_t r, std::size_t i>
    HWY_INLINE void add(const std::array<Vector, 9>& w, Vector x0, Vector x1, Vector x2) {
        if constexpr (r >= i && r - i < 3) {
            sums[i] = hn::MulAdd(w[3 * (r - i)], x0, sums[i]);
            sums[i] = hn::MulAdd(w[3 * (r - i) + 1], x1, sums[i]);
            sums[i] = hn::MulAdd(w[3 * (r - i) + 2], x2, sums[i]);
        }
    }
    template <std::size_t r>
    HWY_INLINE void add_input_row(const ConvolveRows& c, const std::array<Vector, 9>& w, const float* in) {
        const float* const row = in + static_cast<std::int64_t>(r) * c.in_pitch;
        const Vector x0 = hn::LoadU(lanes, row + c.column_at[0]), x1 = hn::LoadU(lanes, row + c.column_at[1]);
        const Vector x2 = hn::LoadU(lanes, row + c.column_at[2]);
        (add<r, j>(w, x0, x1, x2), ...);
    }
    /// `positions` results a row: a whole vector, or fewer.
    template <bool whole, std::size_t... r>
    static HWY_INLINE void run(const ConvolveRows& c, const std::array<Vector, 9>& w, const float* in, float* out,
                               std::int64_t positions, std::index_sequence<r...>) {
        Rows t;
        if (c.accumulate) {
            ((t.sums[j] = hn::LoadU(lanes, out + static_cast<std::int64_t>(j) * c.out_pitch)), ...);
        } else {
            ((t.sums[j] = hn::Set(lanes, c.bias)), ...);
        }
        (t.template add_input_row<r>(c, w, in), ...);
        if constexpr (whole) {
            (hn::StoreU(t.sums[j], lanes, out + static_cast<std::int64_t>(j) * c.out_pitch), ...);
        } else {
            const auto mask = hn::FirstN(lanes, static_cast<std::size_t>(positions));
            (hn::BlendedStore(t.sums[j], mask, lanes, out + static_cast<std::int64_t>(j) * c.out_pitch), ...);
        }
    }
    static void all(const ConvolveRows& c, std::int64_t row) {
        std::array<Vector, 9> w;
        for (std::size_t k = 0; k < 9; ++k) w[k] = hn::Set(lanes, c.weights[k]);
        const float* const in = c.in + row * c.in_pitch;
        float* const out = c.out + row * c.out_pitch;
        std::int64_t p = 0;
        for (; p + vector_size <= c.length; p += vector_size)
            run<true>(c, w, in + p, out + p, vector_size, Indices<count + 2>());
        if (p < c.length) run<false>(c, w, in + p, out + p, c.length - p, Indices<count + 2>());
    }
};

void convolve_rows(const ConvolveRows& c) {
    std::int64_t row = 0;
    for (; row + 4 <= c.rows; row += 4) Rows<Indices<4>>::all(c, row);
    if (c.rows - row == 3) Rows<Indices<3>>::all(c, row);
    if (c.rows - row == 2) Rows<Indices<2>>::all(c, row);
    if (c.rows - row == 1) Rows<Indices<1>>::all(c, row);
}

void correlate(const Correlate& c) {
    correlate_tiles[static_cast<std::size_t>(c.outputs - 1)][static_cast<std::size_t>(c.taps - 1)](c);
}

double total(const float* values, std::int64_t length) {
    constexpr std::int64_t run = 1024;
    double sum = 0;
    for (std::int64_t begin = 0; begin < length; begin += run) {
        Vector a = hn::Zero(lanes);
        const std::int64_t end = std::min(begin + run, length);
        for (std::int64_t p = begin; p < end; p += vector_size) a = hn::Add(a, hn::LoadU(lanes, values + p));
        HWY_ALIGN float parts[vector_size];
        hn::Store(a, lanes, parts);
        for (const float part : parts) sum += static_cast<double>(part);
    }
    return sum;
}

}  // namespace

const Kernels& table() {
    static constexpr Kernels kernels{vector_size, convolve, convolve_rows, correlate, total};
    return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu::planar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::cpu::planar {

HWY_EXPORT(table);
const Kernels& kernels() { return HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace calor::cpu::planar
#endif
