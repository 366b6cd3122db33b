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
/// and each tap is a permutation of it. Makes growing and mildly shrinking along rows cheap.
struct LaneBlocks {
    std::int64_t window = 0;          ///< 8 or 16 inputs; 0: the table is not of this kind
    std::vector<std::int32_t> base;   ///< of each eight outputs; -1: their inputs lie farther apart
    std::vector<std::int32_t> start;  ///< of each block's taps, a vector each
    std::vector<std::int32_t> lane;   ///< input of each output, counted from the base
    std::vector<float> weight;
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
    bool selects_ = false;
    bool ascending_ = false;  ///< first and last inputs never go back
    mutable std::once_flag once_;
    mutable std::shared_ptr<const Table> transposed_;
};

using TableRef = std::shared_ptr<const Table>;

/// Entries that a table may have: more are an error where they are asked for.
inline constexpr std::int64_t most_entries = std::int64_t{1} << 28;

}  // namespace calor::ops::resample
