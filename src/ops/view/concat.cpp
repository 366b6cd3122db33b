// concat and split, each other's gradients; stack, chunk, tile, repeat and roll are made of them and of views.
#include "calor/view.h"
#include "ops/gpu.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace calor {
namespace {

using graph::Attributes;
using graph::GradContext;
using graph::InferContext;
using graph::Specs;

struct ConcatAttributes {
    std::int64_t axis = 0;
    friend bool operator==(const ConcatAttributes&, const ConcatAttributes&) = default;
};

struct SplitAttributes {
    std::int64_t axis = 0;
    Dims sizes;
    friend bool operator==(const SplitAttributes&, const SplitAttributes&) = default;
};

Specs infer_concat(const InferContext& c) {
    const std::int64_t axis = c.attrs<ConcatAttributes>().axis;
    Shape shape = c.inputs[0].shape();
    shape[axis] = 0;
    for (const Tensor& t : c.inputs) {
        Shape expected = shape;
        if (t.rank() == shape.rank()) expected[axis] = t.shape()[axis];
        if (!(t.shape() == expected)) {
            expected[axis] = c.inputs[0].shape()[axis];
            fail("shape/mismatch", c.operation, c.where,
                 {{"argument", "part " + std::to_string(&t - c.inputs.data())},
                  {"got", t.shape()},
                  {"expected", expected},
                  {"help", "only the sizes of axis " + std::to_string(axis) + " may differ"}});
        }
        shape[axis] = checked_add(shape[axis], t.shape()[axis], c.where);
    }
    return {{shape, c.inputs[0].dtype()}};
}

/// Copies each part to its place.
template <class Copy> void place_parts(const graph::Call& c, const Copy& copy) {
    const std::int64_t axis = c.attrs<ConcatAttributes>().axis;
    View part = c.outputs[0];
    for (const View& x : c.inputs) {
        part.shape = x.shape;
        copy(x, part);
        part.data = part.as<std::byte>() + x.size(axis) * part.stride(axis) * size_of(part.dtype);
    }
}

const graph::Implementation concat_implementations[] = {
    {.name = "copy", .run = [](const graph::Call& c) { place_parts(c, ops::copy_view); }}};
const graph::Implementation concat_on_gpu[] = {
    {.name = "copy", .run = [](const graph::Call& c) {
         place_parts(c, [&](const View& from, const View& to) { ops::copy_on_gpu(c, from, to); });
     }}};

void concat_gradient(const GradContext& c) {
    const std::int64_t axis = c.attrs<ConcatAttributes>().axis;
    std::vector<std::int64_t> sizes;
    for (const Tensor& t : c.inputs) sizes.push_back(t.shape()[axis]);
    const std::vector<Tensor> parts = split(c.cotangent(), sizes, axis, c.where);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (c.needs[i]) c.grads[i] = parts[i];
    }
}

const graph::Operation concat_operation{
    .name = "concat",
    .infer = infer_concat,
    .gradient = concat_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(concat_implementations); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(concat_on_gpu); }};

Specs infer_split(const InferContext& c) {
    const auto& [axis, sizes] = c.attrs<SplitAttributes>();
    Specs specs;
    Shape shape = c.inputs[0].shape();
    for (const std::int64_t size : sizes) {
        shape[axis] = size;
        specs.push_back({shape, c.inputs[0].dtype()});
    }
    return specs;
}

bool alias_split(const Attributes& attributes, std::size_t index, const Shape&, const Layout& layout, const Shape& to,
                 Layout& result) {
    const auto& [axis, sizes] = attributes.get<SplitAttributes>();
    result = layout;
    if (numel(to) == 0) return true;
    for (std::size_t i = 0; i < index; ++i) result.offset += sizes[static_cast<std::int64_t>(i)] * layout.strides[axis];
    return true;
}

void split_gradient(const GradContext& c) {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < c.outputs.size(); ++i) parts.push_back(c.cotangent(i));
    c.grads[0] = concat(parts, c.attrs<SplitAttributes>().axis, c.where);
}

