// Matrix products: every implementation, dtype and layout against plain sums; broadcasting; gradients; errors.
#include "calor/matmul.h"

#include <gtest/gtest.h>

#include "calor/calor.h"
#include "gradient_check.h"
#include "relaid.h"
#include "sanitized.h"
#include "strided.h"

namespace ca = calor;
using ca::DType;
using ca::Shape;
using ca::Tensor;
using ca::testing::expect_error;
using ca::testing::expect_gradients;
using ca::testing::random_tensor;
using ca::testing::values_of;

namespace {

const char* const choices[] = {"", "small", "small,onednn,cublaslt", "small,onednn,cublaslt,gemm"};

Tensor whole_numbers(const Shape& shape, std::uint32_t seed, DType dtype) {
    std::mt19937 engine(seed);
    std::vector<std::int64_t> v(static_cast<std::size_t>(ca::numel(shape)));
    for (auto& e : v) e = static_cast<std::int64_t>(engine() % 7) - (ca::is_unsigned_integer(dtype) ? 0 : 3);
    return ca::tensor(v, shape).to(dtype);
}

Tensor swapped(const Tensor& t) {
    ca::Axes axes;
    for (std::int64_t a = 0; a < t.rank(); ++a) axes.push_back(a);
    std::swap(axes[t.rank() - 2], axes[t.rank() - 1]);
    return ca::permute(t, axes);
}

/// a [B1, B2, M, K] (batch axes may be 1), b [B1, B2, K, N]: the exact product in i64, then rounded or wrapped to the
/// dtype.
std::vector<double> plain_product(const Tensor& a, const Tensor& b, Shape& shape) {
    const auto va = a.to(ca::i64).to_vector<std::int64_t>(), vb = b.to(ca::i64).to_vector<std::int64_t>();
    const Shape &sa = a.shape(), &sb = b.shape();
    shape = {std::max(sa[0], sb[0]), std::max(sa[1], sb[1]), sa[2], sb[3]};
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < shape[0]; ++i) {
        for (std::int64_t j = 0; j < shape[1]; ++j) {
            const std::int64_t at_a = (i % sa[0] * sa[1] + j % sa[1]) * sa[2] * sa[3],
                               at_b = (i % sb[0] * sb[1] + j % sb[1]) * sb[2] * sb[3];
            for (std::int64_t m = 0; m < shape[2]; ++m) {
                for (std::int64_t n = 0; n < shape[3]; ++n) {
                    std::int64_t sum = 0;
                    for (std::int64_t k = 0; k < sa[3]; ++k) {
                        sum += va[static_cast<std::size_t>(at_a + m * sa[3] + k)] *
                               vb[static_cast<std::size_t>(at_b + k * sb[3] + n)];
                    }
                    out.push_back(sum);
                }
            }
        }
    }
    return values_of(ca::tensor(out, shape).to(a.dtype()));
}

TEST(Matmul, EqualsThePlainSum) {
    const DType dtypes[] = {ca::f64, ca::f32, ca::f16, ca::bf16, ca::i64, ca::i32,
                            ca::i16, ca::i8,  ca::u64, ca::u32,  ca::u16, ca::u8};
    std::mt19937 engine(1);
    const auto draw = [&](std::uint32_t n) { return static_cast<std::int64_t>(1 + engine() % n); };
    const std::uint32_t seeds = ca::default_device().kind == ca::DeviceKind::cpu ? ca::testing::sampled(360U) : 60;
    for (std::uint32_t seed = 0; seed < seeds; ++seed) {
        const DType dtype = dtypes[seed % 12];
        const std::int64_t b1 = draw(3), b2 = draw(3), m = draw(40), n = draw(40), k = draw(30);
        const std::uint32_t broadcast = engine();
        Tensor a = whole_numbers({broadcast & 1 ? 1 : b1, broadcast & 2 ? 1 : b2, m, k}, seed, dtype);
        Tensor b = whole_numbers({broadcast & 4 ? 1 : b1, broadcast & 8 ? 1 : b2, k, n}, seed + 1, dtype);
        Shape shape;
        const std::vector<double> expected = plain_product(a, b, shape);
        a = relaid(a, ca::testing::all_lies[engine() % 4]);
        b = engine() % 2 ? swapped(relaid(swapped(b) + 0, ca::testing::all_lies[engine() % 4]))
                         : relaid(b, ca::testing::all_lies[engine() % 4]);
        for (const char* choice : choices) {
            const ca::testing::Disable guard(choice);
            const Tensor c = ca::matmul(a, b);
            ASSERT_EQ(c.shape(), shape);
            ASSERT_EQ(values_of(c), expected) << ca::name_of(dtype) << " seed " << seed << " without " << choice;
        }
    }
}

