// Tile kernels: which exist, integers and truth values against exact references, and that a result depends neither on
// the place of its element in the tile nor on the tile's length.
#include "ops/elementwise/cpu/tile_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace calor {
namespace {

constexpr DType compute_types[] = {f64, f32, i64, i32, i16, i8, u64, u32, u16, u8, boolean};

std::vector<std::string> words(const std::string& text) {
    std::vector<std::string> list;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t end = std::min(text.find(' ', i), text.size());
        list.push_back(text.substr(i, end - i));
        i = end + 1;
    }
    return list;
}

/// The documented operations, by the types that have them: F floats, I integers, B bool.
const std::map<std::string, std::string>& documented() {
    static const std::map<std::string, std::string> groups = {
        {"F",
         "exp expm1 exp2 log log1p log2 log10 sqrt rsqrt reciprocal cbrt sin cos tan asin acos atan sinh cosh tanh "
         "asinh "
         "acosh atanh erf erfc erfinv lgamma digamma trigamma sigmoid log_sigmoid softplus softsign silu mish gelu "
         "gelu_slope gelu_tanh relu relu6 leaky_relu elu selu celu hard_sigmoid hard_swish hardtanh tanhshrink "
         "softshrink "
         "hardshrink "
         "threshold isnan isinf isfinite div atan2 hypot copysign nextafter logaddexp xlogy lerp prelu"},
        {"FI", "neg abs sign square floor ceil round trunc add sub mul floor_divide remainder fmod pow clamp"},
        {"FIB", "minimum maximum where eq ne lt le gt ge logical_and logical_or logical_xor logical_not"},
        {"IB", "bitwise_not bitwise_and bitwise_or bitwise_xor"},
        {"I", "shift_left shift_right"},
    };
    return groups;
}

TEST(TileKernels, ExistForExactlyTheDocumentedTypes) {
    std::size_t count = 0;
    for (const auto& [types, names] : documented()) {
        for (const std::string& name : words(names)) {
            ++count;
            for (const DType t : compute_types) {
                const char letter = is_floating(t) ? 'F' : is_integer(t) ? 'I' : 'B';
                const bool expected = types.find(letter) != std::string::npos;
                EXPECT_EQ(find_tile_kernel(name, t) != nullptr, expected) << name << " of " << name_of(t);
            }
            EXPECT_EQ(find_tile_kernel(name, f16), nullptr);
            EXPECT_EQ(find_tile_kernel(name, bf16), nullptr);
        }
    }
    EXPECT_EQ(cpu::tile_kernel_names().size(), count);
    EXPECT_EQ(find_tile_kernel("no_such_operation", f32), nullptr);
}

using Wide = __int128;

template <class T> T wrap(Wide value) { return static_cast<T>(value); }

template <class T> T product(T a, T b) {
    return static_cast<T>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
}

template <class T> T floor_divide(T a, T b) {
    if (b == 0) return 0;
    Wide quotient = Wide{a} / Wide{b};
    if (quotient * b != a && (a < 0) != (b < 0)) --quotient;
    return wrap<T>(quotient);
}
template <class T> T remainder(T a, T b) {
    return b == 0 ? T{0} : wrap<T>(Wide{a} - (Wide{a} / b - ((Wide{a} % b != 0 && (a < 0) != (b < 0)) ? 1 : 0)) * b);
}
template <class T> T power(T a, T b) {
    if (b < 0) return a == 1 ? T{1} : a == wrap<T>(-1) && a < 0 ? wrap<T>(b % 2 == 0 ? 1 : -1) : T{0};
    T result = 1;
    for (T i = 0; i < b; ++i) result = product(result, a);
    return result;
}
template <class T> T shift_left(T a, T count) {
    const Wide width = 8 * sizeof(T);
    return count < 0 || count >= width ? T{0} : wrap<T>(Wide{a} * (Wide{1} << count));
}
template <class T> T shift_right(T a, T count) {
    const Wide width = 8 * sizeof(T);
    if (count < 0 || count >= width) return a < 0 ? wrap<T>(-1) : T{0};
    return wrap<T>(Wide{a} >> count);
}

