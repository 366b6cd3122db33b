// Scaled dot-product attention (Vaswani et al. 2017): softmax(q k' scale + mask) v over the last two axes.
#pragma once

#include <optional>

#include "calor/tensor.h"

namespace calor {

struct AttentionOptions {
    Tensor mask = {};     ///< broadcasts to [.., T, S]: bool (false: not attended to) or floating (added to the scores)
    bool causal = false;  ///< query t attends to keys up to t + S - T
    std::optional<double> scale = std::nullopt;  ///< 1 / sqrt(E) unless given
};

/// q [.., T, E], k [.., S, E], v [.., S, F] -> [.., T, F]. Leading axes broadcast, so that queries may share keys. A
/// query that may attend to nothing gives 0. Floating dtypes, the same for all three; f16 and bf16 are computed in f32.
/// Throws ShapeError [shape/rank], [shape/mismatch], [shape/broadcast], DTypeError [dtype/mismatch],
/// [dtype/unsupported], ValueError [value/option] for a scale that is not finite.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {},
                 const Where& where = Where::current());

}  // namespace calor
