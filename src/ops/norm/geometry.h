// How the groups of a normalisation lie in memory that all large operands share: a dense permutation of the axes.
//   rows      the innermost axis belongs to the group: a block is a group, a piece a run of it
//   columns   the innermost axis tells groups apart, or is a short run of a group beside those of others (group_norm of
//             channels-last images): a block is a range of columns, a piece some rows of it
#pragma once

#include <vector>

#include "device/view.h"
#include "ops/norm/normalize.h"

namespace calor::ops {

struct NormAxis {
    std::int64_t size = 1;
    std::int64_t stride = 1;  ///< in x, y, g, gx
    std::int64_t affine = 0;  ///< in the arrays of weight and bias
    std::int64_t group = 0;   ///< in the arrays of statistics
};

/// A part of a block for one call of a kernel.
struct NormTile {
    std::int64_t offset = 0, rows = 1, width = 1, stride = 0;
    std::int64_t affine = 0;  ///< of the first element
};

struct NormGeometry {
    bool rows = true;
    bool uniform = true;    ///< weight and bias are the same throughout a group
    std::int64_t fold = 1;  ///< columns: rows of a narrow tensor that are taken as one wider row
    std::int64_t groups = 1, group_size = 1;
    std::int64_t blocks = 1;   ///< units of work
    std::int64_t pieces = 1;   ///< tiles a block
    std::int64_t per_run = 1;  ///< tiles along the innermost reduced axis
    std::int64_t column_blocks = 1;
    std::vector<NormAxis> kept, reduced;  ///< outermost first, without the axes of the columns
    std::vector<NormAxis> columns;        ///< columns: the innermost axes, one dense run
    std::int64_t width = 1;               ///< columns: elements of that run
    Axes column_axes;                     ///< columns: axes of the group among them

    std::int64_t elements_per_block() const;
    /// Whether weights that vary along a row start at whole pairs of vectors.
    bool weights_in_pairs() const;
    NormTile tile(std::int64_t block, std::int64_t piece) const;
    /// Where the group of column j (rows: 0) of a block stands in the arrays of statistics, and its weight.
    struct Place {
        std::int64_t group = 0, affine = 0;
    };
    Place place(std::int64_t block, std::int64_t column) const;
    /// Columns of a block, without folding (rows: 1).
    std::int64_t columns_of(std::int64_t block) const;
};

/// `layout`: the operand whose strides the others share. `affine`: shape of weight and bias, or rank 0 for none.
NormGeometry norm_geometry(const View& layout, const NormAttributes& attributes);
/// Strides of the arrays of weight and bias: dense, in the memory order of `layout`, 0 where they repeat.
Strides affine_strides(const View& layout, const Shape& affine);

}  // namespace calor::ops
