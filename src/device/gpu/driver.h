// Driver: the few things that calor asks of a GPU's driver. Work runs in order on one queue a device; copies to the
// device may be asynchronous, copies to the host wait. Every method may be called by any thread while it holds the
// backend's lock. What the driver refuses is thrown as a DriverFailure, which the backend turns into an error of ours.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calor/device.h"

namespace calor::gpu {

/// What the driver said to a call that failed.
struct DriverFailure {
    std::string call, what;
    bool memory = false;  ///< there was no memory for it
};

/// What kernels and choices between them need to know of a device.
struct DeviceTraits {
    DeviceKind kind = DeviceKind::cuda;
    std::string model;         ///< "NVIDIA H200"
    std::string driver;        ///< driver and version
    std::string architecture;  ///< what kernels are compiled for: "sm_90", or model and version
    std::string compiler;      ///< compiler and version
    std::int64_t memory = 0;
    int units = 1;                         ///< multiprocessors
    int max_threads = 256;                 ///< largest group
    int subgroup = 1;                      ///< threads that shuffle; 1: none
    std::int64_t local_memory = 32 << 10;  ///< bytes a group
    std::int64_t parameter_bytes = 1024;   ///< of all arguments of a kernel
    bool f64 = true;                       ///< computes in f64
    bool f16 = false;                      ///< computes in f16 (storage needs nothing)
    int capability = 0;                    ///< CUDA: 90 for 9.0
    bool processor = false;                ///< OpenCL: the device is a CPU
    std::vector<std::string> features;     ///< as `calor devices` prints them
    std::string options;                   ///< of the compiler
};

/// A size per axis: groups of a grid, threads of a group.
struct Extent {
    std::int64_t x = 1, y = 1, z = 1;
    std::int64_t count() const { return x * y * z; }
};

/// One argument of a launch: bytes of a value, or a buffer (then `data` points to its address).
struct Argument {
    const void* data = nullptr;
    std::size_t bytes = 0;
    bool buffer = false;
};

class DriverKernel {
public:
    virtual ~DriverKernel() = default;
};
/// A point in the queue.
class DriverEvent {
public:
    virtual ~DriverEvent() = default;
    virtual void wait() = 0;
    virtual bool done() = 0;
    /// Between two timed events; waits for this one. NaN where the driver keeps no time.
    virtual double milliseconds_since(DriverEvent& earlier) = 0;
};

struct Compiled {
    std::string binary;  ///< to be kept and loaded; empty when it failed, and when the driver keeps what it compiles
    std::string log;
    std::unique_ptr<DriverKernel> kernel = {};  ///< of drivers that compile and load in one step; else null
};

class Driver {
public:
    virtual ~Driver() = default;
    virtual const DeviceTraits& traits() const = 0;
    /// Libraries that were found for this device. May take a while.
    virtual std::vector<std::string> libraries() { return {}; }

    /// Device memory of `bytes`, aligned to 256 bytes at least; null when there is none.
    virtual void* allocate(std::int64_t bytes) = 0;
    virtual void free(void* data) = 0;
    /// Bytes that the device could still give, as far as the driver says; -1: unknown.
    virtual std::int64_t free_memory() = 0;
    /// Host memory that the device reads without a detour.
    virtual void* allocate_pinned(std::int64_t bytes) = 0;
    virtual void free_pinned(void* data) = 0;

    /// Asynchronous: `pinned` must stay as it is until a later event is done.
    virtual void upload(void* to, const void* pinned, std::int64_t bytes) = 0;
    /// Asynchronous: the data is in `pinned` when a later event is done.
    virtual void fetch(void* pinned, const void* from, std::int64_t bytes) = 0;
    /// Waits for the data.
    virtual void download(void* to, const void* from, std::int64_t bytes) = 0;
    virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
    virtual void fill(void* to, std::uint8_t value, std::int64_t bytes) = 0;

    /// Compiles a text in the target's language for its kernel `entry`; `path` is for messages.
    virtual Compiled compile(const std::string& text, const std::string& path, const std::string& entry) = 0;
    /// The kernel of a binary; null when the driver does not take the binary.
    virtual std::unique_ptr<DriverKernel> load(const std::string& binary, const std::string& entry) = 0;
    virtual void launch(DriverKernel& kernel, Extent groups, Extent threads, std::span<const Argument> arguments) = 0;

    /// `timed`: for milliseconds_since.
    virtual std::unique_ptr<DriverEvent> record(bool timed) = 0;
    virtual void synchronize() = 0;
};

}  // namespace calor::gpu
