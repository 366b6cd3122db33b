// backward(), gradients(), and the container that they return.
#include <algorithm>

#include "autodiff/engine.h"
#include "calor/creation.h"

namespace calor {
namespace {

void check_scalar(const Tensor& loss, const char* operation, const Where& where) {
    if (!loss.defined()) fail("tensor/undefined", operation, where, {{"argument", "the loss"}});
    if (loss.numel() != 1) fail("autodiff/not-scalar", operation, where, {{"shape", loss.shape()}}, describe(loss));
    if (!loss.tracked()) fail("autodiff/not-tracked", operation, where, {{"argument", "the loss"}}, describe(loss));
}

}  // namespace

void Gradients::set(const Tensor& of, Tensor gradient) {
    const auto [it, fresh] = index_.try_emplace(of.node(), entries_.size());
    if (fresh) {
        entries_.push_back({of, std::move(gradient)});
    } else {
        entries_[it->second].gradient = std::move(gradient);
    }
}

Tensor Gradients::get(const Tensor& of) const {
    const auto it = index_.find(of.node());
    return it == index_.end() ? Tensor() : entries_[it->second].gradient;
}

const Tensor& Gradients::at(const Tensor& of, const Where& where) const {
    const auto it = index_.find(of.node());
    if (it == index_.end()) fail("autodiff/missing", "gradient", where, {}, "tensor " + describe(of));
    return entries_[it->second].gradient;
}

std::vector<Tensor> Gradients::values() const {
    std::vector<Tensor> all;
    for (const Entry& e : entries_) all.push_back(e.gradient);
    return all;
}

std::vector<Tensor> Gradients::tensors() const {
    std::vector<Tensor> all;
    for (const Entry& e : entries_) all.push_back(e.of);
    return all;
}

Gradients backward(const Tensor& loss, const BackwardOptions& options, const Where& where) {
    check_scalar(loss, "backward", where);
    const Tensor seed = ones_like(loss, where);
    return autodiff::reverse({.outputs = {&loss, 1},
                              .cotangents = {&seed, 1},
                              .inputs = {},
                              .all_leaves = true,
                              .options = options,
                              .operation = "backward"},
                             where)
        .leaves;
}

std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& cotangents, const BackwardOptions& options,
                              const Where& where) {
    return autodiff::gradients("gradients", outputs, inputs, cotangents, options, where);
}

namespace {

/// The cotangents, checked and in their outputs' dtypes; ones without any.
std::vector<Tensor> seeds_of(const char* operation, const std::vector<Tensor>& outputs,
                             const std::vector<Tensor>& cotangents, const Where& where) {
    const Naming naming(operation);
    std::vector<Tensor> seeds = cotangents;
    if (seeds.empty()) {
        for (const Tensor& o : outputs) seeds.push_back(ones_like(o, where));
    }
    if (seeds.size() != outputs.size()) {
        fail("value/count", operation, where,
             {{"option", "cotangents"}, {"got", std::ssize(seeds)}, {"expected", std::ssize(outputs)}});
    }
    bool any = outputs.empty();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        any = any || outputs[i].tracked();
        if (!(seeds[i].shape(where) == outputs[i].shape(where))) {
            fail("shape/mismatch", operation, where,
                 {{"argument", "a cotangent"},
                  {"got", seeds[i].shape()},
                  {"expected", outputs[i].shape()},
                  {"help", "a cotangent has the shape of its output"}});
        }
        seeds[i] = seeds[i].to(outputs[i].dtype(), where);
    }
    if (!any) fail("autodiff/not-tracked", operation, where, {{"argument", "no output"}});
    return seeds;
}

}  // namespace

std::vector<Tensor> autodiff::gradients(const char* operation, const std::vector<Tensor>& outputs,
                                        const std::vector<Tensor>& inputs, const std::vector<Tensor>& cotangents,
                                        const BackwardOptions& options, const Where& where) {
    const std::vector<Tensor> seeds = seeds_of(operation, outputs, cotangents, where);
    auto result = autodiff::reverse({.outputs = outputs,
                                     .cotangents = seeds,
                                     .inputs = inputs,
                                     .all_leaves = false,
                                     .options = options,
                                     .operation = operation},
                                    where)
                      .gradients;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!result[i].defined()) result[i] = zeros_like(inputs[i], where);
    }
    return result;
}

}  // namespace calor
