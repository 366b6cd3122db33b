#include "ops/registry.h"

namespace calor::ops {

Descriptors all_descriptors() {
    Descriptors (*const families[])() = {
        axes_descriptors,          border_descriptors,      box_pool_descriptors,
        cast_descriptors,          concat_descriptors,      conv_descriptors,
        cross_entropy_descriptors, ctc_descriptors,         ctc_second_order_descriptors,
        deform_descriptors,        diagonal_descriptors,    elementwise_descriptors,
        gather_descriptors,        grid_descriptors,        index_plane_descriptors,
        mask_descriptors,          matmul_descriptors,      matrix_descriptors,
        norm_descriptors,          permutation_descriptors, place_descriptors,
        pool_descriptors,          random_descriptors,      range_descriptors,
        reduce_descriptors,        resample_descriptors,    reshape_descriptors,
        scan_descriptors,          select_descriptors,      slice_descriptors,
        softmax_descriptors,       sort_descriptors,        transfer_descriptors,
        unfold_descriptors,        vector_norm_descriptors,
    };
    Descriptors all;
    for (const auto family : families) {
        const Descriptors part = family();
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

}  // namespace calor::ops
