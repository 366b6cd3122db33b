// Temporary memory of the CPU's kernels: from the device's caching allocator, so it is counted and limited like tensors
// are, and the next call finds it warm.
#pragma once

#include <cstdint>

#include "core/ref.h"
#include "core/storage.h"

namespace calor::cpu {

/// A temporary buffer, 64-byte aligned; empty for 0 bytes. Throws MemoryError [memory/exhausted].
class Scratch {
public:
    Scratch() = default;
    explicit Scratch(std::int64_t bytes);
    char* bytes() const { return static_cast<char*>(data()); }
    float* floats() const { return static_cast<float*>(data()); }

private:
    void* data() const { return storage_ ? storage_->data : nullptr; }
    Ref<Storage> storage_;
};

}  // namespace calor::cpu
