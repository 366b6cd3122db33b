// How exact contractions are. f32 products are f32 on every device; CUDA's tensor cores may multiply f32 in TF32
// (8 bits of exponent, 10 of mantissa) where the program allows it. Everything else is fixed: f64 in f64, f16 and bf16
// summed in f32, integers exactly.
#pragma once

namespace calor {

/// Whether matmul(), linear() and the convolutions may round f32 operands to TF32 on CUDA devices that have it. At
/// first false. Holds for what is computed from now on, in all threads.
void set_tf32(bool allowed);
bool tf32();

/// Whether convolutions on the CPU may take Winograd's minimal filtering (arXiv:1509.09308), which multiplies four
/// times less where the last two axes of a kernel are 3 x 3 with stride 1. At first true. f32, bf16 and f16 results
/// then differ from the exact sums by less than 1e-5 of the sum of their products' magnitudes before they are rounded
/// to their dtype (4e-7 was the most that was measured; a plain sum has about 1e-7). Results are made in tiles of 4 x
/// 4, which share their rounding: where neighbours are far larger, the bound is of their sums, whole numbers are no
/// longer exact, and an infinity or NaN reaches its whole tile. Holds for what is computed from now on, in all threads.
void set_winograd(bool allowed);
bool winograd();

}  // namespace calor
