// View: an operand as an implementation sees it: typed memory with a shape and strides. Data already includes the
// offset.
#pragma once

#include "calor/dtype.h"
#include "calor/shape.h"
#include "core/layout.h"

namespace calor {

struct View {
    void* data = nullptr;
    DType dtype = f32;
    const Shape* shape = nullptr;
    const Strides* strides = nullptr;

    template <class T> T* as() const { return static_cast<T*>(data); }
    std::int64_t rank() const { return shape->rank(); }
    std::int64_t size(std::int64_t axis) const { return (*shape)[axis]; }
    std::int64_t stride(std::int64_t axis) const { return (*strides)[axis]; }
    bool contiguous() const { return is_contiguous(*shape, *strides); }
    std::int64_t count() const { return calor::numel(*shape); }
};

}  // namespace calor
