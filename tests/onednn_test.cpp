// Contractions through oneDNN against plain loops in f64: ranks 1 to 3, strides, dilation, groups, asymmetric padding,
// every layout, f32, bf16 and f16; what is refused; the cache; the same bits twice and from several threads.
#include "device/cpu/onednn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <vector>

#include "contraction_arrays.h"
#include "device/cpu/cpu_backend.h"

namespace calor::cpu::onednn {
namespace {

class Convolution : public testing::TestWithParam<Settings> {};

TEST_P(Convolution, EveryRoleEqualsPlainLoops) {
    std::size_t ran = 0;
    for (std::size_t index = 0; index < cases().size(); ++index) {
        const Case& c = cases()[index];
        SCOPED_TRACE(testing::Message() << "case " << index);
        Problem p(c, GetParam());
        const View bias = p.bias.view(), gb = p.gb.view();
        const auto wanted = [&](ConvRole role) {
            const char* reason = conv_why_not(role, p.x.view(), p.w.view(), &bias, p.y.view(), c.s);
            EXPECT_EQ(reason, nullptr) << reason;
            ran += reason == nullptr;
            return reason == nullptr;
        };
        if (wanted(ConvRole::forward)) {
            conv_forward(p.x.view(), p.w.view(), &bias, p.y.view(), c.s);
            p.expect_y();
            conv_forward(p.x.view(), p.w.view(), &bias, p.y.view(), c.s, true);
            p.expect_relu_of_y();
        }
        if (wanted(ConvRole::input_grad)) {
            conv_input_grad(p.gy.view(), p.w.view(), p.gx.view(), c.s);
            p.expect_gx();
        }
        if (wanted(ConvRole::weight_grad)) {
            conv_weight_grad(p.x.view(), p.gy.view(), p.gw.view(), &gb, c.s);
            p.expect_gw();
            p.expect_gb();
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

TEST(Allocation, IsCountedAndComesBack) {
    const std::int64_t before = backend().statistics().in_use;
    backend().reset_peak();
    run_case(cases()[5], ConvRole::forward, Order::plain);
    EXPECT_GT(backend().statistics().peak, before);
    EXPECT_EQ(backend().statistics().in_use, before);
    backend().set_limit(1);
    backend().empty_cache();
    EXPECT_THROW(run_case(cases()[5], ConvRole::forward, Order::plain), MemoryError);
    backend().set_limit(0);
    run_case(cases()[5], ConvRole::forward, Order::plain);
}

}  // namespace
}  // namespace calor::cpu::onednn
