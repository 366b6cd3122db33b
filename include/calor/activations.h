// Activation functions. They take floating tensors (integers and bool become f32), keep NaN, and differentiate to any
// order; at a kink the derivative is the one named.
#pragma once

#include "calor/tensor.h"

namespace calor {

/// max(x, 0); integers stay integers. Derivative at 0: 0.
Tensor relu(const Tensor& x, const Where& where = Where::current());
/// min(max(x, 0), 6). Derivative at 0 and 6: 0.
Tensor relu6(const Tensor& x, const Where& where = Where::current());
/// x for x > 0, else slope x. Derivative at 0: slope. Throws ValueError [value/option] unless the slope is finite.
Tensor leaky_relu(const Tensor& x, double slope = 0.01, const Where& where = Where::current());
/// x for x > 0, else slope x with a learnt slope: one number, or one a channel (shape [C], for x of shape [N, C, ...]
/// or [C]). He et al., "Delving deep into rectifiers" (2015). Throws ShapeError [shape/broadcast].
Tensor prelu(const Tensor& x, const Tensor& slope, const Where& where = Where::current());
/// x for x > 0, else alpha (e^x - 1). Clevert et al. (2016). Throws ValueError [value/option] unless alpha is finite.
Tensor elu(const Tensor& x, double alpha = 1, const Where& where = Where::current());
/// scale x for x > 0, else scale alpha (e^x - 1), with the constants of Klambauer et al., "Self-normalizing networks"
/// (2017).
Tensor selu(const Tensor& x, const Where& where = Where::current());
/// x for x > 0, else alpha (e^(x / alpha) - 1). Barron (2017). Throws ValueError [value/option] unless alpha is finite
/// and not 0.
Tensor celu(const Tensor& x, double alpha = 1, const Where& where = Where::current());

enum class Gelu : std::uint8_t { exact, tanh };
/// x times the normal distribution function at x, or its approximation x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
/// / 2. Hendrycks and Gimpel (2016).
Tensor gelu(const Tensor& x, Gelu form = Gelu::exact, const Where& where = Where::current());

/// x sigmoid(x), also called swish.
Tensor silu(const Tensor& x, const Where& where = Where::current());
/// x tanh(softplus(x)). Misra (2019).
Tensor mish(const Tensor& x, const Where& where = Where::current());
/// log(1 + e^(beta x)) / beta, and x where beta x > threshold. Throws ValueError [value/option] unless beta > 0 is
/// finite and the threshold is a number.
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20, const Where& where = Where::current());
/// x / (1 + |x|).
Tensor softsign(const Tensor& x, const Where& where = Where::current());
/// 1 / (1 + e^-x).
Tensor sigmoid(const Tensor& x, const Where& where = Where::current());
/// min(max(x / 6 + 1 / 2, 0), 1). Derivative at -3 and 3: 0.
Tensor hard_sigmoid(const Tensor& x, const Where& where = Where::current());
/// log(sigmoid(x)), exact for large |x|.
Tensor log_sigmoid(const Tensor& x, const Where& where = Where::current());
/// x hard_sigmoid(x). Howard et al., "Searching for MobileNetV3" (2019). Derivative at -3: -1/2, at 3: 3/2.
Tensor hard_swish(const Tensor& x, const Where& where = Where::current());
/// min(max(x, low), high). Derivative at low and high: 0. Throws ValueError [value/option] unless low <= high.
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1, const Where& where = Where::current());
/// x - tanh(x).
Tensor tanhshrink(const Tensor& x, const Where& where = Where::current());
/// x moved toward 0 by lambda, 0 where |x| <= lambda. Throws ValueError [value/option] unless lambda >= 0 is finite.
Tensor softshrink(const Tensor& x, double lambda = 0.5, const Where& where = Where::current());
/// x, 0 where |x| <= lambda. Throws ValueError [value/option] unless lambda >= 0 is finite.
Tensor hardshrink(const Tensor& x, double lambda = 0.5, const Where& where = Where::current());
/// x for x > threshold, else value. Throws ValueError [value/option] for a threshold NaN.
Tensor threshold(const Tensor& x, double threshold, double value, const Where& where = Where::current());

/// a sigmoid(b) for the halves a and b of x along an axis: that axis becomes half as long. Dauphin et al., "Language
/// modeling with gated convolutional networks" (2017). Throws ValueError [axis/range], ShapeError [shape/mismatch] when
/// the size is odd.
Tensor glu(const Tensor& x, std::int64_t axis = -1, const Where& where = Where::current());

}  // namespace calor
