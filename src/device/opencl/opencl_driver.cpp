#include "device/opencl/opencl_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "device/opencl/opencl_api.h"

namespace calor::opencl {
namespace {

using gpu::Argument;
using gpu::Compiled;
using gpu::DeviceTraits;
using gpu::DriverFailure;
using gpu::Extent;

void check(Status status, const char* call) {
    if (status == 0) return;
    throw DriverFailure{call, fmt::format("{} ({})", name_of_status(status), status), status >= -6 && status <= -4};
}

std::string text_of(Object device, Count what) {
    std::size_t size = 0;
    if (api()->device_info(device, what, 0, nullptr, &size) != 0 || size == 0) return {};
    std::string text(size, '\0');
    api()->device_info(device, what, size, text.data(), nullptr);
    while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
    return text;
}
template <class T> T number_of(Object device, Count what) {
    T value{};
    api()->device_info(device, what, sizeof value, &value, nullptr);
    return value;
}

class ClEvent final : public gpu::DriverEvent {
public:
    explicit ClEvent(Object queue) {
        check(api()->marker(queue, 0, nullptr, &event_), "clEnqueueMarkerWithWaitList");
        api()->flush(queue);
    }
    ~ClEvent() override { api()->release_event(event_); }
    void wait() override { check(api()->wait(1, &event_), "clWaitForEvents"); }
    bool done() override {
        Status status = 0;
        api()->event_info(event_, event_status, sizeof status, &status, nullptr);
        return status <= 0;
    }
    double milliseconds_since(gpu::DriverEvent& earlier) override {
        wait();
        std::uint64_t first = 0, last = 0;  // nanoseconds
        Object before = static_cast<ClEvent&>(earlier).event_;
        if (api()->event_times(before, profiling_end, sizeof first, &first, nullptr) != 0 ||
            api()->event_times(event_, profiling_end, sizeof last, &last, nullptr) != 0) {
            return std::numeric_limits<double>::quiet_NaN();
        }
        return static_cast<double>(last - first) * 1e-6;
    }

private:
    Object event_ = nullptr;
};

class ClKernel final : public gpu::DriverKernel {
public:
    ClKernel(Object program, Object kernel) : kernel(kernel), program_(program) {}
    ~ClKernel() override {
        api()->release_kernel(kernel);
        api()->release_program(program_);
    }
    Object kernel;

private:
    Object program_;
};

/// A buffer, and where an address lies in it.
struct Place {
    Object buffer = nullptr;
    std::size_t offset = 0;
};

class ClDriver final : public gpu::Driver {
public:
    ClDriver(Object platform, Object device, bool binaries_of_all) : device_(device) {
        Status status = 0;
        constexpr std::intptr_t platform_property = 0x1084;
        const std::intptr_t properties[] = {platform_property, reinterpret_cast<std::intptr_t>(platform), 0};
        context_ = api()->create_context(properties, 1, &device_, nullptr, nullptr, &status);
        check(status, "clCreateContext");
        queue_ = api()->create_queue(context_, device_, profiling_queue, &status);
        check(status, "clCreateCommandQueue");
        read_traits();
        if (binaries_of_all) keeps_kernels_ = false;
    }
    const DeviceTraits& traits() const override { return traits_; }

    void* allocate(std::int64_t bytes) override {
        if (bytes > traits_.memory) return nullptr;  // some drivers only find out when the buffer is used
        Status status = 0;
        Object buffer = api()->create_buffer(context_, read_write, static_cast<std::size_t>(bytes), nullptr, &status);
        if (!buffer || status != 0) return nullptr;
        constexpr std::uintptr_t page = 1 << 16;
        const std::uintptr_t at = next_;
        next_ += (static_cast<std::uintptr_t>(bytes) + page - 1) / page * page + page;  // a gap behind each
        buffers_[at] = buffer;
        return reinterpret_cast<void*>(at);
    }
    void free(void* data) override {
        const auto it = buffers_.find(reinterpret_cast<std::uintptr_t>(data));
        if (it == buffers_.end()) return;
        api()->release_buffer(it->second);
        buffers_.erase(it);
    }
    std::int64_t free_memory() override { return -1; }
    void* allocate_pinned(std::int64_t bytes) override { return std::malloc(static_cast<std::size_t>(bytes)); }
    void free_pinned(void* data) override { std::free(data); }

