// How lines are given to the threads of a GPU: a dense line to threads side by side, which read it once where it fits
// their registers; lines side by side to a thread each, or to a few where there are not enough lines.
#include "ops/softmax/softmax_gpu.h"

#include <algorithm>
#include <vector>

#include "core/fail.h"
#include "ops/gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile softmax_softmax;
}

namespace ops {
namespace {

constexpr std::int64_t threads = 256;
constexpr int thread_bits = 8;

/// Strides of a view that lacks `axis`, with 0 there.
Strides with_axis(const View& v, std::int64_t axis) {
    Strides s = *v.strides;
    s.insert(axis, 0);
    return s;
}

struct Operand {
    const View* view = nullptr;
    Strides strides;  ///< over all axes
};

/// The lines of operands along an axis.
struct Lines {
    std::int64_t axis = 0, lines = 1, n = 1, neighbours = 1;
    int shift = 0, hold = 0;
    bool columns = false;
    bool small = false;  ///< one variant a dtype serves every layout
    std::vector<Operand> operands;
    Dims sizes;                    ///< of the other axes, joined, with unit axes in front
    std::vector<Strides> strides;  ///< one list an operand

    std::int64_t loads() const { return n / neighbours; }
    /// From one load to the next along the line.
    std::int64_t step(std::size_t operand) const {
        return neighbours > 1 ? neighbours : operands[operand].strides[axis];
    }
    std::int64_t groups() const { return (lines + (threads >> shift) - 1) / (threads >> shift); }
};

bool aligned(const Lines& l, std::size_t o, std::int64_t n) {
    const Operand& p = l.operands[o];
    if (p.strides[l.axis] != 1 || reinterpret_cast<std::uintptr_t>(p.view->data) % 16 != 0) return false;
    return std::ranges::all_of(l.strides[o], [&](std::int64_t s) { return s % n == 0; });
}

/// `shape`: of x; the operands `lying`, of x's dtype, are read and written along the line.
Lines lines_of(const Shape& shape, std::int64_t axis, std::vector<Operand> operands, std::vector<std::size_t> lying,
               const gpu::DeviceTraits& traits) {
    const std::int64_t units = traits.units;
    Lines l;
    l.axis = axis;
    l.n = shape[axis];
    l.small = numel(shape) < (traits.subgroup > 1 ? 4096 : 1024);
    l.operands = std::move(operands);
    Shape others = shape;
    others[axis] = 1;
    std::vector<const Strides*> lists;
    for (const Operand& o : l.operands) lists.push_back(&o.strides);
    const gpu::Walk walk = gpu::join_axes(others, lists, l.operands[lying.back()].strides);
    l.lines = walk.count();
    std::int64_t rank = walk.sizes.rank();
    for (const std::int64_t r : {1, 3, 8}) {
        if (rank > r || (l.small && r < 8)) continue;
        rank = r;
        break;
    }
    const std::int64_t first = rank - walk.sizes.rank();
    l.sizes = Dims(rank, 1);
    for (std::int64_t a = first; a < rank; ++a) l.sizes[a] = walk.sizes[a - first];
    for (const Strides& s : walk.strides) {
        l.strides.emplace_back(rank, 0);
        for (std::int64_t a = first; a < rank; ++a) l.strides.back()[a] = s[a - first];
    }
    if (l.small) {
        while ((std::int64_t{1} << l.shift) < traits.subgroup && (std::int64_t{4} << l.shift) < l.n) ++l.shift;
        return l;
    }
    const std::size_t out = lying.back();
    const std::int64_t neighbours = 16 / size_of(l.operands[out].view->dtype);
    l.columns = l.n > 1 && l.operands[out].strides[axis] != 1 && l.strides[out][rank - 1] == 1 && l.lines >= 32;
    if (!l.columns && l.n % neighbours == 0 && l.n >= 4 * neighbours &&
        std::ranges::all_of(lying, [&](std::size_t o) { return aligned(l, o, neighbours); })) {
        l.neighbours = neighbours;
    }
    // Side by side: 32 lines a group at least, more threads a line where there are few lines.
    const std::int64_t wanted = l.columns && l.lines < units * 2048 ? 8 : l.columns ? 1 : threads;
    const std::int64_t each = l.columns ? 1 : 4;
    while ((std::int64_t{1} << l.shift) < wanted && (each << l.shift) < l.loads()) ++l.shift;
    const std::int64_t a_thread = (l.loads() + (std::int64_t{1} << l.shift) - 1) >> l.shift;
    l.hold = a_thread <= 4 ? 4 : a_thread <= 8 && l.neighbours <= 4 ? 8 : 0;
    return l;
}

gpu::Launch start(const graph::Call& c, const Lines& l, const char* entry, int kind, int hold) {
    gpu::Launch launch = ops::launch(c, kernels::softmax_softmax, entry);
    launch.constant("X", c.inputs[0].dtype)
        .constant("W", c.backend.gpu()->traits().f64 ? f64 : f32)
        .constant("KIND", kind)
        .constant("VEC", l.neighbours)
        .constant("HOLD", hold)
        .constant("COLUMNS", l.columns)
        .constant("BITS", thread_bits)
        .constant("RANK", l.sizes.rank())
        .constant("LOCAL_STAGE", std::int64_t{1} << l.shift > (l.columns ? 1 : c.backend.gpu()->traits().subgroup))
        .threads(threads);
    return launch;
}
void finish(gpu::Launch& launch, const Lines& l) {
    launch.value(l.shift);
    std::vector<std::span<const std::int64_t>> lists(l.strides.begin(), l.strides.end());
    launch.layout(l.sizes, lists);
    launch.run(l.groups());
}

constexpr int cross_entropy = 4, cross_entropy_grad = 5;  // as in softmax.kernel

/// Every group of threads looks through its share of the classes; the host reads what they found.
void check_classes(const graph::Call& c, const Lines& l) {
    const std::int64_t n = l.n;
    const std::int64_t groups = std::clamp<std::int64_t>((l.lines + threads - 1) / threads, 1, 256);
    const Ref<Storage> first = graph::scratch(c, groups * 8);
    const std::span<const std::int64_t> classes[] = {l.strides[1]};
    start(c, l, "check_classes", cross_entropy, 0)
        .buffer(c.inputs[1])
        .buffer(first)
        .size(l.lines)
        .size(n)
        .layout(l.sizes, classes)
        .run(groups);
    std::vector<std::int64_t> found(static_cast<std::size_t>(groups));
    Stream& stream = c.backend.stream();
    stream.copy_to_host(found.data(), first->data, groups * 8);
    const std::int64_t line = *std::ranges::min_element(found);
    if (line >= l.lines) return;
    std::int64_t offset = 0, rest = line, position = 0;
    for (std::int64_t a = l.sizes.rank() - 1; a >= 0; --a) {
        const std::int64_t index = rest % l.sizes[a];
        rest /= l.sizes[a];
        offset += index * l.strides[1][a];
        position += index * l.strides[2][a];  // the losses lie in row-major order
    }
    std::int64_t label = 0;
    stream.copy_to_host(&label, c.inputs[1].as<std::int64_t>() + offset, 8);
    fail("index/range", c.operation, c.where,
         {{"index", label}, {"position", position}, {"axis", l.axis}, {"size", n}, {"low", 0}, {"high", n - 1}});
}

}  // namespace

void softmax_on_gpu(const graph::Call& c, SoftmaxKernel kind, std::int64_t axis) {
    const View &x = c.inputs[0], &g = c.inputs.back(), &y = c.outputs[0];
    if (y.count() == 0) return;
    const Lines l = lines_of(*y.shape, axis, {{&x, *x.strides}, {&g, *g.strides}, {&y, *y.strides}}, {0, 1, 2},
                             c.backend.gpu()->traits());
    gpu::Launch launch = start(c, l, "softmax_lines", static_cast<int>(kind), l.hold);
    launch.buffer(x).buffer(g).buffer(y).size(l.lines).size(l.loads());
    for (std::size_t o = 0; o < 3; ++o) launch.size(l.step(o));
    finish(launch, l);
}

void cross_entropy_on_gpu(const graph::Call& c, std::int64_t axis) {
    const View &x = c.inputs[0], &classes = c.inputs[1], &loss = c.outputs[0], &sums = c.outputs[1];
    if (loss.count() == 0) return;
    const Lines l = lines_of(*x.shape, axis,
                             {{&x, *x.strides},
                              {&classes, with_axis(classes, axis)},
                              {&loss, with_axis(loss, axis)},
                              {&sums, with_axis(sums, axis)}},
                             {0}, c.backend.gpu()->traits());
    check_classes(c, l);
    gpu::Launch launch = start(c, l, "cross_entropy", cross_entropy, 0);
    launch.buffer(x).buffer(classes).buffer(loss).buffer(sums);
    launch.size(l.lines).size(l.loads()).size(l.n).size(l.step(0));
    finish(launch, l);
}

void cross_entropy_grad_on_gpu(const graph::Call& c, std::int64_t axis) {
    const View &x = c.inputs[0], &classes = c.inputs[1], &sums = c.inputs[2], &g = c.inputs[3], &gx = c.outputs[0];
    if (gx.count() == 0) return;
    const Lines l = lines_of(*x.shape, axis,
                             {{&x, *x.strides},
                              {&classes, with_axis(classes, axis)},
                              {&sums, with_axis(sums, axis)},
                              {&g, with_axis(g, axis)},
                              {&gx, *gx.strides}},
                             {0, 4}, c.backend.gpu()->traits());
    gpu::Launch launch = start(c, l, "cross_entropy_grad", cross_entropy_grad, 0);
    launch.buffer(x).buffer(classes).buffer(sums).buffer(g).buffer(gx);
    launch.size(l.lines).size(l.loads()).size(l.step(0)).size(l.step(4));
    finish(launch, l);
}

}  // namespace ops
}  // namespace calor
