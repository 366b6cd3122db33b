// Indexing, sorting, permutations and CTC on GPUs against the CPU: dtypes, ranks, strides, long axes, indices out of
// range, the same bits twice.
#include <cmath>
#include <random>

#include "calor/calor.h"
#include "gpu_check.h"
#include "gradient_check.h"
#include "relaid.h"
#include "strided.h"

namespace ca = calor;
using namespace calor::testing;
using ca::Device;
using ca::DType;
using ca::Shape;
using ca::Tensor;

namespace {

Tensor on_host(const std::vector<std::int64_t>& values, const Shape& shape, DType dtype = ca::i64) {
    return ca::from_host(values.data(), std::ssize(values), ca::i64, shape, host).to(dtype);
}
Tensor some_indices(const Shape& shape, std::int64_t size, DType dtype = ca::i64, std::uint32_t seed = 1) {
    std::mt19937 engine(seed);
    std::vector<std::int64_t> values(static_cast<std::size_t>(numel(shape)));
    for (auto& v : values) v = static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(size));
    return on_host(values, shape, dtype);
}
Tensor some_values(const Shape& shape, DType dtype) {
    const ca::OnDevice scope(host);
    return counting(shape, dtype);
}
Tensor random_on_host(const Shape& shape, std::uint32_t seed, double low, double high, DType dtype) {
    const ca::OnDevice scope(host);
    return random_tensor(shape, seed, low, high).to(dtype);
}

/// The function of the same tensors on both devices; those of the GPU lie in other ways.
template <class F> void expect_alike(Device d, const F& f, const std::vector<Tensor>& inputs, int lies = 4) {
    const auto expected = doubles(f(inputs));
    for (int lie = 0; lie < lies; ++lie) {
        std::vector<Tensor> there;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const auto all = under_other_strides(inputs[i].to(d));
            there.push_back(all[(static_cast<std::size_t>(lie) + i) % all.size()]);
        }
        ASSERT_EQ(doubles(f(there)), expected)
            << ca::to_string(d) << ", " << ca::describe(inputs[0]) << ", lie " << lie;
    }
}

using Tensors = std::vector<Tensor>;

TEST(GpuIndex, ReadsWritesAndAdds) {
    for (const Device d : gpus()) {
        for (const DType dtype : every_dtype) {
            for (const std::int64_t rank : {1, 3}) {
                const Shape shape = shape_of_rank(rank);
                for (std::int64_t axis = 0; axis < rank; ++axis) {
                    Shape at = shape;
                    at[axis] += 3;
                    const int lies = dtype == ca::f32 || dtype == ca::bf16 ? 4 : 1;
                    const Tensors in{some_values(shape, dtype), some_indices(at, shape[axis]), some_values(at, dtype)};
                    expect_alike(
                        d, [&](const Tensors& t) { return ca::gather(t[0], axis, t[1]); }, in, lies);
                    expect_alike(
                        d, [&](const Tensors& t) { return ca::scatter(t[0], axis, t[1], t[2]); }, in, lies);
                    if (dtype == ca::boolean) continue;
                    expect_alike(
                        d, [&](const Tensors& t) { return ca::scatter_add(t[0], axis, t[1], t[2]); }, in, lies);
                    Shape one = shape;
                    one[axis] = 1;
                    const Tensors single{in[0], some_indices(one, shape[axis]), some_values(one, dtype)};
                    expect_alike(
                        d, [&](const Tensors& t) { return ca::scatter_add(t[0], axis, t[1], t[2]); }, single, lies);
                }
            }
        }
    }
}

