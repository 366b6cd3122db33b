// Reading and writing by indices against plain index arithmetic: ranks, dtypes, index dtypes, strides, threads;
// gradients; indices out of range.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "gradient_check.h"
#include "strided.h"

namespace ca = calor;
using namespace calor::testing;
using ca::Dims;
using ca::Shape;
using ca::Tensor;

namespace {

/// Indices in [0, size), with repetitions.
Tensor some_indices(const Shape& shape, std::int64_t size, ca::DType dtype = ca::i64, std::uint32_t seed = 1) {
    std::mt19937 engine(seed);
    std::vector<std::int64_t> values(static_cast<std::size_t>(numel(shape)));
    for (auto& v : values) v = static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(size));
    return ca::tensor(values, shape).to(dtype);
}
std::vector<std::int64_t> integers(const Tensor& t) { return t.to(ca::i64).to_vector<std::int64_t>(); }

/// Calls body(flat place in x, flat place in the indices) in row-major order of the indices.
template <class F> void walk(const Tensor& x, const Tensor& indices, std::int64_t axis, const F& body) {
    const auto at = integers(indices);
    std::size_t i = 0;
    for_each_index(indices.shape(), [&](const Dims& index) {
        Dims from = index;
        from[axis] = at[i];
        body(flat(x.shape(), from), i++);
    });
}

void expect_all(const Tensor& x, const Tensor& indices, const Tensor& values, std::int64_t axis) {
    const auto from = values_of(x), v = values_of(values);
    std::vector<double> picked(v.size()), written = from, summed = from;
    walk(x, indices, axis, [&](std::size_t place, std::size_t i) {
        picked[i] = from[place];
        written[place] = v[i];
        summed[place] += v[i];
    });
    ASSERT_EQ(values_of(ca::gather(x, axis, indices)), picked);
    ASSERT_EQ(values_of(ca::scatter(x, axis - x.rank(), indices, values)), written);
    if (x.dtype() == ca::boolean) return;
    if (size_of(x.dtype()) == 1) {
        for (double& s : summed)
            s = x.dtype() == ca::u8 ? static_cast<std::uint8_t>(static_cast<int>(s))
                                    : static_cast<std::int8_t>(static_cast<int>(s));
    }
    if (x.dtype() == ca::bf16) {
        for (double& s : summed) s = ca::bfloat16(static_cast<float>(s));
    }
    ASSERT_EQ(values_of(ca::scatter_add(x, axis, indices, values)), summed);
}

TEST(Gather, ReadsWritesAndAdds) {
    for (const ca::DType dtype : every_dtype) {
        for (std::int64_t rank = 1; rank <= 4; ++rank) {
            const Shape shape = shape_of_rank(rank);
            for (std::int64_t axis = 0; axis < rank; ++axis) {
                Shape at = shape;
                at[axis] += 3;
                const Tensor indices = some_indices(at, shape[axis]), values = counting(at, dtype);
                const auto xs = under_other_strides(counting(shape, dtype)), is = under_other_strides(indices);
                const auto vs = under_other_strides(values);
                for (std::size_t k = 0; k < xs.size(); ++k) expect_all(xs[k], is[k], vs[(k + 1) % vs.size()], axis);
            }
        }
    }
}

TEST(Gather, TakesEveryIndexDtypeAndShorterAxes) {
    const Tensor x = counting({4, 3, 5}, ca::f32);
    for (const ca::DType dtype : {ca::i64, ca::i32, ca::i16, ca::i8, ca::u64, ca::u32, ca::u16, ca::u8}) {
        const Tensor indices = some_indices({7, 2, 4}, 4, dtype);
        expect_all(x, indices, counting({7, 2, 4}, ca::f32), 0);
    }
    const Tensor order = ca::tensor({2, 0, 1});
    EXPECT_EQ(ca::take_along_axis(x, ca::reshape(order, {1, 3, 1}), 1).shape(), (Shape{4, 3, 5}));
    const Tensor row = ca::tensor({{1.F, 2.F, 3.F}});
    EXPECT_EQ(ca::take_along_axis(row, ca::tensor({{2, 0}, {1, 1}})).to_vector<float>(),
              (std::vector<float>{3, 1, 2, 2}));
}

