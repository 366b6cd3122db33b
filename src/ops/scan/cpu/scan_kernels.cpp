// sum         vectors are scanned in registers, also of f16 and bf16; only the sum up to a vector is carried from one
// to the next product     one by one: a product of neighbours could overflow where the running product doesn't
// logsumexp   pairs (m, s) standing for m + log s, joined as (max, s1 e^(m1 - max) + s2 e^(m2 - max))
// recurrence  h = a h + b, one by one; neighbouring lines side by side
#include "ops/scan/cpu/scan_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scan/cpu/scan_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace calor::ops::scan {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
template <class T> using Tag = hn::ScalableTag<T>;
template <class T> constexpr std::int64_t lanes_of() { return static_cast<std::int64_t>(hn::MaxLanes(Tag<T>())); }
template <class T> constexpr bool integer = std::is_integral_v<T>;

template <class T> T get(double floating, std::uint64_t whole) {
    if constexpr (integer<T>) return static_cast<T>(whole);
    return static_cast<T>(floating);
}
template <class T> void put(State& s, T value) {
    if constexpr (integer<T>) {
        s.whole = value;
    } else {
        s.first = static_cast<double>(value);
    }
}

/// The type that a stored one is computed in.
template <class S> struct WideOf { using Type = S; };
template <> struct WideOf<float16> { using Type = float; };
template <> struct WideOf<bfloat16> { using Type = float; };
template <class S> using Wide = typename WideOf<S>::Type;

/// Elements as stored to and from vectors of the wide type d.
template <class D, class S> HWY_INLINE hn::Vec<D> read(D d, const S* x) {
    if constexpr (std::is_same_v<S, bfloat16>) {
        const hn::RebindToUnsigned<D> bits;
        const hn::Rebind<std::uint16_t, D> half;
        const auto low = hn::PromoteTo(bits, hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(x)));
        return hn::BitCast(d, hn::ShiftLeft<16>(low));
    } else if constexpr (std::is_same_v<S, float16>) {
        return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), reinterpret_cast<const hwy::float16_t*>(x)));
    } else {
        return hn::LoadU(d, x);
    }
}
template <class D, class S> HWY_INLINE void write(D d, hn::Vec<D> v, S* y) {
    if constexpr (std::is_same_v<S, bfloat16>) {  // to nearest, ties to even; NaN stays one
        const hn::RebindToUnsigned<D> bits;
        const auto all = hn::BitCast(bits, v), high = hn::ShiftRight<16>(all);
        const auto even = hn::Add(hn::And(high, hn::Set(bits, 1U)), hn::Set(bits, 0x7fffU));
        const auto rounded = hn::ShiftRight<16>(hn::Add(all, even)), nan = hn::Or(high, hn::Set(bits, 0x40U));
        const auto result = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(v)), nan, rounded);
        hn::StoreU(hn::DemoteTo(hn::Rebind<std::uint16_t, D>(), hn::BitCast(hn::RebindToSigned<D>(), result)),
                   hn::Rebind<std::uint16_t, D>(), reinterpret_cast<std::uint16_t*>(y));
    } else if constexpr (std::is_same_v<S, float16>) {
        const hn::Rebind<hwy::float16_t, D> half;
        hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(y));
    } else {
        hn::StoreU(v, d, y);
    }
}

/// `lanes` elements from x on in the order of travel.
template <class S> HWY_INLINE hn::Vec<Tag<Wide<S>>> load(const S* x, std::int64_t step) {
    const Tag<Wide<S>> d;
    if (step == 1) return read(d, x);
    return hn::Reverse(d, read(d, x - (lanes_of<Wide<S>>() - 1)));
}
template <class S> HWY_INLINE void store(hn::Vec<Tag<Wide<S>>> v, S* y, std::int64_t step) {
    const Tag<Wide<S>> d;
    if (step == 1) return write(d, v, y);
    write(d, hn::Reverse(d, v), y - (lanes_of<Wide<S>>() - 1));
}

