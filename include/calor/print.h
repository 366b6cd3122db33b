// Tensors as text, in NumPy's form: tensor([[1., 2.],\n        [3., 4.]], dtype=f64).
#pragma once

#include <iosfwd>
#include <string>

#include "calor/tensor.h"

namespace calor {

/// The values as NumPy's repr shows an array, with lines of at most 75 characters. Floats have the fewest digits that
/// tell them apart, at most 8 behind the point, in columns; scientific form when a magnitude reaches 1e8 (f32: 1e6, f16
/// and bf16: 1e3), lies below 1e-4, or the magnitudes span more than three decimal orders. Of tensors with more than
/// 1000 elements the first and last three entries of each axis are shown, and the shape. The dtype follows unless it is
/// f32, i64 or bool. Evaluates the tensor; an undefined one is "tensor(undefined)".
std::string to_string(const Tensor& tensor, const Where& where = Where::current());
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace calor
