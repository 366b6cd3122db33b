// The descriptor of resample, and the checks that its public functions share.
#include "ops/resample/resample.h"
#include "ops/registry.h"

#include <algorithm>

namespace calor::ops::resample {
namespace {

using graph::Call;

graph::Specs infer(const graph::InferContext& c) {
    const auto& a = c.attrs<Attributes>();
    const Tensor& x = c.inputs[0];
    Shape shape = x.shape();
    for (std::int64_t i = 0; i < a.axes.rank(); ++i) {
        const Table& t = *a.tables[static_cast<std::size_t>(i)];
        if (shape[a.axes[i]] != t.inputs) fail_internal("a table for another size", c.where);
        shape[a.axes[i]] = t.outputs;
    }
    checked_bytes(shape, x.dtype(), c.where);
    return {{shape, x.dtype()}};
}

void gradient(const graph::GradContext& c);

const char* no_selection(const Call& c) {
    const auto& a = c.attrs<Attributes>();
    const bool all = std::ranges::all_of(a.tables, [](const TableRef& t) { return t->selects(); });
    return all ? nullptr : "an output is not one input";
}
const char* no_arithmetic(const Call& c) {
    const DType d = c.outputs[0].dtype;
    return is_floating(d) || d == u8 ? nullptr : "the dtype has no arithmetic here";
}

const graph::Implementation list[] = {{.name = "resample_select", .why_not = no_selection, .run = run_select},
                                      {.name = "resample_passes", .why_not = no_arithmetic, .run = run_passes},
                                      {.name = "reference", .run = run_reference}};
const graph::Implementation gpu_list[] = {{.name = "select_tables", .why_not = no_selection, .run = run_select_on_gpu},
                                          {.name = "resample_rows", .why_not = rows_why_not, .run = run_rows_on_gpu},
                                          {.name = "resample_tables", .run = run_on_gpu}};

const graph::Operation operation{
    .name = "resample",
    .traits = graph::linear,
    .infer = infer,
    .gradient = gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(list); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(gpu_list); },
    .format = format_of_input};

void gradient(const graph::GradContext& c) {
    Attributes a = c.attrs<Attributes>();
    for (TableRef& t : a.tables) t = t->transposed();
    c.grads[0] = graph::record(operation, std::move(a), {c.cotangent()}, c.where);
}

}  // namespace

Tensor apply_tables(const Tensor& x, const Axes& axes, std::vector<TableRef> tables, bool fixed_point,
                    const Where& where) {
    Attributes a;
    a.fixed_point = fixed_point;
    for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
        for (std::int64_t i = 0; i < axes.rank(); ++i) {
            TableRef& t = tables[static_cast<std::size_t>(i)];
            if (axes[i] != axis || t->identity()) continue;
            a.axes.push_back(axis);
            a.tables.push_back(std::move(t));
        }
    }
    if (a.axes.empty()) return x;
    return graph::record(operation, std::move(a), {x}, where);
}

void check_size(std::string_view name, std::int64_t axis, std::int64_t size, const Tensor& x, const Where& where) {
    if (size >= 1 && size <= (std::int64_t{1} << 30)) return;
    fail("resample/size", name, where, {{"got", size}, {"axis", axis}, {"inputs", x.size(axis)}}, describe(x));
}

void check_not_empty(std::string_view name, std::int64_t axis, const Tensor& x, const Where& where) {
    if (x.size(axis) >= 1) return check_size(name, axis, x.size(axis), x, where);
    fail("resample/empty", name, where, {{"axis", axis}}, describe(x));
}

void check_entries(std::string_view name, std::int64_t axis, std::int64_t size, double entries, const Tensor& x,
                   const Where& where) {
    if (entries <= static_cast<double>(most_entries)) return;
    fail("resample/size", name, where, {{"got", size}, {"axis", axis}, {"inputs", x.size(axis)}}, describe(x));
}

void check_rank(std::string_view name, const Tensor& x, const Where& where) {
    check_defined(name, x, "the input", where);
    if (x.rank() < 3) fail("resample/rank", name, where, {{"got", x.rank()}}, describe(x));
}

void check_floating(std::string_view name, const Tensor& x, const Where& where) {
    if (is_floating(x.dtype())) return;
    fail("dtype/unsupported", name, where,
         {{"argument", "the input"}, {"got", x.dtype()}, {"expected", "a floating dtype"}}, describe(x));
}

}  // namespace calor::ops::resample

namespace calor::ops {

Descriptors resample_descriptors() { return {&resample::operation}; }

}  // namespace calor::ops
