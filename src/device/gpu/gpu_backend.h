// GpuBackend: what CUDA and OpenCL devices share: memory, copies, the cache of kernels, launches and their errors. One
// queue a device, guarded by a lock: whatever threads launch runs in the order of the calls, so a block that is freed
// can be handed out again at once.
#pragma once

#include <mutex>
#include <unordered_map>

#include "device/caching_allocator.h"
#include "device/device.h"
#include "device/gpu/dialect.h"

namespace calor::gpu {

struct Kernel {
    std::unique_ptr<DriverKernel> handle;
    std::vector<Parameter> parameters;
};

/// Who asks for something, for errors.
struct Caller {
    std::string_view operation;
    Where where;
};

class GpuBackend final : public Backend, public Stream, private MemorySource {
public:
    GpuBackend(Device device, std::unique_ptr<Driver> driver);

    DeviceInfo info() const override;
    Ref<Storage> allocate(std::int64_t bytes, std::string_view operation, const Where& where) override;
    Stream& stream() override { return *this; }
    void run(const ElementwiseProgram& program, std::span<const View> inputs, std::span<const View> outputs,
             const Where& where) override;
    MemoryStatistics statistics() const override { return allocator_.statistics(); }
    void set_limit(std::int64_t bytes) override { allocator_.set_limit(bytes); }
    void reset_peak() override { allocator_.reset_peak(); }
    void empty_cache() override;
    GpuBackend* gpu() override { return this; }

    void launch(void (*body)(void*), void* context) override { body(context); }
    void copy_to_host(void* host, const void* device, std::int64_t bytes) override;
    void copy_to_device(void* device, const void* host, std::int64_t bytes) override;
    std::unique_ptr<Event> record() override;
    std::unique_ptr<Event> record_timed() override;
    void wait(const Event& event) override;
    void synchronize() override;
    /// Within the device, in order with the launches; the ranges may not overlap.
    void copy(void* to, const void* from, std::int64_t bytes);
    void fill(void* to, std::uint8_t value, std::int64_t bytes);

    Device device() const { return device_; }
    const DeviceTraits& traits() const { return driver_->traits(); }
    /// Its driver, for libraries that stand on it (cuBLASLt, cuDNN).
    Driver& driver() { return *driver_; }
    std::recursive_mutex& lock() { return mutex_; }

    /// The kernel of a variant: from memory, from disk, or compiled. Throws KernelError [kernel/compile].
    Kernel& kernel(const std::string& key, const Source& source, const Caller& caller);
    /// Null when no kernel of this key has been made yet.
    Kernel* find(const std::string& key);
    /// Throws KernelError [kernel/launch].
    void launch(Kernel& kernel, Extent groups, Extent threads, std::span<const Argument> arguments,
                const Caller& caller);
    /// How many kernels were compiled (not read from disk) so far.
    std::int64_t compiled() const { return compiled_; }

private:
    class QueueEvent;
    void* acquire(std::int64_t bytes) override;
    void give_back(void* data, std::int64_t bytes) override;
    void settle() override;
    void handed_out(const Storage& storage, std::int64_t asked) override;
    void came_back(const Storage& storage) override;
    [[noreturn]] void fail_launch(const DriverFailure& failure, const Caller* caller);
    template <class F> auto guarded(const F& body, const Caller* caller = nullptr);

    Device device_;
    std::unique_ptr<Driver> driver_;
    mutable std::recursive_mutex mutex_;
    CachingAllocator allocator_;
    std::unordered_map<std::string, Kernel> kernels_;
    std::int64_t compiled_ = 0;
    bool blocking_ = false;  ///< CALOR_LAUNCH_BLOCKING: waits after every launch
    bool guard_ = false;     ///< CALOR_GUARD: bands around buffers, poisoned contents
    std::unordered_map<const void*, std::int64_t> guarded_sizes_;

    static constexpr std::size_t remembered = 8;
    Caller last_[remembered];
    std::size_t launches_ = 0;

    static constexpr std::int64_t staging_bytes = 4 << 20;
    struct Staging {
        std::byte* data = nullptr;
        std::unique_ptr<DriverEvent> busy;
    };
    Staging& next_staging();
    Staging staging_[4];
    std::size_t next_staging_ = 0;
};

/// The GPUs of this machine, made at the first call: CUDA's, then OpenCL's. Empty where no driver is installed.
std::span<GpuBackend* const> gpu_backends();

}  // namespace calor::gpu
