// Dropout (Srivastava et al. 2014).
#pragma once

#include "calor/nn/fields.h"

namespace calor::nn {

struct DropoutOptions {
    double p = 0.5;         ///< probability that an element is dropped, in [0, 1]
    bool channels = false;  ///< drops whole channels of [N, C, spatial...] together
};
/// Each element is 0 with probability p and x / (1 - p) otherwise; drawn from the default generator.
/// Throws ValueError [value/option]; ShapeError [shape/rank] for `channels` and a rank below 2; DTypeError
/// [dtype/unsupported].
Tensor dropout(const Tensor& x, const DropoutOptions& options = {}, const Where& where = Where::current());

/// dropout() in training mode; passes its input through in evaluation mode.
class Dropout {
public:
    using Options = DropoutOptions;
    explicit Dropout(const Options& options = {}, const Where& where = Where::current());
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;

    Mode mode;
    CALOR_FIELDS(mode)

private:
    Options options_;
};

}  // namespace calor::nn