TEST(Matmul, BlocksOfTheOwnGemm) {
    for (const DType dtype : {ca::f64, ca::f32, ca::i32, ca::u64}) {
        for (const Shape& s :
             {Shape{150, 600, 300}, Shape{7, 5000, 9}, Shape{1, 257, 1}, Shape{121, 1, 129}, Shape{400, 3, 1}}) {
            const Tensor a = whole_numbers({1, 1, s[0], s[1]}, 1, dtype),
                         b = whole_numbers({1, 1, s[1], s[2]}, 2, dtype);
            Shape shape;
            const std::vector<double> expected = plain_product(a, b, shape);
            const ca::testing::Disable guard("small,onednn,cublaslt");
            EXPECT_EQ(values_of(ca::matmul(a, b)), expected) << ca::to_string(s);
        }
    }
}

/// Sums along the inner axis: tiles of rows and columns of every size, b and its transpose, rows far apart, a bias.
TEST(Matmul, FewColumns) {
    for (const std::int64_t m : {4, 5, 7, 64, 67}) {
        for (const std::int64_t k : {8, 16, 48, 128}) {
            for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 17, 18}) {
                const Tensor a = whole_numbers({1, 1, m, k}, 1, ca::f32), b = whole_numbers({1, 1, k, n}, 2, ca::f32);
                const Tensor bias = whole_numbers({n}, 3, ca::f32);
                Shape shape;
                const std::vector<double> expected = plain_product(a, b, shape);
                const Tensor wide = ca::slice(ca::concat({b, b + 1}, 3), 3, {0, n}), turned = swapped(swapped(b) + 0);
                for (const Tensor& right : {b, wide, turned})
                    EXPECT_EQ(values_of(ca::matmul(a, right)), expected) << m << " " << k << " " << n;
                EXPECT_EQ(values_of(ca::linear(a, ca::reshape(swapped(b), {n, k}), bias)),
                          values_of(ca::matmul(a, b) + bias))
                    << m << " " << k << " " << n;
            }
        }
    }
}

TEST(Matmul, Ranks) {
    const Tensor m = random_tensor({2, 3}, 1), v3 = random_tensor({3}, 2), v2 = random_tensor({2}, 3);
    EXPECT_EQ(ca::matmul(m, v3).shape(), (Shape{2}));
    EXPECT_EQ(ca::matmul(v2, m).shape(), (Shape{3}));
    EXPECT_EQ(ca::matmul(v3, v3).shape(), (Shape{}));
    EXPECT_EQ(ca::matmul(random_tensor({5, 1, 2, 3}, 4), random_tensor({7, 3, 4}, 5)).shape(), (Shape{5, 7, 2, 4}));
    EXPECT_EQ(ca::matmul(random_tensor({5, 2, 3}, 4), v3).shape(), (Shape{5, 2}));
    EXPECT_EQ(ca::matmul(v3, random_tensor({5, 3, 2}, 4)).shape(), (Shape{5, 2}));
    EXPECT_NEAR(ca::dot(v3, v3).item<double>(), ca::testing::dot({v3}, {v3}), 1e-15);
    const std::vector<double> o = values_of(ca::outer(v2, v3)), a = values_of(v2), b = values_of(v3);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(o[i], a[i / 3] * b[i % 3]);
}

TEST(Matmul, Linear) {
    for (const char* choice : choices) {
        const ca::testing::Disable guard(choice);
        for (const DType dtype : {ca::f64, ca::f32, ca::bf16, ca::i16}) {
            const Tensor x = whole_numbers({2, 3, 4}, 1, dtype), w = whole_numbers({5, 4}, 2, dtype),
                         b = whole_numbers({5}, 3, dtype);
            EXPECT_EQ(values_of(ca::linear(x, w, b)), values_of(ca::matmul(x, swapped(w)) + b)) << choice;
            EXPECT_EQ(values_of(ca::linear(x, w)), values_of(ca::matmul(x, swapped(w))));
            EXPECT_EQ(ca::linear(ca::reshape(x, {6, 4}), w, b).shape(), (Shape{6, 5}));
            EXPECT_EQ(ca::linear(whole_numbers({4}, 1, dtype), w, b).shape(), (Shape{5}));
        }
    }
}

TEST(Matmul, GradientsOfAnyOrder) {
    const auto two = [](const std::vector<Tensor>& t) { return std::vector<Tensor>{ca::matmul(t[0], t[1])}; };
    expect_gradients(two, {random_tensor({3, 4}, 1), random_tensor({4, 2}, 2)});
    expect_gradients(two, {random_tensor({4}, 1), random_tensor({4, 2}, 2)});
    expect_gradients(two, {random_tensor({3, 4}, 1), random_tensor({4}, 2)});
    expect_gradients(two, {random_tensor({4}, 1), random_tensor({4}, 2)});
    expect_gradients(two, {random_tensor({2, 1, 3, 4}, 1), random_tensor({5, 4, 2}, 2)});
    expect_gradients(two, {random_tensor({2, 5, 3, 4}, 1), random_tensor({4, 2}, 2)});
    expect_gradients(two, {random_tensor({3, 4}, 1), random_tensor({2, 5, 4, 2}, 2)});
    expect_gradients([](const std::vector<Tensor>& t) { return std::vector<Tensor>{ca::linear(t[0], t[1], t[2])}; },
                     {random_tensor({2, 3, 4}, 1), random_tensor({5, 4}, 2), random_tensor({5}, 3)});
    expect_gradients(
        [](const std::vector<Tensor>& t) {
            return std::vector<Tensor>{ca::outer(t[0], t[1]), ca::dot(t[0], t[0])};
        },
        {random_tensor({3}, 1), random_tensor({5}, 3)});
}

