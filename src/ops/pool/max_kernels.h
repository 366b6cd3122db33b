// The inner loops of max pooling over lanes: windows that are computed together because lane i of each tap lies `step`
// elements behind lane 0's. Lanes are positions along the last axis, or the channels of one position. Vectorised with
// Highway; halves and small integers are widened as they are read, so no operand is copied.
#pragma once

#include "calor/dtype.h"

namespace calor::ops::pool {

/// The taps of neighbouring windows: outer tap o and k along the last axis. Lane i reads x[offsets[o] + k * k_step + i
/// * step], the tap's number is ids[o] + k. Lanes are channels, whose taps are k in [k_begin, k_end) for all; or
/// positions along the last axis, where lane i has those in [begin[i], end[i]): all of [k_begin, k_end) for lanes in
/// [inner_low, inner_high), and else where coordinate first + i * stride + k * dilation lies in [0, size).
struct MaxLanes {
    const void* x = nullptr;
    std::int64_t readable_begin = 0, readable_end = 0;  ///< elements of x that may be read
    const std::int64_t* offsets = nullptr;
    const std::int32_t* ids = nullptr;
    std::int64_t outer = 0, k_begin = 0, k_end = 0, k_step = 0;
    std::int64_t lowest = 0, highest = 0;  ///< smallest and largest offset of all taps
    std::int64_t lanes = 0, step = 1;
    const std::int64_t* begin = nullptr;  ///< null: channels
    const std::int64_t* end = nullptr;
    std::int64_t inner_low = 0, inner_high = 0;
    std::int64_t first = 0, stride = 0, dilation = 0, size = 0;
    void* y = nullptr;
    void* taps = nullptr;  ///< u8, or i32 when `wide_taps`; the largest value: no tap
    bool wide_taps = false;
    std::int64_t y_step = 1;  ///< between lanes of y and of taps
};
/// Writes the largest element of each lane's window, and which tap it is when `keep`.
using MaxKernel = void (*)(const MaxLanes&);
MaxKernel find_max_kernel(DType dtype, bool keep);

/// Rows of x with channels side by side: entry (p, c) adds up y[at + c] where taps[at + c] == id, over outer holder o
/// and the holders h of position p, with at = offsets[o] + inner_offsets[h] and id = ids[o] + inner_taps[h].
struct PutLanes {
    void* x = nullptr;
    std::int64_t positions = 0, x_step = 0;  ///< between positions
    const void* y = nullptr;
    const void* taps = nullptr;
    bool wide_taps = false;
    const std::int64_t* offsets = nullptr;
    const std::int32_t* ids = nullptr;
    std::int64_t outer = 0;
    const std::int64_t* inner_first = nullptr;  ///< holders of position p: [inner_first[p], inner_first[p + 1])
    const std::int64_t* inner_offsets = nullptr;
    const std::int32_t* inner_taps = nullptr;
    std::int64_t lanes = 0;
};
using PutKernel = void (*)(const PutLanes&);
/// Floating dtypes; f16 and bf16 add in f32 and round once.
PutKernel find_put_kernel(DType dtype);

/// Rounds f32 sums to f16 or bf16 and sets them to 0.
using FlushKernel = void (*)(float* sums, void* to, std::int64_t count);
FlushKernel find_flush_kernel(DType dtype);

}  // namespace calor::ops::pool
