// Float tile kernels against long double references: the error of every function in units in the last place, over a
// sweep of all magnitudes and over the range where networks live, on every instruction set that this machine has.
#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <math.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/elementwise/cpu/tile_kernels.h"
#include "sanitized.h"
#include "tile_kernels_reference.h"

namespace calor {
namespace {

using reference::Real;

/// Masks of instruction sets to test: the baseline, and each set up to the best one of this machine.
std::vector<std::int64_t> target_masks() {
    std::vector<std::int64_t> masks = {0};
    const std::int64_t supported = hwy::SupportedTargets();
    for (int bit = 62; bit >= 0; --bit) {
        const std::int64_t mask = std::int64_t{1} << bit;
        if ((supported & mask) != 0) masks.push_back(mask);
    }
    return masks;
}

template <class T> T from_index(std::uint64_t i);
template <> float from_index(std::uint64_t i) { return std::bit_cast<float>(static_cast<std::uint32_t>(i * 20011u)); }
template <> double from_index(std::uint64_t i) { return std::bit_cast<double>(i * 0x9e3779b97f4a7c15u); }

/// Special values, every magnitude, and a dense sweep of [-20, 20].
template <class T> std::vector<T> points() {
    using L = std::numeric_limits<T>;
    std::vector<T> x = {0,
                        -T{0},
                        1,
                        -1,
                        2,
                        -2,
                        T(0.5),
                        T(-0.5),
                        3,
                        -3,
                        L::infinity(),
                        -L::infinity(),
                        L::quiet_NaN(),
                        -L::quiet_NaN(),
                        L::min(),
                        -L::min(),
                        L::denorm_min(),
                        -L::denorm_min(),
                        L::max(),
                        L::lowest(),
                        L::epsilon(),
                        -L::epsilon(),
                        1 - L::epsilon() / 2,
                        1 + L::epsilon(),
                        88,
                        -88,
                        89,
                        -89,
                        104,
                        -104,
                        709,
                        -709,
                        710,
                        -745,
                        1000,
                        -1000,
                        T(1e10),
                        T(-1e10),
                        T(1e30),
                        T(-1e30)};
    for (std::uint64_t i = 0; i < 214000; i += (sizeof(T) == 4 ? 1 : 4) * (calor::testing::sanitized() ? 16 : 1))
        x.push_back(from_index<T>(i));
    for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<T>(i * 1.00037e-3));
    return x;
}

/// Distance of `got` from the exact value, in units in the last place of `scale` (of the exact value, when it is
/// larger).
template <class T> double error_in_ulps(T got, Real exact, Real scale) {
    using L = std::numeric_limits<T>;
    if (std::isnan(exact)) return std::isnan(got) ? 0 : INFINITY;
    if (std::isnan(got)) return INFINITY;
    const T nearest = static_cast<T>(exact);
    if (got == nearest) return exact == 0 && std::signbit(got) != std::signbit(exact) ? INFINITY : 0;
    if (std::isinf(exact)) return INFINITY;
    const Real limit = L::max();
    if (std::isinf(got)) return std::abs(exact) > limit * (1 - 4 * Real{L::epsilon()}) ? 0 : INFINITY;
    const Real size = std::max({std::abs(exact), std::abs(scale), Real{L::min()}});
    const Real ulp = std::ldexp(Real{1}, std::ilogb(size) - L::digits + 1);
    return static_cast<double>(std::abs(Real{got} - exact) / ulp);
}

struct Worst {
    double error = 0;
    std::string at;
};

template <class T> void check_unary(const reference::Unary& op, double bound) {
    const std::vector<T> x = points<T>();
    std::vector<Real> exact, scale;
    for (const T value : x) {
        exact.push_back(op.function(value, op.parameters));
        scale.push_back(op.scale ? op.scale(value) : 0);
    }
    for (const std::int64_t mask : target_masks()) {
        const TileKernel kernel = cpu::find_tile_kernel_for(mask, op.name, dtype_of<T>);
        ASSERT_NE(kernel, nullptr) << op.name;
        std::vector<T> got(x.size());
        const void* in[] = {x.data()};
        kernel(in, got.data(), std::ssize(x), op.parameters);
        Worst worst;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double error = error_in_ulps<T>(got[i], exact[i], scale[i]);
            if (error <= worst.error) continue;
            worst = {error, ::testing::PrintToString(x[i]) + " gives " + ::testing::PrintToString(got[i]) + ", exact " +
                                ::testing::PrintToString(static_cast<T>(exact[i]))};
        }
        EXPECT_LE(worst.error, bound) << op.name << " of " << name_of(dtype_of<T>) << ", target " << mask << ": "
                                      << worst.at;
    }
}

template <class T> void check_binary(const reference::Binary& op, double bound) {
    const std::vector<T> values = points<T>();
    std::vector<T> a, b;
    for (std::size_t i = 0; i < 40; ++i) {  // all pairs of special values
        for (std::size_t k = 0; k < 40; ++k) {
            a.push_back(values[i]);
            b.push_back(values[k]);
        }
    }
    for (std::size_t i = 0; i < values.size(); i += 2) {
        a.push_back(values[i]);
        b.push_back(values[(i * 7919 + 13) % values.size()]);
    }
    std::vector<Real> exact, scale;
    for (std::size_t i = 0; i < a.size(); ++i) {
        exact.push_back(op.function(a[i], b[i]));
        scale.push_back(op.scale ? op.scale(a[i], b[i]) : 0);
    }
    for (const std::int64_t mask : target_masks()) {
        const TileKernel kernel = cpu::find_tile_kernel_for(mask, op.name, dtype_of<T>);
        ASSERT_NE(kernel, nullptr) << op.name;
        std::vector<T> got(a.size());
        const void* in[] = {a.data(), b.data()};
        const double parameters[4] = {};
        kernel(in, got.data(), std::ssize(a), parameters);
        Worst worst;
        for (std::size_t i = 0; i < a.size(); ++i) {
            const double error = error_in_ulps<T>(got[i], exact[i], scale[i]);
            if (error <= worst.error) continue;
            worst = {error, ::testing::PrintToString(a[i]) + ", " + ::testing::PrintToString(b[i]) + " gives " +
                                ::testing::PrintToString(got[i]) + ", exact " +
                                ::testing::PrintToString(static_cast<T>(exact[i]))};
        }
        EXPECT_LE(worst.error, bound) << op.name << " of " << name_of(dtype_of<T>) << ", target " << mask << ": "
                                      << worst.at;
    }
}

TEST(TileKernelAccuracy, UnaryF32) {
    for (const auto& op : reference::unary()) check_unary<float>(op, op.bound32);
}
TEST(TileKernelAccuracy, UnaryF64) {
    for (const auto& op : reference::unary()) check_unary<double>(op, op.bound64);
}
TEST(TileKernelAccuracy, BinaryF32) {
    for (const auto& op : reference::binary()) check_binary<float>(op, op.bound32);
}
TEST(TileKernelAccuracy, BinaryF64) {
    for (const auto& op : reference::binary()) check_binary<double>(op, op.bound64);
}

}  // namespace
}  // namespace calor
