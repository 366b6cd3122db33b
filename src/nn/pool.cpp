// Pooling layers.
#include "calor/nn/pool.h"

#include "calor/resample.h"
#include "core/fail.h"
#include "nn/layer_support.h"

namespace calor::nn {
namespace {

void check_windows(std::string_view layer, const PerAxis& kernel, const PerAxis& stride, const PerAxis& dilation,
                   const Where& where) {
    if (!kernel.given()) {
        fail("value/count", layer, where,
             {{"option", "kernel"}, {"got", 0}, {"expected", "one number a spatial axis, or one for all"}});
    }
    for (const std::int64_t size : kernel.values()) check_at_least(layer, "kernel", size, 1, where);
    for (const std::int64_t size : stride.values()) check_at_least(layer, "stride", size, 1, where);
    for (const std::int64_t size : dilation.values()) check_at_least(layer, "dilation", size, 1, where);
}

void check_factors(std::string_view layer, const PerAxis& factors, const Where& where) {
    if (!factors.given()) {
        fail("value/count", layer, where,
             {{"option", "factors"}, {"got", 0}, {"expected", "one number a spatial axis, or one for all"}});
    }
    for (const std::int64_t factor : factors.values()) check_at_least(layer, "factors", factor, 1, where);
}

}  // namespace

MaxPool::MaxPool(const Options& options, const Where& where) : options_(options) {
    check_windows("MaxPool", options.kernel, options.stride, options.dilation, where);
}
Tensor MaxPool::operator()(const Tensor& x, const Where& where) const { return max_pool(x, options_, where); }

AvgPool::AvgPool(const Options& options, const Where& where) : options_(options) {
    check_windows("AvgPool", options.kernel, options.stride, options.dilation, where);
}
Tensor AvgPool::operator()(const Tensor& x, const Where& where) const { return avg_pool(x, options_, where); }

AdaptiveMaxPool::AdaptiveMaxPool(const Options& options, const Where& where) : options_(options) {
    if (!options.size.given()) {
        fail("value/count", "AdaptiveMaxPool", where,
             {{"option", "size"}, {"got", 0}, {"expected", "one number a spatial axis, or one for all"}});
    }
    for (const std::int64_t size : options.size.values()) {
        if (size != keep) check_at_least("AdaptiveMaxPool", "size", size, 1, where);
    }
}
Tensor AdaptiveMaxPool::operator()(const Tensor& x, const Where& where) const {
    return adaptive_max_pool(x, options_, where);
}

LpPool::LpPool(const Options& options, const Where& where) : options_(options) {
    check_windows("LpPool", options.kernel, options.stride, options.dilation, where);
}
Tensor LpPool::operator()(const Tensor& x, const Where& where) const { return lp_pool(x, options_, where); }

PixelShuffle::PixelShuffle(const Options& options, const Where& where) : options_(options) {
    check_factors("PixelShuffle", options.factors, where);
}
Tensor PixelShuffle::operator()(const Tensor& x, const Where& where) const {
    return pixel_shuffle(x, options_.factors, where);
}

PixelUnshuffle::PixelUnshuffle(const Options& options, const Where& where) : options_(options) {
    check_factors("PixelUnshuffle", options.factors, where);
}
Tensor PixelUnshuffle::operator()(const Tensor& x, const Where& where) const {
    return pixel_unshuffle(x, options_.factors, where);
}

}  // namespace calor::nn
