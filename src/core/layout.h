// Layout: how a shape lies in a storage: strides and an offset, in elements.
#pragma once

#include "calor/shape.h"

namespace calor {

struct Layout {
    Strides strides;
    std::int64_t offset = 0;
    friend bool operator==(const Layout&, const Layout&) = default;
};

/// Row-major without gaps (sizes 1 may have any stride).
bool is_contiguous(const Shape& shape, const Strides& strides);
/// A permutation of a row-major tensor: every element of a gap-free block once, strides positive.
bool is_dense(const Shape& shape, const Strides& strides);

}  // namespace calor
