// CTC: values in closed form and by PyTorch, all paths of small problems, both gradients to second order, layouts,
// dtypes, lengths, threads, memory.
#include "calor/ctc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "calor/calor.h"
#include "gradient_check.h"
#include "ops/ctc/checkpoints.h"
#include "reference/torch_ctc.h"
#include "relaid.h"
#include "strided.h"

namespace ca = calor;
using namespace calor::testing;  // NOLINT
using ca::CtcOptions;
using ca::CtcReduction;
using ca::Shape;
using ca::Tensor;

namespace {

using Labels = std::vector<std::int64_t>;

Tensor labels(const Labels& values) { return ca::tensor(values); }

/// One sample's loss of log-probabilities [T, C] as a sum over all C^T paths.
double over_all_paths(const std::vector<double>& log_probabilities, std::int64_t frames, std::int64_t classes,
                      const Labels& target, std::int64_t blank) {
    double total = 0;
    std::vector<std::int64_t> path(static_cast<std::size_t>(frames), 0);
    for (;;) {
        Labels merged;
        double p = 0;
        for (std::size_t t = 0; t < path.size(); ++t) {
            p += log_probabilities[t * static_cast<std::size_t>(classes) + static_cast<std::size_t>(path[t])];
            if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) merged.push_back(path[t]);
        }
        if (merged == target) total += std::exp(p);
        std::size_t t = 0;
        while (t < path.size() && ++path[t] == classes) path[t++] = 0;
        if (t == path.size()) return -std::log(total);
    }
}

double loss_of(const Tensor& logits, const Tensor& targets, CtcOptions o = {}) {
    o.reduction = CtcReduction::sum;
    return ca::ctc_loss(logits, targets, o).to(ca::f64).item<double>();
}

/// T ln C - ln C(T + S - r, 2 S): equal scores, r neighbouring repeats.
double uniform_loss(double t, double s, double c, double r = 0) {
    return t * std::log(c) - (std::lgamma(t + s - r + 1) - std::lgamma(2 * s + 1) - std::lgamma(t - s - r + 1));
}

Labels cycling(std::int64_t s, std::int64_t classes) {
    Labels l;
    for (std::int64_t i = 0; i < s; ++i) l.push_back(1 + i % (classes - 1));
    return l;
}

/// The gradient of the summed loss by the scores.
std::vector<double> gradient_of(const Tensor& scores, const Tensor& targets, CtcOptions o = {}, bool logits = true) {
    o.reduction = CtcReduction::sum;
    const Tensor x = scores.requires_grad();
    const Tensor loss = logits ? ca::ctc_loss(x, targets, o) : ca::ctc_loss_of_log_probabilities(x, targets, o);
    return values_of(ca::backward(loss)[x]);
}

void expect_close(const std::vector<double>& got, const std::vector<double>& expected, double tolerance,
                  const std::string& what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
        if (got[i] == expected[i]) continue;
        ASSERT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << what << " at " << i;
    }
}

}  // namespace

TEST(Ctc, UniformScoresHaveAClosedForm) {
    for (const ca::DType dtype : {ca::f64, ca::f32}) {
        const double tolerance = dtype == ca::f64 ? 1e-10 : 1e-6;
        const auto uniform = [&](std::int64_t t, std::int64_t c, const Labels& l) {
            return loss_of(ca::zeros({t, 1, c}, dtype), labels(l));
        };
        EXPECT_NEAR(uniform(5, 4, {1, 2}), 3.3761237441, 1e-5);
        EXPECT_NEAR(uniform(5, 4, {1, 1}), 4.2234216045, 1e-5);
        EXPECT_NEAR(uniform(5, 4, {}), 6.9314718056, 1e-5);
        const double large[][4] = {
            {500, 256, 10, 679.297579}, {2000, 640, 64, 6493.234611}, {4096, 1024, 32, 10754.310410}};
        for (const auto& [t, s, c, expected] : large) {
            const auto classes = static_cast<std::int64_t>(c);
            const double got =
                uniform(static_cast<std::int64_t>(t), classes, cycling(static_cast<std::int64_t>(s), classes));
            EXPECT_NEAR(got, expected, tolerance * expected + 1e-6) << t;
            EXPECT_NEAR(got, uniform_loss(t, s, c), tolerance * expected + 1e-9) << t;
        }
    }
}

