// Making tensors: constants, ranges, identity, triangles, grids.
#pragma once

#include <vector>

#include "calor/tensor.h"

namespace calor {

/// A tensor filled with a number. Throws ValueError [value/scalar] when the dtype cannot hold it, [shape/negative],
/// [shape/overflow].
Tensor full(const Shape& shape, Scalar value, DType dtype = f32, const Where& where = Where::current());
Tensor zeros(const Shape& shape, DType dtype = f32, const Where& where = Where::current());
Tensor ones(const Shape& shape, DType dtype = f32, const Where& where = Where::current());
/// A number, zeros or ones with the shape and dtype of another tensor.
Tensor full_like(const Tensor& other, Scalar value, const Where& where = Where::current());
Tensor zeros_like(const Tensor& other, const Where& where = Where::current());
Tensor ones_like(const Tensor& other, const Where& where = Where::current());

/// start, start + step, ... before stop, of rank 1; empty when the step leads away from stop. i64 when all numbers are
/// integers, else f32. Element i is start + i * step, computed exactly for integers and in f64 otherwise. Throws
/// ValueError [value/option] for a step of 0 or a number that isn't finite, [value/scalar] when an integer dtype can't
/// hold the elements, [shape/overflow], DTypeError [dtype/unsupported] for bool.
Tensor arange(Scalar stop, const Where& where = Where::current());
Tensor arange(Scalar stop, DType dtype, const Where& where = Where::current());
Tensor arange(Scalar start, Scalar stop, DType dtype, const Where& where = Where::current());
Tensor arange(Scalar start, Scalar stop, Scalar step = 1, const Where& where = Where::current());
Tensor arange(Scalar start, Scalar stop, Scalar step, DType dtype, const Where& where = Where::current());
/// `count` numbers from start to stop, both included, at equal distances; one number is start. Throws ValueError
/// [value/option] for an end that isn't finite, [shape/negative], DTypeError [dtype/unsupported] unless the dtype is
/// floating.
Tensor linspace(double start, double stop, std::int64_t count, DType dtype = f32,
                const Where& where = Where::current());
/// base to the power of linspace(start, stop, count). Throws as linspace(), and [value/option] unless base is above 0.
Tensor logspace(double start, double stop, std::int64_t count, double base = 10, DType dtype = f32,
                const Where& where = Where::current());

/// [size, size] with ones on the diagonal. Throws ValueError [shape/negative], [shape/overflow].
Tensor eye(std::int64_t size, DType dtype = f32, const Where& where = Where::current());
/// [rows, columns] with ones at [i, i + diagonal].
Tensor eye(std::int64_t rows, std::int64_t columns, std::int64_t diagonal = 0, DType dtype = f32,
           const Where& where = Where::current());
/// The matrices in the last two axes with zeros above the diagonal [i, i + diagonal] (tril) or below it (triu).
/// Throws ShapeError [shape/rank] for a rank below 2.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0, const Where& where = Where::current());
Tensor triu(const Tensor& x, std::int64_t diagonal = 0, const Where& where = Where::current());

/// Which coordinate runs along the first axis of a grid: the first (matrix, "ij") or the second (cartesian, "xy").
enum class Indexing : std::uint8_t { matrix, cartesian };
/// Grids of coordinates: result i repeats list i along all axes but its own, as views. Throws ShapeError [shape/rank].
std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, Indexing indexing = Indexing::matrix,
                             const Where& where = Where::current());

}  // namespace calor