/// All values of an 8-bit type; edges and random values of the others.
template <class T> std::vector<T> integers() {
    std::vector<T> values;
    if constexpr (sizeof(T) == 1) {
        for (int i = 0; i < 256; ++i) values.push_back(static_cast<T>(i));
        return values;
    }
    using L = std::numeric_limits<T>;
    for (int i = 0; i < 70; ++i) {
        values.push_back(static_cast<T>(i));
        values.push_back(static_cast<T>(0 - i));
        values.push_back(static_cast<T>(L::max() - i));
        values.push_back(static_cast<T>(L::min() + i));
    }
    std::mt19937_64 random(7);
    for (int i = 0; i < 60; ++i) values.push_back(static_cast<T>(random() >> (random() % 64)));
    return values;
}

template <class T, class R = T>
void check_pairs(const char* name, std::type_identity_t<R (*)(T, T)> expected,
                 std::type_identity_t<bool (*)(T, T)> skip = nullptr) {
    std::vector<T> a, b;
    for (const T x : integers<T>()) {
        for (const T y : integers<T>()) {
            if (skip && skip(x, y)) continue;
            a.push_back(x);
            b.push_back(y);
        }
    }
    for (const std::int64_t targets : {std::int64_t{0}, ~std::int64_t{0}}) {
        const TileKernel kernel =
            targets == 0 ? cpu::find_tile_kernel_for(0, name, dtype_of<T>) : find_tile_kernel(name, dtype_of<T>);
        ASSERT_NE(kernel, nullptr) << name;
        std::vector<std::conditional_t<std::is_same_v<R, bool>, std::uint8_t, R>> got(a.size());
        const void* in[] = {a.data(), b.data()};
        const double none[4] = {};
        kernel(in, got.data(), std::ssize(a), none);
        for (std::size_t i = 0; i < a.size(); ++i) {
            ASSERT_EQ(+got[i], +expected(a[i], b[i]))
                << name << "(" << +a[i] << ", " << +b[i] << ") of " << name_of(dtype_of<T>);
        }
    }
}

template <class T> struct IntegerKernels : ::testing::Test {};
using IntegerTypes = ::testing::Types<std::int64_t, std::int32_t, std::int16_t, std::int8_t, std::uint64_t,
                                      std::uint32_t, std::uint16_t, std::uint8_t>;
TYPED_TEST_SUITE(IntegerKernels, IntegerTypes, );

TYPED_TEST(IntegerKernels, PairsGiveTheExactValueWrapped) {
    using T = TypeParam;
    check_pairs<T>("add", [](T a, T b) { return wrap<T>(Wide{a} + b); });
    check_pairs<T>("sub", [](T a, T b) { return wrap<T>(Wide{a} - b); });
    check_pairs<T>("mul", product<T>);
    check_pairs<T>("floor_divide", floor_divide<T>);
    check_pairs<T>("remainder", remainder<T>);
    check_pairs<T>("fmod", [](T a, T b) { return b == 0 ? T{0} : wrap<T>(Wide{a} % b); });
    check_pairs<T>("minimum", [](T a, T b) { return std::min(a, b); });
    check_pairs<T>("maximum", [](T a, T b) { return std::max(a, b); });
    check_pairs<T>("bitwise_and", [](T a, T b) { return static_cast<T>(a & b); });
    check_pairs<T>("bitwise_or", [](T a, T b) { return static_cast<T>(a | b); });
    check_pairs<T>("bitwise_xor", [](T a, T b) { return static_cast<T>(a ^ b); });
    check_pairs<T>("shift_left", shift_left<T>);
    check_pairs<T>("shift_right", shift_right<T>);
    check_pairs<T>("pow", power<T>, [](T, T b) { return b > 1000; });
}

