// The reference of deformable convolution: dense copies of all operands, one tap of one position after the other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/grid/deform.h"
#include "ops/grid/elements.h"

namespace calor::ops::deform {
namespace {

template <class F> void for_elements(const View& v, const F& body) {
    Dims index(v.rank(), 0);
    for (std::int64_t i = 0, count = v.count(); i < count; ++i) {
        std::int64_t offset = 0;
        for (std::int64_t a = 0; a < v.rank(); ++a) offset += index[a] * v.stride(a);
        body(static_cast<std::size_t>(i), offset);
        for (std::int64_t a = v.rank() - 1; a >= 0 && ++index[a] == v.size(a); --a) index[a] = 0;
    }
}
template <class T> std::vector<T> dense(const View* v) {
    std::vector<T> values(v ? static_cast<std::size_t>(v->count()) : 0);
    if (v) for_elements(*v, [&](std::size_t i, std::int64_t offset) { values[i] = grid::read<T>(*v, offset); });
    return values;
}
template <class T> void store(const std::vector<T>& values, const View* v) {
    if (v) for_elements(*v, [&](std::size_t i, std::int64_t offset) { grid::write(*v, offset, values[i]); });
}

/// An element around a moved tap: its row-major place, its weight, and the weight's derivative along each axis.
template <class T> struct Corner {
    std::int64_t at = 0;
    T weight = 1;
    std::vector<T> slopes;
};

template <class T> struct Reference {
    const graph::Call& call;
    bool backward;
    const Attributes& a = call.attrs<Attributes>();
    Operands o = operands(backward, call);
    Sizes s = sizes_of(a, o.x.size(0), o.x.size(1), o.weight.size(0));
    std::vector<T> x = dense<T>(&o.x), offset = dense<T>(&o.offset), weight = dense<T>(&o.weight);
    std::vector<T> mask = dense<T>(o.mask), bias = dense<T>(o.bias);
    std::vector<T> y = backward ? dense<T>(&o.y) : std::vector<T>(static_cast<std::size_t>(o.y.count()), T(0));
    std::vector<T> gx = std::vector<T>(x.size()), goffset = std::vector<T>(offset.size());
    std::vector<T> gweight = std::vector<T>(weight.size()), gmask = std::vector<T>(mask.size());

    std::size_t place(std::int64_t n, std::int64_t h, std::int64_t k, std::int64_t p) const {  // in the mask
        return static_cast<std::size_t>(((n * a.offset_groups + h) * s.taps + k) * s.points + p);
    }
    std::size_t offset_place(std::int64_t n, std::int64_t h, std::int64_t k, std::int64_t axis, std::int64_t p) const {
        return static_cast<std::size_t>((((n * a.offset_groups + h) * s.taps + k) * s.axes + axis) * s.points + p);
    }

    std::vector<Corner<T>> corners(std::int64_t n, std::int64_t h, std::int64_t k, std::int64_t p) const {
        std::vector<Corner<T>> all{{0, T(1), std::vector<T>(static_cast<std::size_t>(s.axes), T(1))}};
        std::int64_t tap_stride = s.taps, point_stride = s.points;
        for (std::int64_t i = 0; i < s.axes; ++i) {
            tap_stride /= a.window.kernel[i];
            point_stride /= a.positions[i];
            const std::int64_t fixed = p / point_stride % a.positions[i] * a.window.stride[i] - a.window.pad_low[i] +
                                       k / tap_stride % a.window.kernel[i] * a.window.dilation[i];
            const T u = static_cast<T>(fixed) + offset[offset_place(n, h, k, i, p)];
            std::vector<Corner<T>> longer;
            if (u > -1 && u < static_cast<T>(a.sizes[i])) {  // not for NaN
                const auto low = static_cast<std::int64_t>(std::floor(u));
                const T t = u - std::floor(u);
                for (const Corner<T>& corner : all) {
                    for (std::int64_t side = 0; side < 2; ++side) {
                        if (low + side < 0 || low + side >= a.sizes[i]) continue;
                        Corner<T> next = corner;
                        next.at = next.at * a.sizes[i] + low + side;
                        next.weight *= side == 1 ? t : 1 - t;
                        for (std::int64_t b = 0; b < s.axes; ++b) {
                            const T slope = side == 1 ? T(1) : T(-1);
                            next.slopes[static_cast<std::size_t>(b)] *= b == i ? slope : side == 1 ? t : 1 - t;
                        }
                        longer.push_back(std::move(next));
                    }
                }
            }
            all = std::move(longer);
        }
        return all;
    }

    /// One channel of one tap at one position.
    void tap(std::int64_t n, std::int64_t c, std::int64_t k, std::int64_t p, const std::vector<Corner<T>>& all) {
        const std::int64_t g = c / s.per_group, h = c / s.per_offset, outs = s.out / a.groups;
        const T factor = a.mask ? mask[place(n, h, k, p)] : T(1);
        T sampled = 0, flow = 0;
        for (const Corner<T>& corner : all) sampled += corner.weight * x[x_place(n, c, corner.at)];
        for (std::int64_t i = g * outs; i < (g + 1) * outs; ++i) {
            const auto w = static_cast<std::size_t>((i * s.per_group + c % s.per_group) * s.taps + k);
            T& result = y[static_cast<std::size_t>((n * s.out + i) * s.points + p)];
            if (!backward) {
                result += weight[w] * factor * sampled;
            } else {
                flow += weight[w] * result;
                gweight[w] += factor * sampled * result;
            }
        }
        if (!backward) return;
        if (a.mask) gmask[place(n, h, k, p)] += flow * sampled;
        for (const Corner<T>& corner : all) {
            gx[x_place(n, c, corner.at)] += flow * factor * corner.weight;
            for (std::int64_t i = 0; i < s.axes; ++i) {
                goffset[offset_place(n, h, k, i, p)] +=
                    flow * factor * corner.slopes[static_cast<std::size_t>(i)] * x[x_place(n, c, corner.at)];
            }
        }
    }
    std::size_t x_place(std::int64_t n, std::int64_t c, std::int64_t at) const {
        return static_cast<std::size_t>((n * s.channels + c) * s.elements + at);
    }

    void run() {
        for (std::int64_t n = 0; n < s.samples; ++n) {
            for (std::int64_t k = 0; k < s.taps; ++k) {
                for (std::int64_t p = 0; p < s.points; ++p) {
                    for (std::int64_t h = 0; h < a.offset_groups; ++h) {
                        const std::vector<Corner<T>> all = corners(n, h, k, p);
                        for (std::int64_t c = 0; c < s.per_offset; ++c) tap(n, h * s.per_offset + c, k, p, all);
                    }
                }
            }
        }
        if (backward) {
            store(gx, o.gx);
            store(goffset, o.goffset);
            store(gweight, o.gweight);
            store(gmask, o.gmask);
            return;
        }
        for (std::size_t i = 0; a.bias && i < y.size(); ++i) {
            y[i] += bias[i / static_cast<std::size_t>(s.points) % static_cast<std::size_t>(s.out)];
        }
        store(y, &o.y);
    }
};

}  // namespace

void run_reference(bool backward, const graph::Call& call) {
    if (call.inputs[0].dtype == f64) return Reference<double>{call, backward}.run();
    Reference<float>{call, backward}.run();
}

}  // namespace calor::ops::deform
