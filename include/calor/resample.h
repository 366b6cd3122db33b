// Resizing along any axes: interpolation of every mode, and adaptive average pooling. All of them are one linear
// operation: along each axis "output i is a weighted sum of a few inputs", by a table that the options give. Its
// gradient is the same operation with the transposed tables: it gathers, so it needs no atomics, has the same bits for
// any number of threads, and can be differentiated again. Any rank, any strides.
//
// Where an output position o reads, in units of input positions, with s = scale (outputs per input), I and O the sizes:
//   half_pixel            (o + 0.5) / s - 0.5: positions are the middles of pixels (the default)
//   align_corners         o (I - 1) / (O - 1): the first and the last positions agree; 0 when O = 1
//   asymmetric            o / s
//   pytorch_half_pixel    half_pixel; 0 when O = 1
//   half_pixel_symmetric  half_pixel, shifted so that the middle stays the middle when s I is no integer
//   tf_half_pixel_for_nn  (o + 0.5) / s
//   tf_crop_and_resize    a part of the input, from crop_from (I - 1) to crop_to (I - 1), as align_corners does
// (The names and formulas are those of ONNX's Resize.)
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "calor/tensor.h"

namespace calor {

/// As a size: the axis keeps its size.
inline constexpr std::int64_t keep = std::numeric_limits<std::int64_t>::min();

/// One real number per axis, or one for all of them.
class Scales {
public:
    Scales() = default;
    Scales(double every) : values_{every}, scalar_(true) {}  // NOLINT: a number is a list of equal numbers
    Scales(std::initializer_list<double> values) : values_(values) {}
    Scales(std::vector<double> values) : values_(std::move(values)) {}  // NOLINT
    bool given() const { return scalar_ || !values_.empty(); }
    bool scalar() const { return scalar_; }
    const std::vector<double>& values() const { return values_; }

private:
    std::vector<double> values_;
    bool scalar_ = false;
};

/// How an output is made of the inputs around its position x.
enum class Interpolation : std::uint8_t {
    nearest,        ///< one input; which one, NearestRounding says
    nearest_exact,  ///< the input whose pixel x lies in, as exact integers: floor((2 o + 1) I / (2 O))
    linear,         ///< two inputs an axis
    cubic,          ///< four inputs an axis: Keys' convolution kernel with the free parameter cubic_a
    lanczos3,       ///< six inputs an axis: sinc(d) sinc(d / 3), normalised to sum 1
    area,      ///< the mean of inputs floor(o I / O) to ceil((o + 1) I / O), as adaptive_avg_pool (PyTorch's "area")
    box,       ///< the mean of the inputs whose middle lies in the output's pixel (Pillow's BOX); antialias is implied
    coverage,  ///< inputs weighted by the part of them that the output's pixel covers (OpenCV's INTER_AREA)
};

enum class Coordinates : std::uint8_t {
    half_pixel,
    align_corners,
    asymmetric,
    pytorch_half_pixel,
    half_pixel_symmetric,
    tf_half_pixel_for_nn,
    tf_crop_and_resize,
};

/// Which input Interpolation::nearest takes for a position between two.
enum class NearestRounding : std::uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };

/// What `size` means for the ratio of the axes.
enum class AspectRatio : std::uint8_t {
    stretch,      ///< sizes as given
    not_larger,   ///< one scale for all axes, so that no size is exceeded
    not_smaller,  ///< one scale for all axes, so that every size is reached
};

struct InterpolateOptions {
    PerAxis size = {};  ///< of the spatial axes of the result; `keep` leaves one as it is. Either size or scale.
    Scales scale =
        {};  ///< of the spatial axes; sizes are floor(I scale), where a product within 1e-12 of an integer is it
    Interpolation mode = Interpolation::nearest;  ///< nearest reads floor(o / s), nearest_exact rounds to the pixel
    bool align_corners = false;
    bool antialias = false;  ///< linear, cubic and lanczos3: when an axis shrinks, filters widen with it
    bool recompute_scale =
        false;  ///< coordinates follow from the sizes, O / I, rather than from the scale as it was given
    std::optional<double> cubic_a = {};  ///< -0.75 unless given; -0.5 with antialias
};

/// Resizes x [N, C, spatial...] along any number of spatial axes, by default as PyTorch's interpolate does.
/// nearest: every dtype. u8 images: every mode, rounded to the nearest level and saturated; with antialias (and box)
/// the axes are resized one after the other from the last, in 22-bit fixed point, which gives Pillow's bits. The rest:
/// floating dtypes; f16 and bf16 compute in f32 and round once. With antialias, positions stay at the middles of the
/// pixels that align_corners gives. Throws ShapeError [resample/rank], [resample/empty], ValueError [resample/size],
/// [resample/options], [value/count], [value/option], [shape/overflow], DTypeError [dtype/unsupported].
Tensor interpolate(const Tensor& x, const InterpolateOptions& options, const Where& where = Where::current());

struct ResizeOptions {
    Axes axes = {};     ///< to resize; all of them unless given
    PerAxis size = {};  ///< along `axes`; `keep` leaves one as it is. Either size or scale.
    Scales scale = {};  ///< as in InterpolateOptions
    Interpolation mode = Interpolation::linear;
    Coordinates coordinates = Coordinates::half_pixel;               ///< not for nearest_exact, area, box, coverage
    NearestRounding rounding = NearestRounding::round_prefer_floor;  ///< of mode nearest
    bool antialias = false;
    bool exclude_outside = false;  ///< taps outside the data get weight 0 and the rest is renormalised; else they read
                                   ///< the border
    bool recompute_scale = false;
    std::optional<double> cubic_a = {};  ///< -0.75 unless given; -0.5 with antialias
    AspectRatio aspect = AspectRatio::stretch;
    Scales crop_from = {}, crop_to = {};  ///< tf_crop_and_resize: the part of the input; 0 and 1 are its ends (the
                                          ///< defaults), others lie outside
    double extrapolation = 0;             ///< tf_crop_and_resize: the value of results that lie outside the input
};

/// interpolate along any subset of axes, by ONNX's names. Throws as interpolate does, and ValueError [axis/range],
/// [axis/duplicate].
Tensor resize(const Tensor& x, const ResizeOptions& options, const Where& where = Where::current());

struct AdaptiveAvgPoolOptions {
    PerAxis size = {};  ///< of the spatial axes of the result, any size from 1; `keep` leaves one as it is
};

/// The mean of inputs [floor(o I / O), ceil((o + 1) I / O)) along each spatial axis of x [N, C, spatial...]; O may be
/// larger than I. Floating dtypes; f16 and bf16 sum in f32. Throws ShapeError [resample/rank], [resample/empty],
/// ValueError [resample/size], [value/count], [shape/overflow], DTypeError [dtype/unsupported].
Tensor adaptive_avg_pool(const Tensor& x, const AdaptiveAvgPoolOptions& options, const Where& where = Where::current());

}  // namespace calor
