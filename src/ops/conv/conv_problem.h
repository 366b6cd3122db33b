// A convolution as arrays in memory, so that implementations can rewrite it before they run: spatial axes that do
// nothing are taken out, and large problems are cut into pieces, which bounds temporary memory.
#pragma once

#include <optional>
#include <utility>

#include "ops/conv/conv.h"

namespace calor::ops::conv {

/// A view that owns its shape and strides.
struct Array {
    Array() = default;
    explicit Array(const View& v) : data(v.data), dtype(v.dtype), shape(*v.shape), strides(*v.strides) {}
    View view() const { return {data, dtype, &shape, &strides}; }
    std::int64_t size(std::int64_t axis) const { return shape[axis]; }
    std::int64_t stride(std::int64_t axis) const { return strides[axis]; }
    /// Only entries [begin, end) along an axis.
    void keep(std::int64_t axis, std::int64_t begin, std::int64_t end);

    void* data = nullptr;
    DType dtype = f32;
    Shape shape;
    Strides strides;
};

struct Problem {
    std::int64_t axes() const { return settings.stride.rank(); }
    const Array& result() const { return role == Role::forward ? y : role == Role::input_grad ? x : w; }

    Role role = Role::forward;
    Array x, w, y;
    std::optional<Array> bias;
    cpu::ConvSettings settings;
};
Problem problem_of(Role role, const graph::Call& call);

/// The same convolution with fewer spatial axes where strides allow it: axes of size 1 under a kernel of 1 go;
/// neighbouring axes that the kernel does not see (kernel 1, stride 1, no padding) become one, and such an axis beside
/// others becomes part of the batch. At least one axis stays. A kernel of 1 with a larger stride reads a strided
/// view of the input.
Problem simplified(Problem p);

/// Two problems that together are `p`, cut along the batch or the longest axis of positions; empty when there is
/// nothing to cut. The halves of a weight gradient add up; otherwise each computes a part of the result.
std::optional<std::pair<Problem, Problem>> halves(const Problem& p);

/// Elements of activations, x and y together, up to which a problem runs in one piece. Temporary copies of activations
/// are in proportion: an implementation holds at most about 3 f32 copies of that many at once.
inline constexpr std::int64_t piece_elements = std::int64_t{1} << 23U;

/// Calls body(piece) in order for pieces of at most `most` elements (or that cannot be cut) that together are `p`.
template <class F> void for_pieces(const Problem& p, std::int64_t most, const F& body) {
    if (numel(p.x.shape) + numel(p.y.shape) > most) {
        if (const auto both = halves(p)) {
            for_pieces(both->first, most, body);
            for_pieces(both->second, most, body);
            return;
        }
    }
    body(p);
}

}  // namespace calor::ops::conv
