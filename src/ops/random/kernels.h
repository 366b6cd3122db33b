// CPU loops that fill a chunk of 64 Philox blocks; compiled for several instruction sets, which give the same bits.
#pragma once

#include <cstdint>

namespace calor::random {

inline constexpr std::int64_t chunk_blocks = 64, chunk_words = 4 * chunk_blocks;

struct Kernels {
    void (*words)(std::uint64_t seed, std::uint64_t block, std::uint32_t* out);
    /// low + span * u, at most limit; u has 32 - shift bits.
    void (*uniform_f32)(std::uint64_t seed, std::uint64_t block, int shift, float low, float span, float limit,
                        float* out);
    void (*normal_f32)(std::uint64_t seed, std::uint64_t block, float mean, float std, float* out);
    /// 1 where the word is below the threshold (at most 2^32).
    void (*bernoulli)(std::uint64_t seed, std::uint64_t block, std::uint64_t threshold, std::uint8_t* out);
};

/// The loops for the best instruction set of this machine.
const Kernels& kernels();
/// Those of the best one among `targets` (Highway's target bits): tests compare them.
const Kernels& kernels_for(std::int64_t targets);

}  // namespace calor::random
