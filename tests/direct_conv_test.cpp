// The direct convolution against plain loops in f64, with 1 to 6 spatial axes; identities; threads; what is refused.
#include "device/cpu/direct_conv.h"

#include <stdexcept>

#include "calor/device.h"
#include "contraction_arrays.h"

namespace calor::cpu::direct {
namespace {

const std::vector<Case>& more_cases() {
    static const std::vector<Case> all = [] {
        std::vector<Case> list = cases();
        const std::vector<Case> added = {
            {{2, 3, 4, 5, 4, 3}, {5, 3, 2, 3, 2, 1}, {{1, 2, 1, 1}, {1, 1, 2, 1}, {0, 1, 1, 0}, {1, 1, 0, 0}, 1}},
            {{1, 4, 3, 4, 3, 4, 3},
             {6, 2, 2, 2, 2, 2, 2},
             {{2, 1, 2, 1, 1}, {1, 1, 1, 2, 1}, {1, 1, 0, 0, 1}, {0, 0, 1, 1, 0}, 2}},
            {{1, 2, 2, 3, 2, 3, 2, 2},
             {3, 2, 2, 2, 2, 2, 2, 2},
             {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, Dims(6, 1), Dims(6, 1), 1}},
            {{2, 3, 9, 8}, {4, 3, 3, 3}, {{1, 1}, {1, 1}, {-1, 2}, {1, -2}, 1}},   // cropping
            {{2, 3, 9, 8}, {17, 3, 2, 2}, {{5, 3}, {1, 1}, {0, 0}, {0, 0}, 1}},    // pixels that nothing reads
            {{1, 3, 12, 12}, {20, 3, 4, 4}, {{4, 4}, {1, 1}, {0, 0}, {0, 0}, 1}},  // patches
            {{1, 2, 3, 3}, {2, 2, 1, 1}, {{7, 7}, {1, 1}, {0, 0}, {4, 4}, 1}},
            {{19, 9, 6, 7},
             {33, 9, 3, 3},
             {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}},  // several parts of the weight gradient
        };
        list.insert(list.end(), added.begin(), added.end());
        return list;
    }();
    return all;
}

class Direct : public testing::TestWithParam<Settings> {};

TEST_P(Direct, EveryRoleEqualsPlainLoops) {
    for (std::size_t index = 0; index < more_cases().size(); ++index) {
        const Case& c = more_cases()[index];
        SCOPED_TRACE(testing::Message() << "case " << index);
        Problem p(c, GetParam());
        const View bias = p.bias.view(), gb = p.gb.view();
        ASSERT_EQ(why_not(ConvRole::forward, p.x.view(), p.w.view(), &bias, p.y.view(), c.s), nullptr);
        forward(p.x.view(), p.w.view(), &bias, p.y.view(), c.s);
        p.expect_y();
        forward(p.x.view(), p.w.view(), &bias, p.y.view(), c.s, true);
        p.expect_relu_of_y();
        input_grad(p.gy.view(), p.w.view(), p.gx.view(), c.s);
        p.expect_gx();
        weight_grad(p.x.view(), p.gy.view(), p.gw.view(), &gb, c.s);
        p.expect_gw();
        p.expect_gb();
        if (HasFatalFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Direct,
                         testing::Values(Settings{f32, Order::last, Order::plain, Order::last},
                                         Settings{f32, Order::plain, Order::plain, Order::plain},
                                         Settings{f32, Order::last, Order::last, Order::plain},
                                         Settings{f32, Order::reversed, Order::reversed, Order::reversed},
                                         Settings{bf16, Order::last, Order::plain, Order::last},
                                         Settings{f16, Order::plain, Order::plain, Order::plain}));

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

TEST(DirectThreads, AnyNumberGivesTheSameBits) {
    const int before = thread_count();
    for (std::size_t index = 0; index < more_cases().size(); ++index)
        for (const ConvRole role : {ConvRole::forward, ConvRole::input_grad, ConvRole::weight_grad}) {
            set_thread_count(1);
            const auto alone = run(more_cases()[index], role);
            for (const int threads : {2, 3, 7}) {
                set_thread_count(threads);
                EXPECT_EQ(alone, run(more_cases()[index], role)) << index << " with " << threads;
            }
        }
    set_thread_count(before);
}

TEST(DirectKnownValues, OnesInFourAxes) {
    // 3^4 ones, a 3^4 kernel of ones, padding 1: 81 in the middle, 16 in the corners, 7^4 altogether.
    const Case c{{1, 1, 3, 3, 3, 3}, {1, 1, 3, 3, 3, 3}, {Dims(4, 1), Dims(4, 1), Dims(4, 1), Dims(4, 1), 1}};
    Array x(c.x, strides_of(c.x, Order::plain), f32), w(c.w, strides_of(c.w, Order::plain), f32), y = x;
    for (std::int64_t i = 0; i < 81; ++i) x.set(i, 1), w.set(i, 1);
    forward(x.view(), w.view(), nullptr, y.view(), c.s);
    double sum = 0;
    for (const double v : y.values()) sum += v;
    EXPECT_EQ(sum, 2401);
    EXPECT_EQ(y.get(40), 81);
    EXPECT_EQ(y.get(0), 16);
    EXPECT_EQ(y.get(80), 16);
}

TEST(DirectRefusals, HaveReasons) {
    const ConvSettings s{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
    const auto reason = [&](Dims x, Dims w, Dims y, const ConvSettings& settings, DType dtype = f32,
                            Dims y_strides = {}) {
        const Dims xs = strides_of(x, Order::plain), ws = strides_of(w, Order::plain);
        const Dims ys = y_strides.empty() ? strides_of(y, Order::plain) : y_strides;
        const View xv{nullptr, dtype, &x, &xs}, wv{nullptr, dtype, &w, &ws}, yv{nullptr, dtype, &y, &ys};
        const char* text = why_not(ConvRole::forward, xv, wv, nullptr, yv, settings);
        return std::string(text != nullptr ? text : "");
    };
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 5, 5}, s), "");
    EXPECT_EQ(reason({0, 2, 5, 5}, {3, 2, 3, 3}, {0, 3, 5, 5}, s), "an axis of size 0");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 5, 5}, s, f64), "dtypes other than f32, bf16 and f16");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 4, 5}, s), "an output size that does not follow");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 1, 3, 3}, {1, 3, 5, 5}, s), "groups do not fit");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 4, 5, 5}, s), "shapes do not fit");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 5, 5}, {{1, 1}, {1, 0}, {1, 1}, {1, 1}, 1}),
              "a stride or dilation below 1");
    EXPECT_EQ(reason({1, 2, 5, 5}, {3, 2, 3, 3}, {1, 3, 5, 5}, s, f32, {0, 0, 5, 1}), "an output that overlaps itself");
    EXPECT_EQ(reason({1, 1 << 15, 1 << 8, 1 << 8}, {3, 1 << 15, 3, 3}, {1, 3, 256, 256}, s),
              "an image of 2^31 elements or more");
    EXPECT_EQ(reason({1, 2, 5}, {3, 2, 3}, {1, 3, 5}, s), "ranks differ from 2 + the spatial axes");
    EXPECT_EQ(reason({1, 2}, {3, 2}, {1, 3}, {{}, {}, {}, {}, 1}), "no spatial axis");
    Array x({1, 2, 5}, {10, 5, 1}, f32), w({1, 2, 1}, {2, 1, 1}, f32), y({1, 1, 4}, {4, 4, 1}, f32);
    EXPECT_THROW(forward(x.view(), w.view(), nullptr, y.view(), {{1}, {1}, {0}, {0}, 1}), std::runtime_error);
}

}  // namespace
}  // namespace calor::cpu::direct
