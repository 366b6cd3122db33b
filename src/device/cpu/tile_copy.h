// Moving elements without looking at them: fills, strided reads and writes of tiles, and copies past the caches.
#pragma once

#include <cstdint>

namespace calor::cpu {

/// Writes n copies of the element at `value` to `out`. element_size is 1, 2, 4 or 8.
void fill(void* out, std::int64_t element_size, std::int64_t n, const void* value);

/// out[i] = in[i * stride] for i < n. `stride` is in elements and may be zero or negative; `in` points at element 0.
void gather(void* out, const void* in, std::int64_t stride, std::int64_t element_size, std::int64_t n);

/// out[i * stride] = in[i] for i < n. With stride 0 the last one stays.
void scatter(void* out, std::int64_t stride, const void* in, std::int64_t element_size, std::int64_t n);

/// Copies bytes with stores that bypass the caches: for results far larger than the caches, read much later. The ranges
/// don't overlap. On return the stores are ordered before every later store of this thread.
void stream_copy(void* out, const void* in, std::int64_t bytes);

}  // namespace calor::cpu
