// The same problems through calor's public functions, for onednn_bare to print beside oneDNN's own figures.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

using Sizes = std::vector<std::int64_t>;

/// A call that computes one convolution role ("forward", "input_grad", "weight_grad") on plain or channels-last
/// activations.
std::function<void()> calor_conv(const Sizes& x, const Sizes& w, const Sizes& y, const Sizes& stride, const Sizes& pad,
                                 const Sizes& dilation, std::int64_t groups, const std::string& role,
                                 bool channels_last);
/// A call that computes a matrix product; transposed operands are views of transposed memory.
std::function<void()> calor_matmul(const Sizes& a, const Sizes& b, bool a_transposed, bool b_transposed);

}  // namespace bench
