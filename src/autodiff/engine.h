// The reverse pass: walks tracked nodes from the outputs, calls gradient rules, accumulates. It never recurses.
#pragma once

#include <span>
#include <vector>

#include "calor/autodiff.h"
#include "graph/node.h"

namespace calor::autodiff {

struct Request {
    std::span<const Tensor> outputs;
    std::span<const Tensor> cotangents;  ///< one an output
    /// The tensors whose gradients are asked for; with `all_leaves` every tracked leaf that is met.
    std::span<const Tensor> inputs;
    bool all_leaves = false;
    BackwardOptions options;
    const char* operation = "backward";
};

struct Result {
    std::vector<Tensor> gradients;  ///< one an input; undefined where nothing flows
    Gradients leaves;               ///< with all_leaves
};

Result reverse(const Request& request, const Where& where);
/// gradients() for the public function that errors name.
std::vector<Tensor> gradients(const char* operation, const std::vector<Tensor>& outputs,
                              const std::vector<Tensor>& inputs, const std::vector<Tensor>& cotangents,
                              const BackwardOptions& options, const Where& where);
/// Sums a gradient over the axes along which `shape` was broadcast.
Tensor sum_to(const Tensor& gradient, const Shape& shape, const Where& where);
/// The tracked leaves below `roots`, in a fixed order.
std::vector<Tensor> leaves_below(std::span<const Tensor> roots);

}  // namespace calor::autodiff
