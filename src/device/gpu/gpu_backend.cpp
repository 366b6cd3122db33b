#include "device/gpu/gpu_backend.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/fail.h"
#include "device/cuda/cuda_driver.h"
#include "device/gpu/disk_cache.h"
#include "device/opencl/opencl_driver.h"

namespace calor::gpu {
namespace {

constexpr std::int64_t band = 256;  // bytes before and behind a block when CALOR_GUARD is set
constexpr std::uint8_t band_value = 0xA5, poison = 0xFF;

bool flag(const char* name) {
    const char* value = std::getenv(name);
    return value && *value && std::string_view(value) != "0";
}

/// One word a constant, for messages: "X=f32 RANK=2".
std::string summary_of(const std::string& constants) {
    std::string text;
    std::size_t at = 0;
    while (at < constants.size()) {
        const std::size_t end = constants.find('\n', at);
        std::string line = constants.substr(at, end - at);
        if (line.starts_with("#define ")) line = line.substr(8);
        if (const auto blank = line.find(' '); blank != std::string::npos) line[blank] = '=';
        text += (text.empty() ? "" : ", ") + line;
        if (end == std::string::npos) break;
        at = end + 1;
    }
    return text.empty() ? "none" : text;
}

/// CALOR_RECORD_KERNELS: the variant as a file that tests can compile for other targets.
void record_source(const Source& source) {
    const char* folder = std::getenv("CALOR_RECORD_KERNELS");
    if (!folder || !*folder) return;
    const std::string text = fmt::format("{}\n{}\n{} {} {} {} {}\n{}---\n{}", source.file->path, source.entry,
                                         source.wide_index ? 1 : 0, source.threads.x, source.threads.y,
                                         source.threads.z, source.dtypes, source.constants, source.file->text);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    const auto path = std::filesystem::path(folder) / (hash_of(text) + ".variant");
    if (!std::filesystem::exists(path, error)) std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

GpuBackend::GpuBackend(Device device, std::unique_ptr<Driver> driver)
    : device_(device), driver_(std::move(driver)), allocator_(to_string(device), *this, true, &mutex_) {
    blocking_ = flag("CALOR_LAUNCH_BLOCKING");
    guard_ = flag("CALOR_GUARD");
}

/// Calls the driver under the lock; what it refuses becomes an error that names the last launches.
template <class F> auto GpuBackend::guarded(const F& body, const Caller* caller) {
    const std::lock_guard lock(mutex_);
    try {
        return body();
    } catch (const DriverFailure& failure) {
        fail_launch(failure, caller);
    }
}

void GpuBackend::fail_launch(const DriverFailure& failure, const Caller* caller) {
    std::string recent;
    for (std::size_t i = 0; i < remembered && i < launches_; ++i) {
        const Caller& c = last_[(launches_ - 1 - i) % remembered];
        recent += fmt::format("{}{} at {}:{}", recent.empty() ? "launched before, last first: " : ", ", c.operation,
                              c.where.file_name(), c.where.line());
    }
    const Caller known = caller ? *caller : launches_ > 0 ? last_[(launches_ - 1) % remembered] : Caller{"device", {}};
    fail("kernel/launch", known.operation, known.where,
         {{"device", to_string(device_) + " (" + traits().model + ")"},
          {"driver", traits().driver},
          {"call", failure.call},
          {"what", failure.what}},
         recent);
}

DeviceInfo GpuBackend::info() const {
    const DeviceTraits& t = driver_->traits();
    DeviceInfo info;
    info.device = device_;
    info.name = to_string(device_);
    info.description = t.model;
    info.driver = t.driver;
    info.memory = t.memory;
    info.threads = t.units;
    info.features = t.features;
    for (std::string& library : driver_->libraries()) info.features.push_back(std::move(library));
    return info;
}

void* GpuBackend::acquire(std::int64_t bytes) {
    return guarded([&]() -> void* {
        if (!guard_) return driver_->allocate(bytes);
        auto* base = static_cast<std::byte*>(driver_->allocate(bytes + 2 * band));
        return base ? base + band : nullptr;
    });
}
void GpuBackend::give_back(void* data, std::int64_t) {
    guarded([&] { driver_->free(guard_ ? static_cast<std::byte*>(data) - band : static_cast<std::byte*>(data)); });
}
void GpuBackend::settle() { synchronize(); }

Ref<Storage> GpuBackend::allocate(std::int64_t bytes, std::string_view operation, const Where& where) {
    return allocator_.allocate(bytes, operation, where);
}
void GpuBackend::empty_cache() { allocator_.empty_cache(); }

void GpuBackend::handed_out(const Storage& storage, std::int64_t asked) {
    if (!guard_) return;
    auto* data = static_cast<std::byte*>(storage.data);
    guarded([&] {
        guarded_sizes_[data] = asked;
        driver_->fill(data - band, band_value, band);
        driver_->fill(data, poison, asked);
        driver_->fill(data + asked, band_value, storage.bytes - asked + band);
    });
}

void GpuBackend::came_back(const Storage& storage) {
    if (!guard_) return;
    const auto* data = static_cast<std::byte*>(storage.data);
    guarded([&] {
        const std::int64_t asked = guarded_sizes_[data], behind = storage.bytes - asked + band;
        std::vector<std::uint8_t> bytes(static_cast<std::size_t>(band + behind));
        try {
            driver_->download(bytes.data(), data - band, band);
            driver_->download(bytes.data() + band, data + asked, behind);
        } catch (const DriverFailure&) {
            return;  // a destructor cannot throw; who reads a result is told
        }
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            if (bytes[i] == band_value) continue;
            const auto at = static_cast<std::int64_t>(i) < band ? static_cast<std::int64_t>(i) - band
                                                                : static_cast<std::int64_t>(i) - band + asked;
            fmt::print(stderr, "calor: a kernel wrote byte {} of a block of {} bytes\n", at, asked);
            std::abort();  // asked for by CALOR_GUARD; a destructor could not throw
        }
    });
}

GpuBackend::Staging& GpuBackend::next_staging() {
    Staging& s = staging_[next_staging_++ % std::size(staging_)];
    if (s.busy) s.busy->wait();
    if (!s.data) s.data = static_cast<std::byte*>(driver_->allocate_pinned(staging_bytes));
    if (!s.data) throw DriverFailure{"allocation of staging memory", "no memory", true};
    return s;
}

void GpuBackend::copy_to_host(void* host, const void* device, std::int64_t bytes) {
    auto* to = static_cast<std::byte*>(host);
    const auto* from = static_cast<const std::byte*>(device);
    if (bytes <= 0) return;
    guarded([&] {
        if (bytes < staging_bytes) return driver_->download(host, device, bytes);
        // One piece is on its way while the one before is copied.
        Staging* before = nullptr;
        std::int64_t before_at = 0;
        for (std::int64_t at = 0; at < bytes || before; at += staging_bytes) {
            Staging* now = nullptr;
            if (at < bytes) {
                now = &next_staging();
                driver_->fetch(now->data, from + at, std::min(staging_bytes, bytes - at));
                now->busy = driver_->record(false);
            }
            if (before) {
                before->busy->wait();
                const std::int64_t count = std::min(staging_bytes, bytes - before_at);
                std::memcpy(to + before_at, before->data, static_cast<std::size_t>(count));
            }
            before = now;
            before_at = at;
        }
    });
}

void GpuBackend::copy_to_device(void* device, const void* host, std::int64_t bytes) {
    const auto* from = static_cast<const std::byte*>(host);
    auto* to = static_cast<std::byte*>(device);
    guarded([&] {
        for (std::int64_t at = 0; at < bytes; at += staging_bytes) {
            const std::int64_t count = std::min(staging_bytes, bytes - at);
            Staging& s = next_staging();
            std::memcpy(s.data, from + at, static_cast<std::size_t>(count));
            driver_->upload(to + at, s.data, count);
            s.busy = driver_->record(false);
        }
    });
}

/// Waits without the lock: others may launch meanwhile.
class GpuBackend::QueueEvent final : public Event {
    template <class F> auto reported(const F& body) {
        try {
            return body();
        } catch (const DriverFailure& failure) {
            device_.fail_launch(failure, nullptr);
        }
    }

public:
    QueueEvent(GpuBackend& device, std::unique_ptr<DriverEvent> event) : device_(device), event_(std::move(event)) {}
    void wait() override {
        reported([&] { event_->wait(); });
    }
    bool done() const override { return event_->done(); }
    double milliseconds_since(const Event& earlier) override {
        return reported([&] { return event_->milliseconds_since(*static_cast<const QueueEvent&>(earlier).event_); });
    }

private:
    GpuBackend& device_;
    std::unique_ptr<DriverEvent> event_;
};

std::unique_ptr<Event> GpuBackend::record() {
    return guarded([&] { return std::make_unique<QueueEvent>(*this, driver_->record(false)); });
}
std::unique_ptr<Event> GpuBackend::record_timed() {
    return guarded([&] { return std::make_unique<QueueEvent>(*this, driver_->record(true)); });
}
void GpuBackend::wait(const Event& event) { const_cast<Event&>(event).wait(); }
void GpuBackend::synchronize() {
    guarded([&] { driver_->synchronize(); });
}
void GpuBackend::copy(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0) guarded([&] { driver_->copy(to, from, bytes); });
}
void GpuBackend::fill(void* to, std::uint8_t value, std::int64_t bytes) {
    if (bytes > 0) guarded([&] { driver_->fill(to, value, bytes); });
}

Kernel* GpuBackend::find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = kernels_.find(key);
    return it == kernels_.end() ? nullptr : &it->second;
}

