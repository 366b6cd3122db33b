#include "device/gpu/buckets.h"

#include <algorithm>
#include <bit>

#include "device/gpu/launch.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile gpu_buckets;
}

namespace gpu {
namespace {

constexpr std::int64_t threads = 128, items = 16, block = threads * items, digits = 16;

}  // namespace

Buckets make_buckets(Backend& backend, Ref<Storage> keys, std::int64_t count, std::int64_t key_count,
                     const Caller& caller) {
    const auto memory = [&](std::int64_t entries) {
        return backend.allocate(std::max<std::int64_t>(1, entries) * 4, caller.operation, caller.where);
    };
    const auto start = [&](const char* entry) {
        return Launch(backend, kernels::gpu_buckets, entry, caller.operation, caller.where);
    };
    const std::int64_t blocks = (count + block - 1) / block;
    Buckets b{memory(key_count + 1), memory(count), std::move(keys)};
    Ref<Storage> next_keys = memory(count), next_entries = memory(count), histogram = memory(blocks * digits);
    const int bits = std::bit_width(static_cast<std::uint64_t>(key_count));
    start("number").buffer(b.entries).size(count).over(count);
    for (int shift = 0; shift < bits && count > 0; shift += 4) {
        start("histogram")
            .constant("ITEMS", items)
            .threads(threads)
            .buffer(b.keys)
            .buffer(histogram)
            .size(count)
            .size(blocks)
            .value(std::int32_t{shift})
            .run(blocks);
        start("scan").threads(256).buffer(histogram).size(blocks * digits).run(1);
        start("distribute")
            .constant("ITEMS", items)
            .threads(threads)
            .buffer(b.keys)
            .buffer(b.entries)
            .buffer(histogram)
            .buffer(next_keys)
            .buffer(next_entries)
            .size(count)
            .size(blocks)
            .value(std::int32_t{shift})
            .run(blocks);
        std::swap(b.keys, next_keys);
        std::swap(b.entries, next_entries);
    }
    start("bounds").buffer(b.keys).buffer(b.first).size(count).size(key_count + 1).over(key_count + 1);
    return b;
}

}  // namespace gpu
}  // namespace calor
