// index_select and index_add, each other's gradients; embedding is the former with a row that gets no gradient.
#include <algorithm>
#include <cstring>

#include "calor/creation.h"
#include "calor/index.h"
#include "calor/view.h"
#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "device/cpu/vectorize.h"
#include "ops/index/indices.h"
#include "ops/registry.h"

namespace calor {
namespace {

using graph::Call;
using graph::GradContext;
using graph::InferContext;
using graph::Specs;

using index::SelectAttributes;
using index::Spread;

Tensor select_with(const Tensor& x, const Tensor& indices, const SelectAttributes& attributes, const Where& where);
Tensor add_with(const Tensor& x, const Tensor& indices, const Tensor& values, const SelectAttributes& attributes,
                const Where& where);

/// The indices, checked, as i64 in a vector: their number is small beside that of the elements they move.
std::vector<std::int64_t> read_indices(const Call& c, const View& indices, std::int64_t axis, std::int64_t size) {
    index::check_range(c, indices, axis, size);
    std::vector<std::int64_t> at(static_cast<std::size_t>(indices.count()));
    for (std::size_t k = 0; k < at.size(); ++k) {
        const std::int64_t place = static_cast<std::int64_t>(k) * indices.stride(0);
        at[k] = indices.dtype == i32 ? indices.as<std::int32_t>()[place] : indices.as<std::int64_t>()[place];
    }
    return at;
}

/// Whether the axes behind `axis` lie row-major without gaps.
bool dense_behind(const View& x, std::int64_t axis) {
    std::int64_t next = 1;
    for (std::int64_t a = x.rank() - 1; a > axis; --a) {
        if (x.size(a) != 1 && x.stride(a) != next) return false;
        next *= x.size(a);
    }
    return true;
}
std::int64_t inner_of(const View& x, std::int64_t axis) {
    std::int64_t inner = 1;
    for (std::int64_t a = x.rank() - 1; a > axis; --a) inner *= x.size(a);
    return inner;
}
/// Offset of entry number `outer` of the axes before `axis`.
std::int64_t outer_offset(const View& x, std::int64_t axis, std::int64_t outer) {
    std::int64_t offset = 0;
    for (std::int64_t a = axis - 1; a >= 0; --a) {
        offset += outer % x.size(a) * x.stride(a);
        outer /= x.size(a);
    }
    return offset;
}

Specs infer_select(const InferContext& c) {
    Shape shape = c.inputs[0].shape();
    shape[c.attrs<SelectAttributes>().axis] = c.inputs[1].numel();
    return {{shape, c.inputs[0].dtype()}};
}

void zero_skipped_rows(const Call& c, std::span<const std::int64_t> at) {
    const auto& a = c.attrs<SelectAttributes>();
    if (!a.zero_skipped) return;
    const View& y = c.outputs[0];
    const std::int64_t bytes = inner_of(y, a.axis) * size_of(y.dtype), count = std::ssize(at);
    for (std::int64_t row = 0; row * bytes < y.count() * size_of(y.dtype); ++row) {
        if (at[static_cast<std::size_t>(row % count)] != a.skip) continue;
        std::memset(y.as<std::byte>() + row * bytes, 0, static_cast<std::size_t>(bytes));
    }
}

void select_rows(const Call& c) {
    const auto& a = c.attrs<SelectAttributes>();
    const View &x = c.inputs[0], &y = c.outputs[0];
    const auto at = read_indices(c, c.inputs[1], a.axis, x.size(a.axis));
    if (y.count() == 0) return;
    const std::int64_t size = size_of(x.dtype), inner = inner_of(x, a.axis), count = std::ssize(at),
                       bytes = inner * size;
    cpu::parallel_for(
        y.count() / inner, std::max<std::int64_t>(1, 65536 / bytes), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t from =
                    outer_offset(x, a.axis, row / count) + at[static_cast<std::size_t>(row % count)] * x.stride(a.axis);
                std::memcpy(y.as<std::byte>() + row * bytes, x.as<std::byte>() + from * size,
                            static_cast<std::size_t>(bytes));
            }
        });
    zero_skipped_rows(c, at);
}

