#include "ops/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace calor::ops {

void check_option(std::string_view operation, std::string_view option, std::int64_t value, std::int64_t least,
                  const Where& where) {
    if (value >= least) return;
    fail("value/option", operation, where,
         {{"option", option},
          {"got", value},
          {"expected", fmt::format("{} or larger", least)},
          {"help", "one number for all spatial axes, or a list with one an axis"}});
}

namespace {

/// Throws ValueError [value/option] beyond farthest_reach.
void check_reach(std::string_view operation, std::string_view option, std::int64_t value, std::int64_t most,
                 const Where& where) {
    if (value <= most) return;
    fail("value/option", operation, where,
         {{"option", option},
          {"got", value},
          {"expected", fmt::format("at most {}", most)},
          {"help", "windows and padding reach less than 2^31 elements far"}});
}

}  // namespace

std::int64_t window_extent(const Window& window, std::int64_t axis, const Where& where) {
    return checked_add(checked_multiply(window.dilation[axis], window.kernel[axis] - 1, where), 1, where);
}

std::int64_t window_positions(const Window& window, std::int64_t axis, std::int64_t size, const Where& where) {
    const std::int64_t padded =
        checked_add(checked_add(size, window.pad_low[axis], where), window.pad_high[axis], where);
    const std::int64_t room = padded - window_extent(window, axis, where);
    return room < 0 ? 0 : room / window.stride[axis] + 1;
}

std::int64_t pool_positions(std::string_view operation, const Window& w, std::int64_t a, std::int64_t size,
                            bool ceil_mode, const Tensor& x, const Where& where) {
    const std::int64_t extent = window_extent(w, a, where), most = std::max(w.pad_low[a], w.pad_high[a]);
    if (most >= extent) {
        fail("pool/padding", operation, where, {{"padding", most}, {"axis", a}, {"extent", extent}}, describe(x));
    }
    std::int64_t count = window_positions(w, a, size, where);
    if (ceil_mode) {
        const std::int64_t room = size + w.pad_low[a] + w.pad_high[a] - extent, s = w.stride[a];
        count = room >= 0 ? room / s + (room % s != 0) + 1 : (-room < s ? 1 : 0);
        if (count > 0 && (count - 1) * s >= size + w.pad_low[a]) --count;
    }
    if (count < 1) {
        fail("pool/kernel-too-large", operation, where,
             {{"extent", extent},
              {"axis", a},
              {"padded", size + w.pad_low[a] + w.pad_high[a]},
              {"size", size},
              {"low", w.pad_low[a]},
              {"high", w.pad_high[a]}},
             describe(x));
    }
    return count;
}

Window resolve_window(std::string_view operation, const Dims& kernel, const WindowOptions& options, const Dims& sizes,
                      const Where& where) {
    const std::int64_t n = kernel.rank();
    Window w{kernel, per_axis(operation, "stride", options.stride, n, 1, where),
             per_axis(operation, "dilation", options.dilation, n, 1, where), Dims(n, 0), Dims(n, 0)};
    if (!options.padding.is_same()) {
        w.pad_low = per_axis(operation, "padding", options.padding.low(), n, 0, where);
        w.pad_high = per_axis(operation, "padding", options.padding.high(), n, 0, where);
    }
    for (std::int64_t a = 0; a < n; ++a) {
        check_option(operation, "kernel", w.kernel[a], 1, where);
        check_option(operation, "stride", w.stride[a], 1, where);
        check_option(operation, "dilation", w.dilation[a], 1, where);
        check_option(operation, "padding", w.pad_low[a], 0, where);
        check_option(operation, "padding", w.pad_high[a], 0, where);
        check_reach(operation, "padding", std::max(w.pad_low[a], w.pad_high[a]), farthest_reach, where);
        check_reach(operation, "kernel", w.kernel[a], farthest_reach, where);
        if (w.kernel[a] > 1) {
            check_reach(operation, "dilation", w.dilation[a], (farthest_reach - 1) / (w.kernel[a] - 1), where);
        }
        const std::int64_t extent = window_extent(w, a, where);
        if (!options.padding.is_same() || sizes[a] == 0) continue;
        const std::int64_t steps = (sizes[a] - 1) / w.stride[a];  // ceil(size / stride) - 1
        const std::int64_t reach = checked_add(steps * w.stride[a], extent, where);
        const std::int64_t total = std::max<std::int64_t>(0, reach - sizes[a]);
        w.pad_low[a] = total / 2;
        w.pad_high[a] = total - total / 2;
    }
    return w;
}

void cut_strides(Window& window, const Dims& sizes) {
    for (std::int64_t a = 0; a < window.rank(); ++a) {
        const std::int64_t reach = window.pad_low[a] + window.pad_high[a] + window.dilation[a] * (window.kernel[a] - 1);
        if (window.stride[a] - reach - 2 > sizes[a]) window.stride[a] = sizes[a] + reach + 2;
    }
}

}  // namespace calor::ops
