// Sorting on GPUs. Lines of up to 2048 elements: in local memory. Of longer ones, when few entries are asked for: the
// best of every tile, again and again. Else a radix sort of keys and places.
#include <algorithm>

#include "ops/radix.h"
#include "ops/sort/sort.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile sort_sort;
}

namespace ops {
namespace {

constexpr std::int64_t tile = 2048, threads = 256, few = 512;

DType carrier(DType dtype) {
    switch (size_of(dtype)) {
        case 1: return u8;
        case 2: return u16;
        case 4: return u32;
        default: return u64;
    }
}
std::uint64_t infinity_of(DType dtype) {
    switch (dtype) {
        case f64: return 0x7ff0000000000000;
        case f32: return 0x7f800000;
        case f16: return 0x7c00;
        case bf16: return 0x7f80;
        default: return 0;
    }
}

/// The lines of a call.
struct Lines {
    const graph::Call& call;
    const SortAttributes& a;
    const View& x;
    std::int64_t length, lines, inner = 1;
    Shape shape;
    Strides strides, order;
    gpu::Walk walk;  ///< over the other axes, row-major

    explicit Lines(const graph::Call& c)
        : call(c),
          a(c.attrs<SortAttributes>()),
          x(c.inputs[0]),
          length(x.size(a.axis)),
          shape(*x.shape),
          strides(*x.strides) {
        for (std::int64_t i = a.axis + 1; i < x.rank(); ++i) inner *= x.size(i);
        shape.erase(a.axis);
        strides.erase(a.axis);
        lines = numel(shape);
        order = contiguous_strides(shape);
        const Strides* const operands[] = {&strides};
        walk = gpu::join_axes(shape, operands, order);
    }
    bool empty() const { return call.outputs[0].count() == 0; }
    bool wide_keys() const { return size_of(x.dtype) == 8; }

