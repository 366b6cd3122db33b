// Random numbers: the published answers of Philox, the documented mapping from words to elements, statistics with fixed
// seeds, independence of threads and instruction sets, state, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "gradient_check.h"
#include "ops/random/kernels.h"
#include "ops/random/philox.h"
#include "ops/random/random.h"
#include "strided.h"

namespace ca = calor;
namespace cr = calor::random;
using namespace calor::testing;
using ca::Generator;
using ca::Shape;
using ca::Tensor;

namespace {

TEST(Philox, KnownAnswers) {  // from the authors' Random123 distribution
    const auto is = [](const cr::Words& got, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
        EXPECT_EQ(got.w[0], a);
        EXPECT_EQ(got.w[1], b);
        EXPECT_EQ(got.w[2], c);
        EXPECT_EQ(got.w[3], d);
    };
    is(cr::philox(0, 0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    is(cr::philox(~0U, ~0U, ~0U, ~0U, ~0U, ~0U), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
    is(cr::philox(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0), 0xd16cfe09, 0x94fdcceb,
       0x5001e420, 0x24126ea1);
}

constexpr std::uint64_t seed = 0x1234567890ABCDEF;

cr::Words block(std::uint64_t b) { return cr::philox(seed, b); }
std::uint64_t wide(const cr::Words& w, std::size_t half) {
    return static_cast<std::uint64_t>(w.w[2 * half]) | static_cast<std::uint64_t>(w.w[2 * half + 1]) << 32;
}

TEST(Random, ElementsFollowTheDocumentedWords) {
    Generator g(Generator::State{seed, 7});
    const auto u = ca::uniform({1000}, 0, 1, ca::f32, g).to_vector<float>();
    EXPECT_EQ(g.state(), (Generator::State{seed, 257}));
    const auto d = ca::uniform({3, 333}, 0, 1, ca::f64, g).to_vector<double>();
    EXPECT_EQ(g.state().offset, 257U + 500U);
    const auto z = ca::normal({999}, 0, 1, ca::f32, g).to_vector<float>();
    const auto zd = ca::normal({999}, 0, 1, ca::f64, g).to_vector<double>();
    const auto r = ca::randint(-10, 90, {999}, ca::i64, g).to_vector<std::int64_t>();
    const auto b = ca::bernoulli(0.3, {999}, ca::u8, g).to_vector<std::uint8_t>();
    for (std::size_t i = 0; i < 999; ++i) {
        EXPECT_EQ(u[i], cr::unit_f32(block(7 + i / 4).w[i % 4]));
        EXPECT_EQ(d[i], cr::unit_f64(wide(block(257 + i / 2), i % 2)));
        const cr::Words n = block(757 + i / 4);
        const float radius = std::sqrt(-2 * cr::log_f32(cr::radius_point_f32(n.w[i % 4 / 2 * 2])));
        float c, s;
        cr::circle_f32(n.w[i % 4 / 2 * 2 + 1], c, s);
        EXPECT_EQ(z[i], radius * (i % 2 ? s : c));
        const cr::Words nd = block(757 + 250 + i / 2);
        double cd, sd;
        cr::circle_f64(wide(nd, 1), cd, sd);
        EXPECT_EQ(zd[i], std::sqrt(-2 * cr::log_f64(cr::radius_point_f64(wide(nd, 0)))) * (i % 2 ? sd : cd));
        const double share = static_cast<double>(wide(block(757 + 750 + i / 2), i % 2)) * 0x1p-64;
        EXPECT_EQ(r[i], static_cast<std::int64_t>(std::floor(share * 100)) - 10);
        EXPECT_EQ(b[i], block(757 + 1250 + i / 4).w[i % 4] < static_cast<std::uint32_t>(std::llrint(0.3 * 0x1p32)));
    }
}

TEST(Random, PolynomialsAreAccurate) {
    for (std::uint32_t i = 0; i < 4000; ++i) {
        const std::uint32_t w = i * 1073741U;
        const float u = cr::radius_point_f32(w);
        EXPECT_NEAR(cr::log_f32(u), std::log(static_cast<double>(u)), 3e-7 * (1 + std::abs(std::log(u))));
        float c, s;
        cr::circle_f32(w, c, s);
        const double angle = w * 0x1p-32 * 2 * M_PI;
        EXPECT_NEAR(c, std::cos(angle), 2e-7);
        EXPECT_NEAR(s, std::sin(angle), 2e-7);
        const std::uint64_t wd = static_cast<std::uint64_t>(w) << 32 | 12345;
        const double ud = cr::radius_point_f64(wd);
        EXPECT_NEAR(cr::log_f64(ud), std::log(ud), 4e-16 * (1 + std::abs(std::log(ud))));
        double cd, sd;
        cr::circle_f64(wd, cd, sd);
        const double exact = static_cast<double>(static_cast<long double>(wd) * 0x1p-64L * 2 * M_PIl);
        EXPECT_NEAR(cd, std::cos(exact), 1e-15);
        EXPECT_NEAR(sd, std::sin(exact), 1e-15);
    }
    for (const double p : {1e-200, 1e-20, 1e-5, 0.01, 0.2, 0.5, 0.77, 0.999}) {
        EXPECT_NEAR(0.5 * std::erfc(-cr::normal_quantile(p) * M_SQRT1_2) / p, 1, 1e-11) << p;
    }
    EXPECT_NEAR(cr::normal_quantile(0.975), 1.9599639845400545, 1e-14);
}

TEST(Random, SameBitsOnEveryInstructionSet) {
    const cr::Kernels &plain = cr::kernels_for(0), &best = cr::kernels();
    std::uint32_t a[cr::chunk_words], b[cr::chunk_words];
    float x[cr::chunk_words], y[cr::chunk_words];
    for (std::uint64_t at = 0; at < 200; ++at) {
        plain.words(seed, at * 0x3000000000001, a);
        best.words(seed, at * 0x3000000000001, b);
        EXPECT_EQ(std::memcmp(a, b, sizeof a), 0);
        plain.normal_f32(seed, at * 64, 0.5F, 3, x);
        best.normal_f32(seed, at * 64, 0.5F, 3, y);
        EXPECT_EQ(std::memcmp(x, y, sizeof x), 0);
        plain.uniform_f32(seed, at * 64, 8, -3, 7, 3.9F, x);
        best.uniform_f32(seed, at * 64, 8, -3, 7, 3.9F, y);
        EXPECT_EQ(std::memcmp(x, y, sizeof x), 0);
    }
}

TEST(Random, SameNumbersForAnyThreadCountAndOrder) {
    const auto draw = [](int threads, bool backwards) {
        ca::set_thread_count(threads);
        Generator g(5);
        std::vector<Tensor> all{ca::uniform({40, 1001}, -1, 2, ca::f32, g),
                                ca::normal({100001}, 0, 1, ca::f64, g),
                                ca::bernoulli(0.7, {77777}, ca::boolean, g),
                                ca::randint(0, 1000, {50001}, ca::i16, g),
                                ca::truncated_normal({50001}, 0, 1, -2, 2, ca::f32, g),
                                ca::permutation(5000, ca::i64, g)};
        std::vector<std::vector<double>> values(all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            const std::size_t at = backwards ? all.size() - 1 - i : i;
            values[at] = values_of(all[at]);
        }
        return values;
    };
    const int before = ca::thread_count();
    const auto once = draw(1, false);
    EXPECT_EQ(once, draw(2, true));
    EXPECT_EQ(once, draw(3, false));
    ca::set_thread_count(before);
}

TEST(Random, StateContinuesExactly) {
    ca::manual_seed(42);
    (void)ca::uniform({10});
    const auto state = ca::default_generator().state();
    const auto next = ca::normal({100}).to_vector<float>();
    const auto more = ca::normal({100}).to_vector<float>();
    EXPECT_NE(next, more);
    ca::default_generator().set_state(state);
    EXPECT_EQ(ca::normal({100}).to_vector<float>(), next);
    EXPECT_EQ(ca::normal({100}).to_vector<float>(), more);
    ca::manual_seed(43);
    (void)ca::uniform({10});
    EXPECT_NE(ca::normal({100}).to_vector<float>(), next);

    Generator g(1), copy = g;
    Generator child = g.fork();
    EXPECT_NE(g.state(), copy.state());
    EXPECT_NE(ca::uniform({50}, 0, 1, ca::f32, child).to_vector<float>(),
              ca::uniform({50}, 0, 1, ca::f32, g).to_vector<float>());
    EXPECT_EQ(copy.fork().state(), Generator(Generator::State{child.state().seed, 0}).state());
}

struct Moments {
    double mean = 0, variance = 0, skew = 0, kurtosis = 0;
    explicit Moments(const std::vector<double>& v) {
        const auto n = static_cast<double>(v.size());
        for (const double x : v) mean += x / n;
        for (const double x : v) {
            const double d = x - mean;
            variance += d * d / n;
            skew += d * d * d / n;
            kurtosis += d * d * d * d / n;
        }
        skew /= std::pow(variance, 1.5);
        kurtosis /= variance * variance;
    }
};

/// Chi-square of counts against equal expectations; about N(k - 1, 2 (k - 1)).
double chi_square(const std::vector<double>& counts) {
    double total = 0, sum = 0;
    for (const double c : counts) total += c;
    const double expected = total / static_cast<double>(counts.size());
    for (const double c : counts) sum += (c - expected) * (c - expected) / expected;
    return sum;
}
void expect_even(const std::vector<double>& counts) {
    const auto k = static_cast<double>(counts.size());
    EXPECT_NEAR(chi_square(counts), k - 1, 5 * std::sqrt(2 * (k - 1)));
}

TEST(Random, UniformIsEven) {
    for (const ca::DType dtype : {ca::f32, ca::f64, ca::f16, ca::bf16}) {
        Generator g(11);
        const auto v = values_of(ca::uniform({200000}, -1, 1, dtype, g));
        const Moments m(v);
        EXPECT_NEAR(m.mean, dtype == ca::bf16 ? -0.004 : 0, 0.006) << name_of(dtype);
        EXPECT_NEAR(m.variance, 1.0 / 3, 0.005) << name_of(dtype);
        std::vector<double> counts(64);
        for (const double x : v) {
            ASSERT_GE(x, -1);
            ASSERT_LT(x, 1);
            ++counts[static_cast<std::size_t>((x + 1) * 32)];
        }
        if (size_of(dtype) > 2) expect_even(counts);
    }
    Generator g(3);  // rounding never reaches high, nor leaves the range
    for (const ca::DType dtype : {ca::f32, ca::f64, ca::f16, ca::bf16}) {
        for (const double x : values_of(ca::uniform({5000}, 1000, 1001, dtype, g)))
            ASSERT_TRUE(x >= 1000 && x < 1001) << x;
        for (const double x : values_of(ca::uniform({5000}, -0.125, 0, dtype, g)))
            ASSERT_TRUE(x >= -0.125 && x < 0) << x;
        for (const double x : values_of(ca::uniform({10}, 0.5, 0.5, dtype, g))) ASSERT_EQ(x, 0.5);
    }
}

TEST(Random, NormalHasItsMoments) {
    for (const ca::DType dtype : {ca::f32, ca::f64, ca::f16, ca::bf16}) {
        Generator g(17);
        const Moments m(values_of(ca::normal({400000}, 3, 2, dtype, g)));
        EXPECT_NEAR(m.mean, 3, 0.02) << name_of(dtype);
        EXPECT_NEAR(m.variance, 4, 0.05) << name_of(dtype);
        EXPECT_NEAR(m.skew, 0, 0.02) << name_of(dtype);
        EXPECT_NEAR(m.kurtosis, 3, 0.05) << name_of(dtype);
    }
    Generator g(17);
    std::vector<double> counts(32);  // equal probabilities under the distribution function
    for (const double z : values_of(ca::normal({200000}, 0, 1, ca::f32, g))) {
        ++counts[static_cast<std::size_t>(0.5 * std::erfc(-z * M_SQRT1_2) * 32)];
    }
    expect_even(counts);
    for (const double z : values_of(ca::normal({10}, 2, 0))) EXPECT_EQ(z, 2);
}

TEST(Random, TruncatedNormalStaysInside) {
    Generator g(23);
    const auto v = values_of(ca::truncated_normal({200000}, 0, 0.5, -1, 1, ca::f32, g));
    const Moments m(v);
    EXPECT_NEAR(m.mean, 0, 0.005);
    EXPECT_NEAR(m.variance, 0.25 * 0.7737413, 0.003);  // 1 - 2 * 2 phi(2) / (2 F(2) - 1)
    for (const double x : v) ASSERT_LE(std::abs(x), 1);
    for (const ca::DType dtype : {ca::f32, ca::f64, ca::f16, ca::bf16}) {
        for (const double sign : {1.0, -1.0}) {
            const double low = sign > 0 ? 8 : -9, high = low + 1;
            double mean = 0;
            for (const double x : values_of(ca::truncated_normal({20000}, 0, 1, low, high, dtype, g))) {
                ASSERT_TRUE(x >= low && x <= high) << x;
                mean += x / 20000;
            }
            EXPECT_NEAR(mean, sign * 8.1212, 0.01) << name_of(dtype);
        }
    }
}

TEST(Random, BernoulliAndRandint) {
    Generator g(31);
    EXPECT_NEAR(Moments(values_of(ca::bernoulli(0.3, {200000}, ca::boolean, g))).mean, 0.3, 0.005);
    EXPECT_NEAR(Moments(values_of(ca::bernoulli(1, {2000}, ca::f32, g))).mean, 1, 1e-9);
    EXPECT_EQ(Moments(values_of(ca::bernoulli(0, {2000}, ca::i32, g))).mean, 0);
    for (const ca::DType dtype : {ca::f32, ca::f64, ca::f16, ca::bf16}) {
        const Tensor p = ca::expand(ca::tensor({0.F, 0.25F, 1.F}).to(dtype), {50000, 3});
        const Tensor drawn = ca::bernoulli(p, g);
        EXPECT_EQ(drawn.dtype(), dtype);
        const auto v = values_of(drawn);
        double sums[3] = {};
        for (std::size_t i = 0; i < v.size(); ++i) sums[i % 3] += v[i] / 50000;
        EXPECT_EQ(sums[0], 0);
        EXPECT_NEAR(sums[1], 0.25, 0.01);
        EXPECT_NEAR(sums[2], 1, 1e-9);
    }
    for (const ca::DType dtype : {ca::i64, ca::i32, ca::i16, ca::i8, ca::u64, ca::u32, ca::u16, ca::u8}) {
        const std::int64_t low = is_signed_integer(dtype) ? -50 : 0;
        std::vector<double> counts(100);
        for (const double x : values_of(ca::randint(low, low + 100, {100000}, dtype, g))) {
            ++counts.at(static_cast<std::size_t>(x - static_cast<double>(low)));
        }
        expect_even(counts);
    }
    constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
    int negative = 0;
    for (const auto x : ca::randint(least, most, {1000}, ca::i64, g).to_vector<std::int64_t>()) negative += x < 0;
    EXPECT_NEAR(negative, 500, 80);
}

TEST(Random, PermutationIsOne) {
    Generator g(37);
    for (const std::int64_t n : {0, 1, 2, 3, 1000, 100003}) {
        auto v = ca::permutation(n, ca::i64, g).to_vector<std::int64_t>();
        EXPECT_TRUE(n < 100 || !std::is_sorted(v.begin(), v.end()));
        std::sort(v.begin(), v.end());
        for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(v[static_cast<std::size_t>(i)], i);
    }
    std::vector<double> counts(24);  // every order of four is as likely
    for (int trial = 0; trial < 24000; ++trial) {
        const auto v = ca::permutation(4, ca::u8, g).to_vector<std::uint8_t>();
        std::size_t code = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            std::size_t smaller = 0;
            for (std::size_t j = i + 1; j < 4; ++j) smaller += v[j] < v[i];
            code = code * (4 - i) + smaller;
        }
        ++counts[code];
    }
    expect_even(counts);
}

TEST(Random, CheckpointsDrawTheSameNumbersAgain) {
    const ca::TensorsFunction f = [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{in[0] * ca::bernoulli(0.5, {1000}, ca::f32)};
    };
    const Tensor x = ca::ones({1000}).requires_grad();
    ca::manual_seed(9);
    const Tensor y = ca::checkpoint(f, {x})[0];
    const auto after = ca::default_generator().state();
    const auto mask = y.to_vector<float>();
    EXPECT_EQ(ca::backward(ca::sum(y))[x].to_vector<float>(), mask);
    EXPECT_EQ(ca::default_generator().state(), after);
}

TEST(Random, EmptyShapesTakeNothing) {
    Generator g(1);
    EXPECT_EQ(ca::uniform({0, 3}, 0, 1, ca::f32, g).to_vector<float>().size(), 0U);
    EXPECT_EQ(ca::bernoulli(ca::zeros({0}), g).to_vector<float>().size(), 0U);
    EXPECT_EQ(g.state().offset, 0U);
    EXPECT_EQ(ca::normal({}, 0, 1, ca::f32, g).rank(), 0);
}

TEST(Random, Refuses) {
    const double nan = std::nan(""), inf = INFINITY;
    expect_error("dtype/unsupported", [] { (void)ca::uniform({2}, 0, 1, ca::i32); });
    expect_error("dtype/unsupported", [] { (void)ca::normal({2}, 0, 1, ca::boolean); });
    expect_error("dtype/unsupported", [] { (void)ca::truncated_normal({2}, 0, 1, -1, 1, ca::u8); });
    expect_error("dtype/unsupported", [] { (void)ca::randint(0, 2, {2}, ca::f32); });
    expect_error("dtype/unsupported", [] { (void)ca::permutation(2, ca::f32); });
    expect_error("dtype/unsupported", [] { (void)ca::bernoulli(ca::zeros({2}, ca::i32)); });
    expect_error("value/option", [] { (void)ca::uniform({2}, 1, 0); });
    expect_error("value/option", [&] { (void)ca::uniform({2}, nan, 0); });
    expect_error("value/option", [&] { (void)ca::uniform({2}, 0, inf); });
    expect_error("value/option", [] { (void)ca::uniform({2}, -3e38, 3e38); });
    expect_error("value/option", [] { (void)ca::normal({2}, 0, -1); });
    expect_error("value/option", [&] { (void)ca::normal({2}, nan, 1); });
    expect_error("value/option", [] { (void)ca::truncated_normal({2}, 0, 1, 1, 1); });
    expect_error("value/option", [] { (void)ca::truncated_normal({2}, 0, 1, 50, 51); });
    expect_error("value/option", [] { (void)ca::bernoulli(1.1, {2}); });
    expect_error("value/option", [&] { (void)ca::bernoulli(nan, {2}); });
    expect_error("value/option", [] { (void)ca::bernoulli(ca::tensor({0.5F, 1.5F})).eval(); });
    expect_error("value/option", [] { (void)ca::randint(2, 2, {2}); });
    expect_error("value/scalar", [] { (void)ca::randint(0, 300, {2}, ca::u8); });
    expect_error("value/scalar", [] { (void)ca::permutation(300, ca::i8); });
    expect_error("shape/negative", [] { (void)ca::permutation(-1); });
    expect_error("shape/negative", [] { (void)ca::uniform({2, -1}); });
    expect_error("shape/overflow", [] { (void)ca::normal({std::int64_t{1} << 62, 8}); });
    expect_error("tensor/undefined", [] { (void)ca::bernoulli(Tensor()); });
}

}  // namespace
