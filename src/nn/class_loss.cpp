// Losses over classes: cross entropy and negative log likelihood.
#include "calor/nn/loss.h"

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/index.h"
#include "calor/reduce.h"
#include "calor/softmax.h"
#include "calor/view.h"
#include "core/fail.h"
#include "nn/loss_support.h"

namespace calor::nn {
namespace {

struct ClassLoss {
    std::string_view operation;
    const Where& where;
    std::int64_t axis = 0;     ///< of the classes
    std::int64_t classes = 0;  ///< C
};

ClassLoss check_scores(std::string_view operation, const Tensor& scores, const Tensor& weight, const Where& where) {
    check_defined(operation, {{&scores, "the input"}}, where);
    check_floating(operation, scores, "the input", where);
    const std::int64_t rank = scores.rank();
    if (rank == 0) {
        fail("shape/rank", operation, where,
             {{"argument", "the input"},
              {"got", rank},
              {"expected", "1 or more"},
              {"help", "the input is [C], [N, C] or [N, C, d...]"}},
             "input " + describe(scores));
    }
    ClassLoss loss{operation, where, rank == 1 ? 0 : 1, 0};
    loss.classes = scores.size(loss.axis);
    if (weight.defined()) {
        check_floating(operation, weight, "the weight", where);
        if (weight.shape() != Shape{loss.classes}) {
            fail("shape/mismatch", operation, where,
                 {{"argument", "the weight"},
                  {"got", weight.shape()},
                  {"expected", Shape{loss.classes}},
                  {"help", "one factor a class"}},
                 "input " + describe(scores) + ", weight " + describe(weight));
        }
    }
    return loss;
}

void check_targets(const ClassLoss& loss, const Tensor& scores, const Tensor& targets, const Shape& expected) {
    if (targets.shape() == expected) return;
    fail(
        "shape/mismatch", loss.operation, loss.where,
        {{"argument", "the target"},
         {"got", targets.shape()},
         {"expected", expected},
         {"help", "class indices have the input's shape without the class axis; probabilities have the input's shape"}},
        "input " + describe(scores) + ", target " + describe(targets));
}

/// The weight as [1, C, 1, ...], ready to broadcast.
Tensor along_classes(const Tensor& weight, const ClassLoss& loss, std::int64_t rank) {
    Shape shape(rank, 1);
    shape[loss.axis] = loss.classes;
    return reshape(weight, shape, loss.where);
}

/// What the scores of classes are.
enum class Scores : std::uint8_t { logits, log_probabilities };

Tensor from_indices(const ClassLoss& loss, const Tensor& scores, Scores kind, const Tensor& targets,
                    const CrossEntropyOptions& o) {
    const Where& at = loss.where;
    if (!is_integer(targets.dtype())) {
        fail("dtype/unsupported", loss.operation, at,
             {{"argument", "the target"}, {"got", targets.dtype()}, {"expected", "an integer dtype (class indices)"}},
             "target " + describe(targets));
    }
    Shape expected = scores.shape();
    expected.erase(loss.axis);
    check_targets(loss, scores, targets, expected);
    const Tensor wide = targets.to(i64, at);
    const Tensor counts = ne(wide, o.ignore_index, at);
    const Tensor classes = where(counts, wide, 0, at);
    const DType dtype = compute_type(scores.dtype());
    Tensor single, logs;  // logs: of all classes, where they are needed
    // The fused operation reads lines of classes: where they lie side by side.
    if (kind == Scores::logits && o.label_smoothing == 0 && loss.axis == scores.rank() - 1) {
        single = softmax_cross_entropy(scores, classes, loss.axis, at);
    } else {
        logs = scores.to(dtype, at);
        if (kind == Scores::logits) logs = log_softmax(logs, loss.axis, at);
        single = -squeeze(gather(logs, loss.axis, unsqueeze(classes, loss.axis, at), at), {loss.axis}, at);
    }
    Tensor factor;  // of each target; undefined: 1
    if (o.weight.defined()) {
        const Tensor weight = o.weight.to(dtype, at);
        factor = reshape(index_select(weight, 0, reshape(classes, {-1}, at), at), expected, at);
    }
    if (factor.defined()) single = single * factor;
    if (o.label_smoothing > 0) {
        const Tensor all =
            o.weight.defined() ? logs * along_classes(o.weight.to(logs.dtype(), at), loss, logs.rank()) : logs;
        const Tensor spread =
            sum(all, {loss.axis}, false, at) * (-o.label_smoothing / static_cast<double>(loss.classes));
        single = single * (1 - o.label_smoothing) + spread;
    }
    single = where(counts, single, 0, at);
    if (o.reduction != Reduction::mean) return reduced(single, o.reduction, at);
    const Tensor part = factor.defined() ? where(counts, factor, 0, at) : counts.to(dtype, at);
    return sum(single, {}, false, at) / sum(part, {}, false, at);
}

Tensor from_probabilities(const ClassLoss& loss, const Tensor& logs, const Tensor& targets,
                          const CrossEntropyOptions& o) {
    const Where& at = loss.where;
    check_targets(loss, logs, targets, logs.shape());
    Tensor t = targets.to(logs.dtype(), at);
    if (o.label_smoothing > 0) t = t * (1 - o.label_smoothing) + o.label_smoothing / static_cast<double>(loss.classes);
    Tensor product = logs * t;
    if (o.weight.defined()) product = product * along_classes(o.weight.to(logs.dtype(), at), loss, logs.rank());
    return reduced(-sum(product, {loss.axis}, false, at), o.reduction, at);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                     const Where& where) {
    const Naming naming("cross_entropy");
    const ClassLoss loss = check_scores("cross_entropy", logits, options.weight, where);
    check_defined(loss.operation, {{&targets, "the target"}}, where);
    if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
        fail("value/option", loss.operation, where,
             {{"option", "label_smoothing"},
              {"got", options.label_smoothing},
              {"expected", "a number in [0, 1]"},
              {"help", "0 switches it off, 0.1 is common"}});
    }
    if (!is_floating(targets.dtype())) return from_indices(loss, logits, Scores::logits, targets, options);
    const Tensor logs = log_softmax(logits.to(compute_type(logits.dtype()), where), loss.axis, where);
    return from_probabilities(loss, logs, targets, options);
}

Tensor nll(const Tensor& log_probabilities, const Tensor& targets, const NllOptions& o, const Where& where) {
    const Naming naming("nll");
    const ClassLoss loss = check_scores("nll", log_probabilities, o.weight, where);
    check_defined(loss.operation, {{&targets, "the target"}}, where);
    return from_indices(loss, log_probabilities, Scores::log_probabilities, targets,
                        {.weight = o.weight, .ignore_index = o.ignore_index, .reduction = o.reduction});
}

}  // namespace calor::nn
