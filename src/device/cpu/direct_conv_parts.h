// Parts that the roles of the direct convolution share: the problem, tables of offsets, operands as the kernels want
// them. Included by the direct_conv*.cpp files alone.
#pragma once

#include <cstdint>
#include <vector>

#include "device/cpu/conv_types.h"
#include "device/cpu/pack.h"
#include "device/cpu/scratch.h"
#include "device/view.h"

namespace calor::cpu::direct {

using Offsets = std::vector<std::int32_t>;

struct Problem {
    ConvRole role;
    const View &x, &w, &y;
    const View* bias;
    const ConvSettings& s;
    bool relu = false;

    std::int64_t axes() const { return s.stride.rank(); }
    std::int64_t images() const { return x.size(0); }
    std::int64_t group_in() const { return w.size(1); }
    std::int64_t group_out() const { return w.size(0) / s.groups; }
    const View& result() const { return role == ConvRole::forward ? y : role == ConvRole::input_grad ? x : w; }
};

std::int64_t product(const Dims& dims);
/// The axes after the first two.
Dims spatial(const Dims& dims);
/// Entry by entry.
Dims times(const Dims& a, const Dims& b);

/// offsets[linear index] = base + sum of index[i] * steps[i], the last axis fastest.
Offsets grid(const Dims& sizes, const Dims& steps, std::int64_t base = 0);
/// Every offset, then those of its channels: the kernels' list of taps.
Offsets with_channels(const Offsets& taps, std::int64_t channels);

/// The part of an input that a role reads: along axis i, positions [low, low + extents) of it, zeros outside.
struct Window {
    Dims low, extents;
};

Window window_of(const Problem& p);

/// Weights in f32 with any strides.
struct FloatWeights {
    explicit FloatWeights(const View& v);
    const float* data;
    Dims strides;
    Scratch copy;
};

/// In f32; empty for null.
std::vector<float> dense_bias(const View* bias);

/// Null when the problem can run, else why not.
const char* check(const Problem& p);

/// An input as the kernels read it: f32, channels adjacent, every position of the window inside. It is read in place
/// when it already lies so; else images are copied to a Room before use.
class Input {
public:
    Input(const View& view, Window window);
    std::int64_t image = 0;  ///< distance between images
    Dims steps;              ///< distances along the spatial axes
    bool in_place() const { return data_ != nullptr; }
    const float* data() const { return data_; }
    /// Copies images [first, first + count) into memory whose padding is zero already.
    void copy(std::int64_t first, std::int64_t count, float* to) const;

private:
    const View& view_;
    Window window_;
    const float* data_ = nullptr;
};

/// Where copies of `count` images at a time are made; nothing for an input that is read in place.
class Room {
public:
    Room(const Input& input, std::int64_t count);
    /// Makes images [first, first + count) ready; returns the first one. Threads share the work.
    const float* get(std::int64_t first, std::int64_t count) const;

private:
    const Input& input_;
    Scratch copy_;
};

/// A result as the kernels write it: with adjacent channels, f32 in place or 16 bits by the segment; otherwise a copy
/// that give_back() converts.
struct Output {
    explicit Output(const View& v);
    void give_back() const;
    const View& view;
    Dims strides;
    float* data = nullptr;             ///< of f32
    std::uint16_t* rounded = nullptr;  ///< of 16-bit floats
    Scratch copy;
};

void run_weight_grad(const Problem& p);

}  // namespace calor::cpu::direct
