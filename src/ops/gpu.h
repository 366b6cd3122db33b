// What GPU implementations of operations share: launching a kernel file from a Call, and copies. docs/kernels.md shows
// a whole example.
#pragma once

#include "device/gpu/launch.h"
#include "device/gpu/walk.h"
#include "graph/operation.h"

namespace calor::ops {

/// A launch of a kernel that belongs to the call: errors name its operation and the user's line.
inline gpu::Launch launch(const graph::Call& call, const gpu::KernelFile& file, std::string_view entry) {
    return {call.backend, file, entry, call.operation, call.where};
}

/// Copies the elements of a strided view to another view of the same shape and dtype, on the call's device.
void copy_on_gpu(const graph::Call& call, const View& from, const View& to);

/// Null on a CUDA device, else why not: for implementations that call CUDA's libraries.
inline const char* not_cuda(const graph::Call& call) {
    return call.backend.gpu()->traits().kind == DeviceKind::cuda ? nullptr : "it needs a CUDA device";
}

}  // namespace calor::ops
