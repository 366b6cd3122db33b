#include "calor/precision.h"

#include <atomic>

namespace calor {
namespace {

std::atomic<bool> allowed_tf32{false};

}  // namespace

void set_tf32(bool allowed) { allowed_tf32.store(allowed); }
bool tf32() { return allowed_tf32.load(); }

}  // namespace calor
