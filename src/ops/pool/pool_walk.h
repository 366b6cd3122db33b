// The walk of pooling over windows, the same for all of its operations. Work is cut into rows of lanes that are
// computed together: the channels of one position (when they lie side by side), or the positions along the last axis of
// one channel. For every row the walk says where it starts among the positions, and for each tap which lanes read which
// elements of x.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/pool/pool.h"

namespace calor::ops::pool {

inline constexpr std::int64_t most_lanes = 256;
inline constexpr std::int32_t no_tap = INT32_MAX;

/// What is fixed for a call. Offsets are in elements of the views; `x` has the sizes of the data, `y` those of the
/// positions.
struct Walk {
    Walk(const Attributes& attributes, const View& x_view, const View& y_view, bool over_channels);

    const Attributes& a;
    const View &x, &y;
    bool channels;  ///< lanes are channels
    struct Axis {
        std::vector<std::int64_t> begin, end;  ///< taps of each position that lie in the data
        std::vector<std::int64_t> counted;     ///< taps that count when padding does
    };
    std::vector<Axis> axes;
    std::vector<std::int64_t> first,
        last;  ///< positions along the last axis for which tap t lies in the data: [first, last)
    std::vector<std::int64_t> tap_offset;  ///< all taps of a window, from its first one
    std::int64_t lane_blocks = 1;          ///< of at most most_lanes
    std::int64_t outer = 1;                ///< rows of lane blocks a group
    std::int64_t groups =
        1;  ///< (sample, channel block) or (sample, channel): windows of different groups share no element of x
    std::int64_t x_step = 1;  ///< between the elements that neighbouring lanes read for one tap
    std::int64_t y_step = 1;  ///< between lanes of a row
    bool disjoint = true;     ///< no element of x lies in two windows
    bool covers = true;       ///< every element of x lies in a window

    std::int64_t rows() const { return groups * outer; }
    std::vector<double> last_count;  ///< what the last axis contributes to the divisor, a position each
    /// Divisor of the mean for the window at `position`; without the last axis when lanes run along it.
    double divisor(const Dims& position) const;
};

/// Calls of `body` for rows [begin, end):
///   body.begin(y_offset, lanes, position)  a row starts; `position` is that of lane 0
///   body.tap(low, high, x_offset, id)      lanes [low, high) read x[x_offset + (lane - low) * x_step]
///   body.finish()
template <class Body> inline void walk_rows(const Walk& w, std::int64_t begin, std::int64_t end, Body& body) {
    const std::int64_t rank = w.a.window.rank(), walked = w.channels ? rank : rank - 1;
    const std::int64_t channels = w.y.size(1), last_size = w.a.positions[rank - 1];
    const Dims &stride = w.a.window.stride, &dilation = w.a.window.dilation, &kernel = w.a.window.kernel;
    std::int64_t outer_taps = 1;
    for (std::int64_t i = 0; i < walked; ++i) outer_taps *= kernel[i];
    const std::int64_t inner_taps = w.channels ? 1 : kernel[rank - 1];
    Dims position(rank, 0), tap(rank, 0);
    for (std::int64_t row = begin; row < end; ++row) {
        // Where the row is.
        std::int64_t rest = row % w.outer, group = row / w.outer;
        std::int64_t block = 0;
        if (!w.channels) {
            block = rest % w.lane_blocks;
            rest /= w.lane_blocks;
        }
        for (std::int64_t i = walked - 1; i >= 0; --i) {
            position[i] = rest % w.a.positions[i];
            rest /= w.a.positions[i];
        }
        std::int64_t lanes = 0, channel = 0;
        const std::int64_t per_sample = w.channels ? w.lane_blocks : channels;
        const std::int64_t sample = group / per_sample;
        if (w.channels) {
            channel = group % per_sample * most_lanes;
            lanes = std::min(most_lanes, channels - channel);
        } else {
            channel = group % per_sample;
            position[rank - 1] = block * most_lanes;
            lanes = std::min(most_lanes, last_size - position[rank - 1]);
        }
        std::int64_t y_at = sample * w.y.stride(0) + channel * w.y.stride(1);
        std::int64_t x_at = sample * w.x.stride(0) + channel * w.x.stride(1);  // of the tap 0, maybe outside
        bool whole = true;  // all taps of the walked axes lie in the data
        for (std::int64_t i = 0; i < rank; ++i) {
            y_at += position[i] * w.y.stride(i + 2);
            if (i == walked) break;
            x_at += (position[i] * stride[i] - w.a.window.pad_low[i]) * w.x.stride(i + 2);
            const auto p = static_cast<std::size_t>(position[i]);
            const Walk::Axis& axis = w.axes[static_cast<std::size_t>(i)];
            tap[i] = axis.begin[p];
            whole = whole && axis.begin[p] == 0 && axis.end[p] == kernel[i];
        }
        body.begin(y_at, lanes, position);
        if (w.channels && whole) {
            for (std::int64_t id = 0; id < outer_taps; ++id)
                body.tap(0, lanes, x_at + w.tap_offset[static_cast<std::size_t>(id)], id);
            body.finish();
            continue;
        }
        bool any = true;
        for (std::int64_t i = 0; i < walked; ++i) {
            const auto p = static_cast<std::size_t>(position[i]);
            any = any && w.axes[static_cast<std::size_t>(i)].begin[p] < w.axes[static_cast<std::size_t>(i)].end[p];
        }
        while (any) {
            std::int64_t id = 0, at = x_at;
            for (std::int64_t i = 0; i < walked; ++i) {
                id = id * kernel[i] + tap[i];
                at += tap[i] * dilation[i] * w.x.stride(i + 2);
            }
            if (w.channels) {
                body.tap(0, lanes, at, id);
            } else {
                const std::int64_t from = position[rank - 1], step = w.x.stride(rank + 1);
                for (std::int64_t t = 0; t < inner_taps; ++t) {
                    const std::int64_t low = std::max(w.first[static_cast<std::size_t>(t)] - from, std::int64_t{0});
                    const std::int64_t high = std::min(w.last[static_cast<std::size_t>(t)] - from, lanes);
                    if (low >= high) continue;
                    const std::int64_t i =
                        (from + low) * stride[rank - 1] - w.a.window.pad_low[rank - 1] + t * dilation[rank - 1];
                    body.tap(low, high, at + i * step, id * inner_taps + t);
                }
            }
            std::int64_t i = walked - 1;
            for (; i >= 0; --i) {
                const auto p = static_cast<std::size_t>(position[i]);
                if (++tap[i] < w.axes[static_cast<std::size_t>(i)].end[p]) break;
                tap[i] = w.axes[static_cast<std::size_t>(i)].begin[p];
            }
            any = i >= 0;
        }
        body.finish();
    }
}

}  // namespace calor::ops::pool
