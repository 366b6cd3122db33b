// The CPU as a device.
#pragma once

#include "device/device.h"

namespace calor::cpu {

Backend& backend();
/// The tile interpreter: runs a fused elementwise chain in tiles that stay in the first-level cache.
void run_elementwise(const ElementwiseProgram& program, std::span<const View> inputs, std::span<const View> outputs);

}  // namespace calor::cpu
