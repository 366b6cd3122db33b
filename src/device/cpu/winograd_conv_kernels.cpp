// Columns first, then rows, by way of a small array; channels are whole vectors. The points 3/4 and 3/2 keep the
// matrices' entries near 1, which loses fewer digits than the usual 1 and 2 (bench/notes/conv-nd-cpu.md).
#include "device/cpu/winograd_conv_kernels.h"

#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/winograd_conv_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/conv_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu::winograd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using conv_vectors::HWY_NAMESPACE::lanes;
using conv_vectors::HWY_NAMESPACE::load;
using conv_vectors::HWY_NAMESPACE::store;
using conv_vectors::HWY_NAMESPACE::Vector;
using conv_vectors::HWY_NAMESPACE::vector_size;

constexpr float a = 0.75F, b = 1.5F, a2 = a * a, b2 = b * b;
// 1 over the products of the distances from a point to the others.
constexpr float n0 = 1 / (a2 * b2), na = 1 / (2 * a2 * (a2 - b2)), nb = 1 / (2 * b2 * (b2 - a2));

HWY_INLINE Vector set(float value) { return hn::Set(lanes, value); }
/// x + factor y.
HWY_INLINE Vector plus(Vector x, float factor, Vector y) { return hn::MulAdd(set(factor), y, x); }

template <std::size_t count> using Row = std::array<Vector, count>;

/// B' d: row i is the product of (x - p) over the points p other than the i-th, at the powers d of x.
HWY_INLINE Row<6> data_row(const Row<6>& d) {
    const Vector e = plus(d[4], -b2, d[2]), f = plus(d[3], -b2, d[1]);
    const Vector g = plus(d[4], -a2, d[2]), h = plus(d[3], -a2, d[1]);
    return {
        plus(plus(d[4], -(a2 + b2), d[2]), a2 * b2, d[0]), plus(e, a, f), plus(e, -a, f), plus(g, b, h), plus(g, -b, h),
        plus(plus(d[5], -(a2 + b2), d[3]), a2 * b2, d[1])};
}

/// G g of taps, and of four gradients: values of the polynomial g at the points.
HWY_INLINE Row<6> tap_row(const Row<3>& g) {
    const Vector u = hn::Mul(set(na), plus(g[0], a2, g[2])), v = hn::Mul(set(na * a), g[1]);
    const Vector r = hn::Mul(set(nb), plus(g[0], b2, g[2])), s = hn::Mul(set(nb * b), g[1]);
    return {hn::Mul(set(n0), g[0]), hn::Add(u, v), hn::Sub(u, v), hn::Add(r, s), hn::Sub(r, s), g[2]};
}
HWY_INLINE Row<6> grad_row(const Row<4>& g) {
    const Vector u = hn::Mul(set(na), plus(g[0], a2, g[2])), v = hn::Mul(set(na * a), plus(g[1], a2, g[3]));
    const Vector r = hn::Mul(set(nb), plus(g[0], b2, g[2])), s = hn::Mul(set(nb * b), plus(g[1], b2, g[3]));
    return {hn::Mul(set(n0), g[0]), hn::Add(u, v), hn::Sub(u, v), hn::Add(r, s), hn::Sub(r, s), g[3]};
}

/// A' m.
HWY_INLINE Row<4> result_row(const Row<6>& m) {
    const Vector s = hn::Add(m[1], m[2]), d = hn::Sub(m[1], m[2]), t = hn::Add(m[3], m[4]), e = hn::Sub(m[3], m[4]);
    return {hn::Add(m[0], hn::Add(s, t)), plus(hn::Mul(set(b), e), a, d), plus(hn::Mul(set(b2), t), a2, s),
            plus(plus(m[5], b2 * b, e), a2 * a, d)};
}
HWY_INLINE Row<3> weight_row(const Row<6>& m) {
    const Vector s = hn::Add(m[1], m[2]), d = hn::Sub(m[1], m[2]), t = hn::Add(m[3], m[4]), e = hn::Sub(m[3], m[4]);
    return {hn::Add(m[0], hn::Add(s, t)), plus(hn::Mul(set(b), e), a, d), plus(plus(m[5], b2, t), a2, s)};
}

template <class Get, std::size_t... i> HWY_INLINE Row<sizeof...(i)> row_of(const Get& get, std::index_sequence<i...>) {
    return {get(static_cast<std::int64_t>(i))...};
}
template <std::size_t count, class Put, std::size_t... i>
HWY_INLINE void put_row(const Row<count>& row, const Put& put, std::index_sequence<i...>) {
    (put(static_cast<std::int64_t>(i), row[i]), ...);
}

