// Choices between variants of a kernel by measuring them. The first time that a GPU meets a problem of a kind that is
// big enough to matter, each candidate runs on the problem itself, between two events of the device; the fastest is
// remembered, in the process and on disk beside the compiled kernels, for every problem of the same kind.
//
// Candidates must give the same bits, so that a choice, which depends on what a clock said, can be seen in times alone:
// what changes bits (how a sum is split, say) is a function of the problem and the device. A candidate that the device
// refuses is passed over.
//
// CALOR_AUTOTUNE=0: nothing is measured, and choices on disk are not read: always the default. CALOR_AUTOTUNE=always:
// small problems too, and on OpenCL devices that are processors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/gpu/gpu_backend.h"

namespace calor::gpu {

struct Tuning {
    std::string_view family;              ///< of the kernel, "contraction"
    std::string_view text;                ///< of the kernel: another text is another choice
    std::string problem;                  ///< what may decide: dtypes, rounded sizes, strides' classes
    double operations = 0;                ///< that the problem takes
    std::vector<std::string> candidates;  ///< names; the first is the default
};

struct Chosen {
    std::size_t index = 0;
    bool measured = false;  ///< now or before, else it is the default
};

/// run(i) launches candidate i; every run writes the same results, and they need not be there afterwards. Gives what to
/// run.
Chosen choose(GpuBackend& device, const Tuning& tuning, const std::function<void(std::size_t)>& run);

}  // namespace calor::gpu
