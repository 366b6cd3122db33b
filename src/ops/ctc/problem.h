// The part of a CTC loss that is no tensor: labels and lengths, checked and copied when the loss is recorded, so that
// whatever happens to the tensors later, forward and gradient see the same.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "calor/ctc.h"
#include "graph/operation.h"

namespace calor::ops::ctc {

struct Problem {
    bool logits = true;
    std::int64_t blank = 0;
    std::vector<std::int64_t> frames;  ///< one a sample
    std::vector<std::int64_t> labels;  ///< of all samples
    std::vector<std::int64_t> starts;  ///< of a sample's labels; one more than samples
    friend bool operator==(const Problem&, const Problem&) = default;

    std::int64_t samples() const { return std::ssize(frames); }
    std::span<const std::int64_t> labels_of(std::int64_t sample) const {
        const auto i = static_cast<std::size_t>(sample);
        return std::span(labels).subspan(static_cast<std::size_t>(starts[i]),
                                         static_cast<std::size_t>(starts[i + 1] - starts[i]));
    }
    std::int64_t frames_of(std::int64_t sample) const { return frames[static_cast<std::size_t>(sample)]; }
};

struct Attributes {
    std::shared_ptr<const Problem> problem;
    friend bool operator==(const Attributes& a, const Attributes& b) {
        return a.problem == b.problem || *a.problem == *b.problem;
    }
};

/// Checks everything at once and reads targets and lengths. `x` is [T, N, C].
std::shared_ptr<const Problem> make_problem(std::string_view operation, const Tensor& x, const Tensor& targets,
                                            const CtcOptions& options, bool logits, const Where& where);

// Implementations. Forward: x -> losses [N], for logits also the log-sums [T, N]. Gradient: x, losses, cotangents [N]
// and, for logits, log-sums -> the gradient of x.
void run_forward(const graph::Call& call);
void run_backward(const graph::Call& call);
void run_forward_reference(const graph::Call& call);
void run_backward_reference(const graph::Call& call);

// The same on GPUs, and of ctc_alpha and ctc_band.
std::span<const graph::Implementation> forward_on_gpu();
std::span<const graph::Implementation> backward_on_gpu();
std::span<const graph::Implementation> alpha_on_gpu();
std::span<const graph::Implementation> band_on_gpu();

/// Of ctc_band.
struct BandAttributes {
    bool transposed = false;
    friend bool operator==(const BandAttributes&, const BandAttributes&) = default;
};

/// The gradient rule of the gradient: inputs x, losses, g and perhaps log-sums; the losses and sums count as part of x.
void gradient_of_gradient(const graph::GradContext& c);
/// Records the gradient operation.
Tensor record_gradient(const Attributes& a, const Tensor& x, const Tensor& losses, const Tensor& g, const Tensor& sums,
                       const Where& where);

}  // namespace calor::ops::ctc
