#include "device/cpu/scratch.h"

#include <new>

namespace calor::cpu {
namespace {

constexpr std::align_val_t alignment{64};

ScratchAllocator& current() {
    static ScratchAllocator allocator{
        [](std::int64_t bytes, void*) { return ::operator new(static_cast<std::size_t>(bytes), alignment); },
        [](void* data, std::int64_t, void*) { ::operator delete(data, alignment); }, nullptr};
    return allocator;
}

}  // namespace

void set_scratch_allocator(const ScratchAllocator& allocator) { current() = allocator; }

Scratch::Scratch(std::int64_t bytes) : bytes_(bytes) {
    if (bytes > 0) data_ = current().allocate(bytes, current().context);
}

Scratch::~Scratch() {
    if (data_ != nullptr) current().release(data_, bytes_, current().context);
}

}  // namespace calor::cpu
