// Pooling layers.
#include "calor/nn/pool.h"

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

}  // namespace

MaxPool::MaxPool(const Options& options, const Where& where) : options_(options) {
    check_windows("MaxPool", options.kernel, options.stride, options.dilation, where);
}
Tensor MaxPool::operator()(const Tensor& x, const Where& where) const { return max_pool(x, options_, where); }

AvgPool::AvgPool(const Options& options, const Where& where) : options_(options) {
    check_windows("AvgPool", options.kernel, options.stride, options.dilation, where);
}
Tensor AvgPool::operator()(const Tensor& x, const Where& where) const { return avg_pool(x, options_, where); }

}  // namespace calor::nn
