// Max pooling inside. Operations, with taps [N, C, positions...] saying which tap of its window each maximum is
// (u8 when a window has at most 255 taps, else i32; the largest value of the dtype: none):
//   max_pool        x -> y (, taps)
//   max_pool_grad   gy, taps -> gx      and its adjoint  max_pool_take   x, taps -> y
//   pool_indices    taps -> i64 positions in x
#pragma once

#include "ops/window.h"

namespace calor::ops::pool {

struct Attributes {
    Window window;
    Dims sizes, positions;  ///< spatial sizes of x and of y
    bool taps = false;
    friend bool operator==(const Attributes&, const Attributes&) = default;
};

enum class Kind : std::uint8_t { max, max_grad, max_take, indices };

std::int64_t tap_count(const Window& window);
DType tap_dtype(const Window& window);

/// The reference: one window at a time.
void run_reference(Kind kind, const graph::Call& call);

}  // namespace calor::ops::pool