    gpu::Launch start(const char* entry) const {
        gpu::Launch l = launch(call, kernels::sort_sort, entry);
        l.constant("BITS", carrier(x.dtype)).constant("KEY", wide_keys() ? u64 : u32).threads(threads);
        return l;
    }
    /// The arguments that make keys.
    gpu::Launch& order_of(gpu::Launch& l) const {
        const std::uint64_t all = ~std::uint64_t{0} >> (64 - 8 * size_of(x.dtype));
        l.value(std::int32_t{is_floating(x.dtype) ? 2 : is_signed_integer(x.dtype) ? 1 : 0});
        for (const std::uint64_t bits : {infinity_of(x.dtype), a.descending ? all : 0}) {
            wide_keys() ? l.value(bits) : l.value(static_cast<std::uint32_t>(bits));
        }
        return l;
    }
    /// With what a kernel needs that reads elements.
    gpu::Launch start_reading(const char* entry) const {
        gpu::Launch l = start(entry);
        l.constant("RANK", walk.sizes.rank());
        return l;
    }
    std::int64_t step() const { return x.stride(a.axis); }
};

/// Entries that a block in local memory holds, and blocks of a group.
std::int64_t block_for(std::int64_t length) { return length <= 32 ? 32 : length <= 256 ? 256 : tile; }
std::int64_t blocks_for(std::int64_t block) { return std::max<std::int64_t>(1, 2 * threads / block); }

const char* short_why_not(const graph::Call& c) {
    return c.inputs[0].size(c.attrs<SortAttributes>().axis) <= tile ? nullptr : "the lines are longer than 2048";
}
void run_short(const graph::Call& c) {
    const Lines l(c);
    if (l.empty()) return;
    const std::int64_t n = block_for(l.length), blocks = blocks_for(n);
    gpu::Launch launch = l.start_reading("sort_short");
    launch.constant("N", n).constant("BLOCKS", blocks).buffer(l.x).buffer(c.outputs[0]).buffer(c.outputs[1]);
    l.order_of(launch)
        .size(l.lines)
        .size(l.length)
        .size(1)
        .size(l.step())
        .size(l.a.keep)
        .size(l.inner)
        .layout(l.walk.sizes, l.walk.lists())
        .run((l.lines + blocks - 1) / blocks);
}

const char* best_why_not(const graph::Call& c) {
    const auto& a = c.attrs<SortAttributes>();
    if (a.keep > few) return "more than 512 entries a line are asked for";
    return c.inputs[0].size(a.axis) < (std::int64_t{1} << 31) ? nullptr : "the lines reach past 2^31";
}
void run_best(const graph::Call& c) {
    const Lines l(c);
    if (l.empty()) return;
    const std::int64_t keep = l.a.keep;
    std::int64_t length = l.length, tiles = (length + tile - 1) / tile;
    const auto room = [&](std::int64_t size) { return graph::scratch(c, l.lines * tiles * keep * size); };
    const auto blocks = [&](gpu::Launch launch) { return launch.constant("N", tile).constant("BLOCKS", 1); };
    const std::int64_t key_size = l.wide_keys() ? 8 : 4;
    Ref<Storage> keys = room(key_size), places = room(4);
    const bool wide = l.lines * tiles * keep >= (std::int64_t{1} << 30);
    gpu::Launch first = blocks(l.start_reading("best_first"));
    first.buffer(l.x).buffer(keys).buffer(places);
    l.order_of(first)
        .size(l.lines)
        .size(length)
        .size(tiles)
        .size(l.step())
        .size(keep)
        .layout(l.walk.sizes, l.walk.lists())
        .wide(wide)
        .run(l.lines * tiles);
    for (length = tiles * keep; length > tile; length = tiles * keep) {
        tiles = (length + tile - 1) / tile;
        Ref<Storage> next_keys = room(key_size), next_places = room(4);
        blocks(l.start("best_next"))
            .buffer(keys)
            .buffer(places)
            .buffer(next_keys)
            .buffer(next_places)
            .size(l.lines)
            .size(length)
            .size(tiles)
            .size(keep)
            .wide(wide)
            .run(l.lines * tiles);
        keys = std::move(next_keys);
        places = std::move(next_places);
    }
    blocks(l.start_reading("best_last"))
        .buffer(keys)
        .buffer(places)
        .buffer(l.x)
        .buffer(c.outputs[0])
        .buffer(c.outputs[1])
        .size(l.lines)
        .size(length)
        .size(1)
        .size(l.step())
        .size(keep)
        .size(l.inner)
        .layout(l.walk.sizes, l.walk.lists())
        .wide(wide)
        .run(l.lines);
}

void run_radix(const graph::Call& c) {
    const Lines l(c);
    if (l.empty()) return;
    KeyLines k;
    k.lines = l.lines;
    k.length = l.length;
    k.wide_keys = l.wide_keys();
    k.wide_places = l.length >= (std::int64_t{1} << 32);
    k.bits = static_cast<int>(8 * size_of(l.x.dtype));
    k.keys = k.allocate_keys(c);
    const std::int64_t count = k.lines * k.length, kept = c.outputs[0].count();
    gpu::Launch keys = l.start_reading("keys");
    keys.buffer(l.x).buffer(k.keys);
    l.order_of(keys).size(count).size(l.length).size(l.step()).layout(l.walk.sizes, l.walk.lists()).over(count);
    radix_sort(c, k);
    l.start_reading("results")
        .constant("PLACE", k.place())
        .buffer(l.x)
        .buffer(k.places)
        .buffer(c.outputs[0])
        .buffer(c.outputs[1])
        .size(kept)
        .size(l.length)
        .size(l.step())
        .size(l.a.keep)
        .size(l.inner)
        .layout(l.walk.sizes, l.walk.lists())
        .wide(count >= (std::int64_t{1} << 30))
        .over(kept);
}

const graph::Implementation list[] = {{.name = "local", .why_not = short_why_not, .run = run_short},
                                      {.name = "best", .why_not = best_why_not, .run = run_best},
                                      {.name = "reference", .run = run_radix}};

}  // namespace

std::span<const graph::Implementation> sort_on_gpu() { return list; }

}  // namespace ops
}  // namespace calor
