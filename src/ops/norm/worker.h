// What the forward and backward passes share: operands in one layout, tiles in the compute dtype, weights as dense
// arrays.
#pragma once

#include <vector>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "ops/norm/cpu/norm_kernels.h"
#include "ops/norm/geometry.h"
#include "ops/support.h"

namespace calor::ops {

/// `v` in the strides of `layout`: itself, or a copy that `memory` owns.
inline View in_layout_of(const View& v, const View& layout, const graph::Call& c, Ref<Storage>& memory) {
    bool same = true;
    for (std::int64_t a = 0; a < v.rank(); ++a) same = same && (v.size(a) == 1 || v.stride(a) == layout.stride(a));
    if (same) return v;
    memory = graph::scratch(c, v.count() * size_of(v.dtype));
    const View copy{memory->data, v.dtype, v.shape, layout.strides};
    copy_view(v, copy);
    return copy;
}

/// One element of a floating view.
inline double load_element(const View& v, std::int64_t at) {
    switch (v.dtype) {
        case f64: return v.as<double>()[at];
        case f16: return v.as<float16>()[at];
        case bf16: return v.as<bfloat16>()[at];
        default: return v.as<float>()[at];
    }
}

/// Calls body(offset in v, offset by `strides`) for every element of v.
template <class F> void each_element(const View& v, const Strides& strides, const F& body) {
    Dims index(v.rank(), 0);
    for (std::int64_t i = 0, n = v.count(); i < n; ++i) {
        std::int64_t from = 0, to = 0;
        for (std::int64_t a = 0; a < v.rank(); ++a) {
            from += index[a] * v.stride(a);
            to += index[a] * strides[a];
        }
        body(from, to);
        for (std::int64_t a = v.rank() - 1; a >= 0 && ++index[a] == v.size(a); --a) index[a] = 0;
    }
}

/// Elements of v at offsets by `strides` in a dense array.
template <class T> std::vector<T> dense_array(const View& v, const Strides& strides) {
    std::vector<T> values(static_cast<std::size_t>(v.count()));
    each_element(v, strides, [&](std::int64_t from, std::int64_t to) {
        values[static_cast<std::size_t>(to)] = static_cast<T>(load_element(v, from));
    });
    return values;
}

/// Tiles of one operand in the compute dtype.
template <class T> class TileMemory {
public:
    explicit TileMemory(const View& v) : view_(v), half_(is_half(v.dtype)) {
        if (half_) buffer_.resize(norm_columns * norm_rows);
    }
    /// The elements of a tile; `stride` is that between its rows.
    const T* load(const NormTile& t, std::int64_t& stride) {
        stride = t.stride;
        if (!half_) return view_.template as<const T>() + t.offset;
        for (std::int64_t r = 0; r < t.rows; ++r) {
            const void* from = view_.template as<const std::uint16_t>() + t.offset + r * t.stride;
            cpu::find_convert(view_.dtype, f32)(&from, buffer_.data() + r * t.width, t.width, nullptr);
        }
        stride = t.width;
        return buffer_.data();
    }
    /// Where a kernel writes a tile; store() brings it to memory.
    T* place(const NormTile& t, std::int64_t& stride) {
        stride = half_ ? t.width : t.stride;
        return half_ ? buffer_.data() : view_.template as<T>() + t.offset;
    }
    void store(const NormTile& t) {
        if (!half_) return;
        for (std::int64_t r = 0; r < t.rows; ++r) {
            const void* from = buffer_.data() + r * t.width;
            cpu::find_convert(f32, view_.dtype)(&from, view_.template as<std::uint16_t>() + t.offset + r * t.stride,
                                                t.width, nullptr);
        }
    }

private:
    View view_;
    bool half_;
    std::vector<T> buffer_;
};

inline constexpr std::int64_t norm_thread_elements = 16384;  // a thread gets at least so many
inline constexpr std::int64_t norm_cached_elements = 65536;  // a block of so many stays in the cache between two passes
inline constexpr std::int64_t norm_many_blocks = 16;  // enough blocks to keep threads busy without splitting them

}  // namespace calor::ops
