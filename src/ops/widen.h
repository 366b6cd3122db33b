// Operands in the type that arithmetic runs in: f16 and bf16 as f32, 8- and 16-bit integers as u32. What is wide
// already is used where it lies; the rest is copied, and results are narrowed (rounded once, or wrapped) at the end.
#pragma once

#include "ops/support.h"

namespace calor::ops {

/// f64, f32, u64 or u32: integers compute unsigned, which wraps.
DType wide_type(DType dtype);

/// Copies a view to another of the same shape, converting.
void convert_view(const View& from, const View& to);

/// An input in a wider type. Axes of stride 0 stay so.
class Widened {
public:
    Widened(const graph::Call& call, const View& view) : Widened(call, view, wide_type(view.dtype)) {}
    /// `wide` is at least as wide as the view's dtype; of the same width it stays as it is.
    Widened(const graph::Call& call, const View& view, DType wide);
    Widened(const Widened&) = delete;
    Widened& operator=(const Widened&) = delete;
    const View& view() const { return view_; }

private:
    Ref<Storage> copy_;
    Shape shape_;
    Strides strides_;
    View view_;
};

/// A vector in its wide type, without gaps; null for no vector.
class WidenedVector {
public:
    WidenedVector(const graph::Call& call, const View* vector);
    template <class T> const T* data() const { return static_cast<const T*>(data_); }

private:
    Ref<Storage> copy_;
    const void* data_ = nullptr;
};

/// A dense output in its wide type: compute into view(), then narrow().
class WidenedResult {
public:
    WidenedResult(const graph::Call& call, const View& view) : WidenedResult(call, view, wide_type(view.dtype)) {}
    WidenedResult(const graph::Call& call, const View& view, DType wide);
    const View& view() const { return view_; }
    void narrow() const;

private:
    Ref<Storage> copy_;
    View result_, view_;
};

}  // namespace calor::ops
