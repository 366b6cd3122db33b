// From rows to nodes: conversion of operands, broadcasting, recording, and the gradient rule that all rows share.
#include "ops/elementwise/row.h"

#include <fmt/format.h>

#include <map>

#include "calor/creation.h"
#include "graph/node.h"
#include "ops/elementwise/cpu/tile_kernels.h"
#include "ops/registry.h"

namespace calor::ops {
namespace {

using graph::Operation;

/// What a node's operation carries: the device side, and the row that it came from.
struct RowTraits : ElementwiseTraits {
    const Row* row = nullptr;
};
struct Descriptor {
    RowTraits traits;
    Operation operation;
};

const Row& row_of(const Operation& operation) { return *static_cast<const RowTraits*>(operation.row)->row; }

/// The dtype of the operands that have one; numbers beside halves are in f32.
DType operand_dtype(const graph::InferContext& c) {
    const std::size_t last = c.inputs.size() - 1;
    const DType dtype = graph::value_of(c.inputs[last]).dtype;
    if (dtype != f32) return dtype;
    for (std::size_t i = 0; i < last; ++i) {
        if (is_half(graph::value_of(c.inputs[i]).dtype)) return graph::value_of(c.inputs[i]).dtype;
    }
    return dtype;
}

graph::Specs infer_same(const graph::InferContext& c) {
    return {{broadcast_shape(c.operation, c.inputs, c.where), operand_dtype(c)}};
}
graph::Specs infer_boolean(const graph::InferContext& c) {
    return {{broadcast_shape(c.operation, c.inputs, c.where), boolean}};
}

void read_params(const graph::Attributes& attributes, double* params) {
    const Params& p = attributes.get<Params>();
    std::copy(std::begin(p.value), std::end(p.value), params);
}

void gradient(const graph::GradContext& c) {
    const Row& row = row_of(*c.outputs[0].node()->operation);
    const auto operand_term = [&](std::size_t i) { return i < c.inputs.size() ? Term{c.inputs[i], &c.where} : Term{}; };
    Terms t{.g = {c.cotangent(), &c.where},
            .a = operand_term(0),
            .b = operand_term(1),
            .c = operand_term(2),
            .y = {c.outputs[0], &c.where},
            .p = {}};
    if (row.parameters[0].name) t.p = c.attrs<Params>();
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
        if (c.needs[i] && row.partials[i]) c.grads[i] = row.partials[i](t).tensor;
    }
}

std::string_view expected_name(Accepts accepts) {
    switch (accepts) {
        case Accepts::floating: return "a floating dtype";
        case Accepts::numeric: return "a floating or integer dtype";
        case Accepts::integral: return "an integer dtype or bool";
        case Accepts::integer: return "an integer dtype";
        case Accepts::any: break;
    }
    return "any dtype";
}

/// The dtype in which a row computes operands of dtype `from`. Throws DTypeError [dtype/unsupported].
DType computed_in(const Row& row, DType from, const Where& where) {
    const bool fits = row.accepts == Accepts::any || row.accepts == Accepts::floating ||
                      (row.accepts == Accepts::numeric && from != boolean) ||
                      (row.accepts == Accepts::integral && !is_floating(from)) ||
                      (row.accepts == Accepts::integer && is_integer(from));
    if (!fits) {
        fail("dtype/unsupported", row.name, where,
             {{"argument", "an operand"}, {"got", from}, {"expected", expected_name(row.accepts)}});
    }
    return row.accepts == Accepts::floating && !is_floating(from) ? f32 : from;
}

/// Comparisons see numbers as the tensor stores its own; arithmetic on halves takes them in f32.
bool reads_rounded(const Row& row) {
    return row.gives == Gives::boolean || row.name == "minimum" || row.name == "maximum";
}

/// Numbers join the tensors' device.
Device device_of(std::span<const Operand* const> operands) {
    for (const Operand* o : operands) {
        if (o->is_tensor()) return o->tensor().node()->device;
    }
    return default_device();
}

Tensor convert(const Operand& o, DType dtype, const Row& row) {
    if (o.is_tensor()) return o.tensor().to(dtype, o.where());
    return scalar(o.scalar(), reads_rounded(row) ? dtype : compute_type(dtype), o.where());
}

DType common_of_numbers(std::span<const Operand* const> operands) {
    DType dtype = boolean;
    for (const Operand* o : operands) {
        if (o->scalar().kind() == Scalar::Kind::floating) return f32;
        if (o->scalar().kind() == Scalar::Kind::integer) dtype = i64;
    }
    return dtype;
}

Tensor record_all(const Operation& op, std::span<const Operand* const> operands, const Where& where) {
    const Row& row = row_of(op);
    const DType dtype = computed_in(row, common_dtype(op.name, operands, where), where);
    const OnDevice scope(device_of(operands));
    InlineVector<Tensor, 3> inputs;
    for (const Operand* o : operands) inputs.push_back(convert(*o, dtype, row));
    return graph::record(op, {}, std::span<const Tensor>(inputs.begin(), inputs.end()), where);
}

}  // namespace

