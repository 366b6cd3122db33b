// Adaptive and fractional max pooling: checks, shape and gradient rules, public functions. The gradient adds to the
// elements that the indices name, so it is deterministic and has gradients of any order.
#include "ops/pool/box_pool.h"

#include <cmath>

#include "calor/elementwise.h"
#include "calor/pool.h"
#include "calor/random.h"
#include "calor/resample.h"
#include "ops/pool/index_planes.h"
#include "ops/registry.h"

namespace calor::ops::pool {
namespace {

using graph::GradContext;
using graph::InferContext;
using graph::Specs;

Specs infer_box(const InferContext& c) {
    const Tensor& x = c.inputs[0];
    Shape shape{x.shape()[0], x.shape()[1]};
    for (const std::int64_t p : c.attrs<BoxAttributes>().positions) shape.push_back(p);
    (void)checked_bytes(shape, i64, c.where);
    return {{shape, x.dtype()}, {shape, i64}};
}

void box_gradient(const GradContext& c) {
    if (c.needs[0]) {
        c.grads[0] = add_to_planes(c.cotangent(), c.outputs[1], c.attrs<BoxAttributes>().sizes, c.where);
    }
}

const graph::Implementation implementations[] = {{.name = "box_rows", .why_not = box_why_not, .run = box_rows},
                                                 {.name = "reference", .run = box_reference}};
const graph::Implementation gpu_implementations[] = {{.name = "box_gather", .run = box_on_gpu}};

const graph::Operation box_operation{
    .name = "max_pool_boxes",
    .infer = infer_box,
    .gradient = box_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(gpu_implementations); },
    .format = format_of_input};

/// Spatial sizes, none of them 0.
Dims sizes_of(std::string_view operation, const Tensor& x, const Where& where) {
    check_defined(operation, x, "the input", where);
    if (x.rank() < 3) fail("pool/rank", operation, where, {{"got", x.rank()}}, describe(x));
    const Dims sizes(std::span(x.shape().data() + 2, x.shape().size() - 2));
    for (std::int64_t i = 0; i < sizes.rank(); ++i) {
        if (sizes[i] == 0) fail("pool/empty", operation, where, {{"axis", i}}, describe(x));
    }
    return sizes;
}

MaxPoolResult adaptive(std::string_view operation, const Tensor& x, const AdaptiveMaxPoolOptions& options,
                       const Where& where) {
    BoxAttributes a{sizes_of(operation, x, where), {}, {}};
    a.positions = per_axis(operation, "size", options.size, a.sizes.rank(), 0, where);

    for (std::int64_t i = 0; i < a.sizes.rank(); ++i) {
        if (a.positions[i] == keep) a.positions[i] = a.sizes[i];
        check_option(operation, "size", a.positions[i], 1, where);
    }
    const Tensor values = graph::record(box_operation, std::move(a), {x}, where);
    return {values, graph::result(values, 1)};
}

/// Output sizes of fractional pooling: given, or a part of the input's.
Dims fractional_sizes(const Dims& sizes, const FractionalMaxPoolOptions& o, const Where& where) {
    constexpr std::string_view operation = "fractional_max_pool";
    const std::int64_t rank = sizes.rank(), ratios = std::ssize(o.ratio);
    if (o.size.given() == (ratios > 0)) {
        fail("value/option", operation, where,
             {{"option", "size and ratio"},
              {"got", ratios > 0 ? "both" : "neither"},
              {"expected", "one of them"},
              {"help", "size is the result's, ratio is the result's size over the input's"}});
    }
    if (o.size.given()) return per_axis(operation, "size", o.size, rank, 0, where);
    if (ratios != 1 && ratios != rank) {
        fail("value/count", operation, where, {{"option", "ratio"}, {"got", ratios}, {"expected", rank}});
    }
    Dims result;
    for (std::int64_t i = 0; i < rank; ++i) {
        const double ratio = o.ratio[static_cast<std::size_t>(ratios == 1 ? 0 : i)];
        if (!(ratio > 0 && ratio < 1)) {
            fail("value/option", operation, where,
                 {{"option", "ratio"},
                  {"got", ratio},
                  {"expected", "a number between 0 and 1"},
                  {"help", "the result's size over the input's"}});
        }
        result.push_back(static_cast<std::int64_t>(static_cast<double>(sizes[i]) * ratio));
    }
    return result;
}

void check_samples(const Tensor& x, const Tensor& samples, std::int64_t rank, const Where& where) {
    const Shape expected{x.shape()[0], x.shape()[1], rank};
    if (!is_floating(samples.dtype())) {
        fail("dtype/unsupported", "fractional_max_pool", where,
             {{"argument", "the samples"}, {"got", samples.dtype()}, {"expected", "a floating dtype"}});
    }
    if (!(samples.shape() == expected)) {
        fail("shape/mismatch", "fractional_max_pool", where,
             {{"argument", "the samples"},
              {"got", samples.shape()},
              {"expected", expected},
              {"help", "one number in [0, 1) for every sample, channel and spatial axis"}});
    }
}

}  // namespace
}  // namespace calor::ops::pool

