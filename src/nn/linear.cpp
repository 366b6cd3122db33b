// Linear and Embedding.
#include "calor/nn/linear.h"

#include <cmath>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/index.h"
#include "calor/matmul.h"
#include "calor/random.h"
#include "calor/view.h"
#include "core/fail.h"
#include "nn/layer_support.h"

namespace calor::nn {

void check_at_least(std::string_view layer, std::string_view option, std::int64_t got, std::int64_t least,
                    const Where& where) {
    if (got >= least) return;
    fail("value/option", layer, where,
         {{"option", option},
          {"got", got},
          {"expected", std::to_string(least) + " or more"},
          {"help", "see the layer's options"}});
}

Dims check_per_axis(std::string_view layer, std::string_view option, const PerAxis& given, std::int64_t axes,
                    std::int64_t fallback, const Where& where) {
    if (!given.given()) return {axes, fallback};
    const Dims& values = given.values();
    const bool every = given.scalar();
    if (!every && values.rank() != axes) {
        fail("value/count", layer, where, {{"option", option}, {"got", values.rank()}, {"expected", axes}});
    }
    Dims out(axes, fallback);
    for (std::int64_t i = 0; i < axes; ++i) {
        out[i] = values[every ? 0 : i];
        check_at_least(layer, option, out[i], 1, where);
    }
    return out;
}

Parameter default_parameter(const Shape& shape, std::int64_t fan, DType dtype, const Where& where) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan));
    return Parameter(uniform(shape, -bound, bound, dtype, default_generator(), where), where);
}

Linear::Linear(const Options& o, const Where& where) {
    const Naming naming("Linear");
    check_at_least("Linear", "in", o.in, 1, where);
    check_at_least("Linear", "out", o.out, 1, where);
    weight = default_parameter({o.out, o.in}, o.in, o.dtype, where);
    if (o.bias) bias = default_parameter({o.out}, o.in, o.dtype, where);
}

Tensor Linear::operator()(const Tensor& x, const Where& where) const {
    return linear(x, weight, bias.optional(), where);
}

Embedding::Embedding(const Options& o, const Where& where) : padding_(o.padding) {
    const Naming naming("Embedding");
    check_at_least("Embedding", "count", o.count, 1, where);
    check_at_least("Embedding", "width", o.width, 1, where);
    Tensor rows = normal({o.count, o.width}, 0, 1, o.dtype, default_generator(), where);
    if (padding_) {
        if (*padding_ < -o.count || *padding_ >= o.count) {
            fail("value/option", "Embedding", where,
                 {{"option", "padding"},
                  {"got", *padding_},
                  {"expected", "a row in [-count, count)"},
                  {"help", "leave it out for no padding row"}});
        }
        if (*padding_ < 0) *padding_ += o.count;
        const Tensor row = scalar(*padding_, i64, where);
        rows = scatter(rows, 0, expand(row, {1, o.width}, where), scalar(0, o.dtype, where), where);
    }
    weight = Parameter(rows, where);
}

Tensor Embedding::operator()(const Tensor& indices, const Where& where) const {
    return embedding(weight, indices, padding_, where);
}

}  // namespace calor::nn
