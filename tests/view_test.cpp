// Views and arrangements against plain index arithmetic, over ranks, dtypes and strides; aliasing; gradients; refusals.
#include <gtest/gtest.h>

#include <limits>

#include "gradient_check.h"
#include "strided.h"

namespace ca = calor;
using namespace calor::testing;
using ca::Dims;
using ca::Shape;
using ca::Tensor;

namespace {

/// The view's element at an index is x's element at source(index).
template <class F> void expect_picks(const Tensor& view, const Tensor& x, const F& source) {
    const auto got = values_of(view), all = values_of(x);
    std::size_t i = 0;
    for_each_index(view.shape(), [&](const Dims& index) { ASSERT_EQ(got[i++], all[flat(x.shape(), source(index))]); });
}

TEST(Reshape, KeepsTheOrderUnderAnyStrides) {
    for (const ca::DType dtype : every_dtype) {
        for (const Tensor& x : under_other_strides(counting({2, 3, 4}, dtype))) {
            for (const Shape& to : {Shape{24}, Shape{4, 6}, Shape{3, -1, 2}, Shape{1, 2, 1, 3, 4, 1}, Shape{2, 12}}) {
                EXPECT_EQ(values_of(ca::reshape(x, to)), values_of(x)) << to_string(to);
            }
        }
    }
    EXPECT_EQ(ca::reshape(ca::zeros({0, 3}), {3, 0, 5}).shape(), (Shape{3, 0, 5}));
    EXPECT_EQ(ca::reshape(ca::zeros({1, 1}), {}).rank(), 0);
}

TEST(Reshape, AliasesWhereStridesAllow) {
    const Tensor x = counting({4, 6, 5}, ca::f32).eval();
    const auto before = ca::memory_statistics(x.device()).allocations;
    (void)ca::reshape(x, {2, 2, 30}).eval();
    (void)ca::reshape(ca::transpose(x, 0, 1), {2, 3, 4, 5, 1}).eval();
    (void)ca::slice(x, {{1, 3}, {}, {.step = -2}}).eval();
    (void)ca::flip(x).eval();
    (void)ca::select(x, 1, -1).eval();
    (void)ca::split(x, 2, 1)[1].eval();
    (void)ca::expand(ca::unsqueeze(x, 0), {7, 4, 6, 5}).eval();
    (void)ca::diagonal(x).eval();
    (void)ca::movedim(x, {0}, {2}).eval();
    (void)ca::contiguous(x).eval();
    EXPECT_EQ(ca::memory_statistics(x.device()).allocations, before);
    (void)ca::reshape(ca::transpose(x, 0, 1), {24, 5}).eval();
    EXPECT_EQ(ca::memory_statistics(x.device()).allocations, before + 1);
}

TEST(Reshape, FlattensAndUnflattens) {
    const Tensor x = counting({2, 3, 4, 5}, ca::i32);
    EXPECT_EQ(ca::flatten(x).shape(), (Shape{120}));
    EXPECT_EQ(ca::flatten(x, 1).shape(), (Shape{2, 60}));
    EXPECT_EQ(ca::flatten(x, 1, -2).shape(), (Shape{2, 12, 5}));
    EXPECT_EQ(ca::flatten(ca::scalar(3, ca::f32)).shape(), (Shape{1}));
    EXPECT_EQ(ca::flatten(ca::zeros({3, 0, 2})).shape(), (Shape{0}));
    EXPECT_EQ(ca::unflatten(x, -1, {5, 1}).shape(), (Shape{2, 3, 4, 5, 1}));
    EXPECT_EQ(ca::unflatten(x, 2, {2, -1}).shape(), (Shape{2, 3, 2, 2, 5}));
    expect_error("value/option", [&] { (void)ca::flatten(x, 2, 1); });
    expect_error("axis/range", [&] { (void)ca::flatten(x, 0, 4); });
    expect_error("reshape/size", [&] { (void)ca::unflatten(x, 2, {3, -1}); });
    expect_error("reshape/size", [&] { (void)ca::unflatten(x, 2, {3}); });
    expect_error("shape/negative", [&] { (void)ca::unflatten(x, 2, {-1, -1}); });
    expect_error("shape/overflow", [&] { (void)ca::unflatten(x, 2, {std::int64_t{1} << 40, std::int64_t{1} << 40}); });
    expect_error("reshape/size", [&] { (void)ca::reshape(x, {7, -1}); });
    expect_error("reshape/size", [&] { (void)ca::reshape(ca::zeros({0}), {0, -1}); });
    expect_error("shape/negative", [&] { (void)ca::reshape(x, {-2, 60}); });
    expect_error("tensor/undefined", [&] { (void)ca::reshape(Tensor(), {1}); });
}

TEST(Axes, PermuteTransposeMoveSqueeze) {
    for (std::int64_t rank = 2; rank <= 6; ++rank) {
        for (const Tensor& x : under_other_strides(counting(shape_of_rank(rank), ca::i16))) {
            const auto swapped = [&](const Dims& index) {
                Dims from = index;
                std::swap(from[0], from[rank - 1]);
                return from;
            };
            expect_picks(ca::transpose(x, 0, -1), x, swapped);
            expect_picks(ca::contiguous(ca::transpose(x, 0, -1)), x, swapped);
            expect_picks(ca::movedim(x, {0}, {-1}), x, [&](const Dims& index) {
                Dims from{index[rank - 1]};
                for (std::int64_t a = 0; a + 1 < rank; ++a) from.push_back(index[a]);
                return from;
            });
        }
    }
    const Tensor x = ca::zeros({1, 3, 1, 2});
    EXPECT_EQ(ca::squeeze(x).shape(), (Shape{3, 2}));
    EXPECT_EQ(ca::squeeze(x, {-2}).shape(), (Shape{1, 3, 2}));
    EXPECT_EQ(ca::unsqueeze(x, -1).shape(), (Shape{1, 3, 1, 2, 1}));
    EXPECT_EQ(ca::movedim(x, {0, 1}, {3, 2}).shape(), (Shape{1, 2, 3, 1}));
    EXPECT_EQ(ca::broadcast_to(ca::zeros({3, 1}), {2, 3, 0}).shape(), (Shape{2, 3, 0}));
    expect_error("shape/mismatch", [&] { (void)ca::squeeze(x, {1}); });
    expect_error("axis/range", [&] { (void)ca::unsqueeze(x, 5); });
    expect_error("axis/range", [&] { (void)ca::transpose(x, 0, 4); });
    expect_error("axis/duplicate", [&] { (void)ca::permute(x, {0, 1, 1, 2}); });
    expect_error("value/count", [&] { (void)ca::permute(x, {0, 1}); });
    expect_error("value/count", [&] { (void)ca::movedim(x, {0, 1}, {0}); });
    expect_error("axis/duplicate", [&] { (void)ca::movedim(x, {0, 1}, {0, 0}); });
    expect_error("shape/broadcast", [&] { (void)ca::expand(x, {1, 4, 1, 2}); });
    expect_error("shape/broadcast", [&] { (void)ca::expand(x, {1}); });
    expect_error("shape/negative", [&] { (void)ca::expand(x, {1, 3, -1, 2}); });
}

TEST(Copies, OfLargeTransposedAndGappedViews) {
    for (const ca::DType dtype : {ca::f64, ca::f32, ca::f16, ca::u8}) {
        const Tensor x = counting({3, 70, 130, 41}, dtype).eval();
        expect_picks(ca::contiguous(ca::permute(x, {3, 1, 0, 2})), x, [](const Dims& i) {
            return Dims{i[2], i[1], i[3], i[0]};
        });
        expect_picks(ca::contiguous(ca::slice(x, {{}, {.step = -3}, {1, -1, 2}})), x, [](const Dims& i) {
            return Dims{i[0], 69 - 3 * i[1], 1 + 2 * i[2], i[3]};
        });
    }
}

/// Python's own rule: the indices that range(*slice.indices(n)) walks.
std::vector<std::int64_t> python_range(std::int64_t n, const ca::Slice& s) {
    std::vector<std::int64_t> indices;
    const auto at = [&](std::int64_t v) { return v < 0 ? v + n : v; };
    if (s.step > 0) {
        for (std::int64_t i = std::max<std::int64_t>(0, at(s.start.value_or(0)));
             i < std::min(n, at(s.stop.value_or(n))); i += s.step) {
            indices.push_back(i);
        }
    } else {
        const std::int64_t stop = s.stop ? std::max<std::int64_t>(-1, at(*s.stop)) : -1;
        for (std::int64_t i = std::min(n - 1, s.start ? at(*s.start) : n - 1); i > stop; i += s.step)
            indices.push_back(i);
    }
    return indices;
}

TEST(Slice, AsPythonDoes) {
    for (const std::int64_t n : {0, 1, 5}) {
        const Tensor x = counting({n, 2}, ca::i32);
        std::vector<std::optional<std::int64_t>> ends{std::nullopt};
        for (std::int64_t e = -7; e <= 7; ++e) ends.emplace_back(e);
        for (const auto& start : ends) {
            for (const auto& stop : ends) {
                for (const std::int64_t step : {1, 2, 3, 9, -1, -2, -3, -9}) {
                    const ca::Slice s{start, stop, step};
                    const auto indices = python_range(n, s);
                    const Tensor part = ca::slice(x, 0, s);
                    ASSERT_EQ(part.shape(), (Shape{std::ssize(indices), 2}));
                    expect_picks(part, x, [&](const Dims& i) {
                        return Dims{indices[static_cast<std::size_t>(i[0])], i[1]};
                    });
                }
            }
        }
    }
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(ca::slice(ca::zeros({5}), 0, {-huge, huge, huge}).shape(), (Shape{1}));
    EXPECT_EQ(ca::slice(ca::zeros({5}), 0, {huge, -huge - 1, -huge - 1}).shape(), (Shape{1}));
    expect_error("value/option", [] { (void)ca::slice(ca::zeros({5}), 0, {.step = 0}); });
    expect_error("value/count", [] { (void)ca::slice(ca::zeros({5}), {{}, {}}); });
    expect_error("axis/range", [] { (void)ca::slice(ca::zeros({5}), 1, {0, 1}); });
}

TEST(Slice, SelectNarrowFlip) {
    for (const ca::DType dtype : every_dtype) {
        for (const Tensor& x : under_other_strides(counting({3, 4, 2}, dtype))) {
            expect_picks(ca::select(x, 1, -1), x, [](const Dims& i) { return Dims{i[0], 3, i[1]}; });
            expect_picks(ca::narrow(x, 1, 1, 2), x, [](const Dims& i) { return Dims{i[0], i[1] + 1, i[2]}; });
            expect_picks(ca::flip(x, {0, -1}), x, [](const Dims& i) { return Dims{2 - i[0], i[1], 1 - i[2]}; });
        }
    }
    const Tensor x = ca::zeros({3, 4});
    EXPECT_EQ(ca::narrow(x, 0, 3, 0).shape(), (Shape{0, 4}));
    expect_error("index/range", [&] { (void)ca::select(x, 0, 3); });
    expect_error("index/range", [&] { (void)ca::select(x, 0, -4); });
    expect_error("value/option", [&] { (void)ca::narrow(x, 0, 2, 2); });
    expect_error("value/option", [&] { (void)ca::narrow(x, 0, -1, 1); });
    expect_error("axis/duplicate", [&] { (void)ca::flip(x, {0, -2}); });
}

TEST(Concat, JoinsAndSplits) {
    for (const ca::DType dtype : every_dtype) {
        for (std::int64_t axis = 0; axis < 3; ++axis) {
            Shape one{2, 3, 4}, none = one, two = one;
            none[axis] = 0;
            two[axis] += 2;
            const auto firsts = under_other_strides(counting(one, dtype));
            const auto seconds = under_other_strides(counting(two, dtype));
            for (std::size_t v = 0; v < firsts.size(); ++v) {
                const Tensor joined = ca::concat({firsts[v], ca::zeros(none, dtype), seconds[v]}, axis - 3);
                EXPECT_EQ(joined.dtype(), dtype);
                const auto parts = ca::split(joined, std::vector<std::int64_t>{one[axis], 0, two[axis]}, axis);
                EXPECT_EQ(values_of(parts[0]), values_of(firsts[v]));
                EXPECT_EQ(parts[1].shape(), none);
                EXPECT_EQ(values_of(parts[2]), values_of(seconds[v]));
            }
        }
    }
    EXPECT_EQ(ca::concat({ca::zeros({1}, ca::i32), ca::zeros({1}, ca::f16)}).dtype(), promote(ca::i32, ca::f16));
    EXPECT_EQ(ca::split(ca::zeros({7}), 3).size(), 3U);
    EXPECT_EQ(ca::split(ca::zeros({7}), 3)[2].shape(), (Shape{1}));
    EXPECT_EQ(ca::split(ca::zeros({0}), 3).size(), 1U);
    EXPECT_EQ(ca::chunk(ca::zeros({7}), 3)[0].shape(), (Shape{3}));
    EXPECT_EQ(ca::chunk(ca::zeros({2}), 5).size(), 2U);
    const Tensor a = ca::tensor({1, 2}), b = ca::tensor({3, 4});
    EXPECT_EQ(ca::stack({a, b}, 1).to_vector<int>(), (std::vector<int>{1, 3, 2, 4}));
    EXPECT_EQ(ca::stack({a, b}).shape(), (Shape{2, 2}));
    expect_error("value/count", [] { (void)ca::concat({}); });
    expect_error("shape/mismatch", [] { (void)ca::concat({ca::zeros({2, 3}), ca::zeros({2, 4})}, 0); });
    expect_error("shape/mismatch", [] { (void)ca::concat({ca::zeros({2, 3}), ca::zeros({2})}, 0); });
    expect_error("shape/mismatch", [] { (void)ca::stack({ca::zeros({2}), ca::zeros({3})}); });
    expect_error("axis/range", [] { (void)ca::concat({ca::scalar(1, ca::f32), ca::scalar(1, ca::f32)}); });
    expect_error("tensor/undefined", [] { (void)ca::concat({Tensor(), Tensor()}); });
    expect_error("shape/mismatch", [] { (void)ca::split(ca::zeros({7}), std::vector<std::int64_t>{3, 3}); });
    expect_error("shape/negative", [] { (void)ca::split(ca::zeros({7}), std::vector<std::int64_t>{8, -1}); });
    expect_error("value/option", [] { (void)ca::split(ca::zeros({7}), 0); });
    expect_error("value/option", [] { (void)ca::chunk(ca::zeros({7}), -1); });
}

TEST(Pad, SurroundsAndCuts) {
    const std::vector<std::vector<ca::Padding>> cases{{{1, 2}},
                                                      {{0, 0}, {2, 1}},
                                                      {{1, 0}, {0, 0}, {0, 3}},
                                                      {{-1, 2}, {1, -2}},
                                                      {{2, -3}, {0, 0}, {-1, -1}},
                                                      {{4, 4}, {-3, 0}, {0, 0}}};
    for (const ca::DType dtype : every_dtype) {
        for (const Tensor& x : under_other_strides(counting({3, 3, 4}, dtype))) {
            for (const auto& paddings : cases) {
                const Tensor padded = ca::pad(x, paddings, 1);
                const auto got = values_of(padded), all = values_of(x);
                std::size_t i = 0;
                for_each_index(padded.shape(), [&](const Dims& index) {
                    Dims from = index;
                    bool inside = true;
                    for (std::int64_t a = 0; a < 3; ++a) {
                        const std::int64_t at = a - 3 + std::ssize(paddings);
                        if (at >= 0) from[a] -= paddings[static_cast<std::size_t>(at)].before;
                        inside = inside && from[a] >= 0 && from[a] < x.shape()[a];
                    }
                    ASSERT_EQ(got[i++], inside ? all[flat(x.shape(), from)] : 1.0);
                });
            }
        }
    }
    EXPECT_EQ(values_of(ca::pad(ca::zeros({0, 2}), {{1, 0}, {0, 0}}, 5)), (std::vector<double>{5, 5}));
    EXPECT_EQ(ca::pad(ca::zeros({3}), {{-1, -2}}).shape(), (Shape{0}));
    const Tensor x = ca::zeros({3});
    expect_error("value/count", [&] { (void)ca::pad(x, {{1, 1}, {1, 1}}); });
    expect_error("value/option", [&] { (void)ca::pad(x, {{-2, -2}}); });
    expect_error("value/option", [&] { (void)ca::pad(x, {{std::numeric_limits<std::int64_t>::min(), 0}}); });
    expect_error("shape/overflow", [&] { (void)ca::pad(x, {{std::numeric_limits<std::int64_t>::max(), 5}}); });
    expect_error("value/scalar", [&] { (void)ca::pad(x.to(ca::u8), {{1, 1}}, 300); });
}

TEST(Tile, RepeatAndRoll) {
    const Tensor x = ca::tensor({{1.f, 2.f}, {3.f, 4.f}});
    EXPECT_EQ(ca::tile(x, {1, 2}).to_vector<float>(), (std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4}));
    EXPECT_EQ(ca::tile(x, {2}).to_vector<float>(), (std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4}));
    EXPECT_EQ(ca::tile(x, {2, 1, 1}).shape(), (Shape{2, 2, 2}));
    EXPECT_EQ(ca::tile(x, {0, 1}).shape(), (Shape{0, 2}));
    EXPECT_EQ(ca::repeat(x, 2, 1).to_vector<float>(), (std::vector<float>{1, 1, 2, 2, 3, 3, 4, 4}));
    EXPECT_EQ(ca::repeat(x, 2, 0).to_vector<float>(), (std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4}));
    EXPECT_EQ(ca::roll(ca::tensor({1, 2, 3}), {1}, {0}).to_vector<int>(), (std::vector<int>{3, 1, 2}));
    EXPECT_EQ(ca::roll(ca::tensor({1, 2, 3}), {-4}, {0}).to_vector<int>(), (std::vector<int>{2, 3, 1}));
    EXPECT_EQ(ca::roll(x, {1, 1}, {0, 1}).to_vector<float>(), (std::vector<float>{4, 3, 2, 1}));
    EXPECT_EQ(ca::roll(ca::zeros({0, 2}), {1}, {0}).shape(), (Shape{0, 2}));
    expect_error("value/option", [&] { (void)ca::tile(x, {1, -1}); });
    expect_error("shape/overflow", [&] { (void)ca::tile(x, {std::int64_t{1} << 62, 4}); });
    expect_error("value/option", [&] { (void)ca::repeat(x, -1, 0); });
    expect_error("value/count", [&] { (void)ca::roll(x, {1}, {0, 1}); });
}