const char* select_rows_why_not(const Call& c) {
    const std::int64_t axis = c.attrs<SelectAttributes>().axis;
    if (!dense_behind(c.inputs[0], axis)) return "the axes behind the indexed one have gaps";
    if (inner_of(c.inputs[0], axis) * size_of(c.inputs[0].dtype) < 16) return "the rows are shorter than 16 bytes";
    return nullptr;
}

void select_reference(const Call& c) {
    const auto& a = c.attrs<SelectAttributes>();
    const auto at = read_indices(c, c.inputs[1], a.axis, c.inputs[0].size(a.axis));
    if (c.outputs[0].count() == 0) return;
    const Spread spread(c.inputs[1], *c.outputs[0].shape, a.axis);
    index::gather_loops(c.inputs[0], spread.view, c.outputs[0], a.axis);
    zero_skipped_rows(c, at);
}

const graph::Implementation select_implementations[] = {
    {.name = "rows", .why_not = select_rows_why_not, .run = select_rows},
    {.name = "reference", .run = select_reference}};

const graph::Operation select_operation{
    .name = "index_select",
    .traits = graph::indexing | graph::linear,
    .infer = infer_select,
    .gradient =
        [](const GradContext& c) {
            c.grads[0] = add_with(zeros(c.inputs[0].shape(), c.inputs[0].dtype(), c.where), c.inputs[1], c.cotangent(),
                                  c.attrs<SelectAttributes>(), c.where);
        },
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(select_implementations); },
    .gpu_implementations = index::select_on_gpu};

Specs infer_add(const InferContext& c) { return {{c.inputs[0].shape(), c.inputs[0].dtype()}}; }

/// For every place, which entries of the list go there, in order: starts[place] to starts[place + 1] of `order`.
struct Grouped {
    std::vector<std::int64_t> starts, order;
    Grouped(std::span<const std::int64_t> at, std::int64_t size, std::int64_t skip)
        : starts(static_cast<std::size_t>(size) + 2, 0), order(at.size()) {
        for (const std::int64_t i : at) starts[static_cast<std::size_t>(i) + 2] += i == skip ? 0 : 1;
        for (std::size_t i = 2; i < starts.size(); ++i) starts[i] += starts[i - 1];
        for (std::size_t k = 0; k < at.size(); ++k) {  // starts[i + 1] moves from the first of i to the first of i + 1
            if (at[k] != skip)
                order[static_cast<std::size_t>(starts[static_cast<std::size_t>(at[k]) + 1]++)] =
                    static_cast<std::int64_t>(k);
        }
    }
    std::span<const std::int64_t> of(std::int64_t place) const {
        const auto first = static_cast<std::size_t>(starts[static_cast<std::size_t>(place)]);
        return std::span(order).subspan(first,
                                        static_cast<std::size_t>(starts[static_cast<std::size_t>(place) + 1]) - first);
    }
};

template <class S, class T> void add_row(S* sums, const T* values, std::int64_t n) {
    CALOR_VECTORIZE
    for (std::int64_t i = 0; i < n; ++i) sums[i] = static_cast<S>(sums[i] + static_cast<S>(values[i]));
}

constexpr std::int64_t piece = 2048;

/// One piece of a row of the result: x plus the values that go there. Halves sum in `sums`.
template <class T, class S>
void add_piece(const T* x, std::int64_t x_step, std::span<const std::int64_t> entries, const T* values,
               std::int64_t stride, T* y, std::int64_t n) {
    cpu::gather(y, x, x_step, static_cast<std::int64_t>(sizeof(T)), n);
    if constexpr (std::is_same_v<T, S>) {
        for (const std::int64_t k : entries) add_row(y, values + k * stride, n);
    } else if (!entries.empty()) {
        S sums[piece];
        for (std::int64_t i = 0; i < n; ++i) sums[i] = static_cast<S>(y[i]);
        for (const std::int64_t k : entries) add_row(sums, values + k * stride, n);
        const void* const in[1] = {sums};
        cpu::find_convert(f32, dtype_of<T>)(in, y, n, nullptr);
    }
}

