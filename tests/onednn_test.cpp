// Contractions through oneDNN against plain loops in f64: ranks 1 to 3, strides, dilation, groups, asymmetric padding,
// every layout, f32, bf16 and f16; what is refused; the cache; the same bits twice and from several threads.
#include "device/cpu/onednn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#ifdef CALOR_OPENMP
#include <omp.h>
#endif

namespace calor::cpu::onednn {
namespace {

std::int64_t count_of(const Dims& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Row-major strides of the axes taken in the order `order`, outermost first.
Dims strides_in(const Dims& shape, const std::vector<std::int64_t>& order) {
    Dims strides(shape.rank(), 1);
    std::int64_t step = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
        strides[order[i]] = step;
        step *= shape[order[i]];
    }
    return strides;
}

enum class Order { plain, last, reversed };

Dims strides_of(const Dims& shape, Order order) {
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
    template <class T>
    T& element(std::int64_t linear) {
        return reinterpret_cast<T*>(storage.data())[place(linear)];
    }
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
template <class F>
void for_products(const Dims& x, const Dims& w, const Dims& y, const ConvSettings& s, F&& f) {
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

double tolerance(DType dtype) { return dtype == f32 ? 2e-5 : dtype == f16 ? 1e-3 : 8e-3; }

/// Every value within the tolerance, relative to the sum of magnitudes behind it.
void expect_near(Array& got, const std::vector<double>& wanted, const std::vector<double>& magnitude) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const double value = got.get(static_cast<std::int64_t>(i));
        ASSERT_NEAR(value, wanted[i], tolerance(got.dtype) * (magnitude[i] + 1e-3)) << "at " << i;
    }
}

struct Case {
    Dims x, w;
    ConvSettings s;
};

Dims output_shape(const Case& c) {
    Dims y{c.x[0], c.w[0]};
    for (std::int64_t i = 0; i + 2 < c.x.rank(); ++i)
        y.push_back((c.x[i + 2] + c.s.pad_low[i] + c.s.pad_high[i] - c.s.dilation[i] * (c.w[i + 2] - 1) - 1) /
                        c.s.stride[i] +
                    1);
    return y;
}

const std::vector<Case>& cases() {
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

struct Settings {
    DType dtype;
    Order x, w, y;
};

class Convolution : public testing::TestWithParam<Settings> {};

TEST_P(Convolution, EveryRoleEqualsPlainLoops) {
    const Settings p = GetParam();
    std::size_t ran = 0;
    for (std::size_t index = 0; index < cases().size(); ++index) {
        const Case& c = cases()[index];
        SCOPED_TRACE(testing::Message() << "case " << index);
        const Dims out = output_shape(c);
        Array x(c.x, strides_of(c.x, p.x), p.dtype), w(c.w, strides_of(c.w, p.w), p.dtype);
        Array y(out, strides_of(out, p.y), p.dtype), bias({c.w[0]}, {1}, p.dtype);
        const View bias_view = bias.view();
        const auto wanted = [&](ConvRole role) {
            const char* reason = conv_why_not(role, x.view(), w.view(), &bias_view, y.view(), c.s);
            EXPECT_EQ(reason, nullptr) << reason;
            ran += reason == nullptr;
            return reason == nullptr;
        };
        x.fill(1), w.fill(2), bias.fill(3);
        const std::vector<double> xs = x.values(), ws = w.values(), bs = bias.values();
        const std::int64_t places = count_of(out) / (out[0] * out[1]);
        if (wanted(ConvRole::forward)) {
            Reference r(count_of(out));
            for (std::int64_t i = 0; i < count_of(out); ++i)
                r.add(i, bs[static_cast<std::size_t>(i / places % out[1])]);
            for_products(c.x, c.w, out, c.s, [&](auto i, auto j, auto k) {
                r.add(k, xs[static_cast<std::size_t>(i)] * ws[static_cast<std::size_t>(j)]);
            });
            conv_forward(x.view(), w.view(), &bias_view, y.view(), c.s);
            expect_near(y, r.values, r.magnitude);
            conv_forward(x.view(), w.view(), &bias_view, y.view(), c.s, true);
            for (double& v : r.values) v = std::max(v, 0.0);
            expect_near(y, r.values, r.magnitude);
        }
        y.fill(4);
        const std::vector<double> ys = y.values();
        if (wanted(ConvRole::input_grad)) {
            Reference r(count_of(c.x));
            for_products(c.x, c.w, out, c.s, [&](auto i, auto j, auto k) {
                r.add(i, ys[static_cast<std::size_t>(k)] * ws[static_cast<std::size_t>(j)]);
            });
            conv_input_grad(y.view(), w.view(), x.view(), c.s);
            expect_near(x, r.values, r.magnitude);
        }
        x.fill(1);
        if (wanted(ConvRole::weight_grad)) {
            Reference r(count_of(c.w)), rb(c.w[0]);
            for_products(c.x, c.w, out, c.s, [&](auto i, auto j, auto k) {
                r.add(j, ys[static_cast<std::size_t>(k)] * xs[static_cast<std::size_t>(i)]);
            });
            for (std::int64_t i = 0; i < count_of(out); ++i)
                rb.add(i / places % out[1], ys[static_cast<std::size_t>(i)]);
            conv_weight_grad(x.view(), y.view(), w.view(), &bias_view, c.s);
            expect_near(w, r.values, r.magnitude);
            expect_near(bias, rb.values, rb.magnitude);
        }
        if (HasFatalFailure()) return;
    }
    EXPECT_EQ(ran, 3 * cases().size());
}

INSTANTIATE_TEST_SUITE_P(Layouts, Convolution,
                         testing::Values(Settings{f32, Order::plain, Order::plain, Order::plain},
                                         Settings{f32, Order::last, Order::plain, Order::last},
                                         Settings{f32, Order::last, Order::last, Order::last},
                                         Settings{f32, Order::plain, Order::plain, Order::last},
                                         Settings{f32, Order::last, Order::plain, Order::plain},
                                         Settings{f32, Order::reversed, Order::reversed, Order::reversed},
                                         Settings{bf16, Order::plain, Order::plain, Order::plain},
                                         Settings{bf16, Order::last, Order::last, Order::last},
                                         Settings{f16, Order::last, Order::plain, Order::plain}));

TEST(ConvolutionStrides, RepeatedReversedAndGappedOperands) {
    const Case& c = cases()[5];
    const Dims out = output_shape(c);
    Array x(c.x, strides_of(c.x, Order::plain), f32), w(c.w, strides_of(c.w, Order::plain), f32);
    x.fill(1), w.fill(2);
    // One gradient value for everything; weights mirrored; a result with gaps between its rows.
    Array gy(out, Dims(4, 0), f32);
    gy.set(0, 0.5F);
    Dims mirrored = w.strides;
    mirrored[2] = -mirrored[2];
    Array flipped(c.w, mirrored, f32);
    flipped.fill(3);
    Array gapped(c.x, {16 * 9 * 20 + 3, 9 * 20, 20, 2}, f32);
    Reference r(count_of(c.x));
    const auto ws = flipped.values();
    for_products(c.x, c.w, out, c.s, [&](auto i, auto j, auto) { r.add(i, 0.5 * ws[static_cast<std::size_t>(j)]); });
    conv_input_grad(gy.view(), flipped.view(), gapped.view(), c.s);
    expect_near(gapped, r.values, r.magnitude);
}

TEST(ConvolutionRefusals, HaveReasons) {
    const ConvSettings s{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
    const auto reason = [&](Dims x, Dims w, Dims y, const ConvSettings& settings, DType dtype = f32,
                            Dims y_strides = {}) {
        const Dims xs = strides_of(x, Order::plain), ws = strides_of(w, Order::plain);
        const Dims ys = y_strides.empty() ? strides_of(y, Order::plain) : y_strides;
        const View xv{nullptr, dtype, &x, &xs}, wv{nullptr, dtype, &w, &ws}, yv{nullptr, dtype, &y, &ys};
        const char* text = conv_why_not(ConvRole::forward, xv, wv, nullptr, yv, settings);
        return std::string(text != nullptr ? text : "");
    };
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 5, 5}, s), "");
    EXPECT_EQ(reason({0, 2, 5, 5}, {3, 2, 3, 3}, {0, 3, 5, 5}, s), "an axis of size 0");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 5, 5}, s, f64), "dtypes other than f32, bf16 and f16");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 4, 5}, s), "an output size that does not follow");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 1, 3, 3}, {1, 3, 5, 5}, s), "groups do not fit");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 4, 5, 5}, s), "shapes do not fit");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 5, 5}, {{0, 1}, {1, 1}, {1, 1}, {1, 1}, 1}),
              "a stride or dilation below 1");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 3, 3}, {{1, 1}, {1, 1}, {-1, 1}, {1, 1}, 1}),
              "negative padding");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 5, 5}, s, f32, {0, 0, 5, 1}), "an output that overlaps itself");
    EXPECT_EQ(reason({1, 1 << 16, 1 << 8, 1 << 8}, {3, 1 << 16, 3, 3}, {1, 3, 256, 256}, s),
              "an operand of 2^31 elements or more");
    EXPECT_EQ(reason({1, 2, 5}, {3, 2, 3}, {1, 3, 5}, s), "ranks differ from 2 + the spatial axes");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 5, 5}, {{1, 1}, {1}, {1, 1}, {1, 1}, 1}),
              "settings of the wrong length");
    EXPECT_EQ(reason({1, 2}, {3, 2}, {1, 3}, {{}, {}, {}, {}, 1}), "convolution has 1 to 3 spatial axes here");
}

