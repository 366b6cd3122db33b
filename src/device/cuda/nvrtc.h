// NVRTC: CUDA C++ to machine code, for any architecture, also where there is no GPU.
#pragma once

#include <string>

#include "device/gpu/driver.h"

namespace calor::cuda {

bool compiler_available();
/// "NVRTC 13.0".
std::string compiler_version();
/// Compiles for compute capability `capability` (90 for 9.0): to machine code, or to PTX for the newest architecture
/// that this compiler knows when the device's is newer.
gpu::Compiled compile(const std::string& text, const std::string& path, int capability);
/// The options, as the key of the cache and messages show them.
std::string compile_options();

}  // namespace calor::cuda