#if HWY_TARGET == HWY_SCALAR  // one lane
template <int count, class T> HWY_INLINE hn::Vec<Tag<T>> moved_up(hn::Vec<Tag<T>>) { return hn::Zero(Tag<T>()); }
template <class T> HWY_INLINE hn::Vec<Tag<T>> last_everywhere(hn::Vec<Tag<T>> v) { return v; }
template <class T> HWY_INLINE hn::Vec<Tag<T>> prefix_sums(hn::Vec<Tag<T>> v) { return v; }
#else
/// v moved up by `count` lanes (a power of two); zeros come in. Vectors have 16 or 32 bytes.
template <int count, class T> HWY_INLINE hn::Vec<Tag<T>> moved_up(hn::Vec<Tag<T>> v) {
    const Tag<T> d;
    constexpr int block = 16 / static_cast<int>(sizeof(T));
    if constexpr (count >= block) {
        static_assert(count == block && lanes_of<T>() == 2 * block);
        return hn::ConcatLowerLower(d, v, hn::Zero(d));
    } else if constexpr (lanes_of<T>() > block) {
        const auto low_in_high = hn::ConcatLowerLower(d, v, hn::Zero(d));
        return hn::CombineShiftRightBytes<16 - count* static_cast<int>(sizeof(T))>(d, v, low_in_high);
    } else {
        return hn::ShiftLeftLanes<count>(d, v);
    }
}
/// The highest lane in every lane.
template <class T> HWY_INLINE hn::Vec<Tag<T>> last_everywhere(hn::Vec<Tag<T>> v) {
    const Tag<T> d;
    constexpr int block = 16 / static_cast<int>(sizeof(T));
    const auto last = hn::Broadcast<block - 1>(v);
    if constexpr (lanes_of<T>() > block) return hn::ConcatUpperUpper(d, last, last);
    return last;
}

template <class T> HWY_INLINE hn::Vec<Tag<T>> prefix_sums(hn::Vec<Tag<T>> v) {
    const Tag<T> d;
    constexpr int block = 16 / static_cast<int>(sizeof(T));
    v = hn::Add(v, hn::ShiftLeftLanes<1>(d, v));
    if constexpr (block >= 4) v = hn::Add(v, hn::ShiftLeftLanes<2>(d, v));
    if constexpr (lanes_of<T>() > block) {
        v = hn::Add(v, hn::ConcatLowerLower(d, hn::Broadcast<block - 1>(v), hn::Zero(d)));
    }
    return v;
}
#endif

/// Elements i to n one by one; returns their sum on top of `sum`.
template <class S>
HWY_INLINE Wide<S> sum_rest(const S* x, S* y, std::int64_t i, std::int64_t n, std::int64_t step, Wide<S> before,
                            Wide<S> sum) {
    using T = Wide<S>;
    const hn::CappedTag<T, 1> one;
    for (; i < n; ++i) {
        sum = static_cast<T>(sum + hn::GetLane(read(one, x + i * step)));
        if (y) write(one, hn::Set(one, static_cast<T>(before + sum)), y + i * step);
    }
    return sum;
}

template <class T> void add_to(State& state, T sum) {
    if constexpr (integer<T>) {
        state.whole += sum;
    } else {
        state.first += static_cast<double>(sum);
    }
}

template <class S>
void sum_piece(const void* from, const void*, void* to, std::int64_t n, std::int64_t step, State& state) {
    using T = Wide<S>;
    const Tag<T> d;
    constexpr std::int64_t lanes = lanes_of<T>();
    const auto* x = static_cast<const S*>(from);
    auto* y = static_cast<S*>(to);
    const T before = get<T>(state.first, state.whole);
    const auto carry = hn::Set(d, before);
    auto running = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        const auto p = prefix_sums<T>(load(x + i * step, step));
        if (y) store<S>(hn::Add(carry, hn::Add(p, running)), y + i * step, step);
        running = hn::Add(running, last_everywhere<T>(p));
    }
    add_to(state, sum_rest(x, y, i, n, step, before, hn::GetLane(running)));
}

