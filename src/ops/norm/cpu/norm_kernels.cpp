#include "ops/norm/cpu/norm_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/norm/cpu/norm_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace calor::ops {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(d, i) for vectors, and with one lane at the end.
template <class T, class Body> HWY_INLINE void each(std::int64_t n, const Body& body) {
    const hn::ScalableTag<T> d;
    constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) body(d, i);
    for (; i < n; ++i) body(hn::CappedTag<T, 1>(), i);
}

template <class T, class V> HWY_INLINE double sum_lanes(V v) {
    const hn::ScalableTag<T> d;
    HWY_ALIGN T lanes[hn::MaxLanes(d)];
    hn::Store(v, d, lanes);
    double s = 0;
    for (const T lane : lanes) s += lane;
    return s;
}

template <class T> struct Loops {
    static const T* at(const void* p) { return static_cast<const T*>(p); }
    static T* at(void* p) { return static_cast<T*>(p); }

    static void row(const void* x, void* y, std::int64_t n, double mean, double scale, double shift, const void* weight,
                    const void* bias) {
        const T m = static_cast<T>(mean), s = static_cast<T>(scale), b = static_cast<T>(shift);
        const T* HWY_RESTRICT in = at(x);
        T* out = at(y);
        if (weight) {
            each<T>(n, [&](auto d, std::int64_t i) HWY_ATTR {
                const auto hat = hn::Mul(hn::Sub(hn::LoadU(d, in + i), hn::Set(d, m)), hn::Set(d, s));
                hn::StoreU(hn::MulAdd(hat, hn::LoadU(d, at(weight) + i), hn::LoadU(d, at(bias) + i)), d, out + i);
            });
        } else {
            each<T>(n, [&](auto d, std::int64_t i) HWY_ATTR {
                hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(d, in + i), hn::Set(d, m)), hn::Set(d, s), hn::Set(d, b)), d,
                           out + i);
            });
        }
    }

    static void columns(const void* x, std::int64_t x_stride, void* y, std::int64_t y_stride, std::int64_t rows,
                        std::int64_t width, const void* mean, const void* scale, const void* shift) {
        for (std::int64_t r = 0; r < rows; ++r) {
            const T* HWY_RESTRICT in = at(x) + r * x_stride;
            T* HWY_RESTRICT out = at(y) + r * y_stride;
            each<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
                const auto centred = hn::Sub(hn::LoadU(d, in + j), hn::LoadU(d, at(mean) + j));
                hn::StoreU(hn::MulAdd(centred, hn::LoadU(d, at(scale) + j), hn::LoadU(d, at(shift) + j)), d, out + j);
            });
        }
    }

    static void row_sums(const void* g, const void* x, std::int64_t n, double mean, double scale, const void* weight,
                         double* sums, void* weight_sums, void* bias_sums) {
        const hn::ScalableTag<T> d;
        constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
        const T *gs = at(g), *xs = at(x);
        const T m = static_cast<T>(mean), s = static_cast<T>(scale);
        const auto ms = hn::Set(d, m), ss = hn::Set(d, s);
        auto a = hn::Zero(d), b = a, a2 = a, b2 = a;
        std::int64_t i = 0;
        if (weight) {
            const T* w = at(weight);
            T *ws = at(weight_sums), *bs = at(bias_sums);
            for (; i + lanes <= n; i += lanes) {
                const auto gv = hn::LoadU(d, gs + i), centred = hn::Sub(hn::LoadU(d, xs + i), ms);
                const auto c = hn::Mul(gv, hn::LoadU(d, w + i));
                a = hn::Add(a, c);
                b = hn::MulAdd(c, centred, b);
                hn::StoreU(hn::MulAdd(gv, hn::Mul(centred, ss), hn::LoadU(d, ws + i)), d, ws + i);
                hn::StoreU(hn::Add(gv, hn::LoadU(d, bs + i)), d, bs + i);
            }
            for (std::int64_t k = i; k < n; ++k) {
                ws[k] += gs[k] * ((xs[k] - m) * s);
                bs[k] += gs[k];
            }
        } else {
            for (; i + 2 * lanes <= n; i += 2 * lanes) {
                const auto gv = hn::LoadU(d, gs + i), gv2 = hn::LoadU(d, gs + i + lanes);
                a = hn::Add(a, gv);
                a2 = hn::Add(a2, gv2);
                b = hn::MulAdd(gv, hn::Sub(hn::LoadU(d, xs + i), ms), b);
                b2 = hn::MulAdd(gv2, hn::Sub(hn::LoadU(d, xs + i + lanes), ms), b2);
            }
        }
        double first = sum_lanes<T>(hn::Add(a, a2)), second = sum_lanes<T>(hn::Add(b, b2));
        for (; i < n; ++i) {
            const double c = weight ? static_cast<double>(gs[i]) * at(weight)[i] : static_cast<double>(gs[i]);
            first += c;
            second += c * (xs[i] - m);
        }
        sums[0] += first;
        sums[1] += second;
    }

    static void column_sums(const void* g, std::int64_t g_stride, const void* x, std::int64_t x_stride,
                            std::int64_t rows, std::int64_t width, const void* mean, double* first, double* second) {
        HWY_ALIGN T a[norm_columns], b[norm_columns];
        std::fill_n(a, width, T(0));
        std::fill_n(b, width, T(0));
        std::int64_t r = 0;
        const auto take_up = [&](auto count) HWY_ATTR {
            each<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
                const auto m = hn::LoadU(d, at(mean) + j);
                auto av = hn::LoadU(d, a + j), bv = hn::LoadU(d, b + j);
                for (int k = 0; k < count(); ++k) {
                    const auto gv = hn::LoadU(d, at(g) + (r + k) * g_stride + j);
                    av = hn::Add(av, gv);
                    bv = hn::MulAdd(gv, hn::Sub(hn::LoadU(d, at(x) + (r + k) * x_stride + j), m), bv);
                }
                hn::StoreU(av, d, a + j);
                hn::StoreU(bv, d, b + j);
            });
        };
        for (; r + 4 <= rows; r += 4) take_up([] { return 4; });
        for (; r < rows; ++r) take_up([] { return 1; });
        for (std::int64_t j = 0; j < width; ++j) first[j] += a[j];
        for (std::int64_t j = 0; j < width; ++j) second[j] += b[j];
    }

    static void row_grad(const void* g, const void* x, void* gx, std::int64_t n, double mean, double a, double b,
                         double c, const void* weight) {
        const T m = static_cast<T>(mean), av = static_cast<T>(a), bv = static_cast<T>(b), cv = static_cast<T>(c);
        const T *gs = at(g), *xs = at(x);
        T* out = at(gx);
        if (weight) {
            each<T>(n, [&](auto d, std::int64_t i) HWY_ATTR {
                const auto scaled = hn::Mul(hn::LoadU(d, gs + i), hn::LoadU(d, at(weight) + i));
                const auto rest = hn::MulSub(scaled, hn::Set(d, av), hn::Set(d, bv));
                hn::StoreU(hn::NegMulAdd(hn::Sub(hn::LoadU(d, xs + i), hn::Set(d, m)), hn::Set(d, cv), rest), d,
                           out + i);
            });
        } else {
            each<T>(n, [&](auto d, std::int64_t i) HWY_ATTR {
                const auto rest = hn::MulSub(hn::LoadU(d, gs + i), hn::Set(d, av), hn::Set(d, bv));
                hn::StoreU(hn::NegMulAdd(hn::Sub(hn::LoadU(d, xs + i), hn::Set(d, m)), hn::Set(d, cv), rest), d,
                           out + i);
            });
        }
    }

    static void column_grad(const void* g, std::int64_t g_stride, const void* x, std::int64_t x_stride, void* gx,
                            std::int64_t gx_stride, std::int64_t rows, std::int64_t width, const void* mean,
                            const void* a, const void* b, const void* c) {
        for (std::int64_t r = 0; r < rows; ++r) {
            each<T>(width, [&](auto d, std::int64_t j) HWY_ATTR {
                const auto centred = hn::Sub(hn::LoadU(d, at(x) + r * x_stride + j), hn::LoadU(d, at(mean) + j));
                const auto rest = hn::MulSub(hn::LoadU(d, at(g) + r * g_stride + j), hn::LoadU(d, at(a) + j),
                                             hn::LoadU(d, at(b) + j));
                hn::StoreU(hn::NegMulAdd(centred, hn::LoadU(d, at(c) + j), rest), d, at(gx) + r * gx_stride + j);
            });
        }
    }

    static constexpr NormKernels kernels{row, columns, row_sums, column_sums, row_grad, column_grad};
};

}  // namespace

const NormKernels* norm_kernels(bool wide) { return wide ? &Loops<double>::kernels : &Loops<float>::kernels; }

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops {

HWY_EXPORT(norm_kernels);

const NormKernels& find_norm_kernels(bool wide) { return *HWY_DYNAMIC_DISPATCH(norm_kernels)(wide); }

}  // namespace calor::ops
#endif
