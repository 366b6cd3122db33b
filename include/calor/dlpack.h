// DLPack: tensors shared with other libraries without a copy (https://dmlc.github.io/dlpack). Include <dlpack/dlpack.h>
// to look inside; this header only names the struct.
#pragma once

#include "calor/tensor.h"

struct DLManagedTensor;

namespace calor {

/// The evaluated tensor as a DLPack structure that shares its memory and keeps it alive until `deleter` is called.
/// Whoever takes it must not write to it: values of tensors never change. Throws as evaluation does, ValueError
/// [tensor/undefined].
DLManagedTensor* to_dlpack(const Tensor& tensor, const Where& where = Where::current());

/// A tensor over the memory of a DLPack structure, whose deleter is called when the last tensor that uses it is gone.
/// When this throws, the structure still belongs to the caller. Throws ValueError [tensor/undefined] for null,
/// [shape/negative], [shape/overflow], [value/option] for memory that is not aligned to its elements, DeviceError
/// [device/unavailable] unless it is in memory of the CPU or of a CUDA device, DTypeError [dtype/unsupported] for
/// vectors of lanes and for types that calor doesn't have.
Tensor from_dlpack(DLManagedTensor* managed, const Where& where = Where::current());

}  // namespace calor
