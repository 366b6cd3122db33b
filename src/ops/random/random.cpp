// The random operations: which words an element takes, and what it makes of them.
#include "ops/random/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "calor/view.h"
#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "ops/random/kernels.h"
#include "ops/random/philox.h"
#include "ops/random/random_gpu.h"
#include "ops/registry.h"

namespace calor {
namespace random {

graph::Specs infer(const graph::InferContext& c) {
    const auto& a = c.attrs<RandomAttributes>();
    return {{a.shape, a.dtype}};
}

Tensor record(const graph::Operation& operation, RandomAttributes attributes, std::int64_t per_block,
              Generator& generator, const Where& where) {
    (void)checked_bytes(attributes.shape, attributes.dtype, where);
    const std::int64_t count = numel(attributes.shape, where);
    attributes.at = generator.reserve(static_cast<std::uint64_t>(count / per_block + (count % per_block != 0 ? 1 : 0)));
    return graph::record(operation, std::move(attributes), std::span<const Tensor>(), where);
}

namespace {

/// Calls body(block, first, count) for chunks of 64 blocks: elements [first, first + count) begin at counter `block`.
template <class F>
void for_each_chunk(const RandomAttributes& a, std::int64_t elements, std::int64_t per_block, const F& body) {
    const std::int64_t chunk = chunk_blocks * per_block;
    cpu::parallel_for((elements + chunk - 1) / chunk, 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            body(a.at.offset + static_cast<std::uint64_t>(i * chunk_blocks), i * chunk,
                 std::min(chunk, elements - i * chunk));
        }
    });
}

/// Runs a loop of 256 f32 values and stores them as f32, f16 or bf16.
template <class F> void fill_f32(const graph::Call& c, const F& loop) {
    const auto& a = c.attrs<RandomAttributes>();
    const View& y = c.outputs[0];
    const TileKernel convert = cpu::find_convert(f32, y.dtype);
    for_each_chunk(a, y.count(), 4, [&](std::uint64_t block, std::int64_t first, std::int64_t count) {
        if (y.dtype == f32 && count == chunk_words) return loop(block, y.as<float>() + first);
        alignas(64) float values[chunk_words];
        loop(block, values);
        const void* const in[1] = {values};
        convert(in, y.as<std::byte>() + first * size_of(y.dtype), count, nullptr);
    });
}

/// Calls value(w) for the 64-bit word of every element and stores the results.
template <class T, class F> void fill_wide(const graph::Call& c, const F& value) {
    const auto& a = c.attrs<RandomAttributes>();
    T* out = c.outputs[0].as<T>();
    for_each_chunk(a, c.outputs[0].count(), 2, [&](std::uint64_t block, std::int64_t first, std::int64_t count) {
        alignas(64) std::uint32_t w[chunk_words];
        kernels().words(a.at.seed, block, w);
        for (std::int64_t i = 0; i < count; ++i) {
            out[first + i] =
                value(static_cast<std::uint64_t>(w[2 * i]) | static_cast<std::uint64_t>(w[2 * i + 1]) << 32);
        }
    });
}

template <class T> T next_below(T half) {
    const bool zero = (half.bits & 0x7FFFU) == 0, negative = (half.bits & 0x8000U) != 0;
    half.bits = static_cast<std::uint16_t>(zero ? 0x8001U : negative ? half.bits + 1U : half.bits - 1U);
    return half;
}
float next_below(float value) { return std::nextafter(value, -std::numeric_limits<float>::infinity()); }
double next_below(double value) { return std::nextafter(value, -std::numeric_limits<double>::infinity()); }

/// The largest value of the dtype below `high`, or low when there is none above it.
double last_below(double low, double high, DType dtype) {
    const auto of = [&](auto rounded) {
        return std::max<double>(low, static_cast<double>(rounded) < high ? rounded : next_below(rounded));
    };
    switch (dtype) {
        case f64: return of(high);
        case f16: return of(float16(static_cast<float>(high)));
        case bf16: return of(bfloat16(static_cast<float>(high)));
        default: return of(static_cast<float>(high));
    }
}

void run_uniform(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    const double limit = last_below(a.a, a.b, a.dtype), span = a.b - a.a;
    if (a.dtype == f64) {
        return fill_wide<double>(c, [&](std::uint64_t w) { return std::min(unit_f64(w) * span + a.a, limit); });
    }
    const int shift = a.dtype == f32 ? 8 : a.dtype == f16 ? 21 : 24;
    fill_f32(c, [&](std::uint64_t block, float* out) {
        kernels().uniform_f32(a.at.seed, block, shift, static_cast<float>(a.a), static_cast<float>(span),
                              static_cast<float>(limit), out);
    });
}

void run_normal(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    if (a.dtype != f64) {
        return fill_f32(c, [&](std::uint64_t block, float* out) {
            kernels().normal_f32(a.at.seed, block, static_cast<float>(a.a), static_cast<float>(a.b), out);
        });
    }
    double* out = c.outputs[0].as<double>();
    for_each_chunk(a, c.outputs[0].count(), 2, [&](std::uint64_t block, std::int64_t first, std::int64_t count) {
        alignas(64) std::uint32_t w[chunk_words];
        kernels().words(a.at.seed, block, w);
        for (std::int64_t i = 0; i < count; i += 2) {
            const auto word = [&](std::int64_t k) {
                return static_cast<std::uint64_t>(w[2 * k]) | static_cast<std::uint64_t>(w[2 * k + 1]) << 32;
            };
            const double r = std::sqrt(-2 * log_f64(radius_point_f64(word(i))));
            double cosine, sine;
            circle_f64(word(i + 1), cosine, sine);
            out[first + i] = r * cosine * a.b + a.a;
            if (i + 1 < count) out[first + i + 1] = r * sine * a.b + a.a;
        }
    });
}

/// The probability of a point between those of the ends, and back; upper tails are mirrored, where p keeps its digits.
template <class T> void truncated_as(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    const bool mirrored = a.first != 0;
    fill_wide<T>(c, [&](std::uint64_t w) {
        const double p = a.c + (unit_f64(w) + 0x1p-54) * (a.d - a.c);
        const double z = normal_quantile(p);
        const double x = std::clamp((mirrored ? -z : z) * a.b + a.a, a.low, a.high);
        if constexpr (std::is_same_v<T, double>) {
            return x;
        } else {
            return T(static_cast<float>(x));
        }
    });
}

void run_truncated_normal(const graph::Call& c) {
    switch (c.outputs[0].dtype) {
        case f64: return truncated_as<double>(c);
        case f32: return truncated_as<float>(c);
        case f16: return truncated_as<float16>(c);
        default: return truncated_as<bfloat16>(c);
    }
}

void run_bernoulli(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    const auto threshold = static_cast<std::uint64_t>(std::llrint(a.a * 0x1p32));
    auto* out = c.outputs[0].as<std::uint8_t>();
    for_each_chunk(a, c.outputs[0].count(), 4, [&](std::uint64_t block, std::int64_t first, std::int64_t count) {
        if (count == chunk_words) return kernels().bernoulli(a.at.seed, block, threshold, out + first);
        std::uint8_t values[chunk_words];
        kernels().bernoulli(a.at.seed, block, threshold, values);
        std::memcpy(out + first, values, static_cast<std::size_t>(count));
    });
}

}  // namespace

