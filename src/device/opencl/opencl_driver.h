// OpenCL devices. OpenCL 1.2 has no addresses: each buffer gets a range of numbers, so that arithmetic on View::data
// works, and a launch turns an address into its buffer and a byte offset.
#pragma once

#include <memory>
#include <vector>

#include "device/gpu/driver.h"

namespace calor::opencl {

/// One driver a device: GPUs first. Empty without OpenCL. `binaries_of_all`: kernels come as binaries to be kept, also
/// from drivers that keep what they compile on disk themselves.
std::vector<std::unique_ptr<gpu::Driver>> drivers(bool binaries_of_all = false);

}  // namespace calor::opencl