TEST(GpuIndex, ListsOfIndices) {
    for (const Device d : gpus()) {
        for (const DType dtype : every_dtype) {
            const Shape shape{4, 5, 8};
            for (std::int64_t axis = 0; axis < 3; ++axis) {
                Shape spread = shape;
                spread[axis] = 9;
                const int lies = dtype == ca::f32 || dtype == ca::f16 ? 4 : 1;
                const Tensors in{some_values(shape, dtype), some_indices({9}, shape[axis], ca::i32),
                                 some_values(spread, dtype)};
                expect_alike(
                    d, [&](const Tensors& t) { return ca::index_select(t[0], axis, t[1]); }, in, lies);
                if (dtype == ca::boolean) continue;
                expect_alike(
                    d, [&](const Tensors& t) { return ca::index_add(t[0], axis, t[1], t[2]); }, in, lies);
            }
        }
        const Tensors rows{some_values({50, 64}, ca::f32), some_indices({200}, 50), some_values({200, 64}, ca::f32)};
        expect_alike(
            d, [](const Tensors& t) { return ca::index_select(t[0], 0, t[1]); }, rows);
        expect_alike(
            d, [](const Tensors& t) { return ca::index_add(t[0], 0, t[1], t[2]); }, rows);
    }
}

TEST(GpuIndex, LongAxesAndCrowdedPlaces) {
    for (const Device d : gpus()) {
        for (const DType dtype : {ca::f32, ca::f16, ca::i16}) {
            for (const std::int64_t places : {1, 7, 1000}) {
                const Tensor x = random_on_host({places}, 3, 0, 2, ca::f32).to(dtype),
                             values = random_on_host({100000}, 4, 0, 1, ca::f32).to(dtype);
                const Tensor at = some_indices({100000}, places, ca::i32);
                const auto expected = doubles(ca::scatter_add(x, 0, at, values));
                const Tensor y = ca::scatter_add(x.to(d), 0, at.to(d), values.to(d));
                const auto got = doubles(y);
                for (std::size_t i = 0; i < got.size(); ++i) {
                    ASSERT_NEAR(got[i], expected[i], (dtype == ca::f16 ? 1e-3 : 2e-5) * std::abs(expected[i])) << i;
                }
                EXPECT_EQ(doubles(ca::index_add(x.to(d), 0, at.to(d), values.to(d))), got);
                EXPECT_EQ(doubles(ca::scatter(x.to(d), 0, at.to(d), values.to(d))),
                          doubles(ca::scatter(x, 0, at, values)));
            }
        }
        const Tensors wide{some_values({6, 40, 70}, ca::f32), some_indices({900}, 40),
                           some_values({6, 900, 70}, ca::f32)};
        expect_alike(
            d, [](const Tensors& t) { return ca::index_add(t[0], 1, t[1], t[2]); }, wide, 1);
        expect_alike(
            d,
            [](const Tensors& t) {
                return ca::scatter_add(t[0], 1, ca::expand(ca::reshape(t[1], {1, 900, 1}), {6, 900, 70}), t[2]);
            },
            wide, 1);
    }
}

TEST(GpuIndex, Gradients) {
    for (const Device d : gpus()) {
        const Tensor x = random_on_host({3, 4, 5}, 7, -1, 1, ca::f64), v = random_on_host({3, 6, 5}, 8, -1, 1, ca::f64);
        const Tensor at = some_indices({3, 6, 5}, 4), list = some_indices({6}, 4);
        const auto both = [&](const auto& f) {
            const auto gradients = [&](Device device) {
                const Tensor a = x.to(device).requires_grad(), b = v.to(device).requires_grad();
                const Tensor y = f(a, b, at.to(device), list.to(device));
                const auto g = ca::gradients({y}, {a, b}, {(y * 2).detach()});
                std::vector<double> all = doubles(g[0]);
                for (const double w : doubles(g[1])) all.push_back(w);
                return all;
            };
            const auto expected = gradients(host), got = gradients(d);
            ASSERT_EQ(got.size(), expected.size());
            for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
        };
        both([](const Tensor& a, const Tensor& b, const Tensor& i, const Tensor&) { return ca::gather(a, 1, i) * b; });
        both([](const Tensor& a, const Tensor& b, const Tensor& i, const Tensor&) { return ca::scatter(a, 1, i, b); });
        both([](const Tensor& a, const Tensor& b, const Tensor& i, const Tensor&) {
            return ca::scatter_add(a, 1, i, b);
        });
        both([](const Tensor& a, const Tensor& b, const Tensor&, const Tensor& l) {
            return ca::index_select(a, 1, l) * b;
        });
        both(
            [](const Tensor& a, const Tensor& b, const Tensor&, const Tensor& l) { return ca::index_add(a, 1, l, b); });
    }
}