TEST(Matmul, EmptySums) {
    for (const char* choice : choices) {
        const ca::testing::Disable guard(choice);
        for (const DType dtype : {ca::f64, ca::f32, ca::f16, ca::i8}) {
            EXPECT_EQ(values_of(ca::matmul(ca::zeros({2, 0}, dtype), ca::zeros({0, 3}, dtype))),
                      std::vector<double>(6, 0.0));
            EXPECT_EQ(ca::matmul(ca::zeros({0, 2}, dtype), ca::zeros({2, 3}, dtype)).eval().shape(), (Shape{0, 3}));
            EXPECT_EQ(ca::matmul(ca::zeros({0, 4, 2}, dtype), ca::zeros({2, 3}, dtype)).eval().shape(),
                      (Shape{0, 4, 3}));
            EXPECT_EQ(values_of(ca::linear(ca::zeros({2, 0}, dtype), ca::zeros({3, 0}, dtype), ca::ones({3}, dtype))),
                      std::vector<double>(6, 1.0));
        }
    }
    const Tensor x = ca::zeros({0, 4}), w = ca::ones({3, 4}).requires_grad(), b = ca::ones({3}).requires_grad();
    const auto g = ca::backward(ca::sum(ca::linear(x, w, b)));
    EXPECT_EQ(values_of(g.at(w)), std::vector<double>(12, 0.0));
    EXPECT_EQ(values_of(g.at(b)), std::vector<double>(3, 0.0));
}

TEST(Matmul, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    const Tensor a = random_tensor({3, 70, 5000}, 1), b = random_tensor({5000, 90}, 2);
    std::vector<double> first;
    for (const int threads : {1, 2, 3, 7}) {
        ca::set_thread_count(threads);
        const std::vector<double> now = ca::matmul(a, b).to_vector<double>();
        if (first.empty()) first = now;
        EXPECT_TRUE(now == first) << threads;
    }
    ca::set_thread_count(before);
}

TEST(MatmulErrors, Everything) {
    try {
        ca::matmul(ca::ones({2, 3}), ca::ones({4, 5}));
        ADD_FAILURE();
    } catch (const ca::ShapeError& e) {
        EXPECT_EQ(e.code(), "matmul/inner");
        EXPECT_NE(e.message().find("[2, 3] x [4, 5]"), std::string::npos) << e.message();
    }
    expect_error("matmul/inner", [] { ca::matmul(ca::ones({2, 3}), ca::ones({4})); });
    expect_error("matmul/inner", [] { ca::linear(ca::ones({2, 3}), ca::ones({5, 4})); });
    expect_error("matmul/inner", [] { ca::dot(ca::ones({2}), ca::ones({3})); });
    expect_error("shape/broadcast", [] { ca::matmul(ca::ones({2, 3, 4}), ca::ones({3, 4, 5})); });
    expect_error("shape/rank", [] { ca::matmul(ca::ones({}), ca::ones({3})); });
    expect_error("shape/rank", [] { ca::matmul(ca::ones({3}), ca::ones({})); });
    expect_error("shape/rank", [] { ca::linear(ca::ones({3}), ca::ones({3})); });
    expect_error("shape/rank", [] { ca::linear(ca::ones({}), ca::ones({3, 1})); });
    expect_error("shape/rank", [] { ca::dot(ca::ones({3, 1}), ca::ones({3})); });
    expect_error("shape/rank", [] { ca::outer(ca::ones({3}), ca::ones({3, 1})); });
    expect_error("shape/mismatch", [] { ca::linear(ca::ones({2, 4}), ca::ones({5, 4}), ca::ones({4})); });
    expect_error("shape/mismatch", [] { ca::linear(ca::ones({2, 4}), ca::ones({5, 4}), ca::ones({1, 5})); });
    expect_error("dtype/mismatch", [] { ca::matmul(ca::ones({2, 3}), ca::ones({3, 5}, ca::f64)); });
    expect_error("dtype/mismatch", [] { ca::linear(ca::ones({2, 4}), ca::ones({5, 4}), ca::ones({5}, ca::f64)); });
    expect_error("dtype/unsupported", [] { ca::matmul(ca::ones({2, 3}, ca::boolean), ca::ones({3, 5}, ca::boolean)); });
    expect_error("tensor/undefined", [] { ca::matmul(Tensor(), ca::ones({3, 5})); });
    expect_error("tensor/undefined", [] { ca::linear(ca::ones({3, 5}), Tensor()); });
    expect_error("shape/overflow", [] {
        ca::matmul(ca::expand(ca::ones({1, 1}), {std::int64_t{1} << 40, 1}),
                   ca::expand(ca::ones({1, 1}), {1, std::int64_t{1} << 40}));
    });
}

}  // namespace
