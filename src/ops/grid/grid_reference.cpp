// The reference: one point at a time, its taps axis by axis, one channel after the other.
#include <vector>

#include "ops/grid/elements.h"
#include "ops/grid/grid.h"
#include "ops/grid/weights.h"

namespace calor::ops::grid {
namespace {

/// A tap of a point: its place in the input, W_d, and for each axis W_d with one more derivative.
template <class T> struct Tap {
    Dims at;
    T weight = 1;
    std::vector<T> slopes;
};

template <class T> struct Reference {
    Role role;
    const graph::Call& call;
    const Attributes& a = call.attrs<Attributes>();
    const View& x = role == Role::spread ? call.outputs[0] : call.inputs[0];
    const View& y = role == Role::sample ? call.outputs[0] : call.inputs[role == Role::spread ? 0 : 2];
    const View& g = call.inputs[1];
    std::int64_t rank = a.sizes.rank();

    std::vector<Tap<T>> taps(std::int64_t n, const Dims& position) const {
        std::vector<Tap<T>> all{{Dims(), T(1), std::vector<T>(static_cast<std::size_t>(rank), T(1))}};
        for (std::int64_t i = 0; i < rank; ++i) {
            std::int64_t offset = n * g.stride(0) + component(a, i) * g.stride(g.rank() - 1);
            for (std::int64_t p = 0; p < position.rank(); ++p) offset += position[p] * g.stride(p + 1);
            const auto rule = axis_rule<T>(a.sizes[i], a.align_corners, a.pixels, a.orders[i], 0);
            T weights[4] = {}, slopes[4] = {};
            std::int64_t first = 0;
            const T coordinate = read<T>(g, offset);
            with_mode(a.mode, [&](auto mode) {
                with_padding(a.mode, a.padding, [&](auto padding) {
                    const Place<T> where = place<padding()>(rule, coordinate);
                    first = static_cast<std::int64_t>(first_tap<mode()>(where.at));
                    with_order(a.orders[i], [&](auto order) {
                        tap_weights<mode(), order()>(where, weights);
                        tap_weights<mode(), order() + 1>(where, slopes);
                    });
                });
            });
            all = extended(all, i, rule, first, weights, slopes);
        }
        return all;
    }

    std::vector<Tap<T>> extended(const std::vector<Tap<T>>& all, std::int64_t axis, const AxisRule<T>& rule,
                                 std::int64_t first, const T* weights, const T* slopes) const {
        std::vector<Tap<T>> longer;
        for (const Tap<T>& tap : all) {
            for (std::int64_t k = 0; k < taps_per_axis(a.mode); ++k) {
                const std::int64_t index = tap_index(a.mode, a.padding, rule.align, rule.size, first + k);
                if (index < 0) continue;
                Tap<T> next = tap;
                next.at.push_back(index);
                next.weight *= weights[k];
                for (std::int64_t s = 0; s < rank; ++s) {
                    next.slopes[static_cast<std::size_t>(s)] *= s == axis ? slopes[k] : weights[k];
                }
                longer.push_back(std::move(next));
            }
        }
        return longer;
    }

    static std::int64_t offset_of(const View& v, std::int64_t n, std::int64_t c, const Dims& at) {
        std::int64_t offset = n * v.stride(0) + c * v.stride(1);
        for (std::int64_t i = 0; i < at.rank(); ++i) offset += at[i] * v.stride(i + 2);
        return offset;
    }

    void point(std::int64_t n, const Dims& position, std::vector<T>& gx) const {
        const std::vector<Tap<T>> all = taps(n, position);
        const std::int64_t channels = x.size(1);
        std::vector<T> slopes(static_cast<std::size_t>(rank), T(0));
        for (std::int64_t c = 0; c < channels; ++c) {
            const std::int64_t at = offset_of(y, n, c, position);
            T sum = 0;
            for (const Tap<T>& tap : all) {
                if (role == Role::spread) {
                    std::int64_t index = c;
                    for (std::int64_t i = 0; i < rank; ++i) index = index * a.sizes[i] + tap.at[i];
                    gx[static_cast<std::size_t>(index)] += tap.weight * read<T>(y, at);
                    continue;
                }
                const T value = read<T>(x, offset_of(x, n, c, tap.at));
                sum += tap.weight * value;
                if (role != Role::slope) continue;
                for (std::size_t s = 0; s < slopes.size(); ++s) slopes[s] += tap.slopes[s] * value * read<T>(y, at);
            }
            if (role == Role::sample) write(y, at, sum);
        }
        if (role != Role::slope) return;
        const View& out = call.outputs[0];
        for (std::int64_t i = 0; i < rank; ++i) {
            std::int64_t offset = n * out.stride(0) + component(a, i) * out.stride(out.rank() - 1);
            for (std::int64_t p = 0; p < position.rank(); ++p) offset += position[p] * out.stride(p + 1);
            write(out, offset, slopes[static_cast<std::size_t>(i)]);
        }
    }

    void run() const {
        std::int64_t elements = x.size(1), points = 1;
        for (const std::int64_t s : a.sizes) elements *= s;
        for (std::int64_t p = 2; p < y.rank(); ++p) points *= y.size(p);
        for (std::int64_t n = 0; n < x.size(0); ++n) {
            std::vector<T> gx(static_cast<std::size_t>(role == Role::spread ? elements : 0), T(0));
            Dims position(y.rank() - 2, 0);
            for (std::int64_t p = 0; p < points; ++p) {
                point(n, position, gx);
                for (std::int64_t i = position.rank() - 1; i >= 0 && ++position[i] == y.size(i + 2); --i)
                    position[i] = 0;
            }
            if (role == Role::spread) store(n, gx);
        }
    }

    void store(std::int64_t n, const std::vector<T>& gx) const {
        Dims at(rank + 1, 0);  // the channel and the place
        for (const T value : gx) {
            std::int64_t offset = n * x.stride(0);
            for (std::int64_t i = 0; i <= rank; ++i) offset += at[i] * x.stride(i + 1);
            write(x, offset, value);
            for (std::int64_t i = rank; i >= 0 && ++at[i] == x.size(i + 1); --i) at[i] = 0;
        }
    }
};

}  // namespace

void run_reference(Role role, const graph::Call& call) {
    const View& x = role == Role::spread ? call.outputs[0] : call.inputs[0];
    if (x.dtype == f64) return Reference<double>{role, call}.run();
    Reference<float>{role, call}.run();
}

}  // namespace calor::ops::grid
