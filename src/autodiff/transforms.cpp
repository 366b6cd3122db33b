// Functions of functions: grad, value_and_grad, vjp, jvp; custom gradients; checkpointing.
#include <algorithm>

#include "autodiff/engine.h"
#include "calor/creation.h"
#include "calor/random.h"

namespace calor {
namespace {

struct CustomAttributes {
    std::function<std::vector<Tensor>(const CustomContext&)> backward;
    std::size_t inputs = 0;
    friend bool operator==(const CustomAttributes&, const CustomAttributes&) { return false; }
};

bool alias_whole(const graph::Attributes&, std::size_t, const Shape&, const Layout& from, const Shape&, Layout& to) {
    to = from;
    return true;
}

// A custom node takes the user's inputs and then the results of the forward function, which its own results alias. The
// gradient flows to the user's inputs alone.
graph::Specs infer_custom(const graph::InferContext& c) {
    graph::Specs specs;
    for (std::size_t i = c.attrs<CustomAttributes>().inputs; i < c.inputs.size(); ++i) {
        specs.push_back({c.inputs[i].shape(), c.inputs[i].dtype()});
    }
    return specs;
}

void custom_gradient(const graph::GradContext& c) {
    const auto& a = c.attrs<CustomAttributes>();
    const std::vector<Tensor> inputs(c.inputs.begin(), c.inputs.begin() + static_cast<std::ptrdiff_t>(a.inputs));
    const std::vector<Tensor> outputs(c.outputs.begin(), c.outputs.end());
    std::vector<Tensor> cotangents;
    for (std::size_t o = 0; o < outputs.size(); ++o) cotangents.push_back(c.cotangent(o));
    const std::vector<Tensor> grads = a.backward({inputs, outputs, cotangents});
    if (grads.size() != inputs.size()) {
        fail("value/count", "custom", c.where,
             {{"option", "the result of the custom gradient"},
              {"got", std::ssize(grads)},
              {"expected", std::ssize(inputs)}});
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!grads[i].defined()) continue;
        if (!(grads[i].shape() == inputs[i].shape())) {
            fail("shape/mismatch", "custom", c.where,
                 {{"argument", "a custom gradient"},
                  {"got", grads[i].shape()},
                  {"expected", inputs[i].shape()},
                  {"help", "a gradient has the shape of its input"}});
        }
        c.grads[i] = grads[i];
    }
}

const graph::Operation custom_operation{
    .name = "custom",
    .traits = graph::view,
    .infer = infer_custom,
    .gradient = custom_gradient,
    .alias_of = [](const graph::Attributes& a,
                   std::size_t output) { return a.get<CustomAttributes>().inputs + output; },
    .alias = alias_whole};

const graph::Operation identity_operation{.name = "identity",
                                          .traits = graph::view | graph::linear,
                                          .infer = [](const graph::InferContext& c) -> graph::Specs {
                                              return {{c.inputs[0].shape(), c.inputs[0].dtype()}};
                                          },
                                          .gradient = [](const graph::GradContext& c) { c.grads[0] = c.cotangents[0]; },
                                          .alias = alias_whole};

/// Fresh tracked tensors with the values of `inputs`. Already tracked ones stay connected to their history, so that an
/// outer transform can differentiate through.
std::vector<Tensor> fresh_inputs(const std::vector<Tensor>& inputs, const char* operation, const Where& where) {
    const Naming naming(operation);
    std::vector<Tensor> fresh;
    for (const Tensor& t : inputs) {
        const WithGrad guard;
        fresh.push_back(t.tracked() ? graph::record(identity_operation, {}, {t}, where) : t.requires_grad(true, where));
    }
    return fresh;
}

Tensor detached(const Tensor& t, const char* operation, const Where& where) {
    const Naming naming(operation);
    return t.detach(where);
}

Tensor scalar_result(Tensor value, const char* operation, const Where& where) {
    if (!value.defined()) fail("tensor/undefined", operation, where, {{"argument", "the result of the function"}});
    if (value.numel() != 1) fail("autodiff/not-scalar", operation, where, {{"shape", value.shape()}}, describe(value));
    return value;
}

/// Gradients of `outputs`, zeros for outputs that depend on nothing.
std::vector<Tensor> pull_back(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& cotangents, const char* operation, const Where& where,
                              bool create_graph = true) {
    if (std::ranges::none_of(outputs, [](const Tensor& t) { return t.tracked(); })) {
        std::vector<Tensor> none;
        for (const Tensor& t : inputs) none.push_back(zeros_like(t, where));
        return none;
    }
    return autodiff::gradients(operation, outputs, inputs, cotangents, {.create_graph = create_graph}, where);
}

/// While one lives, the default generator draws from an earlier state.
class RandomState {
public:
    explicit RandomState(const Generator::State& state) : now_(default_generator().state()) {
        default_generator().set_state(state);
    }
    RandomState(const RandomState&) = delete;
    RandomState& operator=(const RandomState&) = delete;
    ~RandomState() { default_generator().set_state(now_); }

private:
    Generator::State now_;
};

}  // namespace

