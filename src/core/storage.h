// Storage: a reference-counted block of device memory. Who made it says how it is given back.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/ref.h"

namespace calor {

struct Storage {
    using Release = void (*)(Storage*);

    void* data = nullptr;
    std::int64_t bytes = 0;       ///< usable bytes
    Release give_back = nullptr;  ///< frees `data` and deletes the Storage
    void* owner = nullptr;        ///< for `give_back`
    bool foreign = false;         ///< memory of somebody else, who may read it: never reused for other values
    std::atomic<std::int32_t> references{1};

    static void release(Storage* s) { s->give_back(s); }
    bool unique() const { return !foreign && references.load(std::memory_order_acquire) == 1; }
};

}  // namespace calor
