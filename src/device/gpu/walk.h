// How a kernel walks several operands of one shape: axes in the order of the result's memory, unit axes left out, and
// axes joined that every operand walks without a gap. So few ranks remain, and few variants are compiled.
#pragma once

#include <span>
#include <vector>

#include "device/view.h"

namespace calor::gpu {

struct Walk {
    Shape sizes;                   ///< outermost first; empty for a single element
    std::vector<Strides> strides;  ///< one list an operand

    std::int64_t count() const;
    std::vector<std::span<const std::int64_t>> lists() const;  ///< for Launch::layout
};

/// Joins the axes of operands of shape `shape`; `order` are the strides of the operand whose memory decides the order.
Walk join_axes(const Shape& shape, std::span<const Strides* const> operands, const Strides& order);

}  // namespace calor::gpu