TEST(Gather, LongAxesOnAnyThreadCount) {
    const int before = ca::thread_count();
    for (const ca::DType dtype : {ca::f32, ca::f16, ca::i16}) {
        const Tensor x = random_tensor({1000}, 3, -1, 1, ca::f32).to(dtype),
                     values = random_tensor({200000}, 4, 0, 2).to(dtype);
        const Tensor indices = some_indices({200000}, 1000, ca::i32);
        const Tensor wide_x = random_tensor({70, 40, 3}, 3).to(dtype),
                     wide_values = random_tensor({70, 900, 3}, 4).to(dtype);
        const Tensor wide = some_indices({70, 900, 3}, 40);
        std::vector<std::vector<double>> results[3];
        for (int threads = 1; threads <= 3; ++threads) {
            ca::set_thread_count(threads);
            for (const Tensor& t :
                 {ca::scatter_add(x, 0, indices, values), ca::scatter(x, 0, indices, values),
                  ca::scatter_add(wide_x, 1, wide, wide_values), ca::scatter(wide_x, 1, wide, wide_values),
                  ca::index_add(wide_x, 1, ca::select(ca::select(wide, 2, 0), 0, 0),
                                ca::slice(wide_values, 1, {0, 900}))}) {
                results[threads - 1].push_back(values_of(t));
            }
        }
        EXPECT_EQ(results[0], results[1]);
        EXPECT_EQ(results[0], results[2]);
    }
    ca::set_thread_count(before);
}

TEST(Scatter, LastOneWins) {
    const Tensor x = ca::zeros({3}, ca::i32), at = ca::tensor({1, 1, 0, 1});
    EXPECT_EQ(ca::scatter(x, 0, at, ca::tensor({5, 6, 7, 8})).to_vector<int>(), (std::vector<int>{7, 8, 0}));
    EXPECT_EQ(ca::scatter(x, 0, at, ca::scalar(4, ca::i32)).to_vector<int>(), (std::vector<int>{4, 4, 0}));
    const Tensor v = ca::tensor({5.F, 6.F, 7.F, 8.F}).requires_grad();
    const Tensor y = ca::scatter(ca::zeros({3}), 0, at, v);
    EXPECT_EQ(ca::backward(ca::sum(y * ca::tensor({10.F, 20.F, 30.F})))[v].to_vector<float>(),
              (std::vector<float>{0, 0, 10, 20}));
}

TEST(Select, RowsAndReferenceAgreeWithGather) {
    for (const ca::DType dtype : every_dtype) {
        for (std::int64_t rank = 1; rank <= 5; ++rank) {
            const Shape shape = shape_of_rank(rank);
            for (std::int64_t axis = 0; axis < rank; ++axis) {
                const Tensor list = some_indices({9}, shape[axis], ca::i32);
                Shape spread = shape, one(rank, 1);
                spread[axis] = one[axis] = 9;
                const Tensor indices = ca::expand(ca::reshape(list, one), spread), values = counting(spread, dtype);
                for (const Tensor& x : under_other_strides(counting(shape, dtype))) {
                    EXPECT_EQ(values_of(ca::index_select(x, axis, list)), values_of(ca::gather(x, axis, indices)));
                    if (dtype == ca::boolean) continue;
                    for (const Tensor& v : under_other_strides(values)) {
                        EXPECT_EQ(values_of(ca::index_add(x, axis, list, v)),
                                  values_of(ca::scatter_add(x, axis, indices, values)));
                    }
                }
            }
        }
    }
    EXPECT_EQ(ca::index_select(ca::zeros({3, 2}), 0, ca::scalar(1, ca::i64)).shape(), (Shape{1, 2}));
}

TEST(Select, SaysWhichImplementationRan) {
    const ca::OnDevice scope(ca::Device{});
    const Tensor x = counting({50, 64}, ca::f32), at = some_indices({8}, 50);
    EXPECT_NE(ca::explain_plan(ca::index_select(x, 0, at)).find("rows"), std::string::npos);
    EXPECT_NE(ca::explain_plan(ca::index_select(ca::flip(x), 0, at)).find("reference; not rows"), std::string::npos);
}

