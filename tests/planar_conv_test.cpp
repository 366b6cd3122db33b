// The planar convolution against plain loops in f64, over many random problems: few channels a group, multipliers,
// strides, dilations, paddings, large kernels, 1 to 4 spatial axes, dtypes and layouts; threads; published cases.
#include "device/cpu/planar_conv.h"

#include "device/cpu/lanes_conv.h"

#include <limits>
#include <stdexcept>

#include "calor/device.h"
#include "contraction_arrays.h"
#include "sanitized.h"

namespace calor::cpu::planar {
namespace {

/// The planar convolution, or that along channels.
struct Functions {
    decltype(&planar::why_not) why_not;
    decltype(&planar::forward) forward;
    decltype(&planar::input_grad) input_grad;
    decltype(&planar::weight_grad) weight_grad;
};
constexpr Functions by_planes{planar::why_not, planar::forward, planar::input_grad, planar::weight_grad};
constexpr Functions by_lanes{lanes::why_not, lanes::forward, lanes::input_grad, lanes::weight_grad};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Dice {
    std::mt19937 engine;
    std::int64_t draw(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(high - low + 1));
    }
};

Case random_case(unsigned seed) {
    Dice dice{std::mt19937(seed)};
    Case c;
    const std::int64_t axes = 1 + dice.draw(0, 7) % 4, in = dice.draw(0, 2) == 0 ? dice.draw(2, 5) : 1;
    const std::int64_t out = dice.draw(0, 2) == 0 ? dice.draw(2, 6) : 1;
    c.s.groups = dice.draw(0, 3) == 0 ? 1 : dice.draw(2, axes < 3 ? 21 : 6);
    c.x = {dice.draw(1, 3), in * c.s.groups};
    c.w = {out * c.s.groups, in};
    for (std::int64_t i = 0; i < axes; ++i) {
        const std::int64_t most = axes == 2 && seed % 5 == 0 ? 11 : axes > 2 ? 3 : 5;
        const std::int64_t k = dice.draw(1, most), d = dice.draw(0, 3) == 0 ? 2 : 1,
                           s = dice.draw(0, 2) == 0 ? dice.draw(2, 3) : 1;
        const std::int64_t low = dice.draw(0, k), high = dice.draw(0, k), extent = d * (k - 1) + 1;
        c.x.push_back(std::max<std::int64_t>(dice.draw(1, axes == 1 ? 60 : axes == 2 ? 19 : 6), extent - low - high));
        c.w.push_back(k);
        c.s.stride.push_back(s);
        c.s.dilation.push_back(d);
        c.s.pad_low.push_back(low);
        c.s.pad_high.push_back(high);
    }
    return c;
}

void check_case(const Case& c, DType dtype, Order x_order, Order w_order, Order y_order,
                const Functions& f = by_planes) {
    const Dims out = output_shape(c);
    Array x(c.x, strides_of(c.x, x_order), dtype), w(c.w, strides_of(c.w, w_order), dtype);
    Array y(out, strides_of(out, y_order), dtype), bias({c.w[0]}, {1}, dtype);
    const View bias_view = bias.view();
    x.fill(1), w.fill(2), bias.fill(3);
    const std::vector<double> xs = x.values(), ws = w.values(), bs = bias.values();
    const std::int64_t places = count_of(out) / (out[0] * out[1]);
    Reference forward_sums(count_of(out));
    for (std::int64_t i = 0; i < count_of(out); ++i) forward_sums.add(i, bs[at(i / places % out[1])]);
    for_products(c.x, c.w, out, c.s, [&](auto i, auto j, auto k) { forward_sums.add(k, xs[at(i)] * ws[at(j)]); });
    ASSERT_EQ(f.why_not(ConvRole::forward, x.view(), w.view(), &bias_view, y.view(), c.s), nullptr);
    f.forward(x.view(), w.view(), &bias_view, y.view(), c.s);
    expect_near(y, forward_sums.values, forward_sums.magnitude);

    y.fill(4);
    const std::vector<double> ys = y.values();
    Reference gx(count_of(c.x)), gw(count_of(c.w)), gb(c.w[0]);
    for_products(c.x, c.w, out, c.s, [&](auto i, auto j, auto k) {
        gx.add(i, ys[at(k)] * ws[at(j)]);
        gw.add(j, ys[at(k)] * xs[at(i)]);
    });
    for (std::int64_t i = 0; i < count_of(out); ++i) gb.add(i / places % out[1], ys[at(i)]);
    f.input_grad(y.view(), w.view(), x.view(), c.s);
    expect_near(x, gx.values, gx.magnitude);
    x.fill(1);
    f.weight_grad(x.view(), y.view(), w.view(), &bias_view, c.s);
    expect_near(w, gw.values, gw.magnitude);
    expect_near(bias, gb.values, gb.magnitude);
}

struct Settings {
    DType dtype;
    Order x, w, y;
};

class Planar : public ::testing::TestWithParam<Settings> {};

TEST_P(Planar, EveryRoleEqualsPlainLoops) {
    const Settings p = GetParam();
    for (std::size_t index = 0; index < cases().size(); ++index) {
        SCOPED_TRACE(::testing::Message() << "case " << index);
        check_case(cases()[index], p.dtype, p.x, p.w, p.y);
        if (HasFatalFailure()) return;
    }
    for (unsigned seed = 0; seed < calor::testing::sampled(60U); ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        check_case(random_case(seed), p.dtype, p.x, p.w, p.y);
        if (HasFatalFailure()) return;
    }
}

/// One channel a group, channels last.
Case depthwise_case(unsigned seed) {
    Case c = random_case(seed);
    const std::int64_t channels = 1 + static_cast<std::int64_t>(seed * 7 % (c.x.rank() > 4 ? 19 : 83));
    c.x[1] = c.w[0] = c.s.groups = channels;
    c.w[1] = 1;
    return c;
}

TEST(Lanes, EveryRoleEqualsPlainLoops) {
    for (unsigned seed = 0; seed < calor::testing::sampled(120U); ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        const DType dtype = seed % 3 == 0 ? f32 : seed % 3 == 1 ? bf16 : f16;
        check_case(depthwise_case(seed), dtype, Order::last, seed % 2 ? Order::plain : Order::last, Order::last,
                   by_lanes);
        if (HasFatalFailure()) return;
    }
    const std::vector<Case> all = {
        {{2, 128, 20, 20}, {128, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 128}},
        {{1, 100, 11, 12}, {100, 1, 3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}, 100}},
        {{1, 24, 6, 7, 9}, {24, 1, 3, 3, 3}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 24}},
        {{1, 16, 70, 70}, {16, 1, 5, 5}, {{1, 1}, {1, 1}, {2, 2}, {2, 2}, 16}},
        {{1, 21, 1, 700}, {21, 1, 1, 3}, {{1, 1}, {1, 1}, {0, 1}, {0, 1}, 21}},
        {{2, 33, 600}, {33, 1, 7}, {{1}, {2}, {9}, {3}, 33}}};
    for (const Case& c : all)
        for (const DType dtype : {f32, bf16, f16})
            check_case(c, dtype, Order::last, Order::plain, Order::last, by_lanes);
}

