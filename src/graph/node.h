// Node: one recorded operation, or a value that came from the host. A node owns its results once they are computed and
// then drops its inputs, unless a gradient may still need them.
#pragma once

#include <atomic>

#include "graph/operation.h"

namespace calor::graph {

/// One result: what it is, and where it lies once computed.
struct Value {
    Shape shape;
    DType dtype = f32;
    Layout layout;
    Ref<Storage> storage;
    Ref<Storage> on_host = {};  ///< a dense copy that data() made of a GPU's values
};

class Node {
public:
    std::atomic<std::int32_t> references{1};
    std::atomic<bool> evaluated{false};
    bool tracked = false;               ///< a gradient may flow through
    bool strict = false;                ///< fused half-precision chains round after this operation
    bool leaf = false;                  ///< tracked, and the gradient stops here
    std::atomic<bool> released{false};  ///< a backward pass walked past: inputs may go
    std::uint8_t mark = 0;              ///< evaluation: visit state; only pending nodes, owned by one thread
    std::int32_t edges = 0;             ///< evaluation: references from the nodes being evaluated
    std::int32_t group = -1;            ///< evaluation: fused group
    std::int32_t fused_edges = 0;       ///< evaluation: references from the own group
    std::int32_t depth = 0;             ///< longest chain of pending nodes below
    const Operation* operation = nullptr;
    Device device;
    Attributes attributes;
    InlineVector<Tensor, 3> inputs;
    InlineVector<Value, 1> values;
    Where where;
    std::string_view caller;    ///< the public function that recorded it: errors name it
    Node* next_dead = nullptr;  ///< links nodes that wait for destruction

    std::string_view name() const { return operation ? operation->name : std::string_view("value"); }
};

/// The result that a tensor names.
inline Value& value_of(const Tensor& t) { return t.node()->values[t.output()]; }

/// An evaluated node around a storage.
Tensor make_value(Ref<Storage> storage, Layout layout, const Shape& shape, DType dtype, Device device,
                  const Where& where);
/// View of an evaluated result.
View view_of(const Value& value);

/// Computes the values of the nodes behind the tensors.
void evaluate(std::span<const Tensor> roots, const Where& where);

/// Lines about what ran while it lives: for explain_plan.
class Trace {
public:
    Trace();
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;
    ~Trace();
    static Trace* current();
    std::string text;

private:
    Trace* outer_;
};

}  // namespace calor::graph
