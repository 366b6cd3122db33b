// Where the taps of max pooling lie, axis by axis, and walks over rows of windows: the channels of one position, or the
// positions along the last axis of one channel.
#pragma once

#include <vector>

#include "ops/pool/pool.h"

namespace calor::ops::pool {

struct MaxGeometry {
    explicit MaxGeometry(const Attributes& attributes);

    const Attributes& a;
    std::int64_t rank;
    struct Axis {
        std::vector<std::int64_t> begin, end;  ///< taps of each position that lie in the data
    };
    std::vector<Axis> axes;
    std::int64_t inner_low = 0, inner_high = 0;  ///< positions along the last axis whose taps all lie in the data

    /// Elements from tap 0 of a window to each tap, for given strides of the data's axes.
    std::vector<std::int64_t> tap_offsets(std::span<const std::int64_t> strides) const;
    /// Elements to tap 0 of the window at `position`, which may lie outside the data.
    std::int64_t start(std::int64_t axis, std::int64_t position) const {
        return position * a.window.stride[axis] - a.window.pad_low[axis];
    }
    std::int64_t rows() const {  ///< positions without the last axis
        std::int64_t rows = 1;
        for (std::int64_t i = 0; i + 1 < rank; ++i) rows *= a.positions[i];
        return rows;
    }
};

/// Spatial strides of a view [N, C, spatial...].
inline std::span<const std::int64_t> spatial_strides(const View& v) {
    return std::span<const std::int64_t>(*v.strides).subspan(2);
}

inline constexpr std::int32_t no_tap = INT32_MAX;
inline std::int64_t no_tap_of(DType taps) { return taps == u8 ? 255 : no_tap; }

/// The implementations.
void max_forward(const graph::Call& call);
void max_take(const graph::Call& call);
void max_grad(const graph::Call& call);
void max_indices(const graph::Call& call);
void max_on_gpu(const graph::Call& call);
void max_take_on_gpu(const graph::Call& call);
void max_grad_on_gpu(const graph::Call& call);
void max_indices_on_gpu(const graph::Call& call);

}  // namespace calor::ops::pool
