// Generators: seeds and positions.
#include "calor/random.h"
#include "ops/random/philox.h"

namespace calor {

Generator& default_generator() {
    static Generator generator(0);
    return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().seed(seed); }

Generator Generator::fork() {
    // The counter's upper half is 1 here and 0 in every operation: the new seed is no number that anybody sees.
    const State at = reserve(1);
    const random::Words r = random::philox(at.seed, at.offset, 1);
    return Generator(static_cast<std::uint64_t>(r.w[0]) | static_cast<std::uint64_t>(r.w[1]) << 32);
}

}  // namespace calor