TEST(Diagonal, TakesAndEmbeds) {
    for (const Tensor& x : under_other_strides(counting({3, 2, 5}, ca::i64))) {
        for (std::int64_t offset = -4; offset <= 6; ++offset) {
            const Tensor d = ca::diagonal(x, offset, 0, 2);
            const std::int64_t row = std::max<std::int64_t>(-offset, 0), column = std::max<std::int64_t>(offset, 0);
            EXPECT_EQ(d.shape(), (Shape{2, std::max<std::int64_t>(0, std::min(3 - row, 5 - column))}));
            expect_picks(d, x, [&](const Dims& i) { return Dims{row + i[1], i[0], column + i[1]}; });
        }
    }
    EXPECT_EQ(ca::diag_embed(ca::tensor({1, 2})).to_vector<int>(), (std::vector<int>{1, 0, 0, 2}));
    EXPECT_EQ(ca::diag_embed(ca::tensor({1, 2}), -1).to_vector<int>(), (std::vector<int>{0, 0, 0, 1, 0, 0, 0, 2, 0}));
    expect_error("axis/duplicate", [] { (void)ca::diagonal(ca::zeros({2, 2}), 0, 1, -1); });
    expect_error("axis/range", [] { (void)ca::diagonal(ca::zeros({2})); });
    expect_error("shape/overflow",
                 [] { (void)ca::diag_embed(ca::zeros({2}), std::numeric_limits<std::int64_t>::min()); });
}

