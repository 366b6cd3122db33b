// The scans as operations, and their gradient rules. With the forward direction (reverse swaps i - 1 and i + 1):
//   cumsum             dx = g summed in the other direction
//   cumprod            dx_i = (x_0 ... x_{i-1}) R_i,  R_i = g_i + x_{i+1} R_{i+1}: no division, linear time
//   logcumsumexp       dx_i = e^(x_i - y_i) R_i,      R_i = g_i + e^(y_i - y_{i+1}) R_{i+1}: factors of at most 1
//   linear_recurrence  db_i = R_i = g_i + a_{i+1} R_{i+1},  da_i = R_i h_{i-1}
#include "calor/scan.h"

#include <cmath>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/index.h"
#include "calor/view.h"
#include "ops/registry.h"
#include "ops/scan/scan.h"
#include "ops/support.h"

namespace calor {
namespace {

using graph::GradContext;
using ops::scan::Attributes;
using ops::scan::Kind;

const graph::Implementation implementations[] = {{.name = "lines", .run = ops::scan::run_lines},
                                                 {.name = "reference", .run = ops::scan::run_reference}};

constexpr graph::Operation operation(std::string_view name, void (*gradient)(const GradContext&),
                                     std::uint32_t traits = graph::none) {
    graph::Operation op;
    op.name = name;
    op.traits = traits;
    op.infer = [](const graph::InferContext& c) { return graph::Specs{{c.inputs[0].shape(), c.inputs[0].dtype()}}; };
    op.gradient = gradient;
    op.implementations = [](DeviceKind) { return std::span<const graph::Implementation>(implementations); };
    op.gpu_implementations = ops::scan::scan_on_gpu;
    return op;
}

Tensor wide(const Tensor& x, const Where& where) {
    const DType to = compute_type(x.dtype());
    return x.dtype() == to ? x : x.to(to, where);
}

/// y_i = x_{i - by} along an axis; zeros come in.
Tensor moved(const Tensor& x, std::int64_t axis, std::int64_t by, const Where& where) {
    if (x.numel() == 0) return x;
    if (x.size(axis) == 1) return zeros_like(x, where);
    std::vector<Padding> paddings(static_cast<std::size_t>(x.rank() - axis));
    paddings[0] = {by, -by};
    return pad(x, paddings, 0, where);
}

void sum_gradient(const GradContext& c);
void product_gradient(const GradContext& c);
void logarithm_gradient(const GradContext& c);
void recurrence_gradient(const GradContext& c);

constinit const graph::Operation cumsum_operation = operation("cumsum", sum_gradient, graph::linear);
constinit const graph::Operation cumprod_operation = operation("cumprod", product_gradient);
constinit const graph::Operation logcumsumexp_operation = operation("logcumsumexp", logarithm_gradient);
constinit const graph::Operation linear_recurrence_operation = operation("linear_recurrence", recurrence_gradient);

Tensor record_sum(const Tensor& x, const Attributes& a, const Where& where) {
    return graph::record(cumsum_operation, a, {x}, where);
}
Tensor record_product(const Tensor& x, const Attributes& a, const Where& where) {
    return graph::record(cumprod_operation, a, {x}, where);
}
Tensor record_logarithm(const Tensor& x, const Attributes& a, const Where& where) {
    return graph::record(logcumsumexp_operation, a, {x}, where);
}
Tensor record_recurrence(const Tensor& a, const Tensor& b, std::int64_t axis, bool reverse, bool lag,
                         const Where& where) {
    Attributes attributes{Kind::recurrence, axis, reverse};
    attributes.lag = lag;
    return graph::record(linear_recurrence_operation, attributes, {a, b}, where);
}

void sum_gradient(const GradContext& c) {
    Attributes a = c.attrs<Attributes>();
    a.reverse = !a.reverse;
    c.grads[0] = record_sum(c.cotangent(), a, c.where);
}

void product_gradient(const GradContext& c) {
    const auto& a = c.attrs<Attributes>();
    const Tensor x = wide(c.inputs[0], c.where), g = wide(c.cotangent(), c.where);
    Attributes before = a;
    before.exclusive = true;
    const Tensor others = record_product(x, before, c.where);
    Tensor behind = record_recurrence(x, g, a.axis, !a.reverse, !a.exclusive, c.where);
    if (a.exclusive) behind = moved(behind, a.axis, a.reverse ? 1 : -1, c.where);
    c.grads[0] = mul(others, behind, c.where);
}

/// e^(y_i - y_{i+1}) (with `reverse`, y_{i-1}); 0 at the end of the axis. `empty` marks sums of nothing but e^-inf.
Tensor decay(const Tensor& y, const Tensor& empty, std::int64_t axis, bool reverse, const Where& at) {
    const std::int64_t n = y.size(axis), own = reverse ? 1 : 0;
    const Tensor from = narrow(y, axis, own, n - 1, at), to = narrow(y, axis, 1 - own, n - 1, at);
    const Tensor step = exp(where(narrow(empty, axis, own, n - 1, at), 0, sub(from, to, at), at), at);
    std::vector<Padding> paddings(static_cast<std::size_t>(y.rank() - axis));
    paddings[0] = {own, 1 - own};
    return pad(step, paddings, 0, at);
}

void logarithm_gradient(const GradContext& c) {
    const auto& a = c.attrs<Attributes>();
    const Where& at = c.where;
    const Tensor x = wide(c.inputs[0], at), g = wide(c.cotangent(), at);
    if (x.numel() == 0) {
        c.grads[0] = g;
        return;
    }
    const Tensor y = x.same_as(c.inputs[0]) ? c.outputs[0] : record_logarithm(x, a, at);
    const Tensor empty = eq(y, -HUGE_VAL, at), safe = where(empty, 0, y, at);
    const Tensor factors = decay(safe, empty, a.axis, a.reverse, at);
    const Tensor behind = record_recurrence(factors, g, a.axis, !a.reverse, false, at);
    const Tensor share = exp(where(empty, 0, sub(x, safe, at), at), at);
    c.grads[0] = where(empty, 0, mul(share, behind, at), at);
}

void recurrence_gradient(const GradContext& c) {
    const auto& a = c.attrs<Attributes>();
    const Tensor factors = wide(c.inputs[0], c.where), h = wide(c.outputs[0], c.where);
    const Tensor back = record_recurrence(factors, wide(c.cotangent(), c.where), a.axis, !a.reverse, !a.lag, c.where);
    if (c.needs[0]) {
        const std::int64_t ahead = a.reverse ? 1 : -1;
        c.grads[0] = a.lag ? mul(moved(back, a.axis, ahead, c.where), h, c.where)
                           : mul(back, moved(h, a.axis, -ahead, c.where), c.where);
    }
    if (c.needs[1]) c.grads[1] = back;
}

Attributes attributes(std::string_view name, Kind kind, const Tensor& x, std::int64_t axis, const ScanOptions& o,
                      const Where& where) {
    ops::check_defined(name, x, "the tensor", where);
    return {kind, ops::normalize_axis(name, axis, x.rank(), where), o.reverse, o.exclusive};
}

const graph::Implementation extreme_gradient_list[] = {{.name = "reference", .run = ops::scan::run_extremes_gradient}};
const graph::Operation extreme_gradient_operation{
    .name = "running_extreme_grad",
    .traits = graph::linear,
    .infer =
        [](const graph::InferContext& c) {
            return graph::Specs{{c.inputs[0].shape(), c.inputs[0].dtype()}};
        },
    .gradient =
        [](const GradContext& c) {
            c.grads[0] = gather(c.cotangent(), c.attrs<Attributes>().axis, c.inputs[1], c.where);
        },
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(extreme_gradient_list); },
    .gpu_implementations = ops::scan::extreme_gradient_on_gpu};

void extreme_gradient(const GradContext& c) {
    c.grads[0] = graph::record(extreme_gradient_operation, c.attributes, {c.cotangent(), c.outputs[1]}, c.where);
}

constexpr graph::Operation extreme_operation(std::string_view name,
                                             std::span<const graph::Implementation> (*implementations)(DeviceKind),
                                             std::span<const graph::Implementation> (*on_gpu)()) {
    graph::Operation op;
    op.name = name;
    op.infer = [](const graph::InferContext& c) {
        return graph::Specs{{c.inputs[0].shape(), c.inputs[0].dtype()}, {c.inputs[0].shape(), i64}};
    };
    op.gradient = extreme_gradient;
    op.implementations = implementations;
    op.gpu_implementations = on_gpu;
    return op;
}

const graph::Implementation cummax_list[] = {
    {.name = "lines", .run = [](const graph::Call& c) { ops::scan::run_extremes(c, true); }},
    {.name = "reference", .run = [](const graph::Call& c) { ops::scan::run_extremes_reference(c, true); }}};
constinit const graph::Operation cummax_operation = extreme_operation(
    "cummax", [](DeviceKind) { return std::span<const graph::Implementation>(cummax_list); }, ops::scan::cummax_on_gpu);
const graph::Implementation cummin_list[] = {
    {.name = "lines", .run = [](const graph::Call& c) { ops::scan::run_extremes(c, false); }},
    {.name = "reference", .run = [](const graph::Call& c) { ops::scan::run_extremes_reference(c, false); }}};
constinit const graph::Operation cummin_operation = extreme_operation(
    "cummin", [](DeviceKind) { return std::span<const graph::Implementation>(cummin_list); }, ops::scan::cummin_on_gpu);

RunningExtreme record_extreme(const graph::Operation& op, const Tensor& x, std::int64_t axis, bool reverse,
                              const Where& where) {
    const Attributes a = attributes(op.name, Kind::sum, x, axis, {.reverse = reverse}, where);
    const Tensor values = graph::record(op, a, {x}, where);
    return {values, graph::result(values, 1)};
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t axis, const ScanOptions& options, const Where& where) {
    const Naming naming("cumsum");
    const Attributes a = attributes("cumsum", Kind::sum, x, axis, options, where);
    return record_sum(x.dtype() == boolean ? x.to(i64, where) : x, a, where);
}

Tensor cumprod(const Tensor& x, std::int64_t axis, const ScanOptions& options, const Where& where) {
    const Naming naming("cumprod");
    const Attributes a = attributes("cumprod", Kind::product, x, axis, options, where);
    return record_product(x.dtype() == boolean ? x.to(i64, where) : x, a, where);
}

Tensor logcumsumexp(const Tensor& x, std::int64_t axis, const ScanOptions& options, const Where& where) {
    const Naming naming("logcumsumexp");
    Attributes a = attributes("logcumsumexp", Kind::logsumexp, x, axis, options, where);
    a.exclusive = false;
    const Tensor y = record_logarithm(is_floating(x.dtype()) ? x : x.to(f32, where), a, where);
    if (!options.exclusive || x.numel() == 0) return y;
    const std::int64_t n = x.size(a.axis);
    Shape one = x.shape();
    one[a.axis] = 1;
    const OnDevice scope(y.device());
    const Tensor nothing = full(one, -HUGE_VAL, y.dtype(), where);
    if (a.reverse) return concat({narrow(y, a.axis, 1, n - 1, where), nothing}, a.axis, where);
    return concat({nothing, narrow(y, a.axis, 0, n - 1, where)}, a.axis, where);
}

RunningExtreme cummax(const Tensor& x, std::int64_t axis, bool reverse, const Where& where) {
    const Naming naming("cummax");
    return record_extreme(cummax_operation, x, axis, reverse, where);
}

RunningExtreme cummin(const Tensor& x, std::int64_t axis, bool reverse, const Where& where) {
    const Naming naming("cummin");
    return record_extreme(cummin_operation, x, axis, reverse, where);
}

Tensor linear_recurrence(const Tensor& a, const Tensor& b, std::int64_t axis, bool reverse, const Where& where) {
    const Naming naming("linear_recurrence");
    constexpr std::string_view name = "linear_recurrence";
    ops::check_defined(name, a, "the factors", where);
    ops::check_defined(name, b, "the summands", where);
    const std::string operands = "a " + describe(a) + ", b " + describe(b);
    for (const Tensor* t : {&a, &b}) {
        if (is_floating(t->dtype())) continue;
        fail("dtype/unsupported", name, where,
             {{"argument", t == &a ? "a" : "b"}, {"got", t->dtype()}, {"expected", "a floating dtype"}}, operands);
    }
    if (a.dtype() != b.dtype()) {
        fail("dtype/mismatch", name, where,
             {{"argument", "b"}, {"got", b.dtype()}, {"other", "a"}, {"expected", a.dtype()}}, operands);
    }
    if (a.shape() != b.shape()) {
        fail("shape/mismatch", name, where,
             {{"argument", "b"},
              {"got", b.shape()},
              {"expected", a.shape()},
              {"help", "a and b have one shape; expand() repeats a factor"}},
             operands);
    }
    return record_recurrence(a, b, ops::normalize_axis(name, axis, a.rank(), where), reverse, false, where);
}

ops::Descriptors ops::scan_descriptors() {
    return {&cumsum_operation, &cumprod_operation, &logcumsumexp_operation,    &linear_recurrence_operation,
            &cummax_operation, &cummin_operation,  &extreme_gradient_operation};
}

}  // namespace calor
