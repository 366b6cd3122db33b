// Execution: runs a plan in order. Views alias, fused chains run as one program, everything else runs the first
// implementation that does not refuse. A value whose last reader runs may give its memory to the result.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "graph/fuse.h"

namespace calor::graph {
namespace {

thread_local Trace* current_trace = nullptr;

void finish(Node& node) {
    node.depth = 0;
    node.evaluated.store(true, std::memory_order_release);
    if (!node.tracked || node.released.load(std::memory_order_relaxed)) node.inputs.clear();
}

void allocate_plain(Value& value, Node& node, Backend& device) {
    value.layout = {contiguous_strides(value.shape), 0};
    value.storage = device.allocate(checked_bytes(value.shape, value.dtype, node.where), node.name(), node.where);
}

Strides channels_last_strides(const Shape& shape) {
    Strides strides = contiguous_strides(shape);
    std::int64_t next = shape[1];
    for (std::int64_t i = shape.rank() - 1; i >= 2; --i) {
        strides[i] = next;
        next *= shape[i];
    }
    strides[0] = next;
    strides[1] = 1;
    return strides;
}

/// The layout of an elementwise result: that of the first dense input of full shape, so that formats travel along.
Strides result_strides(const Shape& shape, std::span<const Tensor> inputs) {
    for (const Tensor& t : inputs) {
        const Value& v = value_of(t);
        if (v.shape == shape && shape.rank() > 1 && is_dense(v.shape, v.layout.strides)) return v.layout.strides;
    }
    return contiguous_strides(shape);
}

bool keeps_inputs(const Node* node) { return node->tracked && !node->released.load(std::memory_order_relaxed); }

/// Finds an input whose memory nobody needs after this group and that fits the result, and moves it there. Members that
/// keep their inputs for a gradient forbid it: one that was not stored may be computed again.
bool take_over(Value& result, const Strides& strides, const FusedProgram& fused, std::span<Node* const> members) {
    if (std::ranges::any_of(members, keeps_inputs)) return false;
    for (const Tensor& t : fused.inputs) {
        Node& node = *t.node();
        Value& v = value_of(t);
        if (!v.storage || !v.storage->unique() || v.layout.offset != 0 || size_of(v.dtype) != size_of(result.dtype) ||
            !(v.shape == result.shape) || !(v.layout.strides == strides) || node.values.size() != 1 || node.leaf) {
            continue;
        }
        std::int32_t readers = 1;  // the copy in fused.inputs
        for (const Node* member : members) {
            for (const Tensor& input : member->inputs) {
                if (input.node() == &node) ++readers;
            }
        }
        if (node.references.load(std::memory_order_acquire) != readers) continue;
        result.storage = std::move(v.storage);
        return true;
    }
    return false;
}

void run_elementwise(std::span<Node* const> members) {
    FusedProgram fused = build_program(members);
    for (Node* node : members) clear_marks(*node);
    const Node& root = *members.back();
    Backend& device = backend(root.device, root.where);
    for (const ElementwiseStep& s : fused.program.steps) {
        if (!s.traits->cast && !s.traits->kernel(s.traits->name, compute_type(s.operand))) {
            fail("dtype/unsupported", s.traits->name, root.where,
                 {{"argument", "the operand"}, {"got", s.operand}, {"expected", "a dtype that the operation has"}});
        }
    }
    const Shape& shape = fused.program.shape;
    const Strides strides = result_strides(shape, fused.inputs);
    // Views are taken before an input may hand over its memory.
    std::vector<View> inputs, outputs;
    std::vector<Strides> broadcast(fused.inputs.size());
    for (std::size_t i = 0; i < fused.inputs.size(); ++i) {
        const Value& v = value_of(fused.inputs[i]);
        View view = view_of(v);
        broadcast[i] = Strides(shape.rank(), 0);
        const std::int64_t lead = shape.rank() - v.shape.rank();
        for (std::int64_t a = 0; a < v.shape.rank(); ++a) {
            broadcast[i][lead + a] = v.shape[a] == 1 ? 0 : v.layout.strides[a];
        }
        view.shape = &shape;
        view.strides = &broadcast[i];
        inputs.push_back(view);
    }
    for (Node* node : fused.stored) {
        Value& v = node->values[0];
        v.layout = {strides, 0};
        // Only the last step may overwrite an input: earlier ones have readers after them.
        if (node != members.back() || !take_over(v, strides, fused, members)) {
            v.storage = device.allocate(checked_bytes(v.shape, v.dtype, node->where), node->name(), node->where);
        }
        outputs.push_back(view_of(v));
    }
    if (Trace::current()) {
        std::string names;
        for (const Node* n : members) names += fmt::format("{}{}", names.empty() ? "" : " + ", n->name());
        Trace::current()->text +=
            fmt::format("{} -> {}{}: fused loop, {} inputs, {} stored\n", names, name_of(root.values[0].dtype),
                        to_string(shape), inputs.size(), outputs.size());
    }
    device.run(fused.program, inputs, outputs, root.where);
    // Members that were not stored stay pending with their inputs: asked for later, they are computed then.
    std::vector<Tensor> keep;  // finish() drops inputs, and with them unstored members
    if (members.size() > 1) {
        for (Node* node : members) {
            for (const Tensor& t : node->inputs) keep.push_back(t);
        }
    }
    for (Node* node : fused.stored) finish(*node);
}

/// What a library throws becomes an error of ours that names the operation and the user's line.
void run_guarded(const Implementation& implementation, const Call& call) {
    try {
        implementation.run(call);
    } catch (const Error&) {
        throw;
    } catch (const std::bad_alloc&) {
        fail_host_memory(call.operation, call.where);
    } catch (const std::length_error&) {
        fail_host_memory(call.operation, call.where);
    } catch (const std::exception& e) {
        fail("kernel/failed", call.operation, call.where,
             {{"implementation", implementation.name}, {"what", e.what()}});
    }
}

/// Collects what an implementation says of itself, if it is asked.
class Remarks {
public:
    explicit Remarks(bool ask) { remarks() = ask ? &text_ : nullptr; }
    Remarks(const Remarks&) = delete;
    Remarks& operator=(const Remarks&) = delete;
    ~Remarks() { remarks() = nullptr; }
    std::string text() const { return text_.empty() ? text_ : " (" + text_ + ")"; }

private:
    std::string text_;
};

[[noreturn]] void fail_unsupported(const Node& node) {
    fail("device/unsupported", node.name(), node.where,
         {{"device", to_string(node.device)}, {"what", fmt::format("implementation of {}", node.name())}});
}

void run_implementation(Node& node) {
    Backend& device = backend(node.device, node.where);
    if (node.operation->implementations_on(node.device.kind).empty()) fail_unsupported(node);
    InlineVector<View, 3> inputs, outputs;
    for (const Tensor& t : node.inputs) inputs.push_back(view_of(value_of(t)));
    Strides plain;
    for (Value& v : node.values) outputs.push_back({nullptr, v.dtype, &v.shape, &plain});
    const Operation& op = *node.operation;
    Call call{op.name, node.attributes, inputs, outputs, device, node.where};
    for (std::size_t i = 0; i < node.values.size(); ++i) {
        Value& v = node.values[i];
        allocate_plain(v, node, device);
        const bool alike = v.shape == node.values[0].shape;  // results of the first one's shape lie as it does
        const bool last = alike && op.format && v.shape.rank() > 2 && op.format(call) == Format::channels_last;
        if (last) v.layout.strides = channels_last_strides(v.shape);
        outputs[i] = view_of(v);
    }
    std::string refusals;
    for (const Implementation& candidate : op.implementations_on(node.device.kind)) {
        const char* reason = disabled(candidate.name) ? "disabled by CALOR_DISABLE" : nullptr;
        if (!reason && candidate.why_not) reason = candidate.why_not(call);
        if (reason) {
            if (Trace::current()) refusals += fmt::format("; not {}: {}", candidate.name, reason);
            continue;
        }
        const Remarks said(Trace::current() != nullptr);
        run_guarded(candidate, call);
        if (Trace::current()) {
            Trace::current()->text +=
                fmt::format("{} -> {}{}: {}{}{}\n", op.name, name_of(node.values[0].dtype),
                            to_string(node.values[0].shape), candidate.name, said.text(), refusals);
        }
        return;
    }
    fail_internal(fmt::format("no implementation of {} accepted the call", op.name), node.where);
}

/// Makes every result an alias of an input's memory, if the operation can.
bool run_alias(Node& node) {
    const Operation& op = *node.operation;
    if (!op.alias) return false;
    for (std::size_t o = 0; o < node.values.size(); ++o) {
        const Value& from = value_of(node.inputs[op.alias_of ? op.alias_of(node.attributes, o) : 0]);
        Value& to = node.values[o];
        if (!op.alias(node.attributes, o, from.shape, from.layout, to.shape, to.layout)) return false;
        to.storage = from.storage;
    }
    return true;
}

void run_single(Node& node) {
    if (!run_alias(node)) run_implementation(node);
    finish(node);
}

}  // namespace

void evaluate(std::span<const Tensor> roots, const Where& where) {
    for (const Tensor& t : roots) {
        if (!t.defined()) fail("tensor/undefined", "eval", where, {{"argument", "the tensor"}});
    }
    Plan plan = make_plan(roots);
    std::vector<bool> done(plan.groups.size(), false);
    std::size_t at = 0;
    try {
        for (; at < plan.order.size(); ++at) {
            Node* node = plan.order[at];
            const Naming naming = Naming::instead(node->caller);
            if (node->group >= 0) {
                const auto index = static_cast<std::size_t>(node->group);
                if (plan.groups[index].members.back() != node) continue;  // runs at the root's place
                run_elementwise(plan.groups[index].members);
                done[index] = true;
            } else if (node->operation->traits & elementwise) {
                Node* const single[1] = {node};
                run_elementwise(single);
            } else {
                clear_marks(*node);
                run_single(*node);
            }
        }
    } catch (...) {
        // Nodes that ran may be gone; those that did not are kept by their consumers.
        for (; at < plan.order.size(); ++at) clear_marks(*plan.order[at]);
        for (std::size_t g = 0; g < done.size(); ++g) {
            if (done[g]) continue;
            for (Node* member : plan.groups[g].members) clear_marks(*member);
        }
        throw;
    }
}

Ref<Storage> scratch(const Call& call, std::int64_t bytes) {
    return call.backend.allocate(std::max<std::int64_t>(bytes, 1), call.operation, call.where);
}

Trace::Trace() : outer_(std::exchange(current_trace, this)) {}
Trace::~Trace() { current_trace = outer_; }
Trace* Trace::current() { return current_trace; }

}  // namespace calor::graph