void fail_probability(const graph::Call& c, std::int64_t position, double value) {
    fail("value/option", c.operation, c.where,
         {{"option", "the probability at position " + std::to_string(position)},
          {"got", value},
          {"expected", "0 to 1"},
          {"help", "sigmoid() maps any number there"}});
}

namespace {

template <class T> void bernoulli_of(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    const View& p = c.inputs[0];
    for (std::int64_t i = 0, n = p.count(); i < n; ++i) {
        const T value = p.as<T>()[i];
        if (!(value >= 0 && value <= 1)) {
            fail_probability(c, i, static_cast<double>(value));
        }
    }
    auto* out = c.outputs[0].as<std::uint8_t>();
    for_each_chunk(a, p.count(), 4, [&](std::uint64_t block, std::int64_t first, std::int64_t count) {
        alignas(64) std::uint32_t w[chunk_words];
        kernels().words(a.at.seed, block, w);
        for (std::int64_t i = 0; i < count; ++i) {
            out[first + i] = static_cast<double>(w[i]) * 0x1p-32 < static_cast<double>(p.as<T>()[first + i]) ? 1 : 0;
        }
    });
}

void run_bernoulli_of(const graph::Call& c) {
    c.inputs[0].dtype == f64 ? bernoulli_of<double>(c) : bernoulli_of<float>(c);
}

template <class T> void randint_as(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    fill_wide<T>(c, [&](std::uint64_t w) {
        __extension__ using Wide = unsigned __int128;
        const auto picked = static_cast<std::uint64_t>((static_cast<Wide>(w) * a.span) >> 64);
        return static_cast<T>(static_cast<std::uint64_t>(a.first) + picked);
    });
}

void run_randint(const graph::Call& c) {
    switch (c.outputs[0].dtype) {
        case i64:
        case u64: return randint_as<std::uint64_t>(c);
        case i32:
        case u32: return randint_as<std::uint32_t>(c);
        case i16:
        case u16: return randint_as<std::uint16_t>(c);
        default: return randint_as<std::uint8_t>(c);
    }
}

template <void (*run)(const graph::Call&)> std::span<const graph::Implementation> only(DeviceKind) {
    static const graph::Implementation list[] = {{.name = "philox", .run = run}};
    return list;
}

void uniform_limited(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    uniform_on_gpu(c, last_below(a.a, a.b, a.dtype));
}
template <void (*run)(const graph::Call&)> std::span<const graph::Implementation> only_on_gpu() {
    static const graph::Implementation list[] = {{.name = "philox", .run = run}};
    return list;
}

const graph::Operation uniform_operation{.name = "uniform",
                                         .traits = graph::random,
                                         .infer = infer,
                                         .implementations = only<run_uniform>,
                                         .gpu_implementations = only_on_gpu<uniform_limited>};
const graph::Operation normal_operation{.name = "normal",
                                        .traits = graph::random,
                                        .infer = infer,
                                        .implementations = only<run_normal>,
                                        .gpu_implementations = only_on_gpu<normal_on_gpu>};
const graph::Operation truncated_normal_operation{.name = "truncated_normal",
                                                  .traits = graph::random,
                                                  .infer = infer,
                                                  .implementations = only<run_truncated_normal>,
                                                  .gpu_implementations = only_on_gpu<truncated_normal_on_gpu>};
const graph::Operation bernoulli_operation{.name = "bernoulli",
                                           .traits = graph::random,
                                           .infer = infer,
                                           .implementations = only<run_bernoulli>,
                                           .gpu_implementations = only_on_gpu<bernoulli_on_gpu>};
const graph::Operation bernoulli_of_operation{.name = "bernoulli_of",
                                              .traits = graph::random,
                                              .infer = infer,
                                              .implementations = only<run_bernoulli_of>,
                                              .gpu_implementations = only_on_gpu<bernoulli_of_on_gpu>};
const graph::Operation randint_operation{.name = "randint",
                                         .traits = graph::random,
                                         .infer = infer,
                                         .implementations = only<run_randint>,
                                         .gpu_implementations = only_on_gpu<randint_on_gpu>};

void check_floating(std::string_view operation, DType dtype, const Where& where) {
    if (is_floating(dtype)) return;
    fail("dtype/unsupported", operation, where,
         {{"argument", "the result"}, {"got", dtype}, {"expected", "a floating dtype"}});
}
void check(bool good, std::string_view operation, std::string_view option, const Field& got, std::string_view expected,
           std::string_view help, const Where& where) {
    if (good) return;
    fail("value/option", operation, where, {{"option", option}, got, {"expected", expected}, {"help", help}});
}

double largest(DType dtype) {
    switch (dtype) {
        case f64: return std::numeric_limits<double>::max();
        case f16: return 65504;
        case bf16: return 0x1.FEp127;
        default: return std::numeric_limits<float>::max();
    }
}

}  // namespace
}  // namespace random