Kernel& GpuBackend::kernel(const std::string& key, const Source& source, const Caller& caller) {
    const std::lock_guard lock(mutex_);
    if (const auto it = kernels_.find(key); it != kernels_.end()) return it->second;
    if (!traits().f64 && (source.dtypes & (1U << static_cast<unsigned>(f64))) != 0) {
        fail("device/unsupported", caller.operation, caller.where,
             {{"device", to_string(device_)}, {"what", "f64 (the device does not compute in it)"}});
    }
    record_source(source);
    const DeviceTraits& t = traits();
    const std::string text = translate(source, t.kind, t.f64);
    const std::string name =
        hash_of(text + t.architecture + '\n' + t.driver + '\n' + t.compiler + '\n' + t.options + '\n' + source.entry);
    Kernel made;
    made.parameters = parameters_of(*source.file, source.entry);
    if (const std::string stored = cache_read(name); !stored.empty()) {
        made.handle = guarded([&] { return driver_->load(stored, source.entry); }, &caller);
    }
    if (!made.handle) {
        Compiled result = guarded([&] { return driver_->compile(text, source.file->path, source.entry); }, &caller);
        ++compiled_;
        made.handle = std::move(result.kernel);
        if (!made.handle && !result.binary.empty()) {
            made.handle = guarded([&] { return driver_->load(result.binary, source.entry); }, &caller);
        }
        if (!made.handle) {
            fail("kernel/compile", caller.operation, caller.where,
                 {{"kernel", source.entry},
                  {"path", source.file->path},
                  {"device", to_string(device_) + " (" + t.architecture + ", " + t.compiler + ")"},
                  {"constants", summary_of(source.constants)},
                  {"options", t.options},
                  {"log", result.log.empty() ? "the compiler said nothing" : result.log}});
        }
        if (!result.binary.empty()) cache_write(name, result.binary);
    }
    return kernels_.emplace(key, std::move(made)).first->second;
}

void GpuBackend::launch(Kernel& kernel, Extent groups, Extent threads, std::span<const Argument> arguments,
                        const Caller& caller) {
    guarded(
        [&] {
            driver_->launch(*kernel.handle, groups, threads, arguments);
            last_[launches_++ % remembered] = caller;
            if (blocking_) driver_->synchronize();
        },
        &caller);
}

std::span<GpuBackend* const> gpu_backends() {
    // Never destroyed: tensors in static storage may outlive any static object.
    static const auto* all = [] {
        auto* list = new std::vector<GpuBackend*>;
        const auto add = [&](DeviceKind kind, std::vector<std::unique_ptr<Driver>> drivers) {
            int index = 0;
            for (auto& d : drivers) list->push_back(new GpuBackend(Device{kind, index++}, std::move(d)));
        };
        add(DeviceKind::cuda, cuda::drivers());
        add(DeviceKind::opencl, opencl::drivers());
        return list;
    }();
    return *all;
}

}  // namespace calor::gpu
