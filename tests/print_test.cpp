// Printing against what NumPy 2.4 prints for the same values (array2string with our prefix, repr's rules for what
// follows).
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "calor/calor.h"
#include "gradient_check.h"

namespace ca = calor;
using ca::Tensor;

namespace {

constexpr float nan = NAN, inf = INFINITY;

void expect(const Tensor& tensor, const char* text) { EXPECT_EQ(to_string(tensor), text); }

TEST(Print, AsNumPyDoes) {
    expect(ca::scalar(1.5, ca::f32), "tensor(1.5)");
    expect(ca::scalar(-3, ca::i32), "tensor(-3, dtype=i32)");
    expect(ca::scalar(true, ca::boolean), "tensor(True)");
    expect(ca::tensor({0.1F, -0.25F, 1e-3F, 100.F}), "tensor([ 1.0e-01, -2.5e-01,  1.0e-03,  1.0e+02])");
    expect(ca::tensor({0.1F, -0.25F, 10.F, 99.125F}), "tensor([ 0.1  , -0.25 , 10.   , 99.125])");
    expect(ca::tensor({0.1, 1.0 / 3, 2e2}), "tensor([1.00000000e-01, 3.33333333e-01, 2.00000000e+02], dtype=f64)");
    expect(ca::tensor({1e10, 1.5, -2.25e-7}), "tensor([ 1.00e+10,  1.50e+00, -2.25e-07], dtype=f64)");
    expect(ca::tensor({1e100, 1.0}), "tensor([1.e+100, 1.e+000], dtype=f64)");
    expect(ca::tensor({1.0F / 3, 1e-5F}), "tensor([3.3333334e-01, 9.9999997e-06])");
    expect(ca::tensor({1.F, nan, -2.5F, inf, -inf}), "tensor([ 1. ,  nan, -2.5,  inf, -inf])");
    expect(ca::tensor({nan, nan}), "tensor([nan, nan])");
    expect(ca::tensor({inf, 1e9F}), "tensor([   inf, 1.e+09])");
    expect(ca::tensor({-inf, 0.F}), "tensor([-inf,   0.])");
    expect(ca::tensor({0.F, -0.F}), "tensor([ 0., -0.])");
    expect(ca::tensor({12345678.F, 0.F}), "tensor([1.2345678e+07, 0.0000000e+00])");
    expect(ca::tensor({99999999.0, 1e6}), "tensor([99999999.,  1000000.], dtype=f64)");
    expect(ca::tensor({0.00012345678901, 0.1}), "tensor([0.00012346, 0.1       ], dtype=f64)");
    expect(ca::tensor({0.19999999999, 1.0}), "tensor([0.2, 1. ], dtype=f64)");
    expect(ca::tensor({1.F, 0.333F, 65504.F}).to(ca::f16), "tensor([1.00e+00, 3.33e-01, 6.55e+04], dtype=f16)");
    expect(ca::tensor({0.1F, 0.333F, 2.F}).to(ca::f16), "tensor([0.1  , 0.333, 2.   ], dtype=f16)");
    expect(ca::tensor({1, -20, 300}).to(ca::i64), "tensor([  1, -20, 300])");
    expect(ca::tensor({1, 20, 255}).to(ca::u8), "tensor([  1,  20, 255], dtype=u8)");
    expect(ca::tensor(std::vector<std::uint64_t>{18446744073709551615U, 0}),
           "tensor([18446744073709551615,                    0], dtype=u64)");
    expect(ca::zeros({0}), "tensor([])");
    expect(ca::zeros({0, 3}, ca::f64), "tensor([], shape=[0, 3], dtype=f64)");
}

TEST(Print, LinesAndSummaries) {
    expect(ca::tensor({{1.F, 2.F}, {3.F, 4.5F}}), R"(tensor([[1. , 2. ],
        [3. , 4.5]]))");
    expect(ca::gt(ca::tensor({{1, 0}, {1, 1}}), 0), R"(tensor([[ True, False],
        [ True,  True]]))");
    expect(ca::arange(30), R"(tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15,
        16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]))");
    expect(ca::reshape(ca::arange(24), {2, 3, 4}), R"(tensor([[[ 0,  1,  2,  3],
         [ 4,  5,  6,  7],
         [ 8,  9, 10, 11]],

        [[12, 13, 14, 15],
         [16, 17, 18, 19],
         [20, 21, 22, 23]]]))");
    expect(ca::reshape(ca::arange(16, ca::f32), {2, 1, 2, 2, 2}), R"(tensor([[[[[ 0.,  1.],
           [ 2.,  3.]],

          [[ 4.,  5.],
           [ 6.,  7.]]]],



        [[[[ 8.,  9.],
           [10., 11.]],

          [[12., 13.],
           [14., 15.]]]]]))");
    expect(ca::arange(1001), "tensor([   0,    1,    2, ...,  998,  999, 1000], shape=[1001])");
    expect(ca::reshape(ca::arange(2000, ca::f64), {20, 100}),
           R"(tensor([[0.000e+00, 1.000e+00, 2.000e+00, ..., 9.700e+01, 9.800e+01,
         9.900e+01],
        [1.000e+02, 1.010e+02, 1.020e+02, ..., 1.970e+02, 1.980e+02,
         1.990e+02],
        [2.000e+02, 2.010e+02, 2.020e+02, ..., 2.970e+02, 2.980e+02,
         2.990e+02],
        ...,
        [1.700e+03, 1.701e+03, 1.702e+03, ..., 1.797e+03, 1.798e+03,
         1.799e+03],
        [1.800e+03, 1.801e+03, 1.802e+03, ..., 1.897e+03, 1.898e+03,
         1.899e+03],
        [1.900e+03, 1.901e+03, 1.902e+03, ..., 1.997e+03, 1.998e+03,
         1.999e+03]], shape=[20, 100], dtype=f64))");
    expect(ca::reshape(ca::arange(1800, ca::i32), {2, 9, 100}), R"(tensor([[[   0,    1,    2, ...,   97,   98,   99],
         [ 100,  101,  102, ...,  197,  198,  199],
         [ 200,  201,  202, ...,  297,  298,  299],
         ...,
         [ 600,  601,  602, ...,  697,  698,  699],
         [ 700,  701,  702, ...,  797,  798,  799],
         [ 800,  801,  802, ...,  897,  898,  899]],

        [[ 900,  901,  902, ...,  997,  998,  999],
         [1000, 1001, 1002, ..., 1097, 1098, 1099],
         [1100, 1101, 1102, ..., 1197, 1198, 1199],
         ...,
         [1500, 1501, 1502, ..., 1597, 1598, 1599],
         [1600, 1601, 1602, ..., 1697, 1698, 1699],
         [1700, 1701, 1702, ..., 1797, 1798, 1799]]],
       shape=[2, 9, 100], dtype=i32))");
    expect(ca::reshape(ca::arange(8000, ca::f32), {4000, 2}), R"(tensor([[0.000e+00, 1.000e+00],
        [2.000e+00, 3.000e+00],
        [4.000e+00, 5.000e+00],
        ...,
        [7.994e+03, 7.995e+03],
        [7.996e+03, 7.997e+03],
        [7.998e+03, 7.999e+03]], shape=[4000, 2]))");
    expect(ca::arange(25, ca::f64) / 7, R"(tensor([0.        , 0.14285714, 0.28571429, 0.42857143, 0.57142857,
        0.71428571, 0.85714286, 1.        , 1.14285714, 1.28571429,
        1.42857143, 1.57142857, 1.71428571, 1.85714286, 2.        ,
        2.14285714, 2.28571429, 2.42857143, 2.57142857, 2.71428571,
        2.85714286, 3.        , 3.14285714, 3.28571429, 3.42857143],
       dtype=f64))");
    expect(ca::arange(22, ca::i32) * 1000, R"(tensor([    0,  1000,  2000,  3000,  4000,  5000,  6000,  7000,  8000,
         9000, 10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000,
        18000, 19000, 20000, 21000], dtype=i32))");
    expect(ca::reshape(ca::arange(60, ca::f32), {2, 30}) * 1.5,
           R"(tensor([[ 0. ,  1.5,  3. ,  4.5,  6. ,  7.5,  9. , 10.5, 12. , 13.5,
         15. , 16.5, 18. , 19.5, 21. , 22.5, 24. , 25.5, 27. , 28.5,
         30. , 31.5, 33. , 34.5, 36. , 37.5, 39. , 40.5, 42. , 43.5],
        [45. , 46.5, 48. , 49.5, 51. , 52.5, 54. , 55.5, 57. , 58.5,
         60. , 61.5, 63. , 64.5, 66. , 67.5, 69. , 70.5, 72. , 73.5,
         75. , 76.5, 78. , 79.5, 81. , 82.5, 84. , 85.5, 87. , 88.5]]))");
    expect(ca::transpose(ca::reshape(ca::arange(6), {2, 3})), R"(tensor([[0, 3],
        [1, 4],
        [2, 5]]))");
}

TEST(Print, OtherDtypes) {
    expect(ca::tensor({0.1F, 1.F, -3.F}).to(ca::bf16), "tensor([ 0.1,  1. , -3. ], dtype=bf16)");
    expect(ca::tensor({1e-6F, 3e38F}).to(ca::bf16), "tensor([1.e-06, 3.e+38], dtype=bf16)");
    expect(ca::tensor({-1, 7}).to(ca::i16), "tensor([-1,  7], dtype=i16)");
}

TEST(Print, StreamsEvaluatesAndSurvivesUndefined) {
    std::ostringstream out;
    const Tensor x = ca::tensor({1.F, 2.F}) + 1;
    out << x << ' ' << Tensor();
    EXPECT_EQ(out.str(), "tensor([2., 3.]) tensor(undefined)");
    EXPECT_TRUE(x.evaluated());
    expect(ca::tensor({1.F}).requires_grad() * 2, "tensor([2.])");
    calor::testing::expect_error("index/range", [] { (void)to_string(ca::one_hot(ca::tensor({5}), 2)); });
}

}  // namespace
