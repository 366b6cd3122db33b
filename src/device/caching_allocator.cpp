#include "device/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

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
        const auto limit = statistics_.limit ? std::to_string(statistics_.limit) + " bytes" : std::string("none");
        const std::string accounts = " (" + std::to_string(statistics_.in_use) + " in use, limit " + limit + ")";
        std::string holders = largest_holders();
        lock.unlock();
        fail("memory/exhausted", operation, where, {{"device", device_}, {"bytes", bytes}, {"accounts", accounts}},
             std::move(holders));
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
        void* data = source_.acquire(size);
        if (!data) {
            empty_cache_locked();
            source_.settle();
            data = source_.acquire(size);
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
    if (track_) {
        live_[storage] = operation;
        source_.handed_out(*storage, bytes);
    }
    return Ref<Storage>::adopt(storage);
}

void CachingAllocator::recycle(Storage* storage) {
    auto& self = *static_cast<CachingAllocator*>(storage->owner);
    const std::lock_guard lock(self.mutex_);
    if (self.track_) {
        self.source_.came_back(*storage);
        self.live_.erase(storage);
    }
    self.statistics_.in_use -= storage->bytes;
    self.statistics_.cached += storage->bytes;
    self.free_[storage->bytes].push_back(storage);
}

/// "held by matmul (3 tensors, 1200 bytes), add (...)": the five operations whose results hold the most.
std::string CachingAllocator::largest_holders() const {
    struct Held {
        std::int64_t bytes = 0, count = 0;
    };
    std::map<std::string_view, Held> sums;
    for (const auto& [storage, operation] : live_) {
        sums[operation].bytes += storage->bytes;
        ++sums[operation].count;
    }
    std::vector<std::pair<std::string_view, Held>> list(sums.begin(), sums.end());
    std::ranges::sort(list, std::greater{}, [](const auto& entry) { return entry.second.bytes; });
    std::string text;
    for (std::size_t i = 0; i < list.size() && i < 5; ++i) {
        text += fmt::format("{}{} ({} tensors, {} bytes)", i == 0 ? "held by results of " : ", ", list[i].first,
                            list[i].second.count, list[i].second.bytes);
    }
    return text;
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
            source_.give_back(block->data, block->bytes);
            delete block;
        }
    }
    free_.clear();
    statistics_.cached = 0;
}

}  // namespace calor
