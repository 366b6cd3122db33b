// Temporary memory of the CPU's contractions, from whoever the program names.
#pragma once

#include <cstdint>
#include <utility>

namespace calor::cpu {

/// `allocate` returns 64-byte aligned memory or throws; both may be called from several threads at once.
struct ScratchAllocator {
    void* (*allocate)(std::int64_t bytes, void* context);
    void (*release)(void* data, std::int64_t bytes, void* context);
    void* context;
};
/// Call before the first contraction; without it aligned operator new is used.
void set_scratch_allocator(const ScratchAllocator& allocator);

/// A temporary buffer; empty for 0 bytes.
class Scratch {
public:
    Scratch() = default;
    explicit Scratch(std::int64_t bytes);
    Scratch(Scratch&& other) noexcept { swap(other); }
    Scratch& operator=(Scratch&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Scratch();
    char* bytes() const { return static_cast<char*>(data_); }
    float* floats() const { return static_cast<float*>(data_); }

private:
    void swap(Scratch& other) {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
    }
    void* data_ = nullptr;
    std::int64_t bytes_ = 0;
};

}  // namespace calor::cpu