const graph::Operation split_operation{.name = "split",
                                       .traits = graph::view | graph::linear,
                                       .infer = infer_split,
                                       .gradient = split_gradient,
                                       .alias_of = [](const Attributes&, std::size_t) { return std::size_t{0}; },
                                       .alias = alias_split};

std::vector<Tensor> split_into(std::string_view operation, const Tensor& x, const Dims& sizes, std::int64_t axis,
                               const Where& where) {
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes) {
        if (size < 0) fail("shape/negative", operation, where, {{"size", size}, {"shape", sizes}}, describe(x));
        sum = checked_add(sum, size, where);
    }
    if (sum != x.shape()[axis]) {
        Shape expected = x.shape();
        expected[axis] = sum;
        fail("shape/mismatch", operation, where,
             {{"argument", "the tensor"},
              {"got", x.shape()},
              {"expected", expected},
              {"help", "the sizes of the parts add up to the size of the axis"}});
    }
    std::vector<Tensor> parts;
    if (sizes.empty()) return parts;
    parts.push_back(graph::record(split_operation, SplitAttributes{axis, sizes}, {x}, where));
    for (std::int64_t i = 1; i < sizes.rank(); ++i)
        parts.push_back(graph::result(parts[0], static_cast<std::uint32_t>(i)));
    return parts;
}

void check_positive(std::string_view operation, std::string_view option, std::int64_t value, const Where& where) {
    if (value < 1) {
        fail(
            "value/option", operation, where,
            {{"option", option}, {"got", value}, {"expected", "1 or more"}, {"help", "a part has at least one entry"}});
    }
}

std::vector<Tensor> split_every(std::string_view operation, const Tensor& x, std::int64_t size, std::int64_t axis,
                                const Where& where) {
    Dims sizes;
    std::int64_t rest = x.shape()[axis];
    constexpr std::int64_t bytes_of_a_part = 256;  // its size, its handle and its place in the node, at least
    check_host_memory(checked_multiply(rest / size, bytes_of_a_part, where), operation, where);
    do {
        sizes.push_back(std::min(size, rest));
        rest -= sizes.back();
    } while (rest > 0);
    return split_into(operation, x, sizes, axis, where);
}

/// Refuses empty lists and undefined parts, converts to the common dtype.
std::vector<Tensor> promoted(std::string_view operation, const std::vector<Tensor>& parts, const Where& where) {
    if (parts.empty()) {
        fail("value/count", operation, where, {{"option", "the list of parts"}, {"got", 0}, {"expected", "1 or more"}});
    }
    for (const Tensor& t : parts) ops::check_defined(operation, t, "a part", where);
    DType dtype = parts[0].dtype();
    for (const Tensor& t : parts) dtype = promote(dtype, t.dtype());
    std::vector<Tensor> out;
    for (const Tensor& t : parts) out.push_back(t.to(dtype, where));
    return out;
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t axis,
                          const Where& where) {
    const Naming naming("split");
    ops::check_defined("split", x, "the tensor", where);
    const std::int64_t at = ops::normalize_axis("split", axis, x.rank(), where);
    return split_into("split", x, Dims(std::span(sizes)), at, where);
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis, const Where& where) {
    const Naming naming("split");
    ops::check_defined("split", x, "the tensor", where);
    check_positive("split", "size", size, where);
    return split_every("split", x, size, ops::normalize_axis("split", axis, x.rank(), where), where);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis, const Where& where) {
    const Naming naming("chunk");
    ops::check_defined("chunk", x, "the tensor", where);
    check_positive("chunk", "count", count, where);
    const std::int64_t at = ops::normalize_axis("chunk", axis, x.rank(), where), size = x.shape()[at];
    const std::int64_t each = size / count + (size % count != 0 ? 1 : 0);
    return split_every("chunk", x, std::max<std::int64_t>(each, 1), at, where);
}

Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis, const Where& where) {
    const Naming naming("concat");
    const std::vector<Tensor> inputs = promoted("concat", parts, where);
    const std::int64_t at = ops::normalize_axis("concat", axis, inputs[0].rank(), where);
    if (inputs.size() == 1) return inputs[0];
    return graph::record(concat_operation, ConcatAttributes{at}, std::span(inputs), where);
}

Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis, const Where& where) {
    const Naming naming("stack");
    std::vector<Tensor> inputs = promoted("stack", parts, where);
    const Shape shape = inputs[0].shape();
    const std::int64_t at = ops::normalize_axis("stack", axis, shape.rank() + 1, where);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!(inputs[i].shape() == shape)) {
            fail("shape/mismatch", "stack", where,
                 {{"argument", "part " + std::to_string(i)},
                  {"got", inputs[i].shape()},
                  {"expected", shape},
                  {"help", "parts of a stack have one shape; concat() joins along an axis that exists"}});
        }
        inputs[i] = unsqueeze(inputs[i], at, where);
    }
    return concat(inputs, at, where);
}

