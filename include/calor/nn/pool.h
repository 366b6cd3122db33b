// Pooling layers over any number of spatial axes; they have no parameters.
#pragma once

#include "calor/nn/fields.h"
#include "calor/pool.h"

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

}  // namespace calor::nn
