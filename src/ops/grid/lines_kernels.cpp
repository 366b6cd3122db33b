// Sampling along lines: one channel of many points at a time. For few channels, and for few points of a large input.
#include "ops/grid/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid/lines_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace calor::ops::grid {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// x[offset[..]], 0 for negative offsets.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> read(D d, const T* HWY_RESTRICT x, const std::int32_t* HWY_RESTRICT offset) {
    const hn::RebindToSigned<D> di;
    const auto zero = hn::Zero(di);
    if constexpr (sizeof(T) == 4) {
        const auto at = hn::LoadU(di, offset);
        const auto inside = hn::RebindMask(d, hn::Not(hn::Lt(at, zero)));
        return hn::IfThenElseZero(inside, hn::GatherIndex(d, x, hn::Max(at, zero)));
    } else {
        const hn::Rebind<std::int32_t, D> half;
        const auto narrow = hn::LoadU(half, offset);
        const auto at = hn::PromoteTo(di, narrow);
        const auto inside = hn::RebindMask(d, hn::Not(hn::Lt(at, zero)));
        return hn::IfThenElseZero(inside, hn::GatherIndex(d, x, hn::PromoteTo(di, hn::Max(narrow, hn::Zero(half)))));
    }
}

#if HWY_TARGET == HWY_AVX2
/// Elements at offset and offset + 1 of 8 points, all inside: pairs are read at once.
struct Pairs {
    hn::Vec<hn::ScalableTag<float>> first, second;
};
HWY_INLINE std::int64_t two_at(const float* x) {
    std::int64_t two = 0;
    std::memcpy(&two, x, sizeof(two));
    return two;
}
HWY_INLINE Pairs read_pairs(const float* x, const std::int32_t* o) {  // half the price of gather instructions
    const auto two = [&](int i, int k) HWY_ATTR {
        return _mm256_castsi256_ps(
            _mm256_set_epi64x(two_at(x + o[k + 1]), two_at(x + o[k]), two_at(x + o[i + 1]), two_at(x + o[i])));
    };
    const __m256 a = two(0, 4), b = two(2, 6);
    return {hn::Vec<hn::ScalableTag<float>>{_mm256_shuffle_ps(a, b, 0x88)},
            hn::Vec<hn::ScalableTag<float>>{_mm256_shuffle_ps(a, b, 0xdd)}};
}
/// x[o], x[o + 1] += w0 h, w1 h of each of 8 points, one after the other; `rows` such pairs a point.
HWY_INLINE void add_pairs(const Taps<float>& taps, const std::int32_t* offset, std::int64_t p, const float* line,
                          float* x) {
    const hn::ScalableTag<float> d;
    constexpr std::int64_t most = 8;  // pairs of four axes
    HWY_ALIGN float products[most][16];
    const std::int64_t rows = taps.count / 2;
    const auto h = hn::LoadU(d, line + p);
    for (std::int64_t r = 0; r < rows; ++r) {
        const auto first = hn::Mul(h, hn::LoadU(d, taps.weights(0, 2 * r) + p));
        const auto second = hn::Mul(h, hn::LoadU(d, taps.weights(0, 2 * r + 1) + p));
        const auto low = hn::InterleaveLower(d, first, second), high = hn::InterleaveUpper(d, first, second);
        hn::Store(hn::ConcatLowerLower(d, high, low), d, products[r]);
        hn::Store(hn::ConcatUpperUpper(d, high, low), d, products[r] + 8);
    }
    const hn::CappedTag<float, 2> two;
    for (std::int64_t i = 0; i < 8; ++i) {
        for (std::int64_t r = 0; r < rows; ++r) {
            float* to = x + offset[2 * r * taps.pitch + p + i];
            hn::StoreU(hn::Add(hn::LoadU(two, to), hn::LoadU(two, products[r] + 2 * i)), two, to);
        }
    }
}
/// Whether the 8 points have all taps inside; offsets outside are negative.
template <class T> HWY_INLINE bool all_inside(const Taps<T>& taps, const std::int32_t* offset) {
    const hn::ScalableTag<std::int32_t> d;
    auto any = hn::Zero(d);
    for (std::int64_t t = 0; t < taps.count; ++t) any = hn::Or(any, hn::LoadU(d, offset + t * taps.pitch));
    return hn::AllFalse(d, hn::Lt(any, hn::Zero(d)));
}
#endif
/// Whether pairs() serves the points at `offset`.
template <class T> HWY_INLINE bool paired(const Taps<T>& taps, const std::int32_t* offset) {
#if HWY_TARGET == HWY_AVX2
    if constexpr (sizeof(T) == 4) return taps.pairs && all_inside(taps, offset);
#endif
    (void)taps, (void)offset;
    return false;
}

