// The lines of a tensor along one axis, as strided runs of elements.
#pragma once

#include <cstdint>

#include "device/view.h"

namespace calor::ops {

/// Offsets, in elements, of line number `line` (row-major over the other axes) in a view.
inline std::int64_t line_offset(const View& v, std::int64_t axis, std::int64_t line) {
    std::int64_t offset = 0;
    for (std::int64_t a = v.rank() - 1; a >= 0; --a) {
        if (a == axis) continue;
        offset += line % v.size(a) * v.stride(a);
        line /= v.size(a);
    }
    return offset;
}

}  // namespace calor::ops
