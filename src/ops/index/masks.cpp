// one_hot, nonzero, and selection by masks.
#include <algorithm>
#include <cstring>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/index.h"
#include "calor/view.h"
#include "device/cpu/parallel.h"
#include "graph/node.h"
#include "ops/index/indices.h"
#include "ops/registry.h"

namespace calor {
namespace {

using index::OneHotAttributes;

graph::Specs infer_one_hot(const graph::InferContext& c) {
    Shape shape = c.inputs[0].shape();
    shape.push_back(c.attrs<OneHotAttributes>().classes);
    return {{shape, c.attrs<OneHotAttributes>().dtype}};
}

/// A scatter of one 1 a row into zeros.
void run_one_hot(const graph::Call& c) {
    const View &indices = c.inputs[0], &y = c.outputs[0];
    const std::int64_t classes = c.attrs<OneHotAttributes>().classes, size = size_of(y.dtype), last = indices.rank();
    index::check_range(c, indices, last, classes);
    if (y.count() == 0) return;
    const std::int64_t bytes = y.count() * size;
    cpu::parallel_for(bytes, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
        std::memset(y.as<std::byte>() + begin, 0, static_cast<std::size_t>(end - begin));
    });
    const OnDevice scope(Device{});  // the bits are read here
    const Tensor one = y.dtype == boolean ? scalar(true, boolean) : scalar(1, y.dtype);
    Shape shape = *indices.shape;
    shape.push_back(1);
    Strides from = *indices.strides;
    from.push_back(0);
    const Strides still(shape.rank(), 0);
    index::scatter_loops(y, {indices.data, indices.dtype, &shape, &from},
                         {graph::view_of(graph::value_of(one)).data, y.dtype, &shape, &still}, last);
}

const graph::Implementation one_hot_implementations[] = {{.name = "reference", .run = run_one_hot}};
const graph::Operation one_hot_operation{
    .name = "one_hot",
    .traits = graph::indexing,
    .infer = infer_one_hot,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(one_hot_implementations); },
    .gpu_implementations = index::one_hot_on_gpu};

/// Row-major positions of the true elements: i64 [count].
Tensor true_positions(std::string_view operation, const Tensor& flags, const Where& where) {
    if (flags.device().kind != DeviceKind::cpu) return index::true_positions_on_gpu(operation, flags, where);
    const Tensor dense = contiguous(flags.detach(where), where);
    const auto bytes = dense.data<bool>(where);
    auto positions = host_array<std::int64_t>(std::ranges::count(bytes, true), "nonzero", where);
    auto next = positions.begin();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i]) *next++ = static_cast<std::int64_t>(i);
    }
    return from_host(positions.data(), std::ssize(positions), i64, {std::ssize(positions)}, Device{}, where);
}

void check_mask(std::string_view operation, const Tensor& x, const Tensor& mask, const Where& where) {
    ops::check_defined(operation, x, "the tensor", where);
    ops::check_defined(operation, mask, "the mask", where);
    if (mask.dtype() == boolean) return;
    fail("dtype/unsupported", operation, where,
         {{"argument", "the mask"}, {"got", mask.dtype()}, {"expected", boolean}}, describe(mask));
}

}  // namespace

Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype, const Where& where) {
    const Naming naming("one_hot");
    const Tensor at = index::checked_dtype("one_hot", indices, where);
    if (classes < 0) {
        fail("value/option", "one_hot", where,
             {{"option", "classes"},
              {"got", classes},
              {"expected", "0 or more"},
              {"help", "it is the size of the new axis"}});
    }
    return graph::record(one_hot_operation, OneHotAttributes{classes, dtype}, {at}, where);
}

Tensor nonzero(const Tensor& x, const Where& where) {
    const Naming naming("nonzero");
    ops::check_defined("nonzero", x, "the tensor", where);
    const Tensor found = true_positions("nonzero", x.to(boolean, where), where);
    if (x.device().kind != DeviceKind::cpu) return index::unravel_on_gpu("nonzero", found, x.shape(), where);
    const auto positions = found.data<std::int64_t>(where);
    const std::int64_t rank = x.rank();
    auto indices = host_array<std::int64_t>(checked_multiply(std::ssize(positions), rank, where), "nonzero", where);
    for (std::size_t i = 0; i < positions.size(); ++i) {
        std::int64_t rest = positions[i];
        for (std::int64_t a = rank - 1; a >= 0; --a) {
            indices[i * static_cast<std::size_t>(rank) + static_cast<std::size_t>(a)] = rest % x.shape()[a];
            rest /= x.shape()[a];
        }
    }
    return from_host(indices.data(), std::ssize(indices), i64, {std::ssize(positions), rank}, Device{}, where);
}

Tensor masked_select(const Tensor& x, const Tensor& mask, const Where& where) {
    const Naming naming("masked_select");
    check_mask("masked_select", x, mask, where);
    Shape shape = x.rank() >= mask.rank() ? x.shape() : mask.shape();
    const Shape& shorter = x.rank() >= mask.rank() ? mask.shape() : x.shape();
    for (std::int64_t a = 1; a <= shorter.rank(); ++a) {
        std::int64_t& size = shape[shape.rank() - a];
        if (size == 1) size = shorter[shorter.rank() - a];
    }
    const Tensor flags = expand(mask, shape, where), values = expand(x, shape, where);
    return index_select(reshape(values, {-1}, where), 0, true_positions("masked_select", flags, where), where);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value, const Where& where) {
    const Naming naming("masked_fill");
    check_mask("masked_fill", x, mask, where);
    return calor::where(mask, value, x, where);
}

ops::Descriptors ops::mask_descriptors() { return {&one_hot_operation}; }

}  // namespace calor