std::span<const Row> elementwise_rows() {
    static const auto* all = [] {
        auto* rows = new std::vector<Row>;
        for (const auto part : {arithmetic_rows(), function_rows(), comparison_rows(), activation_rows()}) {
            rows->insert(rows->end(), part.begin(), part.end());
        }
        return rows;
    }();
    return *all;
}

const Operation& elementwise_operation(std::string_view name) {
    static auto* all = [] {
        auto* map = new std::map<std::string_view, Descriptor>;
        for (const Row& r : elementwise_rows()) {
            Descriptor& d = (*map)[r.name];
            d.traits.name = r.name;
            d.traits.kernel = r.kernel ? r.kernel : &find_tile_kernel;
            d.traits.text = r.text;
            d.traits.reads_rounded = reads_rounded(r);
            d.traits.row = &r;
            d.operation.name = r.name;
            d.operation.traits = graph::elementwise;
            d.operation.infer = r.gives == Gives::boolean ? infer_boolean : infer_same;
            d.operation.gradient = r.differentiable() ? gradient : nullptr;
            d.operation.row = &d.traits;
            d.operation.params = r.parameters[0].name ? read_params : nullptr;
        }
        return map;
    }();
    const auto it = all->find(name);
    if (it == all->end()) fail_internal(fmt::format("the elementwise table has no row {}", name));
    return it->second.operation;
}

Term zero_partial(const Terms& t) { return {zeros_like(t.y.tensor, *t.y.place), t.y.place}; }

DType common_dtype(std::string_view operation, std::span<const Operand* const> operands, const Where& where) {
    DType dtype = boolean;
    bool any_tensor = false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const Operand& o = *operands[i];
        if (!o.is_tensor()) continue;
        if (!o.tensor().defined()) {
            fail("tensor/undefined", operation, where, {{"argument", fmt::format("operand {}", i + 1)}});
        }
        const DType other = graph::value_of(o.tensor()).dtype;
        dtype = any_tensor ? promote(dtype, other) : other;
        any_tensor = true;
    }
    if (!any_tensor) return common_of_numbers(operands);
    if (is_floating(dtype)) return dtype;
    for (const Operand* o : operands) {
        if (o->is_tensor()) continue;
        const auto kind = o->scalar().kind();
        if (kind == Scalar::Kind::floating) return f32;
        if (kind == Scalar::Kind::integer && dtype == boolean) dtype = i64;
    }
    return dtype;
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
                     {{"a", before},
                      {"b", other},
                      {"axis", lead + a - shape.rank()},
                      {"size_a", size},
                      {"size_b", other[a]}},
                     operands);
            }
            size = other[a];
        }
    }
    return shape;
}

Tensor apply(const Operation& op, const Tensor& x, const Where& where, const Params& params) {
    const Naming naming(op.name);
    if (!x.defined()) fail("tensor/undefined", op.name, where, {{"argument", "the operand"}});
    const Row& row = row_of(op);
    const DType dtype = computed_in(row, graph::value_of(x).dtype, where);
    graph::Attributes attributes;
    if (row.parameters[0].name) attributes = graph::Attributes(params);
    return graph::record(op, std::move(attributes), {x.to(dtype, where)}, where);
}

Tensor apply(const Operation& op, const Operand& a, const Operand& b, const Where& where) {
    const Naming naming(op.name);
    const Operand* const operands[] = {&a, &b};
    return record_all(op, operands, where);
}

Tensor apply(const Operation& op, const Operand& a, const Operand& b, const Operand& c, const Where& where) {
    const Naming naming(op.name);
    const Operand* const operands[] = {&a, &b, &c};
    return record_all(op, operands, where);
}

Tensor apply_where(const Tensor& condition, const Operand& a, const Operand& b, const Where& where) {
    const Operation& op = operation_of<"where">();
    const Naming naming(op.name);
    if (!condition.defined()) fail("tensor/undefined", op.name, where, {{"argument", "the condition"}});
    const Operand* const operands[] = {&a, &b};
    const DType dtype = common_dtype(op.name, operands, where);
    const Row& row = row_of(op);
    const OnDevice scope(condition.device());
    return graph::record(op, {}, {condition.to(boolean, where), convert(a, dtype, row), convert(b, dtype, row)}, where);
}

Descriptors elementwise_descriptors() {
    Descriptors all;
    for (const Row& row : elementwise_rows()) all.push_back(&elementwise_operation(row.name));
    return all;
}

}  // namespace calor::ops
