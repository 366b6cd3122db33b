// Sorting: keys against comparisons over dtypes, layouts, axes and sizes; stability; NaN and zeros; gradients; errors.
#include "calor/sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "calor/creation.h"
#include "calor/index.h"
#include "calor/random.h"
#include "calor/view.h"
#include "gradient_check.h"
#include "relaid.h"
#include "strided.h"

namespace ca = calor;
using ca::testing::all_lies;
using ca::testing::Disable;
using ca::testing::expect_error;
using ca::testing::expect_gradients;
using ca::testing::relaid;
using ca::testing::values_of;

namespace {

constexpr ca::DType dtypes[] = {ca::f64, ca::f32, ca::f16, ca::bf16, ca::i64, ca::i32,    ca::i16,
                                ca::i8,  ca::u64, ca::u32, ca::u16,  ca::u8,  ca::boolean};

/// Keys and reference agree in values and places.
void expect_same(const ca::Tensor& x, std::int64_t k, std::int64_t axis, bool descending) {
    const auto run = [&] {
        ca::SortResult r = k == x.size(axis) ? ca::sort(x, axis, descending) : ca::topk(x, k, axis, descending);
        ca::eval({r.values, r.indices});
        return r;
    };
    const ca::SortResult fast = run();
    const Disable keys("keys");
    const ca::SortResult slow = run();
    EXPECT_EQ(fast.indices.to_vector<std::int64_t>(), slow.indices.to_vector<std::int64_t>());
    EXPECT_EQ(values_of(fast.values), values_of(slow.values));
}

TEST(Sort, KeysAgreeWithComparisons) {
    int seed = 0;
    for (const ca::DType dtype : dtypes) {
        for (const std::int64_t n : {1, 7, 300, 3000}) {
            // Few distinct values: ties everywhere.
            const ca::Tensor x = (ca::testing::random_tensor({2, n, 3}, ++seed, 0, 40)).to(dtype);
            const ca::Tensor y = ca::is_signed_integer(dtype) || ca::is_floating(dtype) ? x - 20 : x;
            for (const auto lie : all_lies) {
                expect_same(relaid(y, lie), n, 1, seed % 2 == 0);
                expect_same(relaid(y, lie), std::min<std::int64_t>(n, 5), 1, seed % 2 == 1);
            }
        }
    }
}

TEST(Sort, EveryBitOfTheKeyCounts) {
    const std::int64_t least = INT64_MIN, most = INT64_MAX;
    EXPECT_EQ(ca::sort(ca::tensor({most, std::int64_t{0}, least, std::int64_t{-1}})).indices.to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{2, 3, 1, 0}));
    EXPECT_EQ(ca::argsort(ca::tensor({std::uint64_t{1} << 63U, std::uint64_t{5}, ~std::uint64_t{0}}))
                  .to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{1, 0, 2}));
    EXPECT_EQ(ca::argsort(ca::tensor({1e300, -1e-300, 5e-324, -HUGE_VAL})).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{3, 1, 2, 0}));
    EXPECT_EQ(ca::argsort(ca::tensor({std::int8_t{127}, std::int8_t{-128}, std::int8_t{0}})).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{1, 2, 0}));
}

TEST(Sort, NaNIsLargestZerosAreEqualAndTiesKeepTheirOrder) {
    const float nan = std::nanf("");
    const auto x = ca::tensor({nan, 1.F, -0.F, 0.F, -INFINITY, -nan, INFINITY, 0.F, -0.F});
    EXPECT_EQ(ca::argsort(x).to_vector<std::int64_t>(), (std::vector<std::int64_t>{4, 2, 3, 7, 8, 1, 6, 0, 5}));
    EXPECT_EQ(ca::argsort(x, 0, true).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 5, 6, 1, 2, 3, 7, 8, 4}));
    EXPECT_TRUE(std::signbit(ca::sort(x).values.to_vector<float>()[1]));  // the elements' own bits
    EXPECT_EQ(ca::topk(x, 3).indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 5, 6}));
    EXPECT_EQ(ca::kthvalue(x, 6).values.item<float>(), 1.F);
}

TEST(Sort, FewOfManyWithAndWithoutTies) {
    for (const std::int64_t n : {5000, 100'000}) {
        expect_same(ca::normal({2, n}).to(ca::f32), 50, 1, true);
        expect_same(ca::randint(0, 3, {2, n}), 50, 1, false);
        expect_same(ca::zeros({1, n}, ca::bf16), 20, 1, true);
        expect_same(ca::arange(n).to(ca::f64), 3, 0, true);
        expect_same(ca::arange(n), 3, 0, false);
    }
}

TEST(Sort, ShapesAndEmptyTensors) {
    EXPECT_EQ(ca::sort(ca::zeros({3, 0, 2}), 1).values.shape(), (ca::Shape{3, 0, 2}));
    EXPECT_EQ(ca::sort(ca::zeros({0, 4}), 1).indices.to_vector<std::int64_t>().size(), 0U);
    EXPECT_EQ(ca::topk(ca::zeros({2, 4, 5}), 0, 1).values.shape(), (ca::Shape{2, 0, 5}));
    EXPECT_EQ(ca::kthvalue(ca::zeros({2, 4, 5}), 1, 1).values.shape(), (ca::Shape{2, 5}));
    EXPECT_EQ(ca::sort(ca::full({}, 3.0)).values.item<float>(), 3.F);
    EXPECT_EQ(ca::sort(ca::full({}, 3.0)).indices.item<std::int64_t>(), 0);
    EXPECT_EQ(ca::sort(ca::expand(ca::tensor({1.F}), {4})).indices.to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(Sort, GradientsGoWhereTheValuesCameFrom) {
    const auto x = ca::testing::random_tensor({3, 8, 2}, 5);
    using Tensors = std::vector<ca::Tensor>;
    expect_gradients([](const Tensors& in) { return Tensors{ca::square(ca::sort(in[0], 1).values)}; }, {x});
    expect_gradients([](const Tensors& in) { return Tensors{ca::exp(ca::topk(in[0], 3, 1).values)}; }, {x});
    expect_gradients([](const Tensors& in) { return Tensors{ca::square(ca::kthvalue(in[0], 2, 1).values)}; }, {x});
    const auto tied = ca::tensor({2.F, 5.F, 5.F}).requires_grad();
    EXPECT_EQ(ca::backward(ca::sum(ca::topk(tied, 1).values))[tied].to_vector<float>(), (std::vector<float>{0, 1, 0}));
}

TEST(Sort, Errors) {
    const auto x = ca::zeros({2, 3});
    expect_error("axis/range", [&] { (void)ca::sort(x, 2); });
    expect_error("axis/range", [&] { (void)ca::topk(ca::full({}, 1.0), 1); });
    expect_error("value/option", [&] { (void)ca::topk(x, 4); });
    expect_error("value/option", [&] { (void)ca::topk(x, -1); });
    expect_error("value/option", [&] { (void)ca::kthvalue(x, 0); });
    expect_error("value/option", [&] { (void)ca::kthvalue(ca::zeros({2, 0}), 1); });
    expect_error("tensor/undefined", [&] { (void)ca::argsort({}); });
}

}  // namespace
