// What the forward and backward passes share: operands in one layout, tiles in the compute dtype, weights as dense
// arrays.
#pragma once

#include <limits>
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

/// Values in the order of pairs, padded. A NaN becomes the usual one, which bf16 kernels can round.
template <class T> std::vector<T> in_pairs(const std::vector<T>& values, std::int64_t evens) {
    const std::int64_t n = std::ssize(values);
    std::vector<T> placed(static_cast<std::size_t>(n + norm_padding), T(0));
    for (std::int64_t i = 0; i < n; ++i) {
        const T value = values[static_cast<std::size_t>(i)];
        placed[static_cast<std::size_t>(place_in_pairs(i, evens))] =
            value == value ? value : std::numeric_limits<T>::quiet_NaN();
    }
    return placed;
}
template <class T> void place_into(std::vector<T>& placed, std::int64_t i, std::int64_t evens, T value) {
    placed[static_cast<std::size_t>(place_in_pairs(i, evens))] =
        value == value ? value : std::numeric_limits<T>::quiet_NaN();
}

/// The dtype whose kernels run: that of the elements, unless weights along rows start at places that are no whole
/// pairs.
inline DType kernel_dtype(DType dtype, const NormGeometry& g) {
    return dtype == bf16 && g.rows && !g.weights_in_pairs() ? f32 : dtype;
}

/// Tiles of one operand in the dtype of the kernels.
class TileMemory {
public:
    TileMemory(const View& v, DType kernels) : view_(v), size_(size_of(v.dtype)) {
        if (kernels == v.dtype) return;
        widen_ = cpu::find_convert(v.dtype, kernels);
        narrow_ = cpu::find_convert(kernels, v.dtype);
        buffer_.resize(norm_columns * norm_rows);
    }
    /// The elements of a tile; `stride` is that between its rows.
    const void* load(const NormTile& t, std::int64_t& stride) {
        stride = t.stride;
        if (!widen_) return at(t.offset);
        for (std::int64_t r = 0; r < t.rows; ++r) {
            const void* from = at(t.offset + r * t.stride);
            widen_(&from, buffer_.data() + r * t.width, t.width, nullptr);
        }
        stride = t.width;
        return buffer_.data();
    }
    /// Where a kernel writes a tile; store() brings it to memory.
    void* place(const NormTile& t, std::int64_t& stride) {
        stride = widen_ ? t.width : t.stride;
        return widen_ ? buffer_.data() : at(t.offset);
    }
    void store(const NormTile& t) {
        for (std::int64_t r = 0; widen_ && r < t.rows; ++r) {
            const void* from = buffer_.data() + r * t.width;
            narrow_(&from, at(t.offset + r * t.stride), t.width, nullptr);
        }
    }

private:
    void* at(std::int64_t offset) const { return view_.as<std::byte>() + offset * size_; }
    View view_;
    std::int64_t size_;
    TileKernel widen_ = nullptr, narrow_ = nullptr;
    std::vector<float> buffer_;
};

inline constexpr std::int64_t norm_thread_elements = 16384;  // a thread gets at least so many
inline constexpr std::int64_t norm_cached_elements = 65536;  // a block of so many stays in the cache between two passes
inline constexpr std::int64_t norm_many_blocks = 16;  // enough blocks to keep threads busy without splitting them

}  // namespace calor::ops
