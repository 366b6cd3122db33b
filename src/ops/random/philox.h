// Philox4x32-10 and the functions that turn its words into numbers, in plain integer and IEEE operations: any device
// that rounds each operation to nearest gives the same bits. Nothing here may be contracted to fused multiply-adds.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__GNUC__)
#define CALOR_INLINE inline __attribute__((always_inline))
#else
#define CALOR_INLINE inline
#endif

namespace calor::random {

struct Words {
    std::uint32_t w[4];
};

/// Ten rounds over the counter (c0..c3) with the key (k0, k1).
CALOR_INLINE Words philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3, std::uint32_t k0,
                          std::uint32_t k1) {
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0, p1 = std::uint64_t{0xCD9E8D57U} * c2;
        const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
        const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c1 = static_cast<std::uint32_t>(p1);
        c3 = static_cast<std::uint32_t>(p0);
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return {{c0, c1, c2, c3}};
}
CALOR_INLINE Words philox(std::uint64_t seed, std::uint64_t counter, std::uint64_t upper = 0) {
    return philox(static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                  static_cast<std::uint32_t>(upper), static_cast<std::uint32_t>(upper >> 32),
                  static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

/// [0, 1) in steps of 2^-24 and 2^-53.
CALOR_INLINE float unit_f32(std::uint32_t w) {
    return static_cast<float>(static_cast<std::int32_t>(w >> 8)) * 0x1p-24F;
}
CALOR_INLINE double unit_f64(std::uint64_t w) {
    return static_cast<double>(static_cast<std::int64_t>(w >> 11)) * 0x1p-53;
}

/// log u = e log 2 + 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m + 1), for u = m 2^e with m in [sqrt 1/2, sqrt 2).
CALOR_INLINE float log_f32(float u) {
    const auto bits = std::bit_cast<std::int32_t>(u);
    const std::int32_t e = (bits - 0x3F3504F3) >> 23;
    const float m = std::bit_cast<float>(bits - (e << 23));
    const float s = (m - 1.0F) / (m + 1.0F), z = s * s;
    float p = z * (2.0F / 9) + 2.0F / 7;
    p = p * z + 2.0F / 5;
    p = p * z + 2.0F / 3;
    p = p * z * s + (s + s);
    return static_cast<float>(e) * 0.693147181F + p;
}
CALOR_INLINE double log_f64(double u) {
    const auto bits = std::bit_cast<std::int64_t>(u);
    const std::int64_t e = (bits - 0x3FE6A09E667F3BCD) >> 52;
    const double m = std::bit_cast<double>(bits - (e << 52));
    const double s = (m - 1) / (m + 1), z = s * s;
    double p = z * (2.0 / 21) + 2.0 / 19;
    p = p * z + 2.0 / 17;
    p = p * z + 2.0 / 15;
    p = p * z + 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    p = p * z * s + (s + s);
    return static_cast<double>(e) * 0.69314718055994530942 + p;
}

/// Cosine and sine of the angle w / 2^32 turns: exact reduction to [-1/8, 1/8] turn, then their series.
CALOR_INLINE void circle_f32(std::uint32_t w, float& cosine, float& sine) {
    const std::uint32_t quarter = (w + 0x20000000U) >> 30;
    const float x = static_cast<float>(static_cast<std::int32_t>(w - (quarter << 30))) * (1.57079632679F * 0x1p-30F);
    const float z = x * x;
    float s = z * (1.0F / 362880) - 1.0F / 5040;
    s = s * z + 1.0F / 120;
    s = s * z - 1.0F / 6;
    s = s * z * x + x;
    float c = 1.0F / 40320 - z * (1.0F / 3628800);
    c = c * z - 1.0F / 720;
    c = c * z + 1.0F / 24;
    c = c * z - 0.5F;
    c = c * z + 1.0F;
    const bool swapped = (quarter & 1U) != 0;
    const std::uint32_t cosine_sign = ((quarter + 1U) & 2U) << 30, sine_sign = (quarter & 2U) << 30;
    const auto cosine_bits = std::bit_cast<std::uint32_t>(swapped ? s : c) ^ cosine_sign;
    const auto sine_bits = std::bit_cast<std::uint32_t>(swapped ? c : s) ^ sine_sign;
    cosine = std::bit_cast<float>(cosine_bits);
    sine = std::bit_cast<float>(sine_bits);
}
CALOR_INLINE void circle_f64(std::uint64_t w, double& cosine, double& sine) {
    const std::uint64_t quarter = (w + (std::uint64_t{1} << 61)) >> 62;
    const auto turn = static_cast<std::int64_t>(w - (quarter << 62));
    const double x = static_cast<double>(turn) * (1.57079632679489661923 * 0x1p-62), z = x * x;
    double s = z * (1.0 / 355687428096000) - 1.0 / 1307674368000;
    s = s * z + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    s = s * z * x + x;
    double c = 1.0 / 20922789888000 - z * (1.0 / 6402373705728000);
    c = c * z - 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = c * z - 0.5;
    c = c * z + 1.0;
    const double along = quarter & 1U ? s : c, across = quarter & 1U ? c : s;
    cosine = ((quarter + 1) & 2U) != 0 ? -along : along;
    sine = (quarter & 2U) != 0 ? -across : across;
}

/// The point of (0, 1] that the radius of a pair is made of: never 0, so that its logarithm is finite.
CALOR_INLINE float radius_point_f32(std::uint32_t w) {
    return static_cast<float>(static_cast<std::int32_t>(w >> 1)) * 0x1p-31F + 0x1p-32F;
}
CALOR_INLINE double radius_point_f64(std::uint64_t w) { return unit_f64(w) + 0x1p-54; }

}  // namespace calor::random
