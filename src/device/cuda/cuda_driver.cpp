#include "device/cuda/cuda_driver.h"

#include <fmt/format.h>

#include "device/cuda/cuda_api.h"
#include "device/cuda/nvrtc.h"

namespace calor::cuda {
namespace {

using gpu::Argument;
using gpu::Compiled;
using gpu::DeviceTraits;
using gpu::DriverFailure;
using gpu::Extent;

constexpr Status out_of_memory = 2, not_ready = 600;

void check(Status status, const char* call) {
    if (status == 0) return;
    const char *name = nullptr, *text = nullptr;
    driver_api()->error_name(status, &name);
    driver_api()->error_string(status, &text);
    throw DriverFailure{call, fmt::format("{} ({})", text ? text : "unknown error", name ? name : "?"),
                        status == out_of_memory};
}

Pointer address(const void* data) { return reinterpret_cast<Pointer>(data); }
std::size_t size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

class CudaEvent final : public gpu::DriverEvent {
public:
    CudaEvent(Handle stream, bool timed) {
        constexpr unsigned with_timing = 0, without_timing = 2;
        check(driver_api()->event_create(&event_, timed ? with_timing : without_timing), "cuEventCreate");
        check(driver_api()->event_record(event_, stream), "cuEventRecord");
    }
    ~CudaEvent() override { driver_api()->event_destroy(event_); }
    void wait() override { check(driver_api()->event_synchronize(event_), "cuEventSynchronize"); }
    bool done() override { return driver_api()->event_query(event_) != not_ready; }
    double milliseconds_since(gpu::DriverEvent& earlier) override {
        wait();
        float milliseconds = 0;
        check(driver_api()->event_elapsed(&milliseconds, static_cast<CudaEvent&>(earlier).event_, event_),
              "cuEventElapsedTime");
        return static_cast<double>(milliseconds);
    }

private:
    Handle event_ = nullptr;
};

class CudaKernel final : public gpu::DriverKernel {
public:
    CudaKernel(Handle module, Handle function) : module_(module), function(function) {}
    ~CudaKernel() override { driver_api()->module_unload(module_); }

private:
    Handle module_;

public:
    Handle function;
};

class CudaDriver final : public gpu::Driver {
public:
    explicit CudaDriver(int index) {
        const DriverApi& api = *driver_api();
        check(api.device_get(&device_, index), "cuDeviceGet");
        check(api.retain_context(&context_, device_), "cuDevicePrimaryCtxRetain");
        enter();
        constexpr unsigned not_with_the_default_stream = 1;
        check(api.stream_create(&stream_, not_with_the_default_stream), "cuStreamCreate");
        read_traits();
    }
    const DeviceTraits& traits() const override { return traits_; }
    std::vector<std::string> libraries() override {
        std::vector<std::string> found;
        if (open_library({"libcublasLt.so.13", "libcublasLt.so.12"})) found.emplace_back("cuBLASLt");
        if (open_library({"libcudnn.so.9"})) found.emplace_back("cuDNN");
        return found;
    }

    void* allocate(std::int64_t bytes) override {
        if (bytes > traits_.memory) return nullptr;
        enter();
        Pointer p = 0;
        const Status status = driver_api()->allocate(&p, size(bytes));
        if (status == out_of_memory) return nullptr;
        check(status, "cuMemAlloc");
        return reinterpret_cast<void*>(p);
    }
    void free(void* data) override {
        enter();
        driver_api()->free(address(data));  // after a failed kernel every call fails: nothing to add
    }
    std::int64_t free_memory() override {
        enter();
        std::size_t left = 0, total = 0;
        check(driver_api()->memory_info(&left, &total), "cuMemGetInfo");
        return static_cast<std::int64_t>(left);
    }
    void* allocate_pinned(std::int64_t bytes) override {
        enter();
        Handle p = nullptr;
        return driver_api()->allocate_host(&p, size(bytes), 0) == 0 ? p : nullptr;
    }
    void free_pinned(void* data) override {
        enter();
        driver_api()->free_host(data);
    }
    void upload(void* to, const void* pinned, std::int64_t bytes) override {
        enter();
        check(driver_api()->upload(address(to), pinned, size(bytes), stream_), "cuMemcpyHtoDAsync");
    }
    void fetch(void* pinned, const void* from, std::int64_t bytes) override {
        enter();
        check(driver_api()->download(pinned, address(from), size(bytes), stream_), "cuMemcpyDtoHAsync");
    }
    void download(void* to, const void* from, std::int64_t bytes) override {
        fetch(to, from, bytes);
        check(driver_api()->stream_synchronize(stream_), "cuStreamSynchronize");
    }
    void copy(void* to, const void* from, std::int64_t bytes) override {
        enter();
        check(driver_api()->copy(address(to), address(from), size(bytes), stream_), "cuMemcpyDtoDAsync");
    }
    void fill(void* to, std::uint8_t value, std::int64_t bytes) override {
        enter();
        if (bytes > 0) check(driver_api()->fill(address(to), value, size(bytes), stream_), "cuMemsetD8Async");
    }

