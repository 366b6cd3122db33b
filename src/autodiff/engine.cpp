#include "autodiff/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "calor/elementwise.h"
#include "calor/reduce.h"
#include "calor/view.h"
#include "core/fail.h"

namespace calor::autodiff {
namespace {

using graph::Node;

bool stops(const Node& node) { return node.leaf || !node.operation; }

/// Tracked nodes below the roots, inputs before consumers.
std::vector<Node*> tracked_order(std::span<const Tensor> roots) {
    struct Visit {
        Node* node;
        std::size_t next;
    };
    std::vector<Node*> order;
    std::vector<Visit> stack;
    std::unordered_set<Node*> seen;
    const auto enter = [&](const Tensor& t) {
        if (t.node() && t.node()->tracked && seen.insert(t.node()).second) stack.push_back({t.node(), 0});
    };
    for (const Tensor& root : roots) {
        enter(root);
        while (!stack.empty()) {
            Visit& top = stack.back();
            if (stops(*top.node) || top.next == top.node->inputs.size()) {
                order.push_back(top.node);
                stack.pop_back();
            } else {
                enter(top.node->inputs[top.next++]);
            }
        }
    }
    return order;
}

class Pass {
public:
    Pass(const Request& request, const Where& where) : request_(request), where_(where) {}

    Result run() {
        const std::vector<Node*> order = tracked_order(request_.outputs);
        find_wanted(order);
        for (std::size_t i = 0; i < request_.outputs.size(); ++i) {
            if (request_.outputs[i].tracked()) accumulate(request_.outputs[i], request_.cotangents[i]);
        }
        for (auto it = order.rbegin(); it != order.rend(); ++it) visit(**it);
        if (!request_.options.retain_graph && !request_.options.create_graph) {
            for (Node* node : order) {
                if (!stops(*node)) let_go(*node);
            }
        }
        for (const Tensor& t : request_.inputs) {
            const auto found = asked_.find({t.node(), t.output()});
            result_.gradients.push_back(found == asked_.end() ? Tensor() : found->second);
        }
        return std::move(result_);
    }

private:
    struct Key {
        const Node* node;
        std::uint32_t output;
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct Hash {
        std::size_t operator()(const Key& k) const { return std::hash<const void*>()(k.node) * 31 + k.output; }
    };

    /// A node is wanted when a gradient that was asked for lies below it.
    void find_wanted(std::span<Node* const> order) {
        for (const Tensor& t : request_.inputs) {
            if (t.node()) asked_.emplace(Key{t.node(), t.output()}, Tensor());
        }
        std::unordered_set<const Node*> asked_nodes;
        for (const auto& [key, gradient] : asked_) asked_nodes.insert(key.node);
        for (Node* node : order) {
            bool wanted = asked_nodes.contains(node) || (request_.all_leaves && node->leaf);
            if (!stops(*node)) {
                for (const Tensor& t : node->inputs) wanted = wanted || wanted_.contains(t.node());
            }
            if (wanted) wanted_.insert(node);
        }
    }

    void accumulate(const Tensor& of, Tensor gradient) {
        Tensor& sum = cotangents_[{of.node(), of.output()}];
        sum = sum.defined() ? add(sum, gradient, where_) : std::move(gradient);
    }

    void visit(Node& node) {
        std::vector<Tensor> flowing(node.values.size());
        bool any = false;
        for (std::uint32_t o = 0; o < node.values.size(); ++o) {
            const auto found = cotangents_.find({&node, o});
            if (found == cotangents_.end()) continue;
            flowing[o] = std::move(found->second);
            cotangents_.erase(found);
            any = true;
            if (auto asked = asked_.find({&node, o}); asked != asked_.end()) asked->second = flowing[o];
        }
        if (!any) return;
        if (stops(node)) {
            if (request_.all_leaves && node.leaf) {
                graph::retain(&node);
                result_.leaves.set(Tensor(&node, 0), flowing[0]);
            }
            return;
        }
        if (!wanted_.contains(&node)) return;
        if (node.released.load()) {
            fail("autodiff/released", request_.operation, where_, {{"operation_name", node.name()}});
        }
        apply_rule(node, flowing);
    }

    void apply_rule(Node& node, std::span<const Tensor> flowing) {
        const std::size_t count = node.inputs.size();
        const std::vector<Tensor> inputs(node.inputs.begin(), node.inputs.end());
        std::vector<Tensor> outputs, grads(count);
        const auto needs = std::make_unique<bool[]>(count);
        for (std::uint32_t o = 0; o < node.values.size(); ++o) {
            graph::retain(&node);
            outputs.emplace_back(&node, o);
        }
        bool any = false;
        for (std::size_t i = 0; i < count; ++i) {
            needs[i] = inputs[i].tracked() && wanted_.contains(inputs[i].node());
            any = any || needs[i];
        }
        if (!any) return;
        const OnDevice scope(node.device);  // of what the rule makes
        node.operation->gradient({node.attributes, inputs, outputs, flowing, {needs.get(), count}, grads, node.where});
        for (std::size_t i = 0; i < count; ++i) {
            if (!needs[i] || !grads[i].defined()) continue;
            const Tensor fitted = sum_to(grads[i], inputs[i].shape(), node.where).to(inputs[i].dtype(), node.where);
            accumulate(inputs[i], fitted);
        }
    }

    static void let_go(Node& node) {
        node.released.store(true);
        if (node.evaluated.load(std::memory_order_acquire)) node.inputs.clear();
    }

    const Request& request_;
    const Where& where_;
    Result result_;
    std::unordered_set<const Node*> wanted_;
    std::unordered_map<Key, Tensor, Hash> cotangents_;
    std::unordered_map<Key, Tensor, Hash> asked_;
};

}  // namespace

Tensor sum_to(const Tensor& gradient, const Shape& shape, const Where& where) {
    if (gradient.shape() == shape) return gradient;
    const std::int64_t lead = gradient.rank() - shape.rank();
    if (lead < 0) fail_internal("a gradient has fewer axes than its tensor", where);
    Axes axes;
    for (std::int64_t a = 0; a < gradient.rank(); ++a) {
        if (a < lead || (shape[a - lead] == 1 && gradient.shape()[a] != 1)) axes.push_back(a);
    }
    const Tensor summed = axes.empty() ? gradient : sum(gradient, axes, true, where);
    return summed.shape() == shape ? summed : reshape(summed, shape, where);
}

Result reverse(const Request& request, const Where& where) {
    if (request.options.create_graph) return Pass(request, where).run();
    const NoGrad guard;
    return Pass(request, where).run();
}

std::vector<Tensor> leaves_below(std::span<const Tensor> roots) {
    std::vector<Tensor> leaves;
    for (Node* node : tracked_order(roots)) {
        if (!node->leaf) continue;
        graph::retain(node);
        leaves.emplace_back(node, 0);
    }
    return leaves;
}

}  // namespace calor::autodiff
