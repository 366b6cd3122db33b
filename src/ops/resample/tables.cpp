// Table builders. Positions that follow from sizes alone are computed from exact integers: (2 o + 1) I / (2 O) and the
// like, so that no size is one pixel off (axes have fewer than 2^30 entries, so products fit). Filters:
//   linear    1 - |d|                                              for |d| < 1
//   cubic     (a + 2) |d|^3 - (a + 3) |d|^2 + 1                    for |d| < 1   (Keys 1981)
//             a |d|^3 - 5 a |d|^2 + 8 a |d| - 4 a                  for |d| < 2
//   lanczos3  sinc(d) sinc(d / 3)                                  for |d| < 3
// With antialias and scale < 1 the filter is f(d scale), wider by 1 / scale, and its weights are normalised.
#include "ops/resample/tables.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>

namespace calor::ops::resample {
namespace {

double as_double(std::int64_t v) { return static_cast<double>(v); }

double filter(const AxisRequest& r, double d) {
    d = std::abs(d);
    switch (r.mode) {
        case Interpolation::linear: return d < 1 ? 1 - d : 0;
        case Interpolation::cubic: {
            const double a = r.cubic_a;
            if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
            return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
        }
        case Interpolation::lanczos3: {
            if (d >= 3) return 0;
            if (d == 0) return 1;
            const double x = d * std::numbers::pi, y = x / 3;
            return std::sin(x) / x * (std::sin(y) / y);
        }
        default: return 1;
    }
}
/// Half the width of the filter.
double support(Interpolation mode) {
    if (mode == Interpolation::lanczos3) return 3;
    if (mode == Interpolation::cubic) return 2;
    return mode == Interpolation::box ? 0.5 : 1;
}

double scale_of(const AxisRequest& r) {
    if (r.coordinates == Coordinates::align_corners && r.outputs > 1 && r.inputs > 1) {
        return as_double(r.outputs - 1) / as_double(r.inputs - 1);
    }
    return r.scale > 0 ? r.scale : as_double(r.outputs) / as_double(r.inputs);
}

bool outside(const AxisRequest& r, double x) {
    return r.coordinates == Coordinates::tf_crop_and_resize && (x < 0 || x > as_double(r.inputs - 1));
}

/// Scales the weights of the output that is being built to sum 1.
void normalise(Table& t) {
    double sum = 0;
    for (auto k = static_cast<std::size_t>(t.start.back()); k < t.weight.size(); ++k) sum += t.weight[k];
    if (sum == 0) return;
    for (auto k = static_cast<std::size_t>(t.start.back()); k < t.weight.size(); ++k) t.weight[k] /= sum;
}

std::int64_t nearest_input(const AxisRequest& r, std::int64_t o) {
    const std::int64_t last = r.inputs - 1;
    if (r.scale <= 0) {  // exact
        if (r.mode == Interpolation::nearest_exact) {
            return std::min(last, (2 * o + 1) * r.inputs / (2 * r.outputs));
        }
        if (r.coordinates == Coordinates::asymmetric && r.rounding == NearestRounding::floor) {
            return std::min(last, o * r.inputs / r.outputs);
        }
    }
    double x = 0;
    if (r.mode == Interpolation::nearest_exact) {
        x = std::floor((as_double(o) + 0.5) / scale_of(r));
    } else {
        x = coordinate(r, o);
        switch (r.rounding) {
            case NearestRounding::round_prefer_floor: x = std::ceil(x - 0.5); break;
            case NearestRounding::round_prefer_ceil: x = std::floor(x + 0.5); break;
            case NearestRounding::floor: x = std::floor(x); break;
            case NearestRounding::ceil: x = std::ceil(x); break;
        }
    }
    return static_cast<std::int64_t>(std::clamp(x, 0.0, as_double(last)));
}

/// Two, four or six taps around x; those outside the data read the border, or are left out.
void narrow_taps(const AxisRequest& r, double x, Table& t) {
    const auto reach = static_cast<std::int64_t>(support(r.mode));
    // A position far outside is as good as one just outside.
    x = std::clamp(x, -as_double(reach) - 1, as_double(r.inputs + reach));
    const auto base = static_cast<std::int64_t>(std::floor(x));
    const double f = x - as_double(base);
    for (std::int64_t i = 1 - reach; i <= reach; ++i) {
        const std::int64_t at = base + i;
        if (r.exclude_outside && (at < 0 || at >= r.inputs)) continue;
        t.tap(std::clamp<std::int64_t>(at, 0, r.inputs - 1), filter(r, f - as_double(i)));
    }
    if (r.exclude_outside || r.mode == Interpolation::lanczos3) normalise(t);
}

/// Antialias: the filter, widened by 1 / scale, over the inputs within its support (Pillow's window and weights, and
/// its arithmetic, so that positions on the border of a window fall on the same side).
void wide_taps(const AxisRequest& r, std::int64_t o, double x, Table& t) {
    const bool half_pixel = r.coordinates == Coordinates::half_pixel;
    const double step = r.scale > 0 ? 1 / r.scale : as_double(r.inputs) / as_double(r.outputs);
    const double widen = std::max(1.0, half_pixel ? step : 1 / scale_of(r)), half = support(r.mode) * widen;
    const double centre = half_pixel ? (as_double(o) + 0.5) * step : x + 0.5;
    const auto bound = [&](double v) {
        return static_cast<std::int64_t>(std::trunc(std::clamp(v, 0.0, as_double(r.inputs))));
    };
    const std::int64_t low = bound(centre - half + 0.5), high = bound(centre + half + 0.5);
    for (std::int64_t i = low; i < high; ++i) {
        const double d = (as_double(i) - centre + 0.5) * (1 / widen);
        const bool in_box = r.mode != Interpolation::box || (d > -0.5 && d <= 0.5);
        t.tap(i, in_box ? filter(r, d) : 0);
    }
    normalise(t);
    if (static_cast<std::size_t>(t.start.back()) == t.index.size()) {
        t.tap(std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(centre)), 0, r.inputs - 1), 1);
    }
}