    Compiled compile(const std::string& text, const std::string& path, const std::string&) override {
        return cuda::compile(text, path, traits_.capability);
    }
    std::unique_ptr<gpu::DriverKernel> load(const std::string& binary, const std::string& entry) override {
        enter();
        Handle module = nullptr, function = nullptr;
        if (driver_api()->module_load(&module, binary.data()) != 0) return nullptr;
        if (driver_api()->module_function(&function, module, entry.c_str()) != 0) {
            driver_api()->module_unload(module);
            return nullptr;
        }
        return std::make_unique<CudaKernel>(module, function);
    }
    void launch(gpu::DriverKernel& kernel, Extent groups, Extent threads,
                std::span<const Argument> arguments) override {
        enter();
        std::vector<void*> pointers;
        pointers.reserve(arguments.size());
        for (const Argument& a : arguments) pointers.push_back(const_cast<void*>(a.data));
        const auto part = [](std::int64_t n) {
            if (n > 0xffffffffLL) throw DriverFailure{"cuLaunchKernel", "a grid of more than 2^32 groups", false};
            return static_cast<unsigned>(n);
        };
        check(driver_api()->launch(static_cast<CudaKernel&>(kernel).function, part(groups.x), part(groups.y),
                                   part(groups.z), part(threads.x), part(threads.y), part(threads.z), 0, stream_,
                                   pointers.data(), nullptr),
              "cuLaunchKernel");
    }
    std::unique_ptr<gpu::DriverEvent> record(bool timed) override {
        enter();
        return std::make_unique<CudaEvent>(stream_, timed);
    }
    void synchronize() override {
        enter();
        check(driver_api()->stream_synchronize(stream_), "cuStreamSynchronize");
    }
    Handle stream() {
        enter();
        return stream_;
    }

private:
    void enter() const { check(driver_api()->set_context(context_), "cuCtxSetCurrent"); }
    int attribute(Attribute a) const {
        int value = 0;
        check(driver_api()->device_attribute(&value, a, device_), "cuDeviceGetAttribute");
        return value;
    }

    void read_traits() {
        DeviceTraits& t = traits_;
        char name[256] = {};
        check(driver_api()->device_name(name, sizeof name, device_), "cuDeviceGetName");
        std::size_t memory = 0;
        check(driver_api()->device_memory(&memory, device_), "cuDeviceTotalMem");
        int version = 0;
        check(driver_api()->driver_version(&version), "cuDriverGetVersion");
        t.kind = DeviceKind::cuda;
        t.model = name;
        t.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
        t.memory = static_cast<std::int64_t>(memory);
        t.units = attribute(multiprocessor_count);
        t.max_threads = attribute(max_threads_per_block);
        t.subgroup = attribute(warp_size);
        t.local_memory = attribute(max_shared_memory_per_block);
        t.parameter_bytes = 4096;
        t.capability = 10 * attribute(compute_capability_major) + attribute(compute_capability_minor);
        t.architecture = fmt::format("sm_{}", t.capability);
        t.compiler = compiler_version();
        t.options = compile_options();
        t.f64 = true;
        t.f16 = true;
        t.features = {t.architecture, "f64", "f16", "bf16"};
        if (t.capability >= 70) t.features.emplace_back("tensor-cores");
        if (compiler_available()) t.features.push_back(t.compiler);
    }

    DeviceHandle device_ = 0;
    Handle context_ = nullptr;
    Handle stream_ = nullptr;
    DeviceTraits traits_;
};

}  // namespace

std::vector<std::unique_ptr<gpu::Driver>> drivers() {
    std::vector<std::unique_ptr<gpu::Driver>> list;
    const DriverApi* api = driver_api();
    int count = 0;
    if (!api || api->device_count(&count) != 0) return list;
    for (int i = 0; i < count; ++i) {
        try {
            list.push_back(std::make_unique<CudaDriver>(i));
        } catch (const DriverFailure&) {
            continue;  // a device that cannot be opened (in exclusive use, say) is no device of this process
        }
    }
    return list;
}

void* stream_of(gpu::Driver& driver) { return static_cast<CudaDriver&>(driver).stream(); }

}  // namespace calor::cuda
