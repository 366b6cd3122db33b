#include "device/gpu/autotune.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "device/gpu/disk_cache.h"

namespace calor::gpu {
namespace {

constexpr double worthwhile = 5e8;  // operations: some 10 microseconds of a large GPU
constexpr double clearly = 0.97;    // of the default's time; less of a gain may be noise
constexpr double hopeless = 1.5;    // of the best time so far, in the first run
constexpr double enough_ms = 1;     // of runs of one candidate
constexpr int most_runs = 5;

enum class Mode : std::uint8_t { off, automatic, always };
Mode mode() {
    const char* value = std::getenv("CALOR_AUTOTUNE");
    const std::string_view text = value ? value : "";
    return text == "0" ? Mode::off : text == "always" ? Mode::always : Mode::automatic;
}

/// Choices of this process, by key. Under the lock of a device, but devices are several.
struct Memory {
    std::mutex mutex;
    std::map<std::string, std::size_t> choices;
};
Memory& memory() {
    static auto& all = *new Memory;
    return all;
}

/// What a choice depends on besides the device and the text, which stay the same in a process.
std::string key_of(const Tuning& tuning) {
    std::string key(tuning.family);
    key.append(1, '\n').append(tuning.problem);
    for (const std::string& name : tuning.candidates) key.append(1, '\n').append(name);
    return key;
}
std::string key_on_disk(const GpuBackend& device, const Tuning& tuning, const std::string& key) {
    const DeviceTraits& t = device.traits();
    std::string all = "choice";
    for (const std::string_view part :
         {std::string_view(t.model), std::string_view(t.driver), std::string_view(t.architecture),
          std::string_view(t.compiler), std::string_view(key), tuning.text}) {
        all.append(1, '\n').append(part);
    }
    return hash_of(all);
}

double timed(GpuBackend& device, std::size_t candidate, const std::function<void(std::size_t)>& run) {
    const auto start = device.record_timed();
    run(candidate);
    return device.record_timed()->milliseconds_since(*start);
}

/// The least milliseconds of some runs; infinity when the device refuses the candidate.
double time_of(GpuBackend& device, std::size_t candidate, const std::function<void(std::size_t)>& run, double best) {
    try {
        run(candidate);  // compiles
        double least = timed(device, candidate, run);
        const int runs = static_cast<int>(std::clamp(enough_ms / std::max(least, 1e-3), 1.0, double(most_runs)));
        for (int i = 1; i < runs && least < hopeless * best; ++i)
            least = std::min(least, timed(device, candidate, run));
        return std::isnan(least) ? std::numeric_limits<double>::infinity() : least;
    } catch (const KernelError&) {
        return std::numeric_limits<double>::infinity();
    }
}

std::size_t measured_choice(GpuBackend& device, const Tuning& tuning, const std::function<void(std::size_t)>& run) {
    const double otherwise = time_of(device, 0, run, std::numeric_limits<double>::infinity());
    double best = otherwise;
    std::size_t index = 0;
    for (std::size_t i = 1; i < tuning.candidates.size(); ++i) {
        const double time = time_of(device, i, run, best);
        if (time >= best || time >= clearly * otherwise) continue;
        best = time;
        index = i;
    }
    return index;
}

}  // namespace

Chosen choose(GpuBackend& device, const Tuning& tuning, const std::function<void(std::size_t)>& run) {
    const Mode wanted = mode();
    if (wanted == Mode::off || tuning.candidates.size() < 2) return {};
    if (wanted == Mode::automatic && (device.traits().processor || tuning.operations < worthwhile)) return {};
    const std::string key = key_of(tuning), key_here = to_string(device.device()) + '\n' + key;
    const std::lock_guard alone(device.lock());  // what others launch meanwhile would be measured too
    Memory& known = memory();
    {
        const std::lock_guard lock(known.mutex);
        if (const auto it = known.choices.find(key_here); it != known.choices.end()) return {it->second, true};
    }
    const std::string name = key_on_disk(device, tuning, key);
    const auto stored = std::ranges::find(tuning.candidates, cache_read(name, CacheKind::choice));
    std::size_t index = static_cast<std::size_t>(stored - tuning.candidates.begin());
    if (stored == tuning.candidates.end()) {
        index = measured_choice(device, tuning, run);
        cache_write(name, tuning.candidates[index], CacheKind::choice);
    }
    const std::lock_guard lock(known.mutex);
    known.choices[key_here] = index;
    return {index, true};
}

}  // namespace calor::gpu
