// Optimizers, gradient clipping, learning-rate schedules. An optimizer shares the cells of the parameters that it is
// given:
//     ca::optim::AdamW optimizer{ca::nn::parameters(net), {.learning_rate = 1e-3}};
//     optimizer.step(ca::backward(loss));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "calor/autodiff.h"
#include "calor/named_tensor.h"
#include "calor/nn/module.h"

namespace calor::optim {

/// What optimizers share. A step records one elementwise chain a parameter and evaluates all new values together with
/// what they need of the forward and backward pass. Parameters without a gradient, and frozen ones, stay as they are.
/// f16 and bf16 parameters keep their state in f32. If evaluation fails, parameters and state are as before the step.
class Optimizer {
public:
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;
    Optimizer(Optimizer&&) noexcept = default;
    Optimizer& operator=(Optimizer&&) noexcept = default;
    virtual ~Optimizer() = default;

    /// Changes every parameter that has a gradient. Throws ShapeError [shape/mismatch] when a gradient was set by hand
    /// with another shape, and whatever the evaluation throws.
    void step(const Gradients& gradients, const Where& where = Where::current());

    double learning_rate() const { return learning_rate_; }
    /// Throws ValueError [value/option] for a negative or non-finite rate.
    void set_learning_rate(double rate, const Where& where = Where::current());

    /// Everything that a later step depends on, apart from the options: for every stepped parameter "<name>.step" (i64)
    /// and its moments, "<name>.exp_avg" and the like. Saved and loaded, training goes on with the same bits.
    NamedTensors state() const;
    /// Sets what state() gave, all or nothing. Throws ValueError [optim/state] for unknown names and wrong shapes or
    /// dtypes.
    void load_state(const NamedTensors& state, const Where& where = Where::current());

protected:
    struct Slot {
        std::string name;
        std::shared_ptr<StateCell> cell;
        std::vector<Tensor> moments;  ///< empty before the first step
        std::int64_t step = 0;        ///< steps taken
    };
    /// The new value and moments of a parameter whose step number is `step`, counted from 1.
    struct Update {
        Tensor value;
        std::vector<Tensor> moments;
    };
    /// Throws ValueError [optim/parameters] for an empty list, buffers in it, or a parameter or name that stands twice.
    Optimizer(std::string_view operation, const nn::State& parameters, double learning_rate, const Where& where);
    /// Names of the moments, one list a class of optimizer.
    virtual std::vector<std::string_view> moment_names() const = 0;
    /// Records the update of one parameter; value, gradient and moments are floating tensors of at least f32.
    virtual Update update(const Tensor& value, const Tensor& gradient, const std::vector<Tensor>& moments,
                          std::int64_t step) const = 0;

private:
    std::vector<Slot> slots_;
    double learning_rate_;
};

struct SGDOptions {
    double learning_rate = 1e-2;
    double momentum = 0;      ///< at least 0
    double dampening = 0;     ///< the gradient enters the momentum times 1 - dampening
    double weight_decay = 0;  ///< adds weight_decay * value to the gradient
    bool nesterov = false;    ///< looks ahead along the momentum; needs momentum > 0 and no dampening
};
/// Stochastic gradient descent (Sutskever et al. 2013 for momentum and Nesterov):
///     d = g + weight_decay p;  b = momentum b + (1 - dampening) d (first step: b = d)
///     p -= learning_rate (nesterov ? d + momentum b : b)
class SGD : public Optimizer {
public:
    explicit SGD(const nn::State& parameters, const SGDOptions& options = {}, const Where& where = Where::current());

protected:
    std::vector<std::string_view> moment_names() const override;
    Update update(const Tensor& value, const Tensor& gradient, const std::vector<Tensor>& moments,
                  std::int64_t step) const override;

private:
    SGDOptions options_;
};

struct AdamOptions {
    double learning_rate = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;  ///< in [0, 1)
    double epsilon = 1e-8;              ///< at least 0
    double weight_decay = 0;            ///< Adam adds weight_decay * value to the gradient
    bool amsgrad = false;               ///< divides by the largest second moment so far (Reddi et al. 2018)
};
/// Adam (Kingma and Ba 2015), with step t counted from 1:
///     m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
///     p -= learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
class Adam : public Optimizer {
public:
    explicit Adam(const nn::State& parameters, const AdamOptions& options = {}, const Where& where = Where::current());

protected:
    Adam(std::string_view operation, const nn::State& parameters, const AdamOptions& options, bool decoupled,
         const Where& where);
    std::vector<std::string_view> moment_names() const override;
    Update update(const Tensor& value, const Tensor& gradient, const std::vector<Tensor>& moments,
                  std::int64_t step) const override;

private:
    AdamOptions options_;
    bool decoupled_ = false;
};

struct AdamWOptions {
    double learning_rate = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay =
        1e-2;  ///< the value shrinks by learning_rate * weight_decay of itself, apart from the gradient
    bool amsgrad = false;
};
/// Adam with decoupled weight decay (Loshchilov and Hutter 2019): p *= 1 - learning_rate weight_decay before Adam's
/// step.
class AdamW : public Adam {
public:
    explicit AdamW(const nn::State& parameters, const AdamWOptions& options = {},
                   const Where& where = Where::current());
};

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the Euclidean norm of all of them together,
/// and returns the norm before (not yet evaluated). Throws ValueError [value/option] unless max_norm > 0.
Tensor clip_grad_norm(Gradients& gradients, double max_norm, const Where& where = Where::current());
/// Clamps every element of every gradient to [-limit, limit]. Throws ValueError [value/option] unless limit > 0.
void clip_grad_value(Gradients& gradients, double limit, const Where& where = Where::current());

// Schedules: the learning rate of a step, counted from 0. optimizer.set_learning_rate(schedule(step)).

struct ConstantSchedule {
    double rate = 1e-3;
    double operator()(std::int64_t) const { return rate; }
};
/// rate * factor^floor(step / every).
struct StepSchedule {
    double rate = 1e-3;
    std::int64_t every = 1000;
    double factor = 0.1;
    double operator()(std::int64_t step) const;
};
/// Rises linearly from rate / warmup to rate over `warmup` steps, then falls along half a cosine (Loshchilov and Hutter
/// 2017) to `last`, which it reaches at step `steps` and keeps.
struct CosineSchedule {
    double rate = 1e-3;
    std::int64_t steps = 1000;
    std::int64_t warmup = 0;
    double last = 0;
    double operator()(std::int64_t step) const;
};
/// Rises linearly from rate / warmup to rate over `warmup` steps, then falls linearly to `last`, which it reaches at
/// step `steps` and keeps; without `steps` the rate stays.
struct LinearSchedule {
    double rate = 1e-3;
    std::int64_t warmup = 0;
    std::int64_t steps = 0;
    double last = 0;
    double operator()(std::int64_t step) const;
};

}  // namespace calor::optim
