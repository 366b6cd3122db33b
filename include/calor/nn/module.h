// What can be asked of any module, that is of any class with CALOR_FIELDS.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calor/named_tensor.h"
#include "calor/nn/fields.h"

namespace calor::nn {

/// A parameter or buffer of a module and its dotted name, "blocks.0.weight".
struct NamedCell {
    std::string name;
    std::shared_ptr<StateCell> cell;
    const Tensor& value() const { return cell->value(); }
};
using State = std::vector<NamedCell>;

namespace detail {
class StateCollector final : public FieldVisitor {
public:
    enum class What : std::uint8_t { parameters, buffers, everything };
    explicit StateCollector(What what) : what_(what) {}
    void parameter(const Parameter& p) override {
        if (what_ != What::buffers) add(p.cell());
    }
    void buffer(const Buffer& b) override {
        if (what_ != What::parameters) add(b.cell());
    }
    State take() { return std::move(state_); }

private:
    void add(const std::shared_ptr<StateCell>& cell);
    What what_;
    State state_;
};
class ModeSetter final : public FieldVisitor {
public:
    explicit ModeSetter(bool training) : training_(training) {}
    void mode(Mode& m) override { m.set_training(training_); }

private:
    bool training_;
};
std::int64_t count_elements(const State& state);
void set_trainable(const State& state, bool on);
}  // namespace detail

/// Every parameter once, in the order of the fields, under its first name; frozen ones are included.
template <class Net> State parameters(const Net& net) {
    detail::StateCollector collector(detail::StateCollector::What::parameters);
    collector.visit(net);
    return collector.take();
}
/// Every buffer once.
template <class Net> State buffers(const Net& net) {
    detail::StateCollector collector(detail::StateCollector::What::buffers);
    collector.visit(net);
    return collector.take();
}
/// Parameters and buffers under all their names: what a file of the network holds.
template <class Net> State state(const Net& net) {
    detail::StateCollector collector(detail::StateCollector::What::everything);
    collector.visit(net);
    return collector.take();
}
/// The values of a state, to be saved or compared.
NamedTensors named_tensors(const State& state);

/// Number of elements of all parameters.
template <class Net> std::int64_t count_parameters(const Net& net) { return detail::count_elements(parameters(net)); }

/// Training mode for the module and all modules in it: dropout drops, batch norm uses the batch's statistics.
template <class Net> void train(Net& net, bool on = true) {
    detail::ModeSetter setter(on);
    setter.visit(net);
}
/// Evaluation mode: dropout passes through, batch norm uses its running statistics.
template <class Net> void eval(Net& net) { train(net, false); }

/// Freezes (false) or thaws every parameter of a module: frozen ones collect no gradients and are not stepped.
template <class Net> void set_trainable(Net& net, bool on) { detail::set_trainable(parameters(net), on); }

}  // namespace calor::nn
