// Lattices, and the memory of taps. The loops that fill it are in rows_kernels.cpp.
#include "ops/grid/taps.h"

#include <algorithm>

namespace calor::ops::grid {

template <class T> std::int64_t Lattice<T>::taps() const {
    std::int64_t taps = 1;
    for (std::int64_t a = 0; a < rank(); ++a) taps *= taps_per_axis(mode);
    return taps;
}

template <class T> std::int64_t Lattice<T>::points() const { return std::clamp<std::int64_t>(4096 / taps(), 1, block); }

template <class T> bool Lattice<T>::narrow() const {
    constexpr std::int64_t most_size = std::int64_t{1} << 30U, most_reach = std::int64_t{1} << 27U;
    std::int64_t reach = 0;
    for (const AxisRule<T>& axis : axes) {
        if (axis.size >= most_size || axis.stride >= most_size) return false;
        reach += (axis.size - 1) * axis.stride;
        if (reach >= most_reach) return false;
    }
    return true;
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

template <class T>
Taps<T>::Taps(const Lattice<T>& lattice)
    : axes(static_cast<std::size_t>(lattice.rank())),
      count(lattice.taps()),
      pitch(lattice.points()),
      sets(lattice.sets()),
      narrow(lattice.narrow()),
      pairs(lattice.mode == GridMode::linear && !lattice.axes.empty() && lattice.axes.back().stride == 1) {
    const auto entries = static_cast<std::size_t>(count * pitch);
    if (narrow) {
        offset32.resize(entries);
    } else {
        offset64.resize(entries);
    }
    weight.resize(entries * static_cast<std::size_t>(sets));
}

template struct Lattice<float>;
template struct Lattice<double>;
template struct Taps<float>;
template struct Taps<double>;
template Lattice<float> make_lattice(const Attributes&, std::span<const std::int64_t>, bool);
template Lattice<double> make_lattice(const Attributes&, std::span<const std::int64_t>, bool);

}  // namespace calor::ops::grid
