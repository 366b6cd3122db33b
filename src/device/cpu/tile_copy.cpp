// Fills, strided tile copies and streaming copies. Elements are moved as unsigned integers of their size, through
// memcpy: the buffers belong to other types.
#include "device/cpu/tile_copy.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/vectorize.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace calor::cpu {
namespace {

template <class T> T read(const void* from, std::int64_t i) {
    T value;
    std::memcpy(&value, static_cast<const char*>(from) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
}

template <class T> void write(void* to, std::int64_t i, T value) {
    std::memcpy(static_cast<char*>(to) + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

struct Fill {
    template <class T> static void run(void* out, std::int64_t n, const void* value) {
        const T element = read<T>(value, 0);
        CALOR_VECTORIZE
        for (std::int64_t i = 0; i < n; ++i) write<T>(out, i, element);
    }
};

struct Gather {
    template <class T> static void run(void* out, const void* in, std::int64_t stride, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) write<T>(out, i, read<T>(in, i * stride));
    }
};

struct Scatter {
    template <class T> static void run(void* out, std::int64_t stride, const void* in, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) write<T>(out, i * stride, read<T>(in, i));
    }
};

template <class Operation, class... Arguments> void by_size(std::int64_t element_size, Arguments... arguments) {
    switch (element_size) {
        case 1: return Operation::template run<std::uint8_t>(arguments...);
        case 2: return Operation::template run<std::uint16_t>(arguments...);
        case 4: return Operation::template run<std::uint32_t>(arguments...);
        default: return Operation::template run<std::uint64_t>(arguments...);
    }
}

}  // namespace

void fill(void* out, std::int64_t element_size, std::int64_t n, const void* value) {
    by_size<Fill>(element_size, out, n, value);
}

void gather(void* out, const void* in, std::int64_t stride, std::int64_t element_size, std::int64_t n) {
    if (n <= 0) return;
    if (stride == 1) {
        std::memcpy(out, in, static_cast<std::size_t>(n * element_size));
    } else if (stride == 0) {
        by_size<Fill>(element_size, out, n, in);
    } else {
        by_size<Gather>(element_size, out, in, stride, n);
    }
}

void scatter(void* out, std::int64_t stride, const void* in, std::int64_t element_size, std::int64_t n) {
    if (n <= 0) return;
    if (stride == 1) {
        std::memcpy(out, in, static_cast<std::size_t>(n * element_size));
    } else {
        by_size<Scatter>(element_size, out, stride, in, n);
    }
}

void stream_copy(void* out, const void* in, std::int64_t bytes) {
#if defined(__SSE2__)
    constexpr std::int64_t line = 64;
    auto* to = static_cast<char*>(out);
    const auto* from = static_cast<const char*>(in);
    const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) % line);
    const std::int64_t head = std::min(bytes, (line - misaligned) % line);
    if (head > 0) std::memcpy(to, from, static_cast<std::size_t>(head));
    std::int64_t i = head;
    for (; i + line <= bytes; i += line) {
        const auto* source = reinterpret_cast<const __m128i*>(from + i);
        auto* target = reinterpret_cast<__m128i*>(to + i);
        const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
        const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    if (i < bytes) std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
    _mm_sfence();
#else
    if (bytes > 0) std::memcpy(out, in, static_cast<std::size_t>(bytes));
#endif
}

}  // namespace calor::cpu