TEST(Ctc, EveryPathOfSmallProblems) {
    std::uint32_t seed = 1;
    for (const std::int64_t frames : {1, 2, 3, 5, 6}) {
        for (const std::int64_t classes : {2, 3, 4}) {
            for (const std::int64_t blank : {std::int64_t{0}, classes - 1}) {
                for (const Labels& shape :
                     {Labels{}, Labels{1}, Labels{1, 2}, Labels{1, 1}, Labels{2, 1, 2}, Labels{1, 1, 1}}) {
                    Labels target;
                    for (const std::int64_t l : shape)
                        target.push_back((blank + 1 + (l - 1) % (classes - 1)) % classes);
                    const Tensor x = random_tensor({frames, 1, classes}, ++seed, -2, 2);
                    const double expected =
                        over_all_paths(values_of(ca::log_softmax(x, 2)), frames, classes, target, blank);
                    const CtcOptions o{.blank = blank, .reduction = CtcReduction::sum};
                    const double from_logits = loss_of(x, labels(target), {.blank = blank});
                    const double from_logs =
                        ca::ctc_loss_of_log_probabilities(ca::log_softmax(x, 2), labels(target), o).item<double>();
                    if (std::isinf(expected)) {
                        EXPECT_EQ(from_logits, expected);
                        EXPECT_EQ(from_logs, expected);
                    } else {
                        EXPECT_NEAR(from_logits, expected, 1e-10);
                        EXPECT_NEAR(from_logs, expected, 1e-10);
                    }
                    // Scores that are not normalised are taken as they are.
                    const double raw = over_all_paths(values_of(x), frames, classes, target, blank);
                    if (std::isfinite(raw)) {
                        EXPECT_NEAR(ca::ctc_loss_of_log_probabilities(x, labels(target), o).item<double>(), raw, 1e-10);
                    }
                }
            }
        }
    }
}

TEST(Ctc, GivesPyTorchsLossesAndGradients) {
    for (const auto& c : torch_values::ctc) {
        std::vector<double> scores;
        for (std::int64_t i = 0; i < c.frames * c.samples * c.classes; ++i)
            scores.push_back(std::sin(7 * static_cast<double>(i) + 1) * 2);
        Labels l, frames, counts;
        for (std::int64_t n = 0; n < c.samples; ++n) {
            for (std::int64_t j = 0; j < c.labels; ++j)
                l.push_back(1 + (c.repeats ? j / 2 + n : 3 * j + 2 * n + j * j) % (c.classes - 1));
            frames.push_back(c.ragged ? c.frames - n : c.frames);
            counts.push_back(c.ragged ? std::max<std::int64_t>(c.labels - 2 * n, 0) : c.labels);
        }
        const Tensor x = ca::tensor(scores, {c.frames, c.samples, c.classes}).requires_grad();
        const auto reduction = c.reduction == std::string("mean") ? CtcReduction::mean : CtcReduction::sum;
        const Tensor loss = ca::ctc_loss(x, ca::tensor(l, {c.samples, c.labels}),
                                         {.input_lengths = frames, .target_lengths = counts, .reduction = reduction});
        const auto g = values_of(ca::backward(loss)[x]);
        double weighted = 0;
        for (std::size_t i = 0; i < g.size(); ++i) weighted += g[i] * std::cos(static_cast<double>(i + 1));
        EXPECT_NEAR(loss.item<double>(), c.loss, 1e-9 * std::max(1.0, c.loss)) << c.frames << c.reduction;
        EXPECT_NEAR(weighted, c.gradient, 1e-9) << c.frames << c.reduction;
    }
}

