// Clipping and schedules.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "calor/elementwise.h"
#include "calor/optim.h"
#include "calor/reduce.h"
#include "core/fail.h"

namespace calor::optim {
namespace {

void check_positive(double value, std::string_view operation, std::string_view option, const Where& where) {
    if (value > 0) return;
    fail("value/option", operation, where,
         {{"option", option},
          {"got", value},
          {"expected", "a number > 0"},
          {"help", "leave the call out to clip nothing"}});
}

/// Part of the way from `warmup` to `steps`, in [0, 1].
double progress(std::int64_t step, std::int64_t warmup, std::int64_t steps) {
    if (step >= steps || steps <= warmup) return 1;
    return static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
}
double warm(double rate, std::int64_t step, std::int64_t warmup) {
    return rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
}

}  // namespace

Tensor clip_grad_norm(Gradients& gradients, double max_norm, const Where& where) {
    const Naming naming("clip_grad_norm");
    check_positive(max_norm, "clip_grad_norm", "max_norm", where);
    const NoGrad guard;
    const std::vector<Tensor> values = gradients.values();
    const bool wide = std::ranges::any_of(values, [](const Tensor& t) { return t.dtype() == f64; });
    const DType dtype = wide ? f64 : f32;
    const OnDevice scope(values.empty() ? default_device() : values[0].device());
    Tensor total = scalar(0, dtype, where);
    for (const Tensor& g : values) total = total + sum(square(g.to(dtype, where), where), {}, false, where);
    const Tensor norm = sqrt(total, where);
    const Tensor factor = minimum(max_norm / (norm + 1e-6), 1.0, where);
    const std::vector<Tensor> keys = gradients.tensors();
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const DType compute = compute_type(values[i].dtype());
        gradients.set(keys[i], (values[i].to(compute, where) * factor.to(compute, where)).to(values[i].dtype(), where));
    }
    return norm;
}

void clip_grad_value(Gradients& gradients, double limit, const Where& where) {
    const Naming naming("clip_grad_value");
    check_positive(limit, "clip_grad_value", "limit", where);
    const NoGrad guard;
    const std::vector<Tensor> keys = gradients.tensors(), values = gradients.values();
    for (std::size_t i = 0; i < keys.size(); ++i) gradients.set(keys[i], clamp(values[i], -limit, limit, where));
}

double StepSchedule::operator()(std::int64_t step) const {
    return rate * std::pow(factor, static_cast<double>(every > 0 ? step / every : 0));
}

double CosineSchedule::operator()(std::int64_t step) const {
    if (step < warmup) return warm(rate, step, warmup);
    return last + (rate - last) * (1 + std::cos(std::numbers::pi * progress(step, warmup, steps))) / 2;
}

double LinearSchedule::operator()(std::int64_t step) const {
    if (step < warmup) return warm(rate, step, warmup);
    return steps > warmup ? rate + (last - rate) * progress(step, warmup, steps) : rate;
}

}  // namespace calor::optim
