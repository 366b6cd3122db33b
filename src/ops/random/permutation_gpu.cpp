// permutation on GPUs: the CPU's keys, sorted.
#include "ops/radix.h"
#include "ops/random/random.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile random_permutation;
}

namespace random {
namespace {

void run(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    const View& y = c.outputs[0];
    ops::KeyLines k;
    k.length = y.count();
    if (k.length == 0) return;
    k.wide_keys = true;
    k.wide_places = k.length >= (std::int64_t{1} << 32);
    k.bits = 64;
    k.keys = k.allocate_keys(c);
    ops::launch(c, kernels::random_permutation, "keys")
        .buffer(k.keys)
        .size(k.length)
        .value(a.at.seed)
        .value(a.at.offset)
        .over((k.length + 1) / 2);
    ops::radix_sort(c, k);
    ops::launch(c, kernels::random_permutation, "places")
        .constant("PLACE", k.place())
        .constant("T", y.dtype)
        .buffer(k.places)
        .buffer(y)
        .size(k.length)
        .over(k.length);
}

const graph::Implementation list[] = {{.name = "radix sort", .run = run}};

}  // namespace

std::span<const graph::Implementation> permutation_on_gpu() { return list; }

}  // namespace random
}  // namespace calor
