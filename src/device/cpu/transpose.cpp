// Blocks of 4 x 4 in registers of 128 bits; rows by whole vectors.
#include "device/cpu/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/transpose.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/conv_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calor::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// A number of an array, as f32 and back; bf16 to nearest, ties to even.
HWY_INLINE float wide_of(float v) { return v; }
HWY_INLINE float wide_of(bfloat16 v) { return v; }
HWY_INLINE const float* bits_of(const float* p) { return p; }
HWY_INLINE float* bits_of(float* p) { return p; }
HWY_INLINE const std::uint16_t* bits_of(const bfloat16* p) { return reinterpret_cast<const std::uint16_t*>(p); }
HWY_INLINE std::uint16_t* bits_of(bfloat16* p) { return reinterpret_cast<std::uint16_t*>(p); }
template <class To> HWY_INLINE void put_one(float v, To* to) { *to = static_cast<To>(v); }

#if HWY_TARGET != HWY_SCALAR
constexpr hn::FixedTag<float, 4> four{};
using Four = hn::Vec<decltype(four)>;
constexpr hn::RebindToUnsigned<decltype(four)> words{};
constexpr hn::RebindToSigned<decltype(four)> signed_words{};
constexpr hn::Rebind<std::uint16_t, decltype(four)> halves{};

HWY_INLINE Four load_four(const float* from) { return hn::LoadU(four, from); }
HWY_INLINE Four load_four(const bfloat16* from) {
    const auto bits = hn::LoadU(halves, bits_of(from));
    return hn::BitCast(four, hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
}
HWY_INLINE void store_four(Four v, float* to) { hn::StoreU(v, four, to); }
HWY_INLINE void store_four(Four v, bfloat16* to) {
    const auto bits = hn::BitCast(words, v), high = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(high, hn::Set(words, 1U));
    const auto nearest = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(words, 0x7fffU)), odd));
    const auto quiet = hn::Or(high, hn::Set(words, 0x40U));
    const auto result = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), quiet, nearest);
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(signed_words, result)), halves, bits_of(to));
}
#endif

template <class From, class To>
HWY_INLINE void transpose_block(const From* from, std::int64_t from_step, To* to, std::int64_t to_step) {
#if HWY_TARGET == HWY_SCALAR
    for (std::int64_t c = 0; c < 4; ++c)
        for (std::int64_t r = 0; r < 4; ++r) put_one(wide_of(from[r * from_step + c]), to + c * to_step + r);
#else
    const auto r0 = load_four(from), r1 = load_four(from + from_step);
    const auto r2 = load_four(from + 2 * from_step), r3 = load_four(from + 3 * from_step);
    const auto t0 = hn::InterleaveLower(four, r0, r2), t1 = hn::InterleaveLower(four, r1, r3);
    const auto t2 = hn::InterleaveUpper(four, r0, r2), t3 = hn::InterleaveUpper(four, r1, r3);
    store_four(hn::InterleaveLower(four, t0, t1), to);
    store_four(hn::InterleaveUpper(four, t0, t1), to + to_step);
    store_four(hn::InterleaveLower(four, t2, t3), to + 2 * to_step);
    store_four(hn::InterleaveUpper(four, t2, t3), to + 3 * to_step);
#endif
}

template <class From, class To>
HWY_INLINE void transpose_all(const From* from, std::int64_t from_step, To* to, std::int64_t to_step, std::int64_t rows,
                              std::int64_t columns) {
    const std::int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    const auto one = [&](std::int64_t r, std::int64_t c) {
        put_one(wide_of(from[r * from_step + c]), to + c * to_step + r);
    };
    for (std::int64_t r = 0; r < whole_rows; r += 4) {
        const From* const in = from + r * from_step;
        To* const out = to + r;
        for (std::int64_t c = 0; c < whole_columns; c += 4)
            transpose_block(in + c, from_step, out + c * to_step, to_step);
        for (std::int64_t c = whole_columns; c < columns; ++c)
            for (std::int64_t i = 0; i < 4; ++i) one(r + i, c);
    }
    for (std::int64_t r = whole_rows; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c) one(r, c);
}

void transpose_floats(const float* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
                      std::int64_t columns) {
    transpose_all(from, from_step, to, to_step, rows, columns);
}
void transpose_widening(const bfloat16* from, std::int64_t from_step, float* to, std::int64_t to_step,
                        std::int64_t rows, std::int64_t columns) {
    transpose_all(from, from_step, to, to_step, rows, columns);
}
void transpose_narrowing(const float* from, std::int64_t from_step, bfloat16* to, std::int64_t to_step,
                         std::int64_t rows, std::int64_t columns) {
    transpose_all(from, from_step, to, to_step, rows, columns);
}

/// Whole vectors, the last one over the one before it; fewer numbers one by one.
template <class From, class To>
HWY_INLINE void convert_all(const From* from, std::int64_t from_step, To* to, std::int64_t to_step, std::int64_t rows,
                            std::int64_t columns) {
    using conv_vectors::HWY_NAMESPACE::load;
    using conv_vectors::HWY_NAMESPACE::store;
    constexpr std::int64_t size = conv_vectors::HWY_NAMESPACE::vector_size;
    for (std::int64_t r = 0; r < rows; ++r, from += from_step, to += to_step) {
        if (columns < size) {
            for (std::int64_t c = 0; c < columns; ++c) put_one(wide_of(from[c]), to + c);
            continue;
        }
        const auto* const in = bits_of(from);
        auto* const out = bits_of(to);
        for (std::int64_t c = 0; c + size < columns; c += size) store(load(in + c), out + c);
        store(load(in + columns - size), out + columns - size);
    }
}

void widen_rows(const bfloat16* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
                std::int64_t columns) {
    convert_all(from, from_step, to, to_step, rows, columns);
}
void narrow_rows(const float* from, std::int64_t from_step, bfloat16* to, std::int64_t to_step, std::int64_t rows,
                 std::int64_t columns) {
    convert_all(from, from_step, to, to_step, rows, columns);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace calor::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calor::cpu {

HWY_EXPORT(transpose_floats);
HWY_EXPORT(transpose_widening);
HWY_EXPORT(transpose_narrowing);
HWY_EXPORT(widen_rows);
HWY_EXPORT(narrow_rows);

void transpose(const float* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns) {
    HWY_DYNAMIC_DISPATCH(transpose_floats)(from, from_step, to, to_step, rows, columns);
}

void transpose(const bfloat16* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns) {
    HWY_DYNAMIC_DISPATCH(transpose_widening)(from, from_step, to, to_step, rows, columns);
}

void transpose(const float* from, std::int64_t from_step, bfloat16* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns) {
    HWY_DYNAMIC_DISPATCH(transpose_narrowing)(from, from_step, to, to_step, rows, columns);
}

void convert_rows(const bfloat16* from, std::int64_t from_step, float* to, std::int64_t to_step, std::int64_t rows,
                  std::int64_t columns) {
    HWY_DYNAMIC_DISPATCH(widen_rows)(from, from_step, to, to_step, rows, columns);
}

void convert_rows(const float* from, std::int64_t from_step, bfloat16* to, std::int64_t to_step, std::int64_t rows,
                  std::int64_t columns) {
    HWY_DYNAMIC_DISPATCH(narrow_rows)(from, from_step, to, to_step, rows, columns);
}

}  // namespace calor::cpu
#endif
