// Blocks of 4 x 4 in registers of 128 bits.
#include "device/cpu/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/transpose.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void transpose_block(const float* from, std::int64_t from_step, float* to, std::int64_t to_step) {
#if HWY_TARGET == HWY_SCALAR
    for (std::int64_t c = 0; c < 4; ++c)
        for (std::int64_t r = 0; r < 4; ++r) to[c * to_step + r] = from[r * from_step + c];
#else
    constexpr hn::FixedTag<float, 4> d{};
    const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + from_step);
    const auto r2 = hn::LoadU(d, from + 2 * from_step), r3 = hn::LoadU(d, from + 3 * from_step);
    const auto t0 = hn::InterleaveLower(d, r0, r2), t1 = hn::InterleaveLower(d, r1, r3);
    const auto t2 = hn::InterleaveUpper(d, r0, r2), t3 = hn::InterleaveUpper(d, r1, r3);
    hn::StoreU(hn::InterleaveLower(d, t0, t1), d, to);
    hn::StoreU(hn::InterleaveUpper(d, t0, t1), d, to + to_step);
    hn::StoreU(hn::InterleaveLower(d, t2, t3), d, to + 2 * to_step);
    hn::StoreU(hn::InterleaveUpper(d, t2, t3), d, to + 3 * to_step);
#endif
}

void transpose_floats(const float* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
                      std::int64_t columns) {
    const std::int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    for (std::int64_t r = 0; r < whole_rows; r += 4) {
        const float* const in = from + r * from_step;
        float* const out = to + r;
        for (std::int64_t c = 0; c < whole_columns; c += 4)
            transpose_block(in + c, from_step, out + c * to_step, to_step);
        for (std::int64_t c = whole_columns; c < columns; ++c)
            for (std::int64_t i = 0; i < 4; ++i) out[c * to_step + i] = in[i * from_step + c];
    }
    for (std::int64_t r = whole_rows; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c) to[c * to_step + r] = from[r * from_step + c];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::cpu {

HWY_EXPORT(transpose_floats);

void transpose(const float* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns) {
    HWY_DYNAMIC_DISPATCH(transpose_floats)(from, from_step, to, to_step, rows, columns);
}

}  // namespace calor::cpu
#endif
