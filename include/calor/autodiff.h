// Gradients: backward() for training loops, grad(), vjp() and jvp() as functions of functions, checkpointing, custom
// rules. Every operation's gradient is itself made of operations, so gradients of any order exist.
#pragma once

#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "calor/tensor.h"

namespace calor {

/// Gradients indexed by tensor (the very tensors that were tracked).
class Gradients {
public:
    /// The gradient. Throws ValueError [autodiff/missing] when the loss does not depend on `of`.
    const Tensor& at(const Tensor& of, const Where& where = Where::current()) const;
    const Tensor& operator[](const Tensor& of) const { return at(of); }
    /// The gradient, or an undefined tensor.
    Tensor get(const Tensor& of) const;
    bool contains(const Tensor& of) const { return get(of).defined(); }
    std::size_t size() const { return entries_.size(); }

    void set(const Tensor& of, Tensor gradient);
    /// All gradients, in no particular order of meaning but the same order in every run.
    std::vector<Tensor> values() const;
    /// The tensors that have gradients, in the order of values().
    std::vector<Tensor> tensors() const;

private:
    struct Entry {
        Tensor of, gradient;
    };
    std::vector<Entry> entries_;
    std::unordered_map<const void*, std::size_t> index_;  ///< node of a leaf -> entry; leaves have one result
};

struct BackwardOptions {
    bool retain_graph = false;  ///< keep the graph for another backward pass
    bool create_graph = false;  ///< record the gradients' own history, for higher orders; implies retain_graph
};

/// Gradients of a scalar with respect to every tracked leaf below it. Throws ShapeError [autodiff/not-scalar],
/// ValueError [autodiff/not-tracked], [autodiff/released].
Gradients backward(const Tensor& loss, const BackwardOptions& options = {}, const Where& where = Where::current());

/// Gradients of sum(outputs * cotangents) with respect to `inputs` (tracked leaves or any tracked tensor on the way);
/// zeros where nothing flows. Only what is asked for is computed.
std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& cotangents = {}, const BackwardOptions& options = {},
                              const Where& where = Where::current());

using TensorFunction = std::function<Tensor(const Tensor&)>;
using TensorsFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
using LossFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// x -> gradient of the scalar function f at x. grad(grad(f)) and deeper work.
TensorFunction grad(TensorFunction f);
/// Value and gradients of a scalar function of several tensors.
std::pair<Tensor, std::vector<Tensor>> value_and_grad(const LossFunction& f, const std::vector<Tensor>& inputs,
                                                      const Where& where = Where::current());

/// Outputs of f, and the function that takes cotangents of the outputs to cotangents of the inputs (J' u).
struct VjpResult {
    std::vector<Tensor> outputs;
    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> pullback;
};
VjpResult vjp(const TensorsFunction& f, const std::vector<Tensor>& inputs, const Where& where = Where::current());

/// Outputs of f and J v for tangents v of the inputs. Computed as the derivative of the (linear) pullback, so every
/// operation that has a gradient has this too.
struct JvpResult {
    std::vector<Tensor> outputs, tangents;
};
JvpResult jvp(const TensorsFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents,
              const Where& where = Where::current());

/// What a custom gradient sees.
struct CustomContext {
    const std::vector<Tensor>& inputs;
    const std::vector<Tensor>& outputs;
    const std::vector<Tensor>& cotangents;
};
/// Results of `forward` (which may use any operation, without history) with a gradient of the user's own. `backward`
/// returns one tensor an input; undefined ones mean zero. It may be differentiated again if it is made of operations.
std::vector<Tensor> custom(const std::vector<Tensor>& inputs, const TensorsFunction& forward,
                           const std::function<std::vector<Tensor>(const CustomContext&)>& backward,
                           const Where& where = Where::current());

/// f(inputs) without keeping its intermediate values: the backward pass runs f again, with the same numbers from the
/// default generator. Gradients also reach tracked tensors that f captures.
std::vector<Tensor> checkpoint(const TensorsFunction& f, const std::vector<Tensor>& inputs,
                               const Where& where = Where::current());

/// Which implementations compute this tensor, and why faster ones refused. Evaluates it.
std::string explain_plan(const Tensor& tensor, const Where& where = Where::current());

}  // namespace calor