#if HWY_TARGET != HWY_SCALAR
/// bf16 in pairs of neighbours, as they lie in 32 bits: one scan over vectors of their sums serves twice as many
/// elements, and no element has to be moved to another lane. A NaN that arithmetic made, or took over from a bf16, has
/// zeros in the lower half of its bits: rounding leaves it.
template <bool Back> double pairs_from(const bfloat16* x, bfloat16* y, std::int64_t n, float before) {
    const Tag<float> d;
    const hn::RebindToUnsigned<Tag<float>> bits;
    constexpr std::int64_t lanes = lanes_of<float>(), step = Back ? -1 : 1, lowest = Back ? 1 - 2 * lanes : 0;
    const auto carry = hn::Set(d, before);
    const auto high_half = hn::Set(bits, 0xffff0000U), one = hn::Set(bits, 1U), below_half = hn::Set(bits, 0x7fffU);
    const auto rounded = [&](hn::Vec<Tag<float>> v) HWY_ATTR {  // in the high half
        const auto all = hn::BitCast(bits, v);
        return hn::Add(all, hn::Add(hn::And(hn::ShiftRight<16>(all), one), below_half));
    };
    auto running = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        auto both = hn::LoadU(bits, reinterpret_cast<const std::uint32_t*>(x + i * step + lowest));
        if (Back) both = hn::Reverse(bits, both);
        const auto low = hn::BitCast(d, hn::ShiftLeft<16>(both)), high = hn::BitCast(d, hn::And(both, high_half));
        const auto first = Back ? high : low, second = Back ? low : high;
        const auto p = prefix_sums<float>(hn::Add(first, second));
        if (y) {
            const auto base = hn::Add(carry, running);
            const auto a = rounded(hn::Add(base, hn::Add(moved_up<1, float>(p), first)));
            const auto b = rounded(hn::Add(base, p));
            auto result = Back ? hn::Or(hn::ShiftRight<16>(b), hn::And(a, high_half))
                               : hn::Or(hn::ShiftRight<16>(a), hn::And(b, high_half));
            if (Back) result = hn::Reverse(bits, result);
            hn::StoreU(result, bits, reinterpret_cast<std::uint32_t*>(y + i * step + lowest));
        }
        running = hn::Add(running, last_everywhere<float>(p));
    }
    return static_cast<double>(sum_rest(x, y, i, n, step, before, hn::GetLane(running)));
}
void pairs_piece(const void* from, const void*, void* to, std::int64_t n, std::int64_t step, State& state) {
    const auto* x = static_cast<const bfloat16*>(from);
    auto* y = static_cast<bfloat16*>(to);
    const auto before = static_cast<float>(state.first);
    state.first += step == 1 ? pairs_from<false>(x, y, n, before) : pairs_from<true>(x, y, n, before);
}
#else
constexpr auto pairs_piece = sum_piece<bfloat16>;
#endif

template <class T>
void product_piece(const void* from, const void*, void* to, std::int64_t n, std::int64_t step, State& state) {
    const auto* x = static_cast<const T*>(from);
    auto* y = static_cast<T*>(to);
    T product = get<T>(state.first, state.whole);
    for (std::int64_t i = 0; i < n; ++i) {
        product = static_cast<T>(product * x[i * step]);
        y[i * step] = product;
    }
    put(state, product);
}

template <class T, bool Lag>
void recurrence_piece(const void* from, const void* shift, void* to, std::int64_t n, std::int64_t step, State& state) {
    const auto* a = static_cast<const T*>(from);
    const auto* b = static_cast<const T*>(shift);
    auto* y = static_cast<T*>(to);
    T h = static_cast<T>(state.first), factor = static_cast<T>(state.second);
    for (std::int64_t i = 0; i < n; ++i) {
        if (!Lag) factor = a[i * step];
        h = factor * h + b[i * step];
        y[i * step] = h;
        if (Lag) factor = a[i * step];
    }
    state.first = static_cast<double>(h);
    state.second = static_cast<double>(factor);
}

/// The pair (m, s) stands for m + log s.
template <class V> struct Pair { V m, s; };
template <class D, class V> HWY_INLINE Pair<V> join(D d, Pair<V> a, Pair<V> b) {
    const V m = hn::IfThenElse(hn::Or(hn::Gt(b.m, a.m), hn::IsNaN(b.m)), b.m, a.m);  // or the NaN
    // Equal ones, infinities too, differ by 0.
    const V e = hn::Exp(d, hn::IfThenZeroElse(hn::Eq(a.m, b.m), hn::Neg(hn::Abs(hn::Sub(a.m, b.m)))));
    const auto first = hn::Ge(a.m, b.m);
    return {m, hn::MulAdd(hn::IfThenElse(first, b.s, a.s), e, hn::IfThenElse(first, a.s, b.s))};
}

template <int count, class T> HWY_INLINE Pair<hn::Vec<Tag<T>>> join_with_moved(Pair<hn::Vec<Tag<T>>> p) {
    const Tag<T> d;
    const auto none = hn::Set(d, -std::numeric_limits<T>::infinity());
    const auto m = hn::IfThenElse(hn::FirstN(d, count), none, moved_up<count, T>(p.m));
    return join(d, Pair<hn::Vec<Tag<T>>>{m, moved_up<count, T>(p.s)}, p);
}

