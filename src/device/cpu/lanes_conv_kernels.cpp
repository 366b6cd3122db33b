// Register tiles. A sum runs over its taps (or pixels) in order, whatever the tile, so that results don't depend on how
// the work is cut. Three adjacent pixels of a row meet three taps: four results share six loads, and a gradient is
// loaded once for three taps.
#include "device/cpu/lanes_conv_kernels.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/lanes_conv_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/conv_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu::lanes {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using conv_vectors::HWY_NAMESPACE::lanes;
using conv_vectors::HWY_NAMESPACE::load;
using conv_vectors::HWY_NAMESPACE::load_pair;
using conv_vectors::HWY_NAMESPACE::Pair;
using conv_vectors::HWY_NAMESPACE::store_all;
using conv_vectors::HWY_NAMESPACE::store_pairs;
using conv_vectors::HWY_NAMESPACE::Vector;
using conv_vectors::HWY_NAMESPACE::vector_size;

template <std::size_t count> using Indices = std::make_index_sequence<count>;
using Three = std::array<Vector, 3>;

/// Pixels and channels that are worked on together: what they read stays in the first-level cache.
constexpr std::int64_t block_elements = 1024, least_block = 8, most_block = 64;

std::int64_t block_of(std::int64_t channels, std::int64_t least) {
    return std::clamp(block_elements / channels / 4 * 4, least, most_block);
}

/// Calls body(first pixel, pixels, first channel, place) for blocks of pixels, within them for `step` channels.
template <std::int64_t step = vector_size, class Body>
HWY_INLINE void for_blocks(std::int64_t pixels, std::int64_t channels, std::int64_t least, const Body& body) {
    const std::int64_t block = block_of(channels, least);
    for (std::int64_t p = 0; p < pixels; p += block) {
        const std::int64_t count = std::min(block, pixels - p);
        for (std::int64_t c = 0; c < channels; c += step) body(p, count, std::min(c, channels - step), c);
    }
}

/// Rows come from afar: the next one is asked for while this one is worked on, a line of the cache a pixel.
template <class T> HWY_INLINE void ask_for(const T* next, std::int64_t pixel, std::int64_t pixels, std::int64_t place) {
    constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
    if (place % line != 0) return;
    for (std::int64_t p = 0; p < pixels; ++p, next += pixel) __builtin_prefetch(next, 0, 2);
}
template <class T> HWY_INLINE void ask_to_write(T* next, std::int64_t pixel, std::int64_t pixels, std::int64_t place) {
    constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
    if (place % line != 0) return;
    for (std::int64_t p = 0; p < pixels; ++p, next += pixel) __builtin_prefetch(next, 1, 2);
}

HWY_INLINE Three three_weights(const Convolve& c, std::int64_t tap, std::int64_t place) {
    const float* const w = c.weights + place;
    return {hn::LoadU(lanes, w + c.weight_at[tap]), hn::LoadU(lanes, w + c.weight_at[tap + 1]),
            hn::LoadU(lanes, w + c.weight_at[tap + 2])};
}

HWY_INLINE Vector bias_of(const Convolve& c, std::int64_t place) {
    return c.bias != nullptr ? hn::LoadU(lanes, c.bias + place) : hn::Zero(lanes);
}

