// The Winograd convolution against plain loops in f64 within its stated bound, with 2 to 5 spatial axes, dtypes and
// layouts; threads; the switch; what is refused.
#include "device/cpu/winograd_conv.h"

#include <stdexcept>

#include "calor/calor.h"
#include "contraction_arrays.h"

namespace calor::cpu::winograd {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Dice {
    std::mt19937 engine;
    std::int64_t draw(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(high - low + 1));
    }
};

/// Whole vectors of 16 channels at most; the axes before the last two have any kernel, dilation and padding.
Case random_case(unsigned seed) {
    Dice dice{std::mt19937(seed)};
    const std::int64_t axes = 2 + dice.draw(0, 5) % 4, most = axes > 3 ? 3 : 6;
    Case c;
    c.s.groups = 1;
    c.x = {dice.draw(1, axes > 2 ? 1 : 3), 16 * dice.draw(1, axes > 2 ? 1 : 2)};
    c.w = {16 * dice.draw(1, axes > 2 ? 1 : 2), c.x[1]};
    for (std::int64_t i = 0; i < axes; ++i) {
        const bool last = i + 2 >= axes;
        const std::int64_t k = last ? 3 : dice.draw(1, axes > 3 ? 2 : 3), d = last ? 1 : dice.draw(1, 2),
                           extent = d * (k - 1) + 1;
        const std::int64_t low = dice.draw(-1, 3), high = dice.draw(-1, 3);
        c.x.push_back(std::max<std::int64_t>(dice.draw(1, last ? (axes > 3 ? 6 : 11) : most), extent - low - high));
        c.w.push_back(k);
        c.s.stride.push_back(1);
        c.s.dilation.push_back(d);
        c.s.pad_low.push_back(low);
        c.s.pad_high.push_back(high);
    }
    return c;
}

/// Sums and the sums of magnitudes behind them.
struct Sums {
    explicit Sums(std::int64_t count) : values(at(count)), magnitude(at(count)) {}
    void add(std::int64_t i, double product) {
        values[at(i)] += product;
        magnitude[at(i)] += std::abs(product);
    }
    std::vector<double> values, magnitude;
};

/// The stated bound, and the rounding to the dtype. A result of much smaller products than its neighbours' (at a
/// corner, where most taps lie in the padding) shares their rounding.
void expect_within_bound(Array& got, const Sums& wanted) {
    double mean = 0;
    for (const double m : wanted.magnitude) mean += m / static_cast<double>(wanted.magnitude.size());
    const double rounding = got.dtype == f32 ? 0 : got.dtype == f16 ? 1.0 / 2048 : 1.0 / 256;
    for (std::size_t i = 0; i < wanted.values.size(); ++i) {
        const double bound = 1e-5 * std::max({wanted.magnitude[i], mean, 0.1}) + rounding * std::abs(wanted.values[i]);
        ASSERT_NEAR(got.get(static_cast<std::int64_t>(i)), wanted.values[i], bound) << "at " << i;
    }
}

void check_case(const Case& c, DType dtype, Order x_order, Order w_order, Order y_order, bool with_bias) {
    const Dims out = output_shape(c);
    Array x(c.x, strides_of(c.x, x_order), dtype), w(c.w, strides_of(c.w, w_order), dtype);
    Array y(out, strides_of(out, y_order), dtype), bias({c.w[0]}, {1}, dtype), back({c.x[1]}, {1}, dtype);
    const View bias_view = bias.view(), back_view = back.view();
    x.fill(1), w.fill(2), bias.fill(3), back.fill(5);
    const std::vector<double> xs = x.values(), ws = w.values();
    const auto biased = [&](Array& b, const Dims& shape) {
        Sums sums(count_of(shape));
        const std::int64_t places = count_of(shape) / (shape[0] * shape[1]);
        for (std::int64_t i = 0; with_bias && i < count_of(shape); ++i) sums.add(i, b.get(i / places % shape[1]));
        return sums;
    };
    Sums forward_sums = biased(bias, out);
    for_products(c.x, c.w, out, c.s, [&](auto i, auto j, auto k) { forward_sums.add(k, xs[at(i)] * ws[at(j)]); });
    const View* given = with_bias ? &bias_view : nullptr;
    ASSERT_EQ(why_not(ConvRole::forward, x.view(), w.view(), given, y.view(), c.s), nullptr);
    forward(x.view(), w.view(), given, y.view(), c.s);
    expect_within_bound(y, forward_sums);

    y.fill(4);
    const std::vector<double> ys = y.values();
    Sums gx = biased(back, c.x), gw(count_of(c.w)), gb(c.w[0]);
    for_products(c.x, c.w, out, c.s, [&](auto i, auto j, auto k) {
        gx.add(i, ys[at(k)] * ws[at(j)]);
        gw.add(j, ys[at(k)] * xs[at(i)]);
    });
    const std::int64_t places = count_of(out) / (out[0] * out[1]);
    for (std::int64_t k = 0; k < count_of(out); ++k) gb.add(k / places % out[1], ys[at(k)]);
    weight_grad(x.view(), y.view(), w.view(), given, c.s);
    expect_within_bound(w, gw);
    if (with_bias) expect_within_bound(bias, gb);
    w.fill(2);
    input_grad(y.view(), w.view(), x.view(), c.s, with_bias ? &back_view : nullptr);
    expect_within_bound(x, gx);
}

constexpr unsigned testing_seeds = 36;

