// Normalisation layers. The formulas and sources are calor/norm.h's.
#pragma once

#include <optional>

#include "calor/nn/fields.h"

namespace calor::nn {

/// x [N, channels, spatial...]. In training mode the statistics are the batch's, and the running ones follow them:
/// running = (1 - momentum) running + momentum batch, with the unbiased variance; in evaluation mode the running ones
/// are used.
class BatchNorm {
public:
    struct Options {
        std::int64_t channels = 0;  ///< 1 or more
        double epsilon = 1e-5;
        std::optional<double> momentum =
            0.1;                       ///< in [0, 1]; without one the running statistics are the mean over all batches
        bool affine = true;            ///< has weight and bias
        bool track_statistics = true;  ///< keeps running statistics; without them evaluation uses the batch's too
        DType dtype = f32;
    };
    /// Weight 1, bias 0, running mean 0, running variance 1. Throws ValueError [value/option].
    explicit BatchNorm(const Options& options, const Where& where = Where::current());
    /// An empty batch leaves the running statistics alone. Throws as calor::batch_norm; ShapeError [shape/mismatch].
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;

    Parameter weight, bias;            ///< [channels], or undefined
    Buffer running_mean, running_var;  ///< [channels], f32 beside f16 and bf16, or undefined
    Buffer num_batches_tracked;        ///< i64 scalar, or undefined
    Mode mode;
    CALOR_FIELDS(weight, bias, running_mean, running_var, num_batches_tracked, mode)

private:
    void follow(const Tensor& mean, const Tensor& variance, std::int64_t count, const Where& where) const;
    double epsilon_;
    std::optional<double> momentum_;
    std::int64_t channels_;
};

/// Normalises the last axes, whose sizes are `.shape`.
class LayerNorm {
public:
    struct Options {
        Shape shape = {};  ///< {512} or {channels, height, width}: 1 or more axes, sizes 1 or more
        double epsilon = 1e-5;
        bool affine = true;
        bool bias = true;  ///< with affine: whether there is a bias beside the weight
        DType dtype = f32;
    };
    /// Weight 1, bias 0. Throws ValueError [value/option].
    explicit LayerNorm(const Options& options, const Where& where = Where::current());
    /// Throws as calor::layer_norm; ShapeError [shape/mismatch].
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;

    Parameter weight, bias;  ///< of `.shape`, or undefined
    CALOR_FIELDS(weight, bias)

private:
    Shape shape_;
    double epsilon_;
};

/// x [N, channels, spatial...]: groups of channels are normalised with their spatial axes. One group a channel is
/// instance norm.
class GroupNorm {
public:
    struct Options {
        std::int64_t groups = 0;    ///< 1 or more, divides channels
        std::int64_t channels = 0;  ///< 1 or more
        double epsilon = 1e-5;
        bool affine = true;
        DType dtype = f32;
    };
    /// Weight 1, bias 0. Throws ValueError [value/option].
    explicit GroupNorm(const Options& options, const Where& where = Where::current());
    /// Throws as calor::group_norm; ShapeError [shape/mismatch].
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;

    Parameter weight, bias;  ///< [channels], or undefined
    CALOR_FIELDS(weight, bias)

private:
    std::int64_t groups_, channels_;
    double epsilon_;
};

}  // namespace calor::nn