template <class T>
void logsumexp_piece(const void* from, const void*, void* to, std::int64_t n, std::int64_t step, State& state) {
    const Tag<T> d;
    constexpr std::int64_t lanes = lanes_of<T>();
    const auto* x = static_cast<const T*>(from);
    auto* y = static_cast<T*>(to);
    Pair<hn::Vec<Tag<T>>> running{hn::Set(d, static_cast<T>(state.first)), hn::Set(d, static_cast<T>(state.second))};
    HWY_ALIGN T values[hn::MaxLanes(Tag<T>())];
    for (std::int64_t i = 0; i < n; i += lanes) {
        const std::int64_t count = n - i < lanes ? n - i : lanes;
        if (count < lanes) {
            for (std::int64_t k = 0; k < lanes; ++k)
                values[k] = k < count ? x[(i + k) * step] : -std::numeric_limits<T>::infinity();
        }
        Pair<hn::Vec<Tag<T>>> p{count < lanes ? hn::Load(d, values) : load(x + i * step, step),
                                hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(count)), hn::Set(d, T(1)))};
        if constexpr (lanes >= 2) p = join_with_moved<1, T>(p);
        if constexpr (lanes >= 4) p = join_with_moved<2, T>(p);
        if constexpr (lanes >= 8) p = join_with_moved<4, T>(p);
        p = join(d, running, p);
        const auto result = hn::Add(p.m, hn::Log(d, p.s));
        if (count < lanes) {
            hn::Store(result, d, values);
            for (std::int64_t k = 0; k < count; ++k) y[(i + k) * step] = values[k];
        } else {
            store<T>(result, y + i * step, step);
        }
        running = {last_everywhere<T>(p.m), last_everywhere<T>(p.s)};
    }
    state.first = static_cast<double>(hn::GetLane(running.m));
    state.second = static_cast<double>(hn::GetLane(running.s));
}

/// Calls body(d, j) for vectors of columns from j on, and one at a time at the end.
template <class T, class Body> HWY_INLINE void each_column(std::int64_t width, const Body& body) {
    constexpr std::int64_t lanes = lanes_of<T>();
    std::int64_t j = 0;
    for (; j + lanes <= width; j += lanes) body(Tag<T>(), j);
    for (; j < width; ++j) body(hn::CappedTag<T, 1>(), j);
}

template <class S>
void sum_band(const void* from, const void*, void* to, std::int64_t n, std::int64_t width, const std::int64_t* strides,
              State* states) {
    using T = Wide<S>;
    HWY_ALIGN T before[most_columns], sum[most_columns] = {};
    for (std::int64_t j = 0; j < width; ++j) before[j] = get<T>(states[j].first, states[j].whole);
    for (std::int64_t k = 0; k < n; ++k) {
        const S* x = static_cast<const S*>(from) + k * strides[0];
        S* y = static_cast<S*>(to) + k * strides[2];
        each_column<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
            const auto s = hn::Add(hn::LoadU(d, sum + j), read(d, x + j));
            hn::StoreU(s, d, sum + j);
            write(d, hn::Add(hn::LoadU(d, before + j), s), y + j);
        });
    }
    for (std::int64_t j = 0; j < width; ++j) {
        if constexpr (integer<T>) {
            states[j].whole += sum[j];
        } else {
            states[j].first += static_cast<double>(sum[j]);
        }
    }
}

template <class T>
void product_band(const void* from, const void*, void* to, std::int64_t n, std::int64_t width,
                  const std::int64_t* strides, State* states) {
    HWY_ALIGN T product[most_columns];
    for (std::int64_t j = 0; j < width; ++j) product[j] = get<T>(states[j].first, states[j].whole);
    for (std::int64_t k = 0; k < n; ++k) {
        const T* x = static_cast<const T*>(from) + k * strides[0];
        T* y = static_cast<T*>(to) + k * strides[2];
        if constexpr (integer<T>) {
            for (std::int64_t j = 0; j < width; ++j) y[j] = product[j] = static_cast<T>(product[j] * x[j]);
        } else {
            each_column<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
                const auto p = hn::Mul(hn::LoadU(d, product + j), hn::LoadU(d, x + j));
                hn::StoreU(p, d, product + j);
                hn::StoreU(p, d, y + j);
            });
        }
    }
    for (std::int64_t j = 0; j < width; ++j) put(states[j], product[j]);
}