TYPED_TEST(IntegerKernels, PairsCompare) {
    using T = TypeParam;
    check_pairs<T, bool>("eq", [](T a, T b) { return a == b; });
    check_pairs<T, bool>("ne", [](T a, T b) { return a != b; });
    check_pairs<T, bool>("lt", [](T a, T b) { return a < b; });
    check_pairs<T, bool>("le", [](T a, T b) { return a <= b; });
    check_pairs<T, bool>("gt", [](T a, T b) { return a > b; });
    check_pairs<T, bool>("ge", [](T a, T b) { return a >= b; });
    check_pairs<T, bool>("logical_and", [](T a, T b) { return a != 0 && b != 0; });
    check_pairs<T, bool>("logical_or", [](T a, T b) { return a != 0 || b != 0; });
    check_pairs<T, bool>("logical_xor", [](T a, T b) { return (a != 0) != (b != 0); });
}

template <class R, class T>
std::vector<R> run(const char* name, const std::vector<T>& x, std::vector<double> parameters = {}) {
    parameters.resize(4);
    std::vector<R> got(x.size());
    const void* in[] = {x.data()};
    const TileKernel kernel = find_tile_kernel(name, dtype_of<T>);
    if (kernel == nullptr) throw std::runtime_error(std::string(name) + " has no kernel");
    kernel(in, got.data(), std::ssize(x), parameters.data());
    return got;
}

TYPED_TEST(IntegerKernels, Single) {
    using T = TypeParam;
    using L = std::numeric_limits<T>;
    const std::vector<T> x = integers<T>();
    const auto neg = run<T>("neg", x), abs = run<T>("abs", x), sign = run<T>("sign", x), square = run<T>("square", x);
    const auto bit_not = run<T>("bitwise_not", x), floor = run<T>("floor", x), round = run<T>("round", x);
    const auto ceil = run<T>("ceil", x), trunc = run<T>("trunc", x);
    const auto logical = run<std::uint8_t>("logical_not", x);
    const auto clamp = run<T>("clamp", x, {-3.5, 100.5}), open = run<T>("clamp", x, {-INFINITY, INFINITY});
    const auto crossed = run<T>("clamp", x, {50, 20});
    for (std::size_t i = 0; i < x.size(); ++i) {
        const Wide a = x[i];
        EXPECT_EQ(neg[i], wrap<T>(-a));
        EXPECT_EQ(abs[i], wrap<T>(a < 0 ? -a : a));
        EXPECT_EQ(sign[i], wrap<T>(a > 0 ? 1 : a < 0 ? -1 : 0));
        EXPECT_EQ(square[i], product(x[i], x[i]));
        EXPECT_EQ(bit_not[i], wrap<T>(-a - 1));
        EXPECT_EQ(floor[i], x[i]);
        EXPECT_EQ(ceil[i], x[i]);
        EXPECT_EQ(round[i], x[i]);
        EXPECT_EQ(trunc[i], x[i]);
        EXPECT_EQ(logical[i], x[i] == 0);
        EXPECT_EQ(clamp[i], wrap<T>(std::clamp<Wide>(a, std::max<Wide>(-3, L::min()), 100)));
        EXPECT_EQ(open[i], x[i]);
        EXPECT_EQ(crossed[i], 20);
    }
}

