#include "device/cpu/scratch.h"

#include "device/cpu/cpu_backend.h"

namespace calor::cpu {

Scratch::Scratch(std::int64_t bytes) {
    if (bytes > 0) storage_ = backend().allocate(bytes, "workspace", Where::current());
}

}  // namespace calor::cpu
