// The engine of reductions on the CPU: any axes, any strides. It merges axes, picks rows (the innermost axis is
// reduced) or columns (it is kept), splits the work in chunks that depend on the shapes alone, and merges chunks in
// order.
#pragma once

#include "device/view.h"
#include "ops/reduce/reduction.h"

namespace calor::ops {

/// A reference to a callable `void(const void* states, std::int64_t n, std::int64_t offset, std::int64_t stride)`:
/// state i belongs to the element at offset + i * stride of the result.
class StateSink {
public:
    template <class F>
    StateSink(const F& f)  // NOLINT: made from any lambda
        : object_(&f),
          call_([](const void* o, const void* s, std::int64_t n, std::int64_t offset, std::int64_t stride) {
              (*static_cast<const F*>(o))(s, n, offset, stride);
          }) {}
    void operator()(const void* states, std::int64_t n, std::int64_t offset, std::int64_t stride) const {
        call_(object_, states, n, offset, stride);
    }

private:
    const void* object_;
    void (*call_)(const void*, const void*, std::int64_t, std::int64_t, std::int64_t);
};

/// Reduces x over `axes`. `out` are the strides of the result, which has size 1 on reduced axes. `ordered`: positions
/// matter, so reduced axes are walked in row-major order. Every element of the result reaches the sink once, from
/// several threads.
void reduce(const View& x, const Axes& axes, const Strides& out, const ReduceKernel& kernel, bool ordered,
            StateSink sink);

/// The same into a result tensor.
void reduce_into(const View& x, const View& y, const ReduceAttributes& attributes);

}  // namespace calor::ops
