// OpenCL devices. OpenCL 1.2 has no addresses: each buffer gets a range of numbers, so that arithmetic on View::data
// works, and a launch turns an address into its buffer and a byte offset.
#pragma once

#include <memory>
#include <vector>

#include "device/gpu/driver.h"

namespace calor::opencl {

/// One driver a device: GPUs first. Empty without OpenCL.
std::vector<std::unique_ptr<gpu::Driver>> drivers();

}  // namespace calor::opencl
