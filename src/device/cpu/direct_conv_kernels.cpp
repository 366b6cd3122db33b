// Register tiles of the direct convolution. Products are fused multiply-adds where the processor has them; each sum
// runs over taps (or pixels) in order, whatever the tile, so that results don't depend on how the work is cut.
#include "device/cpu/direct_conv_kernels.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/direct_conv_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace calor::cpu::direct {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr hn::CappedTag<float, 16> lanes{};
using Vector = hn::Vec<decltype(lanes)>;
constexpr std::int64_t vector_size = hn::MaxLanes(lanes);
constexpr std::int64_t width = 2 * vector_size;

/// Six rows of a tile; a plain struct, because arrays of vectors end up in memory without unrolling.
struct Six {
    Vector v0, v1, v2, v3, v4, v5;
};

HWY_INLINE Six six_of(Vector v) { return {v, v, v, v, v, v}; }

/// t += (a[0] .. a[5]) x b, for one or two vectors of b.
template <int Vectors>
HWY_INLINE void add_products(Six& s, Six& t, Vector b0, Vector b1, const float* a0, const float* a1, const float* a2,
                             const float* a3, const float* a4, const float* a5) {
    const Vector x0 = hn::Set(lanes, *a0);
    s.v0 = hn::MulAdd(x0, b0, s.v0);
    if constexpr (Vectors == 2) t.v0 = hn::MulAdd(x0, b1, t.v0);
    const Vector x1 = hn::Set(lanes, *a1);
    s.v1 = hn::MulAdd(x1, b0, s.v1);
    if constexpr (Vectors == 2) t.v1 = hn::MulAdd(x1, b1, t.v1);
    const Vector x2 = hn::Set(lanes, *a2);
    s.v2 = hn::MulAdd(x2, b0, s.v2);
    if constexpr (Vectors == 2) t.v2 = hn::MulAdd(x2, b1, t.v2);
    const Vector x3 = hn::Set(lanes, *a3);
    s.v3 = hn::MulAdd(x3, b0, s.v3);
    if constexpr (Vectors == 2) t.v3 = hn::MulAdd(x3, b1, t.v3);
    const Vector x4 = hn::Set(lanes, *a4);
    s.v4 = hn::MulAdd(x4, b0, s.v4);
    if constexpr (Vectors == 2) t.v4 = hn::MulAdd(x4, b1, t.v4);
    const Vector x5 = hn::Set(lanes, *a5);
    s.v5 = hn::MulAdd(x5, b0, s.v5);
    if constexpr (Vectors == 2) t.v5 = hn::MulAdd(x5, b1, t.v5);
}

HWY_INLINE Six sum_of(const Six& s, const Six& t) {
    return {hn::Add(s.v0, t.v0), hn::Add(s.v1, t.v1), hn::Add(s.v2, t.v2),
            hn::Add(s.v3, t.v3), hn::Add(s.v4, t.v4), hn::Add(s.v5, t.v5)};
}

HWY_INLINE std::array<Vector, 6> rows_of(const Six& s) { return {s.v0, s.v1, s.v2, s.v3, s.v4, s.v5}; }

HWY_INLINE void store_part(Vector v, float* to, std::int64_t count) {
    if (count >= vector_size) {
        hn::StoreU(v, lanes, to);
    } else if (count > 0) {
        HWY_ALIGN float part[vector_size];
        hn::Store(v, lanes, part);
        std::copy(part, part + count, to);
    }
}

HWY_INLINE Vector load_part(const float* from, std::int64_t count) {
    if (count >= vector_size) return hn::LoadU(lanes, from);
    HWY_ALIGN float part[vector_size] = {};
    if (count > 0) std::copy(from, from + count, part);
    return hn::Load(lanes, part);
}

/// One vector of outputs of six pixels, `rows` of which are stored.
HWY_INLINE void store_six(const Six& s, float* const* out, std::int64_t at, std::int64_t rows, std::int64_t count) {
    if (rows == 6 && count >= vector_size) {
        hn::StoreU(s.v0, lanes, out[0] + at);
        hn::StoreU(s.v1, lanes, out[1] + at);
        hn::StoreU(s.v2, lanes, out[2] + at);
        hn::StoreU(s.v3, lanes, out[3] + at);
        hn::StoreU(s.v4, lanes, out[4] + at);
        hn::StoreU(s.v5, lanes, out[5] + at);
        return;
    }
    const auto all = rows_of(s);
    for (std::int64_t i = 0; i < rows; ++i) store_part(all[static_cast<std::size_t>(i)], out[i] + at, count);
}

