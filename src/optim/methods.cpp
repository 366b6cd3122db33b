// The update rules. Numbers that depend on the step are computed in double on the host.
#include <cmath>

#include "calor/elementwise.h"
#include "calor/optim.h"
#include "core/fail.h"

namespace calor::optim {
namespace {

void check(bool good, std::string_view operation, std::string_view option, double got, std::string_view expected,
           const Where& where) {
    if (good && std::isfinite(got)) return;
    fail("value/option", operation, where,
         {{"option", option}, {"got", got}, {"expected", expected}, {"help", "see the optimizer's options"}});
}

}  // namespace

SGD::SGD(const nn::State& parameters, const SGDOptions& o, const Where& where)
    : Optimizer("SGD", parameters, o.learning_rate, where), options_(o) {
    check(o.momentum >= 0, "SGD", "momentum", o.momentum, "a number >= 0", where);
    check(true, "SGD", "dampening", o.dampening, "a finite number", where);
    check(o.weight_decay >= 0, "SGD", "weight_decay", o.weight_decay, "a number >= 0", where);
    check(!o.nesterov || o.momentum > 0, "SGD", "momentum", o.momentum, "more than 0 with nesterov", where);
    check(!o.nesterov || o.dampening == 0, "SGD", "dampening", o.dampening, "0 with nesterov", where);
}

std::vector<std::string_view> SGD::moment_names() const {
    if (options_.momentum == 0) return {};
    return {"momentum_buffer"};
}

Optimizer::Update SGD::update(const Tensor& value, const Tensor& gradient, const std::vector<Tensor>& moments,
                              std::int64_t step) const {
    const SGDOptions& o = options_;
    Tensor d = gradient;
    if (o.weight_decay != 0) d = d + value * o.weight_decay;
    if (o.momentum == 0) return {value - d * learning_rate(), {}};
    const Tensor b = step == 1 ? d : moments[0] * o.momentum + d * (1 - o.dampening);
    return {value - (o.nesterov ? d + b * o.momentum : b) * learning_rate(), {b}};
}

Adam::Adam(const nn::State& parameters, const AdamOptions& options, const Where& where)
    : Adam("Adam", parameters, options, false, where) {}

Adam::Adam(std::string_view operation, const nn::State& parameters, const AdamOptions& o, bool decoupled,
           const Where& where)
    : Optimizer(operation, parameters, o.learning_rate, where), options_(o), decoupled_(decoupled) {
    check(o.beta1 >= 0 && o.beta1 < 1, operation, "beta1", o.beta1, "a number in [0, 1)", where);
    check(o.beta2 >= 0 && o.beta2 < 1, operation, "beta2", o.beta2, "a number in [0, 1)", where);
    check(o.epsilon >= 0, operation, "epsilon", o.epsilon, "a number >= 0", where);
    check(o.weight_decay >= 0, operation, "weight_decay", o.weight_decay, "a number >= 0", where);
}

AdamW::AdamW(const nn::State& parameters, const AdamWOptions& o, const Where& where)
    : Adam("AdamW", parameters,
           {.learning_rate = o.learning_rate,
            .beta1 = o.beta1,
            .beta2 = o.beta2,
            .epsilon = o.epsilon,
            .weight_decay = o.weight_decay,
            .amsgrad = o.amsgrad},
           true, where) {}

std::vector<std::string_view> Adam::moment_names() const {
    if (options_.amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    return {"exp_avg", "exp_avg_sq"};
}

Optimizer::Update Adam::update(const Tensor& value, const Tensor& gradient, const std::vector<Tensor>& moments,
                               std::int64_t step) const {
    const AdamOptions& o = options_;
    const double rate = learning_rate(), count = static_cast<double>(step);
    const double first = 1 - std::pow(o.beta1, count), second = 1 - std::pow(o.beta2, count);
    const bool decays = o.weight_decay != 0;
    const Tensor g = decays && !decoupled_ ? gradient + value * o.weight_decay : gradient;
    const Tensor m = lerp(moments[0], g, 1 - o.beta1);  // fewer steps in the fused loop than two products and a sum
    const Tensor v = lerp(moments[1], square(g), 1 - o.beta2);
    Update next{.value = {}, .moments = {m, v}};
    if (o.amsgrad) next.moments.push_back(maximum(moments[2], v));
    const Tensor scale = sqrt(next.moments.back()) * (1 / std::sqrt(second)) + o.epsilon;
    const Tensor base = decays && decoupled_ ? value * (1 - rate * o.weight_decay) : value;
    next.value = base - m * (rate / first) / scale;
    return next;
}

}  // namespace calor::optim
