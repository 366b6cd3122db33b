// Caching allocator: freed blocks are kept by size class and handed out again, so that a training loop stops asking the
// system for memory after its first step. The device supplies the raw memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "calor/device.h"
#include "core/storage.h"

namespace calor {

/// Where an allocator's memory comes from.
class MemorySource {
public:
    virtual ~MemorySource() = default;
    virtual void* acquire(std::int64_t bytes) = 0;  ///< null when there is no memory
    virtual void give_back(void* data, std::int64_t bytes) = 0;
    /// Waits for what was freed but may still be in use, before memory is asked for once more.
    virtual void settle() {}
    /// A block of which the first `asked` bytes will be used was handed out, or came back.
    virtual void handed_out(const Storage&, std::int64_t /*asked*/) {}
    virtual void came_back(const Storage&) {}
};

class CachingAllocator {
public:
    /// With `track`, errors list the operations that hold the most memory. A source that is called under a lock of its
    /// own shares it here: with two, one thread could hold the first and another one the second.
    CachingAllocator(std::string device, MemorySource& source, bool track = false,
                     std::recursive_mutex* shared = nullptr)
        : device_(std::move(device)), source_(source), track_(track), mutex_(shared ? *shared : own_) {}

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
    std::string largest_holders() const;

    std::string device_;
    MemorySource& source_;
    bool track_;
    std::recursive_mutex own_;
    std::recursive_mutex& mutex_;
    std::unordered_map<std::int64_t, std::vector<Storage*>> free_;
    std::unordered_map<const Storage*, std::string_view> live_;  ///< who asked for it; only with `track_`
    MemoryStatistics statistics_;
};

}  // namespace calor
