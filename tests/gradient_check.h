// Checks of gradients, for tests of any operation:
//   differences   J' u of the engine against central differences in f64
//   adjoint       <J v, u> = <v, J' u> for random u, v (exact up to rounding, no step size)
//   second order  the same two for the gradient itself
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <random>
#include <vector>

#include "calor/autodiff.h"
#include "calor/elementwise.h"
#include "calor/reduce.h"

namespace calor::testing {

/// f64 values in [low, high), the same for the same seed.
inline Tensor random_tensor(const Shape& shape, std::uint32_t seed, double low = -1, double high = 1,
                            DType dtype = f64) {
    std::mt19937 engine(seed);
    std::vector<double> values(static_cast<std::size_t>(numel(shape)));
    for (double& v : values) v = low + (high - low) * (static_cast<double>(engine()) / 4294967296.0);
    return tensor(values, shape).to(dtype);
}

inline double dot(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    double total = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!is_floating(a[i].dtype())) continue;
        total += sum(a[i].to(f64) * b[i].to(f64)).item<double>();
    }
    return total;
}

inline std::vector<Tensor> random_like(const std::vector<Tensor>& like, std::uint32_t seed) {
    std::vector<Tensor> out;
    for (const Tensor& t : like)
        out.push_back(random_tensor(t.shape(), seed++, -1, 1, is_floating(t.dtype()) ? t.dtype() : f64));
    return out;
}

struct CheckOptions {
    double step = 1e-5;       ///< of central differences
    double tolerance = 1e-6;  ///< relative to the size of the numbers compared
    bool second_order = true;
    std::uint32_t seed = 1;
};

/// (f(x + h v) - f(x - h v)) / 2h against J v, projected on u.
inline void expect_first_order(const TensorsFunction& f, const std::vector<Tensor>& inputs, const CheckOptions& o,
                               const char* what) {
    const std::vector<Tensor> v = random_like(inputs, o.seed + 100);
    const JvpResult forward = jvp(f, inputs, v);
    const std::vector<Tensor> u = random_like(forward.outputs, o.seed + 200);
    const VjpResult reverse = vjp(f, inputs);
    const std::vector<Tensor> pulled = reverse.pullback(u);
    const double forwards = dot(forward.tangents, u), backwards = dot(v, pulled);
    const double scale = std::max({1.0, std::abs(forwards), std::abs(backwards)});
    EXPECT_NEAR(forwards, backwards, 1e-10 * scale) << what << ": adjoint identity";
    std::vector<Tensor> up, down;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        up.push_back(inputs[i] + v[i] * o.step);
        down.push_back(inputs[i] - v[i] * o.step);
    }
    const NoGrad guard;
    const double difference = (dot(f(up), u) - dot(f(down), u)) / (2 * o.step);
    EXPECT_NEAR(difference, backwards, o.tolerance * scale * 10) << what << ": central differences";
}

/// Everything, for f64 inputs at which f is smooth. f may have several inputs and outputs.
inline void expect_gradients(const TensorsFunction& f, const std::vector<Tensor>& inputs,
                             const CheckOptions& options = {}) {
    expect_first_order(f, inputs, options, "first order");
    if (!options.second_order) return;
    const std::vector<Tensor> weights = random_like(f(inputs), options.seed + 300);
    const TensorsFunction gradient = [&](const std::vector<Tensor>& x) { return vjp(f, x).pullback(weights); };
    expect_first_order(gradient, inputs, options, "second order");
}
inline void expect_gradients(const TensorFunction& f, const Tensor& input, const CheckOptions& options = {}) {
    expect_gradients(TensorsFunction([&](const std::vector<Tensor>& x) { return std::vector<Tensor>{f(x[0])}; }),
                     {input}, options);
}

/// Runs `body` and expects a calor error with this code.
template <class F> void expect_error(const char* code, const F& body) {
    try {
        body();
        ADD_FAILURE() << "no error, expected " << code;
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), code) << e.what();
        EXPECT_NE(std::string(e.what()).find("hint: "), std::string::npos);
        const std::string text = e.what();
        for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
            EXPECT_FALSE(std::isalpha(static_cast<unsigned char>(text[at + 1]))) << "unfilled field in: " << text;
        }
    }
}

}  // namespace calor::testing
