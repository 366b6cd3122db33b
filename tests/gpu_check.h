// What the tests of GPUs share: the devices there are, and the two sides of a comparison with the CPU.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "calor/calor.h"
#include "device/gpu/gpu_backend.h"

namespace calor::testing {

/// One device of each kind that this machine has. Tests loop over them; where there is none they only compile.
inline std::vector<Device> gpus() {
    std::vector<Device> list;
    for (const gpu::GpuBackend* b : gpu::gpu_backends()) {
        if (b->device().index == 0) list.push_back(b->device());
    }
    return list;
}
inline gpu::GpuBackend& gpu_of(Device device) { return *backend(device).gpu(); }

inline const Device host{};

/// 0, 1, ..., n - 1 in f32, on the host.
inline Tensor numbers(std::int64_t n) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
    return from_host(v.data(), n, f32, {n}, host);
}

inline std::vector<double> doubles(const Tensor& t) { return t.to(host).to(f64).to_vector<double>(); }

}  // namespace calor::testing