TEST(GpuIndex, PaddingRowGetsNone) {
    for (const Device d : gpus()) {
        const Tensor w = random_on_host({4, 5}, 1, -1, 1, ca::f32), at = on_host({3, 1, 3, 0}, {4});
        const Tensor leaf = w.to(d).requires_grad(), u = ca::ones({4, 5}).to(d).requires_grad();
        const Tensor y = ca::embedding(leaf, at.to(d), 3);
        EXPECT_EQ(doubles(y), doubles(ca::embedding(w, at, 3)));
        const Tensor g = ca::gradients({y}, {leaf}, {u}, {.create_graph = true})[0];
        const auto first = doubles(g), second = doubles(ca::gradients({g}, {u}, {ca::ones({4, 5}).to(d)})[0]);
        for (std::size_t k = 0; k < 20; ++k) {
            EXPECT_EQ(first[k], k / 5 == 0 || k / 5 == 1 ? 1 : 0);
            EXPECT_EQ(second[k], k / 5 == 0 || k / 5 == 2 ? 0 : 1);
        }
    }
}

TEST(GpuIndex, OneHotAndMasks) {
    for (const Device d : gpus()) {
        for (const DType dtype : every_dtype) {
            const Tensors in{some_indices({3, 4}, 5)};
            expect_alike(
                d, [&](const Tensors& t) { return ca::one_hot(t[0], 5, dtype); }, in, dtype == ca::f32 ? 4 : 1);
        }
        EXPECT_EQ(ca::one_hot(ca::zeros({0}, ca::i64).to(d), 0).shape(), (Shape{0, 0}));
        const Tensors x{random_on_host({3, 40, 5}, 3, -1, 1, ca::f32)};
        expect_alike(
            d, [](const Tensors& t) { return ca::nonzero(ca::gt(t[0], 0.5)); }, x);
        expect_alike(
            d, [](const Tensors& t) { return ca::masked_select(t[0], ca::gt(t[0], 0)); }, x);
        expect_alike(
            d, [](const Tensors& t) { return ca::masked_fill(t[0], ca::gt(t[0], 0), 7); }, x);
        const Tensors many{random_on_host({100000}, 4, -1, 1, ca::f32)};
        expect_alike(
            d, [](const Tensors& t) { return ca::nonzero(ca::gt(t[0], 0)); }, many, 1);
        EXPECT_EQ(ca::nonzero(ca::zeros({0, 4}).to(d)).shape(), (Shape{0, 2}));
        EXPECT_EQ(ca::nonzero(ca::zeros({5, 4}).to(d)).shape(), (Shape{0, 2}));
        EXPECT_EQ(ca::nonzero(ca::scalar(3, ca::i32).to(d)).shape(), (Shape{1, 0}));
        EXPECT_EQ(ca::nonzero(ca::ones({2}).to(d)).device(), d);
    }
}

TEST(GpuIndex, OutOfRangeIsAnErrorThatSaysWhich) {
    for (const Device d : gpus()) {
        const Tensor x = ca::zeros({3, 4}).to(d), v = ca::zeros({2, 4}).to(d);
        for (const DType dtype : {ca::i64, ca::i32}) {
            for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{1} << 30}) {
                const Tensor at = on_host({0, 1, 2, 0, 0, bad, 1, 1}, {2, 4}, dtype).to(d);
                const Tensor list = on_host({0, bad}, {2}, dtype).to(d);
                expect_error("index/range", [&] { (void)ca::gather(x, 0, at).eval(); });
                expect_error("index/range", [&] { (void)ca::scatter(x, 0, at, v).eval(); });
                expect_error("index/range", [&] { (void)ca::scatter_add(x, 0, at, v).eval(); });
                expect_error("index/range", [&] { (void)ca::index_select(x, 0, list).eval(); });
                expect_error("index/range", [&] { (void)ca::index_add(x, 0, list, v).eval(); });
                expect_error("index/range", [&] { (void)ca::one_hot(list, 3).eval(); });
            }
        }
        const Tensor none = ca::zeros({0, 4}).to(d);
        expect_error("index/range", [&] { (void)ca::gather(none, 0, ca::zeros({2, 4}, ca::i64).to(d)).eval(); });
        expect_error("index/range", [&] { (void)ca::index_add(none, 0, ca::zeros({2}, ca::i64).to(d), v).eval(); });
        try {
            (void)ca::gather(x, 0, on_host({0, 1, 7, 9}, {1, 4}).to(d)).eval();
            FAIL();
        } catch (const ca::ValueError& e) {
            EXPECT_NE(e.message().find("index 7 at position 2"), std::string::npos) << e.message();
        }
    }
}

