// Sliding windows along spatial axes, for convolution and pooling: options resolved to one number an axis, and how many
// positions a window has: floor((size + low + high - dilation (kernel - 1) - 1) / stride) + 1.
#pragma once

#include "calor/window.h"
#include "ops/support.h"

namespace calor::ops {

struct Window {
    Dims kernel, stride, dilation, pad_low, pad_high;
    std::int64_t rank() const { return kernel.rank(); }
    friend bool operator==(const Window&, const Window&) = default;
};

/// Padding and a window's extent are at most this, so that sums and products of them with strides in memory stay far
/// from overflow.
inline constexpr std::int64_t farthest_reach = (std::int64_t{1} << 31) - 1;

struct WindowOptions {
    const PerAxis& stride;
    const PerAxis& dilation;
    const WindowPadding& padding;
};

/// One number an axis, checked: kernel, stride and dilation at least 1, padding at least 0; extents and padding at most
/// farthest_reach. `sizes` are those of the
/// padded data (for `same`). Throws ValueError [value/count], [value/option], [shape/overflow].
Window resolve_window(std::string_view operation, const Dims& kernel, const WindowOptions& options, const Dims& sizes,
                      const Where& where);
/// Strides that lead past all data of these sizes become ones that do so too, but do not overflow.
void cut_strides(Window& window, const Dims& sizes);
/// dilation (kernel - 1) + 1 along an axis. Throws ValueError [shape/overflow].
std::int64_t window_extent(const Window& window, std::int64_t axis, const Where& where);
/// Positions along an axis of `size`; less than 1 when the window is larger than the padded data.
std::int64_t window_positions(const Window& window, std::int64_t axis, std::int64_t size, const Where& where);
/// Positions of a pooling window along an axis: as window_positions, or with the division rounded up, where a window
/// starts before the end of the data. Throws ValueError [pool/padding], ShapeError [pool/kernel-too-large].
std::int64_t pool_positions(std::string_view operation, const Window& window, std::int64_t axis, std::int64_t size,
                            bool ceil_mode, const Tensor& x, const Where& where);
/// Throws ValueError [value/option] unless `value` is at least `least`.
void check_option(std::string_view operation, std::string_view option, std::int64_t value, std::int64_t least,
                  const Where& where);

}  // namespace calor::ops
