// Linear: x w' + bias. Embedding: rows of a table.
#pragma once

#include <optional>

#include "calor/nn/fields.h"

namespace calor::nn {

/// x [..., in] -> [..., out].
class Linear {
public:
    struct Options {
        std::int64_t in = 0;   ///< features that come in, 1 or more
        std::int64_t out = 0;  ///< features that go out, 1 or more
        bool bias = true;
        DType dtype = f32;
    };
    /// Weight and bias start uniform in 1 / sqrt(in) either side of 0. Throws ValueError [value/option].
    explicit Linear(const Options& options, const Where& where = Where::current());
    /// Throws as calor::linear.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;

    Parameter weight;  ///< [out, in]
    Parameter bias;    ///< [out], or undefined
    CALOR_FIELDS(weight, bias)
};

/// Indices [...] -> [..., width].
class Embedding {
public:
    struct Options {
        std::int64_t count = 0;  ///< rows of the table, 1 or more
        std::int64_t width = 0;  ///< length of a row, 1 or more
        std::optional<std::int64_t> padding =
            std::nullopt;  ///< a row (which may count from the end) that is zero and stays so
        DType dtype = f32;
    };
    /// The rows start normal with deviation 1. Throws ValueError [value/option].
    explicit Embedding(const Options& options, const Where& where = Where::current());
    /// Throws as calor::embedding.
    Tensor operator()(const Tensor& indices, const Where& where = Where::current()) const;

    Parameter weight;  ///< [count, width]
    CALOR_FIELDS(weight)

private:
    std::optional<std::int64_t> padding_;
};

}  // namespace calor::nn