namespace calor {

using namespace ops::pool;  // NOLINT: the file implements this family

MaxPoolResult adaptive_max_pool_with_indices(const Tensor& x, const AdaptiveMaxPoolOptions& options,
                                             const Where& where) {
    const Naming naming("adaptive_max_pool_with_indices");
    return adaptive("adaptive_max_pool_with_indices", x, options, where);
}
Tensor adaptive_max_pool(const Tensor& x, const AdaptiveMaxPoolOptions& options, const Where& where) {
    const Naming naming("adaptive_max_pool");
    return adaptive("adaptive_max_pool", x, options, where).values;
}

MaxPoolResult fractional_max_pool(const Tensor& x, const FractionalMaxPoolOptions& options, Generator& generator,
                                  const Where& where) {
    const Naming naming("fractional_max_pool");
    constexpr std::string_view operation = "fractional_max_pool";
    BoxAttributes a{sizes_of(operation, x, where), {}, {}};
    const std::int64_t rank = a.sizes.rank();
    a.kernel = ops::per_axis(operation, "kernel", options.kernel, rank, 0, where);
    for (const std::int64_t k : a.kernel) ops::check_option(operation, "kernel", k, 1, where);
    a.positions = fractional_sizes(a.sizes, options, where);
    for (std::int64_t i = 0; i < rank; ++i) {
        ops::check_option(operation, "size", a.positions[i], 1, where);
        if (a.positions[i] > a.sizes[i] || a.kernel[i] > a.sizes[i] - a.positions[i] + 1) {
            fail("pool/fractional-size", operation, where,
                 {{"size", a.positions[i]}, {"kernel", a.kernel[i]}, {"axis", i}, {"input", a.sizes[i]}}, describe(x));
        }
    }
    Tensor samples = options.samples;
    if (samples.defined()) {
        check_samples(x, samples, rank, where);
    } else {
        const OnDevice scope(x.device());
        samples = uniform({x.shape()[0], x.shape()[1], rank}, 0, 1, f64, generator, where);
    }
    const Tensor values = graph::record(box_operation, std::move(a), {x, samples.detach()}, where);
    return {values, graph::result(values, 1)};
}

Tensor max_unpool(const Tensor& values, const Tensor& indices, const Dims& sizes, const Where& where) {
    const Naming naming("max_unpool");
    constexpr std::string_view operation = "max_unpool";
    ops::check_defined(operation, values, "the values", where);
    ops::check_defined(operation, indices, "the indices", where);
    if (values.rank() < 3) fail("pool/rank", operation, where, {{"got", values.rank()}}, describe(values));
    if (is_floating(indices.dtype()) || indices.dtype() == boolean) {
        fail("dtype/unsupported", operation, where,
             {{"argument", "the indices"}, {"got", indices.dtype()}, {"expected", "an integer dtype"}});
    }
    if (!(indices.shape() == values.shape())) {
        fail("shape/mismatch", operation, where,
             {{"argument", "the indices"},
              {"got", indices.shape()},
              {"expected", values.shape()},
              {"help", "every value has an index, as max_pool_with_indices() gives them"}});
    }
    if (sizes.rank() != values.rank() - 2) {
        fail("value/count", operation, where,
             {{"option", "sizes"}, {"got", sizes.rank()}, {"expected", values.rank() - 2}}, describe(values));
    }
    Shape shape{values.shape()[0], values.shape()[1]};
    for (const std::int64_t s : sizes) {
        if (s < 0) fail("shape/negative", operation, where, {{"size", s}, {"shape", sizes}}, describe(values));
        shape.push_back(s);
    }
    (void)checked_bytes(shape, values.dtype(), where);
    return set_in_planes(values, indices, sizes, where);
}

Tensor lp_pool(const Tensor& x, const LpPoolOptions& o, const Where& where) {
    const Naming naming("lp_pool");
    ops::check_defined("lp_pool", x, "the input", where);
    if (!is_floating(x.dtype())) {
        fail("dtype/unsupported", "lp_pool", where,
             {{"argument", "the input"}, {"got", x.dtype()}, {"expected", "a floating dtype"}}, describe(x));
    }
    if (!(o.p > 0)) {
        fail("value/option", "lp_pool", where,
             {{"option", "p"},
              {"got", o.p},
              {"expected", "a number above 0, or infinity"},
              {"help", "2 gives the Euclidean norm of each window"}});
    }
    const Tensor wide = x.to(compute_type(x.dtype()), where), size = abs(wide, where);
    const MaxPoolOptions window{o.kernel, o.stride, o.padding, o.dilation, o.ceil_mode};
    if (std::isinf(o.p)) {
        const Tensor most = max_pool(size, window, where);  // windows of padding alone: no elements, norm 0
        return calor::where(lt(most, 0, where), 0, most, where).to(x.dtype(), where);
    }
    // Zeros are kept away from pow, whose gradient there may be infinite; the norm's is 0.
    const Tensor zero = eq(size, 0, where);
    Tensor powers = size;
    if (o.p == 2) powers = wide * wide;
    if (o.p != 1 && o.p != 2) {
        powers = calor::where(zero, 0, pow(calor::where(zero, 1, size, where), o.p, where), where);
    }
    const Tensor total = avg_pool(powers, {o.kernel, o.stride, o.padding, o.dilation, o.ceil_mode, true, 1}, where);
    if (o.p == 1) return total.to(x.dtype(), where);
    const Tensor none = eq(total, 0, where), inside = calor::where(none, 1, total, where);
    const Tensor root = o.p == 2 ? sqrt(inside, where) : pow(inside, 1 / o.p, where);
    return calor::where(none, 0, root, where).to(x.dtype(), where);
}

ops::Descriptors ops::box_pool_descriptors() { return {&ops::pool::box_operation}; }

}  // namespace calor
