// The random operations on GPUs: the CPU's numbers.
#pragma once

#include "ops/random/random.h"

namespace calor::random {

/// `limit`: the largest number below the upper end.
void uniform_on_gpu(const graph::Call& c, double limit);
void normal_on_gpu(const graph::Call& c);
void truncated_normal_on_gpu(const graph::Call& c);
void bernoulli_on_gpu(const graph::Call& c);
/// A probability an element. Throws ValueError [value/option].
void bernoulli_of_on_gpu(const graph::Call& c);
void randint_on_gpu(const graph::Call& c);
[[noreturn]] void fail_probability(const graph::Call& c, std::int64_t position, double value);

}  // namespace calor::random
