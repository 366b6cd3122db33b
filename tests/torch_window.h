// Compares an operation with the numbers that tests/reference/torch_window.py made: see there for the rules.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "calor/calor.h"
#include "reference/torch_window.h"

namespace calor::testing {

struct WindowCase {
    const char* name;
    Shape shape;
    TensorsFunction f;  ///< values, and indices where there are some
};

inline Tensor rule_of_windows(const Shape& shape) {
    std::vector<double> v(static_cast<std::size_t>(numel(shape)));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = 3 * std::sin(1.7 * static_cast<double>(i) + 1);
    return tensor(v, shape);
}

inline double weighted(const Tensor& t) {
    const std::vector<double> v = t.to(f64).to_vector<double>();
    double sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i) sum += v[i] * std::sin(static_cast<double>(i + 1));
    return sum;
}

inline void expect_case(const WindowCase& c, const torch_values::Window& want) {
    const Tensor x = rule_of_windows(c.shape).requires_grad();
    const std::vector<Tensor> y = c.f({x});
    ASSERT_EQ(y[0].numel(), want.count) << c.name;
    EXPECT_NEAR(weighted(y[0]), want.values, 1e-10 * (1 + std::abs(want.values))) << c.name;
    std::vector<double> u(static_cast<std::size_t>(want.count));
    for (std::size_t i = 0; i < u.size(); ++i) u[i] = std::cos(static_cast<double>(i));
    const Tensor gx = vjp([&](const std::vector<Tensor>& t) { return std::vector<Tensor>{c.f(t)[0]}; }, {x})
                          .pullback({tensor(u, y[0].shape())})[0];
    EXPECT_NEAR(weighted(gx), want.gradient, 1e-9 * (1 + std::abs(want.gradient))) << c.name << " gradient";
    std::int64_t indices = 0;
    if (y.size() > 1) {
        const std::vector<std::int64_t> v = y[1].to_vector<std::int64_t>();
        for (std::size_t i = 0; i < v.size(); ++i) indices += v[i] * static_cast<std::int64_t>(i % 7 + 1);
    }
    EXPECT_EQ(indices, want.indices) << c.name << " indices";
}

/// Every recorded case whose name starts with `prefix` is in the list, and agrees.
inline void expect_torch_values(const std::string& prefix, const std::vector<WindowCase>& cases) {
    std::set<std::string> met;
    for (const torch_values::Window& want : torch_values::windows) {
        const std::string name = want.name;
        if (name.rfind(prefix, 0) != 0) continue;
        bool found = false;
        for (const WindowCase& c : cases) {
            if (name != c.name) continue;
            expect_case(c, want);
            found = true;
        }
        EXPECT_TRUE(found) << name << " has no test";
        met.insert(name);
    }
    EXPECT_EQ(met.size(), cases.size()) << "cases without recorded values";
}

}  // namespace calor::testing