template <class T, class S> void add_rows_as(const Call& c) {
    const auto& a = c.attrs<SelectAttributes>();
    const View &x = c.inputs[0], &values = c.inputs[2], &y = c.outputs[0];
    const std::int64_t size = x.size(a.axis), inner = inner_of(x, a.axis);
    const auto at = read_indices(c, c.inputs[1], a.axis, size);
    if (y.count() == 0) return;
    const Grouped grouped(at, size, a.skip);
    const bool constant = x.rank() > 0 && std::ranges::all_of(*x.strides, [](std::int64_t s) { return s == 0; });
    const std::int64_t pieces = (inner + piece - 1) / piece, x_step = constant ? 0 : 1;
    cpu::parallel_for(y.count() / inner * pieces, std::max<std::int64_t>(1, 16384 / std::min(inner, piece)),
                      [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t unit = begin; unit < end; ++unit) {
                              const std::int64_t row = unit / pieces, first = unit % pieces * piece, outer = row / size;
                              const std::int64_t from = outer_offset(x, a.axis, outer) + row % size * x.stride(a.axis);
                              add_piece<T, S>(x.as<T>() + from + first * x_step, x_step, grouped.of(row % size),
                                              values.as<T>() + outer_offset(values, a.axis, outer) + first,
                                              values.stride(a.axis), y.as<T>() + row * inner + first,
                                              std::min(piece, inner - first));
                          }
                      });
}

void add_rows(const Call& c) {
    switch (c.outputs[0].dtype) {
        case f64: return add_rows_as<double, double>(c);
        case f32: return add_rows_as<float, float>(c);
        case f16: return add_rows_as<float16, float>(c);
        case bf16: return add_rows_as<bfloat16, float>(c);
        case i64:
        case u64: return add_rows_as<std::uint64_t, std::uint64_t>(c);
        case i32:
        case u32: return add_rows_as<std::uint32_t, std::uint32_t>(c);
        case i16:
        case u16: return add_rows_as<std::uint16_t, std::uint16_t>(c);
        default: return add_rows_as<std::uint8_t, std::uint8_t>(c);
    }
}

const char* add_rows_why_not(const Call& c) {
    const std::int64_t axis = c.attrs<SelectAttributes>().axis;
    const View &x = c.inputs[0], &values = c.inputs[2];
    const bool constant = std::ranges::all_of(*x.strides, [](std::int64_t s) { return s == 0; });
    if (!constant && !dense_behind(x, axis)) return "the axes of the tensor behind the indexed one have gaps";
    if (!dense_behind(values, axis)) return "the axes of the values behind the indexed one have gaps";
    if (inner_of(x, axis) < 4) return "the rows are shorter than 4 elements";
    return nullptr;
}

void add_reference(const Call& c) {
    const auto& a = c.attrs<SelectAttributes>();
    const View &x = c.inputs[0], &values = c.inputs[2], &y = c.outputs[0];
    const auto at = read_indices(c, c.inputs[1], a.axis, x.size(a.axis));
    ops::copy_view(x, y);
    if (a.skip < 0) {
        const Spread spread(c.inputs[1], *values.shape, a.axis);
        return index::scatter_add_loops(c, y, spread.view, values, a.axis);
    }
    for (std::size_t k = 0; k < at.size(); ++k) {  // one entry after the other
        if (at[k] == a.skip) continue;
        Shape one = *values.shape;
        one[a.axis] = 1;
        const Strides strides(one.rank(), 0);
        View entry = values;
        entry.shape = &one;
        entry.data =
            entry.as<std::byte>() + static_cast<std::int64_t>(k) * values.stride(a.axis) * size_of(values.dtype);
        std::int64_t place = at[k];
        index::scatter_add_loops(c, y, {&place, i64, &one, &strides}, entry, a.axis);
    }
}

