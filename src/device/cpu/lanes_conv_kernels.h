// The inner loops of the depthwise convolution of channels-last arrays: vectors run along the channels, operands are
// read and written where they lie, in f32 or bf16. Padding never comes here: pixels arrive in runs that read the same
// taps. Distances are in elements; the number of channels is a vector at least, and the last vector overlaps the one
// before it.
// Weights and biases lie by blocks of channels: a vector of f32, or two vectors of bf16, first the even ones, then the
// odd ones; the last block overlaps the one before it.
//   convolve:   out[p][c] = bias[c] + sum over k of in[tap_at[k] + p][c] * weights[weight_at[k] + c]
//   correlate:  sums[sum_at[k] + c] += sum over p of grad[p][c] * in[tap_at[k] + p][c]; the last vector, when it
//               overlaps, has its sums apart: channel channels - lanes + i is at channels / lanes * lanes + i
#pragma once

#include <cstdint>

namespace calor::cpu::lanes {

struct Convolve {
    const void* in;
    void* out;
    bool half;  ///< `in` and `out` are bf16, else f32
    std::int64_t in_pixel, out_pixel, pixels, channels;
    const std::int32_t *tap_at, *weight_at;
    std::int64_t taps;
    bool strips;  ///< taps come in threes: three adjacent pixels, each in_pixel after the one before
    const float* weights;
    const float* bias;               ///< a number a channel, or null
    std::int64_t next_in, next_out;  ///< distances to the rows that come next, which are brought near
};

/// Two adjacent rows of results of a 3 x 3 kernel: `in` is the first of four rows of pixels, which both share.
struct TwoRows {
    const void* in;
    void* out;
    bool half;
    std::int64_t in_row, in_pixel, out_row, out_pixel;
    std::int64_t pixels, channels;  ///< of a row, four at least
    const std::int32_t* weight_at;  ///< of 9 taps
    const float *weights, *bias;
};

struct Correlate {
    const void *grad, *in;
    bool half;
    std::int64_t grad_pixel, in_pixel, pixels, channels;
    const std::int32_t *tap_at, *sum_at;
    std::int64_t taps;
    bool strips;
    float* sums;
    std::int64_t next_in, next_grad;
};

struct Kernels {
    std::int64_t lanes;
    void (*convolve)(const Convolve& c);
    void (*two_rows)(const TwoRows& c);  ///< as convolve, bit by bit
    void (*correlate)(const Correlate& c);
    /// sums[c] += sum over p of grad[p][c], in the same places; reads grad, grad_pixel, pixels, channels, sums.
    void (*total)(const Correlate& c);
};

/// The kernels for this processor.
const Kernels& kernels();

}  // namespace calor::cpu::lanes