    void upload(void* to, const void* pinned, std::int64_t bytes) override {
        const Place p = place(to);
        check(api()->write(queue_, p.buffer, 0, p.offset, static_cast<std::size_t>(bytes), pinned, 0, nullptr, nullptr),
              "clEnqueueWriteBuffer");
    }
    void fetch(void* pinned, const void* from, std::int64_t bytes) override { read(pinned, from, bytes, 0); }
    void download(void* to, const void* from, std::int64_t bytes) override { read(to, from, bytes, 1); }
    void read(void* to, const void* from, std::int64_t bytes, Count blocking) {
        const Place p = place(from);
        check(
            api()->read(queue_, p.buffer, blocking, p.offset, static_cast<std::size_t>(bytes), to, 0, nullptr, nullptr),
            "clEnqueueReadBuffer");
    }
    void copy(void* to, const void* from, std::int64_t bytes) override {
        const Place t = place(to), f = place(from);
        check(api()->copy(queue_, f.buffer, t.buffer, f.offset, t.offset, static_cast<std::size_t>(bytes), 0, nullptr,
                          nullptr),
              "clEnqueueCopyBuffer");
    }
    void fill(void* to, std::uint8_t value, std::int64_t bytes) override {
        if (bytes <= 0) return;
        const Place p = place(to);
        constexpr std::int64_t part = std::int64_t{1} << 30;  // drivers are little tried with fills of 2^31 bytes
        for (std::int64_t from = 0; from < bytes; from += part) {
            const auto size = static_cast<std::size_t>(std::min(part, bytes - from));
            check(api()->fill(queue_, p.buffer, &value, 1, p.offset + static_cast<std::size_t>(from), size, 0, nullptr,
                              nullptr),
                  "clEnqueueFillBuffer");
        }
    }

    Compiled compile(const std::string& text, const std::string&, const std::string& entry) override {
        Status status = 0;
        Object program = build(text, traits_.options + declarations_, status);
        if (status != 0 && !declarations_.empty()) {  // perhaps for want of a declaration
            api()->release_program(program);
            program = build(text, traits_.options, status);
        }
        Compiled result;
        result.log = build_log(program);
        if (status != 0 && result.log.empty()) result.log = name_of_status(status);
        if (status == 0) {
            if (!keeps_kernels_) result.binary = binary_of(program);
            result.kernel = kernel_of(program, entry);
        } else {
            api()->release_program(program);
        }
        return result;
    }
    std::unique_ptr<gpu::DriverKernel> load(const std::string& binary, const std::string& entry) override {
        const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
        const std::size_t length = binary.size();
        Status taken = 0, status = 0;
        Object program = api()->program_of_binary(context_, 1, &device_, &length, &data, &taken, &status);
        if (!program || status != 0 || taken != 0) return nullptr;
        if (api()->build(program, 1, &device_, traits_.options.c_str(), nullptr, nullptr) != 0) {
            api()->release_program(program);
            return nullptr;
        }
        return kernel_of(program, entry);
    }
    void launch(gpu::DriverKernel& kernel, Extent groups, Extent threads,
                std::span<const Argument> arguments) override {
        Object k = static_cast<ClKernel&>(kernel).kernel;
        Count index = 0;
        for (const Argument& a : arguments) {
            if (!a.buffer) {
                check(api()->set_argument(k, index++, a.bytes, a.data), "clSetKernelArg");
                continue;
            }
            const Place p = place(*static_cast<void* const*>(a.data));
            const auto offset = static_cast<std::int64_t>(p.offset);
            check(api()->set_argument(k, index++, sizeof p.buffer, &p.buffer), "clSetKernelArg");
            check(api()->set_argument(k, index++, sizeof offset, &offset), "clSetKernelArg");
        }
        const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
        const std::size_t global[3] = {size(groups.x * threads.x), size(groups.y * threads.y),
                                       size(groups.z * threads.z)};
        const std::size_t local[3] = {size(threads.x), size(threads.y), size(threads.z)};
        check(api()->launch(queue_, k, 3, nullptr, global, local, 0, nullptr, nullptr), "clEnqueueNDRangeKernel");
    }
    std::unique_ptr<gpu::DriverEvent> record(bool) override { return std::make_unique<ClEvent>(queue_); }
    void synchronize() override { check(api()->finish(queue_), "clFinish"); }

private:
    Place place(const void* data) const {
        const auto at = reinterpret_cast<std::uintptr_t>(data);
        auto it = buffers_.upper_bound(at);
        if (it == buffers_.begin()) throw DriverFailure{"a buffer", "an address that was not allocated", false};
        --it;
        return {it->second, at - it->first};
    }
    Object build(const std::string& text, const std::string& options, Status& status) {
        const char* source = text.c_str();
        const std::size_t length = text.size();
        Object program = api()->create_program(context_, 1, &source, &length, &status);
        check(status, "clCreateProgramWithSource");
        status = api()->build(program, 1, &device_, options.c_str(), nullptr, nullptr);
        return program;
    }
    std::string build_log(Object program) const {
        std::size_t size = 0;
        if (api()->build_info(program, device_, program_build_log, 0, nullptr, &size) != 0 || size == 0) return {};
        std::string log(size, '\0');
        api()->build_info(program, device_, program_build_log, size, log.data(), nullptr);
        while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
        return log;
    }
    /// Takes the program over; null when it has no such kernel.
    static std::unique_ptr<gpu::DriverKernel> kernel_of(Object program, const std::string& entry) {
        Status status = 0;
        Object kernel = api()->create_kernel(program, entry.c_str(), &status);
        if (kernel && status == 0) return std::make_unique<ClKernel>(program, kernel);
        api()->release_program(program);
        return nullptr;
    }
    static std::string binary_of(Object program) {
        std::size_t size = 0;
        if (api()->program_info(program, program_binary_sizes, sizeof size, &size, nullptr) != 0) return {};
        std::string binary(size, '\0');
        char* data = binary.data();
        if (api()->program_info(program, program_binaries, sizeof data, &data, nullptr) != 0) return {};
        return binary;
    }

