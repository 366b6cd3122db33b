// Sampling in rows: all channels of a point at a time.
#include "ops/grid/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid/rows_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace calor::ops::grid {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// n vectors of a row at x: sums over the taps of one point.
template <int n, class D, class O, class T = hn::TFromD<D>>
HWY_INLINE void gather_vectors(D d, const Taps<T>& taps, const T* HWY_RESTRICT x, const O* HWY_RESTRICT offset,
                               const T* HWY_RESTRICT weight, T* HWY_RESTRICT out) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (std::int64_t t = 0; t < taps.count; ++t) {
        const O at = offset[t * taps.pitch];
        if (at < 0) continue;
        const T* from = x + at;
        const auto w = hn::Set(d, weight[t * taps.pitch]);
        s0 = hn::MulAdd(w, hn::LoadU(d, from), s0);
        if constexpr (n > 1) s1 = hn::MulAdd(w, hn::LoadU(d, from + lanes), s1);
        if constexpr (n > 2) s2 = hn::MulAdd(w, hn::LoadU(d, from + 2 * lanes), s2);
        if constexpr (n > 3) s3 = hn::MulAdd(w, hn::LoadU(d, from + 3 * lanes), s3);
    }
    hn::StoreU(s0, d, out);
    if constexpr (n > 1) hn::StoreU(s1, d, out + lanes);
    if constexpr (n > 2) hn::StoreU(s2, d, out + 2 * lanes);
    if constexpr (n > 3) hn::StoreU(s3, d, out + 3 * lanes);
}

template <class D, class O, class T = hn::TFromD<D>>
HWY_INLINE void gather_rows(D d, const Taps<T>& taps, const O* offset, std::int64_t count, const T* x,
                            std::int64_t channels, T* tile, std::int64_t tile_stride) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const T* weight = taps.weights(0, 0);
    for (std::int64_t p = 0; p < count; ++p) {
        T* out = tile + p * tile_stride;
        std::int64_t c = 0;
        for (; c + 4 * lanes <= channels; c += 4 * lanes) {
            gather_vectors<4>(d, taps, x + c, offset + p, weight + p, out + c);
        }
        for (; c + 2 * lanes <= channels; c += 2 * lanes) {
            gather_vectors<2>(d, taps, x + c, offset + p, weight + p, out + c);
        }
        for (; c + lanes <= channels; c += lanes) gather_vectors<1>(d, taps, x + c, offset + p, weight + p, out + c);
    }
}

template <class D, class O, class T = hn::TFromD<D>>
HWY_INLINE void scatter_rows(D d, const Taps<T>& taps, const O* offset, std::int64_t count, T* x, std::int64_t channels,
                             const T* tile, std::int64_t tile_stride) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t p = 0; p < count; ++p) {
        const T* HWY_RESTRICT from = tile + p * tile_stride;
        for (std::int64_t t = 0; t < taps.count; ++t) {
            const O at = offset[t * taps.pitch + p];
            if (at < 0) continue;
            T* HWY_RESTRICT to = x + at;
            const auto w = hn::Set(d, taps.weights(0, t)[p]);
            for (std::int64_t c = 0; c < channels; c += lanes) {
                hn::StoreU(hn::MulAdd(w, hn::LoadU(d, from + c), hn::LoadU(d, to + c)), d, to + c);
            }
        }
    }
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE T dot(D d, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, std::int64_t n) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    auto s0 = hn::Zero(d), s1 = s0;
    std::int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
        s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
    }
    for (; i < n; i += lanes) s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
}

template <class D, class O, class T = hn::TFromD<D>>
HWY_INLINE void dot_rows(D d, const Taps<T>& taps, const O* offset, std::int64_t count, const T* x,
                         std::int64_t channels, const T* tile, std::int64_t tile_stride, T* out) {
    for (std::int64_t p = 0; p < count; ++p) {
        for (std::int64_t s = 0; s < taps.sets; ++s) out[s * block + p] = 0;
        for (std::int64_t t = 0; t < taps.count; ++t) {
            const O at = offset[t * taps.pitch + p];
            if (at < 0) continue;
            const T sum = dot(d, x + at, tile + p * tile_stride, channels);
            for (std::int64_t s = 0; s < taps.sets; ++s) out[s * block + p] += taps.weights(s, t)[p] * sum;
        }
    }
}