/// The results of `sizeof...(j)` adjacent pixels.
template <class Js> struct Pixels;
template <std::size_t... j> struct Pixels<std::index_sequence<j...>> {
    static constexpr std::size_t count = sizeof...(j);
    std::array<Vector, count> sums;

    explicit Pixels(Vector start) { ((sums[j] = start), ...); }
    /// Pixel r of the input is tap r - i of result i.
    template <std::size_t r, std::size_t i> HWY_INLINE void add_to(const Three& w, Vector x) {
        if constexpr (r >= i && r - i < 3) sums[i] = hn::MulAdd(w[r - i], x, sums[i]);
    }
    template <std::size_t r> HWY_INLINE void add_pixel(const Three& w, Vector x) { (add_to<r, j>(w, x), ...); }
    template <class T, std::size_t... r>
    HWY_INLINE void add_pixels(const Three& w, const T* in, std::int64_t pixel, std::index_sequence<r...>) {
        (add_pixel<r>(w, load(in + static_cast<std::int64_t>(r) * pixel)), ...);
    }
    template <class T> HWY_INLINE void add_strip(const Three& w, const T* in, std::int64_t pixel) {
        add_pixels(w, in, pixel, Indices<count + 2>());
    }
    template <class T> HWY_INLINE void add_tap(Vector w, const T* in, std::int64_t pixel) {
        ((sums[j] = hn::MulAdd(w, load(in + static_cast<std::int64_t>(j) * pixel), sums[j])), ...);
    }
    template <class T> HWY_INLINE void put(T* out, std::int64_t pixel) const {
        store_all(sums, out, pixel, std::index_sequence<j...>());
    }
};

/// Calls tile(Pixels, first pixel) for all pixels: `many` at a time, the last ones once more, or one at a time.
template <std::size_t many, class Tile> HWY_INLINE void for_tiles(std::int64_t pixels, const Tile& tile) {
    constexpr auto step = static_cast<std::int64_t>(many);
    if (pixels < step) {
        for (std::int64_t p = 0; p < pixels; ++p) tile(Indices<1>(), p);
        return;
    }
    for (std::int64_t p = 0; p < pixels; p += step) tile(Indices<many>(), std::min(p, pixels - step));
}

/// Up to three strips, whose weights stay in registers.
template <std::size_t... s>
HWY_INLINE void convolve_strips(const Convolve& c, const float* in, float* out, std::int64_t pixels, std::int64_t place,
                                std::index_sequence<s...>) {
    const std::array<Three, sizeof...(s)> w{three_weights(c, 3 * static_cast<std::int64_t>(s), place)...};
    const Vector bias = bias_of(c, place);
    for_tiles<4>(pixels, [&](auto js, std::int64_t p) HWY_ATTR {
        Pixels<decltype(js)> t(bias);
        const float* const x = in + p * c.in_pixel;
        (t.add_strip(w[s], x + c.tap_at[3 * s], c.in_pixel), ...);
        t.put(out + p * c.out_pixel, c.out_pixel);
    });
}

void convolve_many_strips(const Convolve& c, const float* in, float* out, std::int64_t pixels, std::int64_t place) {
    const Vector bias = bias_of(c, place);
    for_tiles<4>(pixels, [&](auto js, std::int64_t p) HWY_ATTR {
        Pixels<decltype(js)> t(bias);
        const float* const x = in + p * c.in_pixel;
        for (std::int64_t k = 0; k < c.taps; k += 3)
            t.add_strip(three_weights(c, k, place), x + c.tap_at[k], c.in_pixel);
        t.put(out + p * c.out_pixel, c.out_pixel);
    });
}

void convolve_taps(const Convolve& c, const float* in, float* out, std::int64_t pixels, std::int64_t place) {
    const Vector bias = bias_of(c, place);
    for_tiles<8>(pixels, [&](auto js, std::int64_t p) HWY_ATTR {
        Pixels<decltype(js)> t(bias);
        const float* const x = in + p * c.in_pixel;
        for (std::int64_t k = 0; k < c.taps; ++k)
            t.add_tap(hn::LoadU(lanes, c.weights + c.weight_at[k] + place), x + c.tap_at[k], c.in_pixel);
        t.put(out + p * c.out_pixel, c.out_pixel);
    });
}

void convolve_floats(const Convolve& c) {
    for_blocks(c.pixels, c.channels, least_block,
               [&](std::int64_t p, std::int64_t count, std::int64_t channel, std::int64_t place) HWY_ATTR {
                   const float* const in = static_cast<const float*>(c.in) + p * c.in_pixel + channel;
                   float* const out = static_cast<float*>(c.out) + p * c.out_pixel + channel;
                   if (c.taps > 0) ask_for(in + c.tap_at[c.taps - 1] + c.next_in, c.in_pixel, count, place);
                   ask_to_write(out + c.next_out, c.out_pixel, count, place);
                   if (!c.strips) return convolve_taps(c, in, out, count, place);
                   switch (c.taps) {
                       case 3: return convolve_strips(c, in, out, count, place, Indices<1>());
                       case 6: return convolve_strips(c, in, out, count, place, Indices<2>());
                       case 9: return convolve_strips(c, in, out, count, place, Indices<3>());
                       default: return convolve_many_strips(c, in, out, count, place);
                   }
               });
}