TEST(Ctc, EmptyTargetsAndShortSamples) {
    const Tensor zeros = ca::zeros({2, 2, 3}, ca::f64).requires_grad();
    const Tensor losses = ca::ctc_loss(zeros, ca::tensor(Labels{1, 2, 1, 2}, {2, 2}),
                                       {.target_lengths = {2, 0}, .reduction = CtcReduction::none});
    for (const double l : values_of(losses)) EXPECT_NEAR(l, 2.1972245773, 1e-9);
    const double third = 1.0 / 3;
    expect_close(
        values_of(ca::backward(ca::sum(losses))[zeros]),
        {third, -2 * third, third, -2 * third, third, third, third, third, -2 * third, -2 * third, third, third}, 1e-12,
        "empty target");
    // Frames behind a sample's length: gradient 0.
    const Tensor four = ca::zeros({4, 1, 3}, ca::f64);
    EXPECT_NEAR(loss_of(four, labels({1}), {.input_lengths = {2}}), 1.0986122887, 1e-9);
    const auto g = gradient_of(four, labels({1}), {.input_lengths = {2}});
    for (std::size_t t = 0; t < 2; ++t)
        expect_close({g[t * 3], g[t * 3 + 1], g[t * 3 + 2]}, {0, -third, third}, 1e-12, "frame");
    for (std::size_t i = 6; i < 12; ++i) EXPECT_EQ(g[i], 0);
    // No frames at all.
    EXPECT_EQ(loss_of(four, labels({1}), {.input_lengths = {0}}), HUGE_VAL);
    EXPECT_EQ(loss_of(four, labels({}), {.input_lengths = {0}}), 0);
    EXPECT_EQ(loss_of(ca::zeros({0, 1, 3}), labels({})), 0);
    EXPECT_EQ(gradient_of(ca::zeros({0, 1, 3}), labels({1})).size(), 0U);
    const Tensor nobody =
        ca::ctc_loss(ca::zeros({4, 0, 3}), ca::zeros({0, 2}, ca::i64), {.reduction = CtcReduction::none});
    EXPECT_EQ(nobody.shape(), (Shape{0}));
    EXPECT_EQ(nobody.to_vector<float>().size(), 0U);
}

TEST(Ctc, WhatCannotBeAlignedIsInfiniteOrZeroNeverWrong) {
    const Tensor x = random_tensor({3, 1, 4}, 3);
    EXPECT_TRUE(std::isfinite(loss_of(x, labels({1, 2, 3}))));  // as many frames as labels
    EXPECT_EQ(loss_of(x, labels({1, 1, 2})), HUGE_VAL);         // a repetition needs a blank between
    EXPECT_EQ(loss_of(x, labels({1, 2, 3, 1})), HUGE_VAL);
    for (const bool logits : {true, false}) {
        for (const double g : gradient_of(x, labels({1, 1, 2}), {}, logits)) EXPECT_EQ(g, 0);
        for (const double g : gradient_of(x, labels({1, 1, 2}), {.zero_infinity = true}, logits)) EXPECT_EQ(g, 0);
    }
    EXPECT_EQ(loss_of(x, labels({1, 1, 2}), {.zero_infinity = true}), 0);
    // The other samples of the batch are not touched.
    const Tensor two = random_tensor({3, 2, 4}, 4), targets = ca::tensor(Labels{1, 1, 1, 2}, {2, 2});
    const auto losses =
        values_of(ca::ctc_loss(two, targets, {.input_lengths = {2, 3}, .reduction = CtcReduction::none}));
    EXPECT_EQ(losses[0], HUGE_VAL);
    EXPECT_NEAR(losses[1], loss_of(ca::slice(two, 1, {.start = 1}), labels({1, 2})), 1e-12);
    // A class that is impossible by its score.
    const double inf = HUGE_VAL;
    EXPECT_EQ(loss_of(ca::tensor(std::vector<double>{0, -inf, 0, 0, -inf, 0}, {2, 1, 3}), labels({1})), inf);
    EXPECT_NEAR(loss_of(ca::tensor(std::vector<double>{0, -inf, 0, 0, -inf, 0}, {2, 1, 3}), labels({2})),
                std::log(4. / 3), 1e-12);
}

TEST(Ctc, ScoresThatAreNoNumbersGiveNoNumber) {
    for (const char* disabled : {"", "lanes"}) {
        const Disable guard(disabled);
        for (const double bad : {static_cast<double>(NAN), HUGE_VAL}) {
            std::vector<double> values(24, 0.5);
            values[9] = bad;  // frame 1, sample 0, class 1
            const Tensor x = ca::tensor(values, {3, 2, 4}).requires_grad(), targets = ca::tensor(Labels{1, 2}, {2, 1});
            const Tensor losses = ca::ctc_loss(x, targets, {.reduction = CtcReduction::none});
            const auto l = values_of(losses), g = values_of(ca::backward(ca::sum(losses))[x]);
            EXPECT_TRUE(std::isnan(l[0]) && std::isfinite(l[1]));
            for (std::size_t i = 0; i < g.size(); ++i) EXPECT_EQ(std::isnan(g[i]), i / 4 % 2 == 0) << i;
        }
    }
}

