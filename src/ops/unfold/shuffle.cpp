// pixel_shuffle and its inverse: a reshape, a permutation and a reshape. Only the last one copies.
#include "calor/unfold.h"
#include "calor/view.h"
#include "ops/window.h"

namespace calor {
namespace {

/// One factor a spatial axis, each at least 1. Throws [shape/rank], [value/count], [value/option].
Dims factors_of(std::string_view operation, const Tensor& x, const PerAxis& factors, const Where& where) {
    ops::check_defined(operation, x, "the input", where);
    if (x.rank() < 3) {
        fail("shape/rank", operation, where,
             {{"argument", "the input"},
              {"got", x.rank()},
              {"expected", "3 or more: [N, C, spatial...]"},
              {"help", "insert a missing batch or channel axis with unsqueeze()"}},
             describe(x));
    }
    const Dims f = ops::per_axis(operation, "factors", factors, x.rank() - 2, 0, where);
    for (const std::int64_t factor : f) ops::check_option(operation, "factors", factor, 1, where);
    return f;
}

std::int64_t product(const Dims& dims, const Where& where) {
    std::int64_t all = 1;
    for (const std::int64_t d : dims) all = checked_multiply(all, d, where);
    return all;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, const PerAxis& factors, const Where& where) {
    const Naming naming("pixel_shuffle");
    const Dims f = factors_of("pixel_shuffle", x, factors, where);
    const std::int64_t rank = f.rank(), parts = product(f, where), channels = x.shape()[1];
    if (channels % parts != 0) {
        fail("shuffle/channels", "pixel_shuffle", where, {{"channels", channels}, {"parts", parts}, {"factors", f}},
             describe(x));
    }
    Shape split{x.shape()[0], channels / parts}, shape = split;
    Axes order{0, 1};
    for (const std::int64_t factor : f) split.push_back(factor);
    for (std::int64_t a = 0; a < rank; ++a) {
        split.push_back(x.shape()[a + 2]);
        shape.push_back(checked_multiply(x.shape()[a + 2], f[a], where));
        order.push_back(2 + rank + a);
        order.push_back(2 + a);
    }
    return reshape(permute(reshape(x, split, where), order, where), shape, where);
}

Tensor pixel_unshuffle(const Tensor& x, const PerAxis& factors, const Where& where) {
    const Naming naming("pixel_unshuffle");
    const Dims f = factors_of("pixel_unshuffle", x, factors, where);
    const std::int64_t rank = f.rank();
    Shape split{x.shape()[0], x.shape()[1]};
    Shape shape{x.shape()[0], checked_multiply(x.shape()[1], product(f, where), where)};
    Axes order{0, 1};
    for (std::int64_t a = 0; a < rank; ++a) {
        const std::int64_t size = x.shape()[a + 2];
        if (size % f[a] != 0) {
            fail("shuffle/sizes", "pixel_unshuffle", where, {{"size", size}, {"axis", a}, {"factor", f[a]}},
                 describe(x));
        }
        split.push_back(size / f[a]);
        split.push_back(f[a]);
        shape.push_back(size / f[a]);
        order.push_back(3 + 2 * a);
    }
    for (std::int64_t a = 0; a < rank; ++a) order.push_back(2 + 2 * a);
    return reshape(permute(reshape(x, split, where), order, where), shape, where);
}

}  // namespace calor
