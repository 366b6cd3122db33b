// Sorting by keys. An element's key and its place are packed into one unsigned number (key above, place below), so that
// the order is stable and total and Highway's vectorised quicksort does the work. Of a line from which few entries are
// asked for, only those below a bound are looked at twice: the bound is the k-th best of what was seen so far.
#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "device/cpu/parallel.h"
#include "ops/sort/keys.h"
#include "ops/sort/lines.h"
#include "ops/sort/sort.h"

namespace calor::ops {
namespace {

/// A key of up to 32 bits with a place below 2^32.
struct Narrow {
    using Packed = std::uint64_t;
    static Packed pack(std::uint64_t key, std::int64_t at) { return key << 32U | static_cast<std::uint64_t>(at); }
    static std::int64_t place(Packed p) { return static_cast<std::int64_t>(p & 0xffffffffU); }
    static bool less(Packed a, Packed b) { return a < b; }
};
/// A key of 64 bits, or a place of more than 32.
struct Wide {
    using Packed = hwy::uint128_t;
    static Packed pack(std::uint64_t key, std::int64_t at) { return {static_cast<std::uint64_t>(at), key}; }
    static std::int64_t place(const Packed& p) { return static_cast<std::int64_t>(p.lo); }
    static bool less(const Packed& a, const Packed& b) { return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo); }
};

/// Elements that are looked at together, against the bound.
constexpr std::int64_t side_by_side = 16;

/// Whether any of side_by_side elements may come before `bound`. Compares values, not keys, which vectorises.
template <class T> bool any_before(const T* x, T bound, bool descending) {
    if constexpr (std::is_same_v<T, float16>) {
        return true;
    } else {
        using Value = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
        const auto last = static_cast<Value>(bound);
        if constexpr (std::is_floating_point_v<Value>) {
            if (last != last) return true;
        }
        unsigned any = 0;
        if (descending) {
            for (std::int64_t i = 0; i < side_by_side; ++i)
                any |= static_cast<Value>(x[i]) <= last ? 0U : 1U;  // or NaN
        } else {
            for (std::int64_t i = 0; i < side_by_side; ++i) any |= static_cast<Value>(x[i]) < last ? 1U : 0U;
        }
        return any != 0;
    }
}

/// Leaves the `keep` first entries of a line, in order, at the front of `packed`; all entries fit in it.
template <class Width, class T>
void select(const T* x, std::int64_t step, std::int64_t n, const SortAttributes& a, typename Width::Packed* packed,
            std::int64_t capacity) {
    std::int64_t count = 0;
    if (capacity >= n) {
        for (; count < n; ++count) packed[count] = Width::pack(sort_key(x[count * step], a.descending), count);
        if (a.keep < n) std::nth_element(packed, packed + a.keep, packed + n, Width::less);
    } else {
        SortKey<T> bound = static_cast<SortKey<T>>(~SortKey<T>{0});
        T worst{};  // of those that are kept
        bool bounded = false;
        std::int64_t limit = std::min(capacity, 2 * a.keep + 32);  // then less: a tight bound lets fewer pass
        const auto look = [&](std::int64_t i) {
            const SortKey<T> key = sort_key(x[i * step], a.descending);
            if (bounded && key >= bound) return;  // an equal one came earlier
            packed[count++] = Width::pack(key, i);
            if (count < limit) return;
            std::nth_element(packed, packed + a.keep - 1, packed + count, Width::less);
            worst = x[Width::place(packed[a.keep - 1]) * step];
            bound = sort_key(worst, a.descending);
            bounded = true;
            count = a.keep;
            limit = std::min(capacity, a.keep + std::max<std::int64_t>(8, a.keep / 2));
        };
        for (std::int64_t i = 0; i < n;) {
            const std::int64_t end = std::min(n, i + side_by_side);
            if (bounded && step == 1 && end - i == side_by_side && !any_before(x + i, worst, a.descending)) {
                i = end;
                continue;
            }
            for (; i < end; ++i) look(i);
        }
        if (count > a.keep) std::nth_element(packed, packed + a.keep - 1, packed + count, Width::less);
    }
    if (a.keep <= 32) {  // less than the vectorised sort takes to set up
        std::sort(packed, packed + a.keep, Width::less);
        return;
    }
    hwy::Sorter()(packed, static_cast<std::size_t>(a.keep), hwy::SortAscending());
}

template <class Width, class T> void run_lines(const graph::Call& c) {
    const auto& a = c.attrs<SortAttributes>();
    const View &x = c.inputs[0], &values = c.outputs[0], &indices = c.outputs[1];
    const std::int64_t n = x.size(a.axis), lines = values.count() == 0 ? 0 : values.count() / a.keep;
    const std::int64_t step = x.stride(a.axis), value_step = values.stride(a.axis), index_step = indices.stride(a.axis);
    const std::int64_t capacity = a.keep <= n / 8 ? std::min(n, 4 * a.keep + 64) : n;
    cpu::parallel_for(lines, std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(n, 1)),
                      [&](std::int64_t begin, std::int64_t end) {
                          const std::unique_ptr<typename Width::Packed[]> packed(new typename Width::Packed[capacity]);
                          for (std::int64_t line = begin; line < end; ++line) {
                              const T* from = x.as<T>() + line_offset(x, a.axis, line);
                              select<Width>(from, step, n, a, packed.get(), capacity);
                              T* value = values.as<T>() + line_offset(values, a.axis, line);
                              std::int64_t* index = indices.as<std::int64_t>() + line_offset(indices, a.axis, line);
                              for (std::int64_t k = 0; k < a.keep; ++k) {
                                  const std::int64_t at = Width::place(packed[static_cast<std::size_t>(k)]);
                                  value[k * value_step] = from[at * step];
                                  index[k * index_step] = at;
                              }
                          }
                      });
}

template <class T> void run_any(const graph::Call& c) {
    const bool narrow = sizeof(T) <= 4 && c.inputs[0].size(c.attrs<SortAttributes>().axis) <= std::int64_t{1} << 32;
    narrow ? run_lines<Narrow, T>(c) : run_lines<Wide, T>(c);
}

}  // namespace

void sort_keys(const graph::Call& c) {
    switch (c.inputs[0].dtype) {
        case f64: return run_any<double>(c);
        case f32: return run_any<float>(c);
        case f16: return run_any<float16>(c);
        case bf16: return run_any<bfloat16>(c);
        case i64: return run_any<std::int64_t>(c);
        case i32: return run_any<std::int32_t>(c);
        case i16: return run_any<std::int16_t>(c);
        case i8: return run_any<std::int8_t>(c);
        case u64: return run_any<std::uint64_t>(c);
        case u32: return run_any<std::uint32_t>(c);
        case u16: return run_any<std::uint16_t>(c);
        case u8:
        case boolean: return run_any<std::uint8_t>(c);
    }
}

}  // namespace calor::ops