/// get(row, column) of an `in` x `in` array, transformed along both axes, to put(row, column, v) of `out` x `out`.
template <std::size_t in, std::size_t out, class Transform, class Get, class Put>
HWY_INLINE void both_axes(const Transform& transform, const Get& get, const Put& put) {
    constexpr std::make_index_sequence<in> ins{};
    constexpr std::make_index_sequence<out> outs{};
    HWY_ALIGN float half[in * out * vector_size];
    for (std::int64_t column = 0; column < static_cast<std::int64_t>(in); ++column) {
        const auto row = transform(row_of([&](std::int64_t i) HWY_ATTR { return get(i, column); }, ins));
        put_row(
            row,
            [&](std::int64_t i, Vector v)
                HWY_ATTR { hn::Store(v, lanes, half + (i * static_cast<std::int64_t>(in) + column) * vector_size); },
            outs);
    }
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(out); ++i) {
        const float* const line = half + i * static_cast<std::int64_t>(in) * vector_size;
        const auto row =
            transform(row_of([&](std::int64_t j) HWY_ATTR { return hn::Load(lanes, line + j * vector_size); }, ins));
        put_row(
            row, [&](std::int64_t j, Vector v) HWY_ATTR { put(i, j, v); }, outs);
    }
}

template <std::size_t size, class T, class Transform>
HWY_INLINE void spread_as(const Spread& s, const Transform& transform) {
    constexpr auto pixels = static_cast<std::int64_t>(size);
    std::array<const T*, size * size> from;  // NOLINT: filled at once
    for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = s.at[i] < 0 ? static_cast<const T*>(s.zeros) : static_cast<const T*>(s.from) + s.at[i];
    for (std::int64_t c = 0; c < s.channels; c += vector_size) {
        float* const to = s.to + c;
        both_axes<size, 6>(
            transform,
            [&](std::int64_t i, std::int64_t j)
                HWY_ATTR { return load(from[static_cast<std::size_t>(i * pixels + j)] + c); },
            [&](std::int64_t i, std::int64_t j, Vector v) HWY_ATTR { store(v, to + (i * window + j) * s.plane); });
    }
}

void spread_data(const Spread& s) {
    const auto transform = [](const Row<6>& d) HWY_ATTR { return data_row(d); };
    s.half ? spread_as<6, std::uint16_t>(s, transform) : spread_as<6, float>(s, transform);
}

void spread_grads(const Spread& s) {
    const auto transform = [](const Row<4>& g) HWY_ATTR { return grad_row(g); };
    s.half ? spread_as<4, std::uint16_t>(s, transform) : spread_as<4, float>(s, transform);
}

template <class T> HWY_INLINE void collect_as(const Collect& s) {
    for (std::int64_t c = 0; c < s.channels; c += vector_size) {
        const Vector bias = s.bias != nullptr ? load(s.bias + c) : hn::Zero(lanes);
        both_axes<6, 4>([](const Row<6>& m) HWY_ATTR { return result_row(m); },
                        [&](std::int64_t i, std::int64_t j)
                            HWY_ATTR { return load(s.from + (i * window + j) * s.plane + c); },
                        [&](std::int64_t i, std::int64_t j, Vector v) HWY_ATTR {
                            const std::int32_t at = s.at[i * tile + j];
                            if (at >= 0) store(hn::Add(v, bias), static_cast<T*>(s.to) + at + c);
                        });
    }
}

void collect(const Collect& c) { c.half ? collect_as<std::uint16_t>(c) : collect_as<float>(c); }

void spread_taps(const float* from, std::int64_t count, float* to, std::int64_t plane) {
    for (std::int64_t c = 0; c < count; c += vector_size)
        both_axes<3, 6>(
            [](const Row<3>& g) HWY_ATTR { return tap_row(g); },
            [&](std::int64_t i, std::int64_t j) HWY_ATTR { return load(from + (i * taps + j) * count + c); },
            [&](std::int64_t i, std::int64_t j, Vector v) HWY_ATTR { store(v, to + (i * window + j) * plane + c); });
}

void collect_taps(const float* from, std::int64_t plane, std::int64_t count, float* to) {
    for (std::int64_t c = 0; c < count; c += vector_size)
        both_axes<6, 3>(
            [](const Row<6>& m) HWY_ATTR { return weight_row(m); },
            [&](std::int64_t i, std::int64_t j) HWY_ATTR { return load(from + (i * window + j) * plane + c); },
            [&](std::int64_t i, std::int64_t j, Vector v) HWY_ATTR { store(v, to + (i * taps + j) * count + c); });
}

template <class T>
void total_as(const T* from, std::int64_t step, std::int64_t pixels, std::int64_t channels, float* sums) {
    for (std::int64_t p = 0; p < pixels; ++p, from += step)
        for (std::int64_t c = 0; c < channels; c += vector_size)
            store(hn::Add(load(sums + c), load(from + c)), sums + c);
}

void total(const void* from, bool half, std::int64_t step, std::int64_t pixels, std::int64_t channels, float* sums) {
    if (half) {
        total_as(static_cast<const std::uint16_t*>(from), step, pixels, channels, sums);
    } else {
        total_as(static_cast<const float*>(from), step, pixels, channels, sums);
    }
}

}  // namespace

const Kernels& table() {
    static constexpr Kernels kernels{vector_size, spread_data, spread_grads, collect, spread_taps, collect_taps, total};
    return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu::winograd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::cpu::winograd {

HWY_EXPORT(table);
const Kernels& kernels() { return HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace calor::cpu::winograd
#endif
