#include "ops/view/border.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"

namespace calor::ops {

std::int64_t border_source(PadMode mode, std::int64_t i, std::int64_t n) {
    const auto within = [&](std::int64_t period) { return (i % period + period) % period; };
    switch (mode) {
        case PadMode::replicate: return std::clamp<std::int64_t>(i, 0, n - 1);
        case PadMode::circular: return within(n);
        case PadMode::symmetric: {
            const std::int64_t at = within(2 * n);
            return at < n ? at : 2 * n - 1 - at;
        }
        case PadMode::reflect: {
            if (n == 1) return 0;
            const std::int64_t at = within(2 * n - 2);
            return at < n ? at : 2 * n - 2 - at;
        }
        case PadMode::constant: break;
    }
    fail_internal("a constant border repeats no entry");
}

std::vector<BorderAxis> border_axes(const BorderAttributes& attributes, const View& inner, const View& outer,
                                    const View& target) {
    Dims order;
    for (std::int64_t a = 0; a < inner.rank(); ++a) {
        if (outer.size(a) != 1) order.push_back(a);
    }
    std::ranges::stable_sort(
        order, [&](std::int64_t a, std::int64_t b) { return std::abs(target.stride(a)) > std::abs(target.stride(b)); });
    std::vector<BorderAxis> axes;
    for (const std::int64_t a : order) {
        BorderAxis axis{inner.size(a), outer.size(a), attributes.low[a], inner.stride(a), outer.stride(a), {}};
        if (axis.inner != axis.outer) {
            for (std::int64_t i = 0; i < axis.outer; ++i) {
                axis.source.push_back(border_source(attributes.mode, i - axis.low, axis.inner));
            }
        } else if (!axes.empty() && !axes.back().padded() &&
                   axes.back().inner_stride == axis.inner_stride * axis.inner &&
                   axes.back().outer_stride == axis.outer_stride * axis.outer) {
            axis.inner = axis.outer = axis.inner * axes.back().inner;
            axes.pop_back();
        }
        axes.push_back(std::move(axis));
    }
    if (axes.empty()) axes.emplace_back();
    return axes;
}

namespace {

/// Walks the rows of the padded data in order and knows where the data of each one starts.
class PaddedRows {
public:
    PaddedRows(const std::vector<BorderAxis>& axes, std::int64_t row) : axes_(axes), at_(axes.size() - 1, 0) {
        for (std::size_t a = at_.size(); a-- > 0; row /= axes[a].outer) {
            at_[a] = row % axes[a].outer;
            offset_ += offset_along(a);
        }
    }
    void next() {
        for (std::size_t a = at_.size(); a-- > 0;) {
            offset_ -= offset_along(a);
            const bool wraps = ++at_[a] == axes_[a].outer;
            if (wraps) at_[a] = 0;
            offset_ += offset_along(a);
            if (!wraps) return;
        }
    }
    std::int64_t offset() const { return offset_; }

private:
    std::int64_t offset_along(std::size_t a) const {
        const BorderAxis& axis = axes_[a];
        return (axis.padded() ? axis.source[static_cast<std::size_t>(at_[a])] : at_[a]) * axis.inner_stride;
    }

    const std::vector<BorderAxis>& axes_;
    std::vector<std::int64_t> at_;
    std::int64_t offset_ = 0;
};

/// The data goes to its place; what surrounds it is read back from there.
template <class T> void copy_row(const BorderAxis& axis, const T* x, T* y) {
    T* data = y + axis.low;
    if (axis.inner_stride == 1) {
        std::memcpy(data, x, static_cast<std::size_t>(axis.inner) * sizeof(T));
    } else {
        cpu::gather(data, x, axis.inner_stride, sizeof(T), axis.inner);
    }
    if (!axis.padded()) return;
    const std::int64_t* source = axis.source.data();
    for (std::int64_t i = 0; i < axis.low; ++i) y[i] = data[source[i]];
    for (std::int64_t i = axis.low + axis.inner; i < axis.outer; ++i) y[i] = data[source[i]];
}

template <class T> void copy_rows(const graph::Call& call) {
    const View &x = call.inputs[0], &y = call.outputs[0];
    const std::vector<BorderAxis> axes = border_axes(call.attrs<BorderAttributes>(), x, y, y);
    const BorderAxis& last = axes.back();
    cpu::parallel_for(y.count() / last.outer, std::max<std::int64_t>(1, 16384 / last.outer),
                      [&](std::int64_t begin, std::int64_t end) {
                          PaddedRows rows(axes, begin);
                          for (std::int64_t row = begin; row < end; ++row, rows.next()) {
                              copy_row(last, x.as<const T>() + rows.offset(), y.as<T>() + row * last.outer);
                          }
                      });
}

}  // namespace

void border_rows(const graph::Call& call) {
    if (call.outputs[0].count() == 0) return;
    switch (size_of(call.outputs[0].dtype)) {
        case 1: return copy_rows<std::uint8_t>(call);
        case 2: return copy_rows<std::uint16_t>(call);
        case 4: return copy_rows<std::uint32_t>(call);
        default: return copy_rows<std::uint64_t>(call);
    }
}

void border_reference(const graph::Call& call) {
    const View &x = call.inputs[0], &y = call.outputs[0];
    const auto& a = call.attrs<BorderAttributes>();
    const std::int64_t size = size_of(x.dtype);
    Dims at(y.rank(), 0);
    for (std::int64_t i = 0, n = y.count(); i < n; ++i) {
        std::int64_t from = 0, to = 0;
        for (std::int64_t d = 0; d < y.rank(); ++d) {
            from += border_source(a.mode, at[d] - a.low[d], x.size(d)) * x.stride(d);
            to += at[d] * y.stride(d);
        }
        std::memcpy(y.as<std::byte>() + to * size, x.as<const std::byte>() + from * size,
                    static_cast<std::size_t>(size));
        for (std::int64_t d = y.rank() - 1; d >= 0 && ++at[d] == y.size(d); --d) at[d] = 0;
    }
}

}  // namespace calor::ops