TensorFunction grad(TensorFunction f) {
    return [f = std::move(f)](const Tensor& x) {
        const Where where = Where::current();
        const WithGrad guard;
        const std::vector<Tensor> inputs = fresh_inputs({x}, "grad", where);
        return pull_back({scalar_result(f(inputs[0]), "grad", where)}, inputs, {}, "grad", where)[0];
    };
}

std::pair<Tensor, std::vector<Tensor>> value_and_grad(const LossFunction& f, const std::vector<Tensor>& inputs,
                                                      const Where& where) {
    const WithGrad guard;
    const std::vector<Tensor> fresh = fresh_inputs(inputs, "value_and_grad", where);
    Tensor value = scalar_result(f(fresh), "value_and_grad", where);
    auto grads = pull_back({value}, fresh, {}, "value_and_grad", where);
    return {value, std::move(grads)};
}

VjpResult vjp(const TensorsFunction& f, const std::vector<Tensor>& inputs, const Where& where) {
    const WithGrad guard;
    const std::vector<Tensor> fresh = fresh_inputs(inputs, "vjp", where);
    std::vector<Tensor> outputs = f(fresh);
    return {outputs, [outputs, fresh, where](const std::vector<Tensor>& cotangents) {
                const WithGrad inner;
                return pull_back(outputs, fresh, cotangents, "vjp", where);
            }};
}

JvpResult jvp(const TensorsFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents,
              const Where& where) {
    if (tangents.size() != inputs.size()) {
        fail("value/count", "jvp", where,
             {{"option", "tangents"}, {"got", std::ssize(tangents)}, {"expected", std::ssize(inputs)}});
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Naming naming("jvp");
        if (!(tangents[i].shape(where) == inputs[i].shape(where))) {
            fail("shape/mismatch", "jvp", where,
                 {{"argument", "a tangent"},
                  {"got", tangents[i].shape()},
                  {"expected", inputs[i].shape()},
                  {"help", "a tangent has the shape of its input"}});
        }
    }
    const WithGrad guard;
    const std::vector<Tensor> fresh = fresh_inputs(inputs, "jvp", where);
    std::vector<Tensor> outputs = f(fresh);
    // u -> J' u is linear; its derivative with respect to u, applied to v, is J v. Where u is taken does not matter.
    std::vector<Tensor> dummies;
    for (const Tensor& o : outputs) {
        const bool floating = is_floating(o.dtype());
        const Tensor start = zeros_like(o, where);
        dummies.push_back(floating ? start.requires_grad(true, where) : start);
    }
    const std::vector<Tensor> pulled = pull_back(outputs, fresh, dummies, "jvp", where);
    return {outputs, pull_back(pulled, dummies, tangents, "jvp", where)};
}

std::vector<Tensor> custom(const std::vector<Tensor>& inputs, const TensorsFunction& forward,
                           const std::function<std::vector<Tensor>(const CustomContext&)>& backward,
                           const Where& where) {
    std::vector<Tensor> outputs;
    {
        const NoGrad guard;
        std::vector<Tensor> plain;
        for (const Tensor& t : inputs) plain.push_back(detached(t, "custom", where));
        outputs = forward(plain);
    }
    std::vector<Tensor> operands = inputs;
    for (const Tensor& o : outputs) operands.push_back(o.detach(where));
    if (outputs.empty()) return {};
    std::vector<Tensor> results{
        graph::record(custom_operation, CustomAttributes{backward, inputs.size()}, operands, where)};
    for (std::uint32_t o = 1; o < outputs.size(); ++o) results.push_back(graph::result(results[0], o));
    return results;
}

std::vector<Tensor> checkpoint(const TensorsFunction& f, const std::vector<Tensor>& inputs, const Where& where) {
    if (!grad_enabled()) return f(inputs);
    // A first run finds the tracked leaves that f captures; its graph is dropped at once.
    std::vector<Tensor> captured;
    std::vector<Tensor> values;
    const Generator::State drawn_from = default_generator().state();
    {
        std::vector<Tensor> plain;
        for (const Tensor& t : inputs) plain.push_back(detached(t, "checkpoint", where));
        values = f(plain);
        captured = autodiff::leaves_below(values);
        for (Tensor& v : values) v = v.detach(where);
    }
    std::vector<Tensor> operands = inputs;
    operands.insert(operands.end(), captured.begin(), captured.end());
    const std::size_t count = inputs.size();
    const auto again = [f, count, captured, drawn_from, where](const CustomContext& c) {
        const bool create_graph = grad_enabled();
        const WithGrad guard;
        std::vector<Tensor> fresh = fresh_inputs(
            {c.inputs.begin(), c.inputs.begin() + static_cast<std::ptrdiff_t>(count)}, "checkpoint", where);
        const std::vector<Tensor> outputs = [&] {
            const RandomState same_numbers(drawn_from);
            return f(fresh);
        }();
        fresh.insert(fresh.end(), captured.begin(), captured.end());
        return pull_back(outputs, fresh, c.cotangents, "checkpoint", where, create_graph);
    };
    return custom(
        operands, [values](const std::vector<Tensor>&) { return values; }, again, where);
}

std::string explain_plan(const Tensor& tensor, const Where& where) {
    graph::Trace trace;
    tensor.eval(where);
    return trace.text;
}

}  // namespace calor
