// interpolate and resize: options to one request an axis, requests to tables.
#include <fmt/format.h>

#include <cmath>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/resample.h"
#include "calor/view.h"
#include "ops/resample/resample.h"
#include "ops/resample/tables.h"

namespace calor {
namespace {

using namespace ops::resample;  // NOLINT: the file implements this family

[[noreturn]] void refuse(std::string_view name, std::string_view why, const Where& where) {
    fail("resample/options", name, where, {{"why", why}});
}

/// One number an axis. Throws [value/count], [value/option].
std::vector<double> numbers(std::string_view name, std::string_view option, const Scales& s, std::size_t count,
                            double low, double high, double otherwise, const Where& where) {
    std::vector<double> v = s.values();
    if (!s.given()) v.assign(count, otherwise);
    if (s.scalar()) v.assign(count, s.values()[0]);
    if (v.size() != count) {
        fail("value/count", name, where,
             {{"option", option}, {"got", std::ssize(v)}, {"expected", static_cast<std::int64_t>(count)}});
    }
    for (const double d : v) {
        if (d >= low && d <= high && std::isfinite(d)) continue;
        fail("value/option", name, where,
             {{"option", option},
              {"got", d},
              {"expected", low > 0 ? "a finite number above 0" : "a number from -1e6 to 1e6"},
              {"help", "one number for all axes that are resized, or a list with one an axis"}});
    }
    return v;
}

/// floor(size * scale), where a product that rounding left just below an integer is that integer.
std::int64_t scaled_size(std::int64_t size, double scale, const Where& where) {
    const double product = static_cast<double>(size) * scale, whole = std::round(product);
    const double result = std::abs(product - whole) <= 1e-12 * std::abs(product) ? whole : std::floor(product);
    if (result >= 9.2e18) fail("shape/overflow", "resize", where, {{"what", "size * scale"}});
    return static_cast<std::int64_t>(result);
}

/// The sizes of the result, and the scales that were asked for (0: follow from the sizes).
struct Target {
    Dims sizes;
    std::vector<double> scales;
};

struct SizeOptions {
    const PerAxis& size;
    const Scales& scale;
    bool recompute = false;
    AspectRatio aspect = AspectRatio::stretch;
};

void fit_aspect(Target& t, const Dims& in, AspectRatio aspect) {
    double ratio = 0;
    for (std::int64_t i = 0; i < in.rank(); ++i) {
        if (t.sizes[i] == keep) continue;
        const double r = static_cast<double>(t.sizes[i]) / static_cast<double>(in[i]);
        ratio = ratio == 0 ? r : aspect == AspectRatio::not_larger ? std::min(ratio, r) : std::max(ratio, r);
    }
    for (std::int64_t i = 0; i < in.rank(); ++i) {
        if (t.sizes[i] == keep) continue;
        t.sizes[i] = static_cast<std::int64_t>(std::floor(static_cast<double>(in[i]) * ratio + 0.5));
        t.scales[static_cast<std::size_t>(i)] = ratio;
    }
}

Target resolve_target(std::string_view name, const Tensor& x, const Axes& axes, const SizeOptions& o,
                      const Where& where) {
    const std::int64_t n = axes.rank();
    if (o.size.given() == o.scale.given()) {
        refuse(name, o.size.given() ? "both size and scale are given" : "neither size nor scale is given", where);
    }
    for (const std::int64_t a : axes) check_not_empty(name, a, x, where);
    Dims in;
    for (const std::int64_t a : axes) in.push_back(x.size(a));
    Target t;
    t.scales.assign(static_cast<std::size_t>(n), 0);
    if (o.size.given()) {
        t.sizes = ops::per_axis(name, "size", o.size, n, keep, where);
        for (std::int64_t i = 0; i < n; ++i) {
            if (t.sizes[i] != keep) check_size(name, axes[i], t.sizes[i], x, where);
        }
        if (o.aspect != AspectRatio::stretch) fit_aspect(t, in, o.aspect);
        for (std::int64_t i = 0; i < n; ++i) t.sizes[i] = t.sizes[i] == keep ? in[i] : t.sizes[i];
    } else {
        if (o.aspect != AspectRatio::stretch) refuse(name, "aspect goes with size, not with scale", where);
        const auto scales = numbers(name, "scale", o.scale, static_cast<std::size_t>(n), 1e-300, HUGE_VAL, 1, where);
        for (std::int64_t i = 0; i < n; ++i) {
            const double s = scales[static_cast<std::size_t>(i)];
            t.sizes.push_back(scaled_size(in[i], s, where));
            if (!o.recompute) t.scales[static_cast<std::size_t>(i)] = s;
        }
    }
    for (std::int64_t i = 0; i < n; ++i) check_size(name, axes[i], t.sizes[i], x, where);
    return t;
}

bool widens(Interpolation mode) {
    return mode == Interpolation::linear || mode == Interpolation::cubic || mode == Interpolation::lanczos3;
}

/// Every dtype selects; u8 and floats compute.
void check_dtype(std::string_view name, const Tensor& x, Interpolation mode, const Where& where) {
    const bool selects = mode == Interpolation::nearest || mode == Interpolation::nearest_exact;
    if (selects || is_floating(x.dtype()) || x.dtype() == u8) return;
    fail("dtype/unsupported", name, where,
         {{"argument", "the input"}, {"got", x.dtype()}, {"expected", "a floating dtype or u8 (nearest: any)"}},
         describe(x));
}

Tensor resize_axes(std::string_view name, const Tensor& x, const Axes& axes, const Target& target, AxisRequest r,
                   const std::vector<double>& from, const std::vector<double>& to, const Where& where) {
    r.fixed_point = x.dtype() == u8 && (r.antialias || r.mode == Interpolation::box);
    Shape result = x.shape();
    for (std::int64_t i = 0; i < axes.rank(); ++i) result[axes[i]] = target.sizes[i];
    checked_bytes(result, x.dtype(), where);
    std::vector<TableRef> tables;
    for (std::int64_t i = 0; i < axes.rank(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        r.inputs = x.size(axes[i]);
        r.outputs = target.sizes[i];
        r.scale = target.scales[at];
        r.crop_from = from.empty() ? 0 : from[at];
        r.crop_to = to.empty() ? 1 : to[at];
        check_entries(name, axes[i], r.outputs, expected_entries(r), x, where);
        tables.push_back(build_table(r));
    }
    return apply_tables(x, axes, std::move(tables), r.fixed_point, where);
}

/// 1 where every coordinate of tf_crop_and_resize lies in the input, else 0.
Tensor inside_mask(const Tensor& y, const Axes& axes, const Tensor& x, const Target& target, AxisRequest r,
                   const std::vector<double>& from, const std::vector<double>& to, const Where& where) {
    Tensor mask;
    for (std::int64_t i = 0; i < axes.rank(); ++i) {
        r.inputs = x.size(axes[i]);
        r.outputs = target.sizes[i];
        r.crop_from = from[static_cast<std::size_t>(i)];
        r.crop_to = to[static_cast<std::size_t>(i)];
        std::vector<double> inside;
        for (std::int64_t o = 0; o < r.outputs; ++o) {
            const double c = coordinate(r, o);
            inside.push_back(c >= 0 && c <= static_cast<double>(r.inputs - 1) ? 1 : 0);
        }
        Shape shape(y.rank(), 1);
        shape[axes[i]] = r.outputs;
        const OnDevice scope(y.device());
        const Tensor one = tensor(inside, shape, where).to(boolean, where);
        mask = mask.defined() ? logical_and(mask, one, where) : one;
    }
    return mask;
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& o, const Where& where) {
    const Naming naming("interpolate");
    constexpr std::string_view name = "interpolate";
    check_rank(name, x, where);
    check_dtype(name, x, o.mode, where);
    const bool filtered = widens(o.mode);
    if (o.antialias && !filtered) refuse(name, "antialias goes with linear, cubic and lanczos3", where);
    if (o.align_corners && !filtered) refuse(name, "align_corners goes with linear, cubic and lanczos3", where);
    if (o.cubic_a && o.mode != Interpolation::cubic) refuse(name, "cubic_a goes with cubic", where);
    Axes axes;
    for (std::int64_t a = 2; a < x.rank(); ++a) axes.push_back(a);
    Target target = resolve_target(name, x, axes, {o.size, o.scale, o.recompute_scale}, where);
    AxisRequest r;
    r.mode = o.mode;
    r.antialias = o.antialias;
    r.cubic_a = o.cubic_a.value_or(o.antialias ? -0.5 : -0.75);
    r.coordinates = o.align_corners                    ? Coordinates::align_corners
                    : o.mode == Interpolation::nearest ? Coordinates::asymmetric
                                                       : Coordinates::half_pixel;
    r.rounding = NearestRounding::floor;
    return resize_axes(name, x, axes, target, r, {}, {}, where);
}

Tensor resize(const Tensor& x, const ResizeOptions& o, const Where& where) {
    const Naming naming("resize");
    constexpr std::string_view name = "resize";
    ops::check_defined(name, x, "the input", where);
    check_dtype(name, x, o.mode, where);
    const bool filtered = widens(o.mode), crop = o.coordinates == Coordinates::tf_crop_and_resize;
    if (o.antialias && !filtered) refuse(name, "antialias goes with linear, cubic and lanczos3", where);
    if (!filtered && o.mode != Interpolation::nearest && o.coordinates != Coordinates::half_pixel) {
        refuse(name, "coordinates go with nearest, linear, cubic and lanczos3", where);
    }
    if (o.cubic_a && o.mode != Interpolation::cubic) refuse(name, "cubic_a goes with cubic", where);
    if (o.exclude_outside && !filtered) {
        refuse(name, "exclude_outside goes with linear, cubic and lanczos3", where);
    }
    if (!crop && (o.crop_from.given() || o.crop_to.given() || o.extrapolation != 0)) {
        refuse(name, "crop_from, crop_to and extrapolation go with tf_crop_and_resize", where);
    }
    Axes axes = ops::normalize_axes(name, o.axes, x.rank(), where);  // sorted; options are in the order given
    for (std::int64_t i = 0; i < o.axes.rank(); ++i) axes[i] = ops::normalize_axis(name, o.axes[i], x.rank(), where);
    const auto count = static_cast<std::size_t>(axes.rank());
    const auto from = numbers(name, "crop_from", o.crop_from, count, -1e6, 1e6, 0, where);
    const auto to = numbers(name, "crop_to", o.crop_to, count, -1e6, 1e6, 1, where);
    const Target target = resolve_target(name, x, axes, {o.size, o.scale, o.recompute_scale, o.aspect}, where);
    AxisRequest r;
    r.mode = o.mode;
    r.coordinates = o.coordinates;
    r.rounding = o.rounding;
    r.antialias = o.antialias;
    r.exclude_outside = o.exclude_outside;
    r.cubic_a = o.cubic_a.value_or(o.antialias ? -0.5 : -0.75);
    const Tensor y = resize_axes(name, x, axes, target, r, from, to, where);
    if (o.extrapolation == 0) return y;
    return calor::where(inside_mask(y, axes, x, target, r, from, to, where), y, o.extrapolation, where);
}

}  // namespace calor
