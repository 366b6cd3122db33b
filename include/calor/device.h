// Devices: what there is, how much memory is in use, and how many threads work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calor/error.h"

namespace calor {

/// cuda: NVIDIA's GPUs through CUDA. opencl: every device with an OpenCL 1.2 driver.
enum class DeviceKind : std::uint8_t { cpu, cuda, opencl };

/// Names a device; a default-constructed one is the CPU.
struct Device {
    DeviceKind kind = DeviceKind::cpu;
    int index = 0;
    friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu:0", "cuda:0", "opencl:1".
std::string to_string(const Device& device);
/// The device that "cpu", "cuda:0" or "opencl:1" names. Throws DeviceError [device/unavailable].
Device device_named(std::string_view name, const Where& where = Where::current());

/// Where tensors go that are made without a device. At first the one that CALOR_DEVICE names, else the CPU.
/// Throws DeviceError [device/unavailable] when CALOR_DEVICE names none.
Device default_device();
/// Throws DeviceError [device/unavailable].
void set_default_device(Device device, const Where& where = Where::current());
/// While one lives, the default device of this thread.
class OnDevice {
public:
    explicit OnDevice(Device device);
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    ~OnDevice();

private:
    Device device_;
    const Device* outer_;
};

struct DeviceInfo {
    Device device;
    std::string name;                   ///< "cpu:0"
    std::string description;            ///< model of the processor or GPU
    std::string driver;                 ///< of a GPU: driver and version
    std::int64_t memory = 0;            ///< bytes in all
    int threads = 1;                    ///< workers that an operation may use; of a GPU: multiprocessors
    std::vector<std::string> features;  ///< instruction sets, dtypes that it computes in, libraries in use
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

/// What a device's compiler made for it, and which of several kernels measurements chose, is kept on disk, in
/// $CALOR_CACHE, else $XDG_CACHE_HOME/calor, else
/// ~/.cache/calor.
struct KernelCache {
    std::string folder;  ///< empty: none can be made, and nothing is kept
    std::int64_t files = 0, bytes = 0;
    std::int64_t limit = 0;    ///< bytes; what was not used longest goes first
    std::int64_t choices = 0;  ///< of the files: choices between kernels
};
KernelCache kernel_cache();
/// Deletes all of it; gives the number of files.
std::int64_t clear_kernel_cache();

/// Workers that one CPU operation uses; results do not depend on it.
int thread_count();
/// Throws ValueError [value/option] unless `count` is in [1, 1024].
void set_thread_count(int count, const Where& where = Where::current());

}  // namespace calor
