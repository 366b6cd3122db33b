// Tiles of f16 and bf16: 8 channels of 8 points are transposed as 16-bit elements and widened or rounded on the way, so
// that halves cost no more than f32.
#include <cstring>

#include "ops/grid/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/grid/half_tiles.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace calor::ops::grid {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Halves = hn::FixedTag<std::uint16_t, 8>;
using Floats = hn::FixedTag<float, 8>;
using Words = hn::FixedTag<std::uint32_t, 8>;

/// 8 vectors of 8: three rounds that interleave vector i with vector i + 4.
HWY_INLINE void transpose(hn::Vec<Halves> (&v)[8]) {
    const Halves d;
    for (int round = 0; round < 3; ++round) {
        const auto a = v[0], b = v[1], c = v[2], e = v[3], f = v[4], g = v[5], h = v[6], i = v[7];
        v[0] = hn::InterleaveLower(d, a, f);
        v[1] = hn::InterleaveUpper(d, a, f);
        v[2] = hn::InterleaveLower(d, b, g);
        v[3] = hn::InterleaveUpper(d, b, g);
        v[4] = hn::InterleaveLower(d, c, h);
        v[5] = hn::InterleaveUpper(d, c, h);
        v[6] = hn::InterleaveLower(d, e, i);
        v[7] = hn::InterleaveUpper(d, e, i);
    }
}

struct Half {  // f16
    static HWY_INLINE void load(const std::uint16_t* from, std::int64_t from_stride, float* to,
                                std::int64_t to_stride) {
        hn::Vec<Halves> v[8];
        for (int i = 0; i < 8; ++i) v[i] = hn::LoadU(Halves(), from + i * from_stride);
        transpose(v);
        for (int i = 0; i < 8; ++i) {
            const auto wide = hn::PromoteTo(Floats(), hn::BitCast(hn::FixedTag<hwy::float16_t, 8>(), v[i]));
            hn::StoreU(wide, Floats(), to + i * to_stride);
        }
    }
    static HWY_INLINE void store(const float* from, std::int64_t from_stride, std::uint16_t* to,
                                 std::int64_t to_stride) {
        hn::Vec<Halves> v[8];
        for (int i = 0; i < 8; ++i) {
            const auto wide = hn::LoadU(Floats(), from + i * from_stride);
            v[i] = hn::BitCast(Halves(), hn::DemoteTo(hn::FixedTag<hwy::float16_t, 8>(), wide));
        }
        transpose(v);
        for (int i = 0; i < 8; ++i) hn::StoreU(v[i], Halves(), to + i * to_stride);
    }
};

/// bf16 is the upper half of an f32: two points of a channel are one word, whose halves are both of them.
struct Brain {
    static HWY_INLINE void load(const std::uint16_t* from, std::int64_t from_stride, float* to,
                                std::int64_t to_stride) {
        const Words d;
        hn::Vec<Words> row[4];  // channels i and i + 4, 4 pairs of points each
        for (int i = 0; i < 4; ++i) {
            const hn::FixedTag<std::uint32_t, 4> part;
            const auto low = hn::LoadU(Halves(), from + i * from_stride);
            const auto high = hn::LoadU(Halves(), from + (i + 4) * from_stride);
            row[i] = hn::Combine(d, hn::BitCast(part, high), hn::BitCast(part, low));
        }
        const auto a = hn::InterleaveLower(d, row[0], row[2]), b = hn::InterleaveUpper(d, row[0], row[2]);
        const auto c = hn::InterleaveLower(d, row[1], row[3]), e = hn::InterleaveUpper(d, row[1], row[3]);
        const hn::Vec<Words> pair[4] = {hn::InterleaveLower(d, a, c), hn::InterleaveUpper(d, a, c),
                                        hn::InterleaveLower(d, b, e), hn::InterleaveUpper(d, b, e)};
        for (int i = 0; i < 4; ++i) {
            const auto second = hn::And(pair[i], hn::Set(d, 0xffff0000U));
            hn::StoreU(hn::BitCast(Floats(), hn::ShiftLeft<16>(pair[i])), Floats(), to + 2 * i * to_stride);
            hn::StoreU(hn::BitCast(Floats(), second), Floats(), to + (2 * i + 1) * to_stride);
        }
    }

