// The public handle: questions about a tensor, reading and making values, leaves.
#include "calor/tensor.h"

#include <fmt/format.h>

#include <cstring>

#include "graph/node.h"

namespace calor {
namespace {

using graph::Node;

const graph::Value& defined_value(const Tensor& t, std::string_view operation, const Where& where) {
    if (!t.defined()) fail("tensor/undefined", operation, where, {{"argument", "the tensor"}});
    return graph::value_of(t);
}

/// leaf: the same value as its input, where a gradient stops (tracked) or never starts.
graph::Specs infer_leaf(const graph::InferContext& c) { return {{c.inputs[0].shape(), c.inputs[0].dtype()}}; }
bool alias_leaf(const graph::Attributes&, std::size_t, const Shape&, const Layout& from, const Shape&, Layout& to) {
    to = from;
    return true;
}
const graph::Operation leaf_operation{
    .name = "leaf", .traits = graph::view, .infer = infer_leaf, .gradient = nullptr, .alias = alias_leaf};

void check_element_type(DType held, DType asked, std::string_view operation, const Where& where) {
    if (held != asked) fail("tensor/element-type", operation, where, {{"dtype", held}, {"asked", asked}});
}

/// Copies a strided view to dense row-major memory.
void copy_dense(const View& from, std::byte* to) {
    const std::int64_t size = size_of(from.dtype), rank = from.rank(), count = from.count();
    if (count == 0) return;
    const auto* base = from.as<const std::byte>();
    if (from.contiguous()) {
        std::memcpy(to, base, static_cast<std::size_t>(count * size));
        return;
    }
    Dims index(rank, 0);
    std::int64_t offset = 0;
    for (std::int64_t i = 0; i < count; ++i, to += size) {
        std::memcpy(to, base + offset * size, static_cast<std::size_t>(size));
        for (std::int64_t a = rank - 1; a >= 0; --a) {
            offset += from.stride(a);
            if (++index[a] < from.size(a)) break;
            offset -= from.stride(a) * from.size(a);
            index[a] = 0;
        }
    }
}

/// Copies a value of any device to dense row-major memory of the host. Of a GPU's value the range comes over in which
/// its elements lie.
void copy_values(const graph::Value& value, Device device, std::byte* to) {
    const View view = graph::view_of(value);
    if (device.kind == DeviceKind::cpu) return copy_dense(view, to);
    if (view.count() == 0) return;
    std::int64_t low = 0, high = 0;
    for (std::int64_t a = 0; a < view.rank(); ++a) {
        const std::int64_t reach = (view.size(a) - 1) * view.stride(a);
        (reach < 0 ? low : high) += reach;
    }
    const std::int64_t size = size_of(view.dtype), bytes = (high - low + 1) * size;
    Stream& stream = backend(device).stream();
    if (view.contiguous()) return stream.copy_to_host(to, view.data, bytes);
    const Ref<Storage> range = backend(Device{}).allocate(bytes, "copy_to", Where::current());
    stream.copy_to_host(range->data, view.as<std::byte>() + low * size, bytes);
    View here = view;
    here.data = static_cast<std::byte*>(range->data) - low * size;
    copy_dense(here, to);
}

}  // namespace

const Shape& Tensor::shape(const Where& where) const { return defined_value(*this, "shape", where).shape; }
const Shape& Tensor::shape_for(const char* function, const Where& where) const {
    return defined_value(*this, function, where).shape;
}
DType Tensor::dtype(const Where& where) const { return defined_value(*this, "dtype", where).dtype; }
Device Tensor::device(const Where& where) const {
    (void)defined_value(*this, "device", where);
    return node_->device;
}

std::int64_t Tensor::size(std::int64_t axis, const Where& where) const {
    const Naming naming("size");
    const std::int64_t r = rank(where), at = axis < 0 ? axis + r : axis;
    if (at < 0 || at >= r) {
        fail("axis/range", "size", where, {{"axis", axis}, {"rank", r}, {"low", -r}, {"high", r - 1}}, describe(*this));
    }
    return shape(where)[at];
}

bool Tensor::tracked() const { return node_ && node_->tracked && is_floating(node_->values[output_].dtype); }
bool Tensor::evaluated() const { return node_ && node_->evaluated.load(std::memory_order_acquire); }

Tensor Tensor::requires_grad(bool on, const Where& where) const {
    const Naming naming(on ? "requires_grad" : "detach");
    const graph::Value& value = defined_value(*this, "requires_grad", where);
    if (on && !is_floating(value.dtype)) {
        fail("autodiff/not-floating", "requires_grad", where, {{"got", value.dtype}}, describe(*this));
    }
    Tensor leaf;
    if (evaluated()) {
        leaf = graph::make_value(value.storage, value.layout, value.shape, value.dtype, node_->device, where);
    } else if (on || tracked()) {
        leaf = graph::record(leaf_operation, {}, {*this}, where);
        leaf.node()->released.store(true);  // nothing flows past a leaf: its input may go once it is computed
    } else {
        return *this;
    }
    leaf.node()->tracked = on;
    leaf.node()->leaf = on;
    return leaf;
}

const Tensor& Tensor::eval(const Where& where) const {
    if (!evaluated()) calor::eval(std::span(this, 1), where);
    return *this;
}

void eval(std::span<const Tensor> tensors, const Where& where) { graph::evaluate(tensors, where); }
void eval(std::initializer_list<Tensor> tensors, const Where& where) {
    graph::evaluate({tensors.begin(), tensors.size()}, where);
}

std::int64_t Tensor::readable(DType as, const char* function, const Where& where) const {
    const Naming naming(function);
    check_element_type(dtype(where), as, function, where);
    check_host_memory(checked_bytes(shape(), as, where), function, where);
    return numel();
}

void Tensor::fail_too_large(const char* function, const Where& where) const {
    fail_host_memory(function, where, checked_bytes(shape(), dtype(), where));
}

void Tensor::copy_to(void* out, DType as, std::int64_t count, const char* function, const Where& where) const {
    const Naming naming(function);
    check_element_type(dtype(where), as, function, where);
    if (count != numel(where)) {
        fail("tensor/count", function, where, {{"got", count}, {"shape", shape()}, {"expected", numel(where)}},
             describe(*this));
    }
    eval(where);
    copy_values(graph::value_of(*this), node_->device, static_cast<std::byte*>(out));
}

void Tensor::read_item(void* out, DType as, const Where& where) const {
    const Naming naming("item");
    if (numel(where) != 1) fail("tensor/not-scalar", "item", where, {{"shape", shape()}}, describe(*this));
    check_element_type(dtype(where), as, "item", where);
    copy_to(out, as, 1, "item", where);
}

const void* Tensor::host_data(DType as, const Where& where) const {
    const Naming naming("data");
    check_element_type(dtype(where), as, "data", where);
    eval(where);
    graph::Value& value = graph::value_of(*this);
    if (node_->device.kind != DeviceKind::cpu) {
        if (!value.on_host) {
            value.on_host = backend(Device{}).allocate(checked_bytes(value.shape, as, where), "data", where);
            copy_values(value, node_->device, static_cast<std::byte*>(value.on_host->data));
        }
        return value.on_host->data;
    }
    if (!is_contiguous(value.shape, value.layout.strides)) {
        // The node keeps the row-major copy from here on, so that the pointer lives as long as the tensor.
        auto dense = backend(node_->device).allocate(checked_bytes(value.shape, as, where), "data", where);
        copy_dense(graph::view_of(value), static_cast<std::byte*>(dense->data));
        value.storage = std::move(dense);
        value.layout = {contiguous_strides(value.shape), 0};
    }
    return graph::view_of(value).data;
}

Tensor from_host(const void* values, std::int64_t count, DType dtype, const Shape& shape, const Where& where) {
    const Naming naming("tensor");
    const Device device = default_device();
    const std::int64_t expected = numel(shape, where);
    if (count != expected) {
        fail("tensor/count", "tensor", where, {{"got", count}, {"shape", shape}, {"expected", expected}});
    }
    Backend& to = backend(device, where);
    auto storage = to.allocate(checked_bytes(shape, dtype, where), "tensor", where);
    if (count > 0) to.stream().copy_to_device(storage->data, values, count * size_of(dtype));
    return graph::make_value(std::move(storage), {contiguous_strides(shape), 0}, shape, dtype, device, where);
}
Tensor from_host(const void* values, std::int64_t count, DType dtype, const Shape& shape, Device device,
                 const Where& where) {
    const OnDevice scope(device);
    return from_host(values, count, dtype, shape, where);
}

namespace detail {
void fail_ragged(std::int64_t expected, std::int64_t got, const Where& where) {
    fail("tensor/ragged", "tensor", where, {{"got", got}, {"expected", expected}});
}
}  // namespace detail

}  // namespace calor