TEST(TileKernels, BoolIsTheBytes0And1) {
    const std::vector<std::uint8_t> a = {0, 0, 1, 1}, b = {0, 1, 0, 1};
    const auto check = [&](const char* name, std::vector<std::uint8_t> expected) {
        std::vector<std::uint8_t> got(4);
        const void* in[] = {a.data(), b.data()};
        const double none[4] = {};
        find_tile_kernel(name, boolean)(in, got.data(), 4, none);
        EXPECT_EQ(got, expected) << name;
    };
    check("eq", {1, 0, 0, 1});
    check("ne", {0, 1, 1, 0});
    check("lt", {0, 1, 0, 0});
    check("le", {1, 1, 0, 1});
    check("gt", {0, 0, 1, 0});
    check("ge", {1, 0, 1, 1});
    check("minimum", {0, 0, 0, 1});
    check("maximum", {0, 1, 1, 1});
    check("logical_and", {0, 0, 0, 1});
    check("logical_or", {0, 1, 1, 1});
    check("logical_xor", {0, 1, 1, 0});
    check("logical_not", {1, 1, 0, 0});
    check("bitwise_and", {0, 0, 0, 1});
    check("bitwise_or", {0, 1, 1, 1});
    check("bitwise_xor", {0, 1, 1, 0});
    check("bitwise_not", {1, 1, 0, 0});
}

template <class T> struct FloatKernels : ::testing::Test {};
using FloatTypes = ::testing::Types<double, float>;
TYPED_TEST_SUITE(FloatKernels, FloatTypes, );

template <class R, class T> R pair(const char* name, T a, T b, double p0 = 0) {
    const void* in[] = {&a, &b};
    const double parameters[4] = {p0};
    R got{};
    find_tile_kernel(name, dtype_of<T>)(in, &got, 1, parameters);
    return got;
}

TYPED_TEST(FloatKernels, NanIsUnorderedAndPropagates) {
    using T = TypeParam;
    const T nan = std::numeric_limits<T>::quiet_NaN(), one = 1;
    for (const auto& [a, b] : {std::pair(nan, one), std::pair(one, nan), std::pair(nan, nan)}) {
        for (const char* name : {"eq", "lt", "le", "gt", "ge"}) EXPECT_EQ(pair<std::uint8_t>(name, a, b), 0) << name;
        EXPECT_EQ(pair<std::uint8_t>("ne", a, b), 1);
        for (const char* name : {"add", "minimum", "maximum", "fmod", "remainder", "floor_divide", "nextafter"}) {
            EXPECT_TRUE(std::isnan(pair<T>(name, a, b))) << name;
        }
    }
    for (const std::string& name : words(documented().at("F"))) {
        if (name == "copysign" || name == "xlogy" || name.substr(0, 2) == "is") continue;
        const void* in[] = {&nan, &nan, &nan};
        const double parameters[4] = {1, 2};
        T got = 0;
        find_tile_kernel(name, dtype_of<T>)(in, &got, 1, parameters);
        EXPECT_TRUE(std::isnan(got)) << name;
    }
    EXPECT_TRUE(std::isnan(run<T>("clamp", std::vector<T>{nan}, {-1, 1})[0]));
    EXPECT_EQ((run<std::uint8_t>("logical_not", std::vector<T>{nan, 0, -T{0}, 2})),
              (std::vector<std::uint8_t>{0, 1, 1, 0}));
}

TYPED_TEST(FloatKernels, ClassesOfValues) {
    using T = TypeParam;
    using L = std::numeric_limits<T>;
    const std::vector<T> x = {0, 1, L::denorm_min(), L::max(), L::infinity(), -L::infinity(), L::quiet_NaN()};
    EXPECT_EQ((run<std::uint8_t>("isnan", x)), (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 1}));
    EXPECT_EQ((run<std::uint8_t>("isinf", x)), (std::vector<std::uint8_t>{0, 0, 0, 0, 1, 1, 0}));
    EXPECT_EQ((run<std::uint8_t>("isfinite", x)), (std::vector<std::uint8_t>{1, 1, 1, 1, 0, 0, 0}));
}

