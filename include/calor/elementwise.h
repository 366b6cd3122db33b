// Elementwise operations. Operands broadcast against each other and promote to a common dtype; numbers never widen a tensor.
#pragma once

#include "calor/tensor.h"

namespace calor {

Tensor add(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor sub(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor mul(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor div(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor neg(const Tensor& x, const Where& where = Where::current());
Tensor exp(const Tensor& x, const Where& where = Where::current());
Tensor relu(const Tensor& x, const Where& where = Where::current());
Tensor gt(const Operand& a, const Operand& b, const Where& where = Where::current());
Tensor where(const Tensor& condition, const Operand& a, const Operand& b, const Where& at = Where::current());

inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b, a.where()); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b, a.where()); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b, a.where()); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b, a.where()); }
inline Tensor operator-(const Operand& a) { return neg(a.tensor(), a.where()); }

}  // namespace calor
