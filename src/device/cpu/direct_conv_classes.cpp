// Classes of pixels: per axis the ranges of taps that meet data; a class is one range an axis.
#include "device/cpu/direct_conv_classes.h"

#include <algorithm>

namespace calor::cpu::direct {
namespace {

struct Range {
    std::int64_t first = 0, last = 0;
    friend bool operator==(const Range&, const Range&) = default;
};

/// The distinct ranges of an axis, and which one a pixel has.
struct AxisRanges {
    std::vector<Range> ranges;
    std::vector<std::size_t> of_pixel;
    std::int64_t reads = 0;  ///< taps that meet data, summed over the pixels

    explicit AxisRanges(const AxisReads& axis) {
        const auto taps = static_cast<std::int64_t>(axis.taps.size());
        for (std::int64_t q = 0; q < axis.pixels; ++q) {
            const auto inside = [&](std::int64_t t) {
                const std::int64_t place = q * axis.step + axis.taps[static_cast<std::size_t>(t)] + axis.low;
                return place >= 0 && place < axis.size;
            };
            Range range{0, taps};
            while (range.first < range.last && !inside(range.first)) ++range.first;
            while (range.last > range.first && !inside(range.last - 1)) --range.last;
            const auto known = std::find(ranges.begin(), ranges.end(), range);
            of_pixel.push_back(static_cast<std::size_t>(known - ranges.begin()));
            if (known == ranges.end()) ranges.push_back(range);
            reads += range.last - range.first;
        }
    }
};

constexpr std::int64_t longest_run = 512;  ///< taps whose weights stay in the first-level cache
constexpr std::size_t most_classes = 4096;

}  // namespace

PixelClasses::PixelClasses(const std::vector<AxisReads>& axes, std::int64_t channels, double worthwhile) {
    const std::size_t outer = axes.size() - 1;
    row_ = axes.back().pixels;
    run_length_ = static_cast<std::int64_t>(axes.back().taps.size()) * channels;
    if (run_length_ > longest_run || run_length_ == 0) return;
    std::vector<AxisRanges> ranges;
    double left = 1;
    std::size_t count = 1, rows = 1;
    for (std::size_t a = 0; a < outer; ++a) {
        const AxisReads& axis = axes[a];
        if (axis.taps.empty() || axis.pixels == 0) return;
        ranges.emplace_back(axis);
        left *= static_cast<double>(ranges[a].reads) /
                static_cast<double>(axis.pixels * static_cast<std::int64_t>(axis.taps.size()));
        count *= ranges[a].ranges.size();
        rows *= static_cast<std::size_t>(axis.pixels);
        if (count > most_classes) return;
    }
    if (left > worthwhile) return;
    std::vector<std::vector<std::int64_t>> members(count);
    for (std::size_t row = 0; row < rows; ++row) {
        std::size_t rest = row, id = 0, scale = 1;
        for (std::size_t a = outer; a-- > 0;) {
            const auto pixels = static_cast<std::size_t>(axes[a].pixels);
            id += ranges[a].of_pixel[rest % pixels] * scale;
            scale *= ranges[a].ranges.size();
            rest /= pixels;
        }
        members[id].push_back(static_cast<std::int64_t>(row));
    }
    std::vector<std::size_t> starts;
    for (std::size_t id = 0; id < count; ++id) {
        rows_.insert(rows_.end(), members[id].begin(), members[id].end());
        std::vector<std::int64_t> positions{0};
        std::size_t scale = count, rest = id;
        for (std::size_t a = 0; a < outer; ++a) {
            scale /= ranges[a].ranges.size();
            const Range range = ranges[a].ranges[rest / scale];
            rest %= scale;
            std::vector<std::int64_t> longer;
            for (const std::int64_t p : positions)
                for (std::int64_t t = range.first; t < range.last; ++t)
                    longer.push_back(p * static_cast<std::int64_t>(axes[a].taps.size()) + t);
            positions = std::move(longer);
        }
        starts.push_back(runs_.size());
        for (const std::int64_t p : positions) runs_.push_back(static_cast<std::int32_t>(p * run_length_));
        classes_.push_back(
            {static_cast<std::int64_t>(rows_.size()) * row_, nullptr, static_cast<std::int64_t>(positions.size())});
    }
    for (std::size_t id = 0; id < count; ++id) classes_[id].runs = runs_.data() + starts[id];
}

Offsets PixelClasses::sorted(const Offsets& table) const {
    Offsets out;
    out.reserve(table.size());
    for (const std::int64_t row : rows_)
        out.insert(out.end(), table.begin() + row * row_, table.begin() + (row + 1) * row_);
    return out;
}

}  // namespace calor::cpu::direct