/// What rounding must not break: NaN stays NaN where it is, infinities of both signs side by side stay what they are.
TEST(DepthwiseBf16, NanAndInfinity) {
    const Case c{{1, 19, 9, 21}, {19, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 19}};
    for (const bool last : {false, true}) {
        const Order order = last ? Order::last : Order::plain;
        Array x(c.x, strides_of(c.x, order), bf16), w(c.w, strides_of(c.w, Order::plain), bf16);
        Array y(c.x, strides_of(c.x, order), bf16);
        for (std::int64_t i = 0; i < count_of(c.x); ++i) x.set(i, static_cast<float>(i % 7));
        for (std::int64_t i = 0; i < count_of(c.w); ++i) w.set(i, i % 9 == 4 ? 1 : 0);
        x.set(100, std::numeric_limits<float>::quiet_NaN());
        x.set(400, std::numeric_limits<float>::infinity());
        x.set(420, -std::numeric_limits<float>::infinity());
        x.set(1000, 3e38F);
        (last ? by_lanes : by_planes).forward(x.view(), w.view(), nullptr, y.view(), c.s);
        const std::vector<double> from = x.values(), to = y.values();
        std::int64_t nans = 0;
        for (std::int64_t i = 0; i < count_of(c.x); ++i) {
            if (to[at(i)] != to[at(i)]) {
                ++nans;
            } else {
                EXPECT_EQ(to[at(i)], from[at(i)]) << i;
            }
        }
        EXPECT_NE(to[100], to[100]);
        EXPECT_LE(nans, 27);  // zero weights times the three
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Planar,
                         ::testing::Values(Settings{f32, Order::plain, Order::plain, Order::plain},
                                           Settings{f32, Order::last, Order::plain, Order::last},
                                           Settings{f32, Order::plain, Order::last, Order::last},
                                           Settings{f32, Order::reversed, Order::reversed, Order::reversed},
                                           Settings{bf16, Order::plain, Order::plain, Order::plain},
                                           Settings{bf16, Order::last, Order::plain, Order::last},
                                           Settings{f16, Order::last, Order::plain, Order::plain}));

std::vector<char> run(const Case& c, ConvRole role, Order order, const Functions& f) {
    const Dims out = output_shape(c);
    Array x(c.x, strides_of(c.x, order), f32), w(c.w, strides_of(c.w, Order::plain), f32);
    Array y(out, strides_of(out, order), f32);
    x.fill(1), w.fill(2), y.fill(3);
    switch (role) {
        case ConvRole::forward: return f.forward(x.view(), w.view(), nullptr, y.view(), c.s), y.storage;
        case ConvRole::input_grad: return f.input_grad(y.view(), w.view(), x.view(), c.s), x.storage;
        default: return f.weight_grad(x.view(), y.view(), w.view(), nullptr, c.s), w.storage;
    }
}

void expect_same_bits(const std::vector<Case>& all, Order order, const Functions& f) {
    const int before = thread_count();
    for (std::size_t index = 0; index < all.size(); ++index)
        for (const ConvRole role : {ConvRole::forward, ConvRole::input_grad, ConvRole::weight_grad}) {
            set_thread_count(1);
            const auto alone = run(all[index], role, order, f);
            for (const int threads : {2, 3, 7}) {
                set_thread_count(threads);
                EXPECT_TRUE(alone == run(all[index], role, order, f)) << index << " with " << threads;
            }
        }
    set_thread_count(before);
}

TEST(PlanarThreads, AnyNumberGivesTheSameBits) {
    std::vector<Case> all = cases();
    for (unsigned seed = 0; seed < calor::testing::sampled(40U); ++seed) all.push_back(random_case(seed));
    all.push_back({{2, 3, 40, 33}, {3, 1, 31, 31}, {{1, 1}, {1, 1}, {15, 15}, {15, 15}, 3}});
    expect_same_bits(all, Order::plain, by_planes);
    std::vector<Case> depthwise;
    for (unsigned seed = 0; seed < calor::testing::sampled(40U); ++seed) depthwise.push_back(depthwise_case(seed));
    expect_same_bits(depthwise, Order::last, by_lanes);
}

/// Large kernels, images of several bands, sizes around whole vectors.
TEST(PlanarShapes, LargeKernelsAndBands) {
    const std::vector<Case> all = {
        {{1, 2, 32, 32}, {2, 1, 31, 31}, {{1, 1}, {1, 1}, {15, 15}, {15, 15}, 2}},
        {{1, 2, 40, 17}, {2, 1, 13, 9}, {{2, 2}, {1, 1}, {6, 4}, {5, 4}, 2}},
        {{2, 1, 25, 40}, {1, 1, 8, 16}, {{1, 2}, {1, 1}, {3, 8}, {4, 7}, 1}},
        {{1, 1, 9, 30}, {1, 1, 9, 11}, {{1, 1}, {1, 2}, {4, 10}, {4, 10}, 1}},
        {{1, 2, 300, 200}, {2, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}},
        {{1, 2, 260, 190}, {2, 1, 5, 3}, {{2, 2}, {1, 1}, {2, 1}, {2, 1}, 2}},
        {{1, 3, 120, 150}, {2, 3, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}},
        {{1, 2, 70000}, {2, 1, 5}, {{1}, {1}, {2}, {2}, 2}},
        {{1, 2, 8, 40, 50}, {2, 1, 3, 3, 3}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 2}},
    };
    for (std::size_t index = 0; index < all.size(); ++index) {
        SCOPED_TRACE(::testing::Message() << "case " << index);
        check_case(all[index], f32, Order::plain, Order::plain, Order::plain);
        if (HasFatalFailure()) return;
    }
}