void expect_sorted_alike(Device d, const Tensor& x, std::int64_t k, std::int64_t axis, bool descending) {
    const auto run = [&](const Tensor& t) {
        ca::SortResult r = k == x.size(axis) ? ca::sort(t, axis, descending) : ca::topk(t, k, axis, descending);
        ca::eval({r.values, r.indices});
        return r;
    };
    const ca::SortResult expected = run(x), got = run(x.to(d));
    ASSERT_EQ(got.indices.to_vector<std::int64_t>(), expected.indices.to_vector<std::int64_t>())
        << ca::describe(x) << " axis " << axis << " k " << k;
    EXPECT_EQ(doubles(got.values), doubles(expected.values));
}

TEST(GpuSort, OrdersAsTheCpuDoes) {
    for (const Device d : gpus()) {
        int seed = 0;
        for (const DType dtype : every_dtype) {
            for (const std::int64_t n : {1, 7, 300, 2500}) {
                Tensor x = random_on_host({2, n, 3}, static_cast<std::uint32_t>(++seed), 0, 40, ca::f64);
                if (is_signed_integer(dtype) || is_floating(dtype)) x = x - 20;
                x = x.to(dtype);
                expect_sorted_alike(d, x, n, 1, seed % 2 == 0);
                expect_sorted_alike(d, x, std::min<std::int64_t>(n, 5), 1, seed % 2 == 1);
            }
        }
        const Tensor x = random_on_host({4, 5, 6}, 9, -1, 1, ca::f32);
        for (std::int64_t axis = 0; axis < 3; ++axis) {
            for (const Tensor& t : under_other_strides(x.to(d))) {
                EXPECT_EQ(doubles(ca::sort(t, axis).indices), doubles(ca::sort(x, axis).indices));
            }
        }
    }
}

TEST(GpuSort, LongLinesTiesAndFewOfMany) {
    for (const Device d : gpus()) {
        const std::int64_t n = 30000;
        expect_sorted_alike(d, random_on_host({2, n}, 1, -1, 1, ca::f32), n, 1, true);
        expect_sorted_alike(d, random_on_host({2, n}, 2, 0, 3, ca::f64).to(ca::i64), n, 1, false);
        expect_sorted_alike(d, random_on_host({2, n}, 3, -1, 1, ca::f32), 50, 1, true);
        expect_sorted_alike(d, random_on_host({n}, 4, 0, 3, ca::f32).to(ca::u8), 500, 0, false);
        expect_sorted_alike(d, random_on_host({n}, 5, -1, 1, ca::f64), 700, 0, true);
    }
}

TEST(GpuSort, NaNIsLargestZerosAreEqualAndTiesKeepTheirOrder) {
    for (const Device d : gpus()) {
        const float nan = std::nanf("");
        std::vector<float> values{nan, 1.F, -0.F, 0.F, -INFINITY, -nan, INFINITY, 0.F, -0.F};
        for (const DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
            const Tensor x = ca::from_host(values.data(), 9, ca::f32, {9}, host).to(dtype).to(d);
            EXPECT_EQ(ca::argsort(x).to_vector<std::int64_t>(), (std::vector<std::int64_t>{4, 2, 3, 7, 8, 1, 6, 0, 5}));
            EXPECT_EQ(ca::argsort(x, 0, true).to_vector<std::int64_t>(),
                      (std::vector<std::int64_t>{0, 5, 6, 1, 2, 3, 7, 8, 4}));
            EXPECT_TRUE(std::signbit(doubles(ca::sort(x).values)[1]));
            // The same among many, through the radix sort.
            const Tensor many = ca::concat({x, ca::full({3000}, -1, dtype).to(d)}, 0);
            const auto order = ca::argsort(many, 0, true).to_vector<std::int64_t>();
            EXPECT_EQ(std::vector<std::int64_t>(order.begin(), order.begin() + 8),
                      (std::vector<std::int64_t>{0, 5, 6, 1, 2, 3, 7, 8}));
            EXPECT_EQ(order.back(), 4);
        }
    }
}