HWY_INLINE Six load_six(float* const* out, std::int64_t at, std::int64_t count) {
    return {load_part(out[0] + at, count), load_part(out[1] + at, count), load_part(out[2] + at, count),
            load_part(out[3] + at, count), load_part(out[4] + at, count), load_part(out[5] + at, count)};
}

/// To bf16: nearest, ties to even; NaN stays NaN.
HWY_INLINE void store_bf16(Vector v, std::uint16_t* to, std::int64_t count) {
    const hn::RebindToUnsigned<decltype(lanes)> words;
    const hn::RebindToSigned<decltype(lanes)> signed_words;
    const hn::Rebind<std::uint16_t, decltype(lanes)> halves;
    const auto bits = hn::BitCast(words, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1U));
    const auto nearest = hn::Add(hn::Add(bits, hn::Set(words, 0x7fffU)), odd);
    const auto quiet = hn::Or(bits, hn::Set(words, 0x400000U));
    const auto is_nan = hn::RebindMask(words, hn::IsNaN(v));
    const auto top = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, nearest));
    const auto narrow = hn::DemoteTo(halves, hn::BitCast(signed_words, top));
    if (count >= vector_size) {
        hn::StoreU(narrow, halves, to);
    } else if (count > 0) {
        HWY_ALIGN std::uint16_t part[vector_size];
        hn::StoreU(narrow, halves, part);
        std::copy(part, part + count, to);
    }
}

HWY_INLINE void store_six_bf16(const Six& s, std::uint16_t* const* out, std::int64_t at, std::int64_t rows,
                               std::int64_t count) {
    const auto all = rows_of(s);
    for (std::int64_t i = 0; i < rows; ++i) store_bf16(all[static_cast<std::size_t>(i)], out[i] + at, count);
}

HWY_INLINE Six positive(const Six& s) {
    const Vector zero = hn::Zero(lanes);
    return {hn::Max(s.v0, zero), hn::Max(s.v1, zero), hn::Max(s.v2, zero),
            hn::Max(s.v3, zero), hn::Max(s.v4, zero), hn::Max(s.v5, zero)};
}

/// A part of a pixel's taps: runs of `length`. The first part starts from the bias, later ones from what `out` holds.
struct Part {
    const std::int32_t* runs;
    std::int64_t count, length;
    bool first, last;
};

/// Six pixels, one panel. Vectors: how many of the panel's two have outputs. `halves`: where bf16 results go, or null.
template <int Vectors>
HWY_INLINE void gather_tile(const Gather& g, const float* const* in, float* const* out, std::uint16_t* const* halves,
                            std::int64_t rows, std::int64_t panel, const Part& part) {
    const float *a0 = in[0], *a1 = in[1], *a2 = in[2], *a3 = in[3], *a4 = in[4], *a5 = in[5];
    const std::int64_t at = panel * width, left = g.outputs - at;
    const Vector zero = hn::Zero(lanes);
    Six s, t = six_of(zero);
    if (part.first) {
        s = six_of(g.bias ? hn::LoadU(lanes, g.bias + at) : zero);
        if constexpr (Vectors == 2) t = six_of(g.bias ? hn::LoadU(lanes, g.bias + at + vector_size) : zero);
    } else {
        s = load_six(out, at, left);
        if constexpr (Vectors == 2) t = load_six(out, at + vector_size, left - vector_size);
    }
    for (std::int64_t run = 0; run < part.count; ++run) {
        const std::int32_t* const tap_at = g.tap_at + part.runs[run];
        const float* b = g.panels + (panel * g.taps + part.runs[run]) * width;
        std::int64_t k = 0;
        if constexpr (Vectors == 1) {  // two taps at a time: six sums alone would wait for each other
            for (; k + 1 < part.length; k += 2, b += 2 * width) {
                const std::int64_t o = tap_at[k], next = tap_at[k + 1];
                const Vector b0 = hn::LoadU(lanes, b), b1 = hn::LoadU(lanes, b + width);
                add_products<1>(s, s, b0, b0, a0 + o, a1 + o, a2 + o, a3 + o, a4 + o, a5 + o);
                add_products<1>(t, t, b1, b1, a0 + next, a1 + next, a2 + next, a3 + next, a4 + next, a5 + next);
            }
        }
        for (; k < part.length; ++k, b += width) {
            const std::int64_t o = tap_at[k];
            const Vector b0 = hn::LoadU(lanes, b), b1 = Vectors == 2 ? hn::LoadU(lanes, b + vector_size) : b0;
            add_products<Vectors>(s, t, b0, b1, a0 + o, a1 + o, a2 + o, a3 + o, a4 + o, a5 + o);
        }
    }
    if constexpr (Vectors == 1) s = sum_of(s, t);
    const bool relu = g.relu && part.last;
    if (halves != nullptr && part.last) {
        store_six_bf16(relu ? positive(s) : s, halves, at, rows, left);
        if constexpr (Vectors == 2)
            store_six_bf16(relu ? positive(t) : t, halves, at + vector_size, rows, left - vector_size);
        return;
    }
    store_six(relu ? positive(s) : s, out, at, rows, left);
    if constexpr (Vectors == 2) store_six(relu ? positive(t) : t, out, at + vector_size, rows, left - vector_size);
}

