// Loops over 64 Philox blocks, side by side in vectors and in arrays that the compiler vectorises; compiled for the
// baseline, AVX2 and AVX-512. Every operation is exact or rounded once, so all of them give the same bits.
#include "ops/random/kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/random/kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vectorize.h"
#include "ops/random/philox.h"

HWY_BEFORE_NAMESPACE();
namespace calor::random {
namespace HWY_NAMESPACE {
namespace {

constexpr int blocks = static_cast<int>(chunk_blocks);

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
void words(std::uint64_t seed, std::uint64_t block, std::uint32_t* out) {
    alignas(64) std::uint32_t low[blocks], high[blocks], w[4][blocks];
    for (int b = 0; b < blocks; ++b) {
        const std::uint64_t counter = block + static_cast<std::uint64_t>(b);
        low[b] = static_cast<std::uint32_t>(counter);
        high[b] = static_cast<std::uint32_t>(counter >> 32);
    }
    const auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    CALOR_VECTORIZE
    for (int b = 0; b < blocks; ++b) {
        const Words r = philox(low[b], high[b], 0, 0, k0, k1);
        w[0][b] = r.w[0];
        w[1][b] = r.w[1];
        w[2][b] = r.w[2];
        w[3][b] = r.w[3];
    }
    CALOR_VECTORIZE
    for (int b = 0; b < blocks; ++b) {
        out[4 * b] = w[0][b];
        out[4 * b + 1] = w[1][b];
        out[4 * b + 2] = w[2][b];
        out[4 * b + 3] = w[3][b];
    }
}
#else
namespace hn = hwy::HWY_NAMESPACE;
using U32 = hn::ScalableTag<std::uint32_t>;
using U64 = hn::ScalableTag<std::uint64_t>;
using V32 = hn::Vec<U32>;
static_assert(chunk_blocks % hn::MaxLanes(U32()) == 0);

/// Lower and upper halves of the 64-bit products.
HWY_INLINE void multiply(V32 a, V32 b, V32& low, V32& high) {
    const U32 d;
    const U64 wide;
    const auto even = hn::MulEven(a, b);
    const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
    low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
    high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

/// philox() with a block in each lane.
void words(std::uint64_t seed, std::uint64_t block, std::uint32_t* out) {
    const U32 d;
    alignas(64) std::uint32_t low[blocks], high[blocks];
    for (int b = 0; b < blocks; ++b) {
        const std::uint64_t counter = block + static_cast<std::uint64_t>(b);
        low[b] = static_cast<std::uint32_t>(counter);
        high[b] = static_cast<std::uint32_t>(counter >> 32);
    }
    const V32 m0 = hn::Set(d, 0xD2511F53U), m1 = hn::Set(d, 0xCD9E8D57U);
    const auto lanes = static_cast<int>(hn::Lanes(d));
    for (int b = 0; b < blocks; b += lanes) {
        V32 c0 = hn::Load(d, low + b), c1 = hn::Load(d, high + b), c2 = hn::Zero(d), c3 = hn::Zero(d);
        auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
        for (int round = 0; round < 10; ++round) {
            V32 low0, high0, low1, high1;
            multiply(c0, m0, low0, high0);
            multiply(c2, m1, low1, high1);
            c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
            c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
            c1 = low1;
            c3 = low0;
            k0 += 0x9E3779B9U;
            k1 += 0xBB67AE85U;
        }
        hn::StoreInterleaved4(c0, c1, c2, c3, d, out + static_cast<std::ptrdiff_t>(4) * b);
    }
}
#endif

void uniform_f32(std::uint64_t seed, std::uint64_t block, int shift, float low, float span, float limit, float* out) {
    alignas(64) std::uint32_t w[chunk_words];
    words(seed, block, w);
    const float unit = std::ldexp(1.0F, shift - 32);
    CALOR_VECTORIZE
    for (int i = 0; i < 4 * blocks; ++i) {
        const float x = static_cast<float>(static_cast<std::int32_t>(w[i] >> shift)) * unit * span + low;
        out[i] = x < limit ? x : limit;
    }
}

void normal_f32(std::uint64_t seed, std::uint64_t block, float mean, float std, float* out) {
    alignas(64) std::uint32_t w[chunk_words], radius[2 * blocks], angle[2 * blocks];
    alignas(64) float cosine[2 * blocks], sine[2 * blocks];
    words(seed, block, w);
    CALOR_VECTORIZE
    for (int i = 0; i < 2 * blocks; ++i) {
        radius[i] = w[2 * i];
        angle[i] = w[2 * i + 1];
    }
    CALOR_VECTORIZE
    for (int i = 0; i < 2 * blocks; ++i) {
        const float r = __builtin_sqrtf(-2.0F * log_f32(radius_point_f32(radius[i])));
        float c, s;
        circle_f32(angle[i], c, s);
        cosine[i] = r * c * std + mean;
        sine[i] = r * s * std + mean;
    }
    CALOR_VECTORIZE
    for (int i = 0; i < 2 * blocks; ++i) {
        out[2 * i] = cosine[i];
        out[2 * i + 1] = sine[i];
    }
}

void bernoulli(std::uint64_t seed, std::uint64_t block, std::uint64_t threshold, std::uint8_t* out) {
    alignas(64) std::uint32_t w[chunk_words];
    words(seed, block, w);
    if (threshold > 0xFFFFFFFFU) {
        for (int i = 0; i < 4 * blocks; ++i) out[i] = 1;
        return;
    }
    const auto bound = static_cast<std::uint32_t>(threshold);
    CALOR_VECTORIZE
    for (int i = 0; i < 4 * blocks; ++i) out[i] = w[i] < bound ? 1 : 0;
}

}  // namespace

const Kernels table{words, uniform_f32, normal_f32, bernoulli};

}  // namespace HWY_NAMESPACE
}  // namespace calor::random
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::random {

const Kernels& kernels_for(std::int64_t targets) {
#if HWY_TARGETS & HWY_AVX3 && HWY_STATIC_TARGET != HWY_AVX3
    if (targets & HWY_AVX3) return N_AVX3::table;
#endif
#if HWY_TARGETS & HWY_AVX2 && HWY_STATIC_TARGET != HWY_AVX2
    if (targets & HWY_AVX2) return N_AVX2::table;
#endif
    static_cast<void>(targets);
    return HWY_STATIC_DISPATCH(table);
}

const Kernels& kernels() {
    static const Kernels& best = kernels_for(hwy::SupportedTargets());
    return best;
}

}  // namespace calor::random
#endif
