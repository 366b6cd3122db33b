// The inner loops of max pooling over lanes: windows that are computed together because lane i of each tap lies `step`
// elements behind lane 0's. Lanes are positions along the last axis, or the channels of one position. Vectorised with
// Highway; halves and small integers are widened as they are read, so no operand is copied.
#pragma once

#include "calor/dtype.h"

namespace calor::ops::pool {

/// Taps of the same windows: outer tap o and k in [k_begin, k_end) along the last axis. Lane i reads
/// x[offsets[o] + k * k_step + i * step], the tap's number is ids[o] + k.
struct MaxLanes {
    const void* x = nullptr;
    std::int64_t readable = 0;  ///< elements of x that may be read, for lanes that don't fill a vector
    const std::int64_t* offsets = nullptr;
    const std::int32_t* ids = nullptr;
    std::int64_t outer = 0, k_begin = 0, k_end = 0, k_step = 0;
    std::int64_t last_offset = 0;  ///< the largest of all taps
    std::int64_t lanes = 0, step = 1;
    void* y = nullptr;
    void* taps = nullptr;  ///< u8, or i32 when `wide_taps`; the largest value: no tap
    bool wide_taps = false;
    std::int64_t y_step = 1;  ///< between lanes of y and of taps
};
/// Writes the largest element of each lane's window, and which tap it is when `keep`.
using MaxKernel = void (*)(const MaxLanes&);
MaxKernel find_max_kernel(DType dtype, bool keep);

/// x[i] = sum over the list of y[offsets[j] + i] where taps[offsets[j] + i] == ids[j], for channels side by side.
struct PutLanes {
    void* x = nullptr;
    const void* y = nullptr;
    const void* taps = nullptr;
    bool wide_taps = false;
    const std::int64_t* offsets = nullptr;
    const std::int32_t* ids = nullptr;
    std::int64_t count = 0;
    std::int64_t lanes = 0;
};
using PutKernel = void (*)(const PutLanes&);
/// Floating dtypes; f16 and bf16 add in f32 and round once.
PutKernel find_put_kernel(DType dtype);

}  // namespace calor::ops::pool
