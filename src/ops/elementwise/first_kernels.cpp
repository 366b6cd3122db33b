// Plain loops for the first rows, until the vectorised kernels take their place (then this file goes).
#include "ops/elementwise/cpu/tile_kernels.h"

#include <cmath>

namespace calor {
namespace {

template <class T, int Op> void loop(const void* const* in, void* out, std::int64_t n, const double*) {
    const auto* a = static_cast<const T*>(in[0]);
    const auto* b = static_cast<const T*>(in[1]);
    for (std::int64_t i = 0; i < n; ++i) {
        if constexpr (Op == 0) static_cast<T*>(out)[i] = static_cast<T>(a[i] + b[i]);
        if constexpr (Op == 1) static_cast<T*>(out)[i] = static_cast<T>(a[i] - b[i]);
        if constexpr (Op == 2) static_cast<T*>(out)[i] = static_cast<T>(a[i] * b[i]);
        if constexpr (Op == 3) static_cast<T*>(out)[i] = static_cast<T>(a[i] / b[i]);
        if constexpr (Op == 4) static_cast<T*>(out)[i] = static_cast<T>(-a[i]);
        if constexpr (Op == 5) static_cast<T*>(out)[i] = static_cast<T>(std::exp(a[i]));
        if constexpr (Op == 6) static_cast<T*>(out)[i] = a[i] > T(0) ? a[i] : T(0);
        if constexpr (Op == 7) static_cast<std::uint8_t*>(out)[i] = a[i] > b[i];
        if constexpr (Op == 8) {
            static_cast<T*>(out)[i] = static_cast<const std::uint8_t*>(in[0])[i] ? b[i] : static_cast<const T*>(in[2])[i];
        }
    }
}

template <class T> TileKernel find(std::string_view name) {
    if (name == "add") return loop<T, 0>;
    if (name == "sub") return loop<T, 1>;
    if (name == "mul") return loop<T, 2>;
    if (name == "div") return loop<T, 3>;
    if (name == "neg") return loop<T, 4>;
    if (name == "exp") return loop<T, 5>;
    if (name == "relu") return loop<T, 6>;
    if (name == "gt") return loop<T, 7>;
    if (name == "where") return loop<T, 8>;
    return nullptr;
}

}  // namespace

TileKernel find_tile_kernel(std::string_view name, DType compute) {
    switch (compute) {
        case f64: return find<double>(name);
        case f32: return find<float>(name);
        case i64: return find<std::int64_t>(name);
        case i32: return find<std::int32_t>(name);
        case u8:
        case boolean: return find<std::uint8_t>(name);
        default: return nullptr;
    }
}

}  // namespace calor
