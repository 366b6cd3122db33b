// What the index operations share: checks of index tensors, walks over rows, and the loops that the families'
// references use.
#pragma once

#include "ops/support.h"

namespace calor::index {

/// Of gather, scatter, scatter_add and scatter_values.
struct GatherAttributes {
    std::int64_t axis = 0;
    friend bool operator==(const GatherAttributes&, const GatherAttributes&) = default;
};
/// Of index_select and index_add.
struct SelectAttributes {
    std::int64_t axis = 0;
    std::int64_t skip = -1;     ///< index_add passes over this index
    bool zero_skipped = false;  ///< index_select gives zeros for it
    friend bool operator==(const SelectAttributes&, const SelectAttributes&) = default;
};
struct OneHotAttributes {
    std::int64_t classes = 0;
    DType dtype = f32;
    friend bool operator==(const OneHotAttributes&, const OneHotAttributes&) = default;
};

/// A list of indices as an index tensor of a whole shape.
struct Spread {
    Strides strides;
    View view;
    Spread(const View& indices, const Shape& shape, std::int64_t axis) : strides(shape.rank(), 0) {
        strides[axis] = indices.stride(0);
        view = {indices.data, indices.dtype, &shape, &strides};
    }
};

/// An integer tensor as i32 or i64, others converted. Throws DTypeError [dtype/unsupported], ValueError
/// [tensor/undefined].
Tensor checked_dtype(std::string_view operation, const Tensor& indices, const Where& where);
/// Throws DTypeError [dtype/mismatch] unless `values` has the dtype of x.
void check_same_dtype(std::string_view operation, const Tensor& x, const Tensor& values, const Where& where);
/// Throws DTypeError [dtype/unsupported] for bool.
void check_addable(std::string_view operation, const Tensor& x, const Where& where);
/// Throws ValueError [index/range] for the first index in row-major order that is outside [0, size).
void check_range(const graph::Call& c, const View& indices, std::int64_t axis, std::int64_t size);

/// Walks the rows (runs of the last axis) of a shape and keeps the offsets of K views; axes beyond a view's rank don't
/// exist: all have the shape's rank.
template <int K> class Rows {
public:
    Rows(const Shape& shape, const Strides* const (&strides)[K]) : shape_(shape) {
        for (int k = 0; k < K; ++k) strides_[k] = strides[k];
    }
    void seek(std::int64_t row) {
        index_ = Dims(std::max<std::int64_t>(shape_.rank() - 1, 0), 0);
        for (std::int64_t& o : offset) o = 0;
        for (std::int64_t a = shape_.rank() - 2; a >= 0; --a) {
            index_[a] = row % shape_[a];
            row /= shape_[a];
            for (int k = 0; k < K; ++k) offset[k] += index_[a] * (*strides_[k])[a];
        }
    }
    void next() {
        for (std::int64_t a = shape_.rank() - 2; a >= 0; --a) {
            for (int k = 0; k < K; ++k) offset[k] += (*strides_[k])[a];
            if (++index_[a] < shape_[a]) return;
            for (int k = 0; k < K; ++k) offset[k] -= (*strides_[k])[a] * shape_[a];
            index_[a] = 0;
        }
    }
    std::int64_t offset[K] = {};

private:
    const Shape& shape_;
    const Strides* strides_[K];
    Dims index_;
};

/// y[..] = x[.., indices[..], ..]; y is contiguous and has the shape of `indices`, whose indices were checked.
void gather_loops(const View& x, const View& indices, const View& y, std::int64_t axis);
/// y[.., indices[..], ..] = values[..] in the order of the indices.
void scatter_loops(const View& y, const View& indices, const View& values, std::int64_t axis);
/// y[.., indices[..], ..] += values[..] in the order of the indices; y is contiguous.
void scatter_add_loops(const graph::Call& c, const View& y, const View& indices, const View& values, std::int64_t axis);

// Implementations on GPUs.
std::span<const graph::Implementation> gather_on_gpu();
std::span<const graph::Implementation> select_on_gpu();
std::span<const graph::Implementation> one_hot_on_gpu();
std::span<const graph::Implementation> scatter_on_gpu();
std::span<const graph::Implementation> scatter_values_on_gpu();
std::span<const graph::Implementation> scatter_add_on_gpu();
std::span<const graph::Implementation> index_add_on_gpu();

/// i64 [count]: row-major positions of the true elements of bools on a GPU.
Tensor true_positions_on_gpu(std::string_view operation, const Tensor& flags, const Where& where);
/// i64 [count, rank]: the indices in `shape` of such positions.
Tensor unravel_on_gpu(std::string_view operation, const Tensor& positions, const Shape& shape, const Where& where);

}  // namespace calor::index
