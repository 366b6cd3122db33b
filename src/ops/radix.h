// Sorting on GPUs, for whatever needs an order: sort, the sums of scatter_add, permutations. And running sums of
// counts.
#pragma once

#include "ops/gpu.h"

namespace calor::ops {

/// `lines` lines of `length` unsigned keys in the memory of a call's device, and where each key lay in its line.
struct KeyLines {
    std::int64_t lines = 1, length = 0;
    bool wide_keys = false;    ///< u64, else u32
    bool wide_places = false;  ///< u64, else u32; needed from 2^32 on
    int bits = 32;             ///< of a key that can differ from 0
    Ref<Storage> keys, places;

    DType key() const { return wide_keys ? u64 : u32; }
    DType place() const { return wide_places ? u64 : u32; }
    /// Room for the keys.
    Ref<Storage> allocate_keys(const graph::Call& call) const;
    Ref<Storage> allocate_places(const graph::Call& call) const;
};

/// Sorts each line stably; `places` is made.
void radix_sort(const graph::Call& call, KeyLines& lines);

/// The type of counts up to `most`.
inline DType count_type(std::int64_t most) { return most < (std::int64_t{1} << 32) ? u32 : u64; }
/// In each of `lines` lines of `length` counts, the sum of those before: in place.
void running_sums(const graph::Call& call, const Ref<Storage>& counts, DType type, std::int64_t lines,
                  std::int64_t length);

}  // namespace calor::ops