TEST(ConvolutionRefusals, Throw) {
    Array x({1, 2, 5}, {10, 5, 1}, f64), w({1, 2, 1}, {2, 1, 1}, f64), y({1, 1, 5}, {5, 5, 1}, f64);
    EXPECT_THROW(conv_forward(x.view(), w.view(), nullptr, y.view(), {{1}, {1}, {0}, {0}, 1}), std::runtime_error);
    EXPECT_EQ(conv_plan(ConvRole::forward, x.view(), w.view(), nullptr, y.view(), {{1}, {1}, {0}, {0}, 1}), "");
}

struct Product {
    const char* name;
    Dims a, a_strides, b, b_strides, c, c_strides;  // empty strides are row-major
};

const std::vector<Product>& products() {
    static const std::vector<Product> all = {
        {"plain", {7, 5}, {}, {5, 9}, {}, {7, 9}, {}},
        {"a transposed", {7, 5}, {1, 7}, {5, 9}, {}, {7, 9}, {}},
        {"b transposed", {7, 5}, {}, {5, 9}, {1, 5}, {7, 9}, {}},
        {"c transposed", {7, 5}, {}, {5, 9}, {}, {7, 9}, {1, 7}},
        {"all transposed", {7, 5}, {1, 7}, {5, 9}, {1, 5}, {7, 9}, {1, 7}},
        {"gaps", {7, 5}, {11, 1}, {5, 9}, {13, 1}, {7, 9}, {10, 1}},
        {"no unit stride", {7, 5}, {22, 2}, {5, 9}, {40, 3}, {7, 9}, {30, 3}},
        {"reversed", {7, 5}, {-5, 1}, {5, 9}, {9, -1}, {7, 9}, {}},
        {"repeated row", {7, 5}, {0, 1}, {5, 9}, {}, {7, 9}, {}},
        {"repeated column", {7, 5}, {}, {5, 9}, {1, 0}, {7, 9}, {}},
        {"one row", {1, 33}, {}, {33, 17}, {}, {1, 17}, {}},
        {"one column", {19, 33}, {}, {33, 1}, {}, {19, 1}, {}},
        {"strided column", {19, 33}, {}, {33, 1}, {4, 1}, {19, 1}, {3, 1}},
        {"inner one", {6, 1}, {}, {1, 4}, {}, {6, 4}, {}},
        {"one of all", {1, 1}, {}, {1, 1}, {}, {1, 1}, {}},
        {"strided row result", {1, 6}, {}, {6, 4}, {}, {1, 4}, {1, 5}},
        {"batch", {3, 7, 5}, {}, {3, 5, 9}, {}, {3, 7, 9}, {}},
        {"two batch axes", {2, 3, 7, 5}, {}, {2, 3, 5, 9}, {}, {2, 3, 7, 9}, {}},
        {"b broadcast", {3, 7, 5}, {}, {1, 5, 9}, {}, {3, 7, 9}, {}},
        {"b broadcast, stride 0", {3, 7, 5}, {}, {3, 5, 9}, {0, 9, 1}, {3, 7, 9}, {}},
        {"a broadcast", {1, 7, 5}, {}, {3, 5, 9}, {}, {3, 7, 9}, {}},
        {"crossed broadcast", {2, 1, 7, 5}, {}, {1, 3, 5, 9}, {}, {2, 3, 7, 9}, {}},
        {"b broadcast, a transposed", {3, 7, 5}, {35, 1, 7}, {1, 5, 9}, {}, {3, 7, 9}, {}},
        {"rows of one", {4, 1, 5}, {}, {1, 5, 9}, {}, {4, 1, 9}, {}},
        {"rows of one, gaps", {4, 1, 5}, {20, 1, 1}, {1, 5, 9}, {}, {4, 1, 9}, {12, 1, 1}},
        {"heads inside", {2, 3, 8, 4}, {96, 4, 12, 1}, {2, 3, 4, 8}, {96, 4, 1, 12}, {2, 3, 8, 8}, {}},
        {"heads inside, result too", {2, 3, 8, 6}, {}, {2, 3, 6, 4}, {72, 4, 12, 1}, {2, 3, 8, 4}, {96, 4, 12, 1}},
        {"reversed batch", {3, 7, 5}, {-35, 5, 1}, {3, 5, 9}, {}, {3, 7, 9}, {}},
        {"large", {130, 70}, {}, {70, 90}, {}, {130, 90}, {}},
    };
    return all;
}