/// The part of each input that [o, o + 1) / scale covers.
void coverage_taps(const AxisRequest& r, std::int64_t o, Table& t) {
    const double cell = 1 / scale_of(r), last = as_double(r.inputs);
    const double low = std::min(as_double(o) * cell, last), high = std::min(low + cell, last);
    if (cell <= 1) {  // growing: linear between the pixels that the cell touches
        const auto i = std::min(static_cast<std::int64_t>(std::floor(low)), r.inputs - 1);
        const double past = std::clamp(as_double(o + 1) - as_double(i + 1) / cell, 0.0, 1.0);
        t.tap(i, 1 - past);
        t.tap(std::min(i + 1, r.inputs - 1), past);
        return;
    }
    for (auto i = static_cast<std::int64_t>(low); i < r.inputs && as_double(i) < high; ++i) {
        const double part = std::min(high, as_double(i + 1)) - std::max(low, as_double(i));
        if (part > 1e-9) t.tap(i, part);
    }
    normalise(t);
}

/// The tables that were made last. A network asks for the same ones at every step, and a large one takes longer to make
/// than to apply.
template <class Request> class RecentTables {
public:
    template <class Make> TableRef find(const Request& request, const Make& make) {
        {
            const std::lock_guard lock(mutex_);
            for (const auto& [made_for, table] : entries_) {
                if (made_for == request) return table;
            }
        }
        TableRef table = make();
        if (table->taps() > most_taps) return table;
        const std::lock_guard lock(mutex_);
        if (entries_.size() < most_tables) entries_.resize(entries_.size() + 1);
        entries_[next_] = {request, table};
        next_ = (next_ + 1) % most_tables;
        return table;
    }

private:
    static constexpr std::size_t most_tables = 8;
    static constexpr std::int64_t most_taps = std::int64_t{1} << 14;
    std::mutex mutex_;
    std::vector<std::pair<Request, TableRef>> entries_;
    std::size_t next_ = 0;
};

void quantise(Table& t) {
    for (const double w : t.weight) {
        t.fixed.push_back(static_cast<std::int32_t>((w < 0 ? -0.5 : 0.5) + w * (1 << 22)));
    }
}

}  // namespace

double coordinate(const AxisRequest& r, std::int64_t o) {
    const double in = as_double(r.inputs), at = as_double(o);
    const double half = r.scale > 0 ? (at + 0.5) / r.scale - 0.5
                                    : (as_double(2 * o + 1) * in - as_double(r.outputs)) / as_double(2 * r.outputs);
    const double given = r.scale > 0 ? r.scale * in : as_double(r.outputs);  // the size before it was rounded
    switch (r.coordinates) {
        case Coordinates::half_pixel: return half;
        case Coordinates::pytorch_half_pixel: return r.outputs > 1 ? half : 0;
        case Coordinates::half_pixel_symmetric: return in / 2 * (1 - as_double(r.outputs) / given) + half;
        case Coordinates::align_corners: return r.outputs > 1 ? at * (in - 1) / as_double(r.outputs - 1) : 0;
        case Coordinates::asymmetric: return r.scale > 0 ? at / r.scale : at * in / as_double(r.outputs);
        case Coordinates::tf_half_pixel_for_nn: return half + 0.5;
        case Coordinates::tf_crop_and_resize: {
            const double from = r.crop_from * (in - 1), to = r.crop_to * (in - 1);
            return r.outputs > 1 ? from + at * (to - from) / as_double(r.outputs - 1) : (from + to) / 2;
        }
    }
    return half;
}

