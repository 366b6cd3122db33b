// Devices: what there is, how much memory is in use, and how many threads work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calor/error.h"

namespace calor {

enum class DeviceKind : std::uint8_t { cpu };

/// Names a device; a default-constructed one is the CPU.
struct Device {
    DeviceKind kind = DeviceKind::cpu;
    int index = 0;
    friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu:0".
std::string to_string(const Device& device);
/// The device that "cpu" or "cpu:0" names. Throws DeviceError [device/unavailable].
Device device_named(std::string_view name, const Where& where = Where::current());

struct DeviceInfo {
    Device device;
    std::string name;                   ///< "cpu:0"
    std::string description;            ///< model of the processor
    std::int64_t memory = 0;            ///< bytes in all
    int threads = 1;                    ///< workers that an operation may use
    std::vector<std::string> features;  ///< instruction sets and libraries in use
};
/// Every device of this machine that calor can use.
std::vector<DeviceInfo> devices();

/// Bytes held by tensors and by the allocator's cache of a device.
struct MemoryStatistics {
    std::int64_t in_use = 0;       ///< bytes of live tensors, rounded as the allocator does
    std::int64_t peak = 0;         ///< largest `in_use` since the last reset_peak_memory()
    std::int64_t cached = 0;       ///< bytes kept for reuse
    std::int64_t limit = 0;        ///< 0: none
    std::int64_t allocations = 0;  ///< blocks handed out so far
    std::int64_t cache_hits = 0;   ///< of these, taken from the cache
};
MemoryStatistics memory_statistics(Device device = {});
/// Refuses allocations that would take `in_use` past `bytes` with MemoryError [memory/exhausted]; 0 lifts the limit.
void set_memory_limit(std::int64_t bytes, Device device = {}, const Where& where = Where::current());
void reset_peak_memory(Device device = {});
/// Gives cached blocks back to the system.
void empty_cache(Device device = {});

/// Workers that one CPU operation uses; results do not depend on it.
int thread_count();
/// Throws ValueError [value/option] unless `count` is in [1, 1024].
void set_thread_count(int count, const Where& where = Where::current());

}  // namespace calor
