// sort, argsort, topk and kthvalue are one operation: the first entries of the sorted order, with their places.
#include "calor/sort.h"

#include "calor/creation.h"
#include "calor/index.h"
#include "calor/view.h"
#include "ops/registry.h"
#include "ops/sort/sort.h"

namespace calor {
namespace {

using ops::SortAttributes;

graph::Specs infer(const graph::InferContext& c) {
    const auto& a = c.attrs<SortAttributes>();
    Shape shape = c.inputs[0].shape();
    shape[a.axis] = a.keep;
    return {{shape, c.inputs[0].dtype()}, {shape, i64}};
}

/// Every value came from one place, and no place gave two.
void gradient(const graph::GradContext& c) {
    const Tensor& x = c.inputs[0];
    c.grads[0] = scatter(zeros(x.shape(), x.dtype(), c.where), c.attrs<SortAttributes>().axis, c.outputs[1],
                         c.cotangent(), c.where);
}

const graph::Implementation list[] = {{.name = "keys", .run = ops::sort_keys},
                                      {.name = "reference", .run = ops::sort_reference}};

constexpr graph::Operation operation(std::string_view name) {
    graph::Operation op;
    op.name = name;
    op.traits = graph::indexing;
    op.infer = infer;
    op.gradient = gradient;
    op.implementations = [](DeviceKind) { return std::span<const graph::Implementation>(list); };
    op.gpu_implementations = ops::sort_on_gpu;
    return op;
}

SortResult record(const graph::Operation& op, const Tensor& x, const SortAttributes& attributes, const Where& where) {
    const Tensor values = graph::record(op, attributes, {x}, where);
    return {values, graph::result(values, 1)};
}

constinit const graph::Operation sort_operation = operation("sort"), topk_operation = operation("topk");

/// Throws unless `k` lies in [least, size of the axis].
void check_k(std::string_view operation, std::int64_t k, std::int64_t least, std::int64_t size, const Where& where) {
    if (k >= least && k <= size) return;
    fail("value/option", operation, where,
         {{"option", "k"},
          {"got", k},
          {"expected", std::to_string(least) + " to " + std::to_string(size)},
          {"help", "the axis has " + std::to_string(size) + " entries"}});
}

}  // namespace

SortResult sort(const Tensor& x, std::int64_t axis, bool descending, const Where& where) {
    const Naming naming("sort");
    ops::check_defined("sort", x, "the tensor", where);
    const std::int64_t at = ops::normalize_axis("sort", axis, std::max<std::int64_t>(x.rank(), 1), where);
    const OnDevice scope(x.device());
    if (x.rank() == 0) return {x, zeros({}, i64, where)};
    return record(sort_operation, x, {at, x.shape()[at], descending}, where);
}

Tensor argsort(const Tensor& x, std::int64_t axis, bool descending, const Where& where) {
    const Naming naming("argsort");
    return sort(x, axis, descending, where).indices;
}

SortResult topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest, const Where& where) {
    const Naming naming("topk");
    ops::check_defined("topk", x, "the tensor", where);
    const std::int64_t at = ops::normalize_axis("topk", axis, x.rank(), where);
    check_k("topk", k, 0, x.shape()[at], where);
    return record(topk_operation, x, {at, k, largest}, where);
}

SortResult kthvalue(const Tensor& x, std::int64_t k, std::int64_t axis, const Where& where) {
    const Naming naming("kthvalue");
    ops::check_defined("kthvalue", x, "the tensor", where);
    const std::int64_t at = ops::normalize_axis("kthvalue", axis, x.rank(), where);
    check_k("kthvalue", k, 1, x.shape()[at], where);
    const SortResult smallest = record(topk_operation, x, {at, k, false}, where);
    return {select(smallest.values, at, k - 1, where), select(smallest.indices, at, k - 1, where)};
}

ops::Descriptors ops::sort_descriptors() { return {&sort_operation, &topk_operation}; }

}  // namespace calor