double expected_entries(const AxisRequest& r) {
    double taps = 1;
    const double widen = std::max(1.0, 1 / scale_of(r));
    switch (r.mode) {
        case Interpolation::nearest:
        case Interpolation::nearest_exact: break;
        case Interpolation::area:
        case Interpolation::box:
        case Interpolation::coverage: taps = widen + 2; break;
        default: taps = 2 * support(r.mode) * (r.antialias ? widen : 1) + 1;
    }
    return as_double(r.outputs) * std::min(taps, as_double(r.inputs));
}

namespace {
TableRef make_table(const AxisRequest& r) {
    auto t = std::make_shared<Table>(r.inputs, r.outputs);
    for (std::int64_t o = 0; o < r.outputs; ++o) {
        if (r.mode == Interpolation::nearest_exact) {
            t->tap(nearest_input(r, o), 1);
        } else if (r.mode == Interpolation::coverage) {
            coverage_taps(r, o, *t);
        } else {
            const double x = coordinate(r, o);
            if (!outside(r, x)) {
                if (r.mode == Interpolation::nearest) {
                    t->tap(nearest_input(r, o), 1);
                } else if (r.antialias || r.mode == Interpolation::box) {
                    wide_taps(r, o, x, *t);
                } else {
                    narrow_taps(r, x, *t);
                }
            }
        }
        t->next();
    }
    if (r.fixed_point) quantise(*t);
    t->finish();
    return t;
}

TableRef make_adaptive_table(std::int64_t inputs, std::int64_t outputs) {
    auto t = std::make_shared<Table>(inputs, outputs);
    for (std::int64_t o = 0; o < outputs; ++o) {
        const std::int64_t low = o * inputs / outputs;
        const std::int64_t high = ((o + 1) * inputs + outputs - 1) / outputs;
        for (std::int64_t i = low; i < high; ++i) t->tap(i, 1);
        t->divisors.push_back(as_double(high - low));
        t->next();
    }
    if (std::ranges::all_of(t->divisors, [&](double d) { return d == t->divisors[0]; })) {
        t->divisor = t->divisors[0];
        t->divisors.clear();
    }
    t->finish();
    return t;
}

TableRef make_window_table(const WindowRequest& r) {
    auto t = std::make_shared<Table>(r.inputs, r.outputs);
    for (std::int64_t o = 0; o < r.outputs; ++o) {
        std::int64_t within = 0, counted = 0;
        for (std::int64_t k = 0; k < r.kernel; ++k) {
            const std::int64_t i = o * r.stride - r.pad_low + k * r.dilation;
            if (i >= r.inputs + r.pad_high) break;
            ++counted;
            if (i < 0 || i >= r.inputs) continue;
            ++within;
            t->tap(i, 1);
        }
        t->divisors.push_back(as_double(std::max<std::int64_t>(1, r.count_padding ? counted : within)));
        t->next();
    }
    if (r.divisor > 0) {
        t->divisor = as_double(r.divisor);
        t->divisors.clear();
    } else if (std::ranges::all_of(t->divisors, [&](double d) { return d == t->divisors[0]; })) {
        t->divisor = t->divisors[0];
        t->divisors.clear();
    }
    t->finish();
    return t;
}

}  // namespace

TableRef build_table(const AxisRequest& r) {
    if (r.mode == Interpolation::area) return adaptive_table(r.inputs, r.outputs);
    static RecentTables<AxisRequest> recent;
    return recent.find(r, [&] { return make_table(r); });
}

TableRef adaptive_table(std::int64_t inputs, std::int64_t outputs) {
    static RecentTables<std::pair<std::int64_t, std::int64_t>> recent;
    return recent.find({inputs, outputs}, [&] { return make_adaptive_table(inputs, outputs); });
}

TableRef window_table(const WindowRequest& r) {
    static RecentTables<WindowRequest> recent;
    return recent.find(r, [&] { return make_window_table(r); });
}

}  // namespace calor::ops::resample
