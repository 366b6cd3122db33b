// to(device): a copy from one device's memory to another's, and back for the gradient. Between two GPUs the values go
// through the host.
#include <cstddef>
#include <vector>

#include "calor/view.h"
#include "graph/node.h"
#include "ops/registry.h"

namespace calor {
namespace {

struct TransferAttributes {
    Device from, to;
    friend bool operator==(const TransferAttributes&, const TransferAttributes&) = default;
};

void run_transfer(const graph::Call& c) {
    const auto& [from, to] = c.attrs<TransferAttributes>();
    const View &x = c.inputs[0], &y = c.outputs[0];  // both dense
    const std::int64_t bytes = x.count() * size_of(x.dtype);
    if (from.kind == DeviceKind::cpu) return backend(to).stream().copy_to_device(y.data, x.data, bytes);
    if (to.kind == DeviceKind::cpu) return backend(from).stream().copy_to_host(y.data, x.data, bytes);
    constexpr std::int64_t piece = 16 << 20;
    std::vector<std::byte> host(static_cast<std::size_t>(std::min(bytes, piece)));
    for (std::int64_t at = 0; at < bytes; at += piece) {
        const std::int64_t count = std::min(piece, bytes - at);
        backend(from).stream().copy_to_host(host.data(), x.as<std::byte>() + at, count);
        backend(to).stream().copy_to_device(y.as<std::byte>() + at, host.data(), count);
    }
}

const graph::Implementation implementations[] = {{.name = "copy", .run = run_transfer}};
std::span<const graph::Implementation> on_cpu(DeviceKind) { return implementations; }
std::span<const graph::Implementation> on_gpu() { return implementations; }

const graph::Operation to_device_operation{
    .name = "to_device",
    .traits = graph::linear,
    .infer =
        [](const graph::InferContext& c) {
            return graph::Specs{{c.inputs[0].shape(), c.inputs[0].dtype()}};
        },
    .gradient =
        [](const graph::GradContext& c) { c.grads[0] = c.cotangent().to(c.attrs<TransferAttributes>().from, c.where); },
    .device = [](const graph::Attributes& a) { return a.get<TransferAttributes>().to; },
    .implementations = on_cpu,
    .gpu_implementations = on_gpu};

/// Values that are one stored element, as full() makes them: only that element is copied.
bool constant(const Tensor& t) {
    if (!t.evaluated() || t.rank() == 0 || t.tracked()) return false;
    for (const std::int64_t s : graph::value_of(t).layout.strides) {
        if (s != 0) return false;
    }
    return t.numel() > 0;
}

}  // namespace

Tensor Tensor::to(Device device, const Where& where) const {
    const Naming naming("to");
    if (!defined()) fail("tensor/undefined", "to", where, {{"argument", "the tensor"}});
    (void)backend(device, where);  // refuses devices that do not exist
    if (device == node_->device) return *this;
    if (constant(*this)) {
        const graph::Value& v = graph::value_of(*this);
        const Tensor one = graph::make_value(v.storage, {{}, v.layout.offset}, {}, v.dtype, node_->device, where);
        return expand(one.to(device, where), shape(), where);
    }
    return graph::record(to_device_operation, TransferAttributes{node_->device, device}, {contiguous(*this, where)},
                         where);
}

ops::Descriptors ops::transfer_descriptors() { return {&to_device_operation}; }

}  // namespace calor
