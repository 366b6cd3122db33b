// Strided copies on GPUs: one block where both sides lie alike, transpositions through local memory, vectors along
// rows, else element by element.
#include <algorithm>
#include <cstdlib>

#include "ops/gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile ops_copy;
}

namespace ops {
namespace {

DType carrier(std::int64_t bytes) { return bytes == 1 ? u8 : bytes == 2 ? u16 : bytes == 4 ? u32 : u64; }

/// Neighbours that both sides move at once: 16 bytes, where rows and addresses allow it.
std::int64_t neighbours(const gpu::Walk& walk, const View& from, const View& to) {
    const std::int64_t size = size_of(from.dtype), n = 16 / size;
    const std::int64_t last = walk.sizes.rank() - 1;
    if (last < 0 || walk.sizes[last] % n != 0) return 1;
    for (std::size_t side = 0; side < 2; ++side) {
        const void* data = side == 0 ? from.data : to.data;
        if (walk.strides[side][last] != 1 || reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return 1;
        for (std::int64_t a = 0; a < last; ++a) {
            if (walk.strides[side][a] % n != 0) return 1;
        }
    }
    return n;
}

/// The walk with the axis along which the source runs first and the target's second; empty unless it is a
/// transposition.
gpu::Walk transposition(const gpu::Walk& walk) {
    const std::int64_t last = walk.sizes.rank() - 1;
    std::int64_t dense = -1;
    for (std::int64_t a = 0; a < last; ++a) {
        if (walk.strides[0][a] == 1) dense = a;
    }
    if (dense < 0 || walk.strides[1][last] != 1 || walk.sizes[dense] < 8 || walk.sizes[last] < 8) return {};
    Axes order{dense, last};
    for (std::int64_t a = 0; a < last; ++a) {
        if (a != dense) order.push_back(a);
    }
    gpu::Walk turned;
    turned.strides.resize(2);
    for (const std::int64_t a : order) {
        turned.sizes.push_back(walk.sizes[a]);
        for (std::size_t side = 0; side < 2; ++side) turned.strides[side].push_back(walk.strides[side][a]);
    }
    return turned;
}

}  // namespace

void copy_on_gpu(const graph::Call& call, const View& from, const View& to) {
    const std::int64_t size = size_of(from.dtype), count = from.count();
    if (count == 0) return;
    const Strides* const sides[] = {from.strides, to.strides};
    const gpu::Walk walk = gpu::join_axes(*from.shape, sides, *to.strides);
    if (walk.sizes.rank() == 0 || (walk.sizes.rank() == 1 && walk.strides[0][0] == 1 && walk.strides[1][0] == 1)) {
        return call.backend.gpu()->copy(to.data, from.data, count * size);
    }
    const auto start = [&](const char* entry, std::int64_t rank) {
        gpu::Launch l = launch(call, kernels::ops_copy, entry);
        l.constant("E", carrier(size)).constant("RANK", rank);
        return l;
    };
    if (const gpu::Walk turned = transposition(walk); turned.sizes.rank() > 0) {
        const std::int64_t columns = (turned.sizes[1] + 31) / 32, tiles = (turned.sizes[0] + 31) / 32 * columns;
        const std::int64_t all = count / (turned.sizes[0] * turned.sizes[1]) * tiles;
        const std::int64_t most = std::int64_t{call.backend.gpu()->traits().units} * 32;
        start("transpose", turned.sizes.rank())
            .constant("COUNT", 1)
            .buffer(from)
            .buffer(to)
            .size(columns)
            .size(tiles)
            .size(all)
            .layout(turned.sizes, turned.lists())
            .run(std::min(all, most));
        return;
    }
    const std::int64_t n = neighbours(walk, from, to);
    start("copy", walk.sizes.rank())
        .constant("COUNT", n)
        .buffer(from)
        .buffer(to)
        .size(count / n)
        .layout(walk.sizes, walk.lists())
        .over(count / n);
}

}  // namespace ops
}  // namespace calor
