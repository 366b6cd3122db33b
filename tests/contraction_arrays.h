// Arrays of any strides and dtype, and plain loops in f64, for the tests of the CPU's contractions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "device/cpu/conv_types.h"
#include "device/view.h"

namespace calor::cpu {

inline std::int64_t count_of(const Dims& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Row-major strides of the axes taken in the order `order`, outermost first.
inline Dims strides_in(const Dims& shape, const std::vector<std::int64_t>& order) {
    Dims strides(shape.rank(), 1);
    std::int64_t step = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
        strides[order[i]] = step;
        step *= shape[order[i]];
    }
    return strides;
}

enum class Order { plain, last, reversed };

inline Dims strides_of(const Dims& shape, Order order) {
    std::vector<std::int64_t> axes(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    if (order == Order::last) std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
    if (order == Order::reversed) std::reverse(axes.begin(), axes.end());
    return strides_in(shape, axes);
}

/// An array in one of the storage dtypes, with its values also as f64 in row-major order.
struct Array {
    Dims shape, strides;
    DType dtype;
    std::vector<char> storage;
    std::int64_t offset = 0;  ///< elements before the first one, for negative strides

    Array(Dims s, Dims st, DType t) : shape(std::move(s)), strides(std::move(st)), dtype(t) {
        std::int64_t low = 0, high = 0;
        for (std::int64_t i = 0; i < shape.rank(); ++i) {
            const std::int64_t reach = (shape[i] - 1) * strides[i];
            (reach < 0 ? low : high) += reach;
        }
        offset = -low;
        storage.assign(static_cast<std::size_t>((high - low + 1) * size_of(t)), '\x7f');
    }
    View view() { return {storage.data() + offset * size_of(dtype), dtype, &shape, &strides}; }
    std::int64_t place(std::int64_t linear) const {
        std::int64_t at = offset;
        for (std::int64_t i = shape.rank(); i-- > 0;) {
            at += linear % shape[i] * strides[i];
            linear /= shape[i];
        }
        return at;
    }
    template <class T> T& element(std::int64_t linear) { return reinterpret_cast<T*>(storage.data())[place(linear)]; }
    double get(std::int64_t linear) {
        if (dtype == bf16) return element<bfloat16>(linear);
        if (dtype == f16) return element<float16>(linear);
        return element<float>(linear);
    }
    void set(std::int64_t linear, float value) {
        if (dtype == bf16) {
            element<bfloat16>(linear) = bfloat16(value);
        } else if (dtype == f16) {
            element<float16>(linear) = float16(value);
        } else {
            element<float>(linear) = value;
        }
    }
    void fill(unsigned seed) {
        std::mt19937 random(seed);
        for (std::int64_t i = 0; i < count_of(shape); ++i)
            set(i, static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000.0F);
    }
    std::vector<double> values() {
        std::vector<double> all(static_cast<std::size_t>(count_of(shape)));
        for (std::int64_t i = 0; i < count_of(shape); ++i) all[static_cast<std::size_t>(i)] = get(i);
        return all;
    }
};

/// Visits every product of a convolution: f(x index, w index, y index), all linear in row-major order.
template <class F> void for_products(const Dims& x, const Dims& w, const Dims& y, const ConvSettings& s, F&& f) {
    const std::int64_t spatial = x.rank() - 2, out_of_group = w[0] / s.groups;
    Dims x_steps = strides_of(x, Order::plain);
    const std::int64_t taps = count_of(w) / (w[0] * w[1]), places = count_of(y) / (y[0] * y[1]);
    for (std::int64_t n = 0; n < x[0]; ++n)
        for (std::int64_t o = 0; o < w[0]; ++o)
            for (std::int64_t c = 0; c < w[1]; ++c)
                for (std::int64_t t = 0; t < taps; ++t)
                    for (std::int64_t q = 0; q < places; ++q) {
                        std::int64_t at = n * x_steps[0] + (o / out_of_group * w[1] + c) * x_steps[1];
                        std::int64_t tap = t, place = q;
                        bool inside = true;
                        for (std::int64_t i = spatial; i-- > 0;) {
                            const std::int64_t k = tap % w[i + 2], p = place % y[i + 2];
                            tap /= w[i + 2];
                            place /= y[i + 2];
                            const std::int64_t j = p * s.stride[i] + k * s.dilation[i] - s.pad_low[i];
                            inside &= j >= 0 && j < x[i + 2];
                            at += j * x_steps[i + 2];
                        }
                        if (inside) f(at, (o * w[1] + c) * taps + t, (n * w[0] + o) * places + q);
                    }
}

inline double tolerance(DType dtype) { return dtype == f32 ? 2e-5 : dtype == f16 ? 1e-3 : 8e-3; }

/// Every value within the tolerance, relative to the sum of magnitudes behind it.
inline void expect_near(Array& got, const std::vector<double>& wanted, const std::vector<double>& magnitude) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const double value = got.get(static_cast<std::int64_t>(i));
        ASSERT_NEAR(value, wanted[i], tolerance(got.dtype) * (magnitude[i] + 1e-3)) << "at " << i;
    }
}

struct Case {
    Dims x, w;
    ConvSettings s;
};

inline Dims output_shape(const Case& c) {
    Dims y{c.x[0], c.w[0]};
    for (std::int64_t i = 0; i + 2 < c.x.rank(); ++i)
        y.push_back((c.x[i + 2] + c.s.pad_low[i] + c.s.pad_high[i] - c.s.dilation[i] * (c.w[i + 2] - 1) - 1) /
                        c.s.stride[i] +
                    1);
    return y;
}