/// The pixels of a segment take their turns block of taps by block: this part of a panel, at most 40 KiB on AVX2, stays
/// near meanwhile.
constexpr std::int64_t tap_block = 640;

template <class Body> void for_parts(const Gather& g, const PixelClass* pixel_class, const Body& body) {
    if (pixel_class == nullptr) {
        const std::int64_t blocks = std::max<std::int64_t>(1, (g.taps + tap_block - 1) / tap_block);
        for (std::int64_t block = 0; block < blocks; ++block) {
            const std::int64_t k = g.taps * block / blocks, end = g.taps * (block + 1) / blocks;
            const auto start = static_cast<std::int32_t>(k);
            body({&start, 1, end - k, block == 0, block + 1 == blocks});
        }
        return;
    }
    const std::int64_t together = std::max<std::int64_t>(1, tap_block / g.run_length);
    const std::int64_t blocks = std::max<std::int64_t>(1, (pixel_class->count + together - 1) / together);
    for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t run = pixel_class->count * block / blocks, end = pixel_class->count * (block + 1) / blocks;
        body({pixel_class->runs + run, end - run, g.run_length, block == 0, block + 1 == blocks});
    }
}

/// The finished rows of a segment, in 16 bits, to their places; neighbours together.
void round_rows(const Gather& g, std::int64_t image, std::int64_t pixel, std::int64_t count) {
    for (std::int64_t i = 0; i < count;) {
        const std::int64_t to = image * g.out_image + g.out_at[pixel];
        std::int64_t rows = 1;
        while (i + rows < count && pixel + rows < g.pixels &&
               g.out_at[pixel + rows] == g.out_at[pixel] + rows * g.outputs)
            ++rows;
        const void* const from = g.rows + i * g.outputs;
        g.round(&from, g.rounded + to, rows * g.outputs, nullptr);
        i += rows;
        pixel += rows;
        if (pixel == g.pixels) pixel = 0, ++image;
    }
}

void gather_segment(const Gather& g, std::int64_t begin, std::int64_t count, const PixelClass* pixel_class) {
    const float* in[segment];
    float* out[segment];
    std::uint16_t* halves[segment];
    const bool bf16 = g.rounded != nullptr && g.round == nullptr;
    std::int64_t image = begin / g.pixels, pixel = begin % g.pixels;
    const std::int64_t padded = (count + 5) / 6 * 6;  // pixels past the end repeat the last one and are not stored
    for (std::int64_t i = 0; i < padded; ++i) {
        if (i < count) {
            in[i] = g.in + image * g.in_image + g.in_at[pixel];
            out[i] = g.rounded ? g.rows + i * g.outputs : g.out + image * g.out_image + g.out_at[pixel];
            halves[i] = bf16 ? g.rounded + image * g.out_image + g.out_at[pixel] : nullptr;
            if (++pixel == g.pixels) pixel = 0, ++image;
        } else {
            in[i] = in[i - 1];
            out[i] = out[i - 1];
            halves[i] = halves[i - 1];
        }
    }
    for (std::int64_t panel = 0; panel * width < g.outputs; ++panel) {
        const bool both = g.outputs - panel * width > vector_size;
        for_parts(g, pixel_class, [&](const Part& part) {
            for (std::int64_t i = 0; i < count; i += 6) {
                const std::int64_t rows = std::min<std::int64_t>(6, count - i);
                std::uint16_t* const* const to = bf16 ? halves + i : nullptr;
                if (both) {
                    gather_tile<2>(g, in + i, out + i, to, rows, panel, part);
                } else {
                    gather_tile<1>(g, in + i, out + i, to, rows, panel, part);
                }
            }
        });
    }
    if (g.round != nullptr) round_rows(g, begin / g.pixels, begin % g.pixels, count);
}