TYPED_TEST(FloatKernels, DivisionRoundsDownLikePython) {
    using T = TypeParam;
    EXPECT_EQ(pair<T>("floor_divide", T(7), T(2)), 3);
    EXPECT_EQ(pair<T>("floor_divide", T(-7), T(2)), -4);
    EXPECT_EQ(pair<T>("floor_divide", T(7), T(-2)), -4);
    EXPECT_EQ(pair<T>("floor_divide", T(1), T(0.1)), 9);  // 0.1 is a little more than a tenth, in both types
    EXPECT_EQ(pair<T>("floor_divide", T(1), T(0)), INFINITY);
    EXPECT_EQ(pair<T>("remainder", T(-7), T(2)), 1);
    EXPECT_EQ(pair<T>("remainder", T(7), T(-2)), -1);
    EXPECT_TRUE(std::isnan(pair<T>("remainder", T(7), T(0))));
    EXPECT_EQ(pair<T>("fmod", T(-7), T(2)), -1);
}

TYPED_TEST(FloatKernels, NextAfterAndLerpAndWhere) {
    using T = TypeParam;
    EXPECT_EQ(pair<T>("nextafter", T(1), T(2)), 1 + std::numeric_limits<T>::epsilon());
    EXPECT_EQ(pair<T>("nextafter", T(0), T(-1)), -std::numeric_limits<T>::denorm_min());
    EXPECT_EQ(pair<T>("nextafter", T(3), T(3)), 3);
    const std::vector<T> a = {1, 1, 1, 3}, b = {9, 9, 9, 5}, w = {0, 1, T(0.25), T(1.5)};
    std::vector<T> got(4);
    const double none[4] = {};
    const void* in[] = {a.data(), b.data(), w.data()};
    find_tile_kernel("lerp", dtype_of<T>)(in, got.data(), 4, none);
    EXPECT_EQ(got, (std::vector<T>{1, 9, 3, 6}));
    const std::uint8_t condition[] = {1, 0, 2, 0};  // every byte but 0 is true
    const void* choice[] = {condition, a.data(), b.data()};
    find_tile_kernel("where", dtype_of<T>)(choice, got.data(), 4, none);
    EXPECT_EQ(got, (std::vector<T>{1, 9, 1, 5}));
}

TYPED_TEST(FloatKernels, ActivationsKeepTheirLimits) {
    using T = TypeParam;
    const T infinity = std::numeric_limits<T>::infinity();
    EXPECT_EQ((run<T>("sigmoid", std::vector<T>{100, infinity, -infinity})), (std::vector<T>{1, 1, 0}));
    EXPECT_GT(run<T>("sigmoid", std::vector<T>{-80})[0], 0);
    EXPECT_EQ((run<T>("log_sigmoid", std::vector<T>{-10000, infinity})), (std::vector<T>{-10000, 0}));
    EXPECT_EQ((run<T>("softplus", std::vector<T>{10000, infinity, -infinity}, {1, 20})),
              (std::vector<T>{10000, infinity, 0}));
    for (const char* name : {"gelu", "gelu_tanh", "silu", "mish"}) {
        EXPECT_EQ((run<T>(name, std::vector<T>{infinity, -infinity, 1000, -1000})),
                  (std::vector<T>{infinity, 0, 1000, 0}))
            << name;
    }
    EXPECT_EQ(pair<T>("hypot", std::numeric_limits<T>::max() / 2, T(1)), std::numeric_limits<T>::max() / 2);
    EXPECT_EQ((run<T>("round", std::vector<T>{T(0.5), T(1.5), T(2.5), T(-0.5)})), (std::vector<T>{0, 2, 2, 0}));
}

/// Values of every kind: random bits, small numbers, special ones.
std::vector<std::byte> random_tile(DType t, std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto size = static_cast<std::size_t>(size_of(t));
    std::vector<std::byte> bytes(count * size);
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bits = random();
        const int kind = static_cast<int>(random() % 4);
        const double small = static_cast<double>(static_cast<std::int64_t>(random() % 2000) - 1000) / 100;
        if (t == boolean) {
            bytes[i] = static_cast<std::byte>(bits & 1);
        } else if (t == f64 && kind != 0) {
            std::memcpy(&bytes[i * size], &small, size);
        } else if (t == f32 && kind != 0) {
            const auto value = static_cast<float>(small);
            std::memcpy(&bytes[i * size], &value, size);
        } else {
            const std::uint64_t value = kind == 0 ? bits : bits % 40;
            std::memcpy(&bytes[i * size], &value, size);
        }
    }
    return bytes;
}