/// Weighted sum over the taps of some points.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> weighted(D d, const Taps<T>& taps, const std::int32_t* offset, std::int64_t p, const T* x,
                               bool pairs) {
    auto sum = hn::Zero(d);
#if HWY_TARGET == HWY_AVX2
    if constexpr (sizeof(T) == 4) {
        for (std::int64_t t = 0; pairs && t < taps.count; t += 2) {
            const Pairs v = read_pairs(x, offset + t * taps.pitch + p);
            sum = hn::MulAdd(hn::LoadU(d, taps.weights(0, t) + p), v.first, sum);
            sum = hn::MulAdd(hn::LoadU(d, taps.weights(0, t + 1) + p), v.second, sum);
        }
        if (pairs) return sum;
    }
#endif
    (void)pairs;
    for (std::int64_t t = 0; t < taps.count; ++t) {
        const auto w = hn::LoadU(d, taps.weights(0, t) + p);
        sum = hn::MulAdd(w, read(d, x, offset + t * taps.pitch + p), sum);
    }
    return sum;
}

/// The vectors of one channel; returns how many points are done.
template <class T>
HWY_INLINE std::int64_t gather_vectors(const Taps<T>& taps, const std::int32_t* offset, std::int64_t count, const T* x,
                                       T* HWY_RESTRICT line) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t p = 0;
    for (; p + lanes <= count; p += lanes) {
        hn::StoreU(weighted(d, taps, offset, p, x, paired(taps, offset + p)), d, line + p);
    }
    return p;
}
template <class T>
HWY_INLINE std::int64_t gather_vectors(const Taps<T>&, const std::int64_t*, std::int64_t, const T*, T*) {
    return 0;
}

template <class T>
void gather_lines(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t x_stride, std::int64_t channels,
                  T* lines, std::int64_t line_stride) {
    with_offsets(taps, [&](const auto* offset) HWY_ATTR {
        for (std::int64_t c = 0; c < channels; ++c) {
            const T* from = x + c * x_stride;
            T* line = lines + c * line_stride;
            for (std::int64_t p = gather_vectors(taps, offset, count, from, line); p < count; ++p) {
                T sum = 0;
                for (std::int64_t t = 0; t < taps.count; ++t) {
                    const auto at = offset[t * taps.pitch + p];
                    if (at >= 0) sum += taps.weights(0, t)[p] * from[at];
                }
                line[p] = sum;
            }
        }
    });
}

/// One point of one channel.
template <class T, class O>
HWY_INLINE void scatter_point(const Taps<T>& taps, const O* offset, std::int64_t p, T h, T* to) {
    for (std::int64_t t = 0; t < taps.count; ++t) {
        const auto at = offset[t * taps.pitch + p];
        if (at >= 0) to[at] += taps.weights(0, t)[p] * h;
    }
}
/// Eight points at a time; returns how many are done.
template <class T, class O>
HWY_INLINE std::int64_t scatter_vectors(const Taps<T>& taps, const O* offset, std::int64_t count, const T* line,
                                        T* to) {
    std::int64_t p = 0;
#if HWY_TARGET == HWY_AVX2
    if constexpr (sizeof(T) == 4 && sizeof(O) == 4) {
        if (!taps.pairs || taps.count > 16) return 0;
        for (; p + 8 <= count; p += 8) {
            if (all_inside(taps, offset + p)) {
                add_pairs(taps, offset, p, line, to);
            } else {
                for (std::int64_t i = p; i < p + 8; ++i) scatter_point(taps, offset, i, line[i], to);
            }
        }
    }
#endif
    (void)taps, (void)offset, (void)count, (void)line, (void)to;
    return p;
}