TEST(Embedding, LooksUpRows) {
    for (const ca::DType dtype : {ca::f32, ca::f16, ca::f64}) {
        const Tensor weight = counting({11, 6}, dtype), at = some_indices({2, 5}, 11);
        const Tensor rows = ca::embedding(weight, at);
        EXPECT_EQ(rows.shape(), (Shape{2, 5, 6}));
        const auto w = values_of(weight), got = values_of(rows);
        const auto i = integers(at);
        for (std::size_t k = 0; k < got.size(); ++k)
            EXPECT_EQ(got[k], w[static_cast<std::size_t>(i[k / 6]) * 6 + k % 6]);
    }
    const Tensor weight = counting({4, 5}, ca::f32).requires_grad(), at = ca::tensor({3, 1, 3, 0, 1, 3});
    const Tensor y = ca::embedding(weight, at, -3);
    EXPECT_EQ(values_of(ca::select(y, 0, 1)), values_of(ca::select(weight, 0, 1)));
    const auto g = ca::backward(ca::sum(y))[weight].to_vector<float>();
    for (std::size_t k = 0; k < g.size(); ++k) EXPECT_EQ(g[k], std::vector<float>({1, 0, 0, 3})[k / 5]);
    EXPECT_EQ(ca::embedding(ca::zeros({0, 5}), ca::zeros({0}, ca::i64)).shape(), (Shape{0, 5}));
    expect_error("index/range", [&] { (void)ca::embedding(weight, at, 4); });
    expect_error("shape/rank", [&] { (void)ca::embedding(ca::scalar(1, ca::f32), at); });
}

TEST(OneHot, MarksClasses) {
    for (const ca::DType dtype : every_dtype) {
        for (const Tensor& at : under_other_strides(some_indices({3, 4}, 5))) {
            const Tensor y = ca::one_hot(at, 5, dtype);
            EXPECT_EQ(y.dtype(), dtype);
            EXPECT_EQ(y.shape(), (Shape{3, 4, 5}));
            const auto i = integers(at);
            const auto got = values_of(y);
            for (std::size_t k = 0; k < got.size(); ++k)
                EXPECT_EQ(got[k], i[k / 5] == static_cast<std::int64_t>(k % 5));
        }
    }
    EXPECT_EQ(ca::one_hot(ca::scalar(2, ca::u8), 3).to_vector<float>(), (std::vector<float>{0, 0, 1}));
    EXPECT_EQ(ca::one_hot(ca::zeros({0}, ca::i64), 0).shape(), (Shape{0, 0}));
    expect_error("index/range", [] { (void)ca::one_hot(ca::tensor({0, 3}), 3).eval(); });
    expect_error("index/range", [] { (void)ca::one_hot(ca::tensor({0}), 0).eval(); });
    expect_error("value/option", [] { (void)ca::one_hot(ca::tensor({0}), -1); });
    expect_error("shape/overflow", [] { (void)ca::one_hot(ca::tensor({0, 1, 2, 3}), std::int64_t{1} << 62); });
}

TEST(Masks, NonzeroSelectFill) {
    const Tensor x = ca::tensor({{0.F, 2.F, 0.F}, {-1.F, 0.F, 3.F}});
    for (const Tensor& t : under_other_strides(x)) {
        EXPECT_EQ(ca::nonzero(t).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 1, 0, 1, 2}));
        EXPECT_EQ(ca::masked_select(t, ca::gt(t, 0)).to_vector<float>(), (std::vector<float>{2, 3}));
        EXPECT_EQ(ca::masked_fill(t, ca::gt(t, 0), 9).to_vector<float>(), (std::vector<float>{0, 9, 0, -1, 0, 9}));
    }
    EXPECT_EQ(ca::nonzero(ca::scalar(3, ca::i32)).shape(), (Shape{1, 0}));
    EXPECT_EQ(ca::nonzero(ca::zeros({0, 4})).shape(), (Shape{0, 2}));
    const Tensor columns = ca::gt(ca::tensor({1, 0, 1}), 0);
    EXPECT_EQ(ca::masked_select(x, columns).to_vector<float>(), (std::vector<float>{0, 0, -1, 3}));
    EXPECT_EQ(ca::masked_select(ca::zeros({0}), ca::zeros({0}, ca::boolean)).shape(), (Shape{0}));
    expect_error("dtype/unsupported", [&] { (void)ca::masked_select(x, x); });
    expect_error("dtype/unsupported", [&] { (void)ca::masked_fill(x, x, 0); });
    expect_error("shape/broadcast", [&] { (void)ca::masked_select(x, ca::zeros({2}, ca::boolean)); });
    expect_error("shape/broadcast", [&] { (void)ca::masked_fill(x, ca::zeros({2}, ca::boolean), 0); });
}

