// Cells of parameters and buffers: what copying, assigning and freezing mean.
#include "calor/nn/parameter.h"

#include "core/fail.h"

namespace calor {

void StateCell::put(const Tensor& value) {
    value_ = kind_ == Kind::parameter && trainable_ ? value.requires_grad() : value.detach();
}

void StateCell::set_trainable(bool on) {
    if (kind_ == Kind::buffer || on == trainable_) return;
    trainable_ = on;
    put(value_);
}

void StateCell::set(const Tensor& value, std::string_view name, const Where& where) {
    if (!value.defined()) fail("tensor/undefined", "set", where, {{"argument", name}});
    if (value.shape() != value_.shape()) {
        fail("shape/mismatch", "set", where,
             {{"argument", name},
              {"got", value.shape()},
              {"expected", value_.shape()},
              {"help", "a parameter or buffer keeps its shape; assign a new one to change it"}});
    }
    if (value.dtype() != value_.dtype()) {
        fail("dtype/mismatch", "set", where,
             {{"argument", name}, {"got", value.dtype()}, {"other", "the state"}, {"expected", value_.dtype()}});
    }
    put(value);
}

const Tensor& StateHolder::value(const Where& where) const {
    if (!cell_) fail("tensor/undefined", "value", where, {{"argument", "the parameter or buffer"}});
    return cell_->value();
}

const Tensor& StateHolder::optional() const {
    static const Tensor none;
    return cell_ ? cell_->value() : none;
}

StateHolder::StateHolder(StateCell::Kind kind, const Tensor& value, bool trainable, const Where& where) {
    if (!value.defined()) fail("tensor/undefined", "parameter", where, {{"argument", "the initial value"}});
    if (kind == StateCell::Kind::parameter && !is_floating(value.dtype())) {
        fail("autodiff/not-floating", "parameter", where, {{"got", value.dtype()}}, describe(value));
    }
    value.eval(where);
    cell_ = std::make_shared<StateCell>(kind, value, trainable);
}

StateHolder::StateHolder(const StateHolder& other) {
    if (other.cell_)
        cell_ = std::make_shared<StateCell>(other.cell_->kind(), other.cell_->value(), other.cell_->trainable());
}

StateHolder& StateHolder::operator=(const StateHolder& other) {
    if (this == &other || cell_ == other.cell_) return *this;
    const bool fits = cell_ && other.cell_ && cell_->value().shape() == other.cell_->value().shape() &&
                      cell_->value().dtype() == other.cell_->value().dtype();
    if (fits) {
        cell_->put(other.cell_->value());
    } else {
        cell_ = StateHolder(other).cell_;
    }
    return *this;
}

namespace nn {

void Parameter::set(const Tensor& value, const Where& where) {
    if (!cell_) fail("tensor/undefined", "set", where, {{"argument", "the parameter"}});
    if (value.defined()) value.eval(where);
    cell_->set(value, "the new value", where);
}

void Buffer::set(const Tensor& value, const Where& where) const {
    if (!cell_) fail("tensor/undefined", "set", where, {{"argument", "the buffer"}});
    cell_->value().eval(where);
    cell_->set(value, "the new value", where);
}

}  // namespace nn
}  // namespace calor
