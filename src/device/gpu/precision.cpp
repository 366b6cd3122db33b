#include "calor/precision.h"

#include <atomic>

namespace calor {
namespace {

std::atomic<bool> allowed_tf32{false}, allowed_winograd{true};

}  // namespace

void set_tf32(bool allowed) { allowed_tf32.store(allowed); }
bool tf32() { return allowed_tf32.load(); }

void set_winograd(bool allowed) { allowed_winograd.store(allowed); }
bool winograd() { return allowed_winograd.load(); }

}  // namespace calor