void gather(const Gather& g, std::int64_t begin, std::int64_t end) {
    if (g.classes == nullptr) {
        for (std::int64_t p = begin; p < end; p += segment) gather_segment(g, p, std::min(segment, end - p), nullptr);
        return;
    }
    const PixelClass* c = g.classes;
    for (std::int64_t p = begin; p < end;) {
        const std::int64_t pixel = p % g.pixels;
        if (pixel == 0) c = g.classes;
        while (c->end <= pixel) ++c;
        const std::int64_t count = std::min({segment, end - p, c->end - pixel});
        gather_segment(g, p, count, c);
        p += count;
    }
}

HWY_INLINE void add_to(float* sums, Vector v) { hn::StoreU(hn::Add(hn::LoadU(lanes, sums), v), lanes, sums); }

/// Six taps by one panel. Vectors: how many of the panel's two have outputs.
template <int Vectors> HWY_INLINE void outer_tile(const Outer& g, std::int64_t first, std::int64_t rows) {
    const std::int32_t* const tap = g.tap_at + first;
    const auto last = rows - 1;  // rows past the end repeat the last one and are not stored
    const std::int64_t k0 = tap[0], k1 = tap[std::min<std::int64_t>(1, last)],
                       k2 = tap[std::min<std::int64_t>(2, last)];
    const std::int64_t k3 = tap[std::min<std::int64_t>(3, last)], k4 = tap[std::min<std::int64_t>(4, last)];
    const std::int64_t k5 = tap[std::min<std::int64_t>(5, last)];
    const Vector zero = hn::Zero(lanes);
    Six s = six_of(zero), t = six_of(zero);
    const float* b = g.grad;
    std::int64_t p = 0;
    if constexpr (Vectors == 1) {  // two pixels at a time, as above
        for (; p + 1 < g.pixels; p += 2, b += 2 * g.grad_step) {
            const float *const a = g.in + g.in_at[p], *const n = g.in + g.in_at[p + 1];
            const Vector b0 = hn::LoadU(lanes, b), b1 = hn::LoadU(lanes, b + g.grad_step);
            add_products<1>(s, s, b0, b0, a + k0, a + k1, a + k2, a + k3, a + k4, a + k5);
            add_products<1>(t, t, b1, b1, n + k0, n + k1, n + k2, n + k3, n + k4, n + k5);
        }
        s = sum_of(s, t);
    }
    for (; p < g.pixels; ++p, b += g.grad_step) {
        const float* const a = g.in + g.in_at[p];
        const Vector b0 = hn::LoadU(lanes, b), b1 = Vectors == 2 ? hn::LoadU(lanes, b + vector_size) : b0;
        add_products<Vectors>(s, t, b0, b1, a + k0, a + k1, a + k2, a + k3, a + k4, a + k5);
    }
    const auto lower = rows_of(s), upper = rows_of(t);
    float* const sums = g.sums + first * width;
    for (std::int64_t i = 0; i < rows; ++i) {
        add_to(sums + i * width, lower[static_cast<std::size_t>(i)]);
        if constexpr (Vectors == 2) add_to(sums + i * width + vector_size, upper[static_cast<std::size_t>(i)]);
    }
}

void outer(const Outer& g, std::int64_t first_tap, std::int64_t last_tap) {
    for (std::int64_t k = first_tap; k < last_tap; k += 6) {
        const std::int64_t rows = std::min<std::int64_t>(6, last_tap - k);
        if (g.outputs > vector_size) {
            outer_tile<2>(g, k, rows);
        } else {
            outer_tile<1>(g, k, rows);
        }
    }
}

}  // namespace

const Kernels& table() {
    static constexpr Kernels kernels{width, gather, outer};
    return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu::direct
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::cpu::direct {

HWY_EXPORT(table);
const Kernels& kernels() { return HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace calor::cpu::direct
#endif
