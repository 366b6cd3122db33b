// Connectionist temporal classification: the loss of label sequences without an alignment (Graves, Fernandez, Gomez and
// Schmidhuber 2006).
//
// A sample has T frames of scores over C classes, one of which is the blank, and S labels. Its loss is -log of the
// probability that the frames, drawn independently, give the labels when repetitions are merged and blanks dropped.
// That takes T >= S + (neighbouring equal labels); with fewer frames the loss is inf and its gradient 0.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "calor/tensor.h"

namespace calor {

/// One length a sample: a tensor of integers of shape [N], or numbers. Default-constructed: every sample is full.
class Lengths {
public:
    Lengths() = default;
    Lengths(Tensor lengths) : tensor_(std::move(lengths)) {}  // NOLINT: a tensor will do
    Lengths(std::vector<std::int64_t> lengths)
        : values_(std::move(lengths)), given_(true) {}  // NOLINT: so will numbers
    Lengths(std::initializer_list<std::int64_t> lengths) : values_(lengths), given_(true) {}
    const Tensor& tensor() const { return tensor_; }
    const std::vector<std::int64_t>& values() const { return values_; }
    bool given() const { return given_ || tensor_.defined(); }

private:
    Tensor tensor_;
    std::vector<std::int64_t> values_;
    bool given_ = false;
};

enum class CtcReduction : std::uint8_t {
    mean,  ///< each loss divided by its number of labels (at least 1), then their mean
    sum,
    none,  ///< a loss for each sample
};

struct CtcOptions {
    Lengths input_lengths = {};   ///< frames that count; those behind get gradient 0
    Lengths target_lengths = {};  ///< labels that count
    std::int64_t blank = 0;       ///< the class of the blank
    CtcReduction reduction = CtcReduction::mean;
    bool zero_infinity = false;  ///< samples that cannot be aligned have loss 0 instead of inf
};

/// The loss of `logits` [T, N, C], or [T, C] for one sample: log_softmax over the classes is part of it. `targets` are
/// labels of any integer dtype: [N, S] padded (what stands behind a sample's length is not read), or all samples'
/// labels one behind the other in [S1 + ... + SN]. f16 and bf16 are computed in f32, which the loss has; the gradient
/// has the dtype of the logits. Gradients of any order. T, S and C are bounded by memory alone.
///
/// Time is linear in T (2 S + 1) + T C. Memory beside the results: T numbers a sample from the loss to its gradient;
/// while the gradient is computed, a worker holds columns of 2 S + 1 states, as many as take 4 MiB or 32 numbers a
/// frame (16 at least, T at most), computes those between again, and holds a few rows of C.
///
/// Targets and lengths are read when the loss is recorded. A score that is NaN or +inf gives its sample a loss of NaN.
/// Throws ShapeError [shape/rank], [shape/mismatch], DTypeError [dtype/unsupported], ValueError [ctc/length],
/// [ctc/target-count], [ctc/blank-label], [index/range], [value/count], [value/option], [tensor/undefined].
Tensor ctc_loss(const Tensor& logits, const Tensor& targets, const CtcOptions& options = {},
                const Where& where = Where::current());
/// The same of log-probabilities, which are not normalised again: the gradient is the one by the log-probabilities
/// themselves, so that classes that no label names get 0.
Tensor ctc_loss_of_log_probabilities(const Tensor& log_probabilities, const Tensor& targets,
                                     const CtcOptions& options = {}, const Where& where = Where::current());

}  // namespace calor
