// Buckets: entries grouped by keys, for scatters that give the same bits every time: instead of adding to a place in
// any order, every place collects its entries in theirs. A stable radix sort, four bits a pass.
#pragma once

#include "device/gpu/gpu_backend.h"

namespace calor::gpu {

struct Buckets {
    Ref<Storage> first;    ///< u32 [keys + 1]: key k has entries[first[k]] .. entries[first[k + 1] - 1], ascending
    Ref<Storage> entries;  ///< u32 [count]
    Ref<Storage> keys;     ///< u32 [count]: the key of each of `entries`
};

/// Groups the entries 0 .. count - 1, below 2^31, by `keys` (u32 on the device), numbers in [0, key_count]; key_count
/// marks entries that belong nowhere. The memory of `keys` may be used.
Buckets make_buckets(Backend& backend, Ref<Storage> keys, std::int64_t count, std::int64_t key_count,
                     const Caller& caller);

}  // namespace calor::gpu