using random::RandomAttributes;

Tensor uniform(const Shape& shape, double low, double high, DType dtype, Generator& generator, const Where& where) {
    const Naming naming("uniform");
    random::check_floating("uniform", dtype, where);
    const double most = random::largest(dtype);
    random::check(std::abs(low) <= most, "uniform", "low", {"got", low}, "a finite number of the dtype",
                  "the range is [low, high)", where);
    random::check(std::abs(high) <= most && high >= low, "uniform", "high", {"got", high},
                  "a finite number of the dtype that is not below low", "the range is [low, high)", where);
    random::check(high - low <= most, "uniform", "high - low", {"got", high - low}, "a number that the dtype holds",
                  "take a wider dtype and convert", where);
    RandomAttributes a{.shape = shape, .dtype = dtype, .at = {}, .a = low, .b = high};
    return random::record(random::uniform_operation, std::move(a), dtype == f64 ? 2 : 4, generator, where);
}

Tensor normal(const Shape& shape, double mean, double std, DType dtype, Generator& generator, const Where& where) {
    const Naming naming("normal");
    random::check_floating("normal", dtype, where);
    const double most = random::largest(dtype);
    random::check(std::abs(mean) <= most, "normal", "mean", {"got", mean}, "a finite number of the dtype",
                  "it is the middle of the distribution", where);
    random::check(std >= 0 && std <= most, "normal", "std", {"got", std}, "a finite number of 0 or more",
                  "it is the standard deviation, not the variance", where);
    RandomAttributes a{.shape = shape, .dtype = dtype, .at = {}, .a = mean, .b = std};
    return random::record(random::normal_operation, std::move(a), dtype == f64 ? 2 : 4, generator, where);
}

