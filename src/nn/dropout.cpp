// Dropout. The mask is bool: a byte an element is all that the backward pass keeps.
#include "calor/nn/dropout.h"

#include "calor/elementwise.h"
#include "calor/random.h"
#include "core/fail.h"
#include "nn/layer_support.h"

namespace calor::nn {
namespace {

void check_probability(double p, const Where& where) {
    if (p >= 0 && p <= 1) return;
    fail("value/option", "dropout", where,
         {{"option", "p"},
          {"got", p},
          {"expected", "a probability in [0, 1]"},
          {"help", "p is the part that is dropped"}});
}

}  // namespace

Tensor dropout(const Tensor& x, const DropoutOptions& o, const Where& at) {
    const Naming naming("dropout");
    check_probability(o.p, at);
    if (!x.defined()) fail("tensor/undefined", "dropout", at, {{"argument", "the input"}});
    if (!is_floating(x.dtype())) {
        fail("dtype/unsupported", "dropout", at,
             {{"argument", "the input"}, {"got", x.dtype()}, {"expected", "a floating dtype"}}, "input " + describe(x));
    }
    Shape shape = x.shape();
    if (o.channels) {
        if (shape.rank() < 2) {
            fail("shape/rank", "dropout", at,
                 {{"argument", "the input"},
                  {"got", shape.rank()},
                  {"expected", "2 or more"},
                  {"help", "it is [N, C, spatial...]"}});
        }
        for (std::int64_t i = 2; i < shape.rank(); ++i) shape[i] = 1;
    }
    if (o.p == 0) return x;
    const OnDevice scope(x.device());
    const Tensor kept = bernoulli(1 - o.p, shape, boolean, default_generator(), at);
    return where(kept, o.p == 1 ? x : mul(x, 1 / (1 - o.p), at), 0, at);
}

Dropout::Dropout(const Options& options, const Where& where) : options_(options) {
    check_probability(options.p, where);
}

Tensor Dropout::operator()(const Tensor& x, const Where& where) const {
    return mode.training() ? dropout(x, options_, where) : x;
}

}  // namespace calor::nn
