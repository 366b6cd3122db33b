// The devices of this machine and the public questions about them.
#include "device/device.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "core/fail.h"
#include "device/cpu/cpu_backend.h"

namespace calor {
namespace {

std::string_view kind_name(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::cpu: return "cpu";
    }
    return "unknown";
}

std::string available_names() {
    std::string names;
    for (const DeviceInfo& d : devices()) names += (names.empty() ? "" : ", ") + d.name;
    return names;
}

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
    for (const DeviceInfo& d : devices()) {
        if (valid && kind == kind_name(d.device.kind) && index == d.device.index) return d.device;
    }
    fail("device/unavailable", "device", where, {{"device", name}, {"available", available_names()}});
}

Backend& backend(Device device, const Where& where) {
    if (device.kind == DeviceKind::cpu && device.index == 0) return cpu::backend();
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

std::vector<DeviceInfo> devices() { return {cpu::backend().info()}; }

MemoryStatistics memory_statistics(Device device) { return backend(device).statistics(); }

void set_memory_limit(std::int64_t bytes, Device device, const Where& where) {
    if (bytes < 0) {
        fail(
            "value/option", "set_memory_limit", where,
            {{"option", "bytes"}, {"got", bytes}, {"expected", "0 (no limit) or more"}, {"help", "0 lifts the limit"}});
    }
    backend(device, where).set_limit(bytes);
}

void reset_peak_memory(Device device) { backend(device).reset_peak(); }
void empty_cache(Device device) { backend(device).empty_cache(); }

}  // namespace calor