bool same_element(DType t, const std::byte* a, const std::byte* b) {
    if (std::memcmp(a, b, static_cast<std::size_t>(size_of(t))) == 0) return true;
    double x = 0, y = 0;
    float p = 0, q = 0;
    if (t == f64) {
        std::memcpy(&x, a, 8);
        std::memcpy(&y, b, 8);
    } else if (t == f32) {
        std::memcpy(&p, a, 4);
        std::memcpy(&q, b, 4);
        x = p;
        y = q;
    }
    return std::isnan(x) && std::isnan(y);
}

bool writes_bool(const std::string& name) {
    static const std::vector<std::string> names =
        words("eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite");
    return std::find(names.begin(), names.end(), name) != names.end();
}

void check_positions(const std::string& name, DType t, TileKernel kernel) {
    constexpr std::size_t count = 100;
    const DType result = writes_bool(name) ? boolean : t;
    const DType first = name == "where" ? boolean : t;
    const auto size = static_cast<std::size_t>(size_of(t)), result_size = static_cast<std::size_t>(size_of(result));
    const auto first_size = static_cast<std::size_t>(size_of(first));
    const auto a = random_tile(first, count, 1), b = random_tile(t, count, 2), c = random_tile(t, count, 3);
    const double parameters[4] = {0.5, 2};
    std::vector<std::byte> whole(count * result_size);
    const void* in[] = {a.data(), b.data(), c.data()};
    kernel(in, whole.data(), count, parameters);
    for (std::size_t n = 0; n <= 67; ++n) {
        const std::size_t start = n * 7 % 31;
        std::vector<std::byte> part((n + 1) * result_size, std::byte{0x5a});
        const void* inputs[] = {a.data() + start * first_size, b.data() + start * size, c.data() + start * size};
        kernel(inputs, part.data(), static_cast<std::int64_t>(n), parameters);
        for (std::size_t i = 0; i < n; ++i) {
            ASSERT_TRUE(same_element(result, &part[i * result_size], &whole[(start + i) * result_size]))
                << name << " of " << name_of(t) << ": element " << i << " of " << n;
        }
        for (std::size_t i = n * result_size; i < part.size(); ++i) {
            ASSERT_EQ(part[i], std::byte{0x5a}) << name << " of " << name_of(t) << " writes past " << n;
        }
        if (result_size != size) continue;
        std::vector<std::byte> place(b.begin() + static_cast<std::ptrdiff_t>(start * size),
                                     b.begin() + static_cast<std::ptrdiff_t>((start + n) * size));
        place.resize(n * size + 1);  // never empty: data() is valid
        const void* same[] = {inputs[0], place.data(), inputs[2]};
        kernel(same, place.data(), static_cast<std::int64_t>(n), parameters);  // over the second input
        for (std::size_t i = 0; i < n; ++i) {
            ASSERT_TRUE(same_element(result, &place[i * size], &whole[(start + i) * size]))
                << name << " of " << name_of(t) << " in place: element " << i << " of " << n;
        }
    }
}

TEST(TileKernels, ElementsDoNotDependOnTheirPlace) {
    for (const std::string_view name : cpu::tile_kernel_names()) {
        for (const DType t : compute_types) {
            if (const TileKernel kernel = find_tile_kernel(name, t)) check_positions(std::string(name), t, kernel);
            if (const TileKernel kernel = cpu::find_tile_kernel_for(0, name, t))
                check_positions(std::string(name), t, kernel);
            if (HasFatalFailure()) return;
        }
    }
}

}  // namespace
}  // namespace calor
