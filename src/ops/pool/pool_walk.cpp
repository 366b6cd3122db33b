#include "ops/pool/pool_walk.h"

namespace calor::ops::pool {

Walk::Walk(const Attributes& attributes, const View& x_view, const View& y_view, bool over_channels)
    : a(attributes), x(x_view), y(y_view), channels(over_channels) {
    const Window& w = a.window;
    const std::int64_t rank = w.rank();
    for (std::int64_t i = 0; i < rank; ++i) {
        Axis axis;
        const std::int64_t d = w.dilation[i], size = a.sizes[i];
        for (std::int64_t p = 0; p < a.positions[i]; ++p) {
            const std::int64_t start = p * w.stride[i] - w.pad_low[i];
            const auto taps_below = [&](std::int64_t limit) {  // taps at coordinates below `limit`
                return limit <= start ? 0 : std::min((limit - start + d - 1) / d, w.kernel[i]);
            };
            axis.begin.push_back(taps_below(0));
            axis.end.push_back(std::max(axis.begin.back(), taps_below(size)));
            axis.counted.push_back(taps_below(size + w.pad_high[i]));
        }
        axes.push_back(std::move(axis));
        const std::int64_t extent = d * (w.kernel[i] - 1) + 1;
        disjoint = disjoint && extent <= w.stride[i];
        covers = covers && w.kernel[i] == w.stride[i] && d == 1 && a.positions[i] * w.stride[i] - w.pad_low[i] >= size;
    }
    const std::int64_t l = rank - 1;
    for (std::int64_t t = 0; t < w.kernel[l]; ++t) {
        std::int64_t low = 0, high = a.positions[l];
        const auto at = [&](std::int64_t p) { return p * w.stride[l] - w.pad_low[l] + t * w.dilation[l]; };
        while (low < high && at(low) < 0) ++low;
        while (low < high && at(high - 1) >= a.sizes[l]) --high;
        first.push_back(low);
        last.push_back(high);
    }
    for (std::size_t p = 0; p < axes.back().begin.size(); ++p) {
        const Axis& axis = axes.back();
        last_count.push_back(static_cast<double>(a.count_padding ? axis.counted[p] : axis.end[p] - axis.begin[p]));
    }
    const std::int64_t lanes = channels ? y.size(1) : a.positions[l];
    lane_blocks = (lanes + most_lanes - 1) / most_lanes;
    for (std::int64_t i = 0; i < rank; ++i) outer *= i == l && !channels ? lane_blocks : a.positions[i];
    groups = y.size(0) * (channels ? lane_blocks : y.size(1));
    x_step = channels ? x.stride(1) : w.stride[l] * x.stride(l + 2);
    y_step = channels ? y.stride(1) : y.stride(l + 2);
    tap_offset.assign(1, 0);
    for (std::int64_t i = 0; i < rank; ++i) {
        std::vector<std::int64_t> next;
        for (const std::int64_t o : tap_offset) {
            for (std::int64_t k = 0; k < w.kernel[i]; ++k) next.push_back(o + k * w.dilation[i] * x.stride(i + 2));
        }
        tap_offset = std::move(next);
    }
}

double Walk::divisor(const Dims& position) const {
    if (a.divisor > 0) return static_cast<double>(a.divisor);
    double count = 1;
    for (std::int64_t i = 0; i < a.window.rank() - (channels ? 0 : 1); ++i) {
        const Axis& axis = axes[static_cast<std::size_t>(i)];
        const auto p = static_cast<std::size_t>(position[i]);
        count *= static_cast<double>(a.count_padding ? axis.counted[p] : axis.end[p] - axis.begin[p]);
    }
    return count;
}

}  // namespace calor::ops::pool
