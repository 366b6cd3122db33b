#include "ops/norm/cpu/norm_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/norm/cpu/norm_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "device/cpu/element_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::ops {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using cpu::HWY_NAMESPACE::each_pair;
using cpu::HWY_NAMESPACE::lanes_of_wide;
using cpu::HWY_NAMESPACE::load_pair;
using cpu::HWY_NAMESPACE::pair_size;
using cpu::HWY_NAMESPACE::store_pair;
using cpu::HWY_NAMESPACE::store_some;
using cpu::HWY_NAMESPACE::Two;
using cpu::HWY_NAMESPACE::Wide;
using cpu::HWY_NAMESPACE::WideTag;

template <class E> struct Loops {
    using T = Wide<E>;
    using D = WideTag<E>;
    using V = hn::Vec<D>;
    static constexpr std::int64_t lanes = lanes_of_wide<E>();

    static const E* elements(const void* p) { return static_cast<const E*>(p); }
    static E* elements(void* p) { return static_cast<E*>(p); }
    /// The pair at i of an array in the order of pairs.
    static HWY_INLINE Two<E> load(const void* p, std::int64_t i) {
        const auto* at = static_cast<const T*>(p) + i;
        return {hn::LoadU(D(), at), hn::LoadU(D(), at + lanes)};
    }
    static HWY_INLINE void store(Two<E> v, void* p, std::int64_t i) {
        auto* at = static_cast<T*>(p) + i;
        hn::StoreU(v.a, D(), at);
        hn::StoreU(v.b, D(), at + lanes);
    }
    static HWY_INLINE Two<E> both(double value) {
        const T number = value == value ? static_cast<T>(value) : std::numeric_limits<T>::quiet_NaN();
        return {hn::Set(D(), number), hn::Set(D(), number)};
    }
    static HWY_INLINE Two<E> add(Two<E> x, Two<E> y) { return {hn::Add(x.a, y.a), hn::Add(x.b, y.b)}; }
    static HWY_INLINE Two<E> sub(Two<E> x, Two<E> y) { return {hn::Sub(x.a, y.a), hn::Sub(x.b, y.b)}; }
    static HWY_INLINE Two<E> mul(Two<E> x, Two<E> y) { return {hn::Mul(x.a, y.a), hn::Mul(x.b, y.b)}; }
    static HWY_INLINE Two<E> mul_add(Two<E> x, Two<E> y, Two<E> z) {
        return {hn::MulAdd(x.a, y.a, z.a), hn::MulAdd(x.b, y.b, z.b)};
    }
    static HWY_INLINE double sum(Two<E> v) {
        HWY_ALIGN T values[static_cast<std::size_t>(lanes)];
        hn::Store(hn::Add(v.a, v.b), D(), values);
        double s = 0;
        for (const T value : values) s += static_cast<double>(value);
        return s;
    }
    /// out = value(i, load) along a row.
    template <class Value> static HWY_INLINE void write(E* out, std::int64_t n, const Value& value) {
        each_pair<E>(n, E(0), [&](std::int64_t i, auto take) HWY_ATTR {
            const Two<E> v = value(i, take);
            i + pair_size<E> <= n ? store_pair(v, out + i) : store_some(v, out + i, n - i);
        });
    }

    static void row(const void* x, void* y, std::int64_t n, double mean, double scale, double shift, const void* weight,
                    const void* bias) {
        const auto m = both(mean), s = both(scale), b = both(shift);
        const E* in = elements(x);
        if (weight) {
            write(elements(y), n, [&](std::int64_t i, auto take) HWY_ATTR {
                return mul_add(mul(sub(take(in), m), s), load(weight, i), load(bias, i));
            });
        } else {
            write(elements(y), n, [&](std::int64_t, auto take) HWY_ATTR { return mul_add(sub(take(in), m), s, b); });
        }
    }

    static void columns(const void* x, std::int64_t x_stride, void* y, std::int64_t y_stride, std::int64_t rows,
                        std::int64_t width, const void* mean, const void* scale, const void* shift) {
        for (std::int64_t r = 0; r < rows; ++r) {
            const E* in = elements(x) + r * x_stride;
            write(elements(y) + r * y_stride, width, [&](std::int64_t j, auto take) HWY_ATTR {
                return mul_add(sub(take(in), load(mean, j)), load(scale, j), load(shift, j));
            });
        }
    }

    static void row_sums(const void* g, const void* x, std::int64_t n, double mean, double scale, const void* weight,
                         double* sums, void* weight_sums, void* bias_sums) {
        const E *gs = elements(g), *xs = elements(x);
        const auto m = both(mean), s = both(scale);
        auto first = both(0), second = first;
        if (weight) {
            each_pair<E>(n, E(0), [&](std::int64_t i, auto take) HWY_ATTR {
                const Two<E> gv = take(gs), centred = sub(take(xs), m), c = mul(gv, load(weight, i));
                first = add(first, c);
                second = mul_add(c, centred, second);
                store(mul_add(gv, mul(centred, s), load(weight_sums, i)), weight_sums, i);
                store(add(gv, load(bias_sums, i)), bias_sums, i);
            });
        } else {
            each_pair<E>(n, E(0), [&](std::int64_t, auto take) HWY_ATTR {
                const Two<E> gv = take(gs);
                first = add(first, gv);
                second = mul_add(gv, sub(take(xs), m), second);
            });
        }
        sums[0] += sum(first);
        sums[1] += sum(second);
    }

    static void column_sums(const void* g, std::int64_t g_stride, const void* x, std::int64_t x_stride,
                            std::int64_t rows, std::int64_t width, const void* mean, double* first, double* second) {
        constexpr std::int64_t size = norm_columns + pair_size<E>;
        HWY_ALIGN T a[size], b[size];
        std::fill_n(a, width + pair_size<E>, T(0));
        std::fill_n(b, width + pair_size<E>, T(0));
        std::int64_t r = 0;
        const auto take_up = [&](auto count) HWY_ATTR {
            each_pair<E>(width, E(0), [&](std::int64_t j, auto take) HWY_ATTR {
                const Two<E> m = load(mean, j);
                Two<E> av = load(a, j), bv = load(b, j);
                for (int k = 0; k < count(); ++k) {
                    const Two<E> gv = take(elements(g) + (r + k) * g_stride);
                    av = add(av, gv);
                    bv = mul_add(gv, sub(take(elements(x) + (r + k) * x_stride), m), bv);
                }
                store(av, a, j);
                store(bv, b, j);
            });
        };
        for (; r + 4 <= rows; r += 4) take_up([] { return 4; });
        for (; r < rows; ++r) take_up([] { return 1; });
        for (std::int64_t j = 0; j < width; ++j) {
            const std::int64_t at = place_in_pairs(j, evens);
            first[j] += static_cast<double>(a[at]);
            second[j] += static_cast<double>(b[at]);
        }
    }

    static void row_grad(const void* g, const void* x, void* gx, std::int64_t n, double mean, double a, double b,
                         double c, const void* weight) {
        const E *gs = elements(g), *xs = elements(x);
        const auto m = both(mean), av = both(a), bv = both(-b), cv = both(-c);
        if (weight) {
            write(elements(gx), n, [&](std::int64_t i, auto take) HWY_ATTR {
                return mul_add(sub(take(xs), m), cv, mul_add(mul(take(gs), load(weight, i)), av, bv));
            });
        } else {
            write(elements(gx), n, [&](std::int64_t, auto take) HWY_ATTR {
                return mul_add(sub(take(xs), m), cv, mul_add(take(gs), av, bv));
            });
        }
    }

    static void column_grad(const void* g, std::int64_t g_stride, const void* x, std::int64_t x_stride, void* gx,
                            std::int64_t gx_stride, std::int64_t rows, std::int64_t width, const void* mean,
                            const void* a, const void* b, const void* c) {
        for (std::int64_t r = 0; r < rows; ++r) {
            const E *gs = elements(g) + r * g_stride, *xs = elements(x) + r * x_stride;
            write(elements(gx) + r * gx_stride, width, [&](std::int64_t j, auto take) HWY_ATTR {
                const Two<E> centred = sub(take(xs), load(mean, j)), cs = load(c, j), bs = load(b, j), as = load(a, j);
                const Two<E> gv = take(gs);
                return Two<E>{hn::NegMulAdd(centred.a, cs.a, hn::MulSub(gv.a, as.a, bs.a)),
                              hn::NegMulAdd(centred.b, cs.b, hn::MulSub(gv.b, as.b, bs.b))};
            });
        }
    }

    static constexpr std::int64_t evens = std::is_same_v<E, bfloat16> ? lanes : 0;
    static constexpr NormKernels kernels{row, columns, row_sums, column_sums, row_grad, column_grad, evens};
};

}  // namespace

const NormKernels* norm_kernels(DType dtype) {
    switch (dtype) {
        case f64: return &Loops<double>::kernels;
        case f16: return &Loops<float16>::kernels;
        case bf16: return &Loops<bfloat16>::kernels;
        default: return &Loops<float>::kernels;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops {

HWY_EXPORT(norm_kernels);

const NormKernels& find_norm_kernels(DType dtype) { return *HWY_DYNAMIC_DISPATCH(norm_kernels)(dtype); }

}  // namespace calor::ops
#endif
