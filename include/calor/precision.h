// How exact contractions are. f32 products are exact f32 on every device; CUDA's tensor cores may multiply f32 in TF32
// (8 bits of exponent, 10 of mantissa) where the program allows it. Everything else is fixed: f64 in f64, f16 and bf16
// summed in f32, integers exactly.
#pragma once

namespace calor {

/// Whether matmul(), linear() and the convolutions may round f32 operands to TF32 on CUDA devices that have it. At
/// first false. Holds for what is computed from now on, in all threads.
void set_tf32(bool allowed);
bool tf32();

}  // namespace calor
