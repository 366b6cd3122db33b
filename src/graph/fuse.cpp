// Fusion: an elementwise node joins the group of its consumers when all consumers that are being evaluated are in that
// group and the shapes agree. Then no path leaves the group and comes back, so the group can run at its root's place.
#include "graph/fuse.h"

#include <algorithm>

namespace calor::graph {
namespace {

constexpr std::size_t most_members = 48;
constexpr std::size_t most_inputs = 24;

bool pending(const Node& node) { return !node.evaluated.load(std::memory_order_acquire); }
bool is_elementwise(const Node& node) { return node.operation && (node.operation->traits & elementwise); }

void collect(Node* root, std::vector<Node*>& order) {
    struct Visit {
        Node* node;
        std::size_t next;
    };
    std::vector<Visit> stack;
    const auto enter = [&](Node* n) {
        n->mark = 1;
        stack.push_back({n, 0});
    };
    if (pending(*root) && root->mark == 0) enter(root);
    while (!stack.empty()) {
        Visit& top = stack.back();
        if (top.next == top.node->inputs.size()) {
            order.push_back(top.node);
            stack.pop_back();
            continue;
        }
        Node* input = top.node->inputs[top.next++].node();
        if (!pending(*input)) continue;
        ++input->edges;
        if (input->mark == 0) enter(input);
    }
}

void grow_group(Node* root, std::int32_t index, Group& group) {
    std::vector<Node*> work{root};
    root->group = index;
    std::size_t inputs = 0;
    while (!work.empty()) {
        Node* node = work.back();
        work.pop_back();
        group.members.push_back(node);
        for (const Tensor& t : node->inputs) {
            Node* p = t.node();
            ++inputs;
            if (!pending(*p) || !is_elementwise(*p) || p->group >= 0 ||
                !(p->values[0].shape == root->values[0].shape)) {
                continue;
            }
            ++p->fused_edges;
            if (p->fused_edges != p->edges || group.members.size() + work.size() >= most_members ||
                inputs >= most_inputs) {
                continue;
            }
            p->group = index;
            work.push_back(p);
        }
    }
}

}  // namespace

void clear_marks(Node& node) {
    node.mark = 0;
    node.edges = 0;
    node.group = -1;
    node.fused_edges = 0;
}

Plan make_plan(std::span<const Tensor> roots) {
    Plan plan;
    for (const Tensor& t : roots) collect(t.node(), plan.order);
    if (plan.order.size() < 2) return plan;
    for (auto it = plan.order.rbegin(); it != plan.order.rend(); ++it) {
        Node* node = *it;
        if (!is_elementwise(*node) || node->group >= 0) continue;
        Group group;
        grow_group(node, static_cast<std::int32_t>(plan.groups.size()), group);
        for (Node* member : group.members) {  // pending inputs that stayed outside were not fused after all
            for (const Tensor& t : member->inputs) {
                if (pending(*t.node()) && t.node()->group < 0) t.node()->fused_edges = 0;
            }
        }
        if (group.members.size() == 1) {
            node->group = -1;
            continue;
        }
        group.members.clear();  // refilled in order below
        plan.groups.push_back(std::move(group));
    }
    for (Node* node : plan.order) {
        if (node->group >= 0) plan.groups[static_cast<std::size_t>(node->group)].members.push_back(node);
    }
    return plan;
}

FusedProgram build_program(std::span<Node* const> members) {
    FusedProgram fused;
    fused.program.shape = members.back()->values[0].shape;
    for (Node* node : members) {  // external inputs first: their numbers precede the steps'
        for (const Tensor& t : node->inputs) {
            const bool inside = std::ranges::find(members, t.node()) != members.end();
            const auto same = [&](const Tensor& other) { return other.same_as(t); };
            if (!inside && std::ranges::none_of(fused.inputs, same)) fused.inputs.push_back(t);
        }
    }
    const auto input_count = static_cast<int>(fused.inputs.size());
    for (const Tensor& t : fused.inputs) fused.program.inputs.push_back(value_of(t).dtype);
    const auto number_of = [&](const Tensor& t) {
        if (const auto it = std::ranges::find(members, t.node()); it != members.end()) {
            return input_count + static_cast<int>(it - members.begin());
        }
        const auto same = [&](const Tensor& other) { return other.same_as(t); };
        return static_cast<int>(std::ranges::find_if(fused.inputs, same) - fused.inputs.begin());
    };
    for (Node* node : members) {
        const Operation& op = *node->operation;
        ElementwiseStep step;
        step.traits = op.row;
        step.operand = value_of(node->inputs[node->inputs.size() - 1]).dtype;
        step.result = node->values[0].dtype;
        step.round = is_half(step.result) && (node->strict || op.row->cast);
        for (std::size_t i = 0; i < node->inputs.size(); ++i) {
            step.inputs[i] = number_of(node->inputs[i]);
            if (op.row->reads_rounded && step.inputs[i] >= input_count) {
                auto& producer = fused.program.steps[static_cast<std::size_t>(step.inputs[i] - input_count)];
                producer.round = is_half(producer.result);
            }
        }
        if (op.params) op.params(node->attributes, step.params);
        fused.program.steps.push_back(step);
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
        Node* node = members[i];
        const bool root = i + 1 == members.size();
        const bool held = node->references.load(std::memory_order_acquire) > node->fused_edges;
        if (!root && !held) continue;
        fused.stored.push_back(node);
        fused.program.outputs.push_back(input_count + static_cast<int>(i));
    }
    return fused;
}

}  // namespace calor::graph
