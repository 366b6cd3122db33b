// Initial values of parameters: layer.weight.set(nn::init::xavier_uniform(layer.weight.shape())). All draw from the
// default generator, so calor::manual_seed() repeats them. The simple ones are calor's own functions under this roof.
#pragma once

#include "calor/creation.h"
#include "calor/random.h"
#include "calor/tensor.h"

namespace calor::nn::init {

using calor::normal;
using calor::ones;
using calor::truncated_normal;
using calor::uniform;
using calor::zeros;

/// Every element `value`.
Tensor constant(const Shape& shape, double value, DType dtype = f32, const Where& where = Where::current());

/// Connections into and out of one unit of a weight [out, in, kernel...]: in * kernel elements and out * kernel
/// elements.
struct Fans {
    std::int64_t in = 0, out = 0;
};
/// Throws ShapeError [shape/rank] for a rank below 2, ValueError [shape/overflow].
Fans fans(const Shape& shape, const Where& where = Where::current());

enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// The factor that keeps the variance through a nonlinearity: 1, 1, 5/3, sqrt 2, sqrt(2 / (1 + slope^2)), 3/4.
double gain(Nonlinearity nonlinearity, double slope = 0.01);

enum class Fan : std::uint8_t { in, out };
struct KaimingOptions {
    Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
    double slope = 0;   ///< of leaky_relu for negative numbers; 0 is relu
    Fan fan = Fan::in;  ///< in keeps the variance forward, out backward
    DType dtype = f32;
};
/// Uniform in gain sqrt(3 / fan) either side of 0 (He et al. 2015). Throws as fans().
Tensor kaiming_uniform(const Shape& shape, const KaimingOptions& options = {}, const Where& where = Where::current());
/// Normal with deviation gain / sqrt(fan).
Tensor kaiming_normal(const Shape& shape, const KaimingOptions& options = {}, const Where& where = Where::current());

struct XavierOptions {
    double gain = 1;
    DType dtype = f32;
};
/// Uniform in gain sqrt(6 / (in + out)) either side of 0 (Glorot and Bengio 2010). Throws as fans().
Tensor xavier_uniform(const Shape& shape, const XavierOptions& options = {}, const Where& where = Where::current());
/// Normal with deviation gain sqrt(2 / (in + out)).
Tensor xavier_normal(const Shape& shape, const XavierOptions& options = {}, const Where& where = Where::current());

struct OrthogonalOptions {
    double gain = 1;
    DType dtype = f32;
};
/// A random matrix [shape[0], the rest] whose rows (or columns, whichever are fewer) are orthogonal with length `gain`
/// (Saxe et al. 2014): Gram and Schmidt's method on normal numbers, in f64. Throws as fans().
Tensor orthogonal(const Shape& shape, const OrthogonalOptions& options = {}, const Where& where = Where::current());

}  // namespace calor::nn::init
