// Sampling element by element, where rows of channels do not pay.
#include "ops/grid/rows.h"

namespace calor::ops::grid {

template <class T>
void plain_gather(const Taps<T>& taps, std::int64_t count, const T* x, std::int64_t x_stride, std::int64_t channels,
                  T* tile, std::int64_t tile_stride) {
    const std::int64_t* offset = taps.offset.data();
    const T* weight = taps.weight.data();
    for (std::int64_t p = 0; p < count; ++p) {
        const std::int64_t begin = taps.start[static_cast<std::size_t>(p)];
        const std::int64_t end = taps.start[static_cast<std::size_t>(p + 1)];
        for (std::int64_t c = 0; c < channels; ++c) {
            T sum = 0;
            for (std::int64_t t = begin; t < end; ++t) sum += weight[t] * x[offset[t] + c * x_stride];
            tile[p * tile_stride + c] = sum;
        }
    }
}

template <class T>
void plain_scatter(const Taps<T>& taps, std::int64_t count, T* x, std::int64_t x_stride, std::int64_t channels,
                   const T* tile, std::int64_t tile_stride) {
    const std::int64_t* offset = taps.offset.data();
    const T* weight = taps.weight.data();
    for (std::int64_t p = 0; p < count; ++p) {
        const std::int64_t begin = taps.start[static_cast<std::size_t>(p)];
        const std::int64_t end = taps.start[static_cast<std::size_t>(p + 1)];
        for (std::int64_t c = 0; c < channels; ++c) {
            const T h = tile[p * tile_stride + c];
            for (std::int64_t t = begin; t < end; ++t) x[offset[t] + c * x_stride] += weight[t] * h;
        }
    }
}

template <class T>
void plain_dots(const Taps<T>& taps, std::int64_t sets, std::int64_t count, const T* x, std::int64_t x_stride,
                std::int64_t channels, const T* tile, std::int64_t tile_stride, T* out) {
    const std::int64_t* offset = taps.offset.data();
    const T* weight = taps.weight.data();
    for (std::int64_t p = 0; p < count; ++p) {
        for (std::int64_t s = 0; s < sets; ++s) out[s * block + p] = 0;
        const std::int64_t begin = taps.start[static_cast<std::size_t>(p)];
        const std::int64_t end = taps.start[static_cast<std::size_t>(p + 1)];
        for (std::int64_t t = begin; t < end; ++t) {
            T sum = 0;
            for (std::int64_t c = 0; c < channels; ++c) sum += x[offset[t] + c * x_stride] * tile[p * tile_stride + c];
            for (std::int64_t s = 0; s < sets; ++s) out[s * block + p] += weight[s * taps.capacity + t] * sum;
        }
    }
}

#define CALOR_GRID_ROWS(T)                                                                                             \
    template void plain_gather(const Taps<T>&, std::int64_t, const T*, std::int64_t, std::int64_t, T*, std::int64_t);  \
    template void plain_scatter(const Taps<T>&, std::int64_t, T*, std::int64_t, std::int64_t, const T*, std::int64_t); \
    template void plain_dots(const Taps<T>&, std::int64_t, std::int64_t, const T*, std::int64_t, std::int64_t,         \
                             const T*, std::int64_t, T*);
CALOR_GRID_ROWS(float)
CALOR_GRID_ROWS(double)
#undef CALOR_GRID_ROWS

}  // namespace calor::ops::grid
