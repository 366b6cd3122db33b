// Constants: one stored element that every position reads through zero strides.
#include "calor/creation.h"

#include "graph/node.h"

namespace calor {

Tensor full(const Shape& shape, Scalar value, DType dtype, const Where& where) {
    const Naming naming("full");
    (void)checked_bytes(shape, dtype, where);
    const Tensor one = scalar(value, dtype, where);
    return graph::make_value(graph::value_of(one).storage, {Strides(shape.rank(), 0), 0}, shape, dtype,
                             one.node()->device, where);
}

Tensor zeros(const Shape& shape, DType dtype, const Where& where) {
    const Naming naming("zeros");
    return dtype == boolean ? full(shape, false, dtype, where) : full(shape, 0, dtype, where);
}
Tensor ones(const Shape& shape, DType dtype, const Where& where) {
    const Naming naming("ones");
    return dtype == boolean ? full(shape, true, dtype, where) : full(shape, 1, dtype, where);
}
Tensor full_like(const Tensor& other, Scalar value, const Where& where) {
    const Naming naming("full_like");
    const OnDevice scope(other.device(where));
    return full(other.shape(where), value, other.dtype(where), where);
}
Tensor zeros_like(const Tensor& other, const Where& where) {
    const Naming naming("zeros_like");
    const OnDevice scope(other.device(where));
    return zeros(other.shape(where), other.dtype(where), where);
}
Tensor ones_like(const Tensor& other, const Where& where) {
    const Naming naming("ones_like");
    const OnDevice scope(other.device(where));
    return ones(other.shape(where), other.dtype(where), where);
}

Tensor graph::GradContext::cotangent(std::size_t output) const {
    if (cotangents[output].defined()) return cotangents[output];
    return zeros_like(outputs[output], where);
}

}  // namespace calor