TEST(Winograd, EveryRoleStaysWithinTheBound) {
    constexpr Order orders[] = {Order::last, Order::plain, Order::reversed};
    constexpr DType dtypes[] = {f32, f32, bf16, f16};
    for (unsigned seed = 0; seed < testing_seeds; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        check_case(random_case(seed), dtypes[seed % 4], orders[seed % 3], orders[seed / 3 % 3], orders[seed / 2 % 3],
                   seed % 2 == 0);
        if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(Winograd, LargeImagesAndManyChannelsRunInChunks) {
    const ConvSettings s{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
    check_case({{1, 16, 131, 45}, {16, 16, 3, 3}, s}, f32, Order::plain, Order::plain, Order::last, true);
    check_case({{23, 32, 8, 8}, {16, 32, 3, 3}, s}, bf16, Order::last, Order::plain, Order::last, true);
    check_case({{2, 560, 4, 4}, {16, 560, 3, 3}, s}, f32, Order::last, Order::plain, Order::plain, false);
}

std::vector<char> run(const Case& c, ConvRole role) {
    const Dims out = output_shape(c);
    Array x(c.x, strides_of(c.x, Order::last), f32), w(c.w, strides_of(c.w, Order::plain), f32);
    Array y(out, strides_of(out, Order::last), f32);
    x.fill(1), w.fill(2), y.fill(3);
    switch (role) {
        case ConvRole::forward: return forward(x.view(), w.view(), nullptr, y.view(), c.s), y.storage;
        case ConvRole::input_grad: return input_grad(y.view(), w.view(), x.view(), c.s), x.storage;
        default: return weight_grad(x.view(), y.view(), w.view(), nullptr, c.s), w.storage;
    }
}

TEST(WinogradThreads, AnyNumberGivesTheSameBits) {
    const int before = thread_count();
    for (unsigned seed = 0; seed < 12; ++seed)
        for (const ConvRole role : {ConvRole::forward, ConvRole::input_grad, ConvRole::weight_grad}) {
            set_thread_count(1);
            const auto alone = run(random_case(seed), role);
            for (const int threads : {2, 3, 7}) {
                set_thread_count(threads);
                EXPECT_EQ(alone, run(random_case(seed), role)) << seed << " with " << threads;
            }
        }
    set_thread_count(before);
}

TEST(WinogradSwitch, IsNamedAndSwitchedOff) {
    if (default_device().kind != DeviceKind::cpu) return;
    const Tensor x = calor::normal({2, 16, 24, 24}).eval(), w = calor::normal({16, 16, 3, 3}).eval();
    const auto y = [&] { return calor::conv(x, w, {.padding = 1}); };
    EXPECT_NE(explain_plan(y()).find(": winograd"), std::string::npos) << explain_plan(y());
    calor::set_winograd(false);
    EXPECT_FALSE(calor::winograd());
    EXPECT_EQ(explain_plan(y()).find(": winograd"), std::string::npos);
    EXPECT_NE(explain_plan(y()).find("switched off by set_winograd(false)"), std::string::npos) << explain_plan(y());
    calor::set_winograd(true);
    EXPECT_TRUE(calor::winograd());
}

TEST(WinogradRefusals, HaveReasons) {
    const auto reason = [&](Dims x, Dims w, const ConvSettings& s) {
        const Dims y = output_shape({x, w, s});
        const Dims xs = strides_of(x, Order::plain), ws = strides_of(w, Order::plain), ys = strides_of(y, Order::plain);
        const View xv{nullptr, f32, &x, &xs}, wv{nullptr, f32, &w, &ws}, yv{nullptr, f32, &y, &ys};
        const char* text = why_not(ConvRole::forward, xv, wv, nullptr, yv, s);
        if (text != nullptr) {
            EXPECT_THROW(forward(xv, wv, nullptr, yv, s), std::runtime_error);
        }
        return std::string(text != nullptr ? text : "");
    };
    const ConvSettings two{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
    EXPECT_EQ(reason({1, 16, 5, 5}, {16, 16, 3, 3}, two), "");
    EXPECT_EQ(reason({0, 16, 5, 5}, {16, 16, 3, 3}, two), "an axis of size 0");
    EXPECT_EQ(reason({1, 16, 5}, {16, 16, 3}, {{1}, {1}, {1}, {1}, 1}), "kernels other than 3 x 3 along the last axes");
    EXPECT_EQ(reason({1, 16, 5, 5}, {16, 16, 5, 3}, two), "kernels other than 3 x 3 along the last axes");
    EXPECT_EQ(reason({1, 32, 5, 5}, {32, 16, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}), "groups");
    EXPECT_EQ(reason({1, 3, 5, 5}, {16, 3, 3, 3}, two), "channels that are not whole vectors");
    EXPECT_EQ(reason({1, 16, 5, 5}, {16, 16, 3, 3}, {{2, 1}, {1, 1}, {1, 1}, {1, 1}, 1}), "strides");
    EXPECT_EQ(reason({1, 16, 9, 9}, {16, 16, 3, 3}, {{1, 1}, {1, 2}, {1, 1}, {1, 1}, 1}),
              "dilation along the last axes");
    EXPECT_EQ(
        reason({1, 16, 512, 512, 5, 5}, {16, 16, 1, 1, 3, 3}, {Dims(4, 1), Dims(4, 1), Dims(4, 0), Dims(4, 0), 1}),
        "very many planes");
}

}  // namespace
}  // namespace calor::cpu::winograd
