// Radix sort: 4 bits a pass, over 8 keys a thread where key and place have 4 bytes each. Keys and places go back and
// forth between two pairs of buffers.
#include <utility>

#include "ops/radix.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile ops_radix;
}

namespace ops {
namespace {

constexpr std::int64_t threads = 256, digits = 16;
constexpr std::int64_t narrow = std::int64_t{1} << 30;

}  // namespace

Ref<Storage> KeyLines::allocate_keys(const graph::Call& call) const {
    return graph::scratch(call,
                          checked_multiply(checked_multiply(lines, length, call.where), size_of(key()), call.where));
}
Ref<Storage> KeyLines::allocate_places(const graph::Call& call) const {
    return graph::scratch(call,
                          checked_multiply(checked_multiply(lines, length, call.where), size_of(place()), call.where));
}

void running_sums(const graph::Call& call, const Ref<Storage>& counts, DType type, std::int64_t lines,
                  std::int64_t length) {
    launch(call, kernels::ops_radix, "running_sums")
        .constant("COUNT", type)
        .constant("ITEMS", 16)
        .threads(threads)
        .buffer(counts)
        .size(length)
        .wide(lines * length >= narrow)
        .run(length > 0 ? lines : 0);
}

void radix_sort(const graph::Call& call, KeyLines& k) {
    const std::int64_t items = size_of(k.key()) + size_of(k.place()) <= 8 ? 8 : 4, tile = threads * items;
    const std::int64_t tiles = (k.length + tile - 1) / tile, groups = k.lines * tiles;
    k.places = k.allocate_places(call);
    if (groups == 0) return;
    Ref<Storage> keys = k.allocate_keys(call), places = k.allocate_places(call);
    const DType count = count_type(k.length);
    const auto counts = graph::scratch(call, groups * digits * size_of(count));
    const bool wide = k.lines * k.length >= narrow || groups * digits >= narrow;
    const auto start = [&](const char* entry) {
        gpu::Launch l = launch(call, kernels::ops_radix, entry);
        l.constant("KEY", k.key()).constant("COUNT", count).constant("ITEMS", items).threads(threads).wide(wide);
        return l;
    };
    const int passes = std::max(1, (k.bits + 3) / 4);  // one at least writes the places
    for (int pass = 0; pass < passes; ++pass) {
        const std::int32_t shift = 4 * pass;
        start("radix_count").buffer(k.keys).buffer(counts).size(k.length).size(tiles).value(shift).run(groups);
        running_sums(call, counts, count, k.lines, digits * tiles);
        start("radix_move")
            .constant("PLACE", k.place())
            .constant("FIRST", pass == 0)
            .buffer(k.keys)
            .buffer(k.places)
            .buffer(counts)
            .buffer(keys)
            .buffer(places)
            .size(k.length)
            .size(tiles)
            .value(shift)
            .run(groups);
        std::swap(k.keys, keys);
        std::swap(k.places, places);
    }
}

}  // namespace ops
}  // namespace calor
