// Caching allocator: freed blocks are kept by size class and handed out again, so that a training loop stops asking the
// system for memory after its first step. The device supplies the raw allocation.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "calor/device.h"
#include "core/storage.h"

namespace calor {

class CachingAllocator {
public:
    using Acquire = void* (*)(std::int64_t bytes);  ///< null when there is no memory
    using Return = void (*)(void* data, std::int64_t bytes);

    CachingAllocator(std::string device, Acquire acquire, Return give_back)
        : device_(std::move(device)), acquire_(acquire), return_(give_back) {}

    /// A block of at least `bytes`. Throws MemoryError [memory/exhausted] after the cache was freed in vain.
    Ref<Storage> allocate(std::int64_t bytes, std::string_view operation, const Where& where);
    MemoryStatistics statistics() const;
    void set_limit(std::int64_t bytes);
    void reset_peak();
    void empty_cache();

private:
    static void recycle(Storage* storage);
    static std::int64_t size_class(std::int64_t bytes);
    void empty_cache_locked();

    std::string device_;
    Acquire acquire_;
    Return return_;
    mutable std::mutex mutex_;
    std::unordered_map<std::int64_t, std::vector<Storage*>> free_;
    MemoryStatistics statistics_;
};

}  // namespace calor
