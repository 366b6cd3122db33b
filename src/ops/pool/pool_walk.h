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
    /// That of a window whose taps all lie in the data.
    double whole_divisor() const { return static_cast<double>(a.divisor > 0 ? a.divisor : tap_count(a.window)); }
};

/// Where a row is among groups, lane blocks and positions: decoded once, then counted up.
struct Row {
    Row(const Walk& w, std::int64_t row) : walk(w), position(w.a.window.rank(), 0) {
        std::int64_t rest = row % w.outer;
        group = row / w.outer;
        if (!w.channels) {
            block = rest % w.lane_blocks;
            rest /= w.lane_blocks;
        }
        for (std::int64_t i = walked() - 1; i >= 0; --i) {
            position[i] = rest % w.a.positions[i];
            rest /= w.a.positions[i];
        }
        place();
    }
    /// Axes that rows are counted over: all of them, or all but the last.
    std::int64_t walked() const { return walk.a.window.rank() - (walk.channels ? 0 : 1); }
    void next() {
        if (!walk.channels && ++block < walk.lane_blocks) return place();
        block = 0;
        std::int64_t i = walked() - 1;
        for (; i >= 0 && ++position[i] == walk.a.positions[i]; --i) position[i] = 0;
        if (i < 0) ++group;
        place();
    }
    void place() {
        const std::int64_t channels = walk.y.size(1), per_sample = walk.channels ? walk.lane_blocks : channels;
        if (group != placed_group) {
            sample = group / per_sample;
            channel = group % per_sample * (walk.channels ? most_lanes : 1);
            placed_group = group;
        }
        const std::int64_t last = position.rank() - 1;
        if (!walk.channels) position[last] = block * most_lanes;
        lanes = std::min(most_lanes, walk.channels ? channels - channel : walk.a.positions[last] - position[last]);
        y_at = sample * walk.y.stride(0) + channel * walk.y.stride(1);
        x_at = sample * walk.x.stride(0) + channel * walk.x.stride(1);
        const Window& w = walk.a.window;
        for (std::int64_t i = 0; i <= last; ++i) {
            y_at += position[i] * walk.y.stride(i + 2);
            if (i < walked()) x_at += (position[i] * w.stride[i] - w.pad_low[i]) * walk.x.stride(i + 2);
        }
    }

    const Walk& walk;
    Dims position;  ///< of lane 0
    std::int64_t group = 0, block = 0, sample = 0, channel = 0, lanes = 0, placed_group = -1;
    std::int64_t y_at = 0, x_at = 0;  ///< x_at: of the walked axes' tap 0, which may lie outside the data
};

/// All taps of the window at `row` that lie in the data, in row-major order.
template <class Body> inline void walk_taps(const Walk& w, const Row& row, Dims& tap, Body& body) {
    const Window& window = w.a.window;
    const std::int64_t walked = row.walked(), last = window.rank() - 1;
    for (std::int64_t i = 0; i < walked; ++i) {
        const Walk::Axis& axis = w.axes[static_cast<std::size_t>(i)];
        const auto p = static_cast<std::size_t>(row.position[i]);
        if (axis.begin[p] >= axis.end[p]) return;
        tap[i] = axis.begin[p];
    }
    for (;;) {
        std::int64_t id = 0, at = row.x_at;
        for (std::int64_t i = 0; i < walked; ++i) {
            id = id * window.kernel[i] + tap[i];
            at += tap[i] * window.dilation[i] * w.x.stride(i + 2);
        }
        if (w.channels) {
            body.tap(0, row.lanes, at, id);
        } else {
            const std::int64_t from = row.position[last], step = w.x.stride(last + 2);
            for (std::int64_t t = 0; t < window.kernel[last]; ++t) {
                const std::int64_t low = std::max(w.first[static_cast<std::size_t>(t)] - from, std::int64_t{0});
                const std::int64_t high = std::min(w.last[static_cast<std::size_t>(t)] - from, row.lanes);
                if (low >= high) continue;
                const std::int64_t i =
                    (from + low) * window.stride[last] - window.pad_low[last] + t * window.dilation[last];
                body.tap(low, high, at + i * step, id * window.kernel[last] + t);
            }
        }
        std::int64_t i = walked - 1;
        for (; i >= 0; --i) {
            const Walk::Axis& axis = w.axes[static_cast<std::size_t>(i)];
            const auto p = static_cast<std::size_t>(row.position[i]);
            if (++tap[i] < axis.end[p]) break;
            tap[i] = axis.begin[p];
        }
        if (i < 0) return;
    }
}

/// Calls of `body` for rows [begin, end):
///   body.row(row, whole)                   a row as a whole; false to get the calls below instead. `whole`: its lanes
///   are channels
///                                          side by side, and all taps lie in the data, at row.x_at + tap_offset
///   body.begin(y_offset, lanes, position)  a row starts; `position` is that of lane 0
///   body.tap(low, high, x_offset, id)      lanes [low, high) read x[x_offset + (lane - low) * x_step]
///   body.finish()
template <class Body> inline void walk_rows(const Walk& w, std::int64_t begin, std::int64_t end, Body& body) {
    if (begin >= end) return;
    Row row(w, begin);
    Dims tap(w.a.window.rank(), 0);
    for (std::int64_t r = begin; r < end; ++r, row.next()) {
        bool whole = w.channels && w.x_step == 1 && w.y_step == 1;
        for (std::int64_t i = 0; whole && i < row.walked(); ++i) {
            const Walk::Axis& axis = w.axes[static_cast<std::size_t>(i)];
            const auto p = static_cast<std::size_t>(row.position[i]);
            whole = axis.begin[p] == 0 && axis.end[p] == w.a.window.kernel[i];
        }
        if (body.row(row, whole)) continue;
        body.begin(row.y_at, row.lanes, row.position);
        walk_taps(w, row, tap, body);
        body.finish();
    }
}

}  // namespace calor::ops::pool
