// Options of sliding windows, shared by convolution and pooling: padding by number, by axis, by side, or by rule.
#pragma once

#include <initializer_list>

#include "calor/shape.h"

namespace calor {

/// Padding that follows from the sizes.
enum class PaddingRule : std::uint8_t {
    valid,  ///< none
    same,  ///< the result has ceil(size / stride) positions: total = max(0, (ceil(size / stride) - 1) stride + extent -
           ///< size) with extent = dilation (kernel - 1) + 1; half of it, rounded down, comes before the data
           ///< (TensorFlow's rule)
};
inline constexpr PaddingRule valid = PaddingRule::valid;
inline constexpr PaddingRule same = PaddingRule::same;

/// How many entries one axis gains at each end; where that is said, negative numbers cut entries off.
struct Padding {
    std::int64_t before = 0, after = 0;
    friend bool operator==(const Padding&, const Padding&) = default;
};

/// How far windows may reach past the data: `.padding = 1`, `{1, 2}` (one number an axis), `{{1, 2}, {0, 1}}` (before
/// and after, an axis each), `calor::same`, `calor::valid`. Numbers are 0 or larger, and below 2^31, as is what a
/// window covers.
class WindowPadding {
public:
    WindowPadding() = default;                                             ///< none
    WindowPadding(int every) : low_(every), high_(every) {}                // NOLINT: numbers are padding
    WindowPadding(std::int64_t every) : low_(every), high_(every) {}       // NOLINT
    WindowPadding(PaddingRule rule) : same_(rule == PaddingRule::same) {}  // NOLINT
    WindowPadding(std::initializer_list<std::int64_t> axes) : low_(Dims(axes)), high_(low_) {}  // NOLINT
    WindowPadding(const Dims& axes) : low_(axes), high_(axes) {}                                // NOLINT
    WindowPadding(const PerAxis& axes) : low_(axes), high_(axes) {}                             // NOLINT
    WindowPadding(std::initializer_list<Padding> axes) {                                        // NOLINT
        Dims low, high;
        for (const Padding& p : axes) {
            low.push_back(p.before);
            high.push_back(p.after);
        }
        low_ = low;
        high_ = high;
    }
    /// Before and after the data, each one number an axis.
    WindowPadding(const Dims& low, const Dims& high) : low_(low), high_(high) {}

    /// Whether it follows the rule `same`; low() and high() then say nothing.
    bool is_same() const { return same_; }
    const PerAxis& low() const { return low_; }
    const PerAxis& high() const { return high_; }
    friend bool operator==(const WindowPadding&, const WindowPadding&) = default;

private:
    bool same_ = false;
    PerAxis low_, high_;
};

}  // namespace calor
