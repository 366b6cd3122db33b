// Max pooling: rows of windows go to the kernels of max_kernels.h; max_take and the indices look the saved taps up.
#include <algorithm>

#include "device/cpu/parallel.h"
#include "ops/pool/max_geometry.h"
#include "ops/pool/max_kernels.h"

namespace calor::ops::pool {

MaxGeometry::MaxGeometry(const Attributes& attributes) : a(attributes), rank(attributes.window.rank()) {
    const Window& w = a.window;
    for (std::int64_t i = 0; i < rank; ++i) {
        Axis axis;
        const std::int64_t d = w.dilation[i];
        for (std::int64_t p = 0; p < a.positions[i]; ++p) {
            const auto below = [&](std::int64_t limit) {  // taps at coordinates below `limit`
                return limit <= start(i, p) ? 0 : std::min((limit - start(i, p) + d - 1) / d, w.kernel[i]);
            };
            axis.begin.push_back(below(0));
            axis.end.push_back(std::max(axis.begin.back(), below(a.sizes[i])));
        }
        axes.push_back(std::move(axis));
    }
    const Axis& last = axes.back();
    const std::int64_t k = w.kernel[rank - 1], n = a.positions[rank - 1];
    const auto whole = [&](std::int64_t p) {
        return last.begin[static_cast<std::size_t>(p)] == 0 && last.end[static_cast<std::size_t>(p)] == k;
    };
    while (inner_low < n && !whole(inner_low)) ++inner_low;
    inner_high = inner_low;
    while (inner_high < n && whole(inner_high)) ++inner_high;
}

std::vector<std::int64_t> MaxGeometry::tap_offsets(std::span<const std::int64_t> strides) const {
    std::vector<std::int64_t> offsets{0};
    for (std::int64_t i = 0; i < rank; ++i) {
        std::vector<std::int64_t> next;
        for (const std::int64_t o : offsets) {
            for (std::int64_t k = 0; k < a.window.kernel[i]; ++k) {
                next.push_back(o + k * a.window.dilation[i] * strides[static_cast<std::size_t>(i)]);
            }
        }
        offsets = std::move(next);
    }
    return offsets;
}

namespace {

/// The taps of a window without the last axis, as offsets in x and numbers.
struct OuterTaps {
    std::vector<std::int64_t> offsets, next_offsets;
    std::vector<std::int32_t> ids, next_ids;

