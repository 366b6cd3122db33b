// The inner loops of the planar convolution. A plane is a channel of an image, copied with the zeros around it; all
// planes of a problem have the same distances between rows, so that a tap is a distance in memory and an image is one
// long row. Vectors run along it. Offsets are in floats.
//   convolve:   out[o][p] = bias[o] (or out[o][p]) + sum over k of in[tap_at[k] + p] * weights[k][o]
//   correlate:  sums[o][k][lane] += sum over p of grad[grad_at[o] + p] * in[in_at[k] + p], p = lane modulo the lanes
// Both hold up to 12 vectors of sums in registers.
#pragma once

#include <cstdint>

namespace calor::cpu::planar {

constexpr std::int64_t most_sums = 12;
/// Room past the end of every plane and result: kernels read and write whole vectors.
constexpr std::int64_t margin = 16;

struct Convolve {
    const float* in;
    const std::int32_t* tap_at;
    std::int64_t taps;
    const float* weights;  ///< [tap][outputs]
    const float* bias;     ///< [outputs], or null
    bool accumulate;       ///< starts from what `out` holds in place of the bias
    std::int64_t outputs;  ///< 1 to 4
    float* out;
    std::int64_t out_step;  ///< distance between outputs
    std::int64_t length;    ///< rounded up to whole vectors
};

/// 1 to 3 adjacent rows of 1 to 3 taps each.
struct Block {
    std::int32_t at[3];  ///< taps of the first row
    std::int32_t rows, columns;
};

/// A kernel cut into blocks: four adjacent result rows share what they read, in registers.
struct ConvolveRows {
    const float* in;  ///< the plane, where the first result has its origin
    std::int64_t in_pitch;
    const Block* blocks;
    std::int64_t count;
    const float* weights;  ///< [block][row][column]
    float bias;
    void* out;
    bool half;  ///< results are bf16, else f32
    std::int64_t out_pitch, rows;
    std::int64_t length;  ///< of a row; reads are rounded up to whole vectors, writes are not
};

struct Correlate {
    const float *grad, *in;
    const std::int32_t *grad_at, *in_at;
    std::int64_t outputs, taps;  ///< 1 to 4; outputs * taps is at most 12
    std::int64_t length;         ///< rounded up to whole vectors, where grad has zeros
    float* sums;                 ///< [outputs][taps][lanes]
};

/// Rows of adjacent elements copied apart, each between zeros.
struct PadRows {
    const void* from;
    bool half;  ///< `from` is bf16, else f32
    std::int64_t from_row;
    float* to;
    std::int64_t to_row, rows, left, count, right;
};

struct Kernels {
    std::int64_t lanes;
    void (*convolve)(const Convolve& c);
    void (*convolve_rows)(const ConvolveRows& c);
    void (*correlate)(const Correlate& c);
    /// The sum of `length` values (rounded up to whole vectors), in f32 within a run of 1024 and f64 across.
    double (*total)(const float* values, std::int64_t length);
    void (*pad_rows)(const PadRows& p);
    /// bf16 to f32 and back (to nearest even): short rows of any length, without a scalar rest from `lanes` on.
    void (*widen)(const std::uint16_t* from, float* to, std::int64_t count);
    void (*narrow)(const float* from, std::uint16_t* to, std::int64_t count);
};

/// The kernels for this processor.
const Kernels& kernels();

}  // namespace calor::cpu::planar