    void read_traits() {
        DeviceTraits& t = traits_;
        const std::string extensions = text_of(device_, device_extensions) + " ";
        const auto has = [&](const char* name) {
            return extensions.find(std::string(name) + " ") != std::string::npos;
        };
        t.kind = DeviceKind::opencl;
        t.model = text_of(device_, device_name);
        t.driver = text_of(device_, device_version) + ", driver " + text_of(device_, driver_version);
        t.architecture = t.model;
        t.compiler = t.driver;
        t.memory = static_cast<std::int64_t>(number_of<std::uint64_t>(device_, global_memory_size));
        t.units = static_cast<int>(number_of<Count>(device_, max_compute_units));
        t.max_threads = static_cast<int>(number_of<std::size_t>(device_, max_work_group_size));
        t.local_memory = static_cast<std::int64_t>(number_of<std::uint64_t>(device_, local_memory_size));
        t.parameter_bytes = static_cast<std::int64_t>(number_of<std::size_t>(device_, max_parameter_size));
        t.f64 = has("cl_khr_fp64");
        t.f16 = has("cl_khr_fp16");
        t.options = "-cl-std=CL1.2";
        if (number_of<Bits>(device_, single_fp_config) & correctly_rounded_divide) {
            t.options += " -cl-fp32-correctly-rounded-divide-sqrt";
        }
        if (t.driver.find("PoCL") != std::string::npos || t.driver.find("pocl") != std::string::npos) {
            declarations_ = " -D_OPENCL_H_ -DCALOR_DECLARES";
            keeps_kernels_ = true;
        }
        t.processor = (number_of<Bits>(device_, device_type) & cpu_type) != 0;
        t.features = {t.processor ? "processor" : "gpu"};
        if (t.f64) t.features.emplace_back("f64");
        if (t.f16) t.features.emplace_back("f16");
    }

    Object device_ = nullptr, context_ = nullptr, queue_ = nullptr;
    DeviceTraits traits_;
    std::string declarations_;    // options that make PoCL leave out its long header: see dialect/opencl.kernel
    bool keeps_kernels_ = false;  // PoCL does, and compiles everything once more for a binary
    std::map<std::uintptr_t, Object> buffers_;
    std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

}  // namespace

std::vector<std::unique_ptr<gpu::Driver>> drivers(bool binaries_of_all) {
    std::vector<std::unique_ptr<gpu::Driver>> gpus, others;
    Count platforms = 0;
    if (!api() || api()->platform_ids(0, nullptr, &platforms) != 0) return gpus;
    std::vector<Object> list(platforms);
    if (platforms > 0) api()->platform_ids(platforms, list.data(), nullptr);
    for (Object platform : list) {
        Count count = 0;
        if (api()->device_ids(platform, any_type, 0, nullptr, &count) != 0) continue;
        std::vector<Object> devices(count);
        api()->device_ids(platform, any_type, count, devices.data(), nullptr);
        for (Object device : devices) {
            if (!number_of<Count>(device, device_available) || !number_of<Count>(device, compiler_available)) continue;
            try {
                auto& to = (number_of<Bits>(device, device_type) & gpu_type) ? gpus : others;
                to.push_back(std::make_unique<ClDriver>(platform, device, binaries_of_all));
            } catch (const DriverFailure&) {
                continue;
            }
        }
    }
    std::ranges::move(others, std::back_inserter(gpus));
    return gpus;
}

}  // namespace calor::opencl