void set_all(Array& a, float value) {
    for (std::int64_t i = 0; i < count_of(a.shape); ++i) a.set(i, value);
}

/// Ones everywhere, stride 2: a published fault had the last row wrong for 24 groups alone.
void check_ones(std::int64_t groups, Order order, const Functions& f) {
    const Case c{{1, groups, 6, 6}, {groups, 1, 3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}, groups}};
    const Dims out = output_shape(c);
    Array x(c.x, strides_of(c.x, order), f32), w(c.w, strides_of(c.w, Order::plain), f32);
    Array y(out, strides_of(out, order), f32), gw = w, gx = x;
    set_all(x, 1), set_all(w, 1), set_all(y, 1);
    f.weight_grad(x.view(), y.view(), gw.view(), nullptr, c.s);
    const std::vector<double> weights{4, 6, 6, 6, 9, 9, 6, 9, 9}, row{1, 2, 1, 2, 1, 1};
    for (std::int64_t i = 0; i < count_of(c.w); ++i) ASSERT_EQ(gw.get(i), weights[at(i % 9)]) << groups << " at " << i;
    f.input_grad(y.view(), w.view(), gx.view(), c.s);
    for (std::int64_t i = 0; i < count_of(c.x); ++i)
        ASSERT_EQ(gx.get(i), row[at(i % 6)] * row[at(i / 6 % 6)]) << groups << " at " << i;
}

