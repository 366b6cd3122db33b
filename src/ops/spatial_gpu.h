// What the GPU implementations of views, pooling, resampling and sampling share.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "ops/gpu.h"

namespace calor::ops {

/// The unsigned dtype of an element's size: copies move bits, and integers wrap alike.
inline DType carrier(DType dtype) {
    const std::int64_t bytes = size_of(dtype);
    return bytes == 1 ? u8 : bytes == 2 ? u16 : bytes == 4 ? u32 : u64;
}
/// Floating dtypes themselves, of others the carrier.
inline DType adding(DType dtype) { return is_floating(dtype) ? dtype : carrier(dtype); }

/// Neighbours of a row of `length` elements that a thread writes at once: at most 16 bytes, and the row's divisor.
inline std::int64_t neighbours_of(std::int64_t length, DType dtype) {
    std::int64_t n = 16 / size_of(dtype);
    while (n > 1 && length % n != 0) n /= 2;
    return n;
}

/// Whether offsets into the view need 64 bits, for kernels that are handed its address alone.
inline bool reaches_far(const View& v) {
    std::int64_t reach = 0;
    for (std::int64_t a = 0; a < v.rank(); ++a) reach = std::max(reach, v.size(a) * std::abs(v.stride(a)));
    return std::max(reach, v.count()) >= std::int64_t{1} << 30;
}

/// A view [N, C, spatial...] whose channels lie side by side: threads then run along the channels.
inline bool channels_inside(const View& v) { return v.rank() > 2 && v.size(1) > 1 && v.stride(1) == 1; }

/// A view in row-major order: itself, or a copy on the device.
class Dense {
public:
    Dense(const graph::Call& call, const View& v) : view_(v) {
        if (v.contiguous()) return;
        strides_ = contiguous_strides(*v.shape);
        copy_ = graph::scratch(call, std::max<std::int64_t>(1, v.count()) * size_of(v.dtype));
        view_ = {copy_->data, v.dtype, v.shape, &strides_};
        copy_on_gpu(call, v, view_);
    }
    Dense(const Dense&) = delete;
    Dense& operator=(const Dense&) = delete;
    const View& view() const { return view_; }

private:
    Strides strides_;
    Ref<Storage> copy_;
    View view_;
};

}  // namespace calor::ops