    /// `at` are the positions along all axes but the last; offsets count from `base`.
    void find(const MaxGeometry& g, const View& x, const Dims& at, std::int64_t base) {
        offsets.assign(1, base);
        ids.assign(1, 0);
        const Window& w = g.a.window;
        for (std::int64_t i = 0; i + 1 < g.rank; ++i) {
            const auto p = static_cast<std::size_t>(at[i]);
            const std::int64_t begin = g.axes[static_cast<std::size_t>(i)].begin[p];
            const std::int64_t end = g.axes[static_cast<std::size_t>(i)].end[p];
            const std::int64_t step = w.dilation[i] * x.stride(i + 2);
            const std::size_t before = offsets.size();
            const std::int64_t first = g.start(i, at[i]) * x.stride(i + 2);
            next_offsets.clear();
            next_ids.clear();
            for (std::size_t o = 0; o < before; ++o) {
                for (std::int64_t k = begin; k < end; ++k) {
                    next_offsets.push_back(offsets[o] + first + k * step);
                    next_ids.push_back(static_cast<std::int32_t>(ids[o] * w.kernel[i] + k));
                }
            }
            offsets.swap(next_offsets);
            ids.swap(next_ids);
        }
        for (std::int32_t& id : ids) id = static_cast<std::int32_t>(id * w.kernel[g.rank - 1]);
    }
};

/// Rows (sample, channel, positions but the last axis) counted up; with channels as lanes the channel stays 0.
struct RowIndex {
    RowIndex(const MaxGeometry& g, std::int64_t channels, std::int64_t row)
        : g_(g), channels_(channels), at(g.rank - 1, 0) {
        for (std::int64_t i = g.rank - 2; i >= 0; --i) {
            at[i] = row % g.a.positions[i];
            row /= g.a.positions[i];
        }
        c = row % channels;
        n = row / channels;
    }
    void next() {
        std::int64_t i = g_.rank - 2;
        for (; i >= 0 && ++at[i] == g_.a.positions[i]; --i) at[i] = 0;
        if (i >= 0) return;
        if (++c < channels_) return;
        c = 0;
        ++n;
    }
    /// Offset of the row in a view over positions.
    std::int64_t offset(const View& v) const {
        std::int64_t offset = n * v.stride(0) + c * v.stride(1);
        for (std::int64_t i = 0; i < at.rank(); ++i) offset += at[i] * v.stride(i + 2);
        return offset;
    }

private:
    const MaxGeometry& g_;
    std::int64_t channels_;

public:
    Dims at;
    std::int64_t n = 0, c = 0;
};

bool lanes_are_channels(const View& y) { return y.stride(1) == 1 && y.size(1) > 1; }

/// One row of a forward pass.
class ForwardRow {
public:
    ForwardRow(const MaxGeometry& g, const View& x, const View& y, const View* taps)
        : g_(g), x_(x), y_(y), taps_(taps), kernel_(find_max_kernel(x.dtype, taps != nullptr)) {
        const std::int64_t last = g.rank - 1;
        lanes_.x = x.data;
        lanes_.readable_end = 1;
        for (std::int64_t a = 0; a < x.rank(); ++a) {
            (x.stride(a) < 0 ? lanes_.readable_begin : lanes_.readable_end) += (x.size(a) - 1) * x.stride(a);
        }
        lanes_.k_step = g.a.window.dilation[last] * x.stride(last + 2);
        lanes_.wide_taps = taps && taps->dtype != u8;
        lanes_.inner_low = g.inner_low;
        lanes_.inner_high = g.inner_high;
        lanes_.stride = g.a.window.stride[last];
        lanes_.dilation = g.a.window.dilation[last];
        lanes_.size = g.a.sizes[last];
    }
    void run(const RowIndex& row) {
        const std::int64_t channel = lanes_are_channels(y_) ? 0 : row.c * x_.stride(1);
        outer_.find(g_, x_, row.at, row.n * x_.stride(0) + channel);
        lanes_.outer = std::ssize(outer_.offsets);
        lanes_.ids = outer_.ids.data();
        const std::int64_t at = row.offset(y_), last = g_.rank - 1, step = y_.stride(last + 2);
        if (lanes_are_channels(y_)) {
            lanes_.lanes = y_.size(1);
            lanes_.step = x_.stride(1);
            for (std::int64_t p = 0; p < g_.a.positions[last]; ++p) {
                windows(p, g_.axes.back().begin[static_cast<std::size_t>(p)],
                        g_.axes.back().end[static_cast<std::size_t>(p)], at + p * step);
            }
            return;
        }
        lanes_.lanes = g_.a.positions[last];
        lanes_.step = g_.a.window.stride[last] * x_.stride(last + 2);
        lanes_.y_step = step;
        lanes_.begin = g_.axes.back().begin.data();
        lanes_.end = g_.axes.back().end.data();
        lanes_.first = g_.start(last, 0);
        windows(0, 0, g_.a.window.kernel[last], at);
    }

private:
    /// Lane 0 is the window at position p of the last axis.
    void windows(std::int64_t p, std::int64_t begin, std::int64_t end, std::int64_t at) {
        const std::int64_t last = g_.rank - 1;
        const std::int64_t start = g_.start(last, p) * x_.stride(last + 2);
        shifted_.resize(outer_.offsets.size());
        for (std::size_t o = 0; o < shifted_.size(); ++o) shifted_[o] = outer_.offsets[o] + start;
        lanes_.offsets = shifted_.data();
        lanes_.k_begin = begin;
        lanes_.k_end = end;
        if (!shifted_.empty()) {
            const auto [low, high] = std::ranges::minmax_element(shifted_);
            const std::int64_t a = begin * lanes_.k_step, b = (end - 1) * lanes_.k_step;
            lanes_.lowest = *low + std::min(a, b);
            lanes_.highest = *high + std::max(a, b);
        }
        lanes_.y = y_.as<std::byte>() + at * size_of(y_.dtype);
        if (taps_) lanes_.taps = taps_->as<std::byte>() + at * size_of(taps_->dtype);
        kernel_(lanes_);
    }

