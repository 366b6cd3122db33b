// calor devices: what this machine offers.
#include <fmt/format.h>

#include "calor/device.h"
#include "cli/commands.h"

namespace calor::cli {

int list_devices() {
    for (const DeviceInfo& d : devices()) {
        std::string features;
        for (const auto& f : d.features) features += " " + f;
        fmt::print("{}  {}, {:.1f} GiB, {} threads,{}\n", d.name, d.description,
                   static_cast<double>(d.memory) / (1 << 30), d.threads, features);
    }
    return 0;
}

}  // namespace calor::cli