TEST(PlanarKnownValues, OnesForEveryNumberOfGroups) {
    for (std::int64_t groups = 1; groups <= 64; ++groups) {
        check_ones(groups, Order::plain, by_planes);
        check_ones(groups, Order::last, by_planes);
        check_ones(groups, Order::last, by_lanes);
        if (HasFatalFailure()) return;
    }
}

TEST(PlanarKnownValues, DepthwiseWithStride) {
    const Case c{{1, 4, 4, 4}, {4, 1, 3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}, 4}};
    const Dims out = output_shape(c);
    for (const bool last : {false, true}) {
        const Functions& f = last ? by_lanes : by_planes;
        const Order order = last ? Order::last : Order::plain;
        Array x(c.x, strides_of(c.x, order), f32), w(c.w, strides_of(c.w, Order::plain), f32);
        Array y(out, strides_of(out, order), f32), bias({4}, {1}, f32);
        for (std::int64_t i = 0; i < 64; ++i) x.set(i, static_cast<float>(i));
        for (std::int64_t i = 0; i < 36; ++i) w.set(i, static_cast<float>(i));
        for (std::int64_t i = 0; i < 4; ++i) bias.set(i, static_cast<float>(i));
        const View bias_view = bias.view();
        f.forward(x.view(), w.view(), &bias_view, y.view(), c.s);
        const std::vector<double> first{73, 154, 279, 438};
        for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(y.get(i), first[at(i)]);
        set_all(y, 1);
        Array gw = w;
        f.weight_grad(x.view(), y.view(), gw.view(), &bias_view, c.s);
        const std::vector<double> weights{5, 10, 12, 10, 20, 24, 18, 36, 40};
        const std::vector<double> last_weights{53, 106, 108, 106, 212, 216, 114, 228, 232};
        for (std::int64_t i = 0; i < 9; ++i) {
            EXPECT_EQ(gw.get(i), weights[at(i)]);
            EXPECT_EQ(gw.get(27 + i), last_weights[at(i)]);
        }
        for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(bias.get(i), 4);
        f.input_grad(y.view(), w.view(), x.view(), c.s);
        const std::vector<double> inputs{4, 8, 4, 5, 8, 16, 8, 10, 4, 8, 4, 5, 7, 14, 7, 8};
        for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(x.get(i), inputs[at(i)]);
    }
}