/// bf16: even and odd channels apart, whose weights lie so.
struct PairWeights {
    Three even, odd;
};
HWY_INLINE PairWeights pair_weights(const Convolve& c, std::int64_t tap, std::int64_t place) {
    return {three_weights(c, tap, place), three_weights(c, tap, place + vector_size)};
}

template <class Js> struct PixelPairs {
    Pixels<Js> even, odd;

    template <std::size_t... r>
    HWY_INLINE void add_strip(const PairWeights& w, const std::uint16_t* in, std::int64_t pixel,
                              std::index_sequence<r...>) {
        (add_pixel<r>(w, load_pair(in + static_cast<std::int64_t>(r) * pixel)), ...);
    }
    template <std::size_t r> HWY_INLINE void add_pixel(const PairWeights& w, const Pair& x) {
        even.template add_pixel<r>(w.even, x.even);
        odd.template add_pixel<r>(w.odd, x.odd);
    }
    template <std::size_t... j>
    HWY_INLINE void add_tap(Vector w, Vector v, const std::uint16_t* in, std::int64_t pixel,
                            std::index_sequence<j...>) {
        (add_products<j>(w, v, load_pair(in + static_cast<std::int64_t>(j) * pixel)), ...);
    }
    template <std::size_t i> HWY_INLINE void add_products(Vector w, Vector v, const Pair& x) {
        even.sums[i] = hn::MulAdd(w, x.even, even.sums[i]);
        odd.sums[i] = hn::MulAdd(v, x.odd, odd.sums[i]);
    }
};

void convolve_half(const Convolve& c) {
    for_blocks<2 * vector_size>(
        c.pixels, c.channels, 2 * least_block,
        [&](std::int64_t first, std::int64_t count, std::int64_t channel, std::int64_t place) HWY_ATTR {
            const auto* const in = static_cast<const std::uint16_t*>(c.in) + first * c.in_pixel + channel;
            auto* const out = static_cast<std::uint16_t*>(c.out) + first * c.out_pixel + channel;
            if (c.taps > 0) ask_for(in + c.tap_at[c.taps - 1] + c.next_in, c.in_pixel, count, place);
            ask_to_write(out + c.next_out, c.out_pixel, count, place);
            const Vector even = bias_of(c, place), odd = bias_of(c, place + vector_size);
            for_tiles<4>(count, [&](auto js, std::int64_t p) HWY_ATTR {
                PixelPairs<decltype(js)> t{Pixels<decltype(js)>(even), Pixels<decltype(js)>(odd)};
                const std::uint16_t* const x = in + p * c.in_pixel;
                if (c.strips) {
                    for (std::int64_t k = 0; k < c.taps; k += 3)
                        t.add_strip(pair_weights(c, k, place), x + c.tap_at[k], c.in_pixel,
                                    Indices<decltype(js)::size() + 2>());
                } else {
                    for (std::int64_t k = 0; k < c.taps; ++k) {
                        const float* const w = c.weights + c.weight_at[k] + place;
                        t.add_tap(hn::LoadU(lanes, w), hn::LoadU(lanes, w + vector_size), x + c.tap_at[k], c.in_pixel,
                                  js);
                    }
                }
                store_pairs(t.even.sums, t.odd.sums, out + p * c.out_pixel, c.out_pixel, js);
            });
        });
}

void convolve(const Convolve& c) {
    if (c.half) {
        convolve_half(c);
    } else {
        convolve_floats(c);
    }
}

/// Four pixels of two rows of results: eight sums hide each other's latency, three weights serve both rows.
struct TwoByFour {
    using Four = Indices<4>;
    Pixels<Four> upper, lower;

