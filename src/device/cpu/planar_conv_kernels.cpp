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

#include "device/cpu/conv_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu::planar {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using conv_vectors::HWY_NAMESPACE::lanes;
using conv_vectors::HWY_NAMESPACE::load;
using conv_vectors::HWY_NAMESPACE::store;
using conv_vectors::HWY_NAMESPACE::store_all;
using conv_vectors::HWY_NAMESPACE::Vector;
using conv_vectors::HWY_NAMESPACE::vector_size;
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

/// A row of fewer results than a vector.
HWY_INLINE void put_some(const ConvolveRows& c, Vector v, std::int64_t row) {
    const auto put = [&](auto* part, auto* out) HWY_ATTR {
        store(v, part);
        std::copy(part, part + c.length, out + row * c.out_pitch);
    };
    HWY_ALIGN float wide[vector_size];
    HWY_ALIGN std::uint16_t half[vector_size];
    if (c.half) {
        put(half, static_cast<std::uint16_t*>(c.out));
    } else {
        put(wide, static_cast<float*>(c.out));
    }
}

/// Weights of a block, [row][column]; only its own are set.
using Weights = std::array<Vector, 9>;

template <std::size_t... k> HWY_INLINE Weights weights_of(const float* w, std::index_sequence<k...>) {
    Weights all;
    ((all[k] = hn::Set(lanes, w[k])), ...);
    return all;
}

/// One vector of `sizeof...(j)` adjacent result rows.
template <class Js> struct Rows;
template <std::size_t... j> struct Rows<std::index_sequence<j...>> {
    static constexpr std::size_t count = sizeof...(j);
    std::array<Vector, count> sums;

    /// Input row r holds tap row r - i of result row i.
    template <std::size_t rows, std::size_t columns, std::size_t r, std::size_t i>
    HWY_INLINE void add(const Weights& w, Vector x0, Vector x1, Vector x2) {
        if constexpr (r >= i && r - i < rows) {
            constexpr std::size_t first = columns * (r - i);
            sums[i] = hn::MulAdd(w[first], x0, sums[i]);
            if constexpr (columns > 1) sums[i] = hn::MulAdd(w[first + 1], x1, sums[i]);
            if constexpr (columns > 2) sums[i] = hn::MulAdd(w[first + 2], x2, sums[i]);
        }
    }
    template <std::size_t rows, std::size_t columns, std::size_t r>
    HWY_INLINE void add_input_row(const Weights& w, const float* in, const Block& b, std::int64_t pitch) {
        const float* const row = in + static_cast<std::int64_t>(r) * pitch;
        const Vector x0 = hn::LoadU(lanes, row + b.at[0]);
        const Vector x1 = columns > 1 ? hn::LoadU(lanes, row + b.at[1]) : x0;
        const Vector x2 = columns > 2 ? hn::LoadU(lanes, row + b.at[2]) : x0;
        (add<rows, columns, r, j>(w, x0, x1, x2), ...);
    }
    template <std::size_t rows, std::size_t columns, std::size_t... r>
    HWY_INLINE void add_rows(const Weights& w, const float* in, const Block& b, std::int64_t pitch,
                             std::index_sequence<r...>) {
        (add_input_row<rows, columns, r>(w, in, b, pitch), ...);
    }
    template <std::size_t rows, std::size_t columns>
    HWY_INLINE void add_block(const Weights& w, const float* in, const Block& b, std::int64_t pitch) {
        add_rows<rows, columns>(w, in, b, pitch, Indices<count + rows - 1>());
    }
    /// One block for two vectors of every row: two times four sums hide each other's latency.
    template <std::size_t rows, std::size_t columns>
    static HWY_INLINE const float* add_both(Rows& s, Rows& t, const float* w, const float* in, const float* next,
                                            const Block& b, std::int64_t pitch) {
        const Weights weights = weights_of(w, Indices<rows * columns>());
        s.template add_block<rows, columns>(weights, in, b, pitch);
        t.template add_block<rows, columns>(weights, next, b, pitch);
        return w + rows * columns;
    }
    static HWY_INLINE void add_all(Rows& s, Rows& t, const ConvolveRows& c, const float* in, const float* next) {
        const float* w = c.weights;
        for (std::int64_t i = 0; i < c.count; ++i) {
            const Block& b = c.blocks[i];
            switch (3 * b.rows + b.columns) {
                case 12: w = add_both<3, 3>(s, t, w, in, next, b, c.in_pitch); break;
                case 11: w = add_both<3, 2>(s, t, w, in, next, b, c.in_pitch); break;
                case 10: w = add_both<3, 1>(s, t, w, in, next, b, c.in_pitch); break;
                case 9: w = add_both<2, 3>(s, t, w, in, next, b, c.in_pitch); break;
                case 8: w = add_both<2, 2>(s, t, w, in, next, b, c.in_pitch); break;
                case 7: w = add_both<2, 1>(s, t, w, in, next, b, c.in_pitch); break;
                case 6: w = add_both<1, 3>(s, t, w, in, next, b, c.in_pitch); break;
                case 5: w = add_both<1, 2>(s, t, w, in, next, b, c.in_pitch); break;
                default: w = add_both<1, 1>(s, t, w, in, next, b, c.in_pitch); break;
            }
        }
    }
    /// At position `at` of the rows from `row` on.
    HWY_INLINE void put(const ConvolveRows& c, std::int64_t row, std::int64_t at) const {
        const std::int64_t to = row * c.out_pitch + at;
        if (c.half) {
            store_all(sums, static_cast<std::uint16_t*>(c.out) + to, c.out_pitch, std::index_sequence<j...>());
        } else {
            store_all(sums, static_cast<float*>(c.out) + to, c.out_pitch, std::index_sequence<j...>());
        }
    }
    HWY_INLINE void put_few(const ConvolveRows& c, std::int64_t row) const {
        (put_some(c, sums[j], row + static_cast<std::int64_t>(j)), ...);
    }
    static HWY_INLINE Rows filled(float value) {
        Rows t;
        ((t.sums[j] = hn::Set(lanes, value)), ...);
        return t;
    }
    /// The only block is a square of 9 taps, whose weights stay in registers. The last vector of a row overlaps the one
    /// before it, here and below.
    static HWY_INLINE void square(const ConvolveRows& c, const float* in, std::int64_t row) {
        const Weights w = weights_of(c.weights, Indices<9>());
        const Block b = c.blocks[0];
        for (std::int64_t p = 0; p < c.length; p += vector_size) {
            const std::int64_t at = std::max<std::int64_t>(0, std::min(p, c.length - vector_size));
            Rows t = filled(c.bias);
            t.template add_block<3, 3>(w, in + at, b, c.in_pitch);
            if (c.length < vector_size) return t.put_few(c, row);
            t.put(c, row, at);
        }
    }
    static HWY_INLINE void any(const ConvolveRows& c, const float* in, std::int64_t row) {
        for (std::int64_t p = 0; p < c.length; p += 2 * vector_size) {
            const std::int64_t at = std::max<std::int64_t>(0, std::min(p, c.length - 2 * vector_size));
            const std::int64_t more = std::max<std::int64_t>(0, std::min(at + vector_size, c.length - vector_size));
            Rows s = filled(c.bias), t = filled(c.bias);
            add_all(s, t, c, in + at, in + more);
            if (c.length < vector_size) return s.put_few(c, row);
            s.put(c, row, at);
            t.put(c, row, more);
        }
    }
    static void all(const ConvolveRows& c, std::int64_t row) {
        const float* const in = c.in + row * c.in_pitch;
        if (c.count == 1 && c.blocks[0].rows == 3 && c.blocks[0].columns == 3) {
            square(c, in, row);
        } else {
            any(c, in, row);
        }
    }
};