TEST(IndexGradients, FirstAndSecondOrder) {
    const Tensor x = random_tensor({3, 4, 5}, 7), v = random_tensor({3, 6, 5}, 8);
    const Tensor at = some_indices({3, 6, 5}, 4), list = some_indices({6}, 4);
    const auto check = [&](const char* name, const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
        SCOPED_TRACE(name);
        expect_gradients(ca::TensorsFunction([&](const std::vector<Tensor>& in) {
                             return std::vector<Tensor>{f(in[0] * in[0], in[1] * in[1])};
                         }),
                         {x, v});
    };
    check("gather", [&](const Tensor& a, const Tensor&) { return ca::gather(a, 1, at); });
    check("take_along_axis", [&](const Tensor& a, const Tensor&) {
        return ca::take_along_axis(a, ca::slice(at, 0, {0, 1}), 1);
    });
    check("scatter", [&](const Tensor& a, const Tensor& b) { return ca::scatter(a, 1, at, b); });
    check("scatter_add", [&](const Tensor& a, const Tensor& b) { return ca::scatter_add(a, 1, at, b); });
    check("index_select", [&](const Tensor& a, const Tensor&) { return ca::index_select(a, 1, list); });
    check("index_select last", [&](const Tensor& a, const Tensor&) { return ca::index_select(a, -1, list); });
    check("index_add", [&](const Tensor& a, const Tensor& b) { return ca::index_add(a, 1, list, b); });
    check("masked_select", [&](const Tensor& a, const Tensor&) { return ca::masked_select(a, ca::gt(x, 0)); });
    check("masked_fill", [&](const Tensor& a, const Tensor&) { return ca::masked_fill(a, ca::gt(x, 0), 2); });
    check("embedding", [&](const Tensor& a, const Tensor&) { return ca::embedding(a, ca::tensor({2, 0, 2})); });
}

TEST(IndexGradients, PaddingRowGetsNoneToAnyOrder) {
    const Tensor w = random_tensor({4, 5}, 1), at = ca::tensor({3, 1, 3, 0}),
                 u = random_tensor({4, 5}, 2).requires_grad();
    const Tensor leaf = w.requires_grad();
    const auto g = ca::gradients({ca::embedding(leaf, at, 3)}, {leaf}, {u}, {.create_graph = true})[0];
    const auto second = values_of(ca::gradients({g}, {u}, {ca::ones({4, 5}, ca::f64)})[0]);
    for (std::size_t k = 0; k < second.size(); ++k) EXPECT_EQ(second[k], k / 5 == 0 || k / 5 == 2 ? 0 : 1);
}

TEST(IndexGradients, OfEmptyTensors) {
    const Tensor x = ca::zeros({4, 3}).requires_grad(), none = ca::zeros({0}, ca::i64);
    const auto g =
        ca::backward(ca::sum(ca::index_select(x, 0, none)) + ca::sum(ca::gather(x, 0, ca::zeros({0, 3}, ca::i64))));
    EXPECT_EQ(values_of(g[x]), std::vector<double>(12, 0.0));
    const Tensor e = ca::zeros({0, 3}).requires_grad();
    EXPECT_EQ(ca::backward(ca::sum(ca::index_add(e, 0, none, ca::zeros({0, 3}))))[e].shape(), (Shape{0, 3}));
}