TEST(GpuSort, EmptyTensors) {
    for (const Device d : gpus()) {
        EXPECT_EQ(ca::sort(ca::zeros({3, 0, 2}).to(d), 1).values.eval().shape(), (Shape{3, 0, 2}));
        EXPECT_EQ(ca::topk(ca::zeros({2, 4, 5}).to(d), 0, 1).values.eval().shape(), (Shape{2, 0, 5}));
    }
}

TEST(GpuPermutation, IsTheCpus) {
    for (const Device d : gpus()) {
        for (const std::int64_t n : {0, 1, 2, 5, 5001}) {
            for (const DType dtype : {ca::i64, ca::i32, ca::u16}) {
                ca::Generator a(7), b(7);
                const ca::OnDevice scope(host);
                const auto expected = doubles(ca::permutation(n, dtype, a));
                const ca::OnDevice there(d);
                const Tensor p = ca::permutation(n, dtype, b);
                EXPECT_EQ(p.device(), d);
                EXPECT_EQ(doubles(p), expected);
            }
        }
    }
}

// ---- CTC ----

struct CtcCase {
    std::int64_t frames = 6, samples = 2, classes = 5, labels = 2;
    bool ragged = false;
    std::int64_t blank = 0;
};

struct CtcNumbers {
    std::vector<double> losses, gradient;
};
CtcNumbers ctc_numbers(const CtcCase& c, const Tensor& scores, Device d, bool logits) {
    std::vector<std::int64_t> l, frames, counts;
    for (std::int64_t n = 0; n < c.samples; ++n) {
        for (std::int64_t j = 0; j < c.labels; ++j)
            l.push_back((c.blank + 1 + (j / 2 + n) % (c.classes - 1)) % c.classes);
        frames.push_back(c.ragged ? std::max<std::int64_t>(c.frames - 2 * n, 0) : c.frames);
        counts.push_back(c.ragged ? std::max<std::int64_t>(c.labels - 2 * n, 0) : c.labels);
    }
    const ca::CtcOptions o{
        .input_lengths = frames, .target_lengths = counts, .blank = c.blank, .reduction = ca::CtcReduction::none};
    const Tensor x = scores.to(d).requires_grad(), targets = on_host(l, {c.samples, c.labels});
    const Tensor losses = logits ? ca::ctc_loss(x, targets, o) : ca::ctc_loss_of_log_probabilities(x, targets, o);
    const Tensor weights = random_on_host({c.samples}, 5, 0.5, 1.5, losses.dtype()).to(d);
    return {doubles(losses), doubles(ca::gradients({losses}, {x}, {weights})[0])};
}

void expect_ctc_alike(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(expected[i])) {
            ASSERT_TRUE(std::isnan(got[i])) << i;
        } else if (got[i] != expected[i]) {
            ASSERT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
        }
    }
}

