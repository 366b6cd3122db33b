// Sums, extremes and variances of f16 and bf16 as they lie: pairs of vectors are widened in registers and joined in
// f32, with the states of the f32 kernels.
#if defined(CALOR_REDUCE_HALF_KERNELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CALOR_REDUCE_HALF_KERNELS_INL_H
#undef CALOR_REDUCE_HALF_KERNELS_INL_H
#else
#define CALOR_REDUCE_HALF_KERNELS_INL_H
#endif

#include "device/cpu/element_pairs-inl.h"
#include "ops/reduce/cpu/kernels-inl.h"
#include "ops/reduce/cpu/moments-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops {
namespace HWY_NAMESPACE {
namespace {

using cpu::HWY_NAMESPACE::load_pair;
using cpu::HWY_NAMESPACE::pair_size;
using cpu::HWY_NAMESPACE::Two;

template <class E> HWY_INLINE Two<E> both_of(float value) {
    const auto v = hn::Set(Tag<float>(), value);
    return {v, v};
}
template <class E> HWY_INLINE Two<E> load_floats(const float* p) {
    return {hn::LoadU(Tag<float>(), p), hn::LoadU(Tag<float>(), p + lanes_of<float>())};
}
template <class E> HWY_INLINE void store_floats(Two<E> v, float* p) {
    hn::StoreU(v.a, Tag<float>(), p);
    hn::StoreU(v.b, Tag<float>(), p + lanes_of<float>());
}
template <class Op, class E> HWY_INLINE Two<E> join_two(Two<E> x, Two<E> y) {
    return {Op::join(x.a, y.a), Op::join(x.b, y.b)};
}
template <class Op, class E> HWY_INLINE Two<E> map_two(const E* p) {
    const Two<E> v = load_pair(p);
    return {Op::map(Tag<float>(), v.a), Op::map(Tag<float>(), v.b)};
}
template <class Op, class E> HWY_INLINE Two<E> join_four(const E* p, std::int64_t step) {
    return join_two<Op>(join_two<Op>(map_two<Op>(p), map_two<Op>(p + step)),
                        join_two<Op>(map_two<Op>(p + 2 * step), map_two<Op>(p + 3 * step)));
}
/// Where column j of whole pairs stands among numbers that were stored as pairs.
template <class E> constexpr std::int64_t place_of_column(std::int64_t j) {
    if (!std::is_same_v<E, bfloat16>) return j;
    const std::int64_t within = j % pair_size<E>;
    return j - within + within / 2 + within % 2 * lanes_of<float>();
}

template <class Op, class E> HWY_INLINE typename Op::State reduce_half_row(const E* HWY_RESTRICT x, std::int64_t n) {
    constexpr std::int64_t step = pair_size<E>;
    typename Op::State state = static_cast<typename Op::State>(Op::identity);
    std::int64_t i = 0;
    if (n >= step) {
        auto a = both_of<E>(Op::identity), b = a;
        for (; i + 8 * step <= n; i += 8 * step) {
            a = join_two<Op>(a, join_four<Op>(x + i, step));
            b = join_two<Op>(b, join_four<Op>(x + i + 4 * step, step));
        }
        for (; i + step <= n; i += step) a = join_two<Op>(a, map_two<Op>(x + i));
        a = join_two<Op>(a, b);
        state = gather_lanes<Op, float>(Op::join(a.a, a.b));
    }
    float rest = Op::identity;
    for (; i < n; ++i) rest = Op::scalar(rest, static_cast<float>(x[i]));
    return Op::merge(state, static_cast<typename Op::State>(rest));
}

/// out[place of j] takes up column j.
template <class Op, class E>
HWY_INLINE void reduce_half_columns(const E* HWY_RESTRICT x, std::int64_t stride, std::int64_t rows, std::int64_t width,
                                    float* HWY_RESTRICT out) {
    constexpr std::int64_t step = pair_size<E>;
    const std::int64_t whole = width / step * step;
    std::int64_t r = 0;
    for (; r + 8 <= rows; r += 8) {
        const E* p = x + r * stride;
        for (std::int64_t j = 0; j < whole; j += step) {
            const auto eight = join_two<Op>(join_four<Op>(p + j, stride), join_four<Op>(p + 4 * stride + j, stride));
            store_floats(join_two<Op>(load_floats<E>(out + j), eight), out + j);
        }
    }
    for (; r < rows; ++r) {
        const E* p = x + r * stride;
        for (std::int64_t j = 0; j < whole; j += step)
            store_floats(join_two<Op>(load_floats<E>(out + j), map_two<Op>(p + j)), out + j);
    }
    for (r = 0; r < rows; ++r) {
        for (std::int64_t j = whole; j < width; ++j) out[j] = Op::scalar(out[j], static_cast<float>(x[r * stride + j]));
    }
}

template <class Op, class E> struct HalfLanes {
    using State = typename Op::State;
    static void rows(const void* x, std::int64_t stride, std::int64_t count, std::int64_t n, void* states,
                     std::int64_t step, std::int64_t) {
        auto* s = static_cast<State*>(states);
        for (std::int64_t r = 0; r < count; ++r) {
            s[r * step] = Op::merge(s[r * step], reduce_half_row<Op>(static_cast<const E*>(x) + r * stride, n));
        }
    }
    static void columns(const void* x, std::int64_t stride, std::int64_t rows, std::int64_t width, void* states,
                        std::int64_t) {
        float part[most_columns];
        std::fill_n(part, width, Op::identity);
        reduce_half_columns<Op>(static_cast<const E*>(x), stride, rows, width, part);
        auto* s = static_cast<State*>(states);
        const std::int64_t whole = width / pair_size<E> * pair_size<E>;
        for (std::int64_t j = 0; j < width; ++j) {
            s[j] = Op::merge(s[j], static_cast<State>(part[j < whole ? place_of_column<E>(j) : j]));
        }
    }
};

template <class E> struct HalfMoments {
    static HWY_INLINE Moments of_row(const E* HWY_RESTRICT x, std::int64_t n) {
        constexpr std::int64_t step = pair_size<E>;
        const auto guess = static_cast<float>(reduce_half_row<Sum<float>>(x, n) / static_cast<double>(n));
        const auto mean = hn::Set(Tag<float>(), guess);
        auto s = both_of<E>(0), q = s;
        std::int64_t i = 0;
        for (; i + step <= n; i += step) {
            const Two<E> v = load_pair(x + i);
            const auto u = hn::Sub(v.a, mean), w = hn::Sub(v.b, mean);
            s = {hn::Add(s.a, u), hn::Add(s.b, w)};
            q = {hn::MulAdd(u, u, q.a), hn::MulAdd(w, w, q.b)};
        }
        double sum = 0, squares = 0;
        if (i > 0) {
            sum = gather_lanes<Sum<float>, float>(hn::Add(s.a, s.b));
            squares = gather_lanes<Sum<float>, float>(hn::Add(q.a, q.b));
        }
        for (; i < n; ++i) {
            const double u = static_cast<float>(x[i]) - guess;
            sum += u;
            squares += u * u;
        }
        return moments_around(static_cast<double>(n), guess, sum, squares);
    }
    static void rows(const void* x, std::int64_t stride, std::int64_t count, std::int64_t n, void* states,
                     std::int64_t step, std::int64_t) {
        for (std::int64_t r = 0; r < count; ++r) {
            static_cast<Moments*>(states)[r * step].merge(of_row(static_cast<const E*>(x) + r * stride, n));
        }
    }
    static void columns(const void* from, std::int64_t stride, std::int64_t rows, std::int64_t width, void* states,
                        std::int64_t) {
        constexpr std::int64_t step = pair_size<E>;
        const auto* x = static_cast<const E*>(from);
        const std::int64_t whole = width / step * step;
        float mean[most_columns], sum[most_columns], squares[most_columns];
        std::fill_n(mean, width, 0.0F);
        std::fill_n(sum, width, 0.0F);
        std::fill_n(squares, width, 0.0F);
        reduce_half_columns<Sum<float>>(x, stride, rows, width, mean);
        for (std::int64_t j = 0; j < width; ++j) mean[j] /= static_cast<float>(rows);
        std::int64_t r = 0;
        const auto take_up = [&]<int Rows>(const E* p, std::integral_constant<int, Rows>) HWY_ATTR {
            for (std::int64_t j = 0; j < whole; j += step) {
                const Two<E> m = load_floats<E>(mean + j);
                Two<E> s = load_floats<E>(sum + j), q = load_floats<E>(squares + j);
                for (int k = 0; k < Rows; ++k) {
                    const Two<E> v = load_pair(p + k * stride + j);
                    const auto u = hn::Sub(v.a, m.a), w = hn::Sub(v.b, m.b);
                    s = {hn::Add(s.a, u), hn::Add(s.b, w)};
                    q = {hn::MulAdd(u, u, q.a), hn::MulAdd(w, w, q.b)};
                }
                store_floats(s, sum + j);
                store_floats(q, squares + j);
            }
            for (std::int64_t j = whole; j < width; ++j) {
                for (int k = 0; k < Rows; ++k) {
                    const float u = static_cast<float>(p[k * stride + j]) - mean[j];
                    sum[j] += u;
                    squares[j] += u * u;
                }
            }
        };
        for (; r + 4 <= rows; r += 4) take_up(x + r * stride, std::integral_constant<int, 4>());
        for (; r < rows; ++r) take_up(x + r * stride, std::integral_constant<int, 1>());
        for (std::int64_t j = 0; j < width; ++j) {
            const std::int64_t at = j < whole ? place_of_column<E>(j) : j;
            static_cast<Moments*>(states)[j].merge(
                moments_around(static_cast<double>(rows), mean[at], sum[at], squares[at]));
        }
    }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
