// Pooling layers over any number of spatial axes; they have no parameters.
#pragma once

#include "calor/nn/fields.h"
#include "calor/pool.h"
#include "calor/unfold.h"

namespace calor::nn {

/// x [N, C, spatial...]: the largest element of each window. nn::MaxPool{{.kernel = {2, 2}}}; the stride is the kernel
/// unless given.
class MaxPool {
public:
    using Options = calor::MaxPoolOptions;
    /// Throws ValueError [value/option] for sizes below 1, [value/count] without a kernel.
    explicit MaxPool(const Options& options, const Where& where = Where::current());
    /// Throws as calor::max_pool.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;
    CALOR_FIELDS()

private:
    Options options_;
};

/// x [N, C, spatial...]: the mean of each window.
class AvgPool {
public:
    using Options = calor::AvgPoolOptions;
    /// Throws ValueError [value/option] for sizes below 1, [value/count] without a kernel.
    explicit AvgPool(const Options& options, const Where& where = Where::current());
    /// Throws as calor::avg_pool.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;
    CALOR_FIELDS()

private:
    Options options_;
};

/// x [N, C, spatial...]: the largest element of evenly spread boxes: nn::AdaptiveMaxPool{{.size = 7}}.
class AdaptiveMaxPool {
public:
    using Options = calor::AdaptiveMaxPoolOptions;
    /// Throws ValueError [value/option] for sizes below 1, [value/count] without a size.
    explicit AdaptiveMaxPool(const Options& options, const Where& where = Where::current());
    /// Throws as calor::adaptive_max_pool.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;
    CALOR_FIELDS()

private:
    Options options_;
};

/// x [N, C, spatial...]: the norm of each window.
class LpPool {
public:
    using Options = calor::LpPoolOptions;
    /// Throws ValueError [value/option] for sizes below 1, [value/count] without a kernel.
    explicit LpPool(const Options& options, const Where& where = Where::current());
    /// Throws as calor::lp_pool.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;
    CALOR_FIELDS()

private:
    Options options_;
};

/// x [N, C * factors, spatial...]: channels become resolution: nn::PixelShuffle{{.factors = 2}}.
class PixelShuffle {
public:
    struct Options {
        PerAxis factors = {};  ///< one for all spatial axes or one each
    };
    /// Throws ValueError [value/option] for factors below 1, [value/count] without any.
    explicit PixelShuffle(const Options& options, const Where& where = Where::current());
    /// Throws as calor::pixel_shuffle.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;
    CALOR_FIELDS()

private:
    Options options_;
};

/// x [N, C, spatial...]: resolution becomes channels, the inverse of PixelShuffle.
class PixelUnshuffle {
public:
    struct Options {
        PerAxis factors = {};  ///< one for all spatial axes or one each
    };
    /// Throws ValueError [value/option] for factors below 1, [value/count] without any.
    explicit PixelUnshuffle(const Options& options, const Where& where = Where::current());
    /// Throws as calor::pixel_unshuffle.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;
    CALOR_FIELDS()

private:
    Options options_;
};

}  // namespace calor::nn