template <class T, bool Lag>
void recurrence_band(const void* from, const void* shift, void* to, std::int64_t n, std::int64_t width,
                     const std::int64_t* strides, State* states) {
    HWY_ALIGN T h[most_columns], factor[most_columns];
    for (std::int64_t j = 0; j < width; ++j) {
        h[j] = static_cast<T>(states[j].first);
        factor[j] = static_cast<T>(states[j].second);
    }
    for (std::int64_t k = 0; k < n; ++k) {
        const T* a = static_cast<const T*>(from) + k * strides[0];
        const T* b = static_cast<const T*>(shift) + k * strides[1];
        T* y = static_cast<T*>(to) + k * strides[2];
        each_column<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
            const auto own = hn::LoadU(d, a + j), f = Lag ? hn::LoadU(d, factor + j) : own;
            const auto next = hn::MulAdd(f, hn::LoadU(d, h + j), hn::LoadU(d, b + j));
            hn::StoreU(own, d, factor + j);
            hn::StoreU(next, d, h + j);
            hn::StoreU(next, d, y + j);
        });
    }
    for (std::int64_t j = 0; j < width; ++j) {
        states[j].first = static_cast<double>(h[j]);
        states[j].second = static_cast<double>(factor[j]);
    }
}

template <class T>
void logsumexp_band(const void* from, const void*, void* to, std::int64_t n, std::int64_t width,
                    const std::int64_t* strides, State* states) {
    HWY_ALIGN T m[most_columns], s[most_columns];
    for (std::int64_t j = 0; j < width; ++j) {
        m[j] = static_cast<T>(states[j].first);
        s[j] = static_cast<T>(states[j].second);
    }
    for (std::int64_t k = 0; k < n; ++k) {
        const T* x = static_cast<const T*>(from) + k * strides[0];
        T* y = static_cast<T*>(to) + k * strides[2];
        each_column<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
            using V = hn::Vec<decltype(d)>;
            const Pair<V> p = join(d, Pair<V>{hn::LoadU(d, m + j), hn::LoadU(d, s + j)},
                                   Pair<V>{hn::LoadU(d, x + j), hn::Set(d, T(1))});
            hn::StoreU(p.m, d, m + j);
            hn::StoreU(p.s, d, s + j);
            hn::StoreU(hn::Add(p.m, hn::Log(d, p.s)), d, y + j);
        });
    }
    for (std::int64_t j = 0; j < width; ++j) {
        states[j].first = static_cast<double>(m[j]);
        states[j].second = static_cast<double>(s[j]);
    }
}

/// By kind; the fifth is the recurrence with a lag.
template <class T>
constexpr Kernels floating[] = {{sum_piece<T>, sum_band<T>},
                                {product_piece<T>, product_band<T>},
                                {logsumexp_piece<T>, logsumexp_band<T>},
                                {recurrence_piece<T, false>, recurrence_band<T, false>},
                                {recurrence_piece<T, true>, recurrence_band<T, true>}};
template <class T> constexpr Kernels whole[] = {{sum_piece<T>, sum_band<T>}, {product_piece<T>, product_band<T>}};
/// Sums, which are bound by memory otherwise.
constexpr Kernels halves[] = {{pairs_piece, sum_band<bfloat16>}, {sum_piece<float16>, sum_band<float16>}};

}  // namespace

const Kernels* scan_table(DType dtype) {
    switch (dtype) {
        case bf16: return halves;
        case f16: return halves + 1;
        case f64: return floating<double>;
        case u64: return whole<std::uint64_t>;
        case u32: return whole<std::uint32_t>;
        default: return floating<float>;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::scan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::scan {

HWY_EXPORT(scan_table);

const Kernels& find_kernels(Kind kind, bool lag, DType dtype) {
    return HWY_DYNAMIC_DISPATCH(scan_table)(dtype)[static_cast<int>(kind) + (lag ? 1 : 0)];
}

State start_of(Kind kind) {
    switch (kind) {
        case Kind::product: return {1, 0, 1};
        case Kind::logsumexp: return {-HUGE_VAL, 0, 0};
        default: return {};
    }
}

}  // namespace calor::ops::scan
#endif
