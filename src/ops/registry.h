// The list of all operations: one function a file that has descriptors, and one line here. An explicit table, so that
// static linking loses nothing; what speaks of every operation (tests, the table of support) reads it.
#pragma once

#include <vector>

#include "graph/operation.h"

namespace calor::ops {

using Descriptors = std::vector<const graph::Operation*>;

/// Every operation of ops/, by family.
Descriptors all_descriptors();

Descriptors axes_descriptors();
Descriptors border_descriptors();
Descriptors box_pool_descriptors();
Descriptors cast_descriptors();
Descriptors concat_descriptors();
Descriptors conv_descriptors();
Descriptors cross_entropy_descriptors();
Descriptors ctc_descriptors();
Descriptors ctc_second_order_descriptors();
Descriptors deform_descriptors();
Descriptors diagonal_descriptors();
Descriptors elementwise_descriptors();
Descriptors gather_descriptors();
Descriptors grid_descriptors();
Descriptors index_plane_descriptors();
Descriptors mask_descriptors();
Descriptors matmul_descriptors();
Descriptors matrix_descriptors();
Descriptors norm_descriptors();
Descriptors permutation_descriptors();
Descriptors place_descriptors();
Descriptors pool_descriptors();
Descriptors random_descriptors();
Descriptors range_descriptors();
Descriptors reduce_descriptors();
Descriptors resample_descriptors();
Descriptors reshape_descriptors();
Descriptors scan_descriptors();
Descriptors select_descriptors();
Descriptors slice_descriptors();
Descriptors softmax_descriptors();
Descriptors sort_descriptors();
Descriptors transfer_descriptors();
Descriptors unfold_descriptors();
Descriptors vector_norm_descriptors();

}  // namespace calor::ops
