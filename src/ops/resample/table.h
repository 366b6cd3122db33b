// The table of one axis: output i is the sum of weight[k] * input[index[k]] for k in [start[i], start[i + 1]), divided
// by `divisor` when there is one for all outputs, or by divisors[i]. Exact zeros are left out, so what they would have
// read is never read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace calor::ops::resample {

/// A table for vectors of eight outputs whose inputs lie within a window of a few vectors: what is read is the window,
/// and each tap is a permutation of it. Makes growing and mildly shrinking along rows cheap. The last block reaches
/// back into the one before where the outputs are no multiple of eight. An output with fewer taps than its block has
/// others of weight -0, whose input is 0: they change no bit of a sum.
struct LaneBlocks {
    std::int64_t window = 0;           ///< 8 or 16 inputs; 0: the table is not of this kind
    std::vector<std::int32_t> first;   ///< of each eight outputs
    std::vector<std::int32_t> base;    ///< of their window; -1: their inputs lie farther apart
    std::vector<std::int32_t> start;   ///< of each block's taps, a vector each
    std::vector<std::int32_t> lane;    ///< input of each output, counted from the base; -1: none
    std::vector<std::uint8_t> uneven;  ///< blocks of outputs without some taps
    std::vector<float> weight;
    std::vector<std::uint8_t> bytes;  ///< tables that select: of each block, places of 16-bit inputs in the window
};

/// The same for rows of 16-bit elements, by blocks of sixteen outputs: two windows, and each shuffle of bytes brings
/// the inputs of two taps of eight outputs side by side, of the even outputs and of the odd ones. Empty where some
/// inputs lie too far apart.
struct PairBlocks {
    std::vector<std::int32_t> first;   ///< of each sixteen outputs
    std::vector<std::int32_t> base;    ///< of the window of each eight of them
    std::vector<std::int32_t> start;   ///< of each block's pairs of taps
    std::vector<std::uint8_t> places;  ///< 64 a pair of taps: bytes in the window for the even outputs, then the odd
    std::vector<float> weight;         ///< 32 a pair: first and second tap of the even outputs, then of the odd
};

class Table {
public:
    std::int64_t inputs = 0, outputs = 0;
    std::vector<std::int32_t> start;  ///< outputs + 1
    std::vector<std::int32_t> index;
    std::vector<double> weight;
    std::vector<float> weight_f32;    ///< the same, rounded
    std::vector<std::int32_t> fixed;  ///< 22-bit fixed point, for 8-bit images; empty otherwise
    double divisor = 1;               ///< of every output
    std::vector<double> divisors;     ///< of each output; empty: none
    std::vector<float> divisors_f32;  ///< the same, rounded
    std::int64_t most_taps = 0;       ///< of one output
    std::int64_t most_span = 0;       ///< inputs from an output's first to its last
    LaneBlocks blocks;
    PairBlocks pairs;
    bool long_sums = false;  ///< many taps an output, side by side: dot products pay

    explicit Table(std::int64_t from, std::int64_t to) : inputs(from), outputs(to), start{0} {
        start.reserve(static_cast<std::size_t>(to) + 1);
    }
    /// Adds a tap to the output that is being built; taps of one input add up when they follow each other.
    void tap(std::int64_t input, double w) {
        if (static_cast<std::size_t>(start.back()) < index.size() && index.back() == input) {
            weight.back() += w;
            return;
        }
        index.push_back(static_cast<std::int32_t>(input));
        weight.push_back(w);
    }
    /// The output is complete.
    void next();
    /// All outputs are complete: fills what follows from the rest.
    void finish();

    std::int64_t taps() const { return static_cast<std::int64_t>(index.size()); }
    /// Inputs that outputs [begin, end) read: from the first to past the last; equal when there are none.
    std::pair<std::int64_t, std::int64_t> reach(std::int64_t begin, std::int64_t end) const {
        const std::int32_t from = start[static_cast<std::size_t>(begin)], to = start[static_cast<std::size_t>(end)];
        if (from == to) return {0, 0};
        if (ascending_) return {index[static_cast<std::size_t>(from)], index[static_cast<std::size_t>(to) - 1] + 1};
        const auto [low, high] = std::minmax_element(index.begin() + from, index.begin() + to);
        return {*low, *high + 1};
    }
    /// Output i is input i.
    bool identity() const;
    /// Every output is one input, as it is.
    bool selects() const { return selects_; }
    /// From outputs to inputs, for the gradient. Built once.
    std::shared_ptr<const Table> transposed() const;

    friend bool operator==(const Table& a, const Table& b) {
        return a.inputs == b.inputs && a.outputs == b.outputs && a.start == b.start && a.index == b.index &&
               a.weight == b.weight && a.fixed == b.fixed && a.divisor == b.divisor && a.divisors == b.divisors;
    }

private:
    void make_blocks();
    void make_pairs();
    /// First input of the window of eight outputs; -1: none is wide enough.
    std::int32_t window_of(std::int64_t first, std::int64_t window) const;
    /// Taps of the output of these eight that has most.
    std::int32_t taps_of_block(std::int64_t first, std::int64_t count) const;
    bool selects_ = false;
    bool ascending_ = false;  ///< first and last inputs never go back
    mutable std::once_flag once_;
    mutable std::shared_ptr<const Table> transposed_;
};

using TableRef = std::shared_ptr<const Table>;

/// Entries that a table may have: more are an error where they are asked for.
inline constexpr std::int64_t most_entries = std::int64_t{1} << 28;

}  // namespace calor::ops::resample
