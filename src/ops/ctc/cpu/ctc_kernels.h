// Kernels of the CTC loss. The 2 S + 1 states of a sample are kept as two arrays: blanks b_0 ... b_S (b_i before label
// i + 1) and labels l_1 ... l_S, in logarithms. A column holds both:
//   [margin] b_0 ... b_(slots - 1) [margin] l_0 ... l_(slots - 1) [margin]
// where l_0, the slots behind S and the margins hold `never`, the logarithm of a state that cannot be reached: finite,
// so that differences are never NaN. A frame costs, for every i,
//   u_i = b_i + l_i          b_i' = u_i e(blank)
//   l_i' = (l_i + (label i differs from label i - 1 ? u_(i-1) : b_(i-1))) e(label i)
// (read + as addition of probabilities): two logarithms for a blank and its label.
#pragma once

#include <cstdint>
#include <limits>

namespace calor::ops::ctc {

constexpr std::int64_t margin = 8;  // elements, a whole vector at least
template <class T> constexpr T never = -std::numeric_limits<T>::max() / 2;
/// Slots for the labels 1 ... S and slot 0.
constexpr std::int64_t slots_for(std::int64_t labels) { return (labels + 1 + margin - 1) / margin * margin; }
constexpr std::int64_t column_size(std::int64_t slots) { return 2 * slots + 3 * margin; }

/// What a frame needs beside the columns.
struct Frame {
    const void* emissions = nullptr;  ///< scores of the labels by slot; `never` where there is none
    double blank = 0;                 ///< score of the blank
    double offset = 0;                ///< added to every score: -(log-sum of the scores) - (what keeps numbers small)
    const void* skip = nullptr;       ///< by slot: 1 where the label differs from the one before it; `margin` more
    void* work = nullptr;             ///< slots + 2 margin elements
    std::int64_t slots = 0;
};

/// What one frame of the backward sweep gives.
struct Posteriors {
    double blank = 0, labels = 0;  ///< sums
    double largest = 0;            ///< of the new column
};

struct Kernels {
    /// log(sum(exp x)) of a row; NaN when an element is NaN.
    double (*logsumexp)(const void* x, std::int64_t n) = nullptr;
    /// y = g exp(x - sum)
    void (*softmax)(const void* x, void* y, std::int64_t n, double sum, double g) = nullptr;
    /// The column after a frame from the one before it; returns its largest element.
    double (*forward)(const Frame& frame, const void* before, void* after) = nullptr;
    /// `column` holds what follows this frame, frame t + 1 included, and becomes the same for t - 1. Posteriors of the
    /// labels exp(alpha + beta + scale) go to `labels` by slot.
    Posteriors (*backward)(const Frame& frame, const void* alpha, double scale, void* column, void* labels) = nullptr;
    /// log(exp a + exp b)
    double (*add)(double a, double b) = nullptr;
};

const Kernels& find_kernels(bool wide);

}  // namespace calor::ops::ctc
