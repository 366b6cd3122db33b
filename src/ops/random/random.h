// What the random operations share: a node without inputs that knows its range of counters.
#pragma once

#include "calor/random.h"
#include "ops/support.h"

namespace calor::random {

struct RandomAttributes {
    Shape shape;
    DType dtype = f32;
    Generator::State at;       ///< first block
    double a = 0, b = 0;       ///< uniform: low, high; normal: mean, std; bernoulli: p
    double c = 0, d = 0;       ///< truncated_normal: probabilities at the ends
    double low = 0, high = 0;  ///< truncated_normal: the ends
    std::int64_t first = 0;    ///< randint: smallest; truncated_normal: 1 when mirrored
    std::uint64_t span = 0;    ///< randint: how many
    friend bool operator==(const RandomAttributes&, const RandomAttributes&) = default;
};

/// Checks the shape, reserves the blocks that it needs (a block holds 4 or 2 elements) and records the node.
Tensor record(const graph::Operation& operation, RandomAttributes attributes, std::int64_t per_block,
              Generator& generator, const Where& where);
graph::Specs infer(const graph::InferContext& c);

/// permutation on GPUs.
std::span<const graph::Implementation> permutation_on_gpu();

/// Inverse of the normal distribution function: Wichura, AS 241 (PPND16), 1988.
double normal_quantile(double p);

}  // namespace calor::random
