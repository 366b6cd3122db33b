// Gradients of any order, as functions of functions: the derivative of a derivative, a Hessian-vector product, and a
// rule of one's own.
#include <calor/calor.h>

#include <cstdio>

namespace ca = calor;

int main() {
    // f(x) = x^4; its derivatives at 2 are 32, 48, 48.
    const ca::TensorFunction f = [](const ca::Tensor& x) { return ca::sum(ca::pow(x, 4)); };
    const ca::TensorFunction second = ca::grad([&](const ca::Tensor& x) { return ca::sum(ca::grad(f)(x)); });
    const auto x = ca::tensor({2.0});
    std::printf("f' = %g, f'' = %g\n", ca::grad(f)(x).item<double>(), second(x).item<double>());

    // Hessian times vector without the Hessian: the gradient's derivative along v.
    const ca::TensorsFunction slope = [](const std::vector<ca::Tensor>& in) {
        return std::vector<ca::Tensor>{ca::grad([](const ca::Tensor& p) { return ca::sum(ca::exp(p) * p); })(in[0])};
    };
    const auto point = ca::tensor({0.0, 1.0}), direction = ca::tensor({1.0, 1.0});
    for (const double v : ca::jvp(slope, {point}, {direction}).tangents[0].to_vector<double>()) std::printf("%g\n", v);

    // Rounding whose gradient passes straight through.
    const auto leaf = ca::tensor({0.2, 1.7}).requires_grad();
    const auto rounded = ca::custom(
        {leaf}, [](const auto& in) { return std::vector<ca::Tensor>{ca::round(in[0])}; },
        [](const ca::CustomContext& c) { return std::vector<ca::Tensor>{c.cotangents[0]}; });
    const auto gradients = ca::backward(ca::sum(rounded[0] * ca::tensor({3.0, 5.0})));
    for (const double g : gradients[leaf].to_vector<double>()) std::printf("%g\n", g);
}
