// permutation: the order of random 64-bit keys (equal keys: the smaller index first), found by a radix sort.
#include <utility>

#include "ops/random/kernels.h"
#include "ops/random/random.h"
#include "ops/registry.h"

namespace calor {
namespace {

using random::RandomAttributes;

struct Entry {
    std::uint64_t key;
    std::int64_t index;
};

/// Sorts by key, stably, eleven bits at a time.
void sort_by_key(std::vector<Entry>& entries) {
    constexpr int bits = 11;
    std::vector<Entry> other(entries.size());
    std::vector<std::size_t> starts(std::size_t{1} << bits);
    for (int shift = 0; shift < 64; shift += bits) {
        const auto digit = [&](const Entry& e) {
            return static_cast<std::size_t>((e.key >> shift) & ((1U << bits) - 1U));
        };
        std::ranges::fill(starts, 0);
        for (const Entry& e : entries) ++starts[digit(e)];
        std::size_t next = 0;
        for (std::size_t& s : starts) next += std::exchange(s, next);
        for (const Entry& e : entries) other[starts[digit(e)]++] = e;
        std::swap(entries, other);
    }
}

template <class T> void store(std::span<const Entry> entries, void* out) {
    for (std::size_t i = 0; i < entries.size(); ++i) static_cast<T*>(out)[i] = static_cast<T>(entries[i].index);
}

void run(const graph::Call& c) {
    const auto& a = c.attrs<RandomAttributes>();
    const std::int64_t n = c.outputs[0].count();
    std::vector<Entry> entries(static_cast<std::size_t>(n));
    std::uint32_t w[random::chunk_words];
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = i % (2 * random::chunk_blocks);
        if (at == 0) random::kernels().words(a.at.seed, a.at.offset + static_cast<std::uint64_t>(i / 2), w);
        entries[static_cast<std::size_t>(i)] = {
            static_cast<std::uint64_t>(w[2 * at]) | static_cast<std::uint64_t>(w[2 * at + 1]) << 32, i};
    }
    sort_by_key(entries);
    switch (size_of(c.outputs[0].dtype)) {
        case 8: return store<std::int64_t>(entries, c.outputs[0].data);
        case 4: return store<std::int32_t>(entries, c.outputs[0].data);
        case 2: return store<std::int16_t>(entries, c.outputs[0].data);
        default: return store<std::int8_t>(entries, c.outputs[0].data);
    }
}

const graph::Implementation implementations[] = {{.name = "radix sort", .run = run}};
const graph::Operation permutation_operation{
    .name = "permutation",
    .traits = graph::random,
    .infer = random::infer,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(implementations); },
    .gpu_implementations = random::permutation_on_gpu};

}  // namespace

Tensor permutation(std::int64_t n, DType dtype, Generator& generator, const Where& where) {
    const Naming naming("permutation");
    if (!is_integer(dtype)) {
        fail("dtype/unsupported", "permutation", where,
             {{"argument", "the result"}, {"got", dtype}, {"expected", "an integer dtype"}});
    }
    (void)numel({n}, where);
    if (n > 0) (void)scalar(n - 1, dtype, where);
    return random::record(permutation_operation, {.shape = {n}, .dtype = dtype, .at = {}}, 2, generator, where);
}

ops::Descriptors ops::permutation_descriptors() { return {&permutation_operation}; }

}  // namespace calor
