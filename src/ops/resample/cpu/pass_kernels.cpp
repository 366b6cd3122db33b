// rows: whole vectors of a row, all taps in registers. columns: 16 rows are turned so that an input position is one
// line of 16 numbers; then every output is a sum of lines, as in rows, whatever its taps are, and the result is turned
// back. Tables with many neighbouring taps an output (means of whole axes) take dot products instead. Sums run over the
// taps in order, one fused multiply-add each, so bits depend on neither the blocks nor the threads.
#include "ops/resample/cpu/pass_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/resample/cpu/pass_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/resample/cpu/block_rows-inl.h"
#include "ops/resample/cpu/lanes-inl.h"

#ifndef CALOR_RESAMPLE_CHUNK
#define CALOR_RESAMPLE_CHUNK
namespace calor::ops::resample {
inline constexpr std::int64_t chunk_outputs = 64, chunk_columns = 256;
}  // namespace calor::ops::resample
#endif

HWY_BEFORE_NAMESPACE();
namespace calor::ops::resample {
namespace HWY_NAMESPACE {
namespace {

template <class W> const W* weights_of(const Table& t) {
    if constexpr (std::is_same_v<W, float>) return t.weight_f32.data();
    if constexpr (std::is_same_v<W, double>) return t.weight.data();
    if constexpr (std::is_same_v<W, std::int32_t>) return t.fixed.data();
}

/// What a sum starts from: half a level in fixed point.
template <class W> HWY_INLINE Vec<W> start_sum() {
    if constexpr (std::is_same_v<W, std::int32_t>) return hn::Set(Tag<W>(), 1 << 21);
    return hn::Zero(Tag<W>());
}
template <class W> HWY_INLINE Vec<W> add_tap(Vec<W> w, Vec<W> x, Vec<W> sum) {
    if constexpr (std::is_same_v<W, std::int32_t>) return hn::Add(hn::Mul(w, x), sum);
    if constexpr (!std::is_same_v<W, std::int32_t>) return hn::MulAdd(w, x, sum);
}

#if HWY_TARGET == HWY_AVX2
/// Blocks of 32 elements of an output row from rows of bf16: their even and odd elements are summed apart. Returns how
/// many elements are done.
template <class Out, int N>
HWY_INLINE std::int64_t row_of_pairs(const bfloat16* HWY_RESTRICT in, std::int64_t step, const std::int32_t* index,
                                     const float* weight, std::int64_t taps, Divide<float> divide,
                                     Out* HWY_RESTRICT out, std::int64_t run) {
    using cpu::HWY_NAMESPACE::load_pair;
    using cpu::HWY_NAMESPACE::Two;
    const Tag<float> d;
    const std::int64_t n = N > 0 ? N : taps;
    const auto put = [&](Two<bfloat16> v, Out* to) HWY_ATTR {
        v = {divide(v.a), divide(v.b)};
        if constexpr (std::is_same_v<Out, bfloat16>) {
            cpu::HWY_NAMESPACE::store_pair(v, to);
        } else {
            const auto low = hn::InterleaveLower(d, v.a, v.b), high = hn::InterleaveUpper(d, v.a, v.b);
            hn::StoreU(hn::ConcatLowerLower(d, high, low), d, to);
            hn::StoreU(hn::ConcatUpperUpper(d, high, low), d, to + 8);
        }
    };
    std::int64_t i = 0;
    while (run >= 32 && run - i > 8) {
        i = std::min(i, run - 32);  // the last block computes some again
        auto a = hn::Zero(d), b = a, c = a, e = a;
        for (std::int64_t k = 0; k < n; ++k) {
            const bfloat16* x = in + index[k] * step + i;
            const auto w = hn::Set(d, weight[k]);
            const Two<bfloat16> u = load_pair(x), v = load_pair(x + 16);
            a = hn::MulAdd(w, u.a, a);
            b = hn::MulAdd(w, u.b, b);
            c = hn::MulAdd(w, v.a, c);
            e = hn::MulAdd(w, v.b, e);
        }
        put({a, b}, out + i);
        put({c, e}, out + i + 16);
        i += 32;
    }
    return i;
}
#endif

/// Vectors of one output row: N taps when N > 0, else `taps` of them.
template <class W, class In, class Out, int N>
HWY_INLINE void one_row(const In* HWY_RESTRICT in, std::int64_t step, const std::int32_t* index, const W* weight,
                        std::int64_t taps, Divide<W> divide, Out* HWY_RESTRICT out, std::int64_t run) {
    constexpr std::int64_t lanes = lanes_of<W>();
    const Tag<W> d;
    const std::int64_t n = N > 0 ? N : taps;
    std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX2
    if constexpr (std::is_same_v<W, float> && std::is_same_v<In, bfloat16> &&
                  (std::is_same_v<Out, float> || std::is_same_v<Out, bfloat16>)) {
        i = row_of_pairs<Out, N>(in, step, index, weight, taps, divide, out, run);
    }
#endif
    while (run >= 4 * lanes && run - i > lanes) {
        i = std::min(i, run - 4 * lanes);  // the last block computes some again
        auto a = start_sum<W>(), b = a, c = a, e = a;
        for (std::int64_t k = 0; k < n; ++k) {
            const In* x = in + index[k] * step + i;
            const auto w = hn::Set(d, weight[k]);
            a = add_tap<W>(w, load<W>(x), a);
            b = add_tap<W>(w, load<W>(x + lanes), b);
            c = add_tap<W>(w, load<W>(x + 2 * lanes), c);
            e = add_tap<W>(w, load<W>(x + 3 * lanes), e);
        }
        store_along<W>(divide(a), divide(b), divide(c), divide(e), out + i);
        i += 4 * lanes;
    }
    while (i < run) {
        if (i + lanes > run && run >= lanes) i = run - lanes;  // computes some again
        const std::int64_t some = std::min(lanes, run - i);
        auto a = start_sum<W>();
        for (std::int64_t k = 0; k < n; ++k) {
            const In* x = in + index[k] * step + i;
            a = add_tap<W>(hn::Set(d, weight[k]), some == lanes ? load<W>(x) : load_some<W>(x, some), a);
        }
        some == lanes ? store<W>(divide(a), out + i) : store_some<W>(divide(a), out + i, some);
        i += lanes;
    }
}

template <class W, class In, class Out>
void rows(const Pass& p, const void* in, std::int64_t in_step, void* out, std::int64_t out_step, std::int64_t run) {
    const Table& t = *p.table;
    const auto* x = static_cast<const In*>(in) - p.low * in_step;
    for (std::int64_t j = p.begin; j < p.end; ++j) {
        const auto at = static_cast<std::size_t>(j);
        const std::int32_t from = t.start[at];
        const std::int64_t n = t.start[at + 1] - from;
        const auto* index = t.index.data() + from;
        const W* weight = weights_of<W>(t) + from;
        const auto divide = divide_of<W>(p, j);
        auto* y = static_cast<Out*>(out) + (j - p.begin) * out_step;
        if (n == 1 && j > p.begin && !p.divides_each && from - t.start[at - 1] == 1 && index[0] == index[-1] &&
            weight[0] == weight[-1]) {  // the row before once more
            std::memcpy(static_cast<void*>(y), static_cast<const void*>(y - out_step),
                        static_cast<std::size_t>(run) * sizeof(Out));
            continue;
        }
        switch (n) {
            case 0: std::memset(static_cast<void*>(y), 0, static_cast<std::size_t>(run) * sizeof(Out)); break;
            case 1: one_row<W, In, Out, 1>(x, in_step, index, weight, n, divide, y, run); break;
            case 2: one_row<W, In, Out, 2>(x, in_step, index, weight, n, divide, y, run); break;
            case 3: one_row<W, In, Out, 3>(x, in_step, index, weight, n, divide, y, run); break;
            case 4: one_row<W, In, Out, 4>(x, in_step, index, weight, n, divide, y, run); break;
            default: one_row<W, In, Out, 0>(x, in_step, index, weight, n, divide, y, run);
        }
    }
}

template <class W> constexpr bool turns() { return lanes_of<W>() == 8; }

/// n elements of 16 rows to n lines of 16 numbers.
template <class W, class In>
HWY_INLINE void turn_in(const In* const* rows, std::int64_t at, std::int64_t n, W* HWY_RESTRICT lines) {
    std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (turns<W>()) {
        const Tag<W> d;
        for (; i + 8 <= n; i += 8) {
            for (std::int64_t r = 0; r < rows_at_once; r += 8) {
                const In* const* p = rows + r;
                const std::int64_t x = at + i;
                Eight<Vec<W>> m{load<W>(p[0] + x), load<W>(p[1] + x), load<W>(p[2] + x), load<W>(p[3] + x),
                                load<W>(p[4] + x), load<W>(p[5] + x), load<W>(p[6] + x), load<W>(p[7] + x)};
                turn<W>(m);
                W* to = lines + i * rows_at_once + r;
                hn::StoreU(m.v0, d, to);
                hn::StoreU(m.v1, d, to + rows_at_once);
                hn::StoreU(m.v2, d, to + 2 * rows_at_once);
                hn::StoreU(m.v3, d, to + 3 * rows_at_once);
                hn::StoreU(m.v4, d, to + 4 * rows_at_once);
                hn::StoreU(m.v5, d, to + 5 * rows_at_once);
                hn::StoreU(m.v6, d, to + 6 * rows_at_once);
                hn::StoreU(m.v7, d, to + 7 * rows_at_once);
            }
        }
    }
#endif
    for (std::int64_t r = 0; r < rows_at_once; ++r) {
        for (std::int64_t k = i; k < n; ++k) lines[k * rows_at_once + r] = static_cast<W>(rows[r][at + k]);
    }
}

/// n lines of 16 numbers to n elements of `count` rows.
template <class W, class Out>
HWY_INLINE void turn_out(const W* HWY_RESTRICT lines, Out* const* rows, std::int64_t at, std::int64_t n,
                         std::int64_t count) {
    std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (turns<W>()) {
        const Tag<W> d;
        for (; i + 8 <= n; i += 8) {
            for (std::int64_t r = 0; r < count; r += 8) {
                const W* from = lines + i * rows_at_once + r;
                Eight<Vec<W>> m{hn::LoadU(d, from),
                                hn::LoadU(d, from + rows_at_once),
                                hn::LoadU(d, from + 2 * rows_at_once),
                                hn::LoadU(d, from + 3 * rows_at_once),
                                hn::LoadU(d, from + 4 * rows_at_once),
                                hn::LoadU(d, from + 5 * rows_at_once),
                                hn::LoadU(d, from + 6 * rows_at_once),
                                hn::LoadU(d, from + 7 * rows_at_once)};
                turn<W>(m);
                Out* const* p = rows + r;
                const std::int64_t y = at + i, rest = count - r;
                store<W>(m.v0, p[0] + y);
                if (rest > 1) store<W>(m.v1, p[1] + y);
                if (rest > 2) store<W>(m.v2, p[2] + y);
                if (rest > 3) store<W>(m.v3, p[3] + y);
                if (rest > 4) store<W>(m.v4, p[4] + y);
                if (rest > 5) store<W>(m.v5, p[5] + y);
                if (rest > 6) store<W>(m.v6, p[6] + y);
                if (rest > 7) store<W>(m.v7, p[7] + y);
            }
        }
    }
#endif
    constexpr std::int64_t lanes = lanes_of<W>();
    for (std::int64_t r = 0; r < count; ++r) {
        for (std::int64_t k = i; k < n; k += lanes) {
            const std::int64_t some = std::min(lanes, n - k);
            W buffer[32 / sizeof(W)] = {};
            for (std::int64_t l = 0; l < some; ++l) buffer[l] = lines[(k + l) * rows_at_once + r];
            store_some<W>(hn::LoadU(Tag<W>(), buffer), rows[r] + at + k, some);
        }
    }
}

/// Outputs [begin, end) of lines: sums of lines, each divided.
template <class W>
HWY_INLINE void sum_lines(const Pass& p, std::int64_t begin, std::int64_t end, std::int64_t low, std::int64_t run,
                          const W* HWY_RESTRICT in, W* HWY_RESTRICT out) {
    constexpr std::int64_t lanes = lanes_of<W>();
    constexpr std::int64_t second = lanes < rows_at_once ? lanes : 0;
    const Tag<W> d;
    const Table& t = *p.table;
    for (std::int64_t j = begin; j < end; ++j) {
        const auto at = static_cast<std::size_t>(j);
        const std::int32_t from = t.start[at], to = t.start[at + 1];
        const W* weight = weights_of<W>(t);
        const auto divide = divide_of<W>(p, j);
        for (std::int64_t c = 0; c < run; ++c, out += rows_at_once) {
            for (std::int64_t v = 0; v < rows_at_once; v += 2 * lanes) {
                auto a = start_sum<W>(), b = a;
                const W* x = in + (c - low * run) * rows_at_once + v;
                for (std::int32_t k = from; k < to; ++k) {
                    const W* line = x + t.index[static_cast<std::size_t>(k)] * (run * rows_at_once);
                    const auto w = hn::Set(d, weight[k]);
                    a = add_tap<W>(w, hn::LoadU(d, line), a);
                    b = add_tap<W>(w, hn::LoadU(d, line + second), b);
                }
                hn::StoreU(divide(a), d, out + v);
                hn::StoreU(divide(b), d, out + v + second);
            }
        }
    }
}

/// Dot products along one row, for outputs of many neighbouring inputs.
template <class W, class In, class Out> HWY_INLINE void dots(const Pass& p, const In* x, Out* y) {
    constexpr std::int64_t lanes = lanes_of<W>();
    const Tag<W> d;
    const Table& t = *p.table;
    for (std::int64_t j = p.begin; j < p.end; ++j) {
        const auto at = static_cast<std::size_t>(j);
        const std::int64_t from = t.start[at], n = t.start[at + 1] - from;
        auto a = hn::Zero(d), b = a;
        if (n > 0) {
            const In* in = x + t.index[static_cast<std::size_t>(from)] - p.low;
            const W* w = weights_of<W>(t) + from;
            std::int64_t k = 0;
            for (; k + 2 * lanes <= n; k += 2 * lanes) {
                a = add_tap<W>(hn::LoadU(d, w + k), load<W>(in + k), a);
                b = add_tap<W>(hn::LoadU(d, w + k + lanes), load<W>(in + k + lanes), b);
            }
            for (; k < n; k += lanes) {
                const std::int64_t some = std::min(lanes, n - k);
                a = add_tap<W>(load_some<W>(w + k, some), load_some<W>(in + k, some), a);
            }
        }
        auto sum = hn::SumOfLanes(d, hn::Add(a, b));
        if constexpr (std::is_same_v<W, std::int32_t>) sum = hn::Add(sum, hn::Set(d, 1 << 21));
        store_some<W>(divide_of<W>(p, j)(sum), y + (j - p.begin), 1);
    }
}

template <class W, class In, class Out>
void columns(const Pass& p, const void* const* in, void* const* out, std::int64_t count, std::int64_t run,
             void* scratch) {
    const Table& t = *p.table;
    if (t.long_sums && run == 1) {
        for (std::int64_t r = 0; r < count; ++r) dots<W>(p, static_cast<const In*>(in[r]), static_cast<Out*>(out[r]));
        return;
    }
#if HWY_TARGET != HWY_SCALAR
    if constexpr (std::is_same_v<W, float> && turns<W>()) {
        const bool whole = p.begin == 0 && p.end == t.outputs && p.low == 0 && p.high == t.inputs;
        if (run == 1 && whole && t.blocks.window > 0 && !(p.divides_each && p.divisor != 1)) {
            return block_rows<In, Out>(p, in, out, count);
        }
    }
#endif
    const In* from[rows_at_once];
    Out* to[rows_at_once];
    for (std::int64_t r = 0; r < rows_at_once; ++r) {  // missing rows stand in for by the first one
        from[r] = static_cast<const In*>(in[r < count ? r : 0]);
        to[r] = static_cast<Out*>(out[r < count ? r : 0]);
    }
    const std::int64_t columns = std::max(chunk_columns, t.most_span * run);
    W* lines = static_cast<W*>(scratch);
    W* sums = lines + columns * rows_at_once;
    const std::int64_t most = std::max<std::int64_t>(1, chunk_outputs / run);
    for (std::int64_t j = p.begin; j < p.end;) {
        std::int64_t low = 0, high = 0, end = j;
        for (; end < p.end && end - j < most; ++end) {  // as many outputs as have their inputs within the lines
            const auto [l, h] = t.reach(end, end + 1);
            if (l == h) continue;
            const std::int64_t new_low = low == high ? l : std::min(low, l), new_high = std::max(high, h);
            if ((new_high - new_low) * run > columns) break;
            low = new_low;
            high = new_high;
        }
        turn_in<W>(from, (low - p.low) * run, (high - low) * run, lines);
        sum_lines<W>(p, j, end, low, run, lines, sums);
        turn_out<W>(sums, to, (j - p.begin) * run, (end - j) * run, count);
        j = end;
    }
}

bool select_blocks(const Table& t, const void* in, void* out, std::int64_t element_size) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (turns<float>()) {
        const hn::RebindToSigned<Tag<float>> di;
        const hn::Rebind<std::uint16_t, decltype(di)> narrow;
        const LaneBlocks& b = t.blocks;
        if (b.window == 0 || (element_size != 4 && element_size != 2)) return false;
        const bool wide = b.window > 8;
        const auto* x4 = static_cast<const std::int32_t*>(in);
        const auto* x2 = static_cast<const std::uint16_t*>(in);
        auto* y4 = static_cast<std::int32_t*>(out);
        auto* y2 = static_cast<std::uint16_t*>(out);
        const auto single = [&](std::int64_t from, std::int64_t to) {
            for (std::int64_t j = from; j < to; ++j) {
                const std::int32_t at = t.index[static_cast<std::size_t>(j)];
                if (element_size == 4) y4[j] = x4[at];
                if (element_size == 2) y2[j] = x2[at];
            }
        };
        for (std::size_t i = 0; i < b.base.size(); ++i) {
            const std::int64_t j = b.first[i];
            const std::int32_t base = b.base[i];
            if (base < 0) {
                single(j, j + 8);
                continue;
            }
#if HWY_TARGET == HWY_AVX2
            if (element_size == 2) {
                const hn::CappedTag<std::uint8_t, 16> bytes;
                const auto places = hn::LoadU(bytes, b.bytes.data() + 2 * b.start[i]);
                const auto* from = reinterpret_cast<const std::uint8_t*>(x2 + base);
                // Of bytes beyond 15 the first shuffle makes 0, and the second of those below 16.
                const auto low = hn::SaturatedAdd(places, hn::Set(bytes, std::uint8_t{0x70}));
                auto picked = hn::TableLookupBytesOr0(hn::LoadU(bytes, from), low);
                if (wide) {
                    const auto high = hn::Sub(places, hn::Set(bytes, std::uint8_t{0x10}));
                    picked = hn::Or(picked, hn::TableLookupBytesOr0(hn::LoadU(bytes, from + 16), high));
                }
                hn::StoreU(picked, bytes, reinterpret_cast<std::uint8_t*>(y2 + j));
                continue;
            }
#endif
            const auto lane = hn::LoadU(di, b.lane.data() + b.start[i]);
            if (element_size == 4) {
                const auto v = hn::LoadU(di, x4 + base);
                hn::StoreU(pick(v, wide ? hn::LoadU(di, x4 + base + 8) : v, lane, wide), di, y4 + j);
            } else {
                const auto v = hn::PromoteTo(di, hn::LoadU(narrow, x2 + base));
                const auto u = wide ? hn::PromoteTo(di, hn::LoadU(narrow, x2 + base + 8)) : v;
                hn::StoreU(hn::DemoteTo(narrow, pick(v, u, lane, wide)), narrow, y2 + j);
            }
        }
        return true;
    }
#endif
    (void)t, (void)in, (void)out, (void)element_size;
    return false;
}

template <class W, class In, class Out> PassKernels kernels() { return {rows<W, In, Out>, columns<W, In, Out>}; }

/// From and to the input's dtype T, or f32 between passes.
template <class T> PassKernels kernels_of(DType in, DType out) {
    if (in == f32) return kernels<float, float, T>();
    return out == f32 ? kernels<float, T, float>() : kernels<float, T, T>();
}

}  // namespace

PassKernels choose(DType in, DType out, bool fixed) {
    if (fixed) return kernels<std::int32_t, std::uint8_t, std::uint8_t>();
    switch (in == f32 ? out : in) {
        case f64: return kernels<double, double, double>();
        case f16: return kernels_of<float16>(in, out);
        case bf16: return kernels_of<bfloat16>(in, out);
        case u8: return kernels_of<std::uint8_t>(in, out);
        default: return kernels<float, float, float>();
    }
}

bool select_blocks_here(const Table& t, const void* in, void* out, std::int64_t element_size) {
    return select_blocks(t, in, out, element_size);
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::resample
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::resample {

HWY_EXPORT(choose);
HWY_EXPORT(select_blocks_here);

bool select_row(const Table& table, const void* in, void* out, std::int64_t element_size) {
    return HWY_DYNAMIC_DISPATCH(select_blocks_here)(table, in, out, element_size);
}

PassKernels find_pass_kernels(DType in, DType out, bool fixed) { return HWY_DYNAMIC_DISPATCH(choose)(in, out, fixed); }

std::int64_t column_scratch(const Table& table, std::int64_t run) {
    if (table.long_sums && run == 1) return 0;
    return (std::max(chunk_columns, table.most_span * run) + std::max(chunk_outputs, run)) * rows_at_once * 8;
}

}  // namespace calor::ops::resample
#endif
