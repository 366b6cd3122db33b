// Times calls on a device. On a GPU: device events around each call, caches cold (a block larger than the L2 is written
// before every call), compiled kernels and tuned choices there already, and the host may run ahead as it does in a
// program. On the CPU: the wall clock, caches as the call before left them.
#pragma once

#include <functional>
#include <memory>

#include "calor/calor.h"
#include "device/device.h"

namespace bench {

struct Timing {
    double warmup_ms = 25, limit_ms = 100;  ///< of a GPU: what calls before the first timed one, and timed ones, take
    bool best = false;                      ///< the fastest call stands for all, for a machine that others use too
    bool once = false;                      ///< runs each call once and times nothing: to fill the caches on disk
};

class Stopwatch {
public:
    Stopwatch(calor::Device device, Timing timing);
    ~Stopwatch();
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    /// Milliseconds of a call: the median.
    double measure(const std::function<void()>& call);
    /// The device's copy of memory, its ceiling where traffic decides: milliseconds, for bytes read and written.
    double measure_copy(std::int64_t& bytes);
    /// Blocks until the device has done all of its work.
    void synchronize();

private:
    double measure_cpu(const std::function<void()>& call);
    double measure_gpu(const std::function<void()>& call);
    void cool();
    double timed_calls(const std::function<void()>& call, int count, std::vector<double>& times);

    calor::Backend& backend_;
    Timing timing_;
    struct Block;
    std::unique_ptr<Block> block_;  ///< what is written before each call on a GPU
};

}  // namespace bench
