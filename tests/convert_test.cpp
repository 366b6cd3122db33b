// Conversions between all 169 pairs of dtypes, and the copies of tiles.
#include "device/cpu/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "calor/tensor.h"
#include "device/cpu/tile_copy.h"

namespace calor {
namespace {

constexpr DType all_types[] = {f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean};
constexpr double none[4] = {};

std::vector<TileKernel> kernels(DType from, DType to) {
    return {cpu::find_convert(from, to), cpu::find_convert_for(0, from, to)};
}

/// A value of any dtype as an exact number; long double holds all of them.
using Real = long double;

Real read(DType t, const std::byte* at) {
    const auto as = [&]<class T>(T value) {
        std::memcpy(&value, at, sizeof(T));
        return static_cast<Real>(value);
    };
    switch (t) {
        case f64: return as(double{});
        case f32: return as(float{});
        case f16: return static_cast<Real>(float16::to_float(static_cast<std::uint16_t>(as(std::uint16_t{}))));
        case bf16:
            return static_cast<Real>(std::bit_cast<float>(static_cast<std::uint32_t>(as(std::uint16_t{})) << 16));
        case i64: return as(std::int64_t{});
        case i32: return as(std::int32_t{});
        case i16: return as(std::int16_t{});
        case i8: return as(std::int8_t{});
        case u64: return as(std::uint64_t{});
        case u32: return as(std::uint32_t{});
        case u16: return as(std::uint16_t{});
        default: return as(std::uint8_t{});
    }
}

/// Rounds to `digits` significant bits, ties to even, for a format with the given smallest and largest exponents.
Real round_to(Real x, int digits, int least, int most) {
    if (x == 0 || std::isnan(x) || std::isinf(x)) return x;
    const int exponent = std::max(std::ilogb(x), least) - digits + 1;
    const Real rounded = std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
    return std::abs(rounded) >= std::ldexp(Real{1}, most + 1) ? std::copysign(INFINITY, x) : rounded;
}

Real low(DType t) { return is_signed_integer(t) ? -std::ldexp(Real{1}, static_cast<int>(8 * size_of(t)) - 1) : 0; }
Real high(DType t) {
    const int bits = static_cast<int>(8 * size_of(t)) - (is_signed_integer(t) ? 1 : 0);
    return std::ldexp(Real{1}, bits) - 1;
}

Real expected(DType from, DType to, Real x) {
    switch (to) {
        case f64: return round_to(x, 53, -1022, 1023);
        case f32: return round_to(x, 24, -126, 127);
        case f16: return round_to(x, 11, -14, 15);
        case bf16: return round_to(x, 8, -126, 127);
        case boolean: return x != 0;
        default: break;
    }
    if (is_floating(from)) return std::isnan(x) ? 0 : std::min(std::max(std::trunc(x), low(to)), high(to));
    const Real span = std::ldexp(Real{1}, static_cast<int>(8 * size_of(to)));
    Real wrapped = std::fmod(x, span);
    if (wrapped < low(to)) wrapped += span;
    return wrapped > high(to) ? wrapped - span : wrapped;
}

/// Every value of the types of up to 16 bits; edges and random bits of the others.
std::vector<std::byte> values(DType t) {
    const auto size = static_cast<std::size_t>(size_of(t));
    std::vector<std::uint64_t> bits;
    if (t == boolean) {
        bits = {0, 1, 1, 0, 1};
    } else if (size <= 2) {
        bits.resize(std::size_t{1} << (8 * size));
        std::iota(bits.begin(), bits.end(), 0);
    } else {
        std::mt19937_64 random(11);
        for (int i = 0; i < 40000; ++i) bits.push_back(random() >> (i % 2 == 0 ? 0 : random() % 64));
        for (std::uint64_t shift = 0; shift < 64; ++shift) {
            for (std::uint64_t delta = 0; delta < 5; ++delta) {
                bits.push_back((std::uint64_t{1} << shift) + delta - 2);
                bits.push_back(~((std::uint64_t{1} << shift) + delta - 2));
            }
        }
    }
    std::vector<std::byte> bytes(bits.size() * size);
    for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bytes[i * size], &bits[i], size);
    if (t == f64 ||
        t == f32) {  // numbers near the edges of every type, and halfway between neighbours of the narrow ones
        std::vector<double> edges = {0.0,
                                     -0.0,
                                     0.5,
                                     -0.5,
                                     0.99,
                                     -0.99,
                                     1.5,
                                     -1.5,
                                     65504,
                                     65519.99,
                                     65520,
                                     65536,
                                     3.4028235e38,
                                     5.9604644775390625e-8,
                                     2.98023223876953125e-8,
                                     2.9802322387695316e-8,
                                     1e-300,
                                     -1e-300,
                                     1e300,
                                     1 + 0x1p-11,
                                     1 + 0x1p-11 + 0x1p-40,
                                     1 + 0x1p-8,
                                     1 + 0x1p-8 + 0x1p-45,
                                     INFINITY,
                                     -INFINITY,
                                     NAN,
                                     -NAN};
        for (int bit = 0; bit <= 64; ++bit) {
            for (const double step : {-1.0, -0.5, 0.0, 0.5, 1.0}) {
                edges.push_back(std::ldexp(1.0, bit) + step);
                edges.push_back(-std::ldexp(1.0, bit) + step);
                edges.push_back(std::nextafter(std::ldexp(1.0, bit), step * INFINITY));
            }
        }
        for (const double edge : edges) {
            const auto narrow = static_cast<float>(edge);
            const auto* from =
                t == f64 ? reinterpret_cast<const std::byte*>(&edge) : reinterpret_cast<const std::byte*>(&narrow);
            bytes.insert(bytes.end(), from, from + size);
        }
    }
    return bytes;
}

TEST(Convert, EveryPairGivesTheValueRoundedOnce) {
    for (const DType from : all_types) {
        const std::vector<std::byte> x = values(from);
        const std::int64_t count = std::ssize(x) / size_of(from);
        for (const DType to : all_types) {
            for (const TileKernel kernel : kernels(from, to)) {
                std::vector<std::byte> got(static_cast<std::size_t>(count * size_of(to)));
                const void* in[] = {x.data()};
                kernel(in, got.data(), count, none);
                for (std::int64_t i = 0; i < count; ++i) {
                    const Real before = read(from, &x[static_cast<std::size_t>(i * size_of(from))]);
                    const Real after = read(to, &got[static_cast<std::size_t>(i * size_of(to))]);
                    const Real right = expected(from, to, before);
                    const bool same = std::isnan(right) ? std::isnan(after)
                                                        : after == right && std::signbit(after) == std::signbit(right);
                    ASSERT_TRUE(same || (is_integer(to) && after == right))
                        << name_of(from) << " to " << name_of(to) << ": " << before << " gives " << after << ", not "
                        << right;
                }
            }
        }
    }
}

TEST(Convert, WideningKeepsTheSecondRoundingRight) {
    for (const DType from : all_types) {
        const std::vector<std::byte> x = values(from);
        const std::int64_t count = std::ssize(x) / size_of(from);
        std::vector<float> wide(static_cast<std::size_t>(count));
        const void* in[] = {x.data()};
        cpu::find_widen(from)(in, wide.data(), count, none);
        for (const DType half : {f16, bf16}) {
            if (from == half) continue;  // a plain copy: it leaves signalling NaNs as they are
            std::vector<std::uint16_t> direct(wide.size()), stepwise(wide.size());
            cpu::find_convert(from, half)(in, direct.data(), count, none);
            const void* middle[] = {wide.data()};
            cpu::find_convert(f32, half)(middle, stepwise.data(), count, none);
            EXPECT_EQ(direct, stepwise) << name_of(from) << " to " << name_of(half);
        }
    }
}

TEST(Convert, CastsOfTensorsRoundOnce) {
    const Tensor x = tensor(std::vector<double>{1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11, 1 + 0x1p-8 + 0x1p-45});
    EXPECT_EQ(x.to(f16).to(f64).to_vector<double>(), (std::vector<double>{1 + 0x1p-10, 1, 1 + 0x1p-8}));
    EXPECT_EQ(x.to(bf16).to(f64).to_vector<double>(), (std::vector<double>{1, 1, 1 + 0x1p-7}));
}

TEST(Convert, HalfTypesComeBackUnchanged) {
    std::vector<std::uint16_t> bits(65536), back(65536);
    std::iota(bits.begin(), bits.end(), 0);
    std::vector<float> wide(65536);
    for (const DType half : {f16, bf16}) {
        for (const std::size_t target : {0, 1}) {
            const void* in[] = {bits.data()};
            kernels(half, f32)[target](in, wide.data(), 65536, none);
            const void* middle[] = {wide.data()};
            kernels(f32, half)[target](middle, back.data(), 65536, none);
            for (std::size_t i = 0; i < 65536; ++i) {
                if (std::isnan(wide[i])) {
                    const std::uint16_t infinity = half == f16 ? 0x7c00 : 0x7f80;
                    EXPECT_GT(back[i] & 0x7fff, infinity) << i;
                    EXPECT_EQ(back[i] & 0x8000, bits[i] & 0x8000) << i;
                } else {
                    EXPECT_EQ(back[i], bits[i]) << name_of(half);
                }
            }
        }
    }
}

TEST(Convert, ElementsDoNotDependOnTheirPlace) {
    for (const DType from : all_types) {
        const std::vector<std::byte> x = values(from);
        for (const DType to : all_types) {
            const std::int64_t count = std::min<std::int64_t>(std::ssize(x) / size_of(from), 600);
            const TileKernel kernel = cpu::find_convert(from, to);
            const auto result_size = static_cast<std::size_t>(size_of(to));
            std::vector<std::byte> whole(static_cast<std::size_t>(count) * result_size);
            const void* in[] = {x.data()};
            kernel(in, whole.data(), count, none);
            for (std::int64_t n = 0; n <= std::min<std::int64_t>(count, 67); ++n) {
                const std::int64_t start = count - n;
                std::vector<std::byte> part(static_cast<std::size_t>(n + 1) * result_size, std::byte{0x5a});
                const void* inputs[] = {x.data() + start * size_of(from)};
                kernel(inputs, part.data(), n, none);
                const auto bytes = static_cast<std::size_t>(n) * result_size;
                const bool same =
                    n == 0 ||
                    std::memcmp(part.data(), whole.data() + static_cast<std::size_t>(start) * result_size, bytes) == 0;
                EXPECT_TRUE(same) << name_of(from) << " to " << name_of(to) << ", " << n;
                EXPECT_EQ(part[bytes], std::byte{0x5a})
                    << name_of(from) << " to " << name_of(to) << " writes past " << n;
            }
        }
    }
}

template <class T> void check_copies() {
    std::vector<T> source(200);
    std::iota(source.begin(), source.end(), T{1});
    const auto size = static_cast<std::int64_t>(sizeof(T));
    for (const std::int64_t n : {0, 1, 2, 7, 33, 64}) {
        for (const std::int64_t stride : {-3, -1, 0, 1, 2, 3}) {
            const T* start = source.data() + (stride < 0 ? -stride * 64 : 0);
            std::vector<T> tile(static_cast<std::size_t>(n) + 1, T{99}), spread(200, T{99});
            cpu::gather(tile.data(), start, stride, size, n);
            for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(tile[static_cast<std::size_t>(i)], start[i * stride]);
            EXPECT_EQ(tile[static_cast<std::size_t>(n)], T{99});
            T* target = spread.data() + (stride < 0 ? -stride * 64 : 0);
            cpu::scatter(target, stride, tile.data(), size, n);
            std::vector<T> expected(200, T{99});
            for (std::int64_t i = 0; i < n; ++i) {
                expected[static_cast<std::size_t>(target - spread.data() + i * stride)] =
                    tile[static_cast<std::size_t>(i)];
            }
            EXPECT_EQ(spread, expected);
        }
        std::vector<T> filled(static_cast<std::size_t>(n) + 1, T{99});
        const T value = static_cast<T>(0x1122334455667788ull);
        cpu::fill(filled.data(), size, n, &value);
        for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(filled[static_cast<std::size_t>(i)], value);
        EXPECT_EQ(filled[static_cast<std::size_t>(n)], T{99});
    }
}

TEST(TileCopy, GatherScatterFill) {
    check_copies<std::uint8_t>();
    check_copies<std::uint16_t>();
    check_copies<std::uint32_t>();
    check_copies<std::uint64_t>();
}

TEST(TileCopy, StreamCopyAnyAlignmentAndLength) {
    std::vector<std::uint8_t> source(1000);
    std::iota(source.begin(), source.end(), std::uint8_t{0});
    for (std::size_t in = 0; in < 5; ++in) {
        for (std::size_t out = 0; out < 70; out += 3) {
            for (const std::size_t bytes : {0, 1, 15, 63, 64, 65, 200, 512, 777}) {
                std::vector<std::uint8_t> target(1000, 0xee), expected = target;
                cpu::stream_copy(target.data() + out, source.data() + in, static_cast<std::int64_t>(bytes));
                std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(in), bytes,
                            expected.begin() + static_cast<std::ptrdiff_t>(out));
                ASSERT_EQ(target, expected) << in << " " << out << " " << bytes;
            }
        }
    }
}

}  // namespace
}  // namespace calor