TEST(IndexErrors, OutOfRangeIsFoundBeforeAnythingIsWritten) {
    const Tensor x = ca::zeros({3, 4}), v = ca::zeros({2, 4});
    for (const ca::DType dtype : {ca::i64, ca::i32, ca::i8, ca::u64}) {
        for (const std::int64_t bad : {3, -1}) {
            Tensor at = ca::tensor(std::vector<std::int64_t>{0, 1, 2, 0, 0, bad, 1, 1}, {2, 4}).to(dtype);
            const Tensor list = ca::tensor(std::vector<std::int64_t>{0, bad}, {2}).to(dtype);
            expect_error("index/range", [&] { (void)ca::gather(x, 0, at).eval(); });
            expect_error("index/range", [&] { (void)ca::scatter(x, 0, at, v).eval(); });
            expect_error("index/range", [&] { (void)ca::scatter_add(x, 0, at, v).eval(); });
            expect_error("index/range", [&] { (void)ca::index_select(x, 0, list).eval(); });
            expect_error("index/range", [&] { (void)ca::index_add(x, 0, list, v).eval(); });
            expect_error("index/range", [&] { (void)ca::embedding(x, list).eval(); });
        }
    }
    const Tensor y = ca::gather(x, 0, ca::tensor({{0, 1, 7, 9}}));
    const auto line = ca::Where::current().line() - 1;
    try {
        (void)y.eval();
        FAIL();
    } catch (const ca::ValueError& e) {
        EXPECT_EQ(e.where().line(), line);
        EXPECT_NE(e.message().find("index 7 at position 2"), std::string::npos) << e.message();
    }
    EXPECT_FALSE(y.evaluated());
    expect_error("index/range", [] { (void)ca::gather(ca::zeros({0}), 0, ca::tensor({0})).eval(); });
}

TEST(IndexErrors, ShapesAndDtypes) {
    const Tensor x = ca::zeros({3, 4}), at = ca::zeros({3, 4}, ca::i64), list = ca::zeros({2}, ca::i64);
    expect_error("dtype/unsupported", [&] { (void)ca::gather(x, 0, x); });
    expect_error("dtype/unsupported", [&] { (void)ca::gather(x, 0, at.to(ca::boolean)); });
    expect_error("dtype/unsupported", [&] { (void)ca::one_hot(x, 3); });
    expect_error("dtype/unsupported", [&] { (void)ca::embedding(x, x); });
    expect_error("dtype/unsupported", [&] { (void)ca::scatter_add(x.to(ca::boolean), 0, at, x.to(ca::boolean)); });
    expect_error("dtype/unsupported", [&] { (void)ca::index_add(x.to(ca::boolean), 0, list, x.to(ca::boolean)); });
    expect_error("dtype/mismatch", [&] { (void)ca::scatter(x, 0, at, x.to(ca::f64)); });
    expect_error("dtype/mismatch", [&] { (void)ca::index_add(x, 0, list, ca::zeros({2, 4}, ca::f16)); });
    expect_error("shape/rank", [&] { (void)ca::gather(x, 0, list); });
    expect_error("shape/rank", [&] { (void)ca::take_along_axis(x, list); });
    expect_error("shape/rank", [&] { (void)ca::index_select(x, 0, at); });
    expect_error("shape/mismatch", [&] { (void)ca::gather(x, 0, ca::zeros({3, 5}, ca::i64)); });
    expect_error("shape/mismatch", [&] { (void)ca::index_add(x, 0, list, ca::zeros({3, 4})); });
    expect_error("shape/broadcast", [&] { (void)ca::scatter(x, 0, at, ca::zeros({2, 4})); });
    expect_error("shape/broadcast", [&] { (void)ca::take_along_axis(x, ca::zeros({2, 2}, ca::i64), 1); });
    expect_error("axis/range", [&] { (void)ca::gather(x, 2, at); });
    expect_error("axis/range", [&] { (void)ca::index_select(ca::scalar(1, ca::f32), 0, list); });
    expect_error("tensor/undefined", [&] { (void)ca::gather(Tensor(), 0, at); });
    expect_error("tensor/undefined", [&] { (void)ca::scatter(x, 0, at, Tensor()); });
    expect_error("tensor/undefined", [&] { (void)ca::nonzero(Tensor()); });
}

}  // namespace
