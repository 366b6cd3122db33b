#include "device/caching_allocator.h"

#include <bit>

#include "core/fail.h"

namespace calor {

// Eight classes a power of two: at most 12.5 % of a block is unused.
std::int64_t CachingAllocator::size_class(std::int64_t bytes) {
    constexpr std::int64_t smallest = 64;
    if (bytes <= smallest) return smallest;
    const auto step = std::max<std::int64_t>(
        smallest, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes - 1))) / 8);
    return (bytes + step - 1) / step * step;
}

Ref<Storage> CachingAllocator::allocate(std::int64_t bytes, std::string_view operation, const Where& where) {
    const bool absurd = bytes > (std::int64_t{1} << 62);
    const std::int64_t size = absurd ? bytes : size_class(bytes);
    std::unique_lock lock(mutex_);
    const auto refuse = [&] {
        const auto in_use = statistics_.in_use;
        const auto limit = statistics_.limit ? std::to_string(statistics_.limit) + " bytes" : std::string("none");
        lock.unlock();
        fail("memory/exhausted", operation, where,
             {{"device", device_}, {"bytes", bytes}, {"in_use", in_use}, {"limit", limit}});
    };
    if (absurd || (statistics_.limit && statistics_.in_use + size > statistics_.limit)) refuse();
    Storage* storage = nullptr;
    if (auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
        storage = found->second.back();
        found->second.pop_back();
        statistics_.cached -= size;
        ++statistics_.cache_hits;
        storage->references.store(1, std::memory_order_relaxed);
    } else {
        void* data = acquire_(size);
        if (!data) {
            empty_cache_locked();
            data = acquire_(size);
        }
        if (!data) refuse();
        storage = new Storage;
        storage->data = data;
        storage->bytes = size;
        storage->give_back = &recycle;
        storage->owner = this;
    }
    ++statistics_.allocations;
    statistics_.in_use += size;
    statistics_.peak = std::max(statistics_.peak, statistics_.in_use);
    return Ref<Storage>::adopt(storage);
}

void CachingAllocator::recycle(Storage* storage) {
    auto& self = *static_cast<CachingAllocator*>(storage->owner);
    const std::lock_guard lock(self.mutex_);
    self.statistics_.in_use -= storage->bytes;
    self.statistics_.cached += storage->bytes;
    self.free_[storage->bytes].push_back(storage);
}

MemoryStatistics CachingAllocator::statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
}

void CachingAllocator::set_limit(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    statistics_.limit = bytes;
}

void CachingAllocator::reset_peak() {
    const std::lock_guard lock(mutex_);
    statistics_.peak = statistics_.in_use;
}

void CachingAllocator::empty_cache() {
    const std::lock_guard lock(mutex_);
    empty_cache_locked();
}

void CachingAllocator::empty_cache_locked() {
    for (auto& [size, blocks] : free_) {
        for (Storage* block : blocks) {
            return_(block->data, block->bytes);
            delete block;
        }
    }
    free_.clear();
    statistics_.cached = 0;
}

}  // namespace calor