template <class T>
void scatter_lines(const Taps<T>& taps, std::int64_t count, T* x, std::int64_t x_stride, std::int64_t channels,
                   const T* lines, std::int64_t line_stride) {
    with_offsets(taps, [&](const auto* offset) HWY_ATTR {
        for (std::int64_t c = 0; c < channels; ++c) {
            T* to = x + c * x_stride;
            const T* line = lines + c * line_stride;
            for (std::int64_t p = scatter_vectors(taps, offset, count, line, to); p < count; ++p) {
                scatter_point(taps, offset, p, line[p], to);
            }
        }
    });
}

template <class T>
HWY_INLINE std::int64_t dot_vectors(const Taps<T>& taps, const std::int32_t* offset, std::int64_t count, const T* x,
                                    std::int64_t x_stride, std::int64_t channels, const T* lines,
                                    std::int64_t line_stride, T* HWY_RESTRICT out) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t p = 0;
    for (; p + lanes <= count; p += lanes) {
        for (std::int64_t s = 0; s < taps.sets; ++s) hn::StoreU(hn::Zero(d), d, out + s * block + p);
        const auto add = [&](std::int64_t t, hn::Vec<decltype(d)> sum) HWY_ATTR {
            for (std::int64_t s = 0; s < taps.sets; ++s) {
                T* to = out + s * block + p;
                hn::StoreU(hn::MulAdd(hn::LoadU(d, taps.weights(s, t) + p), sum, hn::LoadU(d, to)), d, to);
            }
        };
        std::int64_t t = 0;
#if HWY_TARGET == HWY_AVX2
        if constexpr (sizeof(T) == 4) {
            const bool pairs = paired(taps, offset + p);
            for (; pairs && t < taps.count; t += 2) {
                auto first = hn::Zero(d), second = first;
                for (std::int64_t c = 0; c < channels; ++c) {
                    const auto h = hn::LoadU(d, lines + c * line_stride + p);
                    const Pairs v = read_pairs(x + c * x_stride, offset + t * taps.pitch + p);
                    first = hn::MulAdd(h, v.first, first);
                    second = hn::MulAdd(h, v.second, second);
                }
                add(t, first);
                add(t + 1, second);
            }
        }
#endif
        for (; t < taps.count; ++t) {
            auto sum = hn::Zero(d);
            for (std::int64_t c = 0; c < channels; ++c) {
                const auto h = hn::LoadU(d, lines + c * line_stride + p);
                sum = hn::MulAdd(h, read(d, x + c * x_stride, offset + t * taps.pitch + p), sum);
            }
            add(t, sum);
        }
    }
    return p;
}
template <class T>
HWY_INLINE std::int64_t dot_vectors(const Taps<T>&, const std::int64_t*, std::int64_t, const T*, std::int64_t,
                                    std::int64_t, const T*, std::int64_t, T*) {
    return 0;
}

template <class T>
void dot_lines(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t x_stride, std::int64_t channels,
               const T* lines, std::int64_t line_stride, T* out) {
    with_offsets(taps, [&](const auto* offset) HWY_ATTR {
        std::int64_t p = dot_vectors(taps, offset, count, x, x_stride, channels, lines, line_stride, out);
        for (; p < count; ++p) {
            for (std::int64_t s = 0; s < taps.sets; ++s) out[s * block + p] = 0;
            for (std::int64_t t = 0; t < taps.count; ++t) {
                const auto at = offset[t * taps.pitch + p];
                if (at < 0) continue;
                T sum = 0;
                for (std::int64_t c = 0; c < channels; ++c) sum += lines[c * line_stride + p] * x[at + c * x_stride];
                for (std::int64_t s = 0; s < taps.sets; ++s) out[s * block + p] += taps.weights(s, t)[p] * sum;
            }
        }
    });
}

template <class T> const LineKernels<T> table{gather_lines<T>, scatter_lines<T>, dot_lines<T>};

}  // namespace

const LineKernels<float>& float_lines() { return table<float>; }
const LineKernels<double>& double_lines() { return table<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::grid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::grid {

HWY_EXPORT(float_lines);
HWY_EXPORT(double_lines);

template <> const LineKernels<float>& line_kernels() {
    static const LineKernels<float>& found = HWY_DYNAMIC_DISPATCH(float_lines)();
    return found;
}
template <> const LineKernels<double>& line_kernels() {
    static const LineKernels<double>& found = HWY_DYNAMIC_DISPATCH(double_lines)();
    return found;
}

}  // namespace calor::ops::grid
#endif
