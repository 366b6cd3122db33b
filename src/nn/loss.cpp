// Losses that compare element by element.
#include "calor/nn/loss.h"

#include <cmath>
#include <limits>

#include "calor/activations.h"
#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/reduce.h"
#include "core/fail.h"
#include "nn/loss_support.h"

namespace calor::nn {

void check_defined(std::string_view operation, std::initializer_list<std::pair<const Tensor*, const char*>> tensors,
                   const Where& where) {
    for (const auto& [t, name] : tensors) {
        if (!t->defined()) fail("tensor/undefined", operation, where, {{"argument", name}});
    }
}

void check_floating(std::string_view operation, const Tensor& t, std::string_view argument, const Where& where) {
    if (is_floating(t.dtype())) return;
    fail("dtype/unsupported", operation, where,
         {{"argument", argument}, {"got", t.dtype()}, {"expected", "a floating dtype"}}, describe(t));
}

Tensor reduced(const Tensor& losses, Reduction reduction, const Where& where) {
    switch (reduction) {
        case Reduction::none: return losses;
        case Reduction::sum: return sum(losses, {}, false, where);
        case Reduction::batch_mean: {
            const auto batch = static_cast<double>(losses.rank() == 0 ? 1 : losses.size(0));
            return sum(losses, {}, false, where) / batch;
        }
        case Reduction::mean: break;
    }
    return mean(losses, {}, false, where);
}

namespace {

/// Prediction and target in the dtype to compute in.
struct Compared {
    Tensor x, t;
};
Compared compare(std::string_view operation, const Tensor& prediction, const Tensor& target, const Where& where) {
    check_defined(operation, {{&prediction, "the prediction"}, {&target, "the target"}}, where);
    check_floating(operation, prediction, "the prediction", where);
    if (prediction.shape() != target.shape()) {
        fail("shape/mismatch", operation, where,
             {{"argument", "the target"},
              {"got", target.shape()},
              {"expected", prediction.shape()},
              {"help", "losses do not broadcast: expand or reshape the target"}},
             "prediction " + describe(prediction) + ", target " + describe(target));
    }
    const DType dtype = is_floating(target.dtype()) ? promote(prediction.dtype(), target.dtype()) : prediction.dtype();
    return {prediction.to(compute_type(dtype), where), target.to(compute_type(dtype), where)};
}

/// factor * losses; the factor broadcasts to the losses' shape and not beyond.
Tensor weighted(std::string_view operation, const Tensor& losses, const Tensor& weight, std::string_view name,
                const Where& where) {
    if (!weight.defined()) return losses;
    const Tensor product = mul(losses, weight.to(losses.dtype(), where), where);
    if (product.shape() != losses.shape()) {
        fail("shape/mismatch", operation, where,
             {{"argument", name},
              {"got", weight.shape()},
              {"expected", losses.shape()},
              {"help", "it broadcasts to the shape of the prediction"}});
    }
    return product;
}

void check_threshold(std::string_view operation, std::string_view option, double value, bool good, const Where& where) {
    if (good && std::isfinite(value)) return;
    fail("value/option", operation, where,
         {{"option", option}, {"got", value}, {"expected", "a finite number > 0"}, {"help", "1 is the default"}});
}

double smallest_normal(DType dtype) {
    return dtype == f64 ? std::numeric_limits<double>::min() : static_cast<double>(std::numeric_limits<float>::min());
}

/// log p, but -100 with gradient 0 where p is 0. A negative p gives NaN, as log does.
Tensor clamped_log(const Tensor& p, const Where& at) {
    const Tensor zero = lt(abs(p, at), smallest_normal(p.dtype()), at);
    return where(zero, -100.0, log(where(zero, 1.0, p, at), at), at);
}

}  // namespace

Tensor mse(const Tensor& prediction, const Tensor& target, const LossOptions& o, const Where& where) {
    const Naming naming("mse");
    const auto [x, t] = compare("mse", prediction, target, where);
    return reduced(square(x - t, where), o.reduction, where);
}

Tensor l1(const Tensor& prediction, const Tensor& target, const LossOptions& o, const Where& where) {
    const Naming naming("l1");
    const auto [x, t] = compare("l1", prediction, target, where);
    return reduced(abs(x - t, where), o.reduction, where);
}

Tensor smooth_l1(const Tensor& prediction, const Tensor& target, const SmoothL1Options& o, const Where& at) {
    const Naming naming("smooth_l1");
    check_threshold("smooth_l1", "beta", o.beta, o.beta >= 0, at);
    const auto [x, t] = compare("smooth_l1", prediction, target, at);
    const Tensor d = x - t, size = abs(d, at);
    if (o.beta == 0) return reduced(size, o.reduction, at);
    return reduced(where(lt(size, o.beta, at), square(d, at) * (0.5 / o.beta), size - 0.5 * o.beta, at), o.reduction,
                   at);
}

Tensor huber(const Tensor& prediction, const Tensor& target, const HuberOptions& o, const Where& at) {
    const Naming naming("huber");
    check_threshold("huber", "delta", o.delta, o.delta > 0, at);
    const auto [x, t] = compare("huber", prediction, target, at);
    const Tensor d = x - t, size = abs(d, at);
    return reduced(where(le(size, o.delta, at), square(d, at) * 0.5, (size - 0.5 * o.delta) * o.delta, at), o.reduction,
                   at);
}

Tensor bce(const Tensor& probability, const Tensor& target, const BceOptions& o, const Where& where) {
    const Naming naming("bce");
    const auto [p, t] = compare("bce", probability, target, where);
    const Tensor loss = -(t * clamped_log(p, where) + (1.0 - t) * clamped_log(1.0 - p, where));
    return reduced(weighted("bce", loss, o.weight, "the weight", where), o.reduction, where);
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceWithLogitsOptions& o, const Where& where) {
    const Naming naming("bce_with_logits");
    const auto [x, t] = compare("bce_with_logits", logits, target, where);
    const Tensor logs = log_sigmoid(x, where);
    Tensor loss;
    if (o.pos_weight.defined()) {
        const Tensor more = weighted("bce_with_logits", t, o.pos_weight - 1.0, "pos_weight", where);
        loss = (1.0 - t) * x - (1.0 + more) * logs;
    } else {
        loss = (1.0 - t) * x - logs;
    }
    return reduced(weighted("bce_with_logits", loss, o.weight, "the weight", where), o.reduction, where);
}

Tensor kl_div(const Tensor& log_prediction, const Tensor& target, const KlDivOptions& o, const Where& where) {
    const Naming naming("kl_div");
    const auto [x, t] = compare("kl_div", log_prediction, target, where);
    const Tensor loss = o.log_target ? exp(t, where) * (t - x) : xlogy(t, t, where) - t * x;
    return reduced(loss, o.reduction, where);
}

}  // namespace calor::nn