    explicit TwoByFour(Vector bias) : upper(bias), lower(bias) {}
    template <class Read, std::size_t... r>
    HWY_INLINE void add_row(const Three& w, const Read& read, std::int64_t row, std::index_sequence<r...>) {
        (upper.template add_pixel<r>(w, read(row, static_cast<std::int64_t>(r))), ...);
        (lower.template add_pixel<r>(w, read(row + 1, static_cast<std::int64_t>(r))), ...);
    }
};

/// read(row, pixel) of four rows of six pixels; weights and bias at `place`.
template <class Read> HWY_INLINE TwoByFour two_by_four(const TwoRows& c, std::int64_t place, const Read& read) {
    TwoByFour t(c.bias != nullptr ? hn::LoadU(lanes, c.bias + place) : hn::Zero(lanes));
    const float* const w = c.weights + place;
    const std::int32_t* const at = c.weight_at;
    const auto weights = [&](std::int64_t row) HWY_ATTR {
        return Three{load(w + at[3 * row]), load(w + at[3 * row + 1]), load(w + at[3 * row + 2])};
    };
    t.add_row(weights(0), read, 0, Indices<6>());
    t.add_row(weights(1), read, 1, Indices<6>());
    t.add_row(weights(2), read, 2, Indices<6>());
    return t;
}

/// Calls body(first pixel, first channel, place) for tiles of four pixels, `step` channels each.
template <class T, std::int64_t step, class Body> HWY_INLINE void for_two_rows(const TwoRows& c, const Body& body) {
    for (std::int64_t p = 0; p < c.pixels; p += 4) {
        const std::int64_t first = std::min(p, c.pixels - 4);
        const T* const in = static_cast<const T*>(c.in) + first * c.in_pixel;
        T* const out = static_cast<T*>(c.out) + first * c.out_pixel;
        for (std::int64_t place = 0; place < c.channels; place += step) {
            const std::int64_t channel = std::min(place, c.channels - step);
            body(in + channel, out + channel, place);
        }
    }
}

void two_rows_floats(const TwoRows& c) {
    for_two_rows<float, vector_size>(c, [&](const float* x, float* y, std::int64_t place) HWY_ATTR {
        const TwoByFour t = two_by_four(c, place, [&](std::int64_t row, std::int64_t pixel) HWY_ATTR {
            return load(x + row * c.in_row + pixel * c.in_pixel);
        });
        t.upper.put(y, c.out_pixel);
        t.lower.put(y + c.out_row, c.out_pixel);
    });
}

/// Even channels, then odd ones, which are read again: there are registers for one kind.
void two_rows_half(const TwoRows& c) {
    for_two_rows<std::uint16_t, 2 * vector_size>(c, [&](const std::uint16_t* x, std::uint16_t* y,
                                                        std::int64_t place) HWY_ATTR {
        const auto pair = [&](std::int64_t row, std::int64_t pixel)
                              HWY_ATTR { return load_pair(x + row * c.in_row + pixel * c.in_pixel); };
        const TwoByFour even =
            two_by_four(c, place, [&](std::int64_t row, std::int64_t pixel) HWY_ATTR { return pair(row, pixel).even; });
        std::atomic_signal_fence(std::memory_order_seq_cst);  // else compilers keep all of it in memory
        const TwoByFour odd = two_by_four(c, place + vector_size, [&](std::int64_t row, std::int64_t pixel) HWY_ATTR {
            return pair(row, pixel).odd;
        });
        constexpr TwoByFour::Four four{};
        store_pairs(even.upper.sums, odd.upper.sums, y, c.out_pixel, four);
        store_pairs(even.lower.sums, odd.lower.sums, y + c.out_row, c.out_pixel, four);
    });
}

void two_rows(const TwoRows& c) {
    if (c.half) {
        two_rows_half(c);
    } else {
        two_rows_floats(c);
    }
}

