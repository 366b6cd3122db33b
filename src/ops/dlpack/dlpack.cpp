// DLPack in both directions. The structure that goes out holds a reference to the storage; the storage that is made of
// one that comes in calls its deleter.
#include "calor/dlpack.h"

#include <dlpack/dlpack.h>

#include "graph/node.h"

namespace calor {
namespace {

constexpr std::uint8_t code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4, code_bool = 6;

DLDataType type_of(DType dtype) {
    DLDataType type{};
    type.bits = static_cast<std::uint8_t>(8 * size_of(dtype));
    type.lanes = 1;
    type.code = dtype == boolean           ? code_bool
                : dtype == bf16            ? code_bfloat
                : is_floating(dtype)       ? code_float
                : is_signed_integer(dtype) ? code_int
                                           : code_uint;
    return type;
}

DType dtype_of_type(const DLDataType& type, const Where& where) {
    for (const DType dtype : {f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean}) {
        const DLDataType known = type_of(dtype);
        if (type.code == known.code && type.bits == known.bits && type.lanes == known.lanes) return dtype;
    }
    fail("dtype/unsupported", "from_dlpack", where,
         {{"argument", "the structure"},
          {"got", "code " + std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits, " +
                      std::to_string(type.lanes) + " lanes"},
          {"expected", "a real number or bool of one lane"}});
}

struct Export {
    DLManagedTensor managed{};
    Ref<Storage> storage;
    Shape shape;
    Strides strides;
};

void release_import(Storage* storage) {
    auto* managed = static_cast<DLManagedTensor*>(storage->owner);
    if (managed->deleter) managed->deleter(managed);
    delete storage;
}

Device imported_device(const DLDevice& device, const Where& where) {
    if (device.device_type == kDLCPU) return {};
    if (device.device_type == kDLCUDA) {
        const Device found{DeviceKind::cuda, device.device_id};
        (void)backend(found, where);
        return found;
    }
    fail("device/unavailable", "from_dlpack", where,
         {{"device", "of DLPack type " + std::to_string(static_cast<int>(device.device_type)) + ", number " +
                         std::to_string(device.device_id)},
          {"available", "memory of the CPU and of CUDA devices"}});
}

}  // namespace

DLManagedTensor* to_dlpack(const Tensor& tensor, const Where& where) {
    if (!tensor.defined()) fail("tensor/undefined", "to_dlpack", where, {{"argument", "the tensor"}});
    const Device device = tensor.device();
    if (device.kind == DeviceKind::opencl) {  // its buffers have no addresses
        fail("device/unsupported", "to_dlpack", where,
             {{"device", to_string(device)}, {"what", "memory that other libraries can read through DLPack"}});
    }
    tensor.eval(where);
    backend(device).stream().synchronize();
    const graph::Value& value = graph::value_of(tensor);
    auto* out = new Export;
    out->storage = value.storage;
    out->shape = value.shape;
    out->strides = value.layout.strides;
    DLTensor& t = out->managed.dl_tensor;
    t.data = value.storage->data;
    t.device = {device.kind == DeviceKind::cuda ? kDLCUDA : kDLCPU, device.index};
    t.ndim = static_cast<int>(value.shape.rank());
    t.dtype = type_of(value.dtype);
    t.shape = out->shape.data();
    t.strides = out->strides.data();
    t.byte_offset = static_cast<std::uint64_t>(value.layout.offset * size_of(value.dtype));
    out->managed.manager_ctx = out;
    out->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Export*>(self->manager_ctx); };
    return &out->managed;
}

Tensor from_dlpack(DLManagedTensor* managed, const Where& where) {
    const Naming naming("from_dlpack");
    if (!managed) fail("tensor/undefined", "from_dlpack", where, {{"argument", "the structure"}});
    const DLTensor& t = managed->dl_tensor;
    const Device device = imported_device(t.device, where);
    const DType dtype = dtype_of_type(t.dtype, where);
    if (t.ndim < 0) {
        fail("value/option", "from_dlpack", where,
             {{"option", "ndim"},
              {"got", static_cast<std::int64_t>(t.ndim)},
              {"expected", "0 or more"},
              {"help", "the structure is broken"}});
    }
    const auto rank = static_cast<std::size_t>(t.ndim);
    const Shape shape(std::span<const std::int64_t>(t.shape, rank));
    const std::int64_t bytes = checked_bytes(shape, dtype, where);
    auto* data = static_cast<std::byte*>(t.data) + t.byte_offset;
    if (bytes > 0 && reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_of(dtype)) != 0) {
        fail("value/option", "from_dlpack", where,
             {{"option", "byte_offset"},
              {"got", static_cast<std::int64_t>(t.byte_offset)},
              {"expected", "an address that is a multiple of " + std::to_string(size_of(dtype)) + " bytes"},
              {"help", "copy the values to aligned memory first"}});
    }
    Layout layout{t.strides ? Strides(std::span<const std::int64_t>(t.strides, rank)) : contiguous_strides(shape), 0};
    auto* storage = new Storage;
    storage->data = data;
    storage->bytes = bytes;
    storage->foreign = true;
    storage->owner = managed;
    storage->give_back = release_import;
    return graph::make_value(Ref<Storage>::adopt(storage), std::move(layout), shape, dtype, device, where);
}

}  // namespace calor
