// The devices of this machine and the public questions about them.
#include "device/device.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstdlib>

#include "core/fail.h"
#include "device/cpu/cpu_backend.h"
#include "device/gpu/disk_cache.h"
#include "device/gpu/gpu_backend.h"

namespace calor {
namespace {

std::string_view kind_name(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::cpu: return "cpu";
        case DeviceKind::cuda: return "cuda";
        case DeviceKind::opencl: return "opencl";
    }
    return "unknown";
}

std::string available_names() {
    std::string names = "cpu:0";
    for (const gpu::GpuBackend* b : gpu::gpu_backends()) names += ", " + to_string(b->device());
    return names;
}

Backend* find_backend(Device device) {
    if (device.kind == DeviceKind::cpu) return device.index == 0 ? &cpu::backend() : nullptr;
    for (gpu::GpuBackend* b : gpu::gpu_backends()) {
        if (b->device() == device) return b;
    }
    return nullptr;
}

/// Both parts of a Device in one word, so that threads may set and read it.
std::atomic<std::uint32_t>& chosen_device() {
    static std::atomic<std::uint32_t> chosen = [] {
        const char* name = std::getenv("CALOR_DEVICE");
        const Device device = name && *name ? device_named(name) : Device{};
        return static_cast<std::uint32_t>(device.kind) << 16U | static_cast<std::uint32_t>(device.index);
    }();
    return chosen;
}
thread_local const Device* device_of_thread = nullptr;

}  // namespace

std::string to_string(const Device& device) { return fmt::format("{}:{}", kind_name(device.kind), device.index); }

Device device_named(std::string_view name, const Where& where) {
    const auto colon = name.find(':');
    const auto kind = name.substr(0, colon);
    int index = 0;
    bool valid = true;
    if (colon != std::string_view::npos) {
        const auto digits = name.substr(colon + 1);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
        valid = error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
    }
    for (const DeviceKind k : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::opencl}) {
        if (valid && kind == kind_name(k) && find_backend({k, index})) return {k, index};
    }
    fail("device/unavailable", "device", where, {{"device", name}, {"available", available_names()}});
}

Backend& backend(Device device, const Where& where) {
    if (Backend* found = find_backend(device)) return *found;
    fail("device/unavailable", "device", where, {{"device", to_string(device)}, {"available", available_names()}});
}

bool disabled(std::string_view implementation) {
    const char* list = std::getenv("CALOR_DISABLE");
    if (!list) return false;
    std::string_view rest = list;
    while (!rest.empty()) {
        const auto comma = rest.find(',');
        if (rest.substr(0, comma) == implementation) return true;
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    return false;
}

std::vector<DeviceInfo> devices() {
    std::vector<DeviceInfo> list{cpu::backend().info()};
    for (const gpu::GpuBackend* b : gpu::gpu_backends()) list.push_back(b->info());
    return list;
}

Device default_device() {
    if (device_of_thread) return *device_of_thread;
    const std::uint32_t word = chosen_device().load(std::memory_order_relaxed);
    return {static_cast<DeviceKind>(word >> 16U), static_cast<int>(word & 0xffffU)};
}
void set_default_device(Device device, const Where& where) {
    (void)backend(device, where);
    chosen_device().store(static_cast<std::uint32_t>(device.kind) << 16U | static_cast<std::uint32_t>(device.index));
}
OnDevice::OnDevice(Device device) : device_(device), outer_(device_of_thread) { device_of_thread = &device_; }
OnDevice::~OnDevice() { device_of_thread = outer_; }

MemoryStatistics memory_statistics(Device device) { return backend(device).statistics(); }

void set_memory_limit(std::int64_t bytes, Device device, const Where& where) {
    if (bytes < 0) {
        fail(
            "value/option", "set_memory_limit", where,
            {{"option", "bytes"}, {"got", bytes}, {"expected", "0 (no limit) or more"}, {"help", "0 lifts the limit"}});
    }
    backend(device, where).set_limit(bytes);
}

std::string*& remarks() {
    thread_local std::string* asked_for = nullptr;
    return asked_for;
}

KernelCache kernel_cache() {
    const gpu::CacheState state = gpu::cache_state();
    return {state.folder, state.files, state.bytes, state.bound, state.choices};
}
std::int64_t clear_kernel_cache() { return gpu::cache_clear(); }

void reset_peak_memory(Device device) { backend(device).reset_peak(); }
void empty_cache(Device device) { backend(device).empty_cache(); }

}  // namespace calor
