// Helpers of the integer loops: arithmetic that wraps, and rows over all integer types.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/elementwise/cpu/op_rows.h"

namespace calor::cpu {

/// Unsigned type in which T's arithmetic is done: at least 32 bits, so that nothing is promoted to a signed int.
template <class T> using Wrap = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;

/// Row builder: Kernel::kernel<T> is the loop for element type T. With SignMatters false, signed types share the loop
/// of the unsigned type of their size.
template <class Kernel, bool SignMatters> constexpr OpRow integer_row(std::string_view name) {
    OpRow row{name, {}};
    row.set(DType::u64, Kernel::template kernel<std::uint64_t>());
    row.set(DType::u32, Kernel::template kernel<std::uint32_t>());
    row.set(DType::u16, Kernel::template kernel<std::uint16_t>());
    row.set(DType::u8, Kernel::template kernel<std::uint8_t>());
    using I64 = std::conditional_t<SignMatters, std::int64_t, std::uint64_t>;
    using I32 = std::conditional_t<SignMatters, std::int32_t, std::uint32_t>;
    using I16 = std::conditional_t<SignMatters, std::int16_t, std::uint16_t>;
    using I8 = std::conditional_t<SignMatters, std::int8_t, std::uint8_t>;
    row.set(DType::i64, Kernel::template kernel<I64>());
    row.set(DType::i32, Kernel::template kernel<I32>());
    row.set(DType::i16, Kernel::template kernel<I16>());
    row.set(DType::i8, Kernel::template kernel<I8>());
    return row;
}

}  // namespace calor::cpu
