// From rows to nodes: conversion of operands, broadcasting, recording.
#include "ops/elementwise/row.h"

#include <fmt/format.h>

#include <deque>
#include <map>

#include "ops/elementwise/cpu/tile_kernels.h"

namespace calor::ops {
namespace {

using graph::Operation;

const Row* row_named(std::string_view name) {
    static const auto* index = [] {
        auto* map = new std::map<std::string_view, const Row*>;
        for (const Row& r : elementwise_rows()) (*map)[r.name] = &r;
        return map;
    }();
    const auto it = index->find(name);
    return it == index->end() ? nullptr : it->second;
}

graph::Specs infer(const graph::InferContext& c) {
    const Row& row = *row_named(c.operation);
    const DType dtype = c.inputs[c.inputs.size() - 1].dtype();
    return {{broadcast_shape(c.operation, c.inputs, c.where), row.gives == Gives::boolean ? boolean : dtype}};
}

void read_params(const graph::Attributes& attributes, double* params) {
    const Params& p = attributes.get<Params>();
    std::copy(std::begin(p.value), std::end(p.value), params);
}

struct Descriptor {
    ElementwiseTraits traits;
    Operation operation;
};

std::string_view expected_name(Accepts accepts) {
    switch (accepts) {
        case Accepts::floating: return "a floating dtype";
        case Accepts::numeric: return "a floating or integer dtype";
        case Accepts::integral: return "an integer dtype or bool";
        case Accepts::any:
        case Accepts::boolean: break;
    }
    return "any dtype";
}

/// The dtype in which a row computes operands of dtype `from`. Throws DTypeError [dtype/unsupported].
DType computed_in(const Row& row, DType from, const Where& where) {
    const bool fits = row.accepts == Accepts::any || row.accepts == Accepts::boolean || row.accepts == Accepts::floating ||
                      (row.accepts == Accepts::numeric && from != boolean) ||
                      (row.accepts == Accepts::integral && !is_floating(from));
    if (!fits) {
        fail("dtype/unsupported", row.name, where,
             {{"argument", "an operand"}, {"got", from}, {"expected", expected_name(row.accepts)}});
    }
    if (row.accepts == Accepts::boolean) return boolean;
    return row.accepts == Accepts::floating && !is_floating(from) ? f32 : from;
}

/// The common dtype of tensors and numbers: numbers only lift a lower category (bool < integer < floating).
DType common_dtype(std::span<const Operand* const> operands) {
    DType dtype = boolean;
    bool any_tensor = false;
    for (const Operand* o : operands) {
        if (!o->is_tensor()) continue;
        dtype = any_tensor ? promote(dtype, o->tensor().dtype()) : o->tensor().dtype();
        any_tensor = true;
    }
    for (const Operand* o : operands) {
        if (o->is_tensor()) continue;
        const auto kind = o->scalar().kind();
        if (kind == Scalar::Kind::floating && !is_floating(dtype)) dtype = f32;
        if (kind == Scalar::Kind::integer && dtype == boolean) dtype = any_tensor ? i64 : dtype;
    }
    return dtype;
}

Tensor convert(const Operand& o, DType dtype) {
    return o.is_tensor() ? o.tensor().to(dtype, o.where()) : scalar(o.scalar(), dtype, o.where());
}

void check_defined(std::string_view operation, std::span<const Operand* const> operands, const Where& where) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i]->is_tensor() && !operands[i]->tensor().defined()) {
            fail("tensor/undefined", operation, where, {{"argument", fmt::format("operand {}", i + 1)}});
        }
    }
}

}  // namespace

const Operation& elementwise_operation(std::string_view name) {
    static auto* all = [] {
        auto* map = new std::map<std::string_view, Descriptor>;
        for (const Row& r : elementwise_rows()) {
            Descriptor& d = (*map)[r.name];
            d.traits = {.name = r.name,
                        .kernel = &find_tile_kernel,
                        .text = r.text,
                        .reads_rounded = r.gives == Gives::boolean || r.name == "minimum" || r.name == "maximum"};
            d.operation.name = r.name;
            d.operation.traits = graph::elementwise;
            d.operation.infer = infer;
            d.operation.gradient = r.gradient;
            d.operation.row = &d.traits;
            d.operation.params = read_params;
        }
        return map;
    }();
    const auto it = all->find(name);
    if (it == all->end()) fail_internal(fmt::format("the elementwise table has no row {}", name));
    return it->second.operation;
}

Shape broadcast_shape(std::string_view operation, std::span<const Tensor> inputs, const Where& where) {
    Shape shape = inputs[0].shape();
    for (std::size_t i = 1; i < inputs.size(); ++i) {
        const Shape& other = inputs[i].shape();
        if (other == shape) continue;
        const Shape before = shape;
        while (shape.rank() < other.rank()) shape.insert(0, 1);
        const std::int64_t lead = shape.rank() - other.rank();
        for (std::int64_t a = 0; a < other.rank(); ++a) {
            std::int64_t& size = shape[lead + a];
            if (size == other[a] || other[a] == 1) continue;
            if (size != 1) {
                std::string operands;
                for (const Tensor& t : inputs) operands += (operands.empty() ? "operands " : ", ") + describe(t);
                fail("shape/broadcast", operation, where,
                     {{"a", before}, {"b", other}, {"axis", lead + a - shape.rank()}, {"size_a", size}, {"size_b", other[a]}},
                     operands);
            }
            size = other[a];
        }
    }
    return shape;
}

Tensor apply(const Operation& op, const Tensor& x, const Where& where, const Params& params) {
    if (!x.defined()) fail("tensor/undefined", op.name, where, {{"argument", "the operand"}});
    const DType dtype = computed_in(*row_named(op.name), x.dtype(), where);
    return graph::record(op, params, {x.to(dtype, where)}, where);
}

Tensor apply(const Operation& op, const Operand& a, const Operand& b, const Where& where, const Params& params) {
    const Operand* const operands[] = {&a, &b};
    check_defined(op.name, operands, where);
    const DType dtype = computed_in(*row_named(op.name), common_dtype(operands), where);
    return graph::record(op, params, {convert(a, dtype), convert(b, dtype)}, where);
}

Tensor apply(const Operation& op, const Operand& a, const Operand& b, const Operand& c, const Where& where) {
    const Operand* const operands[] = {&a, &b, &c};
    check_defined(op.name, operands, where);
    const DType dtype = computed_in(*row_named(op.name), common_dtype(operands), where);
    return graph::record(op, Params{}, {convert(a, dtype), convert(b, dtype), convert(c, dtype)}, where);
}

Tensor apply_where(const Tensor& condition, const Operand& a, const Operand& b, const Where& where) {
    static const Operation& op = elementwise_operation("where");
    const Operand* const operands[] = {&a, &b};
    check_defined(op.name, operands, where);
    if (!condition.defined()) fail("tensor/undefined", op.name, where, {{"argument", "the condition"}});
    const DType dtype = common_dtype(operands);
    return graph::record(op, Params{}, {condition.to(boolean, where), convert(a, dtype), convert(b, dtype)}, where);
}

}  // namespace calor::ops
