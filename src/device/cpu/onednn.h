// Contractions through oneDNN: convolution with its three roles (1 to 3 spatial axes) and batched matmul. This is the
// only door to the library: it works on raw views, chooses among oneDNN's formats from measurements, converts f16 and
// bf16 to f32 (accumulating in f32, rounding once), and keeps primitives in a cache of its own. Its Winograd is never
// used.
#pragma once

#include <cstdint>
#include <string>

#include "device/cpu/conv_types.h"
#include "device/view.h"

namespace calor::cpu::onednn {

using cpu::ConvRole;
using cpu::ConvSettings;

enum class Layout : std::uint8_t { plain, channels_last };

/// Null when the functions below run this, else why not, a text that lives for ever. Shapes are x [N, C, S...], w [O,
/// C/g, K...], y [N, O, S'...] with S' = floor((S + pad_low + pad_high - dilation (K - 1) - 1) / stride) + 1, bias [O]
/// or null, in every role. Dtypes are f32, bf16 or f16, the same everywhere, but a weight gradient and its bias may be
/// f32. Inputs may have any strides; the result
/// may not overlap itself. Padding is at least 0. Sizes of 0 are refused. A problem for which oneDNN has only its
/// reference loops is refused too.
const char* conv_why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                         const ConvSettings& settings);

/// y = x * w + bias, then max(y, 0) when `relu`. Throws std::runtime_error for what conv_why_not() refuses and for a
/// failure inside oneDNN; so do the functions below.
void conv_forward(const View& x, const View& w, const View* bias, const View& y, const ConvSettings& settings,
                  bool relu = false);
/// gx = the gradient of conv_forward with respect to x; also the transposed convolution of gy.
void conv_input_grad(const View& gy, const View& w, const View& gx, const ConvSettings& settings);
/// gw = the gradient with respect to w; `gbias` [O], when given, gets the sum of gy over everything but O.
void conv_weight_grad(const View& x, const View& gy, const View& gw, const View* gbias, const ConvSettings& settings);

/// The format that activations (x, y and their gradients) should have for all three roles of a problem to be fastest.
/// The choice depends on shapes alone. `x` and `w` are the shapes [N, C, S...] and [O, C/g, K...].
Layout preferred_layout(const Dims& x, const Dims& w, const ConvSettings& settings);

/// Null when matmul() runs this. a [..., M, K], b [..., K, N], c [..., M, N], the same number of axes each; a batch
/// axis of a and b has the size of c's or 1; bias [N] or null. Dtypes are f32, bf16 or f16, the same everywhere. Any
/// strides in a and b (transposed, 0 for broadcasting, negative); c may not overlap itself.
const char* matmul_why_not(const View& a, const View& b, const View* bias, const View& c);
/// c = a b + bias, then max(c, 0) when `relu`.
void matmul(const View& a, const View& b, const View* bias, const View& c, bool relu = false);

/// The implementation that a convolution runs on and the conversions around it, for explanations:
/// "jit:avx2, converts x y". Empty when conv_why_not() refuses.
std::string conv_plan(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                      const ConvSettings& settings);

struct CacheStatistics {
    std::int64_t entries = 0, capacity = 0, hits = 0, misses = 0;
};
/// Primitives are kept for the problems used last, 1024 of them unless told otherwise. Both are thread-safe.
CacheStatistics cache_statistics();
void set_cache_capacity(std::int64_t entries);

}  // namespace calor::cpu::onednn