/// The last four rows may overlap those before them.
void convolve_rows(const ConvolveRows& c) {
    if (c.rows < 4) {
        for (std::int64_t row = 0; row < c.rows; ++row) Rows<Indices<1>>::all(c, row);
        return;
    }
    for (std::int64_t row = 0; row < c.rows; row += 4) Rows<Indices<4>>::all(c, std::min(row, c.rows - 4));
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

/// Whole vectors, the last one over the one before it; fewer values by way of a vector.
template <class From, class To> HWY_INLINE void convert(const From* from, To* to, std::int64_t count) {
    if (count >= vector_size) {
        for (std::int64_t i = 0; i + vector_size < count; i += vector_size) store(load(from + i), to + i);
        return store(load(from + count - vector_size), to + count - vector_size);
    }
    HWY_ALIGN From in[vector_size] = {};
    HWY_ALIGN To out[vector_size];
    std::copy(from, from + count, in);
    store(load(in), out);
    std::copy(out, out + count, to);
}

void widen(const std::uint16_t* from, float* to, std::int64_t count) { convert(from, to, count); }
void narrow(const float* from, std::uint16_t* to, std::int64_t count) { convert(from, to, count); }

/// Mostly none, one or two.
HWY_INLINE void zeros(float* to, std::int64_t count) {
    if (count > 0) to[0] = 0;
    if (count > 1) to[1] = 0;
    if (count > 2) std::fill(to + 2, to + count, 0.0F);
}

template <class T> void pad_rows_as(const PadRows& r) {
    const T* from = static_cast<const T*>(r.from);
    float* to = r.to;
    for (std::int64_t row = 0; row < r.rows; ++row, from += r.from_row, to += r.to_row) {
        zeros(to, r.left);
        float* const out = to + r.left;
        convert(from, out, r.count);
        zeros(out + r.count, r.right);
    }
}

void pad_rows(const PadRows& r) {
    if (r.half) {
        pad_rows_as<std::uint16_t>(r);
    } else {
        pad_rows_as<float>(r);
    }
}

}  // namespace

const Kernels& table() {
    static constexpr Kernels kernels{vector_size, convolve, convolve_rows, correlate, total, pad_rows, widen, narrow};
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