TEST(Ctc, WideRangesKeepTheirAccuracy) {
    for (const ca::DType dtype : {ca::f64, ca::f32}) {
        std::vector<double> values(125 * 10, 168.0);
        for (std::size_t t = 0; t < 125; t += 5) values[t * 10 + 3] = -168;
        const Tensor x = ca::tensor(values, {125, 1, 10}).to(dtype), target = labels({1, 2, 3, 4, 5, 6, 7, 8, 9});
        const double expected = loss_of(ca::tensor(values, {125, 1, 10}), target);
        EXPECT_NEAR(loss_of(x, target), expected, 1e-6 * expected);
        const auto g = gradient_of(x, target);
        for (std::size_t t = 0; t < 125; ++t) {
            double sum = 0;
            for (std::size_t k = 0; k < 10; ++k) {
                EXPECT_TRUE(std::isfinite(g[t * 10 + k]));
                sum += g[t * 10 + k];
            }
            EXPECT_NEAR(sum, 0, 1e-4);
        }
    }
    // Other frames low in turn, so that the impossible happens in every alignment of the eighth label.
    std::vector<double> values(125 * 10, -168.0);
    for (std::size_t t = 0; t < 125; ++t) values[t * 10 + 3] = t % 5 == 0 ? -168 : 168;
    const Tensor x = ca::tensor(values, {125, 1, 10}), target = labels({1, 2, 3, 4, 5, 6, 7, 8, 9});
    const double loss = loss_of(x.to(ca::f32), target);
    EXPECT_NEAR(loss, loss_of(x, target), 1e-6 * loss);
}

/// Thousands of frames, hundreds of labels: numbers everywhere, and posteriors that add up.
TEST(Ctc, LongSamplesHaveFiniteGradients) {
    const std::int64_t t = 3600, s = 600, c = 30;
    const Tensor targets = ca::tensor(cycling(s, c), {1, s}), x = random_tensor({t, 1, c}, 5, -4, 4, ca::f32);
    const auto g = gradient_of(x, targets);
    for (std::size_t frame = 0; frame < static_cast<std::size_t>(t); ++frame) {
        double sum = 0;
        for (std::size_t k = 0; k < static_cast<std::size_t>(c); ++k) sum += g[frame * static_cast<std::size_t>(c) + k];
        ASSERT_NEAR(sum, 0, 1e-5) << frame;
    }
    const double loss = loss_of(x, targets);
    EXPECT_NEAR(loss, loss_of(x.to(ca::f64), targets), 1e-6 * loss);
}

