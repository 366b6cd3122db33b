// Random convolution problems, the plain sum over products that defines a convolution, and checks against it.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "calor/calor.h"
#include "gradient_check.h"
#include "relaid.h"
#include "strided.h"

namespace calor::testing {

/// Values of CALOR_DISABLE that leave one implementation after another.
inline const char* const conv_choices[] = {"",
                                           "planar",
                                           "planar,direct",
                                           "planar,onednn,cudnn",
                                           "planar,direct,onednn,cudnn",
                                           "planar,direct,onednn,cudnn,implicit_gemm"};

/// How many seeds to try: fewer on GPUs, whose drivers compile a kernel for every new combination.
inline std::uint32_t seeds(std::uint32_t on_cpu, std::uint32_t on_gpu) {
    return default_device().kind == DeviceKind::cpu ? on_cpu : on_gpu;
}

struct Problem {
    Shape x, w, y;
    Dims stride, dilation, low, high;
    std::int64_t groups = 1;

    ConvOptions options() const {
        return {.stride = stride, .padding = WindowPadding(low, high), .dilation = dilation, .groups = groups};
    }
    Dims sizes() const { return Dims(std::span(x.data() + 2, x.size() - 2)); }
    Dims kernel() const { return Dims(std::span(w.data() + 2, w.size() - 2)); }
};

/// A small problem with `rank` spatial axes; everything else follows from the seed.
inline Problem random_problem(std::int64_t rank, std::uint32_t seed) {
    std::mt19937 engine(seed);
    const auto draw = [&](std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(high - low + 1));
    };
    Problem p;
    p.groups = draw(0, 2) == 0 ? draw(2, 3) : 1;
    const std::int64_t in = draw(1, 3), out = draw(1, 3);
    p.x = {draw(1, 3), in * p.groups};
    p.w = {out * p.groups, in};
    p.y = {p.x[0], p.w[0]};
    for (std::int64_t a = 0; a < rank; ++a) {
        const std::int64_t k = draw(1, rank > 3 ? 2 : 3), d = draw(1, 2), s = draw(1, 3), low = draw(0, 2),
                           high = draw(0, 2);
        const std::int64_t extent = d * (k - 1) + 1;
        const std::int64_t size = std::max<std::int64_t>(draw(1, rank > 3 ? 4 : 7), extent - low - high);
        p.x.push_back(size);
        p.w.push_back(k);
        p.stride.push_back(s);
        p.dilation.push_back(d);
        p.low.push_back(low);
        p.high.push_back(high);
        p.y.push_back((size + low + high - extent) / s + 1);
    }
    return p;
}

/// Calls body(index into x, into w, into y) for every product in the sum.
template <class F> void each_product(const Problem& p, const F& body) {
    const std::int64_t rank = p.x.rank() - 2, per_group = p.w[0] / p.groups;
    std::int64_t positions = 1, taps = 1;
    for (std::int64_t a = 0; a < rank; ++a) {
        positions *= p.y[a + 2];
        taps *= p.w[a + 2];
    }
    for (std::int64_t n = 0; n < p.x[0]; ++n) {
        for (std::int64_t o = 0; o < p.w[0]; ++o) {
            for (std::int64_t c = 0; c < p.w[1]; ++c) {
                for (std::int64_t j = 0; j < positions; ++j) {
                    for (std::int64_t k = 0; k < taps; ++k) {
                        std::int64_t x = 0, scale = 1, rest_j = j, rest_k = k;
                        bool inside = true;
                        for (std::int64_t a = rank - 1; a >= 0; --a) {
                            const std::int64_t i =
                                rest_j % p.y[a + 2] * p.stride[a] + rest_k % p.w[a + 2] * p.dilation[a] - p.low[a];
                            rest_j /= p.y[a + 2];
                            rest_k /= p.w[a + 2];
                            inside = inside && i >= 0 && i < p.x[a + 2];
                            x += i * scale;
                            scale *= p.x[a + 2];
                        }
                        if (!inside) continue;
                        body((n * p.x[1] + o / per_group * p.w[1] + c) * scale + x, (o * p.w[1] + c) * taps + k,
                             (n * p.w[0] + o) * positions + j);
                    }
                }
            }
        }
    }
}

