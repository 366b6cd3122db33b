// Checks of indices, gather, index_select and one_hot on GPUs.
#include "ops/index/index_gpu.h"

#include <algorithm>
#include <vector>

namespace calor {
namespace kernels {
extern const gpu::KernelFile index_index;
}

namespace index {
namespace {

using graph::Call;

constexpr std::int64_t threads = 256;

/// One index, read back.
std::int64_t read_index(const Call& c, const View& indices, std::int64_t position) {
    std::int64_t offset = 0;
    for (std::int64_t a = indices.rank() - 1; a >= 0; --a) {
        offset += position % indices.size(a) * indices.stride(a);
        position /= indices.size(a);
    }
    Stream& stream = c.backend.stream();
    if (indices.dtype == i32) {
        std::int32_t narrow = 0;
        stream.copy_to_host(&narrow, indices.as<std::int32_t>() + offset, sizeof narrow);
        return narrow;
    }
    std::int64_t wide = 0;
    stream.copy_to_host(&wide, indices.as<std::int64_t>() + offset, sizeof wide);
    return wide;
}

}  // namespace

DType carrier(DType dtype) {
    switch (size_of(dtype)) {
        case 1: return u8;
        case 2: return u16;
        case 4: return u32;
        default: return u64;
    }
}

RangeCheck::RangeCheck(const Call& call, const View& indices, std::int64_t axis, std::int64_t size)
    : call_(call), indices_(indices), axis_(axis), size_(size) {
    const std::int64_t count = indices.count();
    if (count == 0) return;
    groups_ = std::min<std::int64_t>((count + 4 * threads - 1) / (4 * threads), 512);
    firsts_ = graph::scratch(call, groups_ * 8);
    const gpu::Walk walk = row_major(*indices.shape, {indices.strides});
    ops::launch(call, kernels::index_index, "check")
        .constant("PACKED", 0)
        .constant("AT", indices.dtype)
        .constant("RANK", walk.sizes.rank())
        .threads(threads)
        .buffer(indices)
        .buffer(firsts_)
        .size(count)
        .value(size)
        .layout(walk.sizes, walk.lists())
        .run(groups_);
}

void RangeCheck::finish() {
    if (groups_ == 0) return;
    std::vector<std::int64_t> firsts(static_cast<std::size_t>(groups_));
    call_.backend.stream().copy_to_host(firsts.data(), firsts_->data, groups_ * 8);
    const std::int64_t position = *std::ranges::min_element(firsts);
    if (position >= indices_.count()) return;
    fail("index/range", call_.operation, call_.where,
         {{"index", read_index(call_, indices_, position)},
          {"position", position},
          {"axis", axis_},
          {"size", size_},
          {"low", 0},
          {"high", size_ - 1}});
}

void launch_gather(const Call& c, const View& x, const View& indices, const View& y, std::int64_t axis,
                   std::int64_t skip) {
    std::int64_t count = y.count(), along = x.stride(axis);
    if (count == 0 || x.size(axis) == 0) return;
    const Strides from = without(*x.strides, axis);
    gpu::Walk walk = row_major(*indices.shape, {&from, indices.strides});
    // Neighbours that one index moves together go 16 bytes at a time.
    const std::int64_t last = walk.sizes.rank() - 1, n = 16 / size_of(x.dtype);
    bool packed = last >= 0 && walk.strides[0][last] == 1 && walk.strides[1][last] == 0 && walk.sizes[last] % n == 0 &&
                  along % n == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
                  reinterpret_cast<std::uintptr_t>(y.data) % 16 == 0;
    for (std::int64_t a = 0; a < last && packed; ++a) packed = walk.strides[0][a] % n == 0;
    if (packed) {
        walk.sizes[last] /= n;
        for (std::int64_t a = 0; a < last; ++a) walk.strides[0][a] /= n;
        along /= n;
        count /= n;
    }
    gpu::Launch l = ops::launch(c, kernels::index_index, "gather");
    l.constant("PACKED", packed).constant("AT", indices.dtype).constant("RANK", walk.sizes.rank());
    l.constant("SKIPS", skip >= 0);
    packed ? l.constant("E", "pack") : l.constant("E", carrier(x.dtype));
    l.buffer(x).buffer(indices).buffer(y).size(count).value(x.size(axis)).size(along).value(skip);
    l.layout(walk.sizes, walk.lists()).over(count, 2);
}

namespace {

void run_gather(const Call& c) {
    const std::int64_t axis = c.attrs<GatherAttributes>().axis;
    RangeCheck check(c, c.inputs[1], axis, c.inputs[0].size(axis));
    launch_gather(c, c.inputs[0], c.inputs[1], c.outputs[0], axis);
    check.finish();
}

void run_select(const Call& c) {
    const auto& a = c.attrs<SelectAttributes>();
    const View &x = c.inputs[0], &y = c.outputs[0];
    RangeCheck check(c, c.inputs[1], a.axis, x.size(a.axis));
    const Spread spread(c.inputs[1], *y.shape, a.axis);
    launch_gather(c, x, spread.view, y, a.axis, a.zero_skipped ? a.skip : -1);
    check.finish();
}

/// The bits of 1.
std::uint64_t one_of(DType dtype) {
    switch (dtype) {
        case f64: return 0x3ff0000000000000;
        case f32: return 0x3f800000;
        case f16: return 0x3c00;
        case bf16: return 0x3f80;
        default: return 1;
    }
}

void run_one_hot(const Call& c) {
    const View &indices = c.inputs[0], &y = c.outputs[0];
    const std::int64_t classes = c.attrs<OneHotAttributes>().classes;
    RangeCheck check(c, indices, indices.rank(), classes);
    const std::uint64_t one = one_of(y.dtype);
    const gpu::Walk walk = row_major(*indices.shape, {indices.strides});
    gpu::Launch l = ops::launch(c, kernels::index_index, "one_hot");
    l.constant("PACKED", 0).constant("AT", indices.dtype).constant("E", carrier(y.dtype));
    l.constant("RANK", walk.sizes.rank()).buffer(indices).buffer(y).size(y.count()).size(classes);
    switch (size_of(y.dtype)) {
        case 1: l.value(static_cast<std::uint8_t>(one)); break;
        case 2: l.value(static_cast<std::uint16_t>(one)); break;
        case 4: l.value(static_cast<std::uint32_t>(one)); break;
        default: l.value(one);
    }
    l.layout(walk.sizes, walk.lists()).over(y.count(), 2);
    check.finish();
}

const graph::Implementation gather_list[] = {{.name = "reference", .run = run_gather}};
const graph::Implementation select_list[] = {{.name = "reference", .run = run_select}};
const graph::Implementation one_hot_list[] = {{.name = "reference", .run = run_one_hot}};

}  // namespace

std::span<const graph::Implementation> gather_on_gpu() { return gather_list; }
std::span<const graph::Implementation> select_on_gpu() { return select_list; }
std::span<const graph::Implementation> one_hot_on_gpu() { return one_hot_list; }

}  // namespace index
}  // namespace calor
