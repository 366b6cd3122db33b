// Builders of tables: one a mode. Small tables made lately are found again.
#pragma once

#include <optional>

#include "calor/resample.h"
#include "ops/resample/table.h"

namespace calor::ops::resample {

/// What one axis of a resize is asked for.
struct AxisRequest {
    std::int64_t inputs = 0, outputs = 0;
    double scale = 0;  ///< outputs an input; 0: outputs / inputs, in exact integers where the mode allows
    Interpolation mode = Interpolation::linear;
    Coordinates coordinates = Coordinates::half_pixel;
    NearestRounding rounding = NearestRounding::floor;
    bool antialias = false, exclude_outside = false;
    double cubic_a = -0.75;
    double crop_from = 0, crop_to = 1;
    bool fixed_point = false;  ///< also the weights in Pillow's 22 bits
    friend bool operator==(const AxisRequest&, const AxisRequest&) = default;
};

/// The input position at the middle of output o, by the request's coordinate rule.
double coordinate(const AxisRequest& r, std::int64_t o);
/// Entries that the table will have, at most; saturates.
double expected_entries(const AxisRequest& r);
TableRef build_table(const AxisRequest& r);

/// Means of [floor(o I / O), ceil((o + 1) I / O)).
TableRef adaptive_table(std::int64_t inputs, std::int64_t outputs);

/// One axis of average pooling.
struct WindowRequest {
    std::int64_t inputs = 0, outputs = 0, kernel = 1, stride = 1, dilation = 1, pad_low = 0, pad_high = 0;
    bool count_padding = true;
    std::int64_t divisor = 0;  ///< 1 or larger: of every sum
    friend bool operator==(const WindowRequest&, const WindowRequest&) = default;
};
TableRef window_table(const WindowRequest& r);

}  // namespace calor::ops::resample
