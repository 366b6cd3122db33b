// Losses. Definitions, defaults and corner cases are PyTorch's, so that a training recipe carries over. f16 and bf16
// predictions are computed and given in f32. Every loss is differentiable to any order, in targets and weights too
// where they are floating.
#pragma once

#include <cstdint>

#include "calor/tensor.h"

namespace calor::nn {

/// What becomes of the single losses. The mean of nothing is NaN (with zero gradients to what lies below).
enum class Reduction : std::uint8_t {
    mean,        ///< their mean; weighted where class weights are given
    sum,         ///< their sum
    none,        ///< nothing: a loss for each
    batch_mean,  ///< their sum divided by the size of axis 0
};

struct CrossEntropyOptions {
    Tensor weight = {};                ///< [C]: factors of the classes
    std::int64_t ignore_index = -100;  ///< targets that count for nothing (class indices only)
    double label_smoothing =
        0;  ///< in [0, 1]: this part of the target is spread over all classes (Szegedy et al. 2016)
    Reduction reduction = Reduction::mean;
};
/// -log softmax(logits)[target]. logits [C], [N, C] or [N, C, d...]; targets are class indices of any integer dtype, of
/// shape [], [N] or [N, d...], or probabilities of a floating dtype in the shape of logits. The loss has the shape of
/// the indices. The mean divides by the sum of the weights of the targets that are not ignored (their number without
/// weights): NaN if all are ignored; with probabilities by N * d.... Throws ShapeError [shape/rank], [shape/mismatch],
/// DTypeError [dtype/unsupported], ValueError [value/option]; when evaluated, ValueError [index/range] for a target
/// outside [0, C).
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
                     const Where& where = Where::current());

struct NllOptions {
    Tensor weight = {};
    std::int64_t ignore_index = -100;
    Reduction reduction = Reduction::mean;
};
/// -log_probabilities[target] (negative log likelihood): cross_entropy of logits that already are log probabilities;
/// class indices only. Throws as cross_entropy.
Tensor nll(const Tensor& log_probabilities, const Tensor& targets, const NllOptions& options = {},
           const Where& where = Where::current());

struct LossOptions {
    Reduction reduction = Reduction::mean;
};
/// (prediction - target)^2. Shapes agree exactly. Throws ShapeError [shape/mismatch], DTypeError [dtype/unsupported].
Tensor mse(const Tensor& prediction, const Tensor& target, const LossOptions& options = {},
           const Where& where = Where::current());
/// |prediction - target|; the gradient at 0 is 0. Throws as mse.
Tensor l1(const Tensor& prediction, const Tensor& target, const LossOptions& options = {},
          const Where& where = Where::current());

struct SmoothL1Options {
    double beta = 1;  ///< at least 0; 0 is l1
    Reduction reduction = Reduction::mean;
};
/// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, with d = prediction - target. Throws as mse, ValueError
/// [value/option].
Tensor smooth_l1(const Tensor& prediction, const Tensor& target, const SmoothL1Options& options = {},
                 const Where& where = Where::current());

struct HuberOptions {
    double delta = 1;  ///< larger than 0
    Reduction reduction = Reduction::mean;
};
/// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2) (Huber 1964). Throws as mse, ValueError [value/option].
Tensor huber(const Tensor& prediction, const Tensor& target, const HuberOptions& options = {},
             const Where& where = Where::current());

struct BceOptions {
    Tensor weight = {};  ///< factors of the losses; broadcasts to their shape
    Reduction reduction = Reduction::mean;
};
/// -(t log p + (1 - t) log(1 - p)) for probabilities p in [0, 1]; logarithms of 0 count as -100 and have gradient 0
/// there. Prefer bce_with_logits, which has no such corner. Throws as mse.
Tensor bce(const Tensor& probability, const Tensor& target, const BceOptions& options = {},
           const Where& where = Where::current());

struct BceWithLogitsOptions {
    Tensor weight = {};
    Tensor pos_weight = {};  ///< factors of the t log p part; broadcasts to the shape of the logits
    Reduction reduction = Reduction::mean;
};
/// bce of sigmoid(logits), computed without overflow: (1 - t) x - (1 + (pos_weight - 1) t) log sigmoid(x). Throws as
/// mse.
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceWithLogitsOptions& options = {},
                       const Where& where = Where::current());

struct KlDivOptions {
    bool log_target = false;  ///< the target holds log probabilities too
    Reduction reduction = Reduction::batch_mean;
};
/// t (log t - log_prediction), the divergence of the prediction from the target t (Kullback and Leibler 1951); 0 where
/// t is 0. With batch_mean, the default, it is the divergence an example. Throws as mse.
Tensor kl_div(const Tensor& log_prediction, const Tensor& target, const KlDivOptions& options = {},
              const Where& where = Where::current());

}  // namespace calor::nn
