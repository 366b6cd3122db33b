// Initial values whose spread follows from the shape.
#include "calor/nn/init.h"

#include <cmath>
#include <vector>

#include "core/fail.h"

namespace calor::nn::init {

Fans fans(const Shape& shape, const Where& where) {
    if (shape.rank() < 2) {
        fail("shape/rank", "fans", where,
             {{"argument", "the weight"},
              {"got", shape.rank()},
              {"expected", "2 or more"},
              {"help", "a weight is [out, in, kernel...]"}});
    }
    (void)numel(shape, where);  // refuses negative sizes and overflow
    std::int64_t field = 1;
    for (std::int64_t i = 2; i < shape.rank(); ++i) field = checked_multiply(field, shape[i], where);
    return {checked_multiply(shape[1], field, where), checked_multiply(shape[0], field, where)};
}

double gain(Nonlinearity nonlinearity, double slope) {
    switch (nonlinearity) {
        case Nonlinearity::tanh: return 5.0 / 3;
        case Nonlinearity::relu: return std::sqrt(2.0);
        case Nonlinearity::leaky_relu: return std::sqrt(2 / (1 + slope * slope));
        case Nonlinearity::selu: return 0.75;
        case Nonlinearity::linear:
        case Nonlinearity::sigmoid: break;
    }
    return 1;
}

namespace {

double kaiming_deviation(const Shape& shape, const KaimingOptions& o, const Where& where) {
    const Fans f = fans(shape, where);
    return gain(o.nonlinearity, o.slope) / std::sqrt(static_cast<double>(o.fan == Fan::in ? f.in : f.out));
}
double xavier_deviation(const Shape& shape, const XavierOptions& o, const Where& where) {
    const Fans f = fans(shape, where);
    return o.gain * std::sqrt(2 / (static_cast<double>(f.in) + static_cast<double>(f.out)));
}
Tensor uniform_of(const Shape& shape, double deviation, DType dtype, const Where& where) {
    if (numel(shape, where) == 0) return zeros(shape, dtype, where);
    const double bound = std::sqrt(3.0) * deviation;
    return uniform(shape, -bound, bound, dtype, default_generator(), where);
}
Tensor normal_of(const Shape& shape, double deviation, DType dtype, const Where& where) {
    if (numel(shape, where) == 0) return zeros(shape, dtype, where);
    return normal(shape, 0, deviation, dtype, default_generator(), where);
}

/// Makes `count` rows of `length` numbers orthonormal, one after the other. Twice is enough (Giraud et al. 2005).
void orthonormalise(std::vector<double>& rows, std::int64_t count, std::int64_t length) {
    const auto row = [&](std::int64_t i) { return rows.data() + i * length; };
    const auto product = [length](const double* a, const double* b) {
        double total = 0;
        for (std::int64_t k = 0; k < length; ++k) total += a[k] * b[k];
        return total;
    };
    for (std::int64_t i = 0; i < count; ++i) {
        for (int pass = 0; pass < 2; ++pass) {
            for (std::int64_t j = 0; j < i; ++j) {
                const double along = product(row(i), row(j));
                for (std::int64_t k = 0; k < length; ++k) row(i)[k] -= along * row(j)[k];
            }
        }
        const double size = std::sqrt(product(row(i), row(i)));
        for (std::int64_t k = 0; k < length; ++k) row(i)[k] /= size;
    }
}

}  // namespace

Tensor constant(const Shape& shape, double value, DType dtype, const Where& where) {
    const Naming naming("constant");
    return full(shape, value, dtype, where);
}

Tensor kaiming_uniform(const Shape& shape, const KaimingOptions& o, const Where& where) {
    const Naming naming("kaiming_uniform");
    return uniform_of(shape, kaiming_deviation(shape, o, where), o.dtype, where);
}
Tensor kaiming_normal(const Shape& shape, const KaimingOptions& o, const Where& where) {
    const Naming naming("kaiming_normal");
    return normal_of(shape, kaiming_deviation(shape, o, where), o.dtype, where);
}
Tensor xavier_uniform(const Shape& shape, const XavierOptions& o, const Where& where) {
    const Naming naming("xavier_uniform");
    return uniform_of(shape, xavier_deviation(shape, o, where), o.dtype, where);
}
Tensor xavier_normal(const Shape& shape, const XavierOptions& o, const Where& where) {
    const Naming naming("xavier_normal");
    return normal_of(shape, xavier_deviation(shape, o, where), o.dtype, where);
}

Tensor orthogonal(const Shape& shape, const OrthogonalOptions& o, const Where& where) {
    const Naming naming("orthogonal");
    (void)fans(shape, where);
    const std::int64_t elements = numel(shape, where);
    if (elements == 0) return zeros(shape, o.dtype, where);
    const std::int64_t rows = shape[0], columns = elements / rows;
    const std::int64_t count = std::min(rows, columns), length = std::max(rows, columns);
    const Tensor drawn = normal({count, length}, 0, 1, f64, default_generator(), where).eval(where);
    std::vector<double> basis = drawn.to_vector<double>(where);
    orthonormalise(basis, count, length);
    auto values = host_array<double>(elements, "orthogonal", where);
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
            const std::int64_t from = rows <= columns ? r * length + c : c * length + r;
            values[static_cast<std::size_t>(r * columns + c)] = o.gain * basis[static_cast<std::size_t>(from)];
        }
    }
    return tensor(values, shape, where).to(o.dtype, where);
}

}  // namespace calor::nn::init
