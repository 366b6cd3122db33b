// Normalisation layers.
#include "calor/norm.h"

#include <algorithm>
#include <cmath>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/nn/norm.h"
#include "core/fail.h"
#include "nn/layer_support.h"

namespace calor::nn {
namespace {

void check_epsilon(std::string_view layer, double epsilon, const Where& where) {
    if (epsilon >= 0 && std::isfinite(epsilon)) return;
    fail("value/option", layer, where,
         {{"option", "epsilon"},
          {"got", epsilon},
          {"expected", "a finite number >= 0"},
          {"help", "1e-5 is the default"}});
}

void check_channels(std::string_view layer, const Tensor& x, std::int64_t channels, const Where& where) {
    if (!x.defined()) fail("tensor/undefined", layer, where, {{"argument", "the input"}});
    if (x.rank() < 2) {
        fail("shape/rank", layer, where,
             {{"argument", "the input"},
              {"got", x.rank()},
              {"expected", "2 or more"},
              {"help", "it is [N, channels, spatial...]"}},
             "input " + describe(x));
    }
    if (x.size(1) == channels) return;
    Shape expected = x.shape();
    expected[1] = channels;
    fail("shape/mismatch", layer, where,
         {{"argument", "the input"}, {"got", x.shape()}, {"expected", expected}, {"help", "axis 1 holds the channels"}},
         "input " + describe(x));
}

}  // namespace

BatchNorm::BatchNorm(const Options& o, const Where& where)
    : epsilon_(o.epsilon), momentum_(o.momentum), channels_(o.channels) {
    const Naming naming("BatchNorm");
    check_at_least("BatchNorm", "channels", o.channels, 1, where);
    check_epsilon("BatchNorm", o.epsilon, where);
    if (momentum_ && !(*momentum_ >= 0 && *momentum_ <= 1)) {
        fail("value/option", "BatchNorm", where,
             {{"option", "momentum"},
              {"got", *momentum_},
              {"expected", "a number in [0, 1]"},
              {"help", "it is the share of the new batch: 0.1 is the default"}});
    }
    const Shape shape{o.channels};
    if (o.affine) {
        weight = Parameter(ones(shape, o.dtype, where), where);
        bias = Parameter(zeros(shape, o.dtype, where), where);
    }
    if (o.track_statistics) {
        running_mean = Buffer(zeros(shape, compute_type(o.dtype), where), where);
        running_var = Buffer(ones(shape, compute_type(o.dtype), where), where);
        num_batches_tracked = Buffer(scalar(0, i64, where), where);
    }
}

Tensor BatchNorm::operator()(const Tensor& x, const Where& where) const {
    check_channels("BatchNorm", x, channels_, where);
    const bool tracks = running_mean.defined();
    if (!mode.training() && tracks) {
        return batch_norm_inference(x, running_mean, running_var, weight.optional(), bias.optional(), epsilon_, where);
    }
    BatchNormResult result = batch_norm(x, weight.optional(), bias.optional(), epsilon_, where);
    if (mode.training() && tracks && x.numel() != 0) follow(result.mean, result.variance, x.numel() / channels_, where);
    return std::move(result.output);
}

void BatchNorm::follow(const Tensor& mean, const Tensor& variance, std::int64_t count, const Where& where) const {
    const NoGrad guard;
    const OnDevice scope(running_mean.value().device());
    const Tensor batches = num_batches_tracked.value() + 1;
    num_batches_tracked.set(batches, where);
    const DType dtype = running_mean.dtype();
    const Tensor share = momentum_ ? scalar(*momentum_, dtype, where) : 1.0 / batches.to(dtype, where);
    const double unbiased = static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
    running_mean.set(lerp(running_mean.value(), mean.detach(where).to(dtype, where), share, where), where);
    running_var.set(lerp(running_var.value(), variance.detach(where).to(dtype, where) * unbiased, share, where), where);
}

LayerNorm::LayerNorm(const Options& o, const Where& where) : shape_(o.shape), epsilon_(o.epsilon) {
    const Naming naming("LayerNorm");
    check_at_least("LayerNorm", "the number of axes in shape", o.shape.rank(), 1, where);
    for (const std::int64_t size : o.shape) check_at_least("LayerNorm", "a size in shape", size, 1, where);
    check_epsilon("LayerNorm", o.epsilon, where);
    if (o.affine) weight = Parameter(ones(shape_, o.dtype, where), where);
    if (o.affine && o.bias) bias = Parameter(zeros(shape_, o.dtype, where), where);
}

Tensor LayerNorm::operator()(const Tensor& x, const Where& where) const {
    if (!x.defined()) fail("tensor/undefined", "LayerNorm", where, {{"argument", "the input"}});
    const std::int64_t lead = x.rank() - shape_.rank();
    if (lead < 0 || !std::equal(shape_.begin(), shape_.end(), x.shape().begin() + lead)) {
        fail("shape/mismatch", "LayerNorm", where,
             {{"argument", "the input"},
              {"got", x.shape()},
              {"expected", "[..., " + to_string(shape_).substr(1)},
              {"help", "the last axes are normalised"}},
             "input " + describe(x));
    }
    return layer_norm(x, shape_.rank(), weight.optional(), bias.optional(), epsilon_, where);
}

GroupNorm::GroupNorm(const Options& o, const Where& where)
    : groups_(o.groups), channels_(o.channels), epsilon_(o.epsilon) {
    const Naming naming("GroupNorm");
    check_at_least("GroupNorm", "groups", o.groups, 1, where);
    check_at_least("GroupNorm", "channels", o.channels, 1, where);
    check_epsilon("GroupNorm", o.epsilon, where);
    if (o.channels % o.groups != 0) {
        fail("value/option", "GroupNorm", where,
             {{"option", "channels"},
              {"got", o.channels},
              {"expected", "a multiple of groups, " + std::to_string(o.groups)},
              {"help", "channels are split in equal groups"}});
    }
    if (!o.affine) return;
    weight = Parameter(ones({o.channels}, o.dtype, where), where);
    bias = Parameter(zeros({o.channels}, o.dtype, where), where);
}

Tensor GroupNorm::operator()(const Tensor& x, const Where& where) const {
    check_channels("GroupNorm", x, channels_, where);
    return group_norm(x, groups_, weight.optional(), bias.optional(), epsilon_, where);
}

}  // namespace calor::nn