    const MaxGeometry& g_;
    const View &x_, &y_;
    const View* taps_;
    MaxKernel kernel_;
    MaxLanes lanes_;
    OuterTaps outer_;
    std::vector<std::int64_t> shifted_;
};

/// Calls body(taps, none) with a typed pointer to the saved taps.
template <class F> void with_taps(const View& taps, const F& body) {
    if (taps.dtype == u8) {
        body(taps.as<const std::uint8_t>());
    } else {
        body(taps.as<const std::int32_t>());
    }
}

/// y = the element of x that the saved tap names, 0 for none; rows along the last axis or along channels.
template <class S> void take_rows(const graph::Call& call) {
    const View &x = call.inputs[0], &taps = call.inputs[1], &y = call.outputs[0];
    const MaxGeometry g(call.attrs<Attributes>());
    const std::vector<std::int64_t> offsets = g.tap_offsets(spatial_strides(x));
    const std::int64_t none = no_tap_of(taps.dtype), last = g.rank - 1, width = g.a.positions[last];
    const std::int64_t lane = g.a.window.stride[last] * x.stride(last + 2);
    cpu::parallel_for(
        y.size(0) * y.size(1) * g.rows(), std::max<std::int64_t>(1, 8192 / width),
        [&](std::int64_t begin, std::int64_t end) {
            RowIndex row(g, y.size(1), begin);
            for (std::int64_t r = begin; r < end; ++r, row.next()) {
                std::int64_t from = row.n * x.stride(0) + row.c * x.stride(1);
                for (std::int64_t i = 0; i < last; ++i) from += g.start(i, row.at[i]) * x.stride(i + 2);
                from += g.start(last, 0) * x.stride(last + 2);
                S* to = y.as<S>() + row.offset(y);
                with_taps(taps, [&](const auto* all) {
                    const auto* named = all + row.offset(taps);
                    for (std::int64_t p = 0; p < width; ++p) {
                        const auto id = static_cast<std::int64_t>(named[p * taps.stride(last + 2)]);
                        to[p * y.stride(last + 2)] =
                            id == none ? S() : x.as<const S>()[from + p * lane + offsets[static_cast<std::size_t>(id)]];
                    }
                });
            }
        });
}

}  // namespace

void max_forward(const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const View &x = call.inputs[0], &y = call.outputs[0];
    if (y.count() == 0) return;
    const MaxGeometry g(a);
    const std::int64_t channels = lanes_are_channels(y) ? 1 : y.size(1);
    const std::int64_t work = a.positions.back() * tap_count(a.window) * (y.size(1) / channels);
    cpu::parallel_for(y.size(0) * channels * g.rows(), std::max<std::int64_t>(1, 16384 / work),
                      [&](std::int64_t begin, std::int64_t end) {
                          ForwardRow forward(g, x, y, a.taps ? &call.outputs[1] : nullptr);
                          RowIndex row(g, channels, begin);
                          for (std::int64_t r = begin; r < end; ++r, row.next()) forward.run(row);
                      });
}

void max_take(const graph::Call& call) {
    if (call.outputs[0].count() == 0) return;
    switch (size_of(call.outputs[0].dtype)) {
        case 2: return take_rows<std::uint16_t>(call);
        case 4: return take_rows<float>(call);
        default: return take_rows<double>(call);
    }
}

void max_indices(const graph::Call& call) {
    const View &taps = call.inputs[0], &y = call.outputs[0];
    if (y.count() == 0) return;
    const MaxGeometry g(call.attrs<Attributes>());
    Dims strides = contiguous_strides(g.a.sizes);
    const std::vector<std::int64_t> offsets = g.tap_offsets(strides);
    const std::int64_t none = no_tap_of(taps.dtype), last = g.rank - 1, width = g.a.positions[last];
    cpu::parallel_for(y.size(0) * y.size(1) * g.rows(), std::max<std::int64_t>(1, 8192 / width),
                      [&](std::int64_t begin, std::int64_t end) {
                          RowIndex row(g, y.size(1), begin);
                          for (std::int64_t r = begin; r < end; ++r, row.next()) {
                              std::int64_t from = g.start(last, 0);
                              for (std::int64_t i = 0; i < last; ++i) from += g.start(i, row.at[i]) * strides[i];
                              std::int64_t* to = y.as<std::int64_t>() + row.offset(y);
                              with_taps(taps, [&](const auto* all) {
                                  const auto* named = all + row.offset(taps);
                                  for (std::int64_t p = 0; p < width; ++p) {
                                      const auto id = static_cast<std::int64_t>(named[p * taps.stride(last + 2)]);
                                      to[p * y.stride(last + 2)] = id == none
                                                                       ? -1
                                                                       : from + p * g.a.window.stride[last] +
                                                                             offsets[static_cast<std::size_t>(id)];
                                  }
                              });
                          }
                      });
}

}  // namespace calor::ops::pool
