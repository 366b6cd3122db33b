// Life of nodes: recording and destruction, neither of which recurses.
#include "graph/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace calor {
namespace {

thread_local bool recording_gradients = true;
thread_local bool strict_rounding = false;

}  // namespace

NoGrad::NoGrad(bool record) : before_(std::exchange(recording_gradients, record)) {}
NoGrad::~NoGrad() { recording_gradients = before_; }
StrictRounding::StrictRounding(bool on) : before_(std::exchange(strict_rounding, on)) {}
StrictRounding::~StrictRounding() { strict_rounding = before_; }

bool grad_enabled() { return recording_gradients; }

std::string describe(const Tensor& t) {
    return t.defined() ? fmt::format("{}{}", name_of(t.dtype()), to_string(t.shape())) : std::string("undefined");
}

namespace graph {
namespace {

// A chain of a million nodes dies in a loop: a dying node only puts its inputs on this list.
thread_local Node* dead_nodes = nullptr;
thread_local bool burying = false;

/// Pending chains longer than this are computed when they are recorded, which bounds pending work.
constexpr std::int32_t longest_pending_chain = 2048;

void check_inputs(const Operation& operation, std::span<const Tensor> inputs, const Where& where) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].defined()) {
            fail("tensor/undefined", operation.name, where, {{"argument", fmt::format("operand {}", i + 1)}});
        }
        if (!(inputs[i].node()->device == inputs[0].node()->device)) {
            fail("device/mismatch", operation.name, where,
                 {{"argument", fmt::format("operand {}", i + 1)},
                  {"got", to_string(inputs[i].node()->device)},
                  {"other", "operand 1"},
                  {"expected", to_string(inputs[0].node()->device)}});
        }
    }
}

}  // namespace

void retain(Node* node) noexcept {
    if (node) node->references.fetch_add(1, std::memory_order_relaxed);
}

void release(Node* node) noexcept {
    if (!node || node->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    node->next_dead = dead_nodes;
    dead_nodes = node;
    if (burying) return;
    burying = true;
    while (dead_nodes) {
        Node* next = dead_nodes;
        dead_nodes = next->next_dead;
        delete next;
    }
    burying = false;
}

Tensor record(const Operation& operation, Attributes attributes, std::span<const Tensor> inputs, const Where& where) {
    const Naming naming(operation.name);
    check_inputs(operation, inputs, where);
    Specs specs = operation.infer({operation.name, attributes, inputs, where});
    auto* node = new Node;
    Tensor first(node, 0);
    node->operation = &operation;
    node->where = where;
    node->caller = Naming::current();
    node->strict = strict_rounding;
    node->attributes = std::move(attributes);
    node->device = operation.device ? operation.device(node->attributes)
                   : inputs.empty() ? default_device()
                                    : inputs[0].node()->device;
    bool tracked = false;
    for (const Tensor& t : inputs) {
        node->inputs.push_back(t);
        const Node& from = *t.node();
        tracked = tracked || from.tracked;
        if (!from.evaluated.load(std::memory_order_acquire)) node->depth = std::max(node->depth, from.depth + 1);
    }
    bool floating = false;
    for (Spec& s : specs) {
        (void)checked_bytes(s.shape, s.dtype, where);
        floating = floating || is_floating(s.dtype);
        node->values.push_back({std::move(s.shape), s.dtype, {}, {}});
    }
    node->tracked = tracked && floating && operation.gradient && recording_gradients;
    if (node->depth >= longest_pending_chain) evaluate({&first, 1}, where);
    return first;
}

Tensor result(const Tensor& first, std::uint32_t output) {
    retain(first.node());
    return Tensor(first.node(), output);
}

Tensor make_value(Ref<Storage> storage, Layout layout, const Shape& shape, DType dtype, Device device,
                  const Where& where) {
    auto* node = new Node;
    Tensor t(node, 0);
    node->evaluated.store(true, std::memory_order_relaxed);
    node->device = device;
    node->where = where;
    node->values.push_back({shape, dtype, std::move(layout), std::move(storage)});
    return t;
}

View view_of(const Value& value) {
    auto* base = static_cast<std::byte*>(value.storage->data);
    return {base + value.layout.offset * size_of(value.dtype), value.dtype, &value.shape, &value.layout.strides};
}

}  // namespace graph
}  // namespace calor