Tensor truncated_normal(const Shape& shape, double mean, double std, double low, double high, DType dtype,
                        Generator& generator, const Where& where) {
    const Naming naming("truncated_normal");
    random::check_floating("truncated_normal", dtype, where);
    random::check(std::isfinite(mean), "truncated_normal", "mean", {"got", mean}, "a finite number",
                  "it is the middle of the whole distribution", where);
    random::check(std > 0 && std::isfinite(std), "truncated_normal", "std", {"got", std}, "a finite number above 0",
                  "it is the deviation before the ends are cut off", where);
    random::check(low < high, "truncated_normal", "low", {"got", low}, "a number below high", "swap the ends", where);
    // Probabilities near 1 have lost their digits: an interval above the mean is mirrored to below it.
    const bool mirrored = low > mean;
    const double from = mirrored ? mean - high : low - mean, to = mirrored ? mean - low : high - mean;
    const auto below = [&](double x) { return 0.5 * std::erfc(-x / std * 0.70710678118654752440); };
    RandomAttributes a{.shape = shape,
                       .dtype = dtype,
                       .at = {},
                       .a = mean,
                       .b = std,
                       .c = below(from),
                       .d = below(to),
                       .low = low,
                       .high = high,
                       .first = mirrored ? 1 : 0};
    random::check(a.d - a.c > 1e-300, "truncated_normal", "the probability of the interval", {"got", a.d - a.c},
                  "more than 1e-300", "the interval lies too far from the mean", where);
    return random::record(random::truncated_normal_operation, std::move(a), 2, generator, where);
}

Tensor bernoulli(double p, const Shape& shape, DType dtype, Generator& generator, const Where& where) {
    const Naming naming("bernoulli");
    random::check(p >= 0 && p <= 1, "bernoulli", "p", {"got", p}, "0 to 1", "it is a probability", where);
    RandomAttributes a{.shape = shape, .dtype = boolean, .at = {}, .a = p};
    return random::record(random::bernoulli_operation, std::move(a), 4, generator, where).to(dtype, where);
}

Tensor bernoulli(const Tensor& p, Generator& generator, const Where& where) {
    const Naming naming("bernoulli");
    ops::check_defined("bernoulli", p, "the probabilities", where);
    random::check_floating("bernoulli", p.dtype(), where);
    const std::int64_t count = p.numel(where);
    RandomAttributes a{.shape = p.shape(), .dtype = boolean, .at = {}};
    a.at = generator.reserve(static_cast<std::uint64_t>((count + 3) / 4));
    const Tensor wide = contiguous(is_half(p.dtype()) ? p.to(f32, where) : p, where);
    return graph::record(random::bernoulli_of_operation, std::move(a), {wide}, where).to(p.dtype(), where);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype, Generator& generator,
               const Where& where) {
    const Naming naming("randint");
    if (!is_integer(dtype)) {
        fail("dtype/unsupported", "randint", where,
             {{"argument", "the result"}, {"got", dtype}, {"expected", "an integer dtype"}});
    }
    random::check(low < high, "randint", "high", {"got", high}, "a number above low", "high itself is never drawn",
                  where);
    (void)scalar(low, dtype, where);
    (void)scalar(high - 1, dtype, where);
    RandomAttributes a{.shape = shape, .dtype = dtype, .at = {}};
    a.first = low;
    a.span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    return random::record(random::randint_operation, std::move(a), 2, generator, where);
}

ops::Descriptors ops::random_descriptors() {
    return {&random::uniform_operation,   &random::normal_operation,       &random::truncated_normal_operation,
            &random::bernoulli_operation, &random::bernoulli_of_operation, &random::randint_operation};
}

}  // namespace calor
