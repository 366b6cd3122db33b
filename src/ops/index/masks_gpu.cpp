// Positions of true elements on GPUs: their number is read back, as it is the size of the result.
#include "calor/view.h"
#include "graph/node.h"
#include "ops/index/index_gpu.h"
#include "ops/radix.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile index_masks;
}

namespace index {
namespace {

constexpr std::int64_t threads = 256, tile = 16 * threads;

/// What a launch wants to know, for work that belongs to no node.
struct Eager {
    graph::Attributes attributes;
    Device device;
    graph::Call call;
    Eager(std::string_view operation, Device d, const Where& where)
        : device(d), call{operation, attributes, {}, {}, backend(d, where), where} {}
};

}  // namespace

Tensor true_positions_on_gpu(std::string_view operation, const Tensor& flags, const Where& where) {
    const Tensor dense = contiguous(flags.detach(where), where);
    dense.eval(where);
    const Eager eager(operation, flags.device(), where);
    const View view = graph::view_of(graph::value_of(dense));
    const std::int64_t length = view.count(), tiles = (length + tile - 1) / tile;
    const DType count = ops::count_type(length);
    const auto counts = graph::scratch(eager.call, (tiles + 1) * size_of(count));
    eager.call.backend.gpu()->fill(counts->data, 0, (tiles + 1) * size_of(count));
    const auto start = [&](const char* entry) {
        gpu::Launch l = ops::launch(eager.call, kernels::index_masks, entry);
        l.constant("COUNT", count).threads(threads).buffer(view).buffer(counts);
        return l;
    };
    start("true_counts").size(length).run(tiles);
    ops::running_sums(eager.call, counts, count, 1, tiles + 1);  // the last one is the sum of all
    std::uint64_t found = 0;
    eager.call.backend.stream().copy_to_host(&found, static_cast<std::byte*>(counts->data) + tiles * size_of(count),
                                             size_of(count));  // little endian
    const Shape shape{static_cast<std::int64_t>(found)};
    auto positions = eager.call.backend.allocate(checked_bytes(shape, i64, where), operation, where);
    if (found > 0) start("true_positions").buffer(positions).size(length).run(tiles);
    return graph::make_value(std::move(positions), {contiguous_strides(shape), 0}, shape, i64, eager.device, where);
}

Tensor unravel_on_gpu(std::string_view operation, const Tensor& positions, const Shape& shape, const Where& where) {
    const Eager eager(operation, positions.device(), where);
    const std::int64_t count = positions.numel(), rank = shape.rank();
    const Shape result{count, rank};
    auto indices = eager.call.backend.allocate(checked_bytes(result, i64, where), operation, where);
    if (rank > 0) {
        const Strides dense = contiguous_strides(shape);
        const std::span<const std::int64_t> strides[] = {dense};
        ops::launch(eager.call, kernels::index_masks, "unravel")
            .constant("RANK", rank)
            .buffer(graph::view_of(graph::value_of(positions)))
            .buffer(indices)
            .size(count)
            .layout(shape, strides)
            .wide(count * rank >= (std::int64_t{1} << 30))
            .over(count);
    }
    return graph::make_value(std::move(indices), {contiguous_strides(result), 0}, result, i64, eager.device, where);
}

}  // namespace index
}  // namespace calor