TEST(LanesRefusals, HaveReasons) {
    const Dims x{1, 4, 5}, w{4, 2, 3}, w1{4, 1, 3}, y{1, 4, 3};
    const Dims xs = strides_of(x, Order::plain), ws = strides_of(w, Order::plain), ys = strides_of(y, Order::last);
    const View xv{nullptr, f32, &x, &xs}, wv{nullptr, f32, &w, &ws}, w1v{nullptr, f32, &w1, &ws},
        yv{nullptr, f32, &y, &ys};
    EXPECT_STREQ(lanes::why_not(ConvRole::forward, xv, wv, nullptr, yv, {{1}, {1}, {0}, {0}, 2}),
                 "groups of several channels");
    EXPECT_STREQ(lanes::why_not(ConvRole::forward, xv, w1v, nullptr, yv, {{1}, {1}, {0}, {0}, 4}),
                 "channels that are not adjacent");
    EXPECT_THROW(lanes::forward(xv, wv, nullptr, yv, {{1}, {1}, {0}, {0}, 2}), std::runtime_error);
    EXPECT_THROW(lanes::input_grad(yv, wv, xv, {{1}, {1}, {0}, {0}, 2}), std::runtime_error);
    EXPECT_THROW(lanes::weight_grad(xv, yv, wv, nullptr, {{1}, {1}, {0}, {0}, 2}), std::runtime_error);
}

TEST(PlanarRefusals, HaveReasons) {
    const Dims x{1, 2, 5}, w{2, 1, 3}, y{1, 2, 3};
    const Dims xs = strides_of(x, Order::plain), ws = strides_of(w, Order::plain), ys = strides_of(y, Order::plain);
    const View xv{nullptr, f64, &x, &xs}, wv{nullptr, f64, &w, &ws}, yv{nullptr, f64, &y, &ys};
    const ConvSettings s{{1}, {1}, {0}, {0}, 2};
    EXPECT_STREQ(why_not(ConvRole::forward, xv, wv, nullptr, yv, s), "dtypes other than f32, bf16 and f16");
    EXPECT_THROW(forward(xv, wv, nullptr, yv, s), std::runtime_error);
    EXPECT_THROW(input_grad(yv, wv, xv, s), std::runtime_error);
    EXPECT_THROW(weight_grad(xv, yv, wv, nullptr, s), std::runtime_error);
    // A wide dilation makes planes that no memory holds out of an array without memory.
    const Dims big{1, 1, 1 << 15, 1 << 14}, big_w{1, 1, 2, 2}, big_y{1, 1, 1 << 15, 1 << 14}, zero{0, 0, 0, 0};
    const Dims bigs = strides_of(big, Order::plain), big_ws = strides_of(big_w, Order::plain);
    const View bx{nullptr, f32, &big, &zero}, bw{nullptr, f32, &big_w, &big_ws}, by{nullptr, f32, &big_y, &bigs};
    const ConvSettings wide{{1, 1}, {1 << 15, 1 << 14}, {1 << 15, 1 << 14}, {0, 0}, 1};
    EXPECT_NE(why_not(ConvRole::forward, bx, bw, nullptr, by, wide), nullptr);
}

}  // namespace
}  // namespace calor::cpu::planar
