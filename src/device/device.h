// What a device is to the layers above: memory, ordered streams of work, and fused elementwise programs. The CPU's
// streams run work at once; a GPU's run it later, in order. Operations reach a device only through this interface.
#pragma once

#include <memory>
#include <span>

#include "calor/device.h"
#include "core/storage.h"
#include "device/elementwise.h"
#include "device/view.h"

namespace calor {

namespace gpu {
class GpuBackend;
}

/// A point in a stream's work.
class Event {
public:
    virtual ~Event() = default;
    /// Blocks the calling thread until the work before the event is done.
    virtual void wait() = 0;
    virtual bool done() const = 0;
    /// Device time from an earlier event to this one, both made by record_timed() of one stream; waits for this one.
    /// NaN where the device keeps no time.
    virtual double milliseconds_since(const Event& earlier) = 0;
};

/// An ordered queue of work on one device.
class Stream {
public:
    virtual ~Stream() = default;
    /// Runs `body(context)` in order with the stream's other work.
    virtual void launch(void (*body)(void* context), void* context) = 0;
    /// Copies between host and device memory in order; host memory must stay valid until the copy is done.
    virtual void copy_to_host(void* host, const void* device, std::int64_t bytes) = 0;
    virtual void copy_to_device(void* device, const void* host, std::int64_t bytes) = 0;
    virtual std::unique_ptr<Event> record() = 0;
    /// An event that also notes when the work before it was done.
    virtual std::unique_ptr<Event> record_timed() = 0;
    /// Later work of this stream starts after the event.
    virtual void wait(const Event& event) = 0;
    /// Blocks the calling thread until all work is done; errors of earlier work are thrown here.
    virtual void synchronize() = 0;
};

class Backend {
public:
    virtual ~Backend() = default;
    virtual DeviceInfo info() const = 0;
    /// At least `bytes` of memory, aligned to 64 bytes. Throws MemoryError [memory/exhausted].
    virtual Ref<Storage> allocate(std::int64_t bytes, std::string_view operation, const Where& where) = 0;
    /// The calling thread's stream.
    virtual Stream& stream() = 0;
    /// Runs a fused elementwise chain. Inputs broadcast to the program's shape by stride 0; outputs have that shape.
    /// `where` is for errors.
    virtual void run(const ElementwiseProgram& program, std::span<const View> inputs, std::span<const View> outputs,
                     const Where& where) = 0;
    /// The backend as what GPUs have in common; null on the CPU.
    virtual gpu::GpuBackend* gpu() { return nullptr; }

    virtual MemoryStatistics statistics() const = 0;
    virtual void set_limit(std::int64_t bytes) = 0;
    virtual void reset_peak() = 0;
    virtual void empty_cache() = 0;
};

/// The backend of a device. Throws DeviceError [device/unavailable].
Backend& backend(Device device, const Where& where = Where::current());
/// Where a running implementation says which variant of itself runs; null while nobody asks. One a thread.
std::string*& remarks();
/// Implementations named in CALOR_DISABLE (comma separated) are passed over.
bool disabled(std::string_view implementation);

}  // namespace calor