TEST(ViewGradients, FirstAndSecondOrder) {
    const Tensor x = random_tensor({3, 4, 5}, 7);
    const auto check = [&](const char* name, const ca::TensorFunction& f) {
        SCOPED_TRACE(name);
        expect_gradients(ca::TensorFunction([&](const Tensor& t) { return f(t * t); }), x);
    };
    check("reshape", [](const Tensor& t) { return ca::reshape(ca::transpose(t, 0, 2), {2, -1}); });
    check("expand", [](const Tensor& t) { return ca::expand(ca::unsqueeze(t, 1), {2, 3, 2, 4, 5}); });
    check("slice", [](const Tensor& t) { return ca::slice(t, {{.step = -2}, {1, 3}, {4, 0, -3}}); });
    check("slice to nothing", [](const Tensor& t) { return ca::slice(t, 1, {3, 1}); });
    check("flip", [](const Tensor& t) { return ca::flip(t, {0, 2}); });
    check("select", [](const Tensor& t) { return ca::select(t, 1, 2) * ca::select(t, 1, 0); });
    check("concat", [](const Tensor& t) { return ca::concat({t, ca::slice(t, 1, {0, 2}), t * t}, 1); });
    check("stack", [](const Tensor& t) { return ca::stack({t, t * t}, -1); });
    check("split", [](const Tensor& t) {
        const auto parts = ca::split(t, 2, 2);
        return parts[0] * parts[1] * ca::exp(parts[2]);
    });
    check("pad", [](const Tensor& t) { return ca::pad(t, {{1, -1}, {0, 2}, {-2, 3}}, 2.5); });
    check("tile", [](const Tensor& t) { return ca::tile(t, {2, 1, 2}); });
    check("roll", [](const Tensor& t) { return ca::roll(t, {1, 2}, {0, 2}) * t; });
    check("diagonal", [](const Tensor& t) { return ca::diagonal(t, 1, 2, 0); });
    check("diag_embed", [](const Tensor& t) { return ca::diag_embed(t, -2); });
    check("contiguous", [](const Tensor& t) { return ca::contiguous(ca::transpose(t, 0, 1)); });
}

TEST(ViewGradients, OfEmptyTensors) {
    const Tensor x = ca::zeros({0, 3}).requires_grad();
    const auto g = ca::backward(ca::sum(ca::pad(ca::slice(x, {{}, {.step = -1}}), {{1, 1}, {0, 0}})));
    EXPECT_EQ(g[x].shape(), (Shape{0, 3}));
}

TEST(ViewGradients, SliceScattersIntoZeros) {
    const Tensor x = ca::zeros({5}).requires_grad();
    const auto g = ca::backward(ca::sum(ca::slice(x, 0, {.start = 4, .step = -2}) * ca::tensor({1.f, 2.f, 3.f})));
    EXPECT_EQ(g[x].to_vector<float>(), (std::vector<float>{3, 0, 2, 0, 1}));
}

}  // namespace