/// The widest vectors that divide a row.
template <class T, class F> HWY_INLINE void with_vectors(std::int64_t channels, const F& f) {
    const hn::CappedTag<T, 16 / sizeof(T)> half;
    const hn::CappedTag<T, 32 / sizeof(T)> whole;
    if (channels % static_cast<std::int64_t>(hn::Lanes(whole)) == 0) return f(whole);
    f(half);
}

/// Calls f(vector tag, table of offsets).
template <class T, class F> HWY_INLINE void dispatch(const Taps<T>& taps, std::int64_t channels, const F& f) {
    with_vectors<T>(channels, [&](auto d) HWY_ATTR {
        if (taps.narrow) return f(d, taps.offset32.data());
        f(d, taps.offset64.data());
    });
}

template <class T>
void gather(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t channels, T* tile,
            std::int64_t tile_stride) {
    dispatch(taps, channels, [&](auto d, const auto* offset) HWY_ATTR {
        gather_rows(d, taps, offset, count, x, channels, tile, tile_stride);
    });
}
template <class T>
void scatter(const Taps<T>& taps, std::int64_t count, T* x, std::int64_t channels, const T* tile,
             std::int64_t tile_stride) {
    dispatch(taps, channels, [&](auto d, const auto* offset) HWY_ATTR {
        scatter_rows(d, taps, offset, count, x, channels, tile, tile_stride);
    });
}
template <class T>
void dots(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t channels, const T* tile,
          std::int64_t tile_stride, T* out) {
    dispatch(taps, channels, [&](auto d, const auto* offset) HWY_ATTR {
        dot_rows(d, taps, offset, count, x, channels, tile, tile_stride, out);
    });
}

/// n x n elements in registers: log2(n) rounds that interleave row i with row i + n / 2.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void transpose_square(D d, const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
    (void)d, (void)from_stride, (void)to_stride;
    to[0] = from[0];
#else
    if constexpr (hn::MaxLanes(D()) == 4) {
        const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_stride);
        const auto c = hn::LoadU(d, from + 2 * from_stride), e = hn::LoadU(d, from + 3 * from_stride);
        const auto ac0 = hn::InterleaveLower(d, a, c), ac1 = hn::InterleaveUpper(d, a, c);
        const auto be0 = hn::InterleaveLower(d, b, e), be1 = hn::InterleaveUpper(d, b, e);
        hn::StoreU(hn::InterleaveLower(d, ac0, be0), d, to);
        hn::StoreU(hn::InterleaveUpper(d, ac0, be0), d, to + to_stride);
        hn::StoreU(hn::InterleaveLower(d, ac1, be1), d, to + 2 * to_stride);
        hn::StoreU(hn::InterleaveUpper(d, ac1, be1), d, to + 3 * to_stride);
    } else {
        const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_stride);
        hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
        hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + to_stride);
    }
#endif
}

/// Neighbours in memory that lie far apart are walked in the outer loop: columns of a plane whose rows are a power of
/// two apart would evict each other.
template <class T>
void transpose(const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, T* to,
               std::int64_t to_stride) {
    const hn::CappedTag<T, 16 / sizeof(T)> d;
    const auto n = static_cast<std::int64_t>(hn::Lanes(d));
    const std::int64_t whole_rows = rows / n * n, whole_columns = columns / n * n;
    if (from_stride > to_stride) {
        for (std::int64_t i = 0; i < whole_rows; i += n) {
            for (std::int64_t j = 0; j < whole_columns; j += n) {
                transpose_square(d, from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
            }
        }
    } else {
        for (std::int64_t j = 0; j < whole_columns; j += n) {
            for (std::int64_t i = 0; i < whole_rows; i += n) {
                transpose_square(d, from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
            }
        }
    }
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) {
            to[j * to_stride + i] = from[i * from_stride + j];
        }
    }
}

template <class T> const RowKernels<T> table{gather<T>, scatter<T>, dots<T>, transpose<T>};

}  // namespace

const RowKernels<float>& floats() { return table<float>; }
const RowKernels<double>& doubles() { return table<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::grid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::grid {

HWY_EXPORT(floats);
HWY_EXPORT(doubles);

template <> const RowKernels<float>& row_kernels() {
    static const RowKernels<float>& found = HWY_DYNAMIC_DISPATCH(floats)();
    return found;
}
template <> const RowKernels<double>& row_kernels() {
    static const RowKernels<double>& found = HWY_DYNAMIC_DISPATCH(doubles)();
    return found;
}

}  // namespace calor::ops::grid
#endif
