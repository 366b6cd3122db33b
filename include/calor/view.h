// Views and arrangements: the same elements under another shape, parts of tensors, tensors put together. What strides
// can express aliases the input's memory and copies nothing; contiguous() gives a row-major copy where one is needed.
#pragma once

#include <optional>
#include <vector>

#include "calor/tensor.h"
#include "calor/window.h"

namespace calor {

/// The elements in row-major order under another shape; one size may be -1. Throws ShapeError [reshape/size].
Tensor reshape(const Tensor& x, const Shape& shape, const Where& where = Where::current());
/// Joins axes first..last (both included) to one. A tensor of rank 0 becomes [1]. Throws ValueError [axis/range],
/// [value/option] when first lies behind last.
Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1, const Where& where = Where::current());
/// Splits one axis into axes of `sizes`, one of which may be -1. Throws ShapeError [reshape/size].
Tensor unflatten(const Tensor& x, std::int64_t axis, const Shape& sizes, const Where& where = Where::current());
/// Stretches axes of size 1 (and adds leading axes) to `shape` without copying. Throws ShapeError [shape/broadcast].
Tensor expand(const Tensor& x, const Shape& shape, const Where& where = Where::current());
/// The same under NumPy's name.
Tensor broadcast_to(const Tensor& x, const Shape& shape, const Where& where = Where::current());
/// Reorders axes: result axis i is input axis axes[i]. Throws ValueError [axis/range], [axis/duplicate], [value/count].
Tensor permute(const Tensor& x, const Axes& axes, const Where& where = Where::current());
/// Swaps two axes. Throws ValueError [axis/range].
Tensor transpose(const Tensor& x, std::int64_t a = -2, std::int64_t b = -1, const Where& where = Where::current());
/// Moves axes from[i] to the places to[i]; the others keep their order. Throws ValueError [axis/range],
/// [axis/duplicate], [value/count].
Tensor movedim(const Tensor& x, const Axes& from, const Axes& to, const Where& where = Where::current());
/// Drops the named axes, which must have size 1; without a list, every axis of size 1. Throws ShapeError
/// [shape/mismatch].
Tensor squeeze(const Tensor& x, const Axes& axes = {}, const Where& where = Where::current());
/// Inserts an axis of size 1 so that it becomes axis `axis` of the result. Throws ValueError [axis/range].
Tensor unsqueeze(const Tensor& x, std::int64_t axis, const Where& where = Where::current());
/// The same values, row-major without gaps: `x` itself where it lies so, else a copy.
Tensor contiguous(const Tensor& x, const Where& where = Where::current());

/// A range along one axis with Python's meaning of start:stop:step. Absent ends reach to the end of the axis, negative
/// ones count from it, ends outside the axis are cut.
struct Slice {
    std::optional<std::int64_t> start = std::nullopt, stop = std::nullopt;
    std::int64_t step = 1;
    friend bool operator==(const Slice&, const Slice&) = default;
};
/// x[s0, s1, ...]: one range for each of the leading axes; axes without one are kept whole. A strided view, also for
/// negative steps. Throws ValueError [value/count], [value/option] for a step of 0.
Tensor slice(const Tensor& x, const std::vector<Slice>& slices, const Where& where = Where::current());
/// One axis cut to a range.
Tensor slice(const Tensor& x, std::int64_t axis, const Slice& range, const Where& where = Where::current());
/// The part at one index of an axis, which disappears; negative indices count from the end. Throws ValueError
/// [axis/range], [index/range].
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index, const Where& where = Where::current());
/// `length` entries of an axis from `start` on. Throws ValueError [axis/range], [value/option] when they reach outside.
Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length,
              const Where& where = Where::current());
/// Reverses the order along the axes (all of them without a list): a view with negative strides. Throws ValueError
/// [axis/range].
Tensor flip(const Tensor& x, const Axes& axes = {}, const Where& where = Where::current());

/// Parts of the given sizes along an axis, as views. Throws ShapeError [shape/mismatch] when they don't add up.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t axis = 0,
                          const Where& where = Where::current());
/// Parts of `size` along an axis; the last may be smaller. An empty axis gives one empty part. Throws ValueError
/// [value/option].
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis = 0,
                          const Where& where = Where::current());
/// At most `count` parts of equal size along an axis; the last may be smaller. Throws ValueError [value/option].
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis = 0,
                          const Where& where = Where::current());
/// Tensors one behind the other along an axis; other sizes agree. Dtypes promote. Throws ShapeError [shape/mismatch],
/// ValueError [value/count] for an empty list.
Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis = 0, const Where& where = Where::current());
/// Tensors of one shape along a new axis. Throws ShapeError [shape/mismatch], ValueError [value/count].
Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis = 0, const Where& where = Where::current());

/// What padding puts around the data a b c.
enum class PadMode : std::uint8_t {
    constant,   ///< a value: 0 0 | a b c | 0 0
    reflect,    ///< the data mirrored at its first and last entry: c b | a b c | b a
    symmetric,  ///< the data mirrored at its ends, so that the outermost entries repeat: b a | a b c | c b
    replicate,  ///< the outermost entry: a a | a b c | c c
    circular,   ///< the other end: b c | a b c | a b
};

struct PadOptions {
    PadMode mode = PadMode::constant;
    Scalar value = 0;  ///< of the mode constant
    Axes axes = {};    ///< which axes the paddings belong to, one each; the last ones unless given
};

/// x with entries around it: paddings[i] says how many before and after an axis. Negative ones cut entries off, before
/// anything is put around the rest. All dtypes, any rank, differentiable to any order. Paddings wider than the data go
/// on mirroring and repeating, with period 2 (n - 1), 2 n and n for reflect, symmetric and circular (as NumPy's pad);
/// reflect of a single entry repeats it. Throws ValueError [value/count], [value/option] when more is cut off than
/// there is, [pad/empty] when nothing is left to repeat, [axis/range], [axis/duplicate], [shape/overflow],
/// [value/scalar].
Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, const PadOptions& options,
           const Where& where = Where::current());
/// The same for the last axes.
Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, PadMode mode, const Where& where = Where::current());
/// Entries of `value` around the last axes of x. Throws as above.
Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, Scalar value = 0,
           const Where& where = Where::current());
/// The tensor repeated repeats[i] times along axis i; more counts than axes add leading axes, fewer belong to the last
/// axes (as NumPy's tile). Throws ValueError [value/option] for a negative count.
Tensor tile(const Tensor& x, const Dims& repeats, const Where& where = Where::current());
/// Every entry of an axis `count` times in a row. Throws ValueError [axis/range], [value/option].
Tensor repeat(const Tensor& x, std::int64_t count, std::int64_t axis, const Where& where = Where::current());
/// Shifts entries along axes, those pushed out at the end come in at the start. Throws ValueError [value/count],
/// [axis/range].
Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes, const Where& where = Where::current());
/// The entries x[.., i, .., i + offset, ..] of two axes, which disappear; the diagonal is the last axis of the result,
/// a view. Throws ValueError [axis/range], [axis/duplicate].
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1,
                const Where& where = Where::current());
/// Matrices (the last two axes) with the last axis of x on the diagonal and zeros elsewhere.
Tensor diag_embed(const Tensor& x, std::int64_t offset = 0, const Where& where = Where::current());

}  // namespace calor