class Matmul : public testing::TestWithParam<DType> {};

TEST_P(Matmul, EqualsPlainLoops) {
    const auto strides = [](const Dims& shape, const Dims& given) {
        return given.empty() ? strides_of(shape, Order::plain) : given;
    };
    for (const Product& q : products()) {
        SCOPED_TRACE(q.name);
        Array a(q.a, strides(q.a, q.a_strides), GetParam()), b(q.b, strides(q.b, q.b_strides), GetParam());
        Array c(q.c, strides(q.c, q.c_strides), GetParam()), bias({q.c.back()}, {2}, GetParam());
        a.fill(1), b.fill(2), bias.fill(3);
        const std::int64_t m = q.c[q.c.rank() - 2], n = q.c.back(), k = q.a.back();
        const auto as = a.values(), bs = b.values(), biases = bias.values();
        const auto matrix = [&](const Dims& shape, std::int64_t linear, std::int64_t size) {
            std::int64_t at = 0, step = 1;
            for (std::int64_t i = q.c.rank() - 2; i-- > 0;) {
                if (shape[i] != 1) at += linear % q.c[i] * step;
                step *= shape[i];
                linear /= q.c[i];
            }
            return at * size;
        };
        Reference plain(count_of(q.c)), biased(count_of(q.c));
        for (std::int64_t i = 0; i < count_of(q.c); ++i) {
            const std::int64_t column = i % n, row = i / n % m, batch = i / (m * n);
            const std::int64_t a_at = matrix(q.a, batch, m * k) + row * k, b_at = matrix(q.b, batch, k * n) + column;
            biased.add(i, biases[static_cast<std::size_t>(column)]);
            for (std::int64_t j = 0; j < k; ++j) {
                const double v = as[static_cast<std::size_t>(a_at + j)] * bs[static_cast<std::size_t>(b_at + j * n)];
                plain.add(i, v);
                biased.add(i, v);
            }
        }
        ASSERT_EQ(matmul_why_not(a.view(), b.view(), nullptr, c.view()), nullptr);
        matmul(a.view(), b.view(), nullptr, c.view());
        expect_near(c, plain.values, plain.magnitude);
        const View bias_view = bias.view();
        matmul(a.view(), b.view(), &bias_view, c.view(), true);
        for (double& v : biased.values) v = std::max(v, 0.0);
        expect_near(c, biased.values, biased.magnitude);
        if (HasFatalFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Matmul, testing::Values(f32, bf16, f16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

TEST(MatmulPieces, LargeHalfOperandsAreCutButNotChanged) {
    // More than 2^23 elements in a and c: several pieces, cut along the rows, and along the batch.
    for (const bool batched : {false, true}) {
        const Dims as = batched ? Dims{2, 40000, 128} : Dims{70000, 128}, bs = batched ? Dims{2, 128, 8} : Dims{128, 8};
        Dims cs = as;
        cs[cs.rank() - 1] = 8;
        Array a(as, strides_of(as, Order::plain), bf16), b(bs, strides_of(bs, Order::plain), bf16),
            c(cs, strides_of(cs, Order::plain), bf16);
        for (std::int64_t i = 0; i < count_of(as); ++i) a.set(i, static_cast<float>(i / 128 % 7 + i % 3));
        for (std::int64_t i = 0; i < count_of(bs); ++i) b.set(i, static_cast<float>(i % 2));
        matmul(a.view(), b.view(), nullptr, c.view());
        // Column j of b is j % 2 everywhere: c is 0 or the sum of the row, 128 (row % 7) + the sum of (128 row + j)
        // % 3.
        for (std::int64_t row = 0; row < count_of(as) / 128; row += 97) {
            float sum = 0;
            for (std::int64_t j = 0; j < 128; ++j) sum += static_cast<float>(row % 7 + (row * 128 + j) % 3);
            ASSERT_EQ(c.get(row * 8), 0.0);
            ASSERT_EQ(c.get(row * 8 + 1), static_cast<double>(bfloat16(sum))) << row;
        }
    }
}

TEST(MatmulRefusals, HaveReasons) {
    const auto reason = [](Dims a, Dims b, Dims c, DType dtype = f32, Dims c_strides = {}, Dims bias = {}) {
        const Dims as = strides_of(a, Order::plain), bs = strides_of(b, Order::plain), one{1};
        const Dims cs = c_strides.empty() ? strides_of(c, Order::plain) : c_strides;
        const View av{nullptr, dtype, &a, &as}, bv{nullptr, dtype, &b, &bs}, cv{nullptr, dtype, &c, &cs};
        const View bias_view{nullptr, dtype, &bias, &one};
        const char* text = matmul_why_not(av, bv, bias.empty() ? nullptr : &bias_view, cv);
        return std::string(text != nullptr ? text : "");
    };
    EXPECT_EQ(reason({2, 3}, {3, 4}, {2, 4}), "");
    EXPECT_EQ(reason({2, 3}, {2, 4}, {2, 4}), "shapes do not fit");
    EXPECT_EQ(reason({0, 3}, {3, 4}, {0, 4}), "an axis of size 0");
    EXPECT_EQ(reason({2, 0}, {0, 4}, {2, 4}), "an axis of size 0");
    EXPECT_EQ(reason({2, 3}, {3, 4}, {2, 4}, i32), "dtypes other than f32, bf16 and f16");
    EXPECT_EQ(reason({2, 3}, {3, 4}, {2, 4}, f32, {0, 1}), "an output that overlaps itself");
    EXPECT_EQ(reason({2, 2, 3}, {3, 3, 4}, {2, 2, 4}), "batch axes do not fit");
    EXPECT_EQ(reason({3}, {3}, {1}), "fewer than two axes, or operands of different ranks");
    EXPECT_EQ(reason({2, 3}, {3, 4}, {2, 4}, f32, {}, {3}), "a bias of the wrong size");
    EXPECT_EQ(reason({std::int64_t{1} << 20, 1 << 12, 3}, {1, 3, 4}, {std::int64_t{1} << 20, 1 << 12, 4}),
              "sizes beyond 32 bits");
}

std::vector<char> run_case(const Case& c, ConvRole role, Order order) {
    const Dims out = output_shape(c);
    Array x(c.x, strides_of(c.x, order), f32), w(c.w, strides_of(c.w, Order::plain), f32),
        y(out, strides_of(out, order), f32);
    x.fill(1), w.fill(2), y.fill(3);
    if (role == ConvRole::forward) return conv_forward(x.view(), w.view(), nullptr, y.view(), c.s), y.storage;
    if (role == ConvRole::input_grad) return conv_input_grad(y.view(), w.view(), x.view(), c.s), x.storage;
    return conv_weight_grad(x.view(), y.view(), w.view(), nullptr, c.s), w.storage;
}

TEST(Determinism, SameBitsTwiceAndAfterTheCacheForgot) {
    for (const Case& c : cases()) {
        for (const ConvRole role : {ConvRole::forward, ConvRole::input_grad, ConvRole::weight_grad}) {
            const auto first = run_case(c, role, Order::last);
            EXPECT_EQ(first, run_case(c, role, Order::last));
            set_cache_capacity(0);
            EXPECT_EQ(first, run_case(c, role, Order::last));
            set_cache_capacity(1024);
        }
    }
}

TEST(Cache, CountsAndForgets) {
    set_cache_capacity(0);
    set_cache_capacity(2);
    const CacheStatistics before = cache_statistics();
    EXPECT_EQ(before.entries, 0);
    EXPECT_EQ(before.capacity, 2);
    run_case(cases()[5], ConvRole::forward, Order::plain);
    run_case(cases()[5], ConvRole::forward, Order::plain);
    run_case(cases()[6], ConvRole::forward, Order::plain);
    run_case(cases()[7], ConvRole::forward, Order::plain);
    run_case(cases()[5], ConvRole::forward, Order::plain);  // forgotten in between
    const CacheStatistics after = cache_statistics();
    EXPECT_EQ(after.entries, 2);
    EXPECT_EQ(after.misses - before.misses, 4);
    EXPECT_EQ(after.hits - before.hits, 1);
    set_cache_capacity(1024);
}

TEST(Threads, MayCallAtTheSameTime) {
    std::vector<std::vector<char>> alone, together(cases().size());
    for (const Case& c : cases()) alone.push_back(run_case(c, ConvRole::forward, Order::plain));
    set_cache_capacity(3);  // plans come and go meanwhile
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (std::size_t i = t; i < cases().size(); i += 3)
                together[i] = run_case(cases()[i], ConvRole::forward, Order::plain);
        });
    for (std::thread& thread : threads) thread.join();
    set_cache_capacity(1024);
    for (std::size_t i = 0; i < cases().size(); ++i) EXPECT_EQ(alone[i], together[i]) << i;
}

TEST(Allocation, GoesThroughTheCallerAndComesBack) {
    static std::int64_t held = 0, total = 0;
    const Allocator counting{[](std::int64_t bytes, void*) {
                                 held += bytes, total += bytes;
                                 return ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{64});
                             },
                             [](void* data, std::int64_t bytes, void*) {
                                 held -= bytes;
                                 ::operator delete (data, std::align_val_t{64});
                             },
                             nullptr};
    set_allocator(counting);
    run_case(cases()[5], ConvRole::forward, Order::plain);
    EXPECT_GT(total, 0);
    EXPECT_EQ(held, 0);
    set_allocator({[](std::int64_t bytes, void*) {
                       return ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{64});
                   },
                   [](void* data, std::int64_t, void*) { ::operator delete (data, std::align_val_t{64}); }, nullptr});
}

}  // namespace
}  // namespace calor::cpu::onednn
