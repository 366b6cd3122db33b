// Normalisation: y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with the mean and the population variance
// of groups of elements. Gradients of any order, any rank, plain and channels-last memory alike.
//
// x is floating; integers and bool become f32. Statistics of f16 and bf16 are f32. `weight` and `bias` may be undefined
// (1 and 0); they have the dtype of x, or f32 beside f16 and bf16. Errors of every function: DTypeError
// [dtype/mismatch], ShapeError [shape/rank], [shape/mismatch], ValueError [value/option] for an epsilon below 0 or not
// finite, [tensor/undefined]. Sources: Ioffe and Szegedy 2015 (batch), Ba, Kiros and Hinton 2016 (layer), Ulyanov et
// al. 2016 (instance), Wu and He 2018 (group), Zhang and Sennrich 2019 (root mean square).
#pragma once

#include "calor/tensor.h"

namespace calor {

/// The result of batch_norm with the statistics of the batch, shape [C].
struct BatchNormResult {
    Tensor output, mean, variance;
};

/// Training: x [N, C, spatial...] is normalised by the statistics of each channel over all other axes; weight and bias
/// [C]. `variance` is the population's; running statistics usually take variance * n / (n - 1) with n = numel / C. An
/// empty batch gives an empty output and statistics of 0. Throws ValueError [value/option] when a channel has a single
/// value.
BatchNormResult batch_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double epsilon = 1e-5,
                           const Where& where = Where::current());
/// Inference: the same with given statistics, shape [C] each.
Tensor batch_norm_inference(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& weight = {},
                            const Tensor& bias = {}, double epsilon = 1e-5, const Where& where = Where::current());

/// Normalises over the last `axes` axes, 1 to rank(x); weight and bias have their shape.
Tensor layer_norm(const Tensor& x, std::int64_t axes = 1, const Tensor& weight = {}, const Tensor& bias = {},
                  double epsilon = 1e-5, const Where& where = Where::current());
/// x / sqrt(mean(x^2) + epsilon) * weight over the last `axes` axes.
Tensor rms_norm(const Tensor& x, std::int64_t axes = 1, const Tensor& weight = {}, double epsilon = 1e-6,
                const Where& where = Where::current());
/// x [N, C, spatial...]: channels in `groups` groups of neighbours, each normalised with its spatial axes; weight and
/// bias [C]. Throws ValueError [value/option] when `groups` does not divide C.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double epsilon = 1e-5, const Where& where = Where::current());
/// x [N, C, spatial...]: every channel of every sample is normalised over its spatial axes; weight and bias [C].
/// Throws ValueError [value/option] when a channel has a single value.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double epsilon = 1e-5,
                     const Where& where = Where::current());

}  // namespace calor
