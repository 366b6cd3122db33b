// resample inside: x -> y, a table along each of some axes, applied one after the other in any order (they commute).
// Its gradient is resample with the transposed tables.
#pragma once

#include "ops/resample/table.h"
#include "ops/support.h"

namespace calor::ops::resample {

struct Attributes {
    Axes axes;  ///< ascending, one a table
    std::vector<TableRef> tables;
    bool fixed_point = false;  ///< u8 in 22-bit fixed point, rounded after each axis, the last axis first

    const Table* table_of(std::int64_t axis) const {
        for (std::int64_t i = 0; i < axes.rank(); ++i) {
            if (axes[i] == axis) return tables[static_cast<std::size_t>(i)].get();
        }
        return nullptr;
    }
    friend bool operator==(const Attributes& a, const Attributes& b) {
        if (a.axes != b.axes || a.fixed_point != b.fixed_point) return false;
        for (std::size_t i = 0; i < a.tables.size(); ++i) {
            if (a.tables[i] != b.tables[i] && !(*a.tables[i] == *b.tables[i])) return false;
        }
        return true;
    }
};

/// Applies tables to x; identities are left out.
Tensor apply_tables(const Tensor& x, const Axes& axes, std::vector<TableRef> tables, bool fixed_point,
                    const Where& where);

/// Throws ValueError [resample/size] unless `size`, for an axis of `inputs` entries, is between 1 and 2^30.
void check_size(std::string_view name, std::int64_t axis, std::int64_t size, const Tensor& x, const Where& where);
/// Throws ShapeError [resample/empty] when the axis of x is empty.
void check_not_empty(std::string_view name, std::int64_t axis, const Tensor& x, const Where& where);
/// Throws ValueError [resample/size] for more entries than a table may have.
void check_entries(std::string_view name, std::int64_t axis, std::int64_t size, double entries, const Tensor& x,
                   const Where& where);
/// Throws ShapeError [resample/rank] unless x has a batch, a channel and a spatial axis.
void check_rank(std::string_view name, const Tensor& x, const Where& where);
/// Throws DTypeError [dtype/unsupported] unless x is floating.
void check_floating(std::string_view name, const Tensor& x, const Where& where);

/// Copies the elements that tables which only select name; any dtype.
void run_select(const graph::Call& call);
/// One pass an axis, vectorised; any rank and strides.
void run_passes(const graph::Call& call);
/// The same on GPUs.
void run_select_on_gpu(const graph::Call& call);
void run_on_gpu(const graph::Call& call);
/// The same in one pass over memory for tables along the last axis of memory and up to two before it: rows.kernel.
const char* rows_why_not(const graph::Call& call);
void run_rows_on_gpu(const graph::Call& call);
/// One output element at a time.
void run_reference(const graph::Call& call);

}  // namespace calor::ops::resample
