// Windows as a strided view, and its adjoint: every element of the data adds up the places in windows where it appears.
//   windows       x [sizes...] -> [sizes with positions for the window's axes..., kernel...]
//   windows_fold  the adjoint; positions may reach past the data, what lies there is dropped
#pragma once

#include "ops/window.h"

namespace calor::ops::unfold {

struct Attributes {
    Axes axes;      ///< of the data, where windows slide; in the order of the kernel
    Window window;  ///< with padding only where the adjoint has some
    Shape sizes;    ///< of the data
    Dims positions;
    Shape windows_shape() const {
        Shape shape = sizes;
        for (std::int64_t i = 0; i < axes.rank(); ++i) shape[axes[i]] = positions[i];
        for (const std::int64_t k : window.kernel) shape.push_back(k);
        return shape;
    }
    friend bool operator==(const Attributes&, const Attributes&) = default;
};

/// The adjoint by rows of the data, and one element at a time.
void fold_rows(const graph::Call& call);
void fold_reference(const graph::Call& call);
void fold_on_gpu(const graph::Call& call);

}  // namespace calor::ops::unfold
