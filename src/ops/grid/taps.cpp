// Taps of points as products of the taps of their axes: a list that grows axis by axis.
#include "ops/grid/taps.h"

#include <algorithm>

namespace calor::ops::grid {

template <class T> std::int64_t Lattice<T>::most_taps() const {
    std::int64_t taps = 1;
    for (std::int64_t a = 0; a < rank(); ++a) taps *= taps_per_axis(mode);
    return taps;
}

template <class T> std::int64_t Lattice<T>::points() const {
    return std::clamp<std::int64_t>(4096 / most_taps(), 1, block);
}

template <class T> Lattice<T> make_lattice(const Attributes& a, std::span<const std::int64_t> strides, bool slopes) {
    Lattice<T> lattice;
    lattice.mode = a.mode;
    lattice.padding = a.padding;
    lattice.slopes = slopes;
    for (std::int64_t i = 0; i < a.sizes.rank(); ++i) {
        lattice.axes.push_back(
            axis_rule<T>(a.sizes[i], a.align_corners, a.pixels, a.orders[i], strides[static_cast<std::size_t>(i)]));
    }
    return lattice;
}

template <class T> Taps<T>::Taps(const Lattice<T>& lattice) {
    const auto points = static_cast<std::size_t>(lattice.points());
    capacity = lattice.points() * lattice.most_taps();
    axes.resize(static_cast<std::size_t>(lattice.rank()));
    start.resize(points + 1);
    offset.resize(static_cast<std::size_t>(capacity));
    weight.resize(static_cast<std::size_t>(capacity * lattice.sets()));
}

namespace {

/// The taps of point p along one axis that lie in the data.
template <int taps, bool slopes, class T>
inline int axis_list(const Lattice<T>& lattice, const AxisRule<T>& rule, const AxisTaps<T>& axis, std::int64_t p,
                     std::int64_t* offset, T* weight, T* slope) {
    const auto first = static_cast<std::int64_t>(axis.first[p]);
    int n = 0;
    for (int k = 0; k < taps; ++k) {
        const std::int64_t i = tap_index(lattice.mode, lattice.padding, rule.align, rule.size, first + k);
        if (i < 0) continue;
        offset[n] = i * rule.stride;
        weight[n] = axis.weight[k][p];
        if constexpr (slopes) slope[n] = axis.slope[k][p];
        ++n;
    }
    return n;
}

/// rank 0: known at run time only.
template <int rank, int taps, bool slopes, class T>
void combine_as(const Lattice<T>& lattice, std::int64_t count, Taps<T>& result) {
    const std::int64_t axes = rank > 0 ? rank : lattice.rank(), sets = slopes ? axes + 1 : 1;
    const std::int64_t capacity = result.capacity;
    std::int64_t begin = 0;
    for (std::int64_t p = 0; p < count; ++p) {
        result.start[static_cast<std::size_t>(p)] = begin;
        std::int64_t* offset = result.offset.data() + begin;
        T* weight = result.weight.data() + begin;
        std::int64_t n = 1;
        offset[0] = 0;
        for (std::int64_t s = 0; s < sets; ++s) weight[s * capacity] = 1;
        for (std::int64_t a = 0; a < axes; ++a) {
            std::int64_t o[taps];
            T w[taps], v[taps];
            const auto at = static_cast<std::size_t>(a);
            const int m = axis_list<taps, slopes>(lattice, lattice.axes[at], result.axes[at], p, o, w, v);
            for (std::int64_t j = n - 1; j >= 0; --j) {  // from the back: entries are overwritten after their use
                const std::int64_t before = offset[j];
                for (int k = m - 1; k >= 0; --k) offset[j * m + k] = before + o[k];
                for (std::int64_t s = 0; s < sets; ++s) {
                    T* row = weight + s * capacity;
                    const T old = row[j];
                    for (int k = m - 1; k >= 0; --k) row[j * m + k] = old * (slopes && s == a + 1 ? v[k] : w[k]);
                }
            }
            n *= m;
        }
        begin += n;
    }
    result.start[static_cast<std::size_t>(count)] = begin;
}

template <int taps, bool slopes, class T>
void combine_rank(const Lattice<T>& lattice, std::int64_t count, Taps<T>& result) {
    switch (lattice.rank()) {
        case 1: return combine_as<1, taps, slopes>(lattice, count, result);
        case 2: return combine_as<2, taps, slopes>(lattice, count, result);
        case 3: return combine_as<3, taps, slopes>(lattice, count, result);
        default: return combine_as<0, taps, slopes>(lattice, count, result);
    }
}

template <int taps, class T> void combine_taps(const Lattice<T>& lattice, std::int64_t count, Taps<T>& result) {
    if (lattice.slopes) return combine_rank<taps, true>(lattice, count, result);
    combine_rank<taps, false>(lattice, count, result);
}

}  // namespace

template <class T> void combine(const Lattice<T>& lattice, std::int64_t count, Taps<T>& taps) {
    switch (lattice.mode) {
        case GridMode::nearest: return combine_taps<1>(lattice, count, taps);
        case GridMode::linear: return combine_taps<2>(lattice, count, taps);
        case GridMode::cubic: return combine_taps<4>(lattice, count, taps);
    }
}

template struct Lattice<float>;
template struct Lattice<double>;
template struct Taps<float>;
template struct Taps<double>;
template Lattice<float> make_lattice(const Attributes&, std::span<const std::int64_t>, bool);
template Lattice<double> make_lattice(const Attributes&, std::span<const std::int64_t>, bool);
template void combine(const Lattice<float>&, std::int64_t, Taps<float>&);
template void combine(const Lattice<double>&, std::int64_t, Taps<double>&);

}  // namespace calor::ops::grid
