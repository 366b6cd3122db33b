// Element types: the 13 dtypes, their sizes and categories, and the two 16-bit storage floats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace calor {

/// Element type of a tensor. f16 is IEEE binary16, bf16 is the upper half of an f32; boolean is one byte, 0 or 1.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };
using enum DType;

inline constexpr int dtype_count = 13;

/// Bytes of one element.
constexpr std::int64_t size_of(DType t) {
    constexpr std::int8_t sizes[dtype_count] = {8, 4, 2, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1};
    return sizes[static_cast<int>(t)];
}

/// The name as the documentation writes it: "f32", "i64", "bool".
constexpr std::string_view name_of(DType t) {
    constexpr std::string_view names[dtype_count] = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16",
                                                     "i8",  "u64", "u32", "u16",  "u8",  "bool"};
    return names[static_cast<int>(t)];
}

constexpr bool is_floating(DType t) { return t <= DType::bf16; }
constexpr bool is_signed_integer(DType t) { return t >= DType::i64 && t <= DType::i8; }
constexpr bool is_unsigned_integer(DType t) { return t >= DType::u64 && t <= DType::u8; }
/// True for the eight integer types; bool is not an integer.
constexpr bool is_integer(DType t) { return t >= DType::i64 && t <= DType::u8; }
/// f16 and bf16: stored in 16 bits, computed in f32.
constexpr bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }
/// The type that arithmetic on `t` runs in: f32 for f16 and bf16, else `t` itself.
constexpr DType compute_type(DType t) { return is_half(t) ? DType::f32 : t; }

/// Common dtype of two tensors' elements (the table is docs/promotion.md). Scalars do not take part.
DType promote(DType a, DType b);

/// IEEE binary16 as storage. Arithmetic converts to float; the conversion from float rounds to nearest, ties to even.
struct float16 {
    std::uint16_t bits = 0;
    constexpr float16() = default;
    explicit constexpr float16(float value) : bits(from_float(value)) {}
    constexpr operator float() const { return to_float(bits); }  // NOLINT: widening is exact

    static constexpr std::uint16_t from_float(float value) {
        const auto u = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t sign = (u >> 16) & 0x8000u;
        const std::uint32_t magnitude = u & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
        if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65536 and above
        if (magnitude < 0x33000000u) return static_cast<std::uint16_t>(sign);             // below half of 2^-24
        if (magnitude < 0x38800000u) {                                                    // subnormal result
            const std::uint32_t shift = 126u - (magnitude >> 23);
            const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
            std::uint32_t result = mantissa >> shift;
            const std::uint32_t rest = mantissa & ((1u << shift) - 1u), half = 1u << (shift - 1u);
            if (rest > half || (rest == half && (result & 1u))) ++result;
            return static_cast<std::uint16_t>(sign | result);
        }
        const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
        return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
    }
    static constexpr float to_float(std::uint16_t h) {
        const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
        const std::uint32_t exponent = (h >> 10) & 0x1fu;
        const std::uint32_t mantissa = h & 0x3ffu;
        if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
        if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
        const float tiny = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(tiny));
    }
};

/// The upper 16 bits of an f32 as storage. The conversion from float rounds to nearest, ties to even.
struct bfloat16 {
    std::uint16_t bits = 0;
    constexpr bfloat16() = default;
    explicit constexpr bfloat16(float value) : bits(from_float(value)) {}
    constexpr operator float() const {  // NOLINT: widening is exact
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
    static constexpr std::uint16_t from_float(float value) {
        const auto u = std::bit_cast<std::uint32_t>(value);
        if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);
        return static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
};

/// dtype_of<T>: the dtype whose elements are stored as the C++ type T.
template <class T>
inline constexpr DType dtype_of = [] {
    static_assert(sizeof(T) == 0, "no dtype has this C++ element type");
    return DType::f32;
}();
template <> inline constexpr DType dtype_of<double> = DType::f64;
template <> inline constexpr DType dtype_of<float> = DType::f32;
template <> inline constexpr DType dtype_of<float16> = DType::f16;
template <> inline constexpr DType dtype_of<bfloat16> = DType::bf16;
template <> inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <> inline constexpr DType dtype_of<long long> = DType::i64;
template <> inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <> inline constexpr DType dtype_of<std::int16_t> = DType::i16;
template <> inline constexpr DType dtype_of<std::int8_t> = DType::i8;
template <> inline constexpr DType dtype_of<std::uint64_t> = DType::u64;
template <> inline constexpr DType dtype_of<unsigned long long> = DType::u64;
template <> inline constexpr DType dtype_of<std::uint32_t> = DType::u32;
template <> inline constexpr DType dtype_of<std::uint16_t> = DType::u16;
template <> inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <> inline constexpr DType dtype_of<bool> = DType::boolean;

}  // namespace calor
