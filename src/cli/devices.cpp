// calor devices: what this machine offers. calor cache: what its compilers made.
#include <fmt/format.h>

#include "calor/device.h"
#include "cli/commands.h"

namespace calor::cli {

int list_devices() {
    for (const DeviceInfo& d : devices()) {
        std::string features;
        for (const auto& f : d.features) features += " " + f;
        fmt::print("{}  {}, {:.1f} GiB, {} {},{}{}\n", d.name, d.description, static_cast<double>(d.memory) / (1 << 30),
                   d.threads, d.device.kind == DeviceKind::cpu ? "threads" : "units", features,
                   d.driver.empty() ? "" : "  (" + d.driver + ")");
    }
    return 0;
}

int show_cache(bool clear) {
    if (clear) {
        fmt::print("{} files deleted\n", clear_kernel_cache());
        return 0;
    }
    const KernelCache cache = kernel_cache();
    if (cache.folder.empty()) {
        fmt::print("no folder for compiled kernels: set CALOR_CACHE\n");
        return 0;
    }
    fmt::print("{}: {} kernels, {} choices between kernels, {:.1f} MiB of at most {:.0f}\n", cache.folder,
               cache.files - cache.choices, cache.choices, static_cast<double>(cache.bytes) / (1 << 20),
               static_cast<double>(cache.limit) / (1 << 20));
    return 0;
}

}  // namespace calor::cli