/// `sizeof...(s)` strips from `tap` on, of two pixels or more: input pixel q is tap k of pixel q - k.
template <class T, std::size_t... s>
HWY_INLINE void correlate_strips(const Correlate& c, std::int64_t tap, const T* grad, const T* in, std::int64_t pixels,
                                 float* sums, std::index_sequence<s...>) {
    constexpr std::size_t count = sizeof...(s);
    using All = std::array<Vector, count>;
    const std::array<const T*, count> rows{(in + c.tap_at[tap + 3 * static_cast<std::int64_t>(s)])...};
    const std::int32_t* const at = c.sum_at + tap;
    All a{hn::LoadU(lanes, sums + at[3 * s])...}, b{hn::LoadU(lanes, sums + at[3 * s + 1])...},
        d{hn::LoadU(lanes, sums + at[3 * s + 2])...};
    const auto add = [](All& to, const All& x, Vector g) HWY_ATTR { ((to[s] = hn::MulAdd(x[s], g, to[s])), ...); };
    const auto pixel = [&](std::int64_t q) HWY_ATTR { return All{load(rows[s] + q * c.in_pixel)...}; };
    Vector before = load(grad), here = load(grad + c.grad_pixel);
    const All first = pixel(0), second = pixel(1);
    add(a, first, before);
    add(a, second, here);
    add(b, second, before);
    for (std::int64_t q = 2; q < pixels; ++q) {
        const All x = pixel(q);
        const Vector next = load(grad + q * c.grad_pixel);
        add(a, x, next);
        add(b, x, here);
        add(d, x, before);
        before = here;
        here = next;
    }
    const All last = pixel(pixels), past = pixel(pixels + 1);
    add(b, last, here);
    add(d, last, before);
    add(d, past, here);
    (hn::StoreU(a[s], lanes, sums + at[3 * s]), ...);
    (hn::StoreU(b[s], lanes, sums + at[3 * s + 1]), ...);
    (hn::StoreU(d[s], lanes, sums + at[3 * s + 2]), ...);
}

/// `sizeof...(k)` taps from `tap` on.
template <class T, std::size_t... k>
HWY_INLINE void correlate_taps(const Correlate& c, std::int64_t tap, const T* grad, const T* in, std::int64_t pixels,
                               float* sums, std::index_sequence<k...>) {
    constexpr std::size_t count = sizeof...(k);
    const std::int32_t* const at = c.sum_at + tap;
    std::array<Vector, count> all{hn::LoadU(lanes, sums + at[k])...};
    const std::array<const T*, count> ins{(in + c.tap_at[tap + static_cast<std::int64_t>(k)])...};
    for (std::int64_t p = 0; p < pixels; ++p) {
        const Vector g = load(grad + p * c.grad_pixel);
        ((all[k] = hn::MulAdd(load(ins[k] + p * c.in_pixel), g, all[k])), ...);
    }
    (hn::StoreU(all[k], lanes, sums + at[k]), ...);
}

/// A strip for two vectors of channels over all pixels. Where pixels lie so that they share a few sets of the
/// first-level cache, blocks of them push each other out; here a line of the cache is read once a strip.
HWY_INLINE void correlate_line(const Correlate& c, std::int64_t tap, const float* grad, const float* in, float* sums) {
    const std::int32_t* const at = c.sum_at + tap;
    const float* x = in + c.tap_at[tap];
    Vector a0 = load(sums + at[0]), b0 = load(sums + at[1]), d0 = load(sums + at[2]);
    Vector a1 = load(sums + at[0] + vector_size), b1 = load(sums + at[1] + vector_size),
           d1 = load(sums + at[2] + vector_size);
    Vector x0 = load(x), x1 = load(x + vector_size), y0 = load(x + c.in_pixel), y1 = load(x + c.in_pixel + vector_size);
    x += 2 * c.in_pixel;
    for (std::int64_t p = 0; p < c.pixels; ++p, x += c.in_pixel, grad += c.grad_pixel) {
        const Vector g0 = load(grad), g1 = load(grad + vector_size), z0 = load(x), z1 = load(x + vector_size);
        a0 = hn::MulAdd(x0, g0, a0);
        a1 = hn::MulAdd(x1, g1, a1);
        b0 = hn::MulAdd(y0, g0, b0);
        b1 = hn::MulAdd(y1, g1, b1);
        d0 = hn::MulAdd(z0, g0, d0);
        d1 = hn::MulAdd(z1, g1, d1);
        x0 = y0;
        x1 = y1;
        y0 = z0;
        y1 = z1;
    }
    hn::StoreU(a0, lanes, sums + at[0]);
    hn::StoreU(b0, lanes, sums + at[1]);
    hn::StoreU(d0, lanes, sums + at[2]);
    hn::StoreU(a1, lanes, sums + at[0] + vector_size);
    hn::StoreU(b1, lanes, sums + at[1] + vector_size);
    hn::StoreU(d1, lanes, sums + at[2] + vector_size);
}

