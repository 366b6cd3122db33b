// The CTC loss as an operation: scores [T, N, C] -> losses [N]. For logits it also gives the log-sums [T, N] of the
// frames, which is all that the gradient needs beside the scores.
#include "calor/ctc.h"

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/reduce.h"
#include "calor/view.h"
#include "ops/ctc/problem.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace calor {
namespace ops::ctc {
namespace {

const graph::Implementation forward_list[] = {{.name = "lanes", .run = run_forward},
                                              {.name = "reference", .run = run_forward_reference}};
const graph::Implementation backward_list[] = {{.name = "lanes", .run = run_backward},
                                               {.name = "reference", .run = run_backward_reference}};

graph::Specs infer_forward(const graph::InferContext& c) {
    const Tensor& x = c.inputs[0];
    const DType wide = compute_type(x.dtype());
    graph::Specs specs{{Shape{x.shape()[1]}, wide}};
    if (c.attrs<Attributes>().problem->logits) specs.push_back({Shape{x.shape()[0], x.shape()[1]}, wide});
    return specs;
}

void forward_gradient(const graph::GradContext& c) {
    const auto& a = c.attrs<Attributes>();
    const Tensor g = c.cotangent().to(c.outputs[0].dtype(), c.where);
    c.grads[0] = record_gradient(a, c.inputs[0], c.outputs[0], g, a.problem->logits ? c.outputs[1] : Tensor(), c.where);
}

const graph::Operation gradient_operation{
    .name = "ctc_loss_grad",
    .infer =
        [](const graph::InferContext& c) {
            return graph::Specs{{c.inputs[0].shape(), c.inputs[0].dtype()}};
        },
    .gradient = gradient_of_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(backward_list); },
    .gpu_implementations = backward_on_gpu};

constexpr graph::Operation forward_operation(std::string_view name) {
    graph::Operation op;
    op.name = name;
    op.infer = infer_forward;
    op.gradient = forward_gradient;
    op.implementations = [](DeviceKind) { return std::span<const graph::Implementation>(forward_list); };
    op.gpu_implementations = forward_on_gpu;
    return op;
}

constinit const graph::Operation loss_operation = forward_operation("ctc_loss");
constinit const graph::Operation loss_of_log_probabilities_operation =
    forward_operation("ctc_loss_of_log_probabilities");

/// max(labels, 1) of every sample.
Tensor label_counts(const Problem& p, DType dtype, const Where& where) {
    std::vector<double> counts;
    for (std::int64_t n = 0; n < p.samples(); ++n)
        counts.push_back(static_cast<double>(std::max<std::int64_t>(1, std::ssize(p.labels_of(n)))));
    return tensor(counts, where).to(dtype, where);
}

Tensor record_loss(const graph::Operation& op, const Tensor& scores, const Tensor& targets, const CtcOptions& options,
                   bool logits, const Where& where) {
    check_defined(op.name, scores, "the scores", where);
    check_defined(op.name, targets, "the targets", where);
    const std::int64_t rank = scores.rank();
    if (rank != 2 && rank != 3) {
        fail("shape/rank", op.name, where,
             {{"argument", "the scores"},
              {"got", rank},
              {"expected", "2 or 3"},
              {"help", "scores are [T, N, C], or [T, C] for one sample"}},
             describe(scores));
    }
    const Tensor x = rank == 2 ? unsqueeze(scores, 1, where) : scores;
    const auto problem = make_problem(op.name, x, targets, options, logits, where);
    Tensor losses = graph::record(op, Attributes{problem}, {x}, where);
    if (options.zero_infinity) losses = calor::where(isinf(losses, where), 0, losses, where);
    switch (options.reduction) {
        case CtcReduction::none: return rank == 2 ? reshape(losses, Shape{}, where) : losses;
        case CtcReduction::sum: return sum(losses, {}, false, where);
        case CtcReduction::mean: break;
    }
    const OnDevice scope(losses.device());
    return mean(div(losses, label_counts(*problem, losses.dtype(), where), where), {}, false, where);
}

}  // namespace

Tensor record_gradient(const Attributes& a, const Tensor& x, const Tensor& losses, const Tensor& g, const Tensor& sums,
                       const Where& where) {
    if (!sums.defined()) return graph::record(gradient_operation, a, {x, losses, g}, where);
    return graph::record(gradient_operation, a, {x, losses, g, sums}, where);
}

}  // namespace ops::ctc

Tensor ctc_loss(const Tensor& logits, const Tensor& targets, const CtcOptions& options, const Where& where) {
    const Naming naming("ctc_loss");
    return ops::ctc::record_loss(ops::ctc::loss_operation, logits, targets, options, true, where);
}

Tensor ctc_loss_of_log_probabilities(const Tensor& log_probabilities, const Tensor& targets, const CtcOptions& options,
                                     const Where& where) {
    const Naming naming("ctc_loss_of_log_probabilities");
    return ops::ctc::record_loss(ops::ctc::loss_of_log_probabilities_operation, log_probabilities, targets, options,
                                 false, where);
}

ops::Descriptors ops::ctc_descriptors() {
    return {&ops::ctc::loss_operation, &ops::ctc::loss_of_log_probabilities_operation, &ops::ctc::gradient_operation};
}

}  // namespace calor