inline const std::vector<Case>& cases() {
    static const std::vector<Case> all = {
        {{2, 3, 17}, {5, 3, 3}, {{1}, {1}, {1}, {1}, 1}},
        {{2, 8, 40}, {16, 8, 9}, {{2}, {1}, {4}, {3}, 1}},
        {{1, 6, 30}, {4, 3, 4}, {{3}, {2}, {5}, {0}, 2}},
        {{2, 1, 12, 13}, {32, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}},
        {{2, 1, 12, 12}, {8, 1, 5, 5}, {{1, 1}, {1, 1}, {2, 2}, {2, 2}, 1}},
        {{3, 16, 9, 7}, {24, 16, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}},
        {{3, 5, 9, 7}, {7, 5, 3, 2}, {{2, 1}, {1, 2}, {0, 2}, {1, 1}, 1}},
        {{2, 3, 20, 20}, {16, 3, 7, 7}, {{2, 2}, {1, 1}, {3, 3}, {3, 3}, 1}},
        {{2, 24, 8, 8}, {24, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 24}},
        {{2, 24, 9, 9}, {24, 1, 3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}, 24}},
        {{1, 16, 8, 8}, {32, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 16}},
        {{2, 32, 8, 8}, {32, 8, 3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}, 4}},
        {{2, 32, 7, 7}, {64, 32, 1, 1}, {{1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}},
        {{2, 32, 8, 8}, {16, 32, 1, 1}, {{2, 2}, {1, 1}, {0, 0}, {0, 0}, 1}},
        {{1, 4, 6, 6}, {4, 4, 1, 1}, {{1, 1}, {1, 1}, {2, 0}, {1, 3}, 1}},
        {{2, 16, 11, 11}, {16, 16, 3, 3}, {{1, 1}, {3, 2}, {3, 0}, {1, 4}, 1}},
        {{1, 2, 4, 5}, {3, 2, 2, 2}, {{1, 1}, {1, 1}, {5, 7}, {6, 0}, 1}},
        {{1, 8, 5, 6, 7}, {16, 8, 3, 3, 3}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1}},
        {{1, 3, 6, 5, 7}, {4, 3, 2, 3, 1}, {{1, 2, 3}, {2, 1, 1}, {1, 0, 2}, {0, 3, 1}, 1}},
        {{2, 8, 7, 7, 7}, {8, 8, 3, 3, 3}, {{1, 1, 1}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}, 1}},
        {{1, 8, 5, 6, 7}, {8, 2, 3, 3, 3}, {{2, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 4}},
        {{1, 8, 5, 6, 7}, {8, 1, 3, 3, 3}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 8}},
    };
    return all;
}

struct Reference {
    std::vector<double> values, magnitude;
    explicit Reference(std::int64_t count) : values(static_cast<std::size_t>(count)), magnitude(values) {}
    void add(std::int64_t at, double v) {
        values[static_cast<std::size_t>(at)] += v;
        magnitude[static_cast<std::size_t>(at)] += std::abs(v);
    }
};

/// How the arrays of a problem lie.
struct Settings {
    DType dtype;
    Order x, w, y;
};

/// A convolution's arrays, filled, places for its results, and the sums of every role by plain loops.
struct Problem {
    Dims shape;  ///< of y
    Array x, w, bias, gy;
    Array y, gx, gw, gb;
    Reference sums, x_sums, w_sums, bias_sums;

    Problem(const Case& c, const Settings& p)
        : shape(output_shape(c)),
          x(c.x, strides_of(c.x, p.x), p.dtype),
          w(c.w, strides_of(c.w, p.w), p.dtype),
          bias({c.w[0]}, {1}, p.dtype),
          gy(shape, strides_of(shape, p.y), p.dtype),
          y(gy),
          gx(x),
          gw(w),
          gb(bias),
          sums(count_of(shape)),
          x_sums(count_of(c.x)),
          w_sums(count_of(c.w)),
          bias_sums(c.w[0]) {
        x.fill(1), w.fill(2), bias.fill(3), gy.fill(4);
        const std::vector<double> xs = x.values(), ws = w.values(), bs = bias.values(), ys = gy.values();
        const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
        const std::int64_t places = count_of(shape) / (shape[0] * shape[1]);
        for (std::int64_t i = 0; i < count_of(shape); ++i) {
            const std::int64_t channel = i / places % shape[1];
            sums.add(i, bs[at(channel)]);
            bias_sums.add(channel, ys[at(i)]);
        }
        for_products(c.x, c.w, shape, c.s, [&](auto i, auto j, auto k) {
            sums.add(k, xs[at(i)] * ws[at(j)]);
            x_sums.add(i, ys[at(k)] * ws[at(j)]);
            w_sums.add(j, ys[at(k)] * xs[at(i)]);
        });
    }
    /// y against the sums, and against their positive parts.
    void expect_y() { expect_near(y, sums.values, sums.magnitude); }
    void expect_relu_of_y() {
        std::vector<double> positive = sums.values;
        for (double& v : positive) v = std::max(v, 0.0);
        expect_near(y, positive, sums.magnitude);
    }
    void expect_gx() { expect_near(gx, x_sums.values, x_sums.magnitude); }
    void expect_gw() { expect_near(gw, w_sums.values, w_sums.magnitude); }
    void expect_gb() { expect_near(gb, bias_sums.values, bias_sums.magnitude); }
};

}  // namespace calor::cpu
