// Parameters and buffers: the state of a network. A network copies like a value: `Net best = net;` is a snapshot with
// cells of its own. Moving a network moves its cells. Optimizers share the cells, so no order of destruction is wrong.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "calor/tensor.h"

namespace calor {

/// The place that holds one parameter or buffer. Parameters hold a tracked leaf while they are trainable.
class StateCell {
public:
    enum class Kind : std::uint8_t { parameter, buffer };
    StateCell(Kind kind, const Tensor& value, bool trainable) : kind_(kind), trainable_(trainable) { put(value); }

    Kind kind() const { return kind_; }
    const Tensor& value() const { return value_; }
    bool trainable() const { return trainable_; }
    void set_trainable(bool on);
    /// Replaces the value; shape and dtype stay. Throws ShapeError [shape/mismatch], DTypeError [dtype/mismatch].
    void set(const Tensor& value, std::string_view name = "the new value", const Where& where = Where::current());
    /// Stores a value that is known to fit.
    void put(const Tensor& value);

private:
    Kind kind_;
    bool trainable_;
    Tensor value_;
};

/// What Parameter and Buffer share: a cell, or none ("undefined": a layer without a bias).
class StateHolder {
public:
    bool defined() const { return cell_ != nullptr; }
    /// Throws ValueError [tensor/undefined].
    const Tensor& value(const Where& where = Where::current()) const;
    /// The value, or an undefined tensor: for operations that take an optional one.
    const Tensor& optional() const;
    operator const Tensor&() const { return value(); }  // NOLINT: a parameter is a tensor with a place
    const Shape& shape() const { return value().shape(); }
    DType dtype() const { return value().dtype(); }
    /// The shared cell: what optimizers and loaders hold.
    const std::shared_ptr<StateCell>& cell() const { return cell_; }

protected:
    StateHolder() = default;
    StateHolder(StateCell::Kind kind, const Tensor& value, bool trainable, const Where& where);
    StateHolder(const StateHolder& other);
    StateHolder(StateHolder&& other) noexcept = default;
    /// Writes into the cell that is there if shape and dtype agree, so that an optimizer keeps its hold; else makes a
    /// new cell.
    StateHolder& operator=(const StateHolder& other);
    StateHolder& operator=(StateHolder&& other) noexcept = default;
    ~StateHolder() = default;

    std::shared_ptr<StateCell> cell_;
};

namespace nn {

/// A tensor that training changes. It converts to `const Tensor&` wherever an operation wants one.
class Parameter : public StateHolder {
public:
    /// Undefined: a layer without this parameter.
    Parameter() = default;
    /// Evaluates `value` and holds it as a tracked leaf. Throws DTypeError [autodiff/not-floating].
    explicit Parameter(const Tensor& value, const Where& where = Where::current())
        : StateHolder(StateCell::Kind::parameter, value, true, where) {}
    Parameter(const Parameter&) = default;
    Parameter(Parameter&&) noexcept = default;
    Parameter& operator=(const Parameter&) = default;
    Parameter& operator=(Parameter&&) noexcept = default;
    ~Parameter() = default;

    /// Replaces the value by another of the same shape and dtype: evaluated, without its history, a new tracked leaf.
    /// Throws ShapeError [shape/mismatch], DTypeError [dtype/mismatch].
    void set(const Tensor& value, const Where& where = Where::current());
    bool trainable() const { return cell_ && cell_->trainable(); }
    /// A frozen parameter collects no gradient and optimizers pass over it.
    void set_trainable(bool on) {
        if (cell_) cell_->set_trainable(on);
    }
};

/// A tensor of the network's state that is not trained, such as running statistics. Layers may update it while they are
/// const: it is a record of what passed through, not a part of the function.
class Buffer : public StateHolder {
public:
    Buffer() = default;
    /// Evaluates `value` and holds it without its history.
    explicit Buffer(const Tensor& value, const Where& where = Where::current())
        : StateHolder(StateCell::Kind::buffer, value, false, where) {}
    Buffer(const Buffer&) = default;
    Buffer(Buffer&&) noexcept = default;
    Buffer& operator=(const Buffer&) = default;
    Buffer& operator=(Buffer&&) noexcept = default;
    ~Buffer() = default;

    /// Replaces the value, without its history. The new value may be pending; the one it replaces is evaluated first,
    /// so that no chain of updates grows. Throws ShapeError [shape/mismatch], DTypeError [dtype/mismatch].
    void set(const Tensor& value, const Where& where = Where::current()) const;
};

}  // namespace nn
}  // namespace calor