/// Small whole numbers: every dtype holds them exactly.
inline std::vector<std::int64_t> whole_numbers(const Shape& shape, std::uint32_t seed, bool negative = true) {
    std::mt19937 engine(seed);
    std::vector<std::int64_t> values(static_cast<std::size_t>(numel(shape)));
    for (auto& v : values) v = static_cast<std::int64_t>(engine() % 7) - (negative ? 3 : 0);
    return values;
}

/// Every element equal; `exact` is rounded or wrapped to the dtype.
inline void expect_equal(const Tensor& got, const std::vector<std::int64_t>& exact, const Shape& shape,
                         const std::string& what) {
    ASSERT_EQ(got.shape(), shape) << what;
    const Tensor expected = tensor(exact, shape).to(got.dtype());
    EXPECT_EQ(got.to(f64).to_vector<double>(), expected.to(f64).to_vector<double>()) << what;
}

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// While one lives, convolutions of whole numbers are exact: Winograd's filtering rounds them (winograd_conv_test.cpp).
struct PlainSums {
    PlainSums() { set_winograd(false); }
    ~PlainSums() { set_winograd(true); }
    PlainSums(const PlainSums&) = delete;
    PlainSums& operator=(const PlainSums&) = delete;
};

/// All roles on every implementation; 8-bit integers may have different signs.
inline void check_problem(const Problem& p, DType dtype, DType w_dtype, std::uint32_t seed) {
    const PlainSums exact;
    const bool bytes = size_of(dtype) == 1, negative = !is_unsigned_integer(dtype);
    const bool w_negative = !is_unsigned_integer(w_dtype);
    const auto x = whole_numbers(p.x, seed, negative), w = whole_numbers(p.w, seed + 1, w_negative);
    const auto gy = whole_numbers(p.y, seed + 2, negative && w_negative);
    const auto b = whole_numbers({p.w[0]}, seed + 3, negative && w_negative);
    std::vector<std::int64_t> y(gy.size()), gx(x.size(), 0), gw(w.size(), 0);
    const std::int64_t positions = std::ssize(gy) / std::max<std::int64_t>(1, p.y[0] * p.y[1]);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = b[at(static_cast<std::int64_t>(i) / positions % p.w[0])];
    each_product(p, [&](std::int64_t i, std::int64_t k, std::int64_t j) {
        y[at(j)] += x[at(i)] * w[at(k)];
        gx[at(i)] += gy[at(j)] * w[at(k)];
        gw[at(k)] += gy[at(j)] * x[at(i)];
    });
    const auto lie = [&](std::uint32_t shift) { return all_lies[(seed >> shift) % 4]; };
    const Tensor tx = relaid(tensor(x, p.x).to(dtype), lie(0)), tw = relaid(tensor(w, p.w).to(w_dtype), lie(2));
    const Tensor tg = relaid(tensor(gy, p.y).to(dtype), lie(4)),
                 tb = relaid(tensor(b, {p.w[0]}).to(bytes ? i32 : dtype), lie(6));
    const std::string what = std::string(name_of(dtype)) + " " + std::string(name_of(w_dtype)) + " seed " +
                             std::to_string(seed) + " x " + to_string(p.x) + " w " + to_string(p.w) + " groups " +
                             std::to_string(p.groups);
    for (const char* choice : conv_choices) {
        const Disable guard(choice);
        const Tensor result = conv(tx, tw, tb, p.options());
        EXPECT_EQ(result.dtype(), bytes ? i32 : dtype);
        expect_equal(result, y, p.y, what + " forward, without " + choice);
        expect_equal(conv_input_grad(tg, tw, p.sizes(), p.options()), gx, p.x, what + " input, without " + choice);
        expect_equal(conv_weight_grad(tx, tg.to(w_dtype), p.kernel(), p.options()), gw, p.w,
                     what + " weight, without " + choice);
    }
}

inline Tensor counting(const Shape& shape, double first = 0, double divisor = 1) {
    std::vector<double> v(static_cast<std::size_t>(numel(shape)));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = (static_cast<double>(i) + first) / divisor;
    return tensor(v, shape);
}
inline double total(const Tensor& t) { return sum(t).to(f64).item<double>(); }

}  // namespace calor::testing