void correlate_lines(const Correlate& c) {
    for (std::int64_t channel = 0; channel < c.channels; channel += 2 * vector_size)
        for (std::int64_t k = 0; k < c.taps; k += 3)
            correlate_line(c, k, static_cast<const float*>(c.grad) + channel, static_cast<const float*>(c.in) + channel,
                           c.sums + channel);
}

template <class T> void correlate_as(const Correlate& c) {
    for_blocks(c.pixels, c.channels, 2 * least_block,
               [&](std::int64_t p, std::int64_t count, std::int64_t channel, std::int64_t place) HWY_ATTR {
                   const T* const grad = static_cast<const T*>(c.grad) + p * c.grad_pixel + channel;
                   const T* const in = static_cast<const T*>(c.in) + p * c.in_pixel + channel;
                   float* const sums = c.sums + place;
                   std::int64_t k = 0;
                   ask_for(in + c.tap_at[c.taps - 1] + c.next_in, c.in_pixel, count, place);
                   ask_for(grad + c.next_grad, c.grad_pixel, count, place);
                   if (c.strips && count > 1) {
                       for (; k + 9 <= c.taps; k += 9) correlate_strips(c, k, grad, in, count, sums, Indices<3>());
                       if (k + 6 == c.taps) return correlate_strips(c, k, grad, in, count, sums, Indices<2>());
                       if (k + 3 == c.taps) return correlate_strips(c, k, grad, in, count, sums, Indices<1>());
                   }
                   for (; k + 6 <= c.taps; k += 6) correlate_taps(c, k, grad, in, count, sums, Indices<6>());
                   for (; k + 3 <= c.taps; k += 3) correlate_taps(c, k, grad, in, count, sums, Indices<3>());
                   for (; k < c.taps; ++k) correlate_taps(c, k, grad, in, count, sums, Indices<1>());
               });
}

void correlate(const Correlate& c) {
    const bool few_sets = c.in_pixel % 64 == 0 && c.channels >= 64 && c.channels % (2 * vector_size) == 0;
    if (c.half) {
        correlate_as<std::uint16_t>(c);
    } else if (c.strips && few_sets) {
        correlate_lines(c);
    } else {
        correlate_as<float>(c);
    }
}

template <class T> void total_as(const Correlate& c) {
    for_blocks(c.pixels, c.channels, least_block,
               [&](std::int64_t p, std::int64_t count, std::int64_t channel, std::int64_t place) HWY_ATTR {
                   const T* grad = static_cast<const T*>(c.grad) + p * c.grad_pixel + channel;
                   Vector sum = hn::LoadU(lanes, c.sums + place);
                   for (std::int64_t i = 0; i < count; ++i, grad += c.grad_pixel) sum = hn::Add(sum, load(grad));
                   hn::StoreU(sum, lanes, c.sums + place);
               });
}

void total(const Correlate& c) {
    if (c.half) {
        total_as<std::uint16_t>(c);
    } else {
        total_as<float>(c);
    }
}

}  // namespace

const Kernels& table() {
    static constexpr Kernels kernels{vector_size, convolve, two_rows, correlate, total};
    return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu::lanes
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::cpu::lanes {

HWY_EXPORT(table);
const Kernels& kernels() { return HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace calor::cpu::lanes
#endif