Tensor tile(const Tensor& x, const Dims& repeats, const Where& where) {
    const Naming naming("tile");
    ops::check_defined("tile", x, "the tensor", where);
    const std::int64_t rank = std::max(x.rank(), repeats.rank()), lead = rank - repeats.rank(), first = rank - x.rank();
    Shape apart, stretched, joined;  // [1, s] per axis, [r, s], [r * s]
    for (std::int64_t a = 0; a < rank; ++a) {
        const std::int64_t count = a < lead ? 1 : repeats[a - lead], size = a < first ? 1 : x.shape()[a - first];
        if (count < 0) {
            fail("value/option", "tile", where,
                 {{"option", "repeats"},
                  {"got", repeats},
                  {"expected", "numbers of 0 or more"},
                  {"help", "a count of 1 leaves an axis as it is"}},
                 describe(x));
        }
        for (const std::int64_t s : {std::int64_t{1}, size}) apart.push_back(s);
        for (const std::int64_t s : {count, size}) stretched.push_back(s);
        joined.push_back(checked_multiply(count, size, where));
    }
    return reshape(expand(reshape(x, apart, where), stretched, where), joined, where);
}

Tensor repeat(const Tensor& x, std::int64_t count, std::int64_t axis, const Where& where) {
    const Naming naming("repeat");
    ops::check_defined("repeat", x, "the tensor", where);
    const std::int64_t at = ops::normalize_axis("repeat", axis, x.rank(), where);
    if (count < 0) {
        fail(
            "value/option", "repeat", where,
            {{"option", "count"}, {"got", count}, {"expected", "0 or more"}, {"help", "a count of 1 changes nothing"}});
    }
    Shape stretched = x.shape(), joined = x.shape();
    stretched.insert(at + 1, count);
    joined[at] = checked_multiply(joined[at], count, where);
    return reshape(expand(unsqueeze(x, at + 1, where), stretched, where), joined, where);
}

Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes, const Where& where) {
    const Naming naming("roll");
    ops::check_defined("roll", x, "the tensor", where);
    if (shifts.rank() != axes.rank()) {
        fail("value/count", "roll", where, {{"option", "shifts"}, {"got", shifts.rank()}, {"expected", axes.rank()}});
    }
    Tensor rolled = x;
    for (std::int64_t i = 0; i < axes.rank(); ++i) {
        const std::int64_t axis = ops::normalize_axis("roll", axes[i], x.rank(), where), size = x.shape()[axis];
        if (size == 0) continue;
        const std::int64_t shift = (shifts[i] % size + size) % size;
        if (shift == 0) continue;
        const auto parts = split(rolled, std::vector<std::int64_t>{size - shift, shift}, axis, where);
        rolled = concat({parts[1], parts[0]}, axis, where);
    }
    return rolled;
}

ops::Descriptors ops::concat_descriptors() { return {&concat_operation, &split_operation}; }

}  // namespace calor