    /// Rounded to nearest even in the upper half; NaN stays NaN.
    template <bool nan> static HWY_INLINE hn::Vec<Words> round(hn::Vec<Floats> v) {
        const Words d;
        const auto bits = hn::BitCast(d, v);
        const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
        const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff)));
        if constexpr (!nan) return rounded;
        return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), hn::Or(bits, hn::Set(d, 0x400000)), rounded);
    }
    template <bool nan>
    static HWY_INLINE void store_as(const hn::Vec<Floats> (&v)[8], std::uint16_t* to, std::int64_t to_stride) {
        const Words d;
        const hn::FixedTag<std::uint16_t, 16> halves;
        hn::Vec<decltype(halves)> w[4];  // points i and i + 4 of a channel side by side
        for (int i = 0; i < 4; ++i) {
            const auto low = hn::ShiftRight<16>(round<nan>(v[i]));
            w[i] = hn::BitCast(halves, hn::Or(low, hn::And(round<nan>(v[i + 4]), hn::Set(d, 0xffff0000U))));
        }
        // Two more rounds of the transposition; the vectors' halves are channels 4 apart in the end.
        const auto a = hn::InterleaveLower(halves, w[0], w[2]), b = hn::InterleaveUpper(halves, w[0], w[2]);
        const auto c = hn::InterleaveLower(halves, w[1], w[3]), e = hn::InterleaveUpper(halves, w[1], w[3]);
        const hn::Vec<decltype(halves)> out[4] = {hn::InterleaveLower(halves, a, c), hn::InterleaveUpper(halves, a, c),
                                                  hn::InterleaveLower(halves, b, e), hn::InterleaveUpper(halves, b, e)};
        for (int i = 0; i < 4; ++i) {
            hn::StoreU(hn::LowerHalf(Halves(), out[i]), Halves(), to + i * to_stride);
            hn::StoreU(hn::UpperHalf(Halves(), out[i]), Halves(), to + (i + 4) * to_stride);
        }
    }
    static HWY_INLINE void store(const float* from, std::int64_t from_stride, std::uint16_t* to,
                                 std::int64_t to_stride) {
        const Floats d;
        hn::Vec<Floats> v[8];
        auto sum = hn::Zero(d);
        for (int i = 0; i < 8; ++i) {
            v[i] = hn::LoadU(d, from + i * from_stride);
            sum = hn::Add(sum, v[i]);
        }
        if (hn::AllFalse(d, hn::IsNaN(sum))) return store_as<false>(v, to, to_stride);  // then none of them is NaN
        store_as<true>(v, to, to_stride);
    }
};

// Lines of planes pass through a buffer, whole: planes that are a power of two apart would evict each other's lines
// between one block of 8 points and the next.

HWY_INLINE void copy_line(const std::uint16_t* from, std::int64_t points, std::uint16_t* to) {
    if (points == block) {
        std::memcpy(to, from, block * 2);  // a size that the compiler knows: no call
    } else {
        for (std::int64_t p = 0; p < points; p += 8) hn::StoreU(hn::LoadU(Halves(), from + p), Halves(), to + p);
    }
}

template <class Type>
void load(const std::uint16_t* from, std::int64_t from_stride, std::int64_t channels, std::int64_t points, float* to,
          std::int64_t to_stride) {
    alignas(64) std::uint16_t lines[8][block];
    for (std::int64_t c = 0; c < channels; c += 8) {
        for (int i = 0; i < 8; ++i) copy_line(from + (c + i) * from_stride, points, lines[i]);
        for (std::int64_t p = 0; p < points; p += 8) Type::load(lines[0] + p, block, to + p * to_stride + c, to_stride);
    }
}

template <class Type>
void store(const float* from, std::int64_t from_stride, std::int64_t channels, std::int64_t points, std::uint16_t* to,
           std::int64_t to_stride) {
    alignas(64) std::uint16_t lines[8][block];
    for (std::int64_t c = 0; c < channels; c += 8) {
        for (std::int64_t p = 0; p < points; p += 8) {
            Type::store(from + p * from_stride + c, from_stride, lines[0] + p, block);
        }
        for (int i = 0; i < 8; ++i) copy_line(lines[i], points, to + (c + i) * to_stride);
    }
}

}  // namespace

HalfTiles half_tiles(DType dtype) {
    if (dtype == f16) return {load<Half>, store<Half>};
    return {load<Brain>, store<Brain>};
}
#else
HalfTiles half_tiles(DType) { return {}; }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace calor::ops::grid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::ops::grid {

HWY_EXPORT(half_tiles);
HalfTiles find_half_tiles(DType dtype) { return HWY_DYNAMIC_DISPATCH(half_tiles)(dtype); }

}  // namespace calor::ops::grid
#endif
