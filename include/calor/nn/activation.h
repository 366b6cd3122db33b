// Modules without parameters, for Sequential: activations, flatten, identity.
#pragma once

#include "calor/activations.h"
#include "calor/elementwise.h"
#include "calor/nn/fields.h"
#include "calor/softmax.h"
#include "calor/view.h"

namespace calor::nn {

/// A module of an elementwise function.
template <Tensor (*Function)(const Tensor&, const Where&)> struct Activation {
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const { return Function(x, where); }
    CALOR_FIELDS()
};
using Relu = Activation<&calor::relu>;
using Relu6 = Activation<&calor::relu6>;
using Selu = Activation<&calor::selu>;
using Silu = Activation<&calor::silu>;
using Mish = Activation<&calor::mish>;
using Softsign = Activation<&calor::softsign>;
using Sigmoid = Activation<&calor::sigmoid>;
using LogSigmoid = Activation<&calor::log_sigmoid>;
using HardSigmoid = Activation<&calor::hard_sigmoid>;
using HardSwish = Activation<&calor::hard_swish>;
using Tanh = Activation<&calor::tanh>;

struct LeakyRelu {
    double slope = 0.01;
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const {
        return leaky_relu(x, slope, where);
    }
    CALOR_FIELDS()
};
struct Elu {
    double alpha = 1;
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const { return elu(x, alpha, where); }
    CALOR_FIELDS()
};
struct Gelu {
    calor::Gelu form = calor::Gelu::exact;
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const { return gelu(x, form, where); }
    CALOR_FIELDS()
};
struct Softmax {
    std::int64_t axis = 1;
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const { return softmax(x, axis, where); }
    CALOR_FIELDS()
};
struct LogSoftmax {
    std::int64_t axis = 1;
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const {
        return log_softmax(x, axis, where);
    }
    CALOR_FIELDS()
};
/// Joins the axes `first` to `last`: [N, C, H, W] -> [N, C * H * W].
struct Flatten {
    std::int64_t first = 1, last = -1;
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const {
        return flatten(x, first, last, where);
    }
    CALOR_FIELDS()
};
struct Identity {
    Tensor operator()(const Tensor& x, const Where& = Where::current()) const { return x; }
    CALOR_FIELDS()
};

}  // namespace calor::nn
