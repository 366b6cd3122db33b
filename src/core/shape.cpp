#include "calor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/fail.h"
#include "core/layout.h"

namespace calor {

void Dims::grow(std::int64_t count) {
    const std::int64_t grown = std::max(count, 2 * capacity_);
    auto fresh = std::make_unique<std::int64_t[]>(static_cast<std::size_t>(grown));
    std::copy(begin(), end(), fresh.get());
    heap_ = std::move(fresh);
    capacity_ = grown;
}

std::int64_t numel(const Shape& shape, const Where& where) {
    std::int64_t count = 1;
    bool empty = false;
    for (const std::int64_t size : shape) {
        if (size < 0) fail("shape/negative", "shape", where, {{"size", size}, {"shape", shape}});
        empty = empty || size == 0;
    }
    if (empty) return 0;
    for (const std::int64_t size : shape) {
        if (__builtin_mul_overflow(count, size, &count)) {
            fail("shape/overflow", "shape", where, {{"what", "the number of elements of " + to_string(shape)}});
        }
    }
    return count;
}

std::int64_t checked_bytes(const Shape& shape, DType dtype, const Where& where) {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(numel(shape, where), size_of(dtype), &bytes)) {
        fail("shape/overflow", "shape", where,
             {{"what", fmt::format("the byte size of {}{}", name_of(dtype), to_string(shape))}});
    }
    return bytes;
}

Strides contiguous_strides(const Shape& shape) {
    Strides strides;
    strides.resize(shape.rank());
    std::uint64_t next = 1;  // without elements the product may be anything
    for (std::int64_t i = shape.rank() - 1; i >= 0; --i) {
        strides[i] = static_cast<std::int64_t>(next);
        next *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[i], 1));
    }
    return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
    if (std::ranges::find(shape, 0) != shape.end()) return true;
    std::int64_t next = 1;
    for (std::int64_t i = shape.rank() - 1; i >= 0; --i) {
        if (shape[i] != 1 && strides[i] != next) return false;
        next *= shape[i];
    }
    return true;
}

bool is_dense(const Shape& shape, const Strides& strides) {
    std::int64_t order[64];
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < shape.rank(); ++i) {
        if (shape[i] == 0) return true;
        if (shape[i] == 1) continue;
        if (strides[i] <= 0 || count == 64) return false;
        std::int64_t at = count++;  // insertion sort by stride, smallest first
        for (; at > 0 && strides[order[at - 1]] > strides[i]; --at) order[at] = order[at - 1];
        order[at] = i;
    }
    std::int64_t next = 1;
    for (std::int64_t k = 0; k < count; ++k) {
        if (strides[order[k]] != next) return false;
        next *= shape[order[k]];
    }
    return true;
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ", ")); }

}  // namespace calor
