// For tests of layers: the names of a network's state, and tensors compared.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calor/calor.h"

namespace calor::testing {

inline std::vector<std::string> names(const nn::State& state) {
    std::vector<std::string> list;
    for (const nn::NamedCell& n : state) list.push_back(n.name);
    return list;
}
template <class Net> std::vector<std::string> state_names(const Net& net) { return names(nn::state(net)); }

/// Largest magnitude.
inline double largest(const Tensor& t) { return max(abs(t)).to(f64).item<double>(); }
inline void expect_equal(const Tensor& a, const Tensor& b, double tolerance = 0) {
    ASSERT_EQ(a.shape(), b.shape());
    EXPECT_LE(a.numel() == 0 ? 0 : largest(a.to(f64) - b.to(f64)), tolerance);
}

}  // namespace calor::testing