TEST(GpuCtc, LossesAndGradientsAreTheCpus) {
    const CtcCase cases[] = {{},
                             {.frames = 1, .labels = 1},
                             {.frames = 9, .samples = 3, .labels = 4, .ragged = true, .blank = 2},
                             {.frames = 5, .samples = 2, .labels = 5},
                             {.frames = 300, .samples = 2, .classes = 40, .labels = 90, .ragged = true},
                             {.frames = 40, .samples = 1, .classes = 1500, .labels = 3, .blank = 1499},
                             {.frames = 7, .samples = 4, .classes = 3, .labels = 6, .ragged = true}};
    for (const Device d : gpus()) {
        std::uint32_t seed = 0;
        for (const CtcCase& c : cases) {
            for (const DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
                if (is_half(dtype) && c.frames > 100) continue;
                for (const bool logits : {true, false}) {
                    Tensor x = random_on_host({c.frames, c.samples, c.classes}, ++seed, -2, 2, ca::f64);
                    if (!logits) x = ca::log_softmax(x, 2);
                    x = x.to(dtype);
                    const CtcNumbers expected = ctc_numbers(c, x, host, logits), got = ctc_numbers(c, x, d, logits);
                    const double tolerance = dtype == ca::f64 ? 1e-9 : 2e-5;
                    expect_ctc_alike(got.losses, expected.losses, tolerance);
                    expect_ctc_alike(got.gradient, expected.gradient,
                                     dtype == ca::f16    ? 2e-3
                                     : dtype == ca::bf16 ? 1.6e-2
                                                         : tolerance);
                    if (is_half(dtype)) continue;
                    const CtcNumbers again = ctc_numbers(c, x, d, logits);
                    EXPECT_EQ(again.gradient, got.gradient);
                    const Disable guard("columns");  // stretches
                    expect_ctc_alike(ctc_numbers(c, x, d, logits).gradient, got.gradient, tolerance);
                }
            }
        }
    }
}

TEST(GpuCtc, StridesEmptySamplesAndNumbersThatAreNone) {
    for (const Device d : gpus()) {
        const CtcCase c{.frames = 6, .samples = 3, .classes = 4, .labels = 2};
        const Tensor x = random_on_host({6, 3, 4}, 3, -1, 1, ca::f32);
        const auto expected = ctc_numbers(c, x, host, true);
        for (const Tensor& t : under_other_strides(x.to(d))) {
            expect_ctc_alike(ctc_numbers(c, t, d, true).losses, expected.losses, 1e-5);
            expect_ctc_alike(ctc_numbers(c, t, d, true).gradient, expected.gradient, 1e-5);
        }
        for (const bool logits : {true, false}) {
            for (const double bad : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL}) {
                std::vector<double> values(24, 0.5);
                values[9] = bad;  // frame 1, sample 0, class 1
                const CtcCase two{.frames = 3, .samples = 2, .classes = 4, .labels = 1};
                const Tensor y = ca::from_host(values.data(), 24, ca::f64, {3, 2, 4}, host);
                const auto right = ctc_numbers(two, y, host, logits), got = ctc_numbers(two, y, d, logits);
                expect_ctc_alike(got.losses, right.losses, 1e-12);
                expect_ctc_alike(got.gradient, right.gradient, 1e-12);
            }
        }
        EXPECT_EQ(ca::ctc_loss(ca::zeros({4, 0, 3}).to(d), on_host({}, {0, 2}), {.reduction = ca::CtcReduction::none})
                      .to_vector<float>()
                      .size(),
                  0U);
        const Tensor empty =
            ca::ctc_loss(ca::zeros({0, 1, 3}).to(d), on_host({}, {0}), {.reduction = ca::CtcReduction::none});
        EXPECT_EQ(empty.to_vector<float>()[0], 0);
    }
}

TEST(GpuCtc, SecondOrder) {
    for (const Device d : gpus()) {
        const Tensor x = random_on_host({5, 2, 4}, 11, -1, 1, ca::f64), targets = on_host({1, 1, 2, 3}, {2, 2});
        for (const bool logits : {true, false}) {
            const auto second = [&](Device device) {
                const Tensor leaf = x.to(device).requires_grad();
                const Tensor loss = logits ? ca::ctc_loss(leaf, targets)
                                           : ca::ctc_loss_of_log_probabilities(ca::log_softmax(leaf, 2), targets);
                const Tensor g = ca::gradients({loss}, {leaf}, {}, {.create_graph = true})[0];
                return doubles(ca::backward(ca::sum(g * g))[leaf]);
            };
            expect_ctc_alike(second(d), second(host), 1e-10);
        }
    }
}

}  // namespace
