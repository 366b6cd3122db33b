// CUDA devices through the driver's interface.
#pragma once

#include <memory>
#include <vector>

#include "device/gpu/driver.h"

namespace calor::cuda {

/// One driver a device; empty without CUDA.
std::vector<std::unique_ptr<gpu::Driver>> drivers();

/// For libraries that work on CUDA's objects: the primary context is made current, and the queue of the device is
/// given.
void* stream_of(gpu::Driver& driver);

}  // namespace calor::cuda