const graph::Implementation add_implementations[] = {{.name = "rows", .why_not = add_rows_why_not, .run = add_rows},
                                                     {.name = "reference", .run = add_reference}};

const graph::Operation add_operation{
    .name = "index_add",
    .traits = graph::indexing,
    .infer = infer_add,
    .gradient =
        [](const GradContext& c) {
            if (c.needs[0]) c.grads[0] = c.cotangent();
            if (!c.needs[2]) return;
            SelectAttributes a = c.attrs<SelectAttributes>();
            a.zero_skipped = a.skip >= 0;
            c.grads[2] = select_with(c.cotangent(), c.inputs[1], a, c.where);
        },
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(add_implementations); },
    .gpu_implementations = index::index_add_on_gpu};

Tensor select_with(const Tensor& x, const Tensor& indices, const SelectAttributes& attributes, const Where& where) {
    return graph::record(select_operation, attributes, {x, indices}, where);
}
Tensor add_with(const Tensor& x, const Tensor& indices, const Tensor& values, const SelectAttributes& attributes,
                const Where& where) {
    return graph::record(add_operation, attributes, {x, indices, values}, where);
}

Tensor checked_list(std::string_view operation, const Tensor& indices, const Where& where) {
    const Tensor at = index::checked_dtype(operation, indices, where);
    if (at.rank() > 1) {
        fail("shape/rank", operation, where,
             {{"argument", "the index tensor"},
              {"got", at.rank()},
              {"expected", 1},
              {"help", "flatten() it, or use gather() for an index an element"}},
             describe(indices));
    }
    return at.rank() == 0 ? reshape(at, {1}, where) : at;
}

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& indices, const Where& where) {
    const Naming naming("index_select");
    ops::check_defined("index_select", x, "the tensor", where);
    const Tensor at = checked_list("index_select", indices, where);
    return select_with(x, at, {.axis = ops::normalize_axis("index_select", axis, x.rank(), where)}, where);
}

Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& values, const Where& where) {
    const Naming naming("index_add");
    ops::check_defined("index_add", x, "the tensor", where);
    ops::check_defined("index_add", values, "the tensor of values", where);
    const Tensor at = checked_list("index_add", indices, where);
    const std::int64_t along = ops::normalize_axis("index_add", axis, x.rank(), where);
    index::check_addable("index_add", x, where);
    index::check_same_dtype("index_add", x, values, where);
    Shape expected = x.shape();
    expected[along] = at.numel();
    if (!(values.shape() == expected)) {
        fail("shape/mismatch", "index_add", where,
             {{"argument", "the tensor of values"},
              {"got", values.shape()},
              {"expected", expected},
              {"help", "it has one entry an index along the indexed axis"}});
    }
    return add_with(x, at, values, {.axis = along}, where);
}

Tensor embedding(const Tensor& weight, const Tensor& indices, std::optional<std::int64_t> padding, const Where& where) {
    const Naming naming("embedding");
    ops::check_defined("embedding", weight, "the weight", where);
    const Tensor at = index::checked_dtype("embedding", indices, where);
    if (weight.rank() < 1) {
        fail("shape/rank", "embedding", where,
             {{"argument", "the weight"},
              {"got", 0},
              {"expected", "1 or more"},
              {"help", "a weight is [count, width...]"}});
    }
    SelectAttributes attributes;
    if (padding) {
        const std::int64_t count = weight.shape()[0];
        attributes.skip = *padding < 0 ? *padding + count : *padding;
        if (attributes.skip < 0 || attributes.skip >= count) {
            fail("index/range", "embedding", where,
                 {{"index", *padding},
                  {"position", 0},
                  {"axis", 0},
                  {"size", count},
                  {"low", -count},
                  {"high", count - 1}});
        }
    }
    Shape shape = at.shape();
    for (std::int64_t a = 1; a < weight.rank(); ++a) shape.push_back(weight.shape()[a]);
    return reshape(select_with(weight, reshape(at, {at.numel()}, where), attributes, where), shape, where);
}

ops::Descriptors ops::select_descriptors() { return {&select_operation, &add_operation}; }

}  // namespace calor