TEST(Ctc, TheBlankMayBeAnyClass) {
    const Tensor x = random_tensor({8, 2, 5}, 6), targets = ca::tensor(Labels{1, 2, 4, 3, 3, 1}, {2, 3});
    const Tensor moved = ca::concat({ca::slice(x, 2, {.start = 1}), ca::slice(x, 2, {.stop = 1})}, 2);
    const Tensor shifted = targets - 1;
    EXPECT_NEAR(loss_of(x, targets), loss_of(moved, shifted, {.blank = 4}), 1e-12);
    const auto g = gradient_of(x, targets), h = gradient_of(moved, shifted, {.blank = 4});
    for (std::size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(g[i], h[i / 5 * 5 + (i % 5 + 4) % 5], 1e-12);
}

TEST(Ctc, TargetsAndLengthsInEveryForm) {
    const Tensor x = random_tensor({9, 3, 6}, 7, -2, 2);
    const Tensor padded = ca::tensor(Labels{1, 2, 3, 4, 4, 99, 5, -1, 77}, {3, 3}), joined = labels({1, 2, 3, 4, 4, 5});
    const Labels counts{3, 2, 1}, frames{9, 8, 4};
    const Tensor counts_tensor = labels(counts), frames_tensor = labels(frames);
    const CtcOptions base{.input_lengths = frames, .target_lengths = counts};
    const double expected = loss_of(x, padded, base);
    const auto gradient = gradient_of(x, padded, base);
    for (const Tensor& targets : {padded, joined}) {
        for (const ca::DType dtype : {ca::i64, ca::i32, ca::i16}) {
            for (const bool tensors : {false, true}) {
                CtcOptions o = base;
                if (tensors) o = {.input_lengths = frames_tensor.to(dtype), .target_lengths = counts_tensor.to(dtype)};
                EXPECT_EQ(loss_of(x, targets.to(dtype), o), expected);
                EXPECT_EQ(gradient_of(x, targets.to(dtype), o), gradient);
            }
        }
    }
    EXPECT_EQ(loss_of(x, ca::transpose(ca::contiguous(ca::transpose(padded, 0, 1)), 0, 1), base), expected);
    const Tensor single = ca::select(x, 1, 0);
    EXPECT_EQ(ca::ctc_loss(single, labels({1, 2, 3}), {.reduction = CtcReduction::none}).shape(), Shape{});
    EXPECT_EQ(loss_of(single, labels({1, 2, 3})), loss_of(ca::slice(x, 1, {.stop = 1}), labels({1, 2, 3})));
}

TEST(Ctc, ReductionsAndUpstreamGradients) {
    const Tensor x = random_tensor({9, 3, 6}, 8), targets = ca::tensor(Labels{1, 2, 3, 4, 4, 5, 5, 1, 2}, {3, 3});
    const ca::Lengths counts{3, 2, 0};
    const auto each = values_of(ca::ctc_loss(x, targets, {.target_lengths = counts, .reduction = CtcReduction::none}));
    EXPECT_NEAR(ca::ctc_loss(x, targets, {.target_lengths = counts}).item<double>(),
                (each[0] / 3 + each[1] / 2 + each[2]) / 3, 1e-12);
    EXPECT_NEAR(loss_of(x, targets, {.target_lengths = counts}), each[0] + each[1] + each[2], 1e-12);
    const Tensor leaf = x.to(ca::f32).requires_grad();
    const auto doubled = ca::backward(ca::ctc_loss(leaf, targets) * 2)[leaf].to_vector<float>();
    auto once = ca::backward(ca::ctc_loss(leaf, targets))[leaf].to_vector<float>();
    for (float& g : once) g *= 2;
    EXPECT_EQ(std::memcmp(once.data(), doubled.data(), once.size() * 4), 0);  // a power of two: to the bit
}

TEST(Ctc, TheGradientByLogProbabilitiesIsTheirOwn) {
    const Tensor x = ca::log_softmax(random_tensor({7, 1, 6}, 9), 2), target = labels({2, 4});
    const auto g = gradient_of(x, target, {}, false);
    for (std::size_t i = 0; i < g.size(); ++i) {
        if (i % 6 == 1 || i % 6 == 3 || i % 6 == 5) {
            EXPECT_EQ(g[i], 0) << i;  // named by no label
        }
        EXPECT_LE(g[i], 0);
    }
    for (std::size_t t = 0; t < 7; ++t) {
        double sum = 0;
        for (std::size_t k = 0; k < 6; ++k) sum += g[t * 6 + k];
        EXPECT_NEAR(sum, -1, 1e-12);  // posteriors
    }
    const auto h = gradient_of(x, target);  // through the softmax: of normalised scores p - posterior
    const auto logs = values_of(x);
    for (std::size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(h[i], std::exp(logs[i]) + g[i], 1e-12);
}

TEST(Ctc, GradientsOfAnyOrder) {
    const Tensor targets = ca::tensor(Labels{1, 2, 2, 3, 1, 1}, {2, 3});
    const CtcOptions ragged{.input_lengths = {6, 5}, .target_lengths = {3, 2}, .reduction = CtcReduction::none};
    for (const bool logits : {true, false}) {
        const auto f = [&](const Tensor& x, const CtcOptions& o) {
            return logits ? ca::ctc_loss(x, targets, o) : ca::ctc_loss_of_log_probabilities(x, targets, o);
        };
        for (const CtcOptions& o :
             {ragged, CtcOptions{}, CtcOptions{.target_lengths = {0, 3}, .reduction = CtcReduction::sum}}) {
            expect_gradients([&](const Tensor& x) { return f(x, o); }, random_tensor({6, 2, 4}, 10, -1.5, 1.5));
        }
        // One sample that cannot be aligned beside one that can.
        expect_gradients(
            [&](const Tensor& x) {
                return f(x, {.input_lengths = {2, 6}, .reduction = CtcReduction::sum, .zero_infinity = true});
            },
            random_tensor({6, 2, 4}, 11));
        // Third order.
        const ca::TensorFunction square = [&](const Tensor& x) {
            const Tensor l = f(x, ragged);
            return ca::sum(l * l);
        };
        expect_gradients([&](const Tensor& x) { return ca::grad(square)(x); }, random_tensor({6, 2, 4}, 12));
    }
}

TEST(Ctc, EveryDtypeAndLayoutMatchesTheReference) {
    struct Case {
        std::int64_t t, n, c, s;
    };
    for (const auto& [t, n, c, s] : {Case{1, 1, 2, 1}, Case{13, 3, 5, 4}, Case{40, 2, 37, 17}, Case{30, 5, 300, 8}}) {
        Labels l;
        for (std::int64_t i = 0; i < n * s; ++i) l.push_back(1 + i * i % 7 % (c - 1));
        const Tensor targets = ca::tensor(l, {n, s});
        for (const ca::DType dtype : {ca::f64, ca::f32, ca::f16, ca::bf16}) {
            const Tensor values = random_tensor({t, n, c}, 13, -3, 3, dtype).eval();
            const double tolerance = dtype == ca::f64   ? 1e-11
                                     : dtype == ca::f32 ? 2e-5
                                     : dtype == ca::f16 ? 2e-3
                                                        : 1e-2;
            for (const Lie lie : all_lies) {
                const Tensor x = relaid(values, lie);
                for (const bool logits : {true, false}) {
                    const auto both = [&] {
                        const Tensor leaf = x.requires_grad();
                        const CtcOptions o{.reduction = CtcReduction::none};
                        const Tensor losses = logits ? ca::ctc_loss(leaf, targets, o)
                                                     : ca::ctc_loss_of_log_probabilities(leaf, targets, o);
                        EXPECT_EQ(losses.dtype(), dtype == ca::f64 ? ca::f64 : ca::f32);
                        const Tensor g = ca::backward(ca::sum(losses))[leaf];
                        EXPECT_EQ(g.dtype(), dtype);
                        return std::pair(values_of(losses), values_of(g));
                    };
                    const auto fast = both();
                    const Disable slow("lanes");
                    const auto plain = both();
                    const std::string what = ca::describe(x) + (logits ? " logits" : " log-probabilities");
                    expect_close(fast.first, plain.first, dtype == ca::f64 ? 1e-11 : 1e-5, what);
                    expect_close(fast.second, plain.second, tolerance, what);
                }
            }
        }
    }
}

/// Long samples keep sqrt(T) columns: the same numbers as with all of them.
TEST(Ctc, LongSamplesMatchTheReference) {
    const std::int64_t t = 2000, s = 300, c = 12;
    const Tensor targets = ca::tensor(cycling(s, c), {1, s});
    const Tensor x = random_tensor({t, 1, c}, 14, -2, 2);
    for (const bool logits : {true, false}) {
        const auto fast = gradient_of(x, targets, {}, logits), single = gradient_of(x.to(ca::f32), targets, {}, logits);
        const Disable slow("lanes");
        const auto plain = gradient_of(x, targets, {}, logits);
        expect_close(fast, plain, 1e-10, "f64");
        expect_close(single, plain, 1e-4, "f32");
    }
}

TEST(Ctc, TheSameBitsForAnyNumberOfThreads) {
    const int before = ca::thread_count();
    for (const std::int64_t n : {1, 3, 16}) {
        Labels l;
        for (std::int64_t i = 0; i < n * 12; ++i) l.push_back(1 + i / 2 % 19);
        const Tensor targets = ca::tensor(l, {n, 12}), x = random_tensor({50, n, 20}, 15, -3, 3, ca::f32);
        const auto bits = [&](int threads) {
            ca::set_thread_count(threads);
            const Tensor leaf = x.requires_grad(), loss = ca::ctc_loss(leaf, targets);
            auto all = ca::backward(loss, {.retain_graph = true})[leaf].to_vector<float>();
            all.push_back(loss.item<float>());
            return all;
        };
        const auto one = bits(1), two = bits(2), four = bits(4);
        EXPECT_EQ(std::memcmp(one.data(), two.data(), one.size() * 4), 0) << n;
        EXPECT_EQ(std::memcmp(one.data(), four.data(), one.size() * 4), 0) << n;
    }
    ca::set_thread_count(before);
}

TEST(Ctc, MemoryIsLinearInTimeWhateverTheLabels) {
    if (ca::default_device() != ca::Device{}) GTEST_SKIP() << "the bounds are stated for the CPU";
    const int before = ca::thread_count();
    ca::set_thread_count(1);
    const auto peak_of = [](auto&& body) {
        ca::empty_cache();
        ca::reset_peak_memory();
        const std::int64_t start = ca::memory_statistics().in_use;
        body();
        return ca::memory_statistics().peak - start;
    };
    const std::int64_t c = 8;
    for (const auto& [t, s] : {std::pair<std::int64_t, std::int64_t>{2500, 500}, {8000, 3500}, {6000, 200}}) {
        const std::int64_t states = 2 * s + 1;
        const Tensor x = random_tensor({t, 1, c}, 16, -1, 1, ca::f32).eval(), leaf = x.requires_grad();
        const Tensor targets = ca::tensor(cycling(s, c), {1, s});
        Tensor loss;
        const std::int64_t forward = peak_of([&] { loss = ca::ctc_loss(leaf, targets).eval(); });
        // A number a frame, and a few columns; blocks are rounded up.
        EXPECT_LE(forward, 2 * (4 * t + 4 * 10 * states)) << t;
        Tensor gradient;
        const std::int64_t backward = peak_of([&] { gradient = ca::backward(loss)[leaf].eval(); });
        const std::int64_t result = 4 * t * c, kept = (std::int64_t{4} << 20) + 48 * t;
        EXPECT_LE(backward, (result + kept + 4 * 12 * states) * 9 / 8) << t;
        EXPECT_LT(backward, 4 * t * states) << t;  // less than a column a frame
        const std::vector<double> sums = values_of(ca::sum(gradient, {2}));
        for (const double sum : sums) ASSERT_NEAR(sum, 0, 1e-4) << t;
    }
    ca::set_thread_count(before);
}

TEST(Ctc, ChainsWalkBackInFewColumnsAndFewSweeps) {
    using calor::ops::checkpoint_reach;
    for (const std::int64_t columns : {1, 2, 3, 5, 16, 57, 148, 1000}) {
        for (const std::int64_t n : {0, 1, 2, 3, 7, 16, 17, 18, 60, 153, 154, 1000, 2500}) {
            if (columns < 5 && n > 200) continue;
            std::vector<std::int64_t> held(static_cast<std::size_t>(columns + 2), -1);
            std::vector<std::int64_t> computed(static_cast<std::size_t>(n + 1), 0);
            held[0] = 0;
            std::int64_t next = n;
            calor::ops::walk_back(
                n, columns,
                [&](std::int64_t state, std::int64_t from, std::int64_t to) {
                    ASSERT_NE(from, to);
                    ASSERT_LT(to, columns + 2);
                    ASSERT_EQ(held[static_cast<std::size_t>(from)], state);
                    held[static_cast<std::size_t>(to)] = state + 1;
                    ++computed[static_cast<std::size_t>(state + 1)];
                },
                [&](std::int64_t state, std::int64_t column) {
                    ASSERT_EQ(state, next--);
                    ASSERT_EQ(held[static_cast<std::size_t>(column)], state);
                });
            EXPECT_EQ(next, 0);
            std::int64_t sweeps = 0;
            while (checkpoint_reach(columns - 1, sweeps, n) < n) ++sweeps;
            EXPECT_LE(*std::max_element(computed.begin(), computed.end()), sweeps) << n << " in " << columns;
        }
    }
    EXPECT_EQ(checkpoint_reach(3, 2, 1000), 14);      // C(6, 2) - 1
    EXPECT_EQ(checkpoint_reach(147, 2, 8000), 8000);  // 3500 labels in f32: twice
    EXPECT_EQ(checkpoint_reach(15, 4, 1 << 20), 4844);
    EXPECT_EQ(checkpoint_reach(15, 5, 20000), 20000);
    EXPECT_EQ(checkpoint_reach(1 << 20, 40, std::int64_t{1} << 40), std::int64_t{1} << 40);
}

TEST(CtcErrors, EachItsOwn) {
    const Tensor x = ca::zeros({5, 2, 6}), t = ca::tensor(Labels{1, 2, 3, 4}, {2, 2});
    expect_error("tensor/undefined", [&] { (void)ca::ctc_loss({}, t); });
    expect_error("tensor/undefined", [&] { (void)ca::ctc_loss(x, {}); });
    expect_error("shape/rank", [&] { (void)ca::ctc_loss(ca::zeros({6}), t); });
    expect_error("shape/rank", [&] { (void)ca::ctc_loss(x, ca::zeros({1, 2, 2}, ca::i64)); });
    expect_error("shape/rank", [&] { (void)ca::ctc_loss(x, ca::scalar(1, ca::i64)); });
    expect_error("shape/mismatch", [&] { (void)ca::ctc_loss(x, ca::ones({3, 2}, ca::i64)); });
    expect_error("shape/mismatch", [&] { (void)ca::ctc_loss(x, t, {.input_lengths = ca::ones({3}, ca::i64)}); });
    expect_error("shape/mismatch", [&] { (void)ca::ctc_loss(x, t, {.target_lengths = ca::ones({1, 2}, ca::i64)}); });
    expect_error("value/count", [&] { (void)ca::ctc_loss(x, t, {.input_lengths = {5}}); });
    expect_error("value/count", [&] { (void)ca::ctc_loss(x, t, {.target_lengths = {1, 1, 1}}); });
    expect_error("value/count", [&] { (void)ca::ctc_loss(x, labels({1, 2})); });
    expect_error("dtype/unsupported", [&] { (void)ca::ctc_loss(x.to(ca::i32), t); });
    expect_error("dtype/unsupported", [&] { (void)ca::ctc_loss(x, t.to(ca::f32)); });
    expect_error("dtype/unsupported", [&] { (void)ca::ctc_loss(x, t, {.input_lengths = ca::ones({2})}); });
    expect_error("value/option", [&] { (void)ca::ctc_loss(x, t, {.blank = 6}); });
    expect_error("value/option", [&] { (void)ca::ctc_loss(x, t, {.blank = -1}); });
    expect_error("value/option", [&] { (void)ca::ctc_loss(ca::zeros({5, 2, 0}), t); });
    for (const std::int64_t bad : {std::int64_t{-5570000000000000000}, std::int64_t{-1}, std::int64_t{6}, INT64_MAX}) {
        expect_error("ctc/length", [&] { (void)ca::ctc_loss(x, t, {.input_lengths = {5, bad}}); });
        expect_error("ctc/length", [&] { (void)ca::ctc_loss(x, t, {.target_lengths = {bad, 1}}); });
        expect_error("ctc/length", [&] { (void)ca::ctc_loss(x, t, {.input_lengths = labels({5, bad})}); });
    }
    expect_error("ctc/target-count", [&] { (void)ca::ctc_loss(x, labels({1, 2, 3}), {.target_lengths = {1, 1}}); });
    expect_error("ctc/length", [&] { (void)ca::ctc_loss(x, labels({1, 2, 3}), {.target_lengths = {4, -1}}); });
    expect_error("ctc/blank-label", [&] { (void)ca::ctc_loss(x, ca::tensor(Labels{1, 0, 1, 1}, {2, 2})); });
    // Labels outside the classes: before anything is computed, with the gradient or without.
    const Tensor six = ca::zeros({5, 1, 6});
    expect_error("index/range", [&] { (void)ca::ctc_loss(six, labels({3, 5, 6, 7})); });
    expect_error("index/range", [&] { (void)ca::ctc_loss(six, labels({2147483647}).to(ca::i32)); });
    expect_error("index/range", [&] { (void)ca::ctc_loss_of_log_probabilities(six, labels({-1})); });
}
