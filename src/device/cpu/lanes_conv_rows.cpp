// Taps along each axis, their products, pieces of rows.
#include "device/cpu/lanes_conv_rows.h"

namespace calor::cpu::lanes {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

}  // namespace

std::vector<Pass> passes_of(const Problem& p) {
    std::vector<Pass> all{{}};
    for (std::int64_t i = 0; i < p.axes(); ++i) {
        const std::int64_t stride = p.s.stride[i], dilation = p.s.dilation[i], low = p.s.pad_low[i];
        const std::int64_t in = p.x.size(i + 2), out = p.y.size(i + 2), taps = p.w.size(i + 2);
        std::vector<Axis> phases;
        if (p.role == ConvRole::input_grad) {
            for (std::int64_t f = 0; f < std::min(stride, in); ++f) {
                phases.push_back({ceil_div(in - f, stride), 1, out, f, stride, {}});
                for (std::int64_t k = taps; k-- > 0;)
                    if (const std::int64_t reach = f + low - k * dilation; reach % stride == 0)
                        phases.back().taps.push_back({reach / stride, k});
            }
        } else {
            phases.push_back({out, stride, in, 0, 1, {}});
            for (std::int64_t k = 0; k < taps; ++k) phases.back().taps.push_back({k * dilation - low, k});
        }
        std::vector<Pass> longer;
        for (const Pass& pass : all) {
            for (const Axis& phase : phases) {
                longer.push_back(pass);
                longer.back().push_back(phase);
            }
        }
        all = std::move(longer);
    }
    return all;
}

Rows::Rows(const Pass& pass, const Dims& kernel, const Dims& source, std::int64_t padded)
    : pass_(pass), kernel_(kernel), source_(source), padded_(padded), first_(pass.size() - 1, -1) {
    count_ = first_;
    const Axis& last = pass.back();
    bounds_ = {0, last.size};
    for (const Tap& tap : last.taps)
        for (const std::int64_t edge : {ceil_div(-tap.at, last.step), ceil_div(last.inside - tap.at, last.step)})
            bounds_.push_back(std::clamp<std::int64_t>(edge, 0, last.size));
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
}

const std::vector<Piece>& Rows::at(const Dims& index) {
    bool same = !pieces_.empty();
    for (std::size_t i = 0; i + 1 < pass_.size(); ++i) {
        const Axis& axis = pass_[i];
        const auto inside = [&](const Tap& tap) {
            const std::int64_t place = index[static_cast<std::int64_t>(i)] * axis.step + tap.at;
            return place >= 0 && place < axis.inside;
        };
        std::int64_t first = 0, past = std::ssize(axis.taps);
        while (first < past && !inside(axis.taps[static_cast<std::size_t>(first)])) ++first;
        while (past > first && !inside(axis.taps[static_cast<std::size_t>(past - 1)])) --past;
        same = same && first_[i] == first && count_[i] == past - first;
        first_[i] = first;
        count_[i] = past - first;
    }
    if (!same) make();
    return pieces_;
}

void Rows::make() {
    std::vector<Tap> outer{{0, 0}};
    for (std::size_t i = 0; i + 1 < pass_.size(); ++i) {
        std::vector<Tap> longer;
        const auto axis = static_cast<std::int64_t>(i);
        for (const Tap& tap : outer) {
            for (std::int64_t k = first_[i]; k < first_[i] + count_[i]; ++k) {
                const Tap& more = pass_[i].taps[static_cast<std::size_t>(k)];
                longer.push_back({tap.at + more.at * source_[axis], tap.number * kernel_[axis] + more.number});
            }
        }
        outer = std::move(longer);
    }
    const Axis& last = pass_.back();
    const std::int64_t step = source_[source_.rank() - 1], columns = kernel_[kernel_.rank() - 1];
    pieces_.clear();
    for (std::size_t b = 0; b + 1 < bounds_.size(); ++b) {
        Piece piece{bounds_[b], bounds_[b + 1], {}, {}, false};
        std::vector<Tap> taps;
        for (const Tap& tap : last.taps) {
            const std::int64_t place = piece.begin * last.step + tap.at;
            if (place >= 0 && place < last.inside) taps.push_back(tap);
        }
        piece.strips = taps.size() == 3 && taps[1].at == taps[0].at + last.step &&
                       taps[2].at == taps[1].at + last.step && !outer.empty();
        for (const Tap& row : outer) {
            for (const Tap& tap : taps) {
                piece.tap_at.push_back(static_cast<std::int32_t>(row.at + tap.at * step));
                piece.where.push_back(static_cast<std::int32_t>((row.number * columns + tap.number) * padded_));
            }
        }
        pieces_.push_back(std::move(piece));
    }
}

Units::Units(const Pass& pass, std::int64_t images) : columns(pass.back().size) {
    for (std::size_t i = 0; i + 1 < pass.size(); ++i) outer.push_back(pass[i].size);
    parts = (columns + most_columns - 1) / most_columns;
    count = images * direct::product(outer) * parts;
}

Units::Unit Units::at(std::int64_t i) const {
    Unit u{0, columns * (i % parts) / parts, columns * (i % parts + 1) / parts, outer};
    i /= parts;
    for (std::int64_t a = outer.rank(); a-- > 0;) {
        u.index[a] = i % outer[a];
        i /= outer[a];
    }
    u.image = i;
    return u;
}

}  // namespace calor::cpu::lanes
